//! The process: its threads, its configuration from start to reloads, its end.
//!
//! Each thread has a runtime of its own ([`threads`]). The first thread also does what is needed once: the gate's ticks, health checks,
//! the admin listener, signals.

mod govern;
mod kept;
mod listeners;
mod open_files;
mod orders;
mod process;
mod quic_listeners;
mod starter;
mod threads;
mod unused;
mod upgrade;

pub use process::{Loaded, ObservedSource, Process, Source};

use crate::config::meant::Policy;
use crate::observe::counters::Counters;
use crate::origin::{http2, idle};
use crate::request::account;
use crate::shared::{self, Config, Shared};
use crate::startable::{self, Protocol, Subject};
use crate::{admin, clock, listen, timers};
use anyhow::{Context, anyhow};
use govern::Signals;
use listeners::Listeners;
use orders::{Listen, Order};
use process::{load_observed, observe, open_log, warn};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use threads::{Role, Thread};
use tiergate_core::control::Slots;
use tiergate_core::names::{Names, PoolId};
use tokio::sync::watch;
use upgrade::PassedOn;

/// Runs the gateway until it has drained after SIGTERM or SIGINT, with the policy of `source`, and beside it one that is only observed. `once` is polled on the first
/// thread beside everything else: what the command line adds (admin listener, file watch).
///
/// # Errors
/// The configuration is wrong, or a listener cannot be bound.
pub fn run<F>(
    source: Source,
    observed: Option<ObservedSource>,
    once: impl FnOnce(Arc<Process>) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    clock::now();
    let program = upgrade::program();
    let runtime = serving_runtime();
    // Before anything else: whoever sends a signal early must not end the process by it.
    let signals = {
        let _within = runtime.enter();
        Signals::new().context("cannot handle signals")?
    };
    open_files::raise();
    let mut names = Names::default();
    let mut policy = source(&mut names).map_err(|fault| anyhow!("{fault}"))?;
    warn(&policy);
    startable::not_itself(&policy).map_err(|fault| anyhow!(fault))?;
    let to_observe =
        load_observed(&mut policy, observed.as_ref()).map_err(|fault| anyhow!("{fault}"))?;
    open_files::bound_connections(&mut policy);
    say(&policy);
    let mut passed_on = PassedOn::take();
    let no_successor = starter::why_no_successor(passed_on.predecessor.is_some());
    // What systemd passes on is its own matter.
    if passed_on.predecessor.is_some() {
        let kept = kept::handed_over(&mut policy, &passed_on.listeners);
        kept.iter().for_each(|it| tracing::warn!("{it}"));
    }
    // Before the listeners: a start that fails must take no connections with it.
    let bind = |address| match passed_on.listener(address) {
        Some(known) => Ok(known),
        None => admin::bind(address).map_err(|fault| {
            let message = startable::cannot_listen(address, Protocol::Tcp, &fault);
            anyhow!(startable::wrong(&policy.sources, Subject::Admin, message))
        }),
    };
    let admin = policy.admin.map(bind).transpose()?;
    let counters = Counters::new(threads::count(&policy));
    let (threads, lanes, orders) = threads::of(&policy);
    let sources = policy.sources.clone();
    let config = Config::new(policy, 1, None, &counters)
        .map_err(|fault| anyhow!(startable::wrong_origin(&sources, &fault)))?;
    config.dates.warnings().iter().for_each(|it| tracing::warn!("{it}"));
    let shared = Arc::new(Shared::new(config, counters));
    open_log(&shared, &shared.config.load().policy).map_err(|fault| anyhow!(fault))?;
    observe(&shared, to_observe);

    if let Some(lanes) = lanes {
        let unset = shared.lanes.set(lanes);
        debug_assert!(unset.is_ok(), "the process starts once");
    }
    let has_predecessor = passed_on.predecessor.is_some();
    let mut listeners =
        Listeners::new(shared.clone(), orders, passed_on.listeners, has_predecessor);
    let prepared = {
        let policy = &shared.config.load().policy;
        let in_force = listeners::in_force(policy);
        let prepared = in_force.and_then(|in_force| listeners.prepare(policy, in_force));
        prepared.map_err(|fault| anyhow!(fault))?
    };
    if passed_on.predecessor.is_some() {
        // It serves until this process does: there is time to look up the names of servers.
        let pools = shared.config.load().pools.clone();
        let resolve = async { tokio::time::timeout(NAMES, pools.resolve(&shared.counters)).await };
        let changed = runtime.block_on(resolve).unwrap_or_default();
        shared.servers_changed(&changed);
        // What this policy does not name any more shall close with the predecessor.
        listeners.forget_inherited();
    }
    listeners.apply(prepared);
    let process = Arc::new(Process {
        shared: shared.clone(),
        source,
        observed,
        names: Mutex::new(names),
        admin,
        listeners: Mutex::new(listeners),
        generation: watch::Sender::new(1),
        predecessor: passed_on.predecessor,
        program,
        leaving: Mutex::new(None),
        no_successor,
    });
    let mut threads = threads.into_iter();
    let first = threads.next().expect("there is at least one thread");
    let others: Vec<thread::JoinHandle<()>> = threads
        .enumerate()
        .map(|(place, of)| {
            let shared = shared.clone();
            thread::Builder::new()
                .name(of.name.clone())
                .spawn(move || {
                    serving_runtime().block_on(serve(place + 1, of, shared.clone()));
                    account::flush(&shared);
                })
                .context("cannot start a thread")
        })
        .collect::<anyhow::Result<_>>()?;
    let result = runtime.block_on(async {
        tokio::select! {
            // What the command line adds may fail at once, and then a predecessor must not have been told that this process serves.
            biased;
            result = once(process.clone()) => result,
            result = govern::govern(&process, signals) => result,
            () = serve(0, first, shared.clone()) => Ok(()),
        }
    });
    shared.stop();
    account::flush(&shared);
    for other in others {
        let _ = other.join();
    }
    if let Some(tracer) = &shared.config.load().tracer {
        tracer.flush(LOG_PATIENCE);
    }
    if let Some(log) = &*shared.log.load() {
        let is_whole = log.flush(LOG_PATIENCE);
        // Those that were dropped before are counted in the metrics, which end with the process.
        let dropped = shared.counters.access_log.dropped.total();
        if !is_whole {
            tracing::warn!(
                lines = log.waiting(),
                dropped,
                "the end of the access log is lost: it could not be written within {LOG_PATIENCE:?}"
            );
        } else if dropped > 0 {
            tracing::warn!(
                dropped,
                "lines of the access log were dropped: it was not written as fast as they came"
            );
        }
    }
    // It waits for no file that a reload still reads.
    runtime.shutdown_background();
    result
}

