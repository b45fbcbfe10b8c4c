use super::*;

const LANE: LaneId = LaneId(0);

/// Time passes in steps of 10 ms, in each of which a request of the foreground comes and is answered, as the function says of the step and what is in progress in the
/// background: as many as may, each for so long. How many that were on average.
fn serve(
    law: &mut Unfelt,
    from_s: u64,
    seconds: u64,
    lasts_ms: u64,
    mut answer: impl FnMut(u64, usize) -> (LaneId, Option<Duration>),
) -> f64 {
    let mut running: Vec<u64> = Vec::new();
    let mut present = 0.0;
    for step in from_s * 100..(from_s + seconds) * 100 {
        let (ms, now) = (step * 10, Moment::from_millis(step * 10));
        law.pass(now, running.len() as u32, 0, 1000);
        running.retain(|ends| *ends > ms);
        while running.len() < law.bound() as usize {
            running.push(ms + lasts_ms);
        }
        present += running.len() as f64;
        let (lane, took) = answer(step, running.len());
        comes(law, now, running.len() as u32, lane, took);
    }
    present / (seconds * 100) as f64
}

/// A request of the foreground comes, finds so many of the background in progress, and is answered.
fn comes(law: &mut Unfelt, now: Moment, found: u32, lane: LaneId, took: Option<Duration>) {
    law.pass(now, found, 0, 1000);
    law.came();
    law.answered(now, lane, took);
}

/// Usually 20 ms, longer by so much, in ln.
fn about(random: &mut fastrand::Rng, longer: f64) -> Option<Duration> {
    let noise: f64 = (0..4).map(|_| random.f64() - 0.5).sum();
    Some(Duration::from_secs_f64(0.02 * (longer + 0.5 * noise).min(8.0).exp()))
}

/// Requests take longer by `each` (in ln) for each background request in progress.
fn run(law: &mut Unfelt, from_s: u64, seconds: u64, each: f64, lasts_ms: u64) -> f64 {
    let mut random = fastrand::Rng::with_seed(from_s + 1);
    serve(law, from_s, seconds, lasts_ms, |_, present| {
        (LANE, about(&mut random, each * present as f64))
    })
}

#[test]
fn the_bound_is_where_the_effect_is_what_is_tolerated() {
    for each in [0.01, 0.03, 0.06] {
        let mut law = Unfelt::new(Moment::ZERO);
        run(&mut law, 0, 300, each, 50);
        let felt = law.felt();
        assert!((felt.each - each).abs() < 4.0 * felt.error, "{each}: {felt:?}");
        let effect = each * law.most();
        assert!((0.02..0.1).contains(&effect), "{each}: {effect} {felt:?}");
    }
}

#[test]
fn an_origin_that_answers_at_once_has_its_alarm_too() {
    let mut law = Unfelt::new(Moment::ZERO);
    let mut answer = |from: u64, micros: u64| {
        for step in from..from + 100 {
            let now = Moment::from_millis(step * 10);
            comes(&mut law, now, 1, LANE, Some(Duration::from_micros(micros)));
        }
        law.most()
    };
    let most = answer(1, 300);
    // Three times as long, which the background may be the cause of: less of it at once.
    assert!(answer(101, 1000) <= 0.5 * most, "of {most}");
}

#[test]
fn it_grows_while_nothing_is_felt_and_shrinks_when_something_is() {
    let mut law = Unfelt::new(Moment::ZERO);
    run(&mut law, 0, 200, 0.0, 50);
    let most = law.most();
    assert!(most > 10.0, "{most}");
    run(&mut law, 200, 100, 0.1, 50);
    assert!(law.most() < 2.0, "{} after {most}", law.most());
}

#[test]
fn requests_that_outlast_turns_are_felt_too() {
    for lasts_ms in [5_000, 20_000] {
        let mut law = Unfelt::new(Moment::ZERO);
        run(&mut law, 0, 200, 0.0, 50);
        run(&mut law, 200, 900, 0.1, lasts_ms);
        let present = run(&mut law, 1100, 300, 0.1, lasts_ms);
        assert!(present < 4.0, "{lasts_ms}: {present} of {}", law.most());
    }
}

#[test]
fn a_bound_of_less_than_one_is_kept_on_average() {
    for lasts_ms in [30, 3_000] {
        let mut law = Unfelt::new(Moment::ZERO);
        run(&mut law, 0, 100, 1.0, lasts_ms);
        let present = run(&mut law, 100, 300, 1.0, lasts_ms);
        assert!((0.02..0.25).contains(&present), "{lasts_ms}: {present} of {}", law.most());
    }
}

