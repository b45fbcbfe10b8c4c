//! Readings of the machine while the load rises, on a thread of its own: some ask a driver, and none may delay requests.

use super::route;
use crate::config::meant::{Measure, Of, Stalled};
use crate::observe::words::harmless;
use crate::sensors::{First, Gauge, Process, listening_processes, times_ns};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tiergate_core::calibrate::{Resource, Usage};

/// Time between two readings.
const EVERY: Duration = Duration::from_millis(250);

/// What is known of the origin's place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) pid_file: Option<PathBuf>,
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) listen_queue: Option<SocketAddr>,
    pub(crate) interface: Option<String>,
    /// Bits a second.
    pub(crate) link_capacity: Option<u64>,
    /// Whether the origin runs on this machine.
    pub(crate) is_here: bool,
    /// Whether it is reached by loopback.
    pub(crate) is_loopback: bool,
}

/// What is watched, and how it is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watched {
    /// The origin's processes, in words.
    pub(crate) origin: Option<String>,
    /// The interface.
    pub(crate) interface: Option<String>,
    /// What cannot be read, and why.
    pub(crate) missing: BTreeMap<&'static str, String>,
}

/// Readings, taken until this is dropped.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<(Usage, Watched)>,
    is_over: AtomicBool,
}

type Take = Box<dyn FnMut(Instant, &mut Usage) -> Result<()> + Send>;

impl Watch {
    /// Begins, with what the kernel gives of what there is.
    pub(crate) fn start(origin: SocketAddr, place: &Place) -> Self {
        let (probes, watched) = probes(origin, place);
        let shared = Arc::new(Shared::default());
        shared.lock().1 = watched;
        let of_thread = shared.clone();
        let thread = std::thread::spawn(move || read(probes, &of_thread));
        Watch { shared, thread: Some(thread) }
    }

    /// The latest readings.
    pub(crate) fn usage(&self) -> Usage {
        self.shared.lock().0
    }