/// How long a successor waits for the names of servers.
const NAMES: Duration = Duration::from_secs(10);

/// What is about to run, in one line of the log.
fn say(policy: &Policy) {
    let listeners: Vec<String> = policy.listeners.iter().map(|it| it.shown()).collect();
    let slots = match policy.plan.pool_slots(PoolId::DEFAULT) {
        Some(Slots::Fixed(slots)) => slots.to_string(),
        _ => "adaptive".to_owned(),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        policy = %policy.file.display(),
        listeners = listeners.join(", "),
        classes = policy.plan.classes.len(),
        rules = policy.rules.len(),
        slots,
        connections_max = policy.limits.connections_max,
        threads = policy.threads,
        "starting"
    );
}

/// How long the last lines of the access log may take at the end, and the last spans.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

fn serving_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Looking for events less often than by default favours throughput: a turn of the loop
        // serves what one look has found.
        .event_interval(61)
        .build()
        .expect("a runtime needs only an epoll descriptor")
}

/// One thread's work, until the process stops.
async fn serve(index: usize, thread: Thread, shared: Arc<Shared>) {
    shared::set_thread(index);
    let Thread { role, mut orders, begins, .. } = thread;
    if let (Role::Lane(number), Some(lanes)) = (role, shared.lanes.get()) {
        lanes.begins(number);
    }
    let ticking = shared.clone();
    tokio::spawn(timers::run(move || {
        account::tick(&ticking);
        ticking.is_draining()
    }));
    let calling = shared.clone();
    tokio::spawn(async move { calling.link.call_turns().await });
    let sweeping = shared.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(POOL_SWEEP).await;
            let idle_max = sweeping.config.load().policy.timeouts.origin_idle;
            idle::sweep(clock::now(), idle_max);
            http2::sweep(clock::now(), idle_max);
        }
    });
    if let Some(mut begins) = begins {
        // As accepting does: one task among the others.
        tokio::spawn(async move {
            while let Some(begin) = begins.recv().await {
                begin();
            }
        });
    }
    let stopped = shared.stopped();
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let order = tokio::select! {
            Some(order) = orders.recv() => order,
            () = &mut stopped => break,
        };
        let Listen { socket, settings, present, wanted, program, mut stop } = match order {
            Order::Listen(listen) => *listen,
            Order::Quic(quic) => {
                tokio::spawn(quic_listeners::carry_out(*quic));
                continue;
            }
        };
        tokio::spawn(async move {
            let stop = async move {
                // The sender is dropped only when the listener is.
                let _ = stop.wait_for(|&stop| stop).await;
            };
            let accepting = listen::accept(socket, settings, present, wanted, program, stop);
            if let Err(error) = accepting.await {
                tracing::error!(%error, "a listener could not be used");
            }
        });
    }
}

/// How often each thread looks for idle connections to origin servers that can be closed.
const POOL_SWEEP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_with;
    use std::net::TcpListener;

    #[test]
    fn the_admin_listener_is_bound_before_clients_can_connect() {
        let [admin, listener] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let text = format!(
            "admin = \"{}\"\nthreads = 1\n[[listener]]\naddress = \"{}\"\n\
             [origin]\nservers = [\"127.0.0.1:1\"]\n",
            admin.local_addr().expect("bound"),
            listener.local_addr().expect("bound")
        );
        let source = Arc::new(move |names: &mut Names| {
            parse_with(&text, "p.toml", names).map_err(|fault| fault.to_string())
        });
        // Both addresses are taken: the first that is bound fails.
        let fault = run(source, None, |_| async { Ok(()) }).expect_err("no address is free");
        let expected = format!("cannot listen on {}: ", admin.local_addr().expect("bound"));
        assert!(fault.to_string().starts_with(&expected), "{fault}");
    }
}