#[test]
fn times_that_are_all_equal_and_none_at_all_break_nothing() {
    let mut law = Unfelt::new(Moment::ZERO);
    for ms in 0..500_000 {
        let now = Moment::from_millis(ms);
        let bound = law.bound();
        comes(&mut law, now, bound, LANE, Some(Duration::ZERO));
    }
    let felt = law.felt();
    assert!(felt.each.abs() < 0.01 && felt.error.is_finite() && law.most().is_finite());
    law.pass(Moment::from_millis(100_000_000), 0, 0, 1000);
    (0..20).for_each(|_| law.ended(Moment::ZERO, 1, None, true));
    assert!(law.most() >= LEAST && law.bound() <= 1000);
}

#[test]
fn one_client_whose_requests_fail_takes_nothing_from_the_others() {
    let law = |flows: &[(u64, bool)]| {
        let mut law = Unfelt::new(Moment::ZERO);
        law.most = 8.0;
        flows
            .iter()
            .cycle()
            .take(40)
            .for_each(|(flow, refused)| law.ended(Moment::ZERO, *flow, None, *refused));
        law.most()
    };
    assert_eq!(law(&[(1, true), (2, false)]), 8.0, "one of two");
    assert_eq!(law(&[(1, true), (2, true)]), 4.0, "both, and once a turn");
    assert_eq!(law(&[(1, true)]), 4.0, "there is no other");
    let few = [(1, true), (2, true)].into_iter().chain((3..40).map(|flow| (flow, false)));
    assert_eq!(law(&few.collect::<Vec<_>>()), 8.0, "fewer than a tenth");
}

#[test]
fn a_slow_kind_that_hardly_comes_does_not_stop_the_bound_from_growing() {
    let mut law = Unfelt::new(Moment::ZERO);
    law.answered(Moment::from_millis(2), LaneId(1), Some(Duration::from_secs(40)));
    run(&mut law, 0, 300, 0.0, 50);
    assert!(law.most() > 10.0, "{}", law.most());
}

#[test]
fn what_was_done_while_nobody_was_there_is_no_debt() {
    let mut law = Unfelt::new(Moment::ZERO);
    (1..100).for_each(|second| law.pass(Moment::from_millis(second * 1000), 20, 0, 1000));
    law.most = 0.9;
    law.begins_anew(Moment::from_millis(100_000), 20, false);
    assert_eq!(law.bound(), 1);
}

/// The bound before an origin whose answers are as quick as ever; with more than five in the background, one request of the foreground in so
/// many is answered so late, or refused; after so many seconds. Median of nine seeds.
fn most_where(one_in: u64, seconds: u64, is_answered: Option<Duration>) -> f64 {
    let most = (0..9).map(|seed| {
        let mut law = Unfelt::new(Moment::ZERO);
        run(&mut law, 0, 200, 0.0, 50);
        assert!(law.most() > 100.0, "{}", law.most());
        let mut random = fastrand::Rng::with_seed(seed);
        serve(&mut law, 200, seconds, 50, |_, present| {
            let is_struck = present > 5 && random.u64(0..one_in) == 0;
            (LANE, if is_struck { is_answered } else { Some(Duration::from_millis(20)) })
        });
        law.most()
    });
    let mut most: Vec<_> = most.collect();
    most.sort_by(f64::total_cmp);
    most[4]
}

/// The rarer, the longer until it shows.
#[test]
fn what_the_origin_refuses_the_foreground_is_felt() {
    for (one_in, seconds) in [(2, 300), (10, 300), (25, 900)] {
        let most = most_where(one_in, seconds, None);
        assert!(most < 8.0, "one in {one_in}: {most}");
    }
}

/// So few that the mean moves by less than is tolerated.
#[test]
fn what_a_few_wait_for_long_is_felt() {
    let most = most_where(30, 1200, Some(Duration::from_millis(100)));
    assert!(most < 20.0, "{most} of a thousand");
}

/// The part of so many seconds that the background has nothing in. 40 requests of the foreground a second are answered in a millisecond; of
/// the background one is in progress for the first milliseconds of each 20.
fn paused(law: &mut Unfelt, from_s: u64, seconds: u64, busy_ms: u64) -> f64 {
    let mut paused_ms = 0;
    for ms in from_s * 1000..(from_s + seconds) * 1000 {
        let now = Moment::from_millis(ms);
        let running = u32::from(ms % 20 < busy_ms).min(law.bound());
        law.pass(now, running, 0, 1000);
        if ms % 25 == 0 {
            law.came();
            law.answered(now, LANE, Some(Duration::from_millis(1)));
        }
        paused_ms += u64::from(law.bound() == 0);
    }
    paused_ms as f64 / (seconds * 1000) as f64
}