    /// What is watched, as far as is known by now.
    pub(crate) fn watched(&self) -> Watched {
        self.shared.lock().1.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // One that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Usage, Watched)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(mut probes: Vec<(&'static str, Take)>, shared: &Shared) {
    while !shared.is_over.load(Ordering::Relaxed) {
        let mut usage = Usage::default();
        let taken: Vec<_> = probes
            .iter_mut()
            .map(|(name, take)| (*name, take(Instant::now(), &mut usage)))
            .collect();
        let mut state = shared.lock();
        state.0 = usage;
        // What could not be read once, and can now, is not missing.
        for (name, taken) in taken {
            match taken {
                Ok(()) => drop(state.1.missing.remove(name)),
                Err(fault) => drop(state.1.missing.insert(name, format!("{fault:#}"))),
            }
        }
        drop(state);
        std::thread::park_timeout(EVERY);
    }
}

fn probes(origin: SocketAddr, place: &Place) -> (Vec<(&'static str, Take)>, Watched) {
    let mut watched = Watched::default();
    let mut probes: Vec<(&'static str, Take)> = vec![("load generator", Box::new(generator()))];
    let mut add = |name, resource, gauge| probes.push((name, of(resource, gauge)));
    let machine = Of::Machine;
    add("processors", Resource::Machine, Gauge::of(&Measure::Cpu(machine.clone())));
    if place.is_here {
        let of = place.cgroup.clone().map_or(machine, Of::Cgroup);
        add("memory", Resource::Memory, Gauge::of(&Measure::Memory(of.clone())));
        let pressure = Measure::Pressure(Stalled::Memory, of);
        add("memory pressure", Resource::MemoryPressure, Gauge::of(&pressure));
        add("paging", Resource::Paging, Gauge::of(&Measure::Paging));
        match Gauge::busiest_disk() {
            Ok(gauge) => add("disk", Resource::Disk, gauge),
            Err(fault) => drop(watched.missing.insert("disk", format!("{fault:#}"))),
        }
    }
    // Those of another network namespace, such as a container's, are not seen.
    let listens = place.listen_queue.or(place.is_loopback.then_some(origin));
    if let Some(address) = listens {
        add("listen queue", Resource::ListenQueue, Gauge::of(&Measure::ListenQueue(address)));
    }
    match place.interface.clone().or_else(|| route::interface(origin.ip(), place.is_loopback)) {
        Some(interface) if interface == "lo" && place.link_capacity.is_none() => {
            let why = "the origin is reached by loopback, which has no capacity";
            watched.missing.insert("link", why.to_owned());
        }
        Some(interface) => {
            add("link", Resource::Link, Gauge::link(&interface, place.link_capacity));
            watched.interface = Some(interface);
        }
        None => drop(watched.missing.insert("link", "there is no route to the origin".to_owned())),
    }
    if let Some(group) = &place.cgroup {
        add("origin", Resource::Origin, Gauge::of(&Measure::Cpu(Of::Cgroup(group.clone()))));
        watched.origin = Some(format!("control group /{}", group.display()));
    } else {
        match first(origin, place) {
            Ok((first, words)) => {
                probes.push(("origin", of_process(Process::new(first))));
                watched.origin = Some(words);
            }
            Err(fault) => drop(watched.missing.insert("origin", format!("{fault:#}"))),
        }
    }
    (probes, watched)
}

/// The first process of the origin: as it was said, or who listens there.
fn first(origin: SocketAddr, place: &Place) -> Result<(First, String)> {
    if let Some(file) = &place.pid_file {
        return Ok((First::File(file.clone()), format!("the process of {}", file.display())));
    }
    anyhow::ensure!(
        place.is_loopback,
        "it has an address that is not this machine's; give --pid-file or --cgroup if it runs here"
    );
    let processes = listening_processes(origin)?;
    let first = *processes.first().with_context(|| {
        format!(
            "who listens on {origin} cannot be seen; run as root, or give --pid-file or --cgroup"
        )
    })?;
    anyhow::ensure!(
        processes.len() == 1,
        "{} processes listen on {origin}, and none of them has started the others; give --cgroup, or the --pid-file of what has",
        processes.len()
    );
    let name = std::fs::read_to_string(format!("/proc/{first}/comm")).unwrap_or_default();
    Ok((First::Pid(first), format!("process {first} ({})", harmless(name.trim()))))
}

fn of(resource: Resource, mut gauge: Gauge) -> Take {
    Box::new(move |at, usage| {
        if let Some(value) = gauge.take(at)? {
            usage.set(resource, value);
        }
        Ok(())
    })
}

fn of_process(mut process: Process) -> Take {
    Box::new(move |at, usage| {
        if let Some(used) = process.take(at)? {
            usage.set(Resource::Origin, used.processors);
            if let Some((thread, wanted)) = used.thread.zip(used.wanted) {
                usage.set(Resource::Thread, thread);
                wants(usage, wanted);
            }
        }
        Ok(())
    })
}

/// A thread wants processors for such a share of the time.
fn wants(usage: &mut Usage, share: f64) {
    usage.set(Resource::Wanted, share.max(usage.of(Resource::Wanted).unwrap_or(0.0)));
}

/// What the main thread of this process uses, which sends all requests.
fn generator() -> impl FnMut(Instant, &mut Usage) -> Result<()> + Send {
    let file = PathBuf::from(format!("/proc/self/task/{}/schedstat", std::process::id()));
    let mut last: Option<(Instant, [u64; 2])> = None;
    move |at, usage| {
        let times = times_ns(&file).with_context(|| format!("{} has no times", file.display()))?;
        if let Some((before, known)) = last.replace((at, times)) {
            let passed = at.saturating_duration_since(before).as_secs_f64().max(1e-3);
            let share = |it: usize| times[it].saturating_sub(known[it]) as f64 / 1e9 / passed;
            usage.set(Resource::Generator, share(0).min(1.0));
            wants(usage, (share(0) + share(1)).min(1.0));
        }
        Ok(())
    }
}
