//! Which servers get requests, are left out and come back.

mod checks;
mod lineup;

use super::*;

const PASSIVE: HealthRules = HealthRules {
    failures_max: 2,
    retry_after: Duration::from_secs(1),
    restart_max: Duration::ZERO,
    fall: None,
    rise: 2,
};
/// As [`PASSIVE`], and requests wait for a restart.
const PATIENT: HealthRules = HealthRules { restart_max: Duration::from_secs(2), ..PASSIVE };
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

    /// An active check of the first server ends.
    fn check(&mut self, ms: u64, check: Check) -> Option<Change> {
        self.servers.checked(at(ms), &self.lineup, 0, check)
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
        self.servers.done(at(ms), &self.lineup, place, at(ms), finding)
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

    fn may_restart(&self, ms: u64) -> bool {
        self.servers.may_restart(at(ms), &self.lineup)
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
fn the_only_server_is_waited_for_while_it_may_be_restarting() {
    let mut origin = Origin::new("a", PATIENT, RETRIES);
    assert!(!origin.may_restart(0), "nothing is wrong with it");
    let out = Change::LeftOut(Cause::Unreachable(2));
    assert_eq!(origin.finds(2, 100, 0, Finding::Refused), Some(out));
    let may_wait =
        |origin: &Origin, ms, refused| origin.servers.may_wait(at(ms), &origin.lineup, at(refused));
    assert!(may_wait(&origin, 2099, 100) && !may_wait(&origin, 2100, 100), "it has waited");
    // Others come later, and wait for as long.
    assert!(may_wait(&origin, 10_099, 9_000));
    assert!(origin.may_restart(10_099) && origin.any_usable(10_099));
    assert!(origin.states(10_099)[0].usable);
    assert_eq!(origin.servers.pick_anew(at(10_099), &origin.lineup, 0), Some(0));
    assert_eq!(origin.done(10_099, 0, Finding::Refused), None);
    // It has lasted for longer than a restart: from now on it is tried once a second.
    assert!(!may_wait(&origin, 10_100, 9_000));
    assert!(!origin.may_restart(10_100) && !origin.any_usable(10_100));
    assert_eq!(origin.servers.pick_anew(at(10_100), &origin.lineup, 0), None);
    assert_eq!(origin.pick(11_099), Some(0));
    assert_eq!(origin.done(11_100, 0, Finding::Refused), None);
    assert!(!origin.may_restart(11_100) && !origin.any_usable(11_100), "the same outage");
    assert_eq!(origin.pick(12_100), Some(0));
    assert_eq!(origin.done(12_100, 0, Finding::Alive), Some(Change::Back));
    // The next one is a new one.
    assert_eq!(origin.find(19_000, 0, Finding::Refused), None);
    assert!(origin.may_restart(20_999));
}

#[test]
fn a_restart_may_take_any_time() {
    let rules = HealthRules { restart_max: Duration::MAX, ..PASSIVE };
    let mut origin = Origin::new("a", rules, RETRIES);
    origin.find(0, 0, Finding::Refused);
    assert!(origin.may_restart(1_000_000));
}

#[test]
fn only_a_server_that_refuses_at_once_is_waited_for_and_only_if_no_other_is_well() {
    let mut origin = Origin::new("a b", PATIENT, RETRIES);
    origin.finds(2, 0, 0, Finding::Refused);
    let picked: Vec<_> = (0..4).filter_map(|_| origin.pick(100)).collect();
    assert_eq!(picked, [1, 1, 1, 1]);
    // A request that was denied a retry at the other does not get it for waiting.
    assert!(!origin.may_restart(100));
    origin.done(100, 1, Finding::Refused);
    assert!(origin.may_restart(100), "both are away");
    let mut origin = Origin::new("a", PATIENT, RETRIES);
    origin.finds(2, 0, 0, Finding::Unreachable);
    assert!(!origin.may_restart(1) && !origin.any_usable(1), "each try would take as long");
    // Checks that fail say more.
    let mut origin = Origin::new("a", HealthRules { fall: Some(2), ..PATIENT }, RETRIES);
    origin.finds(2, 0, 0, Finding::Refused);
    assert!(origin.any_usable(1));
    for _ in 0..2 {
        origin.check(0, Check::Failed);
    }
    assert!(!origin.may_restart(1) && !origin.any_usable(1));
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
fn a_server_that_answers_errors_where_its_peers_do_not_does_not_attract_all_requests() {
    let mut origin = Origin::new("good bad", PASSIVE, RETRIES);
    let erred = errors(&mut origin, 0, 5_000);
    // Until the good one has answered a few, and then one try a second.
    assert!((4..40).contains(&erred), "{erred} of 1500 got an error");
    assert!(matches!(origin.states(5_000)[1].left_out, Some(Cause::Broken(_))));
}

/// 300 requests a second for so long: the first server takes 50 ms, the others have an error ready at once. How many got one.
fn errors(origin: &mut Origin, from_ms: u64, to_ms: u64) -> usize {
    let (mut at_good, mut erred) = (std::collections::VecDeque::new(), 0);
    for ms in (from_ms..to_ms).filter(|ms| ms % 10 < 3) {
        while at_good.front().is_some_and(|&sent| sent + 50 <= ms) {
            at_good.pop_front();
            origin.done(ms, 0, Finding::Alive);
        }
        match origin.pick(ms).expect("one is well") {
            0 => at_good.push_back(ms),
            place => {
                erred += 1;
                origin.done(ms, place, Finding::Erred);
            }
        }
    }
    at_good.iter().for_each(|_| assert!(origin.done(to_ms, 0, Finding::Alive).is_none()));
    erred
}

#[test]
fn more_than_half_are_left_out_if_they_do_nothing_but_fail() {
    let mut origin = Origin::new("good bad worse", PASSIVE, RETRIES);
    let first = errors(&mut origin, 0, 2_000);
    let later = errors(&mut origin, 2_000, 7_000);
    assert!(later <= 12, "{later} of 1500 got an error, {first} of 600 at first");
    // The last that is well is not left out, whatever it does.
    origin.finds(100, 7_000, 0, Finding::Erred);
    assert_eq!(origin.states(7_000)[0].left_out, None);
}

#[test]
fn requests_of_one_burst_count_as_one_failure() {
    let mut origin = Origin::new("a b", PASSIVE, RETRIES);
    (0..100).for_each(|ms| assert_eq!(origin.find(ms, 1, Finding::Alive), None));
    let mut burst = |ms: u64, finding| {
        for _ in 0..30 {
            let picked = origin.servers.send(at(ms), &origin.lineup, 0b10);
            assert_eq!(picked, Some(0), "at {ms} ms");
        }
        let of = |_| origin.servers.done(at(ms + 20), &origin.lineup, 0, at(ms), finding);
        (0..30).filter_map(of).count()
    };
    for ms in [100, 200, 300] {
        assert_eq!(burst(ms, Finding::Erred), 0, "at {ms} ms");
    }
    // What was sent after three are known to have failed, and fails too, has not the same cause.
    assert_eq!(burst(400, Finding::Broken), 1);
}

#[test]
fn errors_take_neither_the_only_server_away_nor_any_where_all_err() {
    let mut only = Origin::new("a", PASSIVE, RETRIES);
    assert_eq!(only.finds(1000, 0, 0, Finding::Erred), None);
    let mut origin = Origin::new("a b c", PASSIVE, RETRIES);
    for ms in 0..3000 {
        let place = origin.pick(ms).expect("usable");
        let finding = if ms % 7 < 2 { Finding::Erred } else { Finding::Alive };
        assert_eq!(origin.done(ms, place, finding), None, "at {ms} ms");
    }
}

#[test]
fn a_connection_that_was_closed_while_idle_costs_no_retry() {
    let mut origin = Origin::new("a b", PASSIVE, Allowance { share: 0.0, floor: 0 });
    origin.pick(0);
    assert_eq!(origin.again(0, 0), Again::Denied);
    assert_eq!(origin.servers.pick_anew(at(0), &origin.lineup, 0b01), Some(1));
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
