use super::*;

#[test]
fn one_packet_that_is_lost_in_a_trial_does_not_end_what_was_found() {
    let mut estimate = Estimate::new(Moment::ZERO);
    (estimate.bits, estimate.is_found) = (10e6, true);
    let way = Duration::from_millis(20);
    let ms = Duration::from_millis;
    let mut now = Moment::from_millis(2000);
    let watched = estimate.watch(now, 1, 0.0, Some(way));
    let in_time = Waited { least: Duration::ZERO, most: Duration::from_micros(100), way };
    assert_eq!(estimate.learns(now + way, &watched, in_time), Learned::InTime);
    now = now + way;
    estimate.tries(now);
    estimate.sends(30_000.0);
    let watched = estimate.watch(now + ms(20), 1, 0.0, Some(way));
    let lost = Waited { least: ms(199), most: ms(201), way };
    assert_eq!(estimate.learns(now + ms(240), &watched, lost), Learned::Waits);
    assert!(estimate.bits >= 8e6, "{}", estimate.bits);
    assert!(estimate.trials.are_due(now + ms(2000)), "another follows");
}

#[test]
fn what_is_known_to_be_between_far_bounds_says_nothing_of_differences() {
    // Answers of one packet on a connection that is kept: each is known to be acknowledged only once the next is asked for.
    let mut estimate = Estimate::new(Moment::ZERO);
    for number in 1..500 {
        let now = Moment::from_millis(number * 100);
        let watched = estimate.watch(now, 1, 0.0, None);
        let most = Duration::from_micros(if number % 2 == 0 { 100_000 } else { 100 });
        let waited = Waited { least: Duration::ZERO, most, way: Duration::ZERO };
        estimate.learns(now + most, &watched, waited);
    }
    assert!(estimate.difference < 1e-3, "{}", estimate.difference);
}
