use super::*;
use crate::outcome::End;
use std::ops::Range;

const POLICYS: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_millis(50);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A request of a flow got its slot after `waited`, and its client waits for `patience` in all.
fn serve_one(patience: &mut Patience, at: u64, flow: u64, waited: Duration, stays: Duration) {
    let left = (stays < waited + ANSWER).then(|| stays.saturating_sub(waited));
    let end = if left.is_some() { End::Cancelled } else { End::Served };
    let first_byte = Some(ANSWER);
    let outcome = Outcome { left, first_byte, ..Outcome::without_answer(end) };
    patience.finished(Moment::from_millis(at), flow, waited, ANSWER, &outcome);
}

/// So many requests, each of a flow of its own, that waited for some time up to `longest`; those whose clients have
/// left before took no slot.
fn serve(
    patience: &mut Patience,
    requests: Range<u64>,
    stays: impl Fn(u64) -> Duration,
    longest: u64,
) {
    for number in requests {
        let (waited, stays) = (ms(number * 7919 % longest), stays(number));
        if waited < stays {
            serve_one(patience, number * 5, number, waited, stays);
        }
    }
}

#[test]
fn without_clients_that_leave_the_policys_word_holds() {
    let mut patience = Patience::default();
    serve(&mut patience, 0..5000, |_| ms(60_000), 3000);
    assert_eq!(patience.deadline(POLICYS), POLICYS);
    assert_eq!(patience.known(), None);
}

#[test]
fn clients_that_leave_after_a_second_are_answered_before() {
    let mut patience = Patience::default();
    serve(&mut patience, 0..4000, |_| ms(1000), 2000);
    let deadline = patience.deadline(POLICYS);
    assert!((ms(750)..=ms(960)).contains(&deadline), "{deadline:?}");
    assert!(patience.known().is_some_and(|known| known <= ms(1000)));
    // The policy may say less.
    assert_eq!(patience.deadline(ms(300)), ms(300));
}

#[test]
fn clients_that_leave_the_queue_say_nothing() {
    // A third leaves after 150 ms, mostly before it would have a slot: the others have theirs after 300 to 600 ms.
    let mut patience = Patience::default();
    for number in 0..5000 {
        let (waited, stays) = (ms(300 + number * 7919 % 300), ms(60_000));
        serve_one(&mut patience, number * 5, number, waited, stays);
        if number % 100 == 0 {
            serve_one(&mut patience, number * 5, number, ms(120), ms(150));
        }
    }
    assert_eq!(patience.known(), None);
}

#[test]
fn clients_that_would_leave_without_a_wait_say_nothing() {
    let mut patience = Patience::default();
    let stays = |number: u64| match number.is_multiple_of(5) {
        true => ANSWER.mul_f64(0.9),
        false => ms(60_000),
    };
    serve(&mut patience, 0..20_000, stays, 1000);
    assert_eq!(patience.known(), None);
}

#[test]
fn that_nobody_waited_for_slow_answers_does_not_hide_that_nobody_waits_for_a_slot() {
    let mut patience = Patience::default();
    let slow = |number| {
        let left = ms(300);
        let outcome = Outcome {
            left: Some(left),
            first_byte: Some(ms(500)),
            ..Outcome::without_answer(End::Cancelled)
        };
        let at = Moment::from_millis(number * 5);
        patience.finished(at, number, Duration::ZERO, ms(500), &outcome);
    };
    (0..1000).for_each(slow);
    assert_eq!(patience.known(), None);
    for number in 1000..4000 {
        serve_one(&mut patience, number * 5, number, ms(280), ms(300));
    }
    assert!(patience.known().is_some_and(|known| known <= ms(350)), "{:?}", patience.known());
}

#[test]
fn a_few_that_wait_for_long_and_stay_do_not_hide_those_who_leave() {
    // Of those who are served after 0.85 to 1 s a third leaves after 1 s; so many of ten are served after 1.3 s.
    for (later, is_known) in [(1, true), (9, false)] {
        let mut patience = Patience::default();
        for number in 0..20_000 {
            let (waited, stays) = match number % 10 < later {
                true => (ms(1300), ms(3000)),
                false if number % 3 == 0 => (ms(850 + number * 7919 % 150), ms(1000)),
                false => (ms(850 + number * 7919 % 150), ms(3000)),
            };
            serve_one(&mut patience, number * 5, number, waited, stays);
        }
        let known = patience.known().is_some_and(|known| known <= ms(1000));
        assert_eq!(known, is_known, "{later}: {:?}", patience.known());
    }
}

