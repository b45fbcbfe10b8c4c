//! Servers that come, go and end; retries and bounds.

use super::*;

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
    let outstanding = |origin: &Origin| origin.states(10).iter().map(|it| it.outstanding).collect();
    let counts: Vec<u32> = outstanding(&origin);
    assert_eq!(counts, [1, 1, 0]);
    origin.servers.done(at(20), &former, 0, at(20), Finding::Alive);
    let counts: Vec<u32> = outstanding(&origin);
    assert_eq!(counts, [1, 0, 0]);
    assert!(origin.states(10)[2].left_out.is_some());
}

#[test]
fn what_checks_said_does_not_outlive_them() {
    let mut origin = Origin::new("a", ACTIVE, RETRIES);
    for _ in 0..2 {
        origin.check(0, Check::Failed);
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

#[test]
fn no_further_try_goes_to_a_server_while_one_hangs() {
    let mut origin = Origin::new("a", PASSIVE, RETRIES);
    origin.finds(2, 0, 0, Finding::Unreachable);
    assert!(!origin.any_usable(999) && origin.any_usable(1000));
    // The try hangs: requests wait for nothing there.
    assert_eq!(origin.pick(1000), Some(0));
    assert!(!origin.any_usable(2000) && !origin.any_usable(11_999));
    assert_eq!(origin.pick(2000), None);
    // It fails at last, and the next is due as usual.
    assert_eq!(origin.done(4000, 0, Finding::Unreachable), None);
    assert!(!origin.any_usable(4999) && origin.any_usable(5000));
    // What never ends does not keep a server out for ever.
    assert_eq!(origin.pick(5000), Some(0));
    assert!(!origin.any_usable(15_999) && origin.any_usable(16_000));
}

#[test]
fn a_server_that_is_about_to_end_gets_requests_only_where_there_is_no_other() {
    let mut origin = Origin::new("a b", PASSIVE, RETRIES);
    origin.servers.ends(&origin.lineup.clone(), 0, true);
    for _ in 0..4 {
        assert_eq!(origin.pick(0), Some(1), "however many are in progress there");
    }
    let states: Vec<ServerState> = origin.servers.states(at(0), &origin.lineup).collect();
    assert_eq!((states[0].usable, states[0].left_out), (false, Some(Cause::Ending)));
    // The other fails; it is still there.
    origin.finds(2, 10, 1, Finding::Unreachable);
    assert_eq!(origin.pick(20), Some(0));
    assert_eq!(origin.done(30, 0, Finding::Alive), None, "an answer does not keep it");
    assert!(!origin.servers.health(&origin.lineup, 0).is_usable(at(30), &PASSIVE));
    // One has taken its place.
    origin.servers.ends(&origin.lineup.clone(), 0, false);
    assert!(origin.servers.health(&origin.lineup, 0).is_usable(at(40), &PASSIVE));
}

#[test]
fn one_that_was_about_to_end_and_refuses_is_waited_for_as_any_other() {
    let mut origin = Origin::new("a", PATIENT, RETRIES);
    origin.servers.ends(&origin.lineup.clone(), 0, true);
    origin.finds(3, 10, 0, Finding::Refused);
    assert!(origin.servers.may_restart(at(20), &origin.lineup));
    assert_eq!(origin.pick(20), Some(0));
}
