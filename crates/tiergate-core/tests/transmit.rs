//! Who sends when on a link, in virtual time: reservations, what is left of them, and the background.

use proptest::prelude::*;
use std::time::Duration;
use tiergate_core::class::ClassId;
use tiergate_core::time::Moment;
use tiergate_core::transmit::{Capacity, Heads, Scheduler, Sender, Share};

/// Of a link of 10 Mb/s: bytes on the wire in a second that may be used, and a packet's.
const CAPACITY: u64 = 10_000_000;
const SAID: Capacity = Capacity::Said(CAPACITY);
const RATE: f64 = 0.98 * CAPACITY as f64 / 8.0;
const PACKET: f64 = 1497.0;

fn reserved(slice_us: u64, period_ms: u64, extra: bool) -> Share {
    let (slice, period) = (Duration::from_micros(slice_us), Duration::from_millis(period_ms));
    Share { slice, period, extra, weight: 1.0 }
}

fn weighing(weight: f64) -> Share {
    Share { weight, ..Share::REST }
}

fn sender(place: usize, share: Option<Share>) -> Sender {
    Sender { class: ClassId(place as u16), share, is_background: false }
}

/// A link, and which classes have something to send.
struct World {
    schedule: Scheduler,
    now: Moment,
    wants: Vec<bool>,
    /// Whether who is served does not wait meanwhile, as where its only answer is.
    alone: bool,
}

impl World {
    fn of(senders: &[Sender]) -> Self {
        let schedule = Scheduler::new(Moment::ZERO, SAID, senders);
        World { schedule, now: Moment::ZERO, wants: vec![false; senders.len()], alone: false }
    }

    fn shares(shares: &[Share]) -> Self {
        let senders: Vec<_> =
            shares.iter().enumerate().map(|(place, it)| sender(place, Some(*it))).collect();
        World::of(&senders)
    }

    fn want(&mut self, wants: &[bool]) {
        for (place, wants) in wants.iter().enumerate() {
            let class = ClassId(place as u16);
            match (self.wants[place], wants) {
                (false, true) => self.schedule.waits(self.now, class),
                (true, false) => self.schedule.waits_no_more(self.now, class),
                _ => {}
            }
            self.wants[place] = *wants;
        }
    }

    fn sent(&self) -> Vec<f64> {
        let sent = |place| self.schedule.of(ClassId(place as u16)).map_or(0, |it| it.sent());
        (0..self.wants.len()).map(|place| sent(place) as f64).collect()
    }

    /// Bytes that each sends in so many milliseconds.
    fn run(&mut self, ms: u64) -> Vec<f64> {
        let before = self.sent();
        let end = self.now + Duration::from_millis(ms);
        while self.now < end {
            match self.schedule.next(self.now, |_| true) {
                Ok(class) => {
                    if self.alone {
                        self.schedule.waits_no_more(self.now, class);
                    }
                    self.schedule.take(self.now, class, 1400, heads()).expect("it was called");
                    if self.alone {
                        self.schedule.waits(self.now, class);
                    }
                }
                Err(at) => self.now = at.min(end).max(self.now + Duration::from_nanos(1)),
            }
        }
        self.sent().iter().zip(before).map(|(now, then)| now - then).collect()
    }

    /// The same, in parts of what the link lets through.
    fn parts(&mut self, ms: u64) -> Vec<f64> {
        let whole = RATE * ms as f64 / 1e3;
        self.run(ms).iter().map(|it| it / whole).collect()
    }
}

/// Of answers by TLS: 97 bytes a packet.
fn heads() -> Heads {
    Heads::of(false, true)
}

fn near(parts: &[f64], wanted: &[f64]) {
    let is_near = |(it, wanted): (&f64, &f64)| (it - wanted).abs() < 0.005;
    assert!(parts.iter().zip(wanted).all(is_near), "{parts:.4?} instead of {wanted:?}");
}

