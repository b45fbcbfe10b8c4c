//! The origin's servers: which of them gets a request, and which of them are well.
//!
//! A server is *left out* after `failures_max` failures in a row (connect refused, reset, timed out:
//! passive checks) or when the active checks say so. One that was left out by passive checks alone is
//! tried by a single request every `retry_after`; success brings it back. If active checks are on,
//! they alone bring it back, so no request is spent on it.
//!
//! A request that failed at one server may be tried at another, as far as the retry budget goes
//! ([`retries`]).

pub mod retries;

use crate::time::Moment;
use retries::{Allowance, RetryBudget};
use std::time::Duration;

/// A server: its place in the policy's list. Unlike the ids of [`crate::names`] it means nothing in another
/// plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerId(pub u16);

impl ServerId {
    /// The place in tables by server.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How servers are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthRules {
    /// Failures in a row, of requests, after which a server is left out. At least 1.
    pub failures_max: u32,
    /// How long until one request tries it again.
    pub retry_after: Duration,
    /// Active checks: failures in a row that take a server out; `None` if there are none.
    pub fall: Option<u32>,
    /// Active checks: successes in a row that bring it back.
    pub rise: u32,
}

/// What a request learnt about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It answered, whatever it said.
    Alive,
    /// It could not be reached, or broke off.
    Broken,
    /// Nothing: the client left first.
    Nothing,
}

#[derive(Clone, Debug, Default)]
struct Health {
    outstanding: u32,
    failures: u32,
    /// Set while left out by passive checks: when the next try is due.
    retry_at: Option<Moment>,
    checks_failed: u32,
    checks_passed: u32,
    /// Left out by active checks.
    sick: bool,
}

/// A server's state, to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Requests in progress there.
    pub outstanding: u32,
    /// Whether it is well.
    pub up: bool,
    /// Whether a request may be sent there now: if it is well, or to try it again.
    pub usable: bool,
    /// Failures in a row.
    pub failures: u32,
}

/// Most servers that an origin may have; a request remembers the ones it tried in one word.
pub const SERVERS_MAX: usize = 64;

/// The servers of one origin: least outstanding requests first, round robin among equals.
#[derive(Clone, Debug)]
pub struct Servers {
    rules: HealthRules,
    list: Vec<Health>,
    turn: usize,
    budget: RetryBudget,
}

/// Where a request goes that is to be tried once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// To this server, where it counts as outstanding.
    To(ServerId),
    /// Nowhere: no server that it has not tried is usable.
    Nowhere,
    /// Nowhere, because there were too many retries lately.
    Denied,
}

impl Servers {
    /// So many servers, all taken to be well.
    ///
    /// # Panics
    /// If there are none, or more than [`SERVERS_MAX`].
    pub fn new(count: usize, rules: HealthRules, retries: Allowance) -> Self {
        assert!((1..=SERVERS_MAX).contains(&count), "an origin has 1 to {SERVERS_MAX} servers");
        let budget = RetryBudget::new(retries);
        Servers { rules, list: vec![Health::default(); count], turn: 0, budget }
    }

    /// Takes over the retries that `former` has counted; the allowance is this one's.
    pub fn inherit_retries(&mut self, former: &Servers, retries: Allowance) {
        self.budget = former.budget.with(retries);
    }

    /// Takes over what `former` knew of a server that stays.
    pub fn inherit(&mut self, server: ServerId, former: &Servers, its_id: ServerId) {
        let known = &former.list[its_id.index()];
        let sick = known.sick && self.rules.fall.is_some();
        self.list[server.index()] = Health { outstanding: 0, sick, ..known.clone() };
    }

    /// The server for a request that has been tried nowhere; `None` if none is usable. The request
    /// counts as outstanding there until [`Servers::done`]. O(servers).
    pub fn pick(&mut self, now: Moment) -> Option<ServerId> {
        self.budget.request(now);
        self.send(now, 0)
    }

    /// The server for a request that is tried once more, and has failed at those in `tried` (one bit
    /// each). O(servers).
    pub fn pick_again(&mut self, now: Moment, tried: u64) -> Again {
        if !self.budget.allows(now) {
            let other = self.best(now, tried).is_some();
            return if other { Again::Denied } else { Again::Nowhere };
        }
        let Some(server) = self.send(now, tried) else {
            return Again::Nowhere;
        };
        self.budget.retry(now);
        Again::To(server)
    }

