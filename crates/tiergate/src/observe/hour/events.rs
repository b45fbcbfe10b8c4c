//! What happened: changes of the limit that matter, servers that went and came, configurations.

use super::super::server::{Health, ServerStatus};
use super::super::snapshot::Snapshot;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::SystemTime;
use tiergate_core::control::{Cause, Step};
use tiergate_core::time::Moment;

/// Events that are kept.
const EVENTS_MAX: usize = 100;
/// A change of the limit by a factor that is less, and for no cause of its own, is no event: an adaptive limit changes all the time.
const STEP_MIN: f64 = 1.25;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When. Seconds of UNIX time.
    pub at_seconds: u64,
    /// What, for a person.
    pub what: String,
    /// Whether it is a change of the limit, or of what sets it.
    pub is_of_limit: bool,
}

/// What happened, the latest last; and the states by which the next is known.
#[derive(Debug, Default)]
pub struct Events {
    all: VecDeque<Event>,
    step: Option<Moment>,
    /// Slots at the last event of the limit.
    slots: Option<u32>,
    health: Option<Vec<(String, Health)>>,
}

impl Events {
    /// All of them, the oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Event> + Clone {
        self.all.iter()
    }

    /// Something else happened.
    pub fn push(&mut self, at: SystemTime, what: String, is_of_limit: bool) {
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if self.all.len() == EVENTS_MAX {
            self.all.pop_front();
        }
        self.all.push_back(Event { at_seconds: at.as_secs(), what, is_of_limit });
    }

    pub(super) fn sample(&mut self, at: SystemTime, snapshot: &Snapshot, servers: &[ServerStatus]) {
        self.limit(at, snapshot.default.slots, snapshot.default.last_step);
        self.servers(at, servers);
    }

    fn limit(&mut self, at: SystemTime, slots: u32, last: Option<(Moment, Step)>) {
        let before = *self.slots.get_or_insert(slots);
        let Some((moment, step)) = last.filter(|(moment, _)| self.step != Some(*moment)) else {
            return;
        };
        let is_first_look = self.step.replace(moment).is_none() && before == slots;
        let (low, high) = (before.min(slots).max(1), before.max(slots));
        let is_large = f64::from(high) / f64::from(low) >= STEP_MIN;
        let is_notable = matches!(
            step.cause,
            Cause::Failures | Cause::Pushback | Cause::Target | Cause::Reload | Cause::Adjusted
        );
        if is_first_look || before == slots || !(is_large || is_notable) {
            return;
        }
        self.slots = Some(slots);
        let why = super::super::words::cause(step.cause.name());
        self.push(at, format!("limit {before} → {slots} slots: {why}"), true);
    }

    fn servers(&mut self, at: SystemTime, servers: &[ServerStatus]) {
        let name = |it: &ServerStatus| match it.pool.as_str() {
            "" => it.address.clone(),
            pool => format!("{} (pool {pool})", it.address),
        };
        let now: Vec<(String, Health)> = servers.iter().map(|it| (name(it), it.health)).collect();
        let Some(before) = self.health.replace(now.clone()) else { return };
        for ((name, health), server) in now.iter().zip(servers) {
            let was = before.iter().find(|it| it.0 == *name).map_or(Health::Up, |it| it.1);
            let what = match (was == Health::Up, *health == Health::Up) {
                (true, false) => {
                    let why = server.detail.as_deref().unwrap_or("it fails");
                    format!("server {name} is left out: {why}")
                }
                (false, true) => format!("server {name} is back"),
                _ => continue,
            };
            self.push(at, what, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(health: Health) -> ServerStatus {
        let detail = (health != Health::Up).then(|| "connection refused".to_owned());
        ServerStatus { address: "a:80".to_owned(), health, detail, ..ServerStatus::default() }
    }

    #[test]
    fn servers_that_go_and_come_are_said_once() {
        let (mut events, now) = (Events::default(), SystemTime::UNIX_EPOCH);
        for health in
            [Health::Up, Health::Down, Health::Probing, Health::Down, Health::Up, Health::Up]
        {
            events.servers(now, &[server(health)]);
        }
        let all: Vec<&str> = events.all().map(|it| it.what.as_str()).collect();
        assert_eq!(all, ["server a:80 is left out: connection refused", "server a:80 is back"]);
    }

    #[test]
    fn small_steps_of_the_limit_are_no_events_until_they_add_up() {
        let (mut events, now) = (Events::default(), SystemTime::UNIX_EPOCH);
        let step = |second: u64, slots, cause| {
            Some((Moment::from_millis(second * 1_000), Step { slots, cause }))
        };
        events.limit(now, 40, None);
        for (second, slots) in (1..).zip([42, 44, 46, 48]) {
            events.limit(now, slots, step(second, slots, Cause::Grew));
        }
        assert_eq!(events.all().count(), 0);
        events.limit(now, 50, step(9, 50, Cause::Grew));
        events.limit(now, 50, step(9, 50, Cause::Grew));
        events.limit(now, 49, step(10, 49, Cause::Pushback));
        let all: Vec<&str> = events.all().map(|it| it.what.as_str()).collect();
        assert_eq!(all.len(), 2);
        assert!(all[0].starts_with("limit 40 → 50 slots") && all[1].starts_with("limit 50 → 49"));
    }

    #[test]
    fn they_are_bounded() {
        let mut events = Events::default();
        for number in 0..2 * EVENTS_MAX {
            events.push(SystemTime::UNIX_EPOCH, number.to_string(), false);
        }
        assert_eq!(events.all().count(), EVENTS_MAX);
        assert_eq!(events.all().next_back().map(|it| it.what.as_str()), Some("199"));
    }
}
