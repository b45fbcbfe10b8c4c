//! The origin's servers: which of them gets a request, and which of them are well.
//!
//! What is known of a server is kept by its id while the process lives ([`Servers`]); a policy says which
//! servers there are, and how they are judged ([`Lineup`]). So nothing that was learnt is lost, or counted
//! twice, by a reload, and requests that are under way at servers of the former policy end where they began.
//!
//! A server is *left out* after `failures_max` connects in a row that failed, or requests in a row that failed
//! otherwise while its peers did better ([`health`]: passive checks), or when active checks say so. One that
//! was left out by passive checks is tried by a single request every `retry_after`; success brings it back. If
//! active checks are on, no request is spent before they pass, and none at all on a server that could not be
//! connected to: there the checks bring it back. For failures that a request may have caused, at most half of
//! the servers are left out, and they are used all the same when there is no other.
//!
//! A request that failed at one server may be tried at another, as far as the retry budget goes
//! ([`retries`]).

mod cancel;
mod health;
pub mod retries;

pub use crate::names::ServerId;
pub use cancel::{OnCancel, Way};
pub use health::{Cause, Change, Finding, HealthRules};

use crate::fault::Fault;
use crate::names::Interned;
use crate::time::Moment;
use cancel::Cancels;
use health::{Health, Record};
use retries::{Allowance, RetryBudget};
use std::time::Duration;

/// Most servers that an origin may have; a request remembers the ones it tried in one word.
pub const SERVERS_MAX: usize = 64;

/// The servers of a policy. A server's *place* is its place in this list.
#[derive(Clone, Debug)]
pub struct Lineup {
    ids: Box<[ServerId]>,
    rules: HealthRules,
    retries: Allowance,
}

impl Lineup {
    /// The server at a place.
    pub fn id(&self, place: usize) -> ServerId {
        self.ids[place]
    }
}

/// A server's state, to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Requests in progress there.
    pub outstanding: u32,
    /// Why it is left out; `None`: it is well.
    pub left_out: Option<Cause>,
    /// Whether a request may be sent there now: if it is well, to try it again, or because no other is well.
    pub usable: bool,
}

/// What is known of a server.
#[derive(Clone, Debug, Default)]
struct Known {
    health: Health,
    cancels: Cancels,
}

/// All servers that a policy ever named. Picks the one with the fewest outstanding requests; equals take
/// turns.
#[derive(Debug, Default)]
pub struct Servers {
    names: Interned<ServerId>,
    known: Vec<Known>,
    turn: usize,
    budget: RetryBudget,
}

/// Where a request goes that is to be tried once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// To the server at this place, where it counts as outstanding.
    To(usize),
    /// Nowhere: no server that it has not tried is usable.
    Nowhere,
    /// Nowhere, because there were too many retries lately.
    Denied,
}

