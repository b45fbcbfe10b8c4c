//! `tiergate calibrate`: an origin under a load that rises, and what is measured meanwhile.
//!
//! What is done next and what it shows is decided in [`tiergate_core::calibrate`]; this carries it out.
//!
//! | module | what it does |
//! |---|---|
//! | `target` | addresses from the command line; whether they are this machine's, or private |
//! | `exchange` | one connection to the origin, one GET at a time |
//! | `generator` | so many requests in progress, within the bounds |
//! | `watch` | readings of the machine, on a thread of its own |
//! | `route` | through which interface an address is reached |
//! | `policy` | the text of a first policy |

mod exchange;
mod generator;
pub(crate) mod policy;
mod route;
pub(crate) mod target;
pub(crate) mod watch;

pub(crate) use exchange::{Answer, Sending};

use anyhow::{Context, Result, bail};
use exchange::Connection;
use generator::Generator;
use std::time::{Duration, Instant};
use target::Target;
use tiergate_core::calibrate::{End, Order, Ramp, Settings, Usage};
use tokio::time::{MissedTickBehavior, interval_at};
use watch::Watch;

/// Time between two looks at what was answered: short enough that a ramp ends soon after the first failures.
const SLICE: Duration = Duration::from_millis(250);

/// A ramp that was carried out.
pub(crate) struct Carried {
    pub(crate) ramp: Ramp,
    /// Why it ended; `None`: it was interrupted.
    pub(crate) end: Option<End>,
    /// What failed last, in words.
    pub(crate) failure: Option<String>,
}

/// One request alone, before any load: whether the origin answers at all, and what.
///
/// # Errors
/// What is wrong with the address or with its answer, and what to do.
pub(crate) async fn probe(target: &Target, sending: &Sending) -> Result<Answer> {
    let ask = async {
        let mut connection = Connection::open(target.address).await?;
        connection.get(target, sending).await
    };
    let answer = match tokio::time::timeout(sending.timeout, ask).await {
        Ok(answer) => answer.with_context(|| target.to_string())?,
        Err(_) => bail!(
            "{target}: no complete answer within {:?}; a longer --timeout, or a resource whose answer ends",
            sending.timeout
        ),
    };
    let status = answer.status;
    match status.as_u16() {
        200..300 => Ok(answer),
        300..400 => bail!("{target}: answers {status}; give the address that it leads to"),
        401 | 403 => bail!("{target}: answers {status}; --header 'Name: value' adds credentials"),
        400..500 => bail!("{target}: answers {status}; give an address that exists, path and all"),
        _ => bail!("{target}: answers {status} before any load; see what is wrong there first"),
    }
}

/// Carries out a ramp until it ends or `interrupt` is ready. After each slice, `progress` is told.
pub(crate) async fn carry_out(
    target: &Target,
    sending: &Sending,
    settings: Settings,
    watch: &Watch,
    interrupt: &mut (impl Future<Output = ()> + Unpin),
    mut progress: impl FnMut(&Ramp, &Usage),
) -> Carried {
    let mut ramp = Ramp::new(settings);
    let mut generator = Generator::new(target.clone(), sending.clone(), &settings);
    generator.concurrency(ramp.concurrency());
    let mut ticks = interval_at((Instant::now() + SLICE).into(), SLICE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = loop {
        tokio::select! {
            biased;
            () = &mut *interrupt => break None,
            _ = ticks.tick() => {}
        }
        let mut slice = generator.slice();
        slice.usage = watch.usage();
        let order = ramp.take(&slice);
        match order {
            Order::GoOn => {}
            Order::Concurrency(concurrency) => generator.concurrency(concurrency),
            Order::End(end) => break Some(end),
        }
        progress(&ramp, &slice.usage);
    };
    Carried { ramp, end, failure: generator.stop() }
}
