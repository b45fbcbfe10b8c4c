//! What is found out of a server's way with clients that leave, and how long its answers are awaited.

use super::*;

const ANSWERED: Leftover = Leftover::Answered(Duration::from_millis(5));
const IN_PROGRESS: u32 = 8;
/// While nothing is known of answers.
const BOUNDS: Bounds = Bounds { overstays: WITHIN_MIN, within: WITHIN_MIN };

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn closes(cancels: &mut Cancels, ms: u64) -> bool {
    matches!(cancels.left(at(ms), IN_PROGRESS, at(ms), OnCancel::Learn), Way::Close(_))
}

/// Every ten milliseconds one client is answered, and one leaves. Answers take `took(closing)`
/// milliseconds, by what became of the last clients that left. How many connections are closed in all, and of the last
/// hundred.
fn run(cancels: &mut Cancels, stops: bool, took: impl Fn(f64, u64) -> u64) -> (u32, u32) {
    let (mut closed, mut ways) = (0.0, (0, 0));
    for step in 0..1000 {
        let now = at(1000 + 10 * step);
        let way = cancels.left(now, IN_PROGRESS, now, OnCancel::Learn);
        if matches!(way, Way::Close(_)) {
            cancels.left_over(
                now,
                IN_PROGRESS,
                true,
                if stops { Leftover::Stopped } else { ANSWERED },
            );
        }
        closed += (f64::from(u8::from(matches!(way, Way::Close(_)))) - closed) * 0.2;
        let took = took(closed, step);
        cancels.answered(
            now,
            IN_PROGRESS,
            at(1000 + 10 * step - took.min(10)),
            Duration::from_millis(took),
        );
        ways.0 += u32::from(matches!(way, Way::Close(_)));
        ways.1 += u32::from(step >= 900 && matches!(way, Way::Close(_)));
    }
    ways
}

#[test]
fn a_server_that_answers_all_the_same_is_let_finish() {
    let mut cancels = Cancels::default();
    assert_eq!(run(&mut cancels, false, |_, _| 5), (DEAF, 0));
    // Only the first few were tried.
    let mut cancels = Cancels::default();
    let ways: Vec<bool> = (0..5)
        .map(|step| {
            let closes = closes(&mut cancels, step);
            cancels.left_over(at(step), IN_PROGRESS, true, ANSWERED);
            closes
        })
        .collect();
    assert_eq!(ways, [true, true, true, false, false]);
}

#[test]
fn a_server_that_stops_is_closed() {
    // Times vary, however connections end.
    let varied = |_, step: u64| 3 + step * 7919 % 5;
    assert_eq!(run(&mut Cancels::default(), true, varied).1, 100);
}

#[test]
fn a_server_that_only_closes_the_connection_and_works_on_is_let_finish() {
    let slowed = |closed: f64, step: u64| ((4.0 + 4.0 * closed) as u64) + step * 7919 % 3;
    let (all, last) = run(&mut Cancels::default(), true, slowed);
    assert_eq!(last, 0);
    assert!(all <= 1 + 8 + 32, "{all} before that was known");
}

/// Who is answered too late leaves, so that all answers that are seen are in time.
#[test]
fn a_server_that_works_on_is_let_finish_although_nobody_waits_for_late_answers() {
    for patience in [5, 6, 7] {
        let mut cancels = Cancels::default();
        let (mut closed, mut closing) = (0.0, 0);
        for step in 0..2000 {
            let now = at(1000 + 10 * step);
            let took = (3.0 + 6.0 * closed) as u64 + step * 7919 % 3;
            if took < patience {
                cancels.answered(
                    now,
                    IN_PROGRESS,
                    at(1000 + 10 * step - took),
                    Duration::from_millis(took),
                );
            }
            let mut closes = false;
            if took >= patience || step % 3 == 0 {
                closes =
                    matches!(cancels.left(now, IN_PROGRESS, now, OnCancel::Learn), Way::Close(_));
                if closes {
                    cancels.left_over(now, IN_PROGRESS, true, Leftover::Stopped);
                }
            }
            closed += (f64::from(u8::from(closes)) - closed) * 0.2;
            closing += u32::from(step >= 1000 && closes);
        }
        assert!(closing < 10, "{patience}: {closing}");
    }
}

#[test]
fn a_verdict_is_looked_at_again() {
    let mut cancels = Cancels::default();
    (0..3).for_each(|_| cancels.left_over(at(0), IN_PROGRESS, true, ANSWERED));
    assert!(!closes(&mut cancels, 59_999));
    assert!(closes(&mut cancels, 60_000));
}

#[test]
fn the_policys_word_is_final() {
    let mut cancels = Cancels::default();
    assert_eq!(cancels.left(at(0), IN_PROGRESS, at(0), OnCancel::Finish), Way::Finish(BOUNDS));
    assert_eq!(cancels.left(at(0), IN_PROGRESS, at(0), OnCancel::Abort), Way::Abort);
}