    /// The usable server with the fewest requests; of several, the one whose turn it is.
    fn best(&self, now: Moment, tried: u64) -> Option<usize> {
        let count = self.list.len();
        (0..count)
            .map(|step| (self.turn + step) % count)
            .filter(|&server| tried & (1 << server) == 0 && self.is_usable(now, server))
            .min_by_key(|&server| self.list[server].outstanding)
    }

    fn send(&mut self, now: Moment, tried: u64) -> Option<ServerId> {
        let best = self.best(now, tried)?;
        self.turn = (best + 1) % self.list.len();
        let health = &mut self.list[best];
        health.outstanding += 1;
        if health.retry_at.is_some() {
            // This request is the try; the next is due only if it says nothing.
            health.retry_at = Some(now + self.rules.retry_after);
        }
        Some(ServerId(best as u16))
    }

    /// Whether any server would get a request now. O(servers).
    pub fn any_usable(&self, now: Moment) -> bool {
        (0..self.list.len()).any(|server| self.is_usable(now, server))
    }

    /// A request is done with its server.
    pub fn done(&mut self, now: Moment, server: ServerId, finding: Finding) {
        let rules = self.rules;
        let health = &mut self.list[server.index()];
        health.outstanding -= 1;
        match finding {
            Finding::Alive => {
                health.failures = 0;
                health.retry_at = None;
            }
            Finding::Broken => {
                health.failures = health.failures.saturating_add(1);
                if health.failures >= rules.failures_max {
                    health.retry_at = Some(now + rules.retry_after);
                }
            }
            Finding::Nothing => {}
        }
    }

    /// An active check has ended. Returns the new state if it changed.
    pub fn checked(&mut self, server: ServerId, passed: bool) -> Option<bool> {
        let fall = self.rules.fall?;
        let health = &mut self.list[server.index()];
        if passed {
            health.checks_failed = 0;
            health.checks_passed = health.checks_passed.saturating_add(1);
            let left_out = health.sick || health.retry_at.is_some();
            if left_out && health.checks_passed >= self.rules.rise {
                health.sick = false;
                health.failures = 0;
                health.retry_at = None;
                return Some(true);
            }
        } else {
            health.checks_passed = 0;
            health.checks_failed = health.checks_failed.saturating_add(1);
            if !health.sick && health.checks_failed >= fall {
                health.sick = true;
                return Some(false);
            }
        }
        None
    }

