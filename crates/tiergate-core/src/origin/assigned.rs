//! Requests whose server the gate chooses, because each has a limit of its own: which servers may get any, and whether a request goes
//! to the one whose slot it has.

use super::{Elsewhere, Lineup, ServerState, Servers};
use crate::control::Access;
use crate::names::ServerId;
use crate::time::Moment;

impl Servers {
    /// Which servers may get requests, as the gate is to be told ([`Gate::set_access`]). Where none is usable, all may: their
    /// requests are refused at once, or wait for one that is restarting. O(servers).
    ///
    /// [`Gate::set_access`]: crate::gate::Gate::set_access
    pub fn access(&self, now: Moment, lineup: &Lineup) -> Vec<(ServerId, Access)> {
        let states: Vec<ServerState> = self.states(now, lineup).collect();
        let is_any_well = states.iter().any(|it| it.left_out.is_none());
        let is_any_usable = states.iter().any(|it| it.usable);
        let access = |state: &ServerState| match state.left_out {
            _ if !is_any_usable => Access::Open,
            None => Access::Open,
            Some(_) if !state.usable => Access::Closed,
            Some(_) if is_any_well => Access::Once,
            Some(_) => Access::Open,
        };
        lineup.ids().iter().copied().zip(states.iter().map(access)).collect()
    }

    /// A request that has been tried nowhere has a slot of the server at that place: it counts as outstanding there until
    /// [`Servers::done`], unless the server is not usable. O(servers) where it is not well.
    pub fn pick_at(&mut self, now: Moment, lineup: &Lineup, place: usize) -> bool {
        self.budget.request(now);
        self.pick_anew_at(now, lineup, place)
    }

    /// The same for one that has been tried elsewhere ([`Servers::elsewhere`]), or that cost no server anything so far.
    pub fn pick_anew_at(&mut self, now: Moment, lineup: &Lineup, place: usize) -> bool {
        let is_usable = self.is_usable_at(now, lineup, place);
        if is_usable {
            self.send_to(now, lineup, place);
        }
        is_usable
    }

    /// Whether a request that failed at the servers in `tried`, one bit for each place, may go to another; counts it as a
    /// retry if it is one. O(servers).
    pub fn elsewhere(
        &mut self,
        now: Moment,
        lineup: &Lineup,
        tried: u64,
        is_retry: bool,
    ) -> Elsewhere {
        if self.best(now, lineup, tried).is_none() {
            return Elsewhere::Nowhere;
        }
        if is_retry && !self.budget.allows(now, lineup.retries) {
            return Elsewhere::Denied;
        }
        if is_retry {
            self.budget.retry(now);
        }
        Elsewhere::Usable
    }

    fn is_usable_at(&self, now: Moment, lineup: &Lineup, place: usize) -> bool {
        let rules = &lineup.rules;
        let is_usable = |place| self.health(lineup, place).is_usable(now, rules);
        is_usable(place)
            || !(0..lineup.ids.len()).any(is_usable)
                && self.health(lineup, place).is_last_resort(now, rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::retries::Allowance;
    use crate::origin::{Finding, HealthRules};
    use std::time::Duration;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    /// Two servers, one failure of which leaves one out for a second, and retries as a tenth of the requests.
    fn two() -> (Servers, Lineup) {
        let rules = HealthRules {
            failures_max: 1,
            retry_after: Duration::from_secs(1),
            restart_max: Duration::from_secs(2),
            fall: None,
            rise: 1,
        };
        let mut servers = Servers::default();
        let allowance = Allowance { share: 0.1, floor: 0 };
        let lineup = servers.lineup(["one", "two"], rules, allowance).expect("few");
        (servers, lineup)
    }

    fn access(servers: &Servers, ms: u64, lineup: &Lineup) -> Vec<Access> {
        servers.access(at(ms), lineup).into_iter().map(|(_, access)| access).collect()
    }

    #[test]
    fn one_that_is_left_out_is_tried_once_when_its_time_has_come() {
        let (mut servers, lineup) = two();
        assert!(servers.pick_at(at(0), &lineup, 0));
        servers.done(at(1), &lineup, 0, at(0), Finding::Unreachable);
        assert_eq!(access(&servers, 2, &lineup), [Access::Closed, Access::Open]);
        assert!(!servers.pick_at(at(2), &lineup, 0), "the gate did not know yet");
        assert_eq!(access(&servers, 1100, &lineup), [Access::Once, Access::Open]);
        assert!(servers.pick_at(at(1100), &lineup, 0));
        assert_eq!(access(&servers, 1101, &lineup), [Access::Closed, Access::Open]);
        assert!(!servers.pick_at(at(1101), &lineup, 0));
        servers.done(at(1110), &lineup, 0, at(1100), Finding::Alive);
        assert_eq!(access(&servers, 1111, &lineup), [Access::Open, Access::Open]);
    }

    #[test]
    fn where_none_is_usable_all_may_get_requests() {
        let (mut servers, lineup) = two();
        for place in [0, 1] {
            assert!(servers.pick_at(at(0), &lineup, place));
            servers.done(at(1), &lineup, place, at(0), Finding::Unreachable);
        }
        assert_eq!(access(&servers, 2, &lineup), [Access::Open, Access::Open]);
    }

    #[test]
    fn retries_are_as_many_as_the_budget_has() {
        let (mut servers, lineup) = two();
        for _ in 0..10 {
            assert!(servers.pick_at(at(0), &lineup, 0));
        }
        let mut elsewhere = |tried, is_retry| servers.elsewhere(at(1), &lineup, tried, is_retry);
        assert_eq!(elsewhere(0b01, false), Elsewhere::Usable, "it is none");
        assert_eq!(elsewhere(0b01, true), Elsewhere::Usable);
        assert_eq!(elsewhere(0b01, true), Elsewhere::Denied);
        assert_eq!(elsewhere(0b11, true), Elsewhere::Nowhere);
    }
}