#[test]
fn slow_servers_are_waited_for_longer() {
    let mut cancels = Cancels::default();
    (0..200).for_each(|_| cancels.answered(at(0), IN_PROGRESS, at(0), Duration::from_secs(3)));
    let within = Duration::from_secs(12);
    let overstays = Duration::from_secs(6);
    let bounds = |overstays| Way::Finish(Bounds { overstays, within });
    let mut left = |ms| cancels.left(at(ms), IN_PROGRESS, at(0), OnCancel::Finish);
    assert_eq!(left(0), bounds(overstays));
    assert_eq!(left(4000), bounds(Duration::from_secs(2)), "counted from when it was sent");
    assert_eq!(left(9000), bounds(NOTICE));
}

#[test]
fn what_is_overdue_may_end_once_others_that_were_sent_later_are_answered() {
    let mut cancels = Cancels::default();
    let quick = Duration::from_millis(50);
    let answered = |cancels: &mut Cancels, sent, took| {
        cancels.answered(at(10_000), IN_PROGRESS, at(sent), took);
    };
    (0..100).for_each(|_| answered(&mut cancels, 0, quick));
    // What may be given up without that, now.
    while cancels.never_ends(at(10_000), IN_PROGRESS, at(5000)) {}
    answered(&mut cancels, 5000, quick);
    assert!(!cancels.never_ends(at(10_000), IN_PROGRESS, at(5000)), "sent no later");
    answered(&mut cancels, 6000, Duration::from_secs(1));
    assert!(!cancels.never_ends(at(10_000), IN_PROGRESS, at(5000)), "it took long, too");
    answered(&mut cancels, 6000, quick);
    assert!(cancels.never_ends(at(10_000), IN_PROGRESS, at(5000)));
    assert!(!cancels.never_ends(at(10_000), IN_PROGRESS, at(7000)));
}

#[test]
fn without_such_an_answer_few_that_are_overdue_end() {
    let mut cancels = Cancels::default();
    (0..100).for_each(|_| {
        cancels.answered(at(0), IN_PROGRESS, at(0), Duration::from_millis(50));
    });
    let mut ended =
        |ms| (0..100).filter(|_| cancels.never_ends(at(ms), IN_PROGRESS, at(1))).count() as u32;
    assert_eq!(ended(9000), IN_PROGRESS / 2 + 1, "half of them at once");
    assert_eq!((ended(9200), ended(9300), ended(9600)), (0, 1, 1));
    assert_eq!(ended(20_000), IN_PROGRESS / 2 + 1);
}

#[test]
fn a_server_that_neither_answers_nor_closes_is_taken_to_be_deaf() {
    let mut cancels = Cancels::default();
    (0..DEAF).for_each(|_| {
        assert!(matches!(cancels.left(at(0), IN_PROGRESS, at(0), OnCancel::Learn), Way::Close(_)));
        cancels.left_over(at(0), IN_PROGRESS, true, Leftover::Endless);
    });
    assert!(matches!(cancels.left(at(0), IN_PROGRESS, at(0), OnCancel::Learn), Way::Finish(_)));
}

#[test]
fn how_long_is_usual_is_learned_from_clients_that_stay_and_from_those_that_left() {
    let overstays = |cancels: &mut Cancels, ms| match cancels.left(
        at(ms),
        IN_PROGRESS,
        at(ms),
        OnCancel::Finish,
    ) {
        Way::Finish(bounds) => bounds.overstays.as_millis(),
        way => panic!("{way:?}"),
    };
    let mut cancels = Cancels::default();
    cancels.left_over(at(0), IN_PROGRESS, false, Leftover::Endless);
    assert_eq!(overstays(&mut cancels, 1), 5000, "nothing is known of answers");
    (0..1000).for_each(|_| cancels.answered(at(0), IN_PROGRESS, at(0), Duration::from_millis(50)));
    assert_eq!(overstays(&mut cancels, 1), 100, "twice the mean: all take the same");
    for step in 0..1000 {
        let took = Duration::from_millis(500 + step % 2 * 1000);
        cancels.left_over(at(0), IN_PROGRESS, false, Leftover::Answered(took));
    }
    let longest = overstays(&mut cancels, 1);
    assert!((2800..3200).contains(&longest), "{longest}: four deviations of 0.5 s above 1 s");
    assert_eq!(overstays(&mut cancels, 599_999), longest);
    // Later none was without end lately.
    let mut quick = Cancels::default();
    quick.left_over(at(0), IN_PROGRESS, false, Leftover::Endless);
    quick.answered(at(0), IN_PROGRESS, at(0), Duration::from_millis(50));
    assert!(overstays(&mut quick, 599_999) < 300);
    assert_eq!(overstays(&mut quick, 600_000), OVERDUE.as_millis());
}