#[test]
fn answers_that_take_nearly_as_long_as_clients_wait_leave_a_short_queue() {
    let mut patience = Patience::default();
    serve(&mut patience, 0..4000, |_| ms(80), 200);
    let deadline = patience.deadline(POLICYS);
    assert!((ms(20)..=ms(30)).contains(&deadline), "{deadline:?}");
}

#[test]
fn what_is_known_is_soon_forgotten_when_requests_find_free_slots() {
    let mut patience = Patience::default();
    serve(&mut patience, 0..2000, |_| ms(300), 1000);
    assert!(patience.known().is_some());
    for step in 0..100 {
        patience.idle();
        serve_one(&mut patience, 10_000 + step * 100, step, Duration::ZERO, ms(300));
    }
    assert_eq!(patience.deadline(POLICYS), POLICYS, "after ten seconds");
    // Even if hardly any come.
    let mut patience = Patience::default();
    serve(&mut patience, 0..2000, |_| ms(300), 1000);
    patience.idle();
    serve_one(&mut patience, 20_000, 0, Duration::ZERO, ms(300));
    assert_eq!(patience.deadline(POLICYS), POLICYS);
}

#[test]
fn a_free_slot_now_and_then_is_no_end_while_more_are_refused() {
    for (refused, holds) in [(3, true), (0, false)] {
        let mut patience = Patience::default();
        serve(&mut patience, 0..2000, |_| ms(300), 1000);
        for step in 0..250 {
            patience.idle();
            (0..refused).for_each(|_| patience.refused());
            serve_one(&mut patience, 10_000 + step * 20, step, ms(30), ms(300));
        }
        assert_eq!(patience.known().is_some(), holds, "{refused} refused for each");
    }
}

#[test]
fn a_few_flows_that_leave_again_and_again_do_not_speak_for_all() {
    let mut patience = Patience::default();
    for step in 0..20_000 {
        let (waited, flow) = (ms(step * 7919 % 1_000), 1_000 + step % 200);
        match step % 4 {
            0 => serve_one(&mut patience, step * 2, step % 3, waited, waited),
            _ => serve_one(&mut patience, step * 2, flow, waited, ms(60_000)),
        }
        assert_eq!(patience.known(), None, "{step}");
    }
    // The same from everywhere.
    for step in 20_000..40_000 {
        let waited = ms(step * 7919 % 1_000);
        serve_one(&mut patience, step * 2, step % 200, waited, ms(300));
    }
    assert!(patience.known().is_some_and(|known| known <= ms(300)));
}

#[test]
fn a_time_that_was_too_long_is_tried_again() {
    let mut patience = Patience::default();
    serve(&mut patience, 0..2000, |_| ms(300), 1000);
    let mut before = patience.deadline(POLICYS);
    assert!(before < ms(300));
    // Clients wait for longer now; nobody waits for longer than the deadline.
    for number in 2_000..40_000 {
        let longest = patience.deadline(POLICYS).as_millis() as u64;
        let waited = ms(number * 7919 % longest);
        serve_one(&mut patience, number * 5, number, waited, ms(60_000));
        let deadline = patience.deadline(POLICYS);
        assert!(deadline <= before.mul_f64(1.2), "{before:?}, then {deadline:?}");
        before = deadline;
    }
    assert_eq!(patience.deadline(POLICYS), POLICYS);
}

#[test]
fn bins_begin_where_they_should() {
    for number in 0..BINS {
        assert_eq!(bin(begin(number) + Duration::from_nanos(100)), number);
    }
    assert_eq!(bin(Duration::ZERO), 0);
    assert_eq!(bin(Duration::from_secs(3600)), BINS - 1);
    assert!(begin(BINS - 1) > Duration::from_secs(30));
}
