//! Adaptations: once a period, with each new reading, their laws are asked and their set points move; and each request that one
//! applies to gets its level.
//!
//! ```text
//! reading ─▶ error ─▶ law ─▶ more or less of the server ─▶ model: what a level of a class takes ─▶ set points
//! ```
//!
//! What is beyond what the server can do is not to be seen from a reading: it says that all is in use, whether a third too
//! much comes or the tenfold. So the reading is multiplied by how many requests there were to serve for each that was: those that were refused because the
//! server has too much to do are counted, and no others, so that no flood that a policer refuses lowers anybody's quality.
//!
//! Source: Abdelzaher 4.1 to 4.4.

use super::Gate;
use super::adapting::{AdaptationState, Adapter, Adapts};
use crate::adapt::{Adapted, LevelNumber, Part, of_client};
use crate::admit::inbound::{PERIOD, Reference};
use crate::names::{AdaptationId, ClassId};
use crate::time::Moment;

/// More requests than this for each answer, and the server has more to do than it does; fewer are those that a period cuts off.
const DEMAND_MIN: f64 = 1.1;
/// Most that is believed of that.
const DEMAND_MAX: f64 = 10.0;
/// Nearer above a level than this, a step is no smaller for it; and where something was learned, nearer than this.
const FRACTION_MIN: f64 = 0.01;
const NEAR: f64 = 0.1;
/// Least part of the most that a level may take that is believed to be what it takes: what is learned lags behind, and readings that are late make it
/// less.
const LEARNED_MIN: f64 = 0.25;
/// A queue that is shorter than it may be says less than one that is longer: an empty one, nothing of how much more could be
/// done.
const SHORT_QUEUE: f64 = 0.25;

impl<T> Gate<T> {
    /// The level of a request's answer; `None`: the plan in force has no such adaptation. `client`: [`Adaptation::client`];
    /// `is_running`: its session runs already, so that it is not refused. O(adaptations + classes).
    ///
    /// [`Adaptation::client`]: crate::adapt::Adaptation::client
    pub fn level(
        &self,
        id: AdaptationId,
        class: ClassId,
        client: u64,
        is_running: bool,
    ) -> Option<Adapted> {
        let it = self.common.adapting.list.iter().find(|it| it.id == id)?;
        let highest = it.settings.highest();
        let set_point = it.points.of_class(class).unwrap_or(f64::from(highest));
        let level = of_client(set_point, client, highest);
        Some(Adapted { adaptation: id, level: if is_running { level.max(1) } else { level } })
    }

    /// Asks the laws if that is due; returns when it will be. [`Moment::NEVER`] without any.
    pub(super) fn adapt(&mut self, now: Moment) -> Moment {
        let mut adapting = std::mem::take(&mut self.common.adapting);
        let mut due = Moment::NEVER;
        for it in &mut adapting.list {
            if now >= it.since + PERIOD {
                let settings = &it.settings;
                let read = self.reading(now, &settings.source, settings.reference);
                let is_new = read.is_some_and(|(_, at)| it.read.replace(at) != Some(at));
                it.reading = read.map(|(reading, _)| reading);
                match it.reading {
                    None => it.is_blind(now),
                    // Until there is another, what comes is counted on.
                    Some(_) if !is_new => {}
                    Some(reading) => it.step(now, reading),
                }
            }
            due = due.min(if now < it.since + PERIOD { it.since + PERIOD } else { now + PERIOD });
        }
        self.common.adapting = adapting;
        due
    }

    /// The adaptations of the plan in force.
    pub fn adaptations(&self) -> impl Iterator<Item = AdaptationState> + '_ {
        self.common.adapting.list.iter().map(Adapter::seen)
    }
}

impl Adapter {
    /// There is no reading: all stays as it is.
    fn is_blind(&mut self, now: Moment) {
        self.law.is_blind();
        self.begin(now);
        self.state = Adapts::Blind;
    }

    /// The next period begins.
    fn begin(&mut self, now: Moment) {
        let seconds = now.since(self.since).as_secs_f64();
        self.points.came(seconds, |class| self.traffic.of_class(class));
        self.traffic.begin();
        self.since = now;
    }