    /// Every server's state, in the policy's order.
    pub fn states(&self, now: Moment) -> impl Iterator<Item = ServerState> + '_ {
        self.list.iter().enumerate().map(move |(server, health)| ServerState {
            outstanding: health.outstanding,
            up: !health.sick && health.retry_at.is_none(),
            usable: self.is_usable(now, server),
            failures: health.failures,
        })
    }

    fn is_usable(&self, now: Moment, server: usize) -> bool {
        let health = &self.list[server];
        let due = health.retry_at.is_none_or(|at| self.rules.fall.is_none() && at <= now);
        !health.sick && due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSIVE: HealthRules =
        HealthRules { failures_max: 2, retry_after: Duration::from_secs(1), fall: None, rise: 2 };
    const ACTIVE: HealthRules = HealthRules { fall: Some(2), ..PASSIVE };

    fn servers(count: usize, rules: HealthRules) -> Servers {
        Servers::new(count, rules, Allowance { share: 0.2, floor: 10 })
    }

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    #[test]
    fn least_outstanding_wins_and_equals_take_turns() {
        let mut servers = servers(3, PASSIVE);
        let picked: Vec<u16> = (0..3).map(|_| servers.pick(at(0)).expect("all are up").0).collect();
        assert_eq!(picked, [0, 1, 2]);
        servers.done(at(1), ServerId(1), Finding::Alive);
        assert_eq!(servers.pick(at(1)), Some(ServerId(1)));
        assert_eq!(servers.pick_again(at(1), 0b011), Again::To(ServerId(2)));
        assert_eq!(servers.pick_again(at(1), 0b111), Again::Nowhere);
    }

    #[test]
    fn a_failing_server_is_left_out_and_tried_by_one_request_at_a_time() {
        let mut servers = servers(1, PASSIVE);
        for _ in 0..2 {
            let server = servers.pick(at(0)).expect("not failed often enough yet");
            servers.done(at(0), server, Finding::Broken);
        }
        assert!(!servers.any_usable(at(999)));
        assert_eq!(servers.pick(at(999)), None);
        assert_eq!(servers.pick(at(1000)), Some(ServerId(0)));
        assert_eq!(servers.pick(at(1000)), None, "one try at a time");
        // The try's client leaves: the next try is due a second later all the same.
        servers.done(at(1500), ServerId(0), Finding::Nothing);
        assert_eq!(servers.pick(at(2000)), Some(ServerId(0)));
        servers.done(at(2100), ServerId(0), Finding::Alive);
        assert!(servers.any_usable(at(2100)));
        assert!(servers.states(at(2100)).next().expect("one server").up);
    }

    #[test]
    fn success_in_between_resets_the_count() {
        let mut servers = servers(1, PASSIVE);
        for finding in [Finding::Broken, Finding::Alive, Finding::Broken] {
            let server = servers.pick(at(0)).expect("up");
            servers.done(at(0), server, finding);
        }
        assert!(servers.any_usable(at(0)));
    }

    #[test]
    fn active_checks_take_out_and_bring_back() {
        let mut servers = servers(2, ACTIVE);
        assert_eq!(servers.checked(ServerId(0), false), None);
        assert_eq!(servers.checked(ServerId(0), false), Some(false));
        assert_eq!(servers.pick(at(0)), Some(ServerId(1)));
        assert_eq!(servers.pick_again(at(0), 0b10), Again::Nowhere);
        assert_eq!(servers.checked(ServerId(0), true), None);
        assert_eq!(servers.checked(ServerId(0), true), Some(true));
        assert_eq!(servers.pick_again(at(0), 0b10), Again::To(ServerId(0)));
    }

    #[test]
    fn with_active_checks_no_request_is_spent_on_a_broken_server() {
        let mut servers = servers(1, ACTIVE);
        for _ in 0..2 {
            let server = servers.pick(at(0)).expect("up");
            servers.done(at(0), server, Finding::Broken);
        }
        assert_eq!(servers.pick(at(60_000)), None);
        servers.checked(ServerId(0), true);
        assert_eq!(servers.checked(ServerId(0), true), Some(true));
        assert!(servers.any_usable(at(60_000)));
    }

    #[test]
    fn a_reload_keeps_what_is_known() {
        let mut former = servers(2, PASSIVE);
        for _ in 0..2 {
            assert_eq!(former.pick_again(at(0), 0b01), Again::To(ServerId(1)));
            former.done(at(0), ServerId(1), Finding::Broken);
        }
        let mut servers = servers(1, PASSIVE);
        servers.inherit(ServerId(0), &former, ServerId(1));
        assert!(!servers.any_usable(at(10)));
    }

    #[test]
    fn retries_are_denied_beyond_the_budget_and_only_where_there_is_another_server() {
        let mut servers = Servers::new(2, PASSIVE, Allowance { share: 0.5, floor: 0 });
        assert_eq!(servers.pick_again(at(0), 0b01), Again::Denied, "nobody has asked yet");
        assert_eq!(servers.pick_again(at(0), 0b11), Again::Nowhere);
        assert_eq!(servers.pick(at(0)), Some(ServerId(0)));
        assert_eq!(servers.pick(at(0)), Some(ServerId(1)));
        assert_eq!(servers.pick_again(at(0), 0b11), Again::Nowhere, "which costs nothing");
        assert_eq!(servers.pick_again(at(0), 0b01), Again::To(ServerId(1)));
        assert_eq!(servers.pick_again(at(0), 0b01), Again::Denied);
        let outstanding: Vec<u32> = servers.states(at(0)).map(|it| it.outstanding).collect();
        assert_eq!(outstanding, [1, 2], "who is denied is nowhere");
        let mut after = Servers::new(2, PASSIVE, Allowance { share: 1.0, floor: 0 });
        after.inherit_retries(&servers, Allowance { share: 1.0, floor: 0 });
        assert_eq!(after.pick_again(at(0), 0b10), Again::To(ServerId(0)));
        assert_eq!(after.pick_again(at(0), 0b10), Again::Denied);
    }
}