#[test]
fn reservations_as_of_the_paper_s_figure_5() {
    // c1 is held flat, c2 has what is left, c3 reserves most of it.
    let shares = [reserved(3600, 200, false), reserved(1200, 10, true), reserved(6000, 10, false)];
    let mut world = World::shares(&shares);
    world.want(&[true, false, false]);
    near(&world.parts(3000), &[0.018, 0.0, 0.0]);
    world.want(&[true, true, false]);
    near(&world.parts(3000), &[0.018, 0.982, 0.0]);
    world.want(&[true, true, true]);
    near(&world.parts(3000), &[0.018, 0.382, 0.6]);
    world.want(&[true, true, false]);
    near(&world.parts(3000), &[0.018, 0.982, 0.0]);
}

#[test]
fn what_the_gateway_was_late_with_is_made_good() {
    let shares = [reserved(2000, 20, false), reserved(20_000, 200, false), weighing(1.0)];
    let mut world = World::shares(&shares);
    world.want(&[true, true, true]);
    world.run(200);
    let before = world.sent();
    for _ in 0..50 {
        world.run(150);
        // It has no processor.
        world.now = world.now + Duration::from_millis(50);
    }
    let sent: Vec<f64> = world.sent().iter().zip(&before).map(|(now, then)| now - then).collect();
    let parts: Vec<f64> = sent.iter().map(|it| it / (RATE * 10.0)).collect();
    near(&parts[..2], &[0.1, 0.1]);
    assert!(parts[2] > 0.5, "what is left: {parts:?}");
    // Who wants nothing meanwhile has no more than a slice afterwards.
    world.want(&[false, false, true]);
    world.run(2000);
    world.want(&[true, true, true]);
    let burst = world.run(20);
    assert!(burst[0] < 2.2 * RATE * 0.002 + 2.0 * PACKET, "{burst:?}");
}

#[test]
fn what_is_left_is_shared_by_weight_also_where_who_is_served_waits_no_more() {
    for alone in [false, true] {
        let shares = [weighing(1.0), weighing(3.0), reserved(50_000, 100, true)];
        let mut world = World { alone, ..World::shares(&shares) };
        world.want(&[true, true, false]);
        near(&world.parts(4000), &[0.25, 0.75, 0.0]);
        // Who wanted nothing is owed nothing.
        world.want(&[false, true, false]);
        world.run(4000);
        world.want(&[true, true, true]);
        near(&world.parts(4000), &[0.1, 0.3, 0.6]);
    }
}

#[test]
fn the_background_and_classes_of_which_nothing_is_said_have_what_is_left() {
    let senders = [
        sender(0, Some(reserved(30_000, 100, false))),
        sender(1, None),
        Sender { is_background: true, ..sender(2, None) },
    ];
    let mut world = World::of(&senders);
    world.want(&[true, false, true]);
    near(&world.parts(2000), &[0.3, 0.0, 0.7]);
    world.want(&[true, true, true]);
    near(&world.parts(2000), &[0.3, 0.7, 0.0]);
    // What takes no turns is charged all the same.
    world.want(&[true, false, true]);
    let before = world.sent();
    for _ in 0..2000 {
        world.schedule.charge(world.now, 503, heads());
        world.run(1);
    }
    let parts: Vec<f64> =
        world.sent().iter().zip(before).map(|(now, then)| (now - then) / (RATE * 2.0)).collect();
    near(&parts, &[0.3, 0.0, 0.7 - 600_000.0 / RATE]);
}

#[test]
fn a_reload_changes_what_is_reserved_and_who_waits_goes_on() {
    let mut world = World::shares(&[reserved(50_000, 100, false), weighing(1.0)]);
    world.want(&[true, true]);
    near(&world.parts(2000), &[0.5, 0.5]);
    let less = [sender(0, Some(reserved(1000, 10, false))), sender(1, None)];
    world.schedule.set(world.now, SAID, &less);
    world.run(100);
    near(&world.parts(2000), &[0.1, 0.9]);
    // The first is gone from the policy, with what it had reserved.
    world.schedule.set(world.now, SAID, &[sender(1, Some(reserved(75_000, 100, true)))]);
    world.run(100);
    near(&world.parts(2000), &[0.125, 0.875]);
    world.schedule.set(world.now, SAID, &[sender(1, None)]);
    assert!(!world.schedule.is_shared());
}

