//! Many situations, and the sentence for each.

use super::*;
use crate::account::ClassAccount;
use crate::outcome::End;
use crate::reason::Reason;
use crate::stored::Instead;

fn class(name: &str, served: u64) -> ClassSituation {
    ClassSituation { name: name.to_owned(), served, ..ClassSituation::default() }
}

fn pool() -> PoolSituation {
    PoolSituation { slots: 40, running: 12, finished: 1000, servers: 3, ..Default::default() }
}

/// A shop at work: two classes, one pool with three servers.
fn shop() -> Situation {
    let classes = vec![class("checkout", 300), class("browse", 700), class("prefetch", 100)];
    Situation { pools: vec![pool()], classes, in_progress: 12, ..Situation::default() }
}

fn saturated() -> Situation {
    let mut it = shop();
    it.pools[0] = PoolSituation { running: 40, waiting: 30, shed: 98, ..pool() };
    it.classes[2] = ClassSituation { served: 2, shed: 98, ..class("prefetch", 0) };
    it
}

#[track_caller]
fn says(situation: &Situation, urgency: Urgency, sentence: &str) {
    let diagnosis = situation.diagnose();
    assert_eq!((diagnosis.to_string().as_str(), diagnosis.urgency), (sentence, urgency));
}

#[test]
fn what_is_well_is_said_to_be() {
    says(&shop(), Urgency::Calm, "healthy; checkout 100 % served");
    says(&Situation::default(), Urgency::Calm, "no requests");
}

/// So is an origin that takes requests and answers none, until they time out.
#[test]
fn what_is_in_progress_and_does_not_end_is_not_well() {
    let hangs = Situation { classes: Vec::new(), ..shop() };
    says(&hangs, Urgency::Watch, "no request has ended lately, 12 in progress");
}

#[test]
fn a_saturated_origin_says_who_pays_and_who_does_not() {
    let sentence = "origin saturated; shedding 98 % of prefetch; checkout 100 % served";
    says(&saturated(), Urgency::Watch, sentence);
    let mut worse = saturated();
    worse.classes[1] = ClassSituation { shed: 300, ..class("browse", 700) };
    worse.classes[0] = ClassSituation { shed: 100, ..class("checkout", 300) };
    let sentence = "origin saturated; shedding 98 % of prefetch, 30 % of browse and 25 % of \
                    checkout; checkout 75 % served";
    says(&worse, Urgency::Act, sentence);
}

#[test]
fn full_slots_are_no_saturation_while_nothing_waits() {
    let mut it = shop();
    it.pools[0].running = 40;
    says(&it, Urgency::Calm, "healthy; checkout 100 % served");
    it.pools[0].waiting = 1;
    says(&it, Urgency::Watch, "origin saturated; checkout 100 % served");
    // A pool of a policy whose servers are gone has no slots.
    it.pools[0].slots = 0;
    says(&it, Urgency::Calm, "healthy; checkout 100 % served");
}

#[test]
fn an_origin_that_is_down_or_fails_comes_first() {
    let mut it = saturated();
    it.pools[0].servers_down = ["a:80", "b:80"].map(str::to_owned).into();
    let sentence = "2 of 3 servers down (a:80 and b:80); origin saturated; \
                    shedding 98 % of prefetch; checkout 100 % served";
    says(&it, Urgency::Watch, sentence);
    let mut down = shop();
    down.pools[0].servers_down = ["a:80", "b:80", "c:80"].map(str::to_owned).into();
    down.classes = vec![ClassSituation { rejected: 0, failed: 9, ..class("checkout", 0) }];
    says(&down, Urgency::Act, "origin down, no server is usable; checkout 0 % served");
    let mut failing = shop();
    failing.pools[0].failed = 20;
    says(&failing, Urgency::Watch, "origin fails 2 % of requests; checkout 100 % served");
    failing.pools[0].failed = 400;
    says(&failing, Urgency::Act, "origin fails 40 % of requests; checkout 100 % served");
    // Two of two: so few say nothing.
    failing.pools[0] = PoolSituation { failed: 2, finished: 2, ..pool() };
    says(&failing, Urgency::Calm, "healthy; checkout 100 % served");
}

#[test]
fn other_pools_are_named() {
    let mut it = shop();
    let name = "reports".to_owned();
    let down = vec!["r:80".to_owned()];
    let reports = PoolSituation { name, servers_down: down, servers: 1, ..pool() };
    it.pools.push(PoolSituation { running: 40, waiting: 1, ..reports.clone() });
    let sentence =
        "pool reports down, no server is usable; pool reports saturated; checkout 100 % served";
    says(&it, Urgency::Act, sentence);
    it.pools[1] = PoolSituation { servers: 2, ..reports };
    let sentence = "1 of 2 servers of pool reports down (r:80); checkout 100 % served";
    says(&it, Urgency::Watch, sentence);
}

#[test]
fn a_drain_and_other_lives_are_said() {
    let of = |life| Situation { life, ..shop() };
    let sentence = "draining: takes no new requests, 12 in progress; checkout 100 % served";
    says(&of(Life::Draining), Urgency::Watch, sentence);
    let done = Situation { life: Life::Draining, ..Situation::default() };
    says(&done, Urgency::Watch, "draining: takes no new requests");
    let sentence = "leaving: will soon take no new requests; checkout 100 % served";
    says(&of(Life::Leaving), Urgency::Watch, sentence);
    let start = Situation { life: Life::Starting, ..Situation::default() };
    says(&start, Urgency::Watch, "starting, not listening yet");
}

