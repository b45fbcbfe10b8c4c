//! `[session]`: how requests of running sessions are recognised.

use super::place::At;
use super::section::{Kind, section};
use super::show;
use super::values::{COOKIE, FILE_TO_READ, FLAG, TIME, whole};
use crate::secrets::NamedFile;
use crate::session::settings::{Recognised, Session};
use crate::session::token::Secrets;
use std::time::Duration;
use tiergate_core::admit::session::Bounds;

section! {
    /// How requests of running sessions are recognised: by the application's cookie or by a signed one of
    /// Tiergate's own.
    pub(super) struct SessionKeys {
        /// Name of the application's cookie, such as `"JSESSIONID"`. Case matters.
        cookie: Option<String> = COOKIE.optional("either this or `own`");
        /// Whether Tiergate sets a cookie of its own, `tiergate_session`, on the first response below 400.
        own: bool = FLAG.or(false);
        /// File of 1 to 4 secrets for signing Tiergate's own cookie, one per line, as text or as `base64:…`,
        /// each of at least 32 bytes. The first signs, all verify. Use the same file for all gateways of a
        /// site. To replace a secret, add a new first line, and remove the old one after `lifetime`.
        secret_file: Option<NamedFile> =
            FILE_TO_READ.optional("made at start: sessions end with the process");
        /// Time without a request after which a session ends.
        /// Why: as in servlet containers.
        idle: Duration = TIME.or("30m");
        /// Time after which it ends in any case.
        /// Why: a working day; priority should not last for ever.
        lifetime: Duration = TIME.or("12h");
        /// How many sessions are tracked; beyond it, the one that has been idle longest is evicted: of the client
        /// with the most, if it has more than a sixteenth of them.
        /// Why: at most 312 bytes each, 31 MB; enough for half an hour of 50 new sessions a second.
        sessions_max: usize = whole(1..=10_000_000).or(100_000);
        /// How many concurrent requests of one session have priority; further ones wait like those of new
        /// sessions.
        /// Why: browsers open 6 connections to a host, and over HTTP/2 a page requests a few dozen objects at
        /// once. A cookie shared by a thousand clients is still one session.
        at_once_max: u16 = whole(1..=1000).or(32);
    }
}

/// How requests of running sessions are recognised.
pub(super) fn session(At { value: raw, place }: At<SessionKeys>) -> Session {
    if raw.own == place.has("cookie") {
        place.fault(
            "must have either `cookie`, the name of the application's cookie, or `own = true`",
        );
    }
    if place.has("secret_file") && !raw.own {
        place.fault_at("secret_file", "has no effect without `own = true`");
    }
    let SessionKeys { idle, lifetime, sessions_max, at_once_max, .. } = raw;
    if idle > lifetime {
        let [lifetime, idle] = [lifetime, idle].map(show::time);
        place.fault_at("idle", format!("must be at most lifetime, \"{lifetime}\", got \"{idle}\""));
    }
    let recognised = match raw.cookie {
        Some(cookie) => Recognised::Application(cookie),
        None => Recognised::Own(Secrets::of_process()),
    };
    let bounds = Bounds { idle, lifetime, sessions_max, at_once_max };
    Session { recognised, bounds, secret_file: raw.secret_file }
}

/// For `tiergate check`.
pub(crate) fn words(session: &Session) -> Vec<String> {
    let own = crate::session::COOKIE;
    let by = match (&session.recognised, &session.secret_file) {
        (Recognised::Application(cookie), _) => {
            format!(
                "recognised by the application's cookie `{cookie}`, once admitted and answered well"
            )
        }
        (Recognised::Own(_), Some(file)) => format!(
            "recognised by our own cookie `{own}`, signed by a secret of {}",
            file.path.display()
        ),
        (Recognised::Own(_), None) => format!(
            "recognised by our own cookie `{own}`; they end with the process, without `secret_file`"
        ),
    };
    let Bounds { idle, lifetime, sessions_max, at_once_max } = session.bounds;
    let (idle, lifetime) = (show::time(idle), show::time(lifetime));
    vec![
        by,
        format!("over after {idle} without a request, and after {lifetime} in any case"),
        format!(
            "at most {sessions_max} kept; {at_once_max} concurrent requests of each have priority"
        ),
    ]
}