#[test]
fn another_capacity_leaves_each_its_part() {
    let mut world = World::shares(&[reserved(50_000, 100, false), Share::REST]);
    world.want(&[true, true]);
    near(&world.parts(2000), &[0.5, 0.5]);
    for (capacity, part) in [(CAPACITY / 4, 0.125), (CAPACITY / 2, 0.25)] {
        world.schedule.set_capacity(world.now, capacity);
        world.run(100);
        near(&world.parts(2000), &[part, part]);
    }
}

#[test]
fn the_background_pauses_while_it_is_not_known_what_the_link_carries() {
    let background = Sender { is_background: true, ..sender(0, None) };
    let reserves = sender(1, Some(reserved(50_000, 100, false)));
    for senders in [&[background][..], &[background, reserves]] {
        let mut world = World::of(senders);
        world.want(&[true, true][..senders.len()]);
        let before = world.parts(1000);
        world.schedule.pause(world.now + Duration::from_millis(300));
        let paused = world.parts(300);
        assert_eq!(paused[0], 0.0);
        // Others have what is theirs.
        near(&paused[1..], &before[1..]);
        near(&world.parts(1000), &before);
        // It goes on as soon as something is known.
        let resume: [fn(&mut Scheduler, Moment, &[Sender]); 3] = [
            |schedule, _, _| schedule.resume(),
            |schedule, now, _| schedule.set_capacity(now, CAPACITY),
            |schedule, now, senders| schedule.set(now, SAID, senders),
        ];
        for resume in resume {
            world.schedule.pause(world.now + Duration::from_secs(60));
            assert_eq!(world.run(100)[0], 0.0);
            resume(&mut world.schedule, world.now, senders);
            near(&world.parts(1000), &before);
        }
    }
}

#[test]
fn answers_of_the_background_send_for_a_while_before_others_do() {
    let background = Sender { is_background: true, ..sender(1, None) };
    let schedule = |capacity| {
        let senders = [sender(0, Some(Share::REST)), background];
        Scheduler::new(Moment::ZERO, capacity, &senders)
    };
    let of = |class, waiting| schedule(SAID).run(ClassId(class), waiting);
    assert_eq!(of(0, 5), 1, "others have a packet in turn");
    // What 10 Mb/s carry in 20 ms.
    let few = of(1, 5);
    assert!((14..=17).contains(&few), "{few}");
    // Many wait: each is to have its turn soon.
    assert_eq!([1, 10, 20, 200, usize::MAX].map(|it| of(1, it)), [few, few, few / 2, 1, 1]);
    // Also where they do so on several threads.
    let mut threads = schedule(SAID);
    (0..4).for_each(|_| threads.waits(Moment::ZERO, ClassId(1)));
    assert_eq!([2, 5].map(|it| threads.run(ClassId(1), it)), [few, few / 2]);
    // Where the capacity is to be found, packets of one connection follow one another, but not for long.
    let found = schedule(Capacity::Found);
    assert_eq!([0, 1].map(|it| found.run(ClassId(it), 2)), [Scheduler::RUN; 2]);
}

#[test]
fn a_class_that_leaves_the_background_is_as_far_as_the_others() {
    let background = |is_background| Sender { is_background, ..sender(0, None) };
    let part = sender(1, Some(weighing(1.0)));
    let mut world = World::of(&[background(true), part]);
    world.want(&[true, false]);
    world.run(5000);
    world.want(&[true, true]);
    world.run(500);
    world.schedule.set(world.now, SAID, &[background(false), part]);
    near(&world.parts(2000), &[0.5, 0.5]);
    world.schedule.set(world.now, SAID, &[background(true), part]);
    near(&world.parts(2000), &[0.0, 1.0]);
}