    /// A reading came: moves the set points.
    fn step(&mut self, now: Moment, reading: f64) {
        let seconds = now.since(self.since).as_secs_f64();
        let demand = self.traffic.demand();
        let demand = if demand < DEMAND_MIN { 1.0 } else { demand.min(DEMAND_MAX) };
        let reference = self.settings.reference.value();
        let (used, error) = match self.settings.reference {
            Reference::Utilization(_) => {
                self.model.learn(&self.traffic.rates(seconds), reading);
                (reading * demand, reference - reading * demand)
            }
            Reference::QueueLen(_) => {
                // 1/2 at the reference, and never all. What is refused for want of capacity would be in the queue: refusals keep it short.
                let fill = (reading / (reading + reference)).max(1.0 - 0.5 / demand);
                let error = 0.5 - fill;
                (0.5, if error > 0.0 { error * SHORT_QUEUE } else { error })
            }
        };
        self.begin(now);
        let mut by = self.law.next(self.settings.gain_margin, error);
        if error >= 0.0
            && self
                .points
                .parts()
                .iter()
                .all(|it| it.set_point >= f64::from(self.settings.highest()))
        {
            // A reading that rises, and is below the reference, takes nothing from anybody yet.
            by = by.max(0.0);
        }
        let (least, highest) = (self.least(), self.settings.highest());
        let (points, traffic, model) = (&mut self.points, &self.traffic, &self.model);
        let all = points.rate().max(f64::MIN_POSITIVE);
        let is_of_share = matches!(self.settings.reference, Reference::Utilization(_));
        // Where next to nothing is used, that does not say that a rise would take nothing.
        let used = if by > 0.0 { used.max(self.settings.reference_share()) } else { used };
        let gain = |part: &Part, level: LevelNumber| {
            let own = used * part.rate / all;
            let learned = model.change(&traffic.raised(part.rate, level));
            let fraction = part.set_point - f64::from(level);
            // All that is used, if only this part of the requests uses it. Where level 0 is the other, so it is: refusals cost next to
            // nothing.
            let most = own / fraction.clamp(FRACTION_MIN, 1.0);
            let least = LEARNED_MIN * own / fraction.clamp(NEAR, 1.0);
            if level > 0 && is_of_share && learned.is_known() {
                (learned.value + learned.error).clamp(least, most)
            } else {
                most
            }
        };
        points.move_by(by, least, highest, gain);
        self.state = self.what();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::{Adaptation, Level};
    use crate::class::Class;
    use crate::classify::flow::Flow;
    use crate::control::Slots;
    use crate::gate::{Arrival, Claim, Effect, Verdict};
    use crate::outcome::{End, Outcome};
    use crate::plan::{Plan, Spec};
    use crate::reason::Reason;
    use crate::sense::{Quantity, Reading};
    use proptest::prelude::*;
    use std::time::Duration;

    const REFERENCE: f64 = 0.58;

    fn adaptation(levels: usize, refuses: bool) -> Adaptation {
        Adaptation {
            name: "pages".to_owned(),
            source: "cpu".into(),
            reference: Reference::Utilization(5800),
            levels: vec![Level::default(); levels],
            refuses,
            by: Flow::CLIENT,
            gain_margin: Adaptation::GAIN_MARGIN,
        }
    }

    fn plan(adaptation: Adaptation, classes: &[&str]) -> Plan {
        let classes = classes.iter().map(|name| Class::named(*name)).collect();
        let slots = Slots::Fixed(1000);
        let spec = Spec { classes, slots, adaptations: vec![adaptation], ..Spec::protective() };
        spec.build().expect("a sound plan")
    }

    /// A server, and clients that come to it through a gate.
    struct World {
        gate: Gate<()>,
        now: Moment,
        /// Shares of the server that a request of each class takes, by level from 0; and what others use.
        costs: Vec<Vec<f64>>,
        others: f64,
        /// The readings, the latest last, and by how many periods they are late.
        used: Vec<f64>,
        late: usize,
    }

    impl World {
        fn new(plan: Plan, costs: Vec<Vec<f64>>) -> Self {
            World {
                gate: Gate::new(plan),
                now: Moment::ZERO,
                costs,
                others: 0.0,
                used: Vec::new(),
                late: 0,
            }
        }

        fn lack(&mut self, slot: &crate::gate::Slot) {
            let adapting = &mut self.gate.common.adapting;
            adapting.gave_up(slot.adapted, Reason::DeadlineExpired);
        }

        /// A second, in which so many requests of each class come. Returns the share of each class's that had each level.
        fn second(&mut self, rates: &[f64], noise: f64) -> Vec<Vec<f64>> {
            let id = self.gate.plan().adaptation_ids()[0];
            const COUNT: usize = 400;
            let levels = usize::from(self.gate.plan().adaptations[0].highest()) + 1;
            let mut shares = vec![vec![0.0; levels]; rates.len()];
            let mut used = self.others;
            let mut slots = Vec::new();
            for (class, rate) in rates.iter().enumerate() {
                if *rate == 0.0 {
                    continue;
                }
                for number in 0..COUNT {
                    let client = u64::MAX / COUNT as u64 * number as u64;
                    let place = ClassId(class as u16);
                    let adapted = self.gate.level(id, place, client, false).expect("it is there");
                    let level = usize::from(adapted.level);
                    shares[class][level] += 1.0 / COUNT as f64;
                    used += self.costs[class][level] * rate / COUNT as f64;
                    let arrival = Arrival { adapted: Some(adapted), ..Arrival::of(place) };
                    match self.gate.arrive(self.now, arrival, || ()) {
                        Verdict::Admit(slot) => slots.push(slot),
                        Verdict::Reject(Reason::Level) => assert_eq!(level, 0),
                        other => panic!("{other:?}"),
                    }
                }
            }
            // Beyond what it can do, only a part is answered in this second.
            let part = (1.0 / used).min(1.0);
            let answered = (slots.len() as f64 * part) as usize;
            for (number, slot) in slots.into_iter().enumerate() {
                let first_byte = Some(Duration::from_millis(5));
                let outcome =
                    Outcome { first_byte, bytes: 1000, ..Outcome::without_answer(End::Served) };
                // The others would have waited until they were refused.
                if number >= answered {
                    self.lack(&slot);
                    let preempted = Outcome::without_answer(End::Preempted);
                    self.gate.finish(self.now, slot, preempted);
                } else {
                    self.gate.finish(self.now, slot, outcome);
                }
            }
            self.used.push(used);
            self.now = self.now + Duration::from_millis(1001);
            let seen = self.used[self.used.len().saturating_sub(1 + self.late)];
            let share = (seen.min(1.0) + noise).clamp(0.0, 1.0);
            let lasting = Duration::from_secs(3);
            let quantity = Quantity::Utilization(share);
            let reading = Reading { source: "cpu", quantity, lasting };
            self.gate.observe(self.now, reading).expect("it is possible");
            self.gate.tick(self.now);
            shares
        }
    }

    #[test]
    fn a_step_to_three_times_the_load_is_brought_to_the_reference_by_refusing_a_part() {
        let mut world = World::new(plan(adaptation(1, true), &["all"]), vec![vec![0.0, 0.01]]);
        for _ in 0..10 {
            world.second(&[5.0], 0.0);
        }
        assert_eq!(world.gate.adaptations().next().map(|it| it.state), Some(Adapts::Full));
        // 300 % of the server.
        let used: Vec<f64> = (0..60)
            .map(|_| {
                world.second(&[300.0], 0.0);
                world.used[world.used.len() - 1]
            })
            .collect();
        let settled = used.iter().rposition(|used| (used - REFERENCE).abs() > 0.03);
        assert!(settled.is_none_or(|second| second < 20), "{used:?}");
        assert!(used[5..].iter().all(|used| *used > 0.3), "it does not swing below: {used:?}");
        // And back: nobody is refused any more.
        for _ in 0..30 {
            world.second(&[5.0], 0.0);
        }
        assert_eq!(world.second(&[5.0], 0.0)[0][0], 0.0);
    }

    #[test]
    fn worse_answers_save_all_clients_from_refusals_where_they_suffice() {
        let costs = vec![0.0005, 0.002, 0.01];
        let mut world = World::new(plan(adaptation(2, true), &["all"]), vec![costs]);
        for _ in 0..60 {
            world.second(&[150.0], 0.0);
        }
        let shares = world.second(&[150.0], 0.0);
        assert_eq!(shares[0][0], 0.0, "nobody is refused: {shares:?}");
        let used = world.used[world.used.len() - 1];
        assert!((used - REFERENCE).abs() < 0.03, "{used}");
        // The model knows by now what the better answer costs more: 0.008 of the server, of which 150 a second stand for all.
        let adapter = &world.gate.common.adapting.list[0];
        let more = adapter.model.change(&adapter.traffic.raised(1.0, 1));
        let truth = 0.008 * 150.0 / 400.0;
        assert!(more.is_known() && (more.value / truth - 1.0).abs() < 0.15, "{more:?} {truth}");
    }

    #[test]
    fn the_important_class_keeps_its_quality_as_long_as_the_other_can_give_way() {
        let costs = vec![vec![0.0005, 0.002, 0.01]; 2];
        let mut world = World::new(plan(adaptation(2, true), &["premium", "basic"]), costs);
        for _ in 0..60 {
            world.second(&[20.0, 100.0], 0.0);
        }
        let shares = world.second(&[20.0, 100.0], 0.0);
        assert_eq!(shares[0][..2], [0.0; 2], "{shares:?}");
        assert!(shares[1][1] > 0.5 && shares[1][0] == 0.0, "{shares:?}");
    }

    #[test]
    fn a_sensor_that_is_silent_leaves_the_levels_where_they_are() {
        let costs = vec![vec![0.0, 0.01]];
        let mut world = World::new(plan(adaptation(1, true), &["all"]), costs);
        for _ in 0..30 {
            world.second(&[300.0], 0.0);
        }
        let before = world.gate.adaptations().next().expect("it is there").set_points;
        world.now = world.now + Duration::from_secs(20);
        world.gate.tick(world.now);
        let state = world.gate.adaptations().next().expect("it is there");
        assert_eq!((state.state, &state.set_points), (Adapts::Blind, &before));
        world.now = world.now + Duration::from_secs(60);
        world.gate.tick(world.now);
        assert_eq!(world.gate.adaptations().next().map(|it| it.set_points), Some(before));
        for _ in 0..20 {
            world.second(&[300.0], 0.0);
        }
        let used = world.used[world.used.len() - 1];
        assert!((used - REFERENCE).abs() < 0.03, "it goes on: {used}");
    }

    #[test]
    fn without_readings_a_plan_gives_full_quality_and_a_running_session_is_not_refused() {
        let mut gate: Gate<()> = Gate::new(plan(adaptation(2, true), &["all"]));
        gate.tick(Moment::from_millis(5000));
        let id = gate.plan().adaptation_ids()[0];
        let level =
            |gate: &Gate<()>, running| gate.level(id, ClassId(0), 0, running).map(|it| it.level);
        assert_eq!(level(&gate, false), Some(2));
        let mut world = World::new(plan(adaptation(1, true), &["all"]), vec![vec![0.0, 1.0]]);
        for _ in 0..60 {
            world.second(&[300.0], 0.0);
        }
        assert_eq!(level(&world.gate, true), Some(1));
        let refused = (0..u64::MAX).step_by(1 << 58).filter(|client| {
            world.gate.level(id, ClassId(0), *client, false).is_some_and(|it| it.level == 0)
        });
        assert!(refused.count() > 55, "of 64");
    }

    #[test]
    fn a_queue_is_kept_short_by_worse_answers() {
        let settings = Adaptation {
            source: "backlog".into(),
            reference: Reference::QueueLen(20),
            ..adaptation(2, false)
        };
        let spec =
            Spec { slots: Slots::Fixed(1), adaptations: vec![settings], ..Spec::protective() };
        let mut gate: Gate<usize> = Gate::new(spec.build().expect("a sound plan"));
        let id = gate.plan().adaptation_ids()[0];
        let Verdict::Admit(mut slot) = gate.arrive(Moment::ZERO, Arrival::of(ClassId(0)), || 0)
        else {
            panic!("free")
        };
        let mut tickets = Vec::new();
        for number in 0..100 {
            let adapted = gate.level(id, ClassId(0), (number as u64) << 57, false);
            let arrival = Arrival {
                adapted,
                deadline: Some(Duration::from_secs(60)),
                ..Arrival::of(ClassId(0))
            };
            match gate.arrive(Moment::ZERO, arrival, || number) {
                Verdict::Queue(ticket) => tickets.push(ticket),
                other => panic!("{other:?}"),
            }
        }
        for second in 1..10u64 {
            // One is served in each.
            let served = Outcome::without_answer(End::Served);
            gate.finish(Moment::from_millis(1001 * second), slot, served);
            gate.tick(Moment::from_millis(1001 * second));
            let next = std::iter::from_fn(|| gate.next_effect()).find_map(Effect::into_wake);
            let Claim::Admitted(next) = gate.claim(tickets[next.expect("one is next")]) else {
                panic!("its turn")
            };
            slot = next;
        }
        let state = gate.adaptations().next().expect("it is there");
        assert!(state.set_points[0].1 < 1.5, "{:?}", state.set_points);
        let _ends = slot;
    }

    #[test]
    fn a_queue_that_refusals_keep_short_is_no_reason_to_be_content() {
        let settings = Adaptation {
            source: "backlog".into(),
            reference: Reference::QueueLen(20),
            ..adaptation(2, false)
        };
        let class = Class { queue_len_max: 5, ..Class::named("all") };
        let slots = Slots::Fixed(2);
        let spec =
            Spec { classes: vec![class], slots, adaptations: vec![settings], ..Spec::protective() };
        let mut gate: Gate<()> = Gate::new(spec.build().expect("a sound plan"));
        let id = gate.plan().adaptation_ids()[0];
        for second in 0..12u64 {
            let now = Moment::from_millis(1001 * second);
            let mut slots = Vec::new();
            for number in 0..20u64 {
                let adapted = gate.level(id, ClassId(0), number << 59, false);
                let arrival = Arrival { adapted, ..Arrival::of(ClassId(0)) };
                if let Verdict::Admit(slot) = gate.arrive(now, arrival, || ()) {
                    slots.push(slot);
                }
            }
            for slot in slots {
                gate.finish(now, slot, Outcome::without_answer(End::Served));
            }
            gate.tick(now);
        }
        let state = gate.adaptations().next().expect("it is there");
        assert!(state.reading.is_some_and(|len| len < 20.0), "{state:?}");
        assert!(state.set_points[0].1 < 1.1, "{:?}", state.set_points);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Servers and loads of any kind: the reference is held without oscillation, though readings are noisy and up to a period
        /// late, and costs double or halve after two minutes.
        #[test]
        fn any_plant_settles(
            full in 0.002..0.05f64,
            cheaper in 1.5..20.0f64,
            refusal in 0.0..0.02f64,
            load in 1.3..6.0f64,
            others in 0.0..0.2f64,
            levels in 1usize..3,
            late in 0usize..2,
            change in prop_oneof![Just(0.5), Just(1.0), Just(2.0)],
            noise in proptest::collection::vec(-0.02..0.02f64, 240),
        ) {
            let costs = |factor: f64| {
                let all = [full * refusal, full / cheaper, full].map(|it| it * factor);
                vec![if levels == 1 { vec![all[0], all[2]] } else { all.to_vec() }]
            };
            let mut world = World::new(plan(adaptation(levels, true), &["all"]), costs(1.0));
            (world.others, world.late) = (others, late);
            let rate = load / full;
            let mut seen = Vec::new();
            for (second, noise) in noise.into_iter().enumerate() {
                if second == 120 {
                    world.costs = costs(change);
                }
                world.second(&[rate], noise);
                if (90..120).contains(&second) || second >= 210 {
                    seen.push(world.used[world.used.len() - 1]);
                }
            }
            // Where all at full quality is less than the reference, that is what is used.
            let bound = |factor: f64| (others + rate * full * factor).min(REFERENCE);
            for (part, factor) in [(&seen[..30], 1.0), (&seen[30..], change)] {
                let mean = part.iter().sum::<f64>() / part.len() as f64;
                prop_assert!((mean - bound(factor)).abs() < 0.04, "mean {mean}");
                let worst = part.iter().map(|it| (it - mean).abs()).fold(0.0, f64::max);
                prop_assert!(worst < 0.12, "it swings by {worst} around {mean}");
            }
        }
    }
}
