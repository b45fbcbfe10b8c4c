use super::*;

const TENTH: Duration = Duration::from_millis(100);
const TWO: [ClassId; 2] = [ClassId(0), ClassId(1)];

fn candidate(importance: Option<u8>, rank: usize, requests: u32, number: u64) -> Candidate {
    let connection = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Candidate {
        importance,
        rank,
        flow: 0,
        is_within_part: false,
        ahead: u32::MAX,
        running: false,
        requests,
        connection,
    }
}

/// Sheds a fraction of what `requests` say came.
fn shedding(fraction: f64, requests: &[Candidate]) -> Shedding {
    let mut shedding = Shedding::new(Moment::ZERO, TENTH, &TWO);
    for request in requests {
        shedding.is_shed(request);
    }
    shedding.fraction = fraction;
    shedding.reach();
    shedding
}

#[test]
fn the_least_important_and_shortest_go_first_and_as_many_as_asked() {
    // In the order in which they are to go, a hundred of each.
    let kinds = [
        (None, 1, 0),
        (None, 1, 1),
        (None, 1, 3),
        (None, 0, 0),
        (None, 0, 9),
        (Some(0), 1, 50),
        (Some(1), 1, 0),
        (Some(1), 0, 0),
        (Some(255), 1, 0),
        (Some(255), 0, 200),
    ];
    let all: Vec<Candidate> = kinds
        .iter()
        .flat_map(|&(importance, class, age)| {
            (0..100).map(move |number| candidate(importance, class, age, number))
        })
        .collect();
    for percent in [0, 5, 10, 25, 50, 77, 95, 100] {
        let mut shedding = shedding(f64::from(percent) / 100.0, &all);
        let shed: Vec<usize> = kinds
            .iter()
            .enumerate()
            .map(|(kind, _)| {
                let these = &all[kind * 100..][..100];
                these.iter().filter(|request| shedding.is_shed(request)).count()
            })
            .collect();
        let total: usize = shed.iter().sum();
        assert!(total.abs_diff(percent as usize * 10) <= 6, "{percent} %: {shed:?}");
        let whole = shed.iter().filter(|&&count| count == 100).count();
        let rest = &shed[whole..];
        assert!(shed[..whole].iter().all(|&count| count == 100), "{shed:?}");
        assert!(rest.iter().skip(1).all(|&count| count == 0), "{shed:?}");
    }
}

#[test]
fn a_larger_fraction_chooses_the_same_connections_and_more() {
    let all: Vec<Candidate> = (0..1000).map(|number| candidate(None, 0, 0, number)).collect();
    let chosen = |fraction| {
        let mut shedding = shedding(fraction, &all);
        let chosen: Vec<bool> = all.iter().map(|request| shedding.is_shed(request)).collect();
        chosen
    };
    let (few, many) = (chosen(0.2), chosen(0.4));
    assert!(few.iter().zip(&many).all(|(few, many)| *many || !*few));
    assert!(many.iter().filter(|&&shed| shed).count() > 350);
}

#[test]
fn without_overload_nothing_is_shed_and_it_is_over_soon_after() {
    let mut shedding = Shedding::new(Moment::ZERO, TENTH, &TWO[..1]);
    let mut now = Moment::ZERO;
    let mut run = |waiting: u32, periods: u32| {
        for _ in 0..periods {
            for _ in 0..100 {
                shedding.finished();
            }
            now = now + PERIOD;
            shedding.tick(now, waiting);
        }
        shedding.fraction()
    };
    assert_eq!(run(0, 20), 0.0);
    assert_eq!(run(50, 20), 0.0, "50 ms of delay are below the aim");
    assert!(run(2000, 50) > 0.2);
    assert_eq!(run(0, 50), 0.0, "five seconds later");
}

#[test]
fn far_above_the_aim_it_is_what_comes_too_much_and_a_part_always_passes() {
    for times in [2_u32, 10, 100] {
        let mut shedding = Shedding::new(Moment::ZERO, TENTH, &TWO[..1]);
        let mut now = Moment::ZERO;
        let mut period = |shedding: &mut Shedding, waiting| {
            (0..100 * times).for_each(|number| {
                shedding.is_shed(&candidate(None, 0, 0, u64::from(number)));
            });
            (0..100).for_each(|_| shedding.finished());
            now = now + PERIOD;
            shedding.tick(now, waiting);
            shedding.fraction()
        };
        let served = 1.0 / f64::from(times);
        assert_eq!((period(&mut shedding, 5000), period(&mut shedding, 5000)), (0.0, 0.0));
        // What came in three periods is known to seven eighths.
        assert!(period(&mut shedding, 5000) >= 1.0 - served / 0.87, "{times}");
        let last = (0..100).map(|_| period(&mut shedding, 5000)).last().unwrap_or_default();
        assert!((last - (1.0 - PASSES * served)).abs() < 1e-6, "{times}: {last}");
    }
}

#[test]
fn a_reload_changes_ranks_of_classes_and_not_what_is_shed() {
    // A hundred each of class 0 and class 1, which change places; a third class is new between.
    let all: Vec<Candidate> =
        (0..200).map(|number| candidate(None, (number % 2) as usize, 0, number)).collect();
    let mut before = shedding(0.25, &all);
    let mut after = before.clone();
    after.reconfigure(TENTH, &[ClassId(1), ClassId(9), ClassId(0)]);
    for request in &all {
        let moved = Candidate { rank: [2, 0][request.rank], ..*request };
        // The lesser of the two was class 1 and is class 0 now.
        let swapped = Candidate { rank: 1 - request.rank, ..*request };
        assert_eq!(after.turns_away(&moved), before.turns_away(&swapped), "{request:?}");
    }
    assert_eq!(after.fraction(), 0.25);
}

#[test]
fn who_is_asked_about_before_it_comes_is_counted_once() {
    let request = candidate(None, 0, 0, 7);
    let mut shedding = Shedding::new(Moment::ZERO, TENTH, &TWO[..1]);
    assert!(!shedding.turns_away(&request) && !shedding.is_shed(&request));
    assert_eq!(shedding.came.iter().sum::<f32>(), 1.0);
    shedding.fraction = 1.0;
    shedding.reach();
    assert!(shedding.turns_away(&request));
    assert_eq!(shedding.came.iter().sum::<f32>(), 2.0);
}

#[test]
fn the_overload_is_one_number() {
    assert_eq!(overload(0, 0.0, TENTH), 0.0);
    assert_eq!(overload(100, 1000.0, TENTH), 0.5);
    assert_eq!(overload(1, 0.0, TENTH), 1.0);
    assert!(overload(u32::MAX, 1.0, TENTH) <= 1.0);
    assert!((overload(300, 1000.0, TENTH) - 0.75).abs() < 1e-9);
}