#[test]
fn a_policy_that_is_only_observed_refuses_nothing() {
    let it = Situation { is_enforced: false, ..shop() };
    says(&it, Urgency::Watch, "observing only, nothing is refused; checkout 100 % served");
}

#[test]
fn a_flood_of_one_client_is_named_if_it_is_one() {
    let flood = |share, refusals| {
        let client = "198.51.100.7".to_owned();
        Situation { flood: Some(Flood { client, share, refusals }), ..shop() }
    };
    let sentence = "92 % of refusals are of client 198.51.100.7; checkout 100 % served";
    says(&flood(0.92, 5000), Urgency::Watch, sentence);
    says(&flood(0.4, 5000), Urgency::Calm, "healthy; checkout 100 % served");
    says(&flood(1.0, 3), Urgency::Calm, "healthy; checkout 100 % served");
    let mut policed = flood(0.92, 5000);
    policed.classes[1] = ClassSituation { policed: 700, ..class("browse", 700) };
    let sentence = "policers refuse 50 % of browse; 92 % of refusals are of client 198.51.100.7; \
                    checkout 100 % served";
    says(&policed, Urgency::Watch, sentence);
}

#[test]
fn clients_that_leave_and_a_full_link_are_said() {
    let mut it = shop();
    it.classes[1] = ClassSituation { left: 300, ..class("browse", 700) };
    says(&it, Urgency::Watch, "clients of 30 % of browse leave the queue; checkout 100 % served");
    let full = Situation { link: Some(0.99), ..shop() };
    says(&full, Urgency::Watch, "link full (99.0 %); checkout 100 % served");
    let free = Situation { link: Some(0.7), ..shop() };
    says(&free, Urgency::Calm, "healthy; checkout 100 % served");
}

#[test]
fn what_is_about_to_be_short_is_said() {
    let it = Situation { connections: 0.97, descriptors: Some(0.91), ..shop() };
    let sentence = "checkout 100 % served; 97 % of client connections in use; \
                    91 % of file descriptors in use";
    says(&it, Urgency::Watch, sentence);
    let expiring = |seconds| {
        let certificate_expires_in_seconds = Some(seconds);
        Situation { certificate_expires_in_seconds, ..shop() }
    };
    for (seconds, urgency, words) in [
        (3 * 86_400, Urgency::Watch, "; a certificate expires in 3 days"),
        (7_300, Urgency::Watch, "; a certificate expires in 2 hours"),
        (3_700, Urgency::Watch, "; a certificate expires in 1 hour"),
        (60, Urgency::Watch, "; a certificate expires in less than an hour"),
        (0, Urgency::Act, "; a certificate has expired"),
    ] {
        says(&expiring(seconds), urgency, &format!("checkout 100 % served{words}"));
    }
    says(&expiring(30 * 86_400), Urgency::Calm, "healthy; checkout 100 % served");
}

#[test]
fn silent_sensors_and_rejected_reloads_are_said() {
    let silent = |names: &[&str]| {
        let silent_sensors = names.iter().map(|it| (*it).to_owned()).collect();
        Situation { silent_sensors, ..shop() }
    };
    says(&silent(&["cpu"]), Urgency::Watch, "checkout 100 % served; sensor cpu is silent");
    let sentence = "checkout 100 % served; sensors a, b, c and 2 more are silent";
    says(&silent(&["a", "b", "c", "d", "e"]), Urgency::Watch, sentence);
    let rejected = Situation { is_reload_rejected: true, ..shop() };
    let sentence = "checkout 100 % served; the last reload was rejected";
    says(&rejected, Urgency::Watch, sentence);
}

#[test]
fn hardly_all_is_not_all_and_hardly_any_not_none() {
    let mut it = shop();
    it.classes[0] = ClassSituation { shed: 1, ..class("checkout", 99_999) };
    says(&it, Urgency::Calm, "healthy; checkout 99.9 % served");
    it.classes[0] = ClassSituation { shed: 99_999, ..class("checkout", 1) };
    let sentence = "shedding 99.9 % of checkout; checkout under 1 % served";
    says(&it, Urgency::Act, sentence);
}

#[test]
fn what_a_rule_refuses_is_not_missing_and_the_background_is_no_incident() {
    let mut it = shop();
    it.classes[0].rejected = 500;
    says(&it, Urgency::Calm, "healthy; checkout 100 % served");
    it.classes[0] = class("checkout", 0);
    let background = ClassSituation { is_background: true, shed: 50, ..class("mirror", 0) };
    it.classes.insert(0, background);
    says(&it, Urgency::Calm, "healthy; browse 100 % served");
}

#[test]
fn every_end_of_a_request_is_counted_once_or_is_nothing_that_was_lacking() {
    let mut before = ClassAccount::default();
    before.refused[Reason::Shed.index()] = 5;
    let mut now = ClassAccount { cancelled_waiting: 7, ..before.clone() };
    Reason::ALL.iter().for_each(|it| now.refused[it.index()] += 1);
    End::ALL.iter().for_each(|it| now.finished[it.index()] += 10);
    now.stored[Instead::Failure.index()] = 3;
    let counted = ClassSituation::between(&before, &now);
    assert_eq!((counted.shed, counted.policed, counted.rejected), (10 + 10, 3, 1));
    assert_eq!((counted.served, counted.failed, counted.left), (20 + 3, 40 - 3 + 3, 7));
    assert_eq!(ClassSituation::between(&now, &now), ClassSituation::default());
}
