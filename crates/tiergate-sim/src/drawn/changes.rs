//! What happens to the capacity of a drawn server, over time.

use super::chance::between;
use super::origin::Origin;
use super::parts::{Event, Family};
use crate::server::{Drift, Pause, Quota, Shape, Slower, Step};
use fastrand::Rng;

/// Fewer workers than these are not taken away, but all become slower.
const WORKERS_FEW: u32 = 8;
/// Length of a quota's period: the Linux kernel's default.
const QUOTA_EVERY_S: f64 = 0.1;

/// Capacity over time, and what else happens to it.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    /// From when on it is how many times the server's.
    capacity: Vec<(f64, f64)>,
    /// The same, of the speed of everything.
    speed: Vec<(f64, f64)>,
    /// When it changes.
    pub(super) at_s: Vec<f64>,
    /// The least part of the server's capacity that there is for a while.
    pub(super) least: f64,
    /// Longest pause.
    pub(super) pause_ms: f64,
    /// What happens, in words.
    pub(super) words: Vec<String>,
}

impl Changes {
    pub(super) fn none() -> Self {
        Changes {
            capacity: Vec::new(),
            speed: Vec::new(),
            at_s: Vec::new(),
            least: 1.0,
            pause_ms: 0.0,
            words: Vec::new(),
        }
    }

    /// Adds an event of [`Event::OF_CAPACITY`]; others are not its business. `when`: the two moments at which something may
    /// happen.
    pub(super) fn add(
        &mut self,
        family: Family,
        event: Event,
        origin: &mut Origin,
        when: [f64; 2],
        rng: &mut Rng,
    ) {
        let [first, second] = when;
        let shape = &mut origin.shape;
        match event {
            Event::Down => self.down(between(rng, family.of((0.4, 0.75), (0.25, 0.6))), when, rng),
            Event::Up => self.up(family, between(rng, (0.4, 0.7)), when),
            Event::WarmUp if family == Family::Open => {
                shape.slow_start_s = first;
                self.at_s.push(first);
                // What it is when judging begins.
                self.least *= 0.1 + 0.9 * 15.0 / first;
                self.words.push(format!("warm after {first:.0} s"));
            }
            Event::WarmUp => {
                self.restart(first, between(rng, (0.35, 0.6)), between(rng, (8.0, 15.0)))
            }
            Event::Pauses => {
                let every_s = between(rng, family.of((3.0, 8.0), (1.0, 10.0)));
                let for_s =
                    (every_s * between(rng, family.of((0.02, 0.04), (0.04, 0.15)))).min(0.5);
                shape.pause = Some(Pause { every_s, for_s });
                self.least *= 1.0 - for_s / every_s;
                self.pause_ms = 1e3 * for_s;
                self.words.push(format!("pauses of {for_s:.2} s every {every_s:.1} s"));
            }
            Event::Quota => {
                let part = between(rng, family.of((0.4, 0.8), (0.25, 0.7)));
                let cores = shape.cores.expect("such servers have cores");
                shape.quota =
                    Some(Quota { every_s: QUOTA_EVERY_S, cpu_s: part * cores * QUOTA_EVERY_S });
                origin.cores_part = part;
                self.pause_ms = self.pause_ms.max(1e3 * QUOTA_EVERY_S);
                self.words.push(format!("a quota of {:.0} % of the cores", 100.0 * part));
            }
            Event::Drift => {
                let sd = between(rng, family.of((0.15, 0.35), (0.3, 0.6)));
                let over_s = between(rng, family.of((3.0, 10.0), (1.0, 20.0)));
                shape.drift = Some(Drift { sd, over_s });
                // Nine of ten moments have less work.
                self.least *= (-1.3 * sd).exp();
                self.words.push(format!("work drifts (sd {sd:.2}, over {over_s:.0} s)"));
            }
            Event::Slower => {
                let share = between(rng, family.of((0.2, 0.5), (0.1, 0.6)));
                let times = between(rng, family.of((2.0, 4.0), (2.0, 6.0)));
                shape.slower = Some(Slower { share, times });
                origin.workers_part = 1.0 - share + share / times;
                let slower = 100.0 * share;
                self.words
                    .push(format!("{slower:.0} % of the workers take {times:.1} times as long"));
            }
            _ => {}
        }
        debug_assert!(second > first);
    }

    fn down(&mut self, part: f64, [first, second]: [f64; 2], rng: &mut Rng) {
        self.least *= part;
        self.capacity.push((first, part));
        self.at_s.push(first);
        let back = rng.bool();
        if back {
            self.capacity.push((second, 1.0 / part));
            self.at_s.push(second);
        }
        let back = if back { format!(", back at {second:.0} s") } else { String::new() };
        self.words.push(format!("capacity falls to {part:.2} at {first:.0} s{back}"));
    }

    /// In one step, or in two.
    fn up(&mut self, family: Family, part: f64, [first, second]: [f64; 2]) {
        self.least *= part;
        self.capacity.push((0.0, part));
        self.at_s.push(first);
        match family {
            Family::Open => self.capacity.push((first, 1.0 / part)),
            Family::HeldOut => {
                let step = (1.0 / part).sqrt();
                self.capacity.extend([(first, step), (second, step)]);
                self.at_s.push(second);
            }
        }
        self.words.push(format!("capacity grows from {part:.2} to 1 from {first:.0} s on"));
    }

    /// A part of the server's processes is restarted, and is slow until it is warm.
    fn restart(&mut self, at: f64, part: f64, lasts: f64) {
        self.least *= part;
        self.at_s.extend([at, at + lasts]);
        self.speed.push((at, part));
        let step = (1.0 / part).powf(0.25);
        self.speed.extend((1..=4).map(|number| (at + lasts * f64::from(number) / 4.0, step)));
        self.words.push(format!("speed falls to {part:.2} at {at:.0} s, for {lasts:.0} s"));
    }

    /// Makes the server's steps of them.
    pub(super) fn apply(&self, shape: &mut Shape) {
        let has_parts = match shape.workers {
            Some(workers) => workers >= WORKERS_FEW,
            None => shape.cores.is_some(),
        };
        let factor = |of: &[(f64, f64)], until: f64| -> f64 {
            of.iter().filter(|(at, _)| *at <= until).map(|(_, times)| times).product()
        };
        let mut moments: Vec<f64> =
            self.capacity.iter().chain(&self.speed).map(|(at, _)| *at).collect();
        moments.sort_by(f64::total_cmp);
        moments.dedup();
        let (workers, cores) = (shape.workers, shape.cores);
        for at_s in moments {
            let capacity = factor(&self.capacity, at_s);
            let speed = factor(&self.speed, at_s);
            let parts = if has_parts { capacity } else { 1.0 };
            let scaled = |workers: u32| (f64::from(workers) * parts).round().max(1.0) as u32;
            let step = Step {
                at_s,
                workers: workers.map(scaled),
                cores: cores.map(|cores| cores * parts),
                speed: Some(speed * capacity / parts),
            };
            shape.step.push(step);
        }
    }
}