#[test]
fn turns_begin_with_the_first_request_even_at_the_beginning_of_time() {
    let mut law = Unfelt::new(Moment::ZERO);
    let paused = paused(&mut law, 0, 20, 20);
    assert!((0.15..0.35).contains(&paused), "{paused}");
}

#[test]
fn a_background_that_is_hardly_there_is_not_paused() {
    let mut law = Unfelt::new(Moment::ZERO);
    assert_eq!(paused(&mut law, 0, 100, 0), 0.0);
    // It comes to be there, and then it is.
    let after = paused(&mut law, 100, 100, 20);
    assert!(after > 0.1, "{after}");
}

#[test]
fn a_background_that_something_else_keeps_down_is_seldom_paused() {
    let mut law = Unfelt::new(Moment::ZERO);
    let paused = paused(&mut law, 0, 200, 4);
    assert!((0.02..0.12).contains(&paused), "{paused}");
}

/// Requests are of so many kinds in turn, and so many in a thousand of another one; those take as much longer, in ln, as the function of what is in progress in the
/// background says, the others as long as ever.
fn run_kinds(
    law: &mut Unfelt,
    from_s: u64,
    seconds: u64,
    (in_1000, others): (u64, u32),
    felt: impl Fn(usize) -> f64,
) -> f64 {
    let mut random = fastrand::Rng::with_seed(from_s + 7);
    serve(law, from_s, seconds, 50, |step, present| {
        let is_other = random.u64(0..1000) >= in_1000;
        let lane = LaneId(if is_other { 1 + step as u32 % others } else { 0 });
        (lane, about(&mut random, if is_other { 0.0 } else { felt(present) }))
    })
}

/// What waits for one of two places takes as much longer as there are too many.
fn two_places(present: usize) -> f64 {
    (present.max(1) as f64).ln()
}

#[test]
fn a_small_part_of_the_foreground_does_not_pay_for_all() {
    for in_1000 in [20, 50] {
        let mut law = Unfelt::new(Moment::ZERO);
        run_kinds(&mut law, 0, 300, (in_1000, 1), two_places);
        let present = run_kinds(&mut law, 300, 300, (in_1000, 1), two_places);
        assert!(present < 2.5, "{in_1000} in 1000: {present} of {}", law.most());
        assert_eq!(law.bounded_by(), Some(BoundedBy::Lane(LaneId(0))));
        assert!(law.felt().each * present < 0.06, "{:?}", law.felt());
    }
}

#[test]
fn a_part_that_does_not_come_any_more_bounds_nothing() {
    let mut law = Unfelt::new(Moment::ZERO);
    run_kinds(&mut law, 0, 300, (50, 1), two_places);
    let most = law.most();
    run_kinds(&mut law, 300, 300, (0, 1), two_places);
    assert!(law.most() > 4.0 * most, "{} after {most}", law.most());
    assert_ne!(law.bounded_by(), Some(BoundedBy::Lane(LaneId(0))));
    // It comes back.
    run_kinds(&mut law, 600, 20, (50, 1), two_places);
    assert!(law.most() < 20.0, "{}", law.most());
}

/// The bound half a minute after a pause of 300 ms, as while memory is cleaned up, which begins then; there are eleven slots, and 1,000 requests of the foreground
/// a second, else answered in 50 ms.
fn most_after_pause(from_ms: u64) -> f64 {
    let mut law = Unfelt::new(Moment::ZERO);
    for ms in 0..from_ms + 30_000 {
        let now = Moment::from_millis(ms);
        law.pass(now, law.bound(), 0, 11);
        law.came();
        let pause = if ms >= from_ms { (from_ms + 300).saturating_sub(ms) } else { 0 };
        law.answered(now, LANE, Some(Duration::from_millis(50 + pause)));
    }
    law.most()
}

#[test]
fn one_pause_of_the_origin_is_not_long_believed() {
    // In turns with and without, and between them; and before the first rest, and in it.
    let turns = (0..16).map(|place| 100_000 + place * 97);
    let most: Vec<_> =
        turns.chain([44_000, 50_000, 55_000, 70_000, 78_000]).map(most_after_pause).collect();
    assert!(most.iter().all(|most| *most > 10.0), "{most:?}");
}

#[test]
fn a_lane_that_leaves_the_foreground_bounds_nothing() {
    let mut law = Unfelt::new(Moment::ZERO);
    run_kinds(&mut law, 0, 300, (50, 1), two_places);
    law.forgets(LaneId(0));
    let most = law.most();
    run_kinds(&mut law, 300, 60, (0, 1), two_places);
    assert!(law.most() > 10.0 * most, "{} after {most}", law.most());
}