impl Servers {
    /// The servers of a policy, by their addresses. One that was never named is taken to be well.
    ///
    /// # Errors
    /// If there are none or more than [`SERVERS_MAX`], or if too many were named since the start.
    pub fn lineup<'a>(
        &mut self,
        addresses: impl IntoIterator<Item = &'a str>,
        rules: HealthRules,
        retries: Allowance,
    ) -> Result<Lineup, Fault> {
        let ids = addresses.into_iter().map(|address| self.names.intern(address));
        let ids = ids.collect::<Result<Box<[ServerId]>, Fault>>()?;
        if !(1..=SERVERS_MAX).contains(&ids.len()) {
            return Err(Fault::new(format!("an origin has 1 to {SERVERS_MAX} servers")));
        }
        let most = ids.iter().map(|id| id.index() + 1).max().unwrap_or(0);
        self.known.resize_with(most.max(self.known.len()), Known::default);
        Ok(Lineup { ids, rules, retries })
    }

    /// The place of the server for a request that has been tried nowhere; `None` if none is usable. The
    /// request counts as outstanding there until [`Servers::done`]. O(servers).
    pub fn pick(&mut self, now: Moment, lineup: &Lineup) -> Option<usize> {
        self.budget.request(now);
        self.send(now, lineup, 0)
    }

    /// The place of the server for a request that is tried once more, and has failed at those in `tried`
    /// (one bit for each place). O(servers).
    pub fn pick_again(&mut self, now: Moment, lineup: &Lineup, tried: u64) -> Again {
        if !self.budget.allows(now, lineup.retries) {
            let other = self.best(now, lineup, tried).is_some();
            return if other { Again::Denied } else { Again::Nowhere };
        }
        let Some(place) = self.send(now, lineup, tried) else {
            return Again::Nowhere;
        };
        self.budget.retry(now);
        Again::To(place)
    }

    /// The usable server with the fewest requests; of several, the one whose turn it is.
    fn best(&self, now: Moment, lineup: &Lineup, tried: u64) -> Option<usize> {
        let count = lineup.ids.len();
        let least = |usable: &dyn Fn(&Health) -> bool| {
            (0..count)
                .map(|step| (self.turn + step) % count)
                .filter(|&place| tried & (1 << place) == 0 && usable(self.health(lineup, place)))
                .min_by_key(|&place| self.health(lineup, place).outstanding)
        };
        let rules = &lineup.rules;
        least(&|health| health.is_usable(now, rules))
            .or_else(|| least(&|health| health.is_last_resort(rules)))
    }

    fn send(&mut self, now: Moment, lineup: &Lineup, tried: u64) -> Option<usize> {
        let best = self.best(now, lineup, tried)?;
        self.turn = (best + 1) % lineup.ids.len();
        self.known[lineup.id(best).index()].health.send(now, &lineup.rules);
        Some(best)
    }

    /// Whether any server would get a request now. O(servers).
    pub fn any_usable(&self, now: Moment, lineup: &Lineup) -> bool {
        self.best(now, lineup, 0).is_some()
    }

    /// A request is done with its server. Says what has changed for the server. O(1), or O(servers) after a
    /// failure.
    pub fn done(
        &mut self,
        now: Moment,
        lineup: &Lineup,
        place: usize,
        finding: Finding,
    ) -> Option<Change> {
        let id = lineup.id(place).index();
        let mut health = std::mem::take(&mut self.known[id].health);
        let change = health.done(now, &lineup.rules, finding, || self.peers(now, lineup, place));
        self.known[id].health = health;
        change
    }

    /// A request that was sent to the server at that place at `sent` was answered after `took`, and its client
    /// was there to see it. O(1).
    pub fn answered(
        &mut self,
        now: Moment,
        lineup: &Lineup,
        place: usize,
        sent: Moment,
        took: Duration,
    ) {
        self.known[lineup.id(place).index()].cancels.answered(now, sent, took);
    }

    /// A client has left whose request is at the server at that place. Says what to do with it. O(1).
    pub fn left(&mut self, now: Moment, lineup: &Lineup, place: usize, on_cancel: OnCancel) -> Way {
        self.known[lineup.id(place).index()].cancels.left(now, on_cancel)
    }

    /// What came of [`Way::Close`]: whether the server closed the connection without an answer.
    pub fn closed(&mut self, now: Moment, lineup: &Lineup, place: usize, stopped: bool) {
        self.known[lineup.id(place).index()].cancels.closed(now, stopped);
    }

    /// How the other servers did; `None` if half of all would be left out, or more, were this one left out.
    fn peers(&self, now: Moment, lineup: &Lineup, place: usize) -> Option<Record> {
        let others = || (0..lineup.ids.len()).filter(|&other| other != place);
        let well = |&other: &usize| self.health(lineup, other).cause(&lineup.rules).is_none();
        let left_out = lineup.ids.len() - others().filter(well).count();
        let records = others().map(|other| self.health(lineup, other).record);
        (left_out * 2 <= lineup.ids.len())
            .then(|| records.fold(Record::default(), |sum, record| sum.and(record, now)))
    }

    /// An active check of the server at that place has ended. Says what has changed.
    pub fn checked(&mut self, lineup: &Lineup, place: usize, passed: bool) -> Option<Change> {
        self.known[lineup.id(place).index()].health.checked(&lineup.rules, passed)
    }

    /// Every server's state, in the policy's order.
    pub fn states<'a>(
        &'a self,
        now: Moment,
        lineup: &'a Lineup,
    ) -> impl Iterator<Item = ServerState> + 'a {
        let well = (0..lineup.ids.len())
            .any(|place| self.health(lineup, place).is_usable(now, &lineup.rules));
        (0..lineup.ids.len()).map(move |place| {
            let health = self.health(lineup, place);
            ServerState {
                outstanding: health.outstanding,
                left_out: health.cause(&lineup.rules),
                usable: health.is_usable(now, &lineup.rules)
                    || !well && health.is_last_resort(&lineup.rules),
            }
        })
    }

    fn health(&self, lineup: &Lineup, place: usize) -> &Health {
        &self.known[lineup.id(place).index()].health
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSIVE: HealthRules =
        HealthRules { failures_max: 2, retry_after: Duration::from_secs(1), fall: None, rise: 2 };
    const ACTIVE: HealthRules = HealthRules { fall: Some(2), ..PASSIVE };
    const RETRIES: Allowance = Allowance { share: 0.2, floor: 10 };

    /// The servers of one policy.
    struct Origin {
        servers: Servers,
        lineup: Lineup,
    }

    impl Origin {
        fn new(addresses: &str, rules: HealthRules, retries: Allowance) -> Self {
            let mut servers = Servers::default();
            let lineup = servers.lineup(addresses.split(' '), rules, retries).expect("few");
            Origin { servers, lineup }
        }

        fn reload(&mut self, addresses: &str, rules: HealthRules) -> Lineup {
            let lineup = self.servers.lineup(addresses.split(' '), rules, RETRIES).expect("few");
            std::mem::replace(&mut self.lineup, lineup)
        }

        fn pick(&mut self, ms: u64) -> Option<usize> {
            self.servers.pick(at(ms), &self.lineup)
        }

        fn again(&mut self, ms: u64, tried: u64) -> Again {
            self.servers.pick_again(at(ms), &self.lineup, tried)
        }

        fn done(&mut self, ms: u64, place: usize, finding: Finding) -> Option<Change> {
            self.servers.done(at(ms), &self.lineup, place, finding)
        }

        /// A request to that server alone.
        fn find(&mut self, ms: u64, place: usize, finding: Finding) -> Option<Change> {
            let picked = self.servers.send(at(ms), &self.lineup, !(1 << place));
            assert_eq!(picked, Some(place), "at {ms} ms");
            self.done(ms, place, finding)
        }

        /// So many requests to that server alone; the change after the last.
        fn finds(&mut self, count: u32, ms: u64, place: usize, finding: Finding) -> Option<Change> {
            (0..count).fold(None, |_, _| self.find(ms, place, finding))
        }

        fn any_usable(&self, ms: u64) -> bool {
            self.servers.any_usable(at(ms), &self.lineup)
        }

        fn states(&self, ms: u64) -> Vec<ServerState> {
            self.servers.states(at(ms), &self.lineup).collect()
        }
    }

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    #[test]
    fn least_outstanding_wins_and_equals_take_turns() {
        let mut origin = Origin::new("a b c", PASSIVE, RETRIES);
        let picked: Vec<usize> = (0..3).map(|_| origin.pick(0).expect("all are up")).collect();
        assert_eq!(picked, [0, 1, 2]);
        origin.done(1, 1, Finding::Alive);
        assert_eq!(origin.pick(1), Some(1));
        assert_eq!(origin.again(1, 0b011), Again::To(2));
        assert_eq!(origin.again(1, 0b111), Again::Nowhere);
    }

    #[test]
    fn an_unreachable_server_is_left_out_and_tried_by_one_request_at_a_time() {
        let mut origin = Origin::new("a", PASSIVE, RETRIES);
        assert_eq!(origin.find(0, 0, Finding::Unreachable), None);
        let out = Change::LeftOut(Cause::Unreachable(2));
        assert_eq!(origin.find(0, 0, Finding::Unreachable), Some(out));
        assert!(!origin.any_usable(999));
        assert_eq!(origin.pick(999), None);
        assert_eq!(origin.pick(1000), Some(0));
        assert_eq!(origin.pick(1000), None, "one try at a time");
        // The try's client leaves: the next try is due a second later all the same.
        origin.done(1500, 0, Finding::Nothing);
        assert_eq!(origin.pick(2000), Some(0));
        assert_eq!(origin.done(2100, 0, Finding::Alive), Some(Change::Back));
        assert_eq!(origin.states(2100)[0].left_out, None);
    }

    #[test]
    fn success_in_between_resets_the_count() {
        let mut origin = Origin::new("a", PASSIVE, RETRIES);
        for finding in [Finding::Unreachable, Finding::Alive, Finding::Unreachable] {
            assert_eq!(origin.find(0, 0, finding), None);
        }
        assert!(origin.any_usable(0));
    }

    #[test]
    fn requests_that_fail_do_not_take_the_only_server_away() {
        let mut origin = Origin::new("a", PASSIVE, RETRIES);
        for ms in 0..1000 {
            assert_eq!(origin.find(ms, 0, Finding::Broken), None);
        }
        // Nor is one left out any longer that answers badly, but can be connected to.
        origin.finds(2, 1000, 0, Finding::Unreachable);
        assert_eq!(origin.find(2000, 0, Finding::Broken), Some(Change::Back));
    }

    #[test]
    fn a_client_whose_requests_fail_everywhere_takes_no_server_away() {
        let mut origin = Origin::new("a b c", PASSIVE, RETRIES);
        for ms in 0..300 {
            let place = origin.pick(ms).expect("usable");
            assert_eq!(origin.done(ms, place, Finding::Broken), None);
        }
        // And the same among others, who are well served: of three requests, one fails.
        for ms in 300..3000 {
            let place = origin.pick(ms).expect("usable");
            let finding = if ms % 7 < 2 { Finding::Broken } else { Finding::Alive };
            assert_eq!(origin.done(ms, place, finding), None, "at {ms} ms");
        }
    }

    #[test]
    fn a_server_that_fails_where_its_peers_do_not_is_left_out() {
        let mut origin = Origin::new("a b c", PASSIVE, RETRIES);
        (0..100).for_each(|ms| assert_eq!(origin.find(ms, 1, Finding::Alive), None));
        let mut failed = (0..10).map(|_| origin.find(100, 0, Finding::Broken));
        assert_eq!(failed.position(|change| change.is_some()), Some(2), "the third is no chance");
        assert_eq!(origin.states(100)[0].left_out, Some(Cause::Broken(3)));
        assert!(!origin.states(100)[0].usable);
        // Of the other two, none: half of the servers stay.
        (0..100).for_each(|_| assert_eq!(origin.find(100, 2, Finding::Broken), None));
        // It comes back by one request that is answered.
        assert_eq!(origin.find(1100, 0, Finding::Alive), Some(Change::Back));
    }

    #[test]
    fn a_server_that_only_fails_requests_is_used_when_no_other_is_left() {
        let mut origin = Origin::new("a b", PASSIVE, RETRIES);
        (0..100).for_each(|ms| assert_eq!(origin.find(ms, 1, Finding::Alive), None));
        origin.finds(3, 100, 0, Finding::Broken);
        assert_eq!(origin.pick(100), Some(1));
        origin.finds(2, 100, 1, Finding::Unreachable);
        assert_eq!(origin.states(100)[1].left_out, Some(Cause::Unreachable(2)));
        assert_eq!((0..5).filter(|_| origin.pick(100) == Some(0)).count(), 5);
        assert!(origin.states(100)[0].usable);
    }

    #[test]
    fn passive_checks_can_be_switched_off() {
        let mut origin = Origin::new("a b", HealthRules { failures_max: 0, ..PASSIVE }, RETRIES);
        (0..100).for_each(|ms| assert_eq!(origin.find(ms, 1, Finding::Alive), None));
        for _ in 0..100 {
            assert_eq!(origin.find(100, 0, Finding::Unreachable), None);
            assert_eq!(origin.find(100, 0, Finding::Broken), None);
        }
    }

    #[test]
    fn active_checks_take_out_and_bring_back() {
        let mut origin = Origin::new("a b", ACTIVE, RETRIES);
        let check = |origin: &mut Origin, passed| origin.servers.checked(&origin.lineup, 0, passed);
        assert_eq!(check(&mut origin, false), None);
        assert_eq!(check(&mut origin, false), Some(Change::LeftOut(Cause::Checks(2))));
        assert_eq!(origin.pick(0), Some(1));
        assert_eq!(origin.again(0, 0b10), Again::Nowhere);
        assert_eq!(check(&mut origin, true), None);
        assert_eq!(check(&mut origin, true), Some(Change::Back));
        assert_eq!(origin.again(0, 0b10), Again::To(0));
    }

    #[test]
    fn with_active_checks_no_request_is_spent_on_an_unreachable_server() {
        let mut origin = Origin::new("a", ACTIVE, RETRIES);
        origin.finds(2, 0, 0, Finding::Unreachable);
        assert_eq!(origin.pick(60_000), None);
        origin.servers.checked(&origin.lineup, 0, true);
        assert_eq!(origin.servers.checked(&origin.lineup, 0, true), Some(Change::Back));
        assert!(origin.any_usable(60_000));
    }

    #[test]
    fn checks_before_a_server_failed_do_not_bring_it_back() {
        let mut origin = Origin::new("a", ACTIVE, RETRIES);
        let check = |origin: &mut Origin| origin.servers.checked(&origin.lineup, 0, true);
        (0..9).for_each(|_| assert_eq!(check(&mut origin), None));
        origin.finds(2, 0, 0, Finding::Unreachable);
        assert_eq!(check(&mut origin), None, "two in a row are needed");
        assert_eq!(check(&mut origin), Some(Change::Back));
    }

    #[test]
    fn a_server_that_passes_checks_but_fails_requests_is_tried_by_one_at_a_time() {
        let mut origin = Origin::new("a b", ACTIVE, RETRIES);
        let check = |origin: &mut Origin| origin.servers.checked(&origin.lineup, 0, true);
        (0..100).for_each(|ms| assert_eq!(origin.find(ms, 1, Finding::Alive), None));
        origin.finds(3, 100, 0, Finding::Broken);
        let out = Some(Cause::Broken(3));
        assert_eq!(origin.states(100)[0].left_out, out);
        assert_eq!(check(&mut origin), None);
        assert_eq!(origin.pick(5000), Some(1), "not before its checks pass");
        assert_eq!(check(&mut origin), None);
        assert_eq!(origin.states(5000)[0].left_out, out, "checks do not see what failed");
        assert_eq!(origin.pick(5000), Some(0));
        assert_eq!(origin.pick(5000), Some(1), "one try at a time");
        assert_eq!(origin.done(5100, 0, Finding::Broken), None);
        assert_eq!(origin.pick(6000), Some(1));
        assert_eq!(origin.pick(6100), Some(0));
        assert_eq!(origin.done(6200, 0, Finding::Alive), Some(Change::Back));
    }

    #[test]
    fn a_server_that_fails_requests_and_then_its_checks_is_tried_once_checks_pass() {
        let mut origin = Origin::new("a b", ACTIVE, RETRIES);
        let check = |origin: &mut Origin, passed| origin.servers.checked(&origin.lineup, 0, passed);
        (0..100).for_each(|ms| assert_eq!(origin.find(ms, 1, Finding::Alive), None));
        origin.finds(3, 100, 0, Finding::Broken);
        (0..2).for_each(|_| drop(check(&mut origin, false)));
        assert_eq!(origin.states(200)[0].left_out, Some(Cause::Checks(2)));
        assert_eq!(origin.pick(9000), Some(1));
        (0..2).for_each(|_| assert_eq!(check(&mut origin, true), None));
        assert_eq!(origin.find(9000, 0, Finding::Alive), Some(Change::Back));
    }

    #[test]
    fn reloads_forget_nothing_of_a_server() {
        let mut origin = Origin::new("a b", PASSIVE, RETRIES);
        origin.finds(2, 0, 1, Finding::Unreachable);
        assert_eq!(origin.pick(0), Some(0));
        // `a` goes, with a request there that ends later; `b` stays under another number.
        let former = origin.reload("b c", PASSIVE);
        assert!(origin.states(10)[0].left_out.is_some());
        assert_eq!(origin.pick(10), Some(1));
        origin.reload("c a b", PASSIVE);
        let outstanding =
            |origin: &Origin| origin.states(10).iter().map(|it| it.outstanding).collect();
        let counts: Vec<u32> = outstanding(&origin);
        assert_eq!(counts, [1, 1, 0]);
        origin.servers.done(at(20), &former, 0, Finding::Alive);
        let counts: Vec<u32> = outstanding(&origin);
        assert_eq!(counts, [1, 0, 0]);
        assert!(origin.states(10)[2].left_out.is_some());
    }

    #[test]
    fn what_checks_said_does_not_outlive_them() {
        let mut origin = Origin::new("a", ACTIVE, RETRIES);
        for _ in 0..2 {
            origin.servers.checked(&origin.lineup, 0, false);
        }
        assert!(!origin.any_usable(0));
        origin.reload("a", PASSIVE);
        assert_eq!(origin.find(0, 0, Finding::Alive), None);
        origin.reload("a", ACTIVE);
        assert!(origin.any_usable(0));
    }

    #[test]
    fn retries_are_denied_beyond_the_budget_and_only_where_there_is_another_server() {
        let mut origin = Origin::new("a b", PASSIVE, Allowance { share: 0.5, floor: 0 });
        assert_eq!(origin.again(0, 0b01), Again::Denied, "nobody has asked yet");
        assert_eq!(origin.again(0, 0b11), Again::Nowhere);
        assert_eq!(origin.pick(0), Some(0));
        assert_eq!(origin.pick(0), Some(1));
        assert_eq!(origin.again(0, 0b11), Again::Nowhere, "which costs nothing");
        assert_eq!(origin.again(0, 0b01), Again::To(1));
        assert_eq!(origin.again(0, 0b01), Again::Denied);
        let outstanding: Vec<u32> = origin.states(0).iter().map(|it| it.outstanding).collect();
        assert_eq!(outstanding, [1, 2], "who is denied is nowhere");
    }

    #[test]
    fn an_origin_has_a_bounded_number_of_servers() {
        let many: Vec<String> = (0..=SERVERS_MAX).map(|number| number.to_string()).collect();
        let mut servers = Servers::default();
        assert!(servers.lineup(many.iter().map(String::as_str), PASSIVE, RETRIES).is_err());
        assert!(servers.lineup([], PASSIVE, RETRIES).is_err());
    }
}
