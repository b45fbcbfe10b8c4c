//! Who acts first where an adaptation and a policer go by the same reading: quality before refusals.

use std::time::Duration;
use tiergate_core::adapt::{Adaptation, Level};
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::inbound::{Inbound, Reference};
use tiergate_core::admit::policer::{Per, PolicerId, Settings};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::flow::Flow;
use tiergate_core::control::Slots;
use tiergate_core::gate::{Adapts, Arrival, Gate, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::sense::{Quantity, Reading};
use tiergate_core::time::Moment;

const MOST: u32 = 10_000;
/// Seconds of the processor for an answer of full quality, and for one of the lowest.
const FULL_S: f64 = 0.005;
const LOW_S: f64 = 0.001;

struct World {
    gate: Gate<()>,
    now: Moment,
    random: u64,
}

/// What became of a second.
#[derive(Debug)]
struct Second {
    answered: u32,
    in_use: f64,
}

impl World {
    fn new() -> Self {
        let reference = Reference::Utilization(9000);
        let (source, min) = ("cpu".into(), Rate::per_second(10));
        let spec = Spec {
            classes: vec![Class::named("all")],
            slots: Slots::Fixed(u32::MAX),
            policers: vec![Settings {
                name: "dear".to_owned(),
                key: None,
                rate: Rate::per_second(MOST),
                burst: 50,
                per: Per::Rule,
                shares: Vec::new(),
                inbound: Some(Inbound { source, reference, min }),
                announce: false,
            }],
            adaptations: vec![Adaptation {
                name: "pages".to_owned(),
                acts: true,
                source: "cpu".into(),
                reference,
                also: Vec::new(),
                levels: vec![Level::default(); 2],
                refuses: false,
                by: Flow::CLIENT,
                costs: None,
                sites: Vec::new(),
                gain_margin: Adaptation::GAIN_MARGIN,
            }],
            ..Spec::protective()
        };
        let gate = Gate::new(spec.build().expect("a sound plan"));
        World { gate, now: Moment::ZERO, random: 7 }
    }

    fn second(&mut self, rate: u32) -> Second {
        let id = self.gate.plan().adaptation_ids()[0];
        let (mut answered, mut work_s) = (0, 0.0);
        for request in 0..rate {
            let at = self.now + Duration::from_secs(1) * request / rate;
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let client = (self.random ^ (self.random >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let adapted = self.gate.level(id, ClassId(0), client, false);
            let level = adapted.expect("it is there").level;
            let arrival =
                Arrival { adapted, policer: Some(PolicerId(0)), ..Arrival::of(ClassId(0)) };
            let Verdict::Admit(slot) = self.gate.arrive(at, arrival, || ()) else { continue };
            let outcome = Outcome {
                first_byte: Some(Duration::from_millis(5)),
                ..Outcome::without_answer(End::Served)
            };
            self.gate.finish(at, slot, outcome);
            answered += 1;
            work_s += if level == 2 { FULL_S } else { LOW_S };
        }
        self.now = self.now + Duration::from_millis(1001);
        let in_use = work_s.min(1.0);
        let quantity = Quantity::Utilization(in_use);
        let reading = Reading { source: "cpu", quantity, lasting: Duration::from_secs(3) };
        self.gate.observe(self.now, reading).expect("it can be");
        self.gate.tick(self.now);
        Second { answered, in_use }
    }

    fn state(&self) -> Adapts {
        self.gate.adaptations().next().expect("it is there").state
    }

    fn rate(&self) -> f64 {
        self.gate.plan().policer(PolicerId(0)).expect("planned").rate.tokens_per_second()
    }
}

#[test]
fn nobody_is_refused_where_lower_quality_suffices() {
    let mut world = World::new();
    for _ in 0..10 {
        world.second(100);
    }
    // Twice what it can do at full quality, two fifths at the lowest.
    let seconds: Vec<Second> = (0..60).map(|_| world.second(400)).collect();
    assert!(seconds.iter().all(|it| it.answered == 400), "{seconds:?}");
    let settled = seconds[40..].iter().map(|it| it.in_use).sum::<f64>() / 20.0;
    assert!((settled - 0.9).abs() < 0.05, "{settled}");
    assert_eq!((world.rate(), world.state()), (f64::from(MOST), Adapts::Adapts));
}

#[test]
fn what_lower_quality_does_not_do_the_policer_does() {
    let mut world = World::new();
    for _ in 0..10 {
        world.second(100);
    }
    // Three times what it can do at the lowest quality.
    for _ in 0..60 {
        world.second(3000);
    }
    let seconds: Vec<Second> = (0..20).map(|_| world.second(3000)).collect();
    let (answered, in_use) = seconds
        .iter()
        .fold((0, 0.0), |sum, it| (sum.0 + it.answered, sum.1 + it.in_use / seconds.len() as f64));
    assert!((in_use - 0.9).abs() < 0.06, "{seconds:?}");
    assert!(answered / 20 > 700, "at the lowest quality 900 a second are possible: {seconds:?}");
}
