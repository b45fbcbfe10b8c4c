//! `tiergate-lab flood`: SYNs from forged addresses, at a rate, for a time. For the lab's own networks.
//!
//! It runs on the clients' machine of an experiment ([`crate::lab`]), which is a network namespace without a way out. The frames leave by a packet socket, a system
//! call each, so that the forged addresses need no route there. What it says that it has sent is not what counts: the lab reads the interface's counters.
//!
//! | file | what it has |
//! |---|---|
//! | `mod` | the steps: how many a second, for how long |
//! | `frame` | a SYN as a frame of Ethernet |
//! | `senders` | forged addresses of a network |
//! | `wire` | the interface that frames leave by |

mod frame;
mod senders;
mod wire;

use anyhow::{Context, Result, ensure};
use frame::Syn;
use ipnet::Ipv4Net;
use senders::Senders;
use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use wire::Wire;

/// Most SYNs a second.
pub(crate) const RATE_MAX: f64 = 2_000_000.0;
/// Longest time of all steps together.
const LASTING_MAX: Duration = Duration::from_secs(600);
/// SYNs that leave without a look at the clock.
const BATCH: u64 = 32;
/// What was missed for longer than this is not made up for: a larger burst would fill the queue of a receiver that can take the rate, 256 frames on a link of two namespaces.
const BEHIND_MAX: Duration = Duration::from_micros(500);
/// How long it stays after the last step, so that its network can be looked at through it.
const LINGER: Duration = Duration::from_secs(30);

/// Command line of `tiergate-lab flood`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// What is sent, as JSON
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
}

/// What is sent, and where to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// The interface that frames leave by.
    pub(crate) interface: String,
    /// The hardware address at the other end.
    pub(crate) hardware: [u8; 6],
    /// The address that is flooded.
    pub(crate) target: SocketAddrV4,
    /// Of which network the senders seem to be.
    pub(crate) from: Ipv4Net,
    /// One after the other.
    pub(crate) steps: Vec<Step>,
    /// Seed of addresses, ports and sequence numbers.
    pub(crate) seed: u64,
}

/// A rate for a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// SYNs a second.
    pub(crate) rate: f64,
    /// How long.
    pub(crate) seconds: f64,
}

impl Plan {
    /// Whether it can be sent; an error says what cannot.
    fn check(&self) -> Result<()> {
        let seconds: f64 = self.steps.iter().map(|step| step.seconds).sum();
        ensure!(
            self.steps.iter().all(|step| step.seconds >= 0.0)
                && seconds <= LASTING_MAX.as_secs_f64(),
            "steps: {seconds} s in all; expected at most {LASTING_MAX:?}"
        );
        ensure!(
            self.steps.iter().all(|step| (0.0..=RATE_MAX).contains(&step.rate)),
            "steps: at most {RATE_MAX} SYNs a second"
        );
        Ok(())
    }
}

/// Sends it all, stays for a while and ends. Cancel safe: dropped, nothing more leaves.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let name = settings.plan.display();
    let text = std::fs::read(&settings.plan).with_context(|| format!("cannot read {name}"))?;
    let plan: Plan =
        serde_json::from_slice(&text).with_context(|| format!("{name} is no plan of a flood"))?;
    plan.check()?;
    let wire = Wire::open(&plan.interface)?;
    let mut syn = Syn::new(wire.hardware(), plan.hardware, plan.target);
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let senders = Senders::of(plan.from);
    let mut end = Instant::now();
    for step in &plan.steps {
        let begin = end;
        end += Duration::from_secs_f64(step.seconds);
        if step.rate == 0.0 {
            sleep_until(end).await;
            continue;
        }
        let mut due = Due::new(*step);
        while Instant::now() < end {
            for _ in 0..due.take(begin.elapsed()) {
                let port = random.u16(1024..);
                wire.send(syn.from(senders.next(&mut random), port, random.u32(..)))?;
            }
            // A signal ends it here. It does not sleep: a timer would make bursts of a millisecond of it.
            tokio::task::yield_now().await;
        }
    }
    tokio::time::sleep(LINGER).await;
    Ok(())
}

/// How many are due in a step.
struct Due {
    step: Step,
    sent: u64,
}

impl Due {
    fn new(step: Step) -> Self {
        Self { step, sent: 0 }
    }

    /// A batch once all of it is due, or nothing.
    fn take(&mut self, elapsed: Duration) -> u64 {
        let due = (elapsed.as_secs_f64() * self.step.rate) as u64;
        let behind_max = (BEHIND_MAX.as_secs_f64() * self.step.rate) as u64;
        self.sent = self.sent.max(due.saturating_sub(behind_max.max(BATCH)));
        if self.sent + BATCH > due {
            return 0;
        }
        self.sent += BATCH;
        BATCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(rate: f64) -> Due {
        Due::new(Step { rate, seconds: 1.0 })
    }

    #[test]
    fn a_second_has_its_rate_however_often_it_is_asked() {
        for every_us in [10, 333, 400] {
            let mut due = due(320_000.0);
            let mut sent = 0;
            for turn in 1..=1_000_000 / every_us {
                // As many batches as there are at a moment.
                while let batch @ 1.. = due.take(Duration::from_micros(turn * every_us)) {
                    sent += batch;
                }
            }
            assert!((319_000..=320_000).contains(&sent), "{every_us}: {sent}");
        }
    }

    #[test]
    fn what_was_missed_for_long_is_not_made_up_for() {
        let mut due = due(320_000.0);
        let mut sent = 0;
        while let batch @ 1.. = due.take(Duration::from_secs(1)) {
            sent += batch;
        }
        assert_eq!(sent, 160);
    }

    #[test]
    fn a_plan_is_bounded() {
        let plan = |rate, seconds| Plan {
            interface: "wire".into(),
            hardware: [0; 6],
            target: "10.77.0.1:80".parse().unwrap(),
            from: "198.18.0.0/15".parse().unwrap(),
            steps: vec![Step { rate, seconds }, Step { rate: 0.0, seconds: 1.0 }],
            seed: 1,
        };
        assert!(plan(300_000.0, 30.0).check().is_ok());
        for wrong in [plan(3e6, 1.0), plan(-1.0, 1.0), plan(1.0, 600.0), plan(1.0, -1.0)] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        let written = serde_json::to_vec(&plan(1.0, 2.0)).unwrap();
        assert_eq!(serde_json::from_slice::<Plan>(&written).unwrap(), plan(1.0, 2.0));
    }
}