#[test]
fn many_kinds_that_feel_nothing_do_not_bound_it_by_chance() {
    let mut law = Unfelt::new(Moment::ZERO);
    run_kinds(&mut law, 0, 300, (10, 30), |_| 0.0);
    assert!(law.most() > 20.0, "{}", law.most());
}

/// A class of which one in so many thousand requests is; how long its requests take there, in times of what is usual.
fn rare_beside_many(in_10000: u64, seconds: u64) -> f64 {
    let mut law = Unfelt::new(Moment::ZERO);
    let mut random = fastrand::Rng::with_seed(5);
    let mut answer = |from: u64, seconds: u64| {
        let mut felt = Vec::new();
        serve(&mut law, from, seconds, 50, |_, present| {
            let is_rare = random.u64(0..10_000) < in_10000;
            let longer = if is_rare { two_places(present) } else { 0.0 };
            felt.extend(is_rare.then_some(longer));
            (LaneId(u32::from(!is_rare)), about(&mut random, longer))
        });
        felt.iter().sum::<f64>() / felt.len() as f64
    };
    answer(0, seconds);
    answer(seconds, 300).exp()
}

/// Most of its requests have none of their kind in the other turn of their pair.
#[test]
fn a_class_that_hardly_comes_does_not_pay_for_a_busy_one() {
    for (in_10000, seconds) in [(100, 300), (40, 600)] {
        let times = rare_beside_many(in_10000, seconds);
        assert!(times < 1.6, "{in_10000} in 10,000: {times}");
    }
}

/// As a look whether the site is there, or what a browser asks for by itself.
#[test]
fn one_quick_request_at_first_does_not_keep_it_away() {
    let mut law = Unfelt::new(Moment::ZERO);
    law.came();
    law.answered(Moment::from_millis(1), LANE, Some(Duration::from_millis(1)));
    let mut random = fastrand::Rng::with_seed(3);
    // Of the background as many are there in its pauses, so that nothing else shows what is usual.
    serve(&mut law, 0, 20, 2_000, |_, _| {
        let took = about(&mut random, 0.0).map(|it| 5 * it);
        (LANE, took)
    });
    assert!(law.most() > 0.5, "{}", law.most());
}

/// The bound after two minutes in which the background's requests each hold one of so many places for 50 ms, first come, first served, and the foreground feels nothing.
fn most_at(places: usize) -> f64 {
    let mut law = Unfelt::new(Moment::ZERO);
    let mut random = fastrand::Rng::with_seed(11);
    // When each place is free, and of each request in progress when it began and ends.
    let mut free = vec![0; places];
    let mut running: Vec<(u64, u64)> = Vec::new();
    for ms in (0..120_000).step_by(10) {
        let now = Moment::from_millis(ms);
        law.pass(now, running.len() as u32, 0, 1000);
        for (began, ends) in running.extract_if(.., |it| it.1 <= ms) {
            let took = Duration::from_millis(ends - began);
            law.ended(Moment::from_millis(began), 1, Some(took), false);
        }
        while running.len() < law.bound() as usize {
            let place = free.iter_mut().min().expect("there are some");
            *place = ms.max(*place) + 50;
            running.push((ms, *place));
        }
        let took = about(&mut random, 0.0);
        comes(&mut law, now, running.len() as u32, LANE, took);
    }
    law.most()
}

/// As servers that are taken for dead because one answer was late, or a cache that is full of what nobody asks for.
#[test]
fn what_outlasts_turns_is_felt_too() {
    let mut law = Unfelt::new(Moment::ZERO);
    let mut random = fastrand::Rng::with_seed(13);
    let mut last = None;
    let mut felt = 0;
    let present = serve(&mut law, 0, 5400, 50, |step, present| {
        if present > 5 {
            last = Some(step);
        }
        // For ten seconds.
        let is_felt = last.is_some_and(|last| step - last < 1000);
        felt += u32::from(is_felt && step >= 180_000);
        (LANE, about(&mut random, if is_felt { 0.7 } else { 0.0 }))
    });
    let part = f64::from(felt) / 360_000.0;
    assert!(part < 0.3 && present > 0.5, "{present} in progress, felt for {part} of an hour");
}

#[test]
fn no_more_are_let_in_than_get_more_done() {
    let most = most_at(4);
    assert!((2.0..12.0).contains(&most), "{most}");
    assert!(most_at(1000) > 20.0, "{}", most_at(1000));
}