#[test]
fn who_needs_no_turn_any_more_is_called_at_once_and_charged() {
    let batch_of = |place| Sender { is_background: true, ..sender(place, None) };
    let batch = batch_of(1);
    let mut world = World::of(&[sender(0, Some(reserved(1000, 100, false))), batch]);
    world.want(&[true, true]);
    world.run(500);
    world.schedule.set(world.now, SAID, &[sender(0, None), batch]);
    world.schedule.charge(world.now, 1_000_000, heads());
    assert_eq!(world.schedule.next(world.now, |_| true), Ok(ClassId(0)));
    assert_eq!(world.schedule.take(world.now, ClassId(0), 100_000, heads()), Ok(100_000));
    assert!(world.schedule.take(world.now, ClassId(1), 1400, heads()).is_err(), "it is in debt");
    // Also where another such class waits on another thread.
    let mut world = World::of(&[sender(0, Some(weighing(1.0))), sender(1, None), batch_of(2)]);
    world.want(&[true, true, true]);
    world.schedule.set(world.now, SAID, &[sender(0, None), sender(1, None), batch_of(2)]);
    let here = |class| class == ClassId(1);
    assert_eq!(world.schedule.next(world.now, here), Ok(ClassId(1)));
}

#[test]
fn whom_no_claim_is_left_to_another_thread_waits_for() {
    let shares = [reserved(10_000, 100, false), weighing(1.0)];
    let mut world = World::shares(&shares);
    world.want(&[true, true]);
    let now = Moment::from_millis(50);
    let next = world.schedule.next(now, |class| class == ClassId(1));
    let again = next.expect_err("the first comes first, on another thread").since(now);
    assert!(again > Duration::ZERO && again < Duration::from_millis(5), "{again:?}");
    assert!(world.schedule.take(now, ClassId(1), 1400, heads()).is_err());
    assert_eq!(world.schedule.take(now, ClassId(0), 1400, heads()), Ok(1400));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the others want and when: who wants it has its slice in every period, and the link is never idle while somebody may send.
    #[test]
    fn what_is_reserved_is_kept_in_every_period(
        parts in proptest::collection::vec((0.02..1.0f64, 10u64..200, any::<bool>(), 0.1..10.0f64), 2..6),
        wants in proptest::collection::vec(any::<u8>(), 20..40),
        fill in 0.3..0.9f64,
    ) {
        let sum: f64 = parts.iter().map(|it| it.0).sum();
        let shares: Vec<Share> = parts
            .iter()
            .map(|(part, period_ms, extra, weight)| {
                let slice = part / sum * fill * *period_ms as f64 / 1e3;
                let (slice, period) = (Duration::from_secs_f64(slice), Duration::from_millis(*period_ms));
                Share { slice, period, extra: *extra, weight: *weight }
            })
            .collect();
        let mut world = World::shares(&shares);
        let count = shares.len();
        let mut wanted = vec![0; count];
        let mut sent = vec![0.0; count];
        for turn in wants {
            // The first always wants.
            let wants: Vec<bool> = (0..count).map(|place| place == 0 || turn & (1 << place) != 0).collect();
            world.want(&wants);
            let had = world.run(200);
            let mut is_any_extra = false;
            for place in 0..count {
                let share = shares[place];
                is_any_extra |= wants[place] && share.extra;
                wanted[place] = if wants[place] { wanted[place] + 1 } else { 0 };
                sent[place] = if wants[place] { sent[place] + had[place] } else { 0.0 };
                if wanted[place] > 0 {
                    // Whole periods in that time, but for the one that it came in, and a packet of each other.
                    let periods = 0.2 * f64::from(wanted[place]) / share.period.as_secs_f64();
                    let slice = RATE * share.slice.as_secs_f64();
                    let least = slice * (periods.floor() - 1.0) - PACKET * (count as f64 + 2.0);
                    prop_assert!(sent[place] >= least, "{place}: {} of {least}", sent[place]);
                    let most = slice * (periods + 2.0) + 3.0 * PACKET;
                    prop_assert!(share.extra || sent[place] <= most, "{place}: {} of {most}", sent[place]);
                }
            }
            let all: f64 = had.iter().sum();
            let idle = RATE * 0.2 - all;
            prop_assert!(!is_any_extra || idle < 4.0 * PACKET, "idle for {idle} bytes: {had:.0?}");
        }
    }
}
