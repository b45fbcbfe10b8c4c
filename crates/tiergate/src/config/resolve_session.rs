//! Sessions, and who is shed under overload, as written and as meant.

use super::defaults;
use super::meant::{Recognised, RefusalConnection, Session};
use super::raw;
use super::read::At;
use super::resolve::Resolver;
use super::show;
use super::values::is_token;
use crate::session::token::Secrets;
use std::time::Duration;
use tiergate_core::admit::session::Bounds;

impl Resolver<'_> {
    /// How sessions are known again.
    pub(super) fn session(
        &mut self,
        At { value: raw, place }: At<raw::Session>,
    ) -> Option<Session> {
        let own = raw.own.as_ref().is_some_and(|own| own.value);
        if own == raw.cookie.is_some() {
            let how =
                "must have either `cookie`, the name of the application's cookie, or `own = true`";
            self.faults.add(&place, how);
        }
        if let Some(cookie) = raw.cookie.as_ref().filter(|cookie| !is_token(&cookie.value)) {
            let message = format!("must be the name of a cookie, got {:?}", cookie.value);
            self.faults.add(&cookie.place, message);
        }
        if let Some(secret) = raw.secret_file.as_ref().filter(|_| !own) {
            self.faults.add(&secret.place, "is of no use without `own = true`");
        }
        let d = defaults::SESSION;
        let idle_place = raw.idle.as_ref().map(|idle| idle.place.clone());
        let bounds = Bounds {
            idle: self.time(raw.idle, d.idle),
            lifetime: self.time(raw.lifetime, d.lifetime),
            sessions_max: self.number(raw.sessions_max, d.sessions_max as u64, 1..=10_000_000)
                as usize,
            at_once_max: self.number(raw.at_once_max, d.at_once_max.into(), 1..=1000) as u16,
        };
        if bounds.idle > bounds.lifetime {
            let message = format!(
                "must be at most lifetime, \"{}\", got \"{}\"",
                show::time(bounds.lifetime),
                show::time(bounds.idle)
            );
            self.faults.add(&idle_place.unwrap_or(place), message);
        }
        let recognised = match raw.cookie {
            Some(cookie) => Recognised::Application(cookie.value),
            None => Recognised::Own(Secrets::of_process()),
        };
        let secret_file = raw.secret_file.map(|file| self.named_file(file));
        Some(Session { recognised, bounds, secret_file })
    }

    /// The delay of the backlog beyond which requests are shed, and what becomes of their connections.
    pub(super) fn shedding(
        &mut self,
        raw: Option<At<raw::Shedding>>,
    ) -> (Option<Duration>, RefusalConnection) {
        let Some(At { value: raw, .. }) = raw else {
            return (None, defaults::SHED);
        };
        let delay = self.time(raw.delay, defaults::SHED_DELAY);
        (Some(delay), raw.close.map_or(defaults::SHED, |close| close.value.0))
    }
}
