use super::*;

/// What oha 1.16.0 printed of 100 requests at 50 a second, a third of which were refused and 7 failed.
const MIXED: &str = include_str!("mixed.json");
/// And of 20 requests that were never answered, with clients that leave after half a second.
const SLOW: &str = include_str!("slow.json");

#[test]
fn answers_are_counted_by_status_and_only_good_ones_have_a_latency() {
    let driven = read(MIXED, 100).unwrap();
    let expected = Counts { sent: 100, ok: 60, refused: 33, failed: 7, timed_out: 0 };
    assert_eq!(driven.figures.counts, expected);
    assert_eq!(
        (driven.figures.p50_ms, driven.figures.p99_ms),
        (Some(20.782_401), Some(39.304_771))
    );
    assert_eq!(driven.seconds, 1.982_373_277);
}

#[test]
fn clients_that_left_have_no_latency() {
    let driven = read(SLOW, 20).unwrap();
    let expected = Counts { sent: 20, timed_out: 20, ..Counts::default() };
    assert_eq!((driven.figures.counts, driven.figures.p99_ms), (expected, None));
}

#[test]
fn what_is_not_whole_says_nothing() {
    assert_eq!(read(MIXED, 101), None, "a request is missing");
    assert_eq!(read("oha: no such option", 1), None);
    assert_eq!(read(&MIXED.replace("statusCodeDistribution", "statuses"), 100), None);
}
