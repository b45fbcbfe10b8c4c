//! Active checks.

use super::*;

#[test]
fn active_checks_take_out_and_bring_back() {
    let mut origin = Origin::new("a b", ACTIVE, RETRIES);
    let check = |origin: &mut Origin, passed| {
        origin.check(0, if passed { Check::Passed } else { Check::Failed })
    };
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
    origin.check(0, Check::Passed);
    assert_eq!(origin.check(0, Check::Passed), Some(Change::Back));
    assert!(origin.any_usable(60_000));
}

#[test]
fn checks_before_a_server_failed_do_not_bring_it_back() {
    let mut origin = Origin::new("a", ACTIVE, RETRIES);
    let check = |origin: &mut Origin| origin.check(0, Check::Passed);
    (0..9).for_each(|_| assert_eq!(check(&mut origin), None));
    origin.finds(2, 0, 0, Finding::Unreachable);
    assert_eq!(check(&mut origin), None, "two in a row are needed");
    assert_eq!(check(&mut origin), Some(Change::Back));
}

#[test]
fn a_server_that_passes_checks_but_fails_requests_is_tried_by_one_at_a_time() {
    let mut origin = Origin::new("a b", ACTIVE, RETRIES);
    let check = |origin: &mut Origin| origin.check(0, Check::Passed);
    (0..100).for_each(|ms| assert_eq!(origin.find(ms, 1, Finding::Alive), None));
    origin.finds(3, 100, 0, Finding::Broken);
    let out = Some(Cause::Broken(3));
    assert_eq!(origin.states(100)[0].left_out, out);
    assert_eq!(origin.pick(5000), Some(1), "not before a check passes");
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
    let check = |origin: &mut Origin, passed| {
        origin.check(0, if passed { Check::Passed } else { Check::Failed })
    };
    (0..100).for_each(|ms| assert_eq!(origin.find(ms, 1, Finding::Alive), None));
    origin.finds(3, 100, 0, Finding::Broken);
    assert_eq!(check(&mut origin, false), None);
    assert_eq!(check(&mut origin, false), Some(Change::LeftOut(Cause::Checks(2))));
    assert_eq!(origin.states(200)[0].left_out, Some(Cause::Checks(2)));
    assert_eq!(check(&mut origin, true), None);
    assert_eq!(
        origin.pick(9000),
        Some(1),
        "checks took it out, too: so many of them bring it back"
    );
    assert_eq!(check(&mut origin, true), None);
    assert_eq!(origin.find(9000, 0, Finding::Alive), Some(Change::Back));
}

#[test]
fn a_server_that_is_left_out_is_checked_more_often() {
    let mut origin = Origin::new("a b", ACTIVE, RETRIES);
    let pause = |origin: &Origin, ms| {
        origin.servers.check_pause(&origin.lineup, 0, Duration::from_millis(ms)).as_millis()
    };
    origin.check(0, Check::Failed);
    assert_eq!(pause(&origin, 2000), 2000, "it is not out yet: it may be restarting");
    origin.check(0, Check::Failed);
    assert_eq!((pause(&origin, 2000), pause(&origin, 300)), (1000, 300));
    assert_eq!(origin.check(0, Check::Passed), None);
    assert_eq!(origin.check(0, Check::Passed), Some(Change::Back));
    assert_eq!(pause(&origin, 2000), 2000);
    origin.finds(2, 100, 0, Finding::Unreachable);
    assert_eq!(pause(&origin, 2000), 1000, "left out because of requests");
    origin.check(200, Check::Passed);
    assert_eq!(pause(&origin, 2000), 1000, "one that passed is not enough");
    origin.check(300, Check::Passed);
    assert_eq!(pause(&origin, 2000), 2000);
}

#[test]
fn a_restart_that_checks_see_is_waited_for_too() {
    let rules = HealthRules { restart_max: Duration::from_secs(2), ..ACTIVE };
    let mut origin = Origin::new("a", rules, RETRIES);
    assert_eq!(origin.check(0, Check::Refused), None);
    assert_eq!(origin.check(500, Check::Refused), Some(Change::LeftOut(Cause::Checks(2))));
    assert!(origin.may_restart(600));
    assert_eq!(origin.find(600, 0, Finding::Refused), None);
    assert!(!origin.may_restart(10_001), "it lasts");
    assert_eq!(origin.pick(10_001), None);
    // Back, as a request finds out.
    let mut origin = Origin::new("a", rules, RETRIES);
    (0..2).for_each(|at| assert_eq!(origin.check(at, Check::Refused).is_some(), at == 1));
    assert_eq!(origin.find(900, 0, Finding::Alive), Some(Change::Back));
    assert_eq!(origin.states(900)[0].left_out, None);
    // Back, and not well yet.
    let mut origin = Origin::new("a", rules, RETRIES);
    (0..2).for_each(|at| assert_eq!(origin.check(at, Check::Refused).is_some(), at == 1));
    assert_eq!(origin.check(900, Check::Failed), None);
    assert_eq!(origin.pick(901), None);
}

#[test]
fn some_errors_are_the_requests_own() {
    let findings = [200, 404, 429, 501, 505].map(Finding::of_status);
    assert_eq!(findings, [Finding::Alive; 5]);
    assert_eq!([500, 502, 503, 504].map(Finding::of_status), [Finding::Erred; 4]);
}

#[test]
fn a_server_that_is_silent_to_checks_is_used_for_a_while_where_there_is_no_other() {
    let rules = HealthRules { restart_max: Duration::from_secs(2), ..ACTIVE };
    for (addresses, ways) in [("a", [true, false, false]), ("a b", [false; 3])] {
        let mut origin = Origin::new(addresses, rules, RETRIES);
        assert_eq!(origin.check(0, Check::Silent), None);
        assert_eq!(origin.check(500, Check::Silent), Some(Change::LeftOut(Cause::Checks(2))));
        for (ms, is_used) in [600, 10_000, 60_000].into_iter().zip(ways) {
            let place = origin.pick(ms);
            assert_eq!(place == Some(0), is_used, "{addresses} at {ms}");
            place
                .into_iter()
                .for_each(|place| assert_eq!(origin.done(ms, place, Finding::Nothing), None));
        }
        origin.check(61_000, Check::Failed);
        origin.check(61_100, Check::Silent);
        assert_eq!(origin.pick(61_200), Some(usize::from(addresses != "a")));
        origin.check(61_300, Check::Failed);
        assert_ne!(origin.pick(61_400), Some(0), "it says itself that it is not well");
    }
}
