//! The process: its threads, its configuration from start to reloads, its end.
//!
//! Each thread has a runtime and listening sockets of its own, so that a connection stays where the
//! kernel put it. The first thread also does what is needed once: the gate's ticks, health checks,
//! the admin listener, signals.

use crate::config::meant::Policy;
use crate::listen::{self, DscpWanted, InForce, Settings};
use crate::observe::access_log::{Log, Options};
use crate::observe::counters::Counters;
use crate::origin::{health, pool};
use crate::request::account;
use crate::reverse_dns::ReverseDns;
use crate::shared::{self, Config, Present, Shared};
use crate::{clock, ticks, timers};
use anyhow::{Context, anyhow};
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tiergate_core::names::Names;
use tokio::sync::{mpsc, watch};

/// Where the configuration comes from, at the start and at each reload.
pub type Source = Arc<dyn Fn(&mut Names) -> Result<Policy, String> + Send + Sync>;

/// A thread is told of the listeners that come and go.
#[derive(Debug)]
enum Order {
    Listen {
        socket: TcpListener,
        settings: Settings,
        present: Present,
        dscp_wanted: DscpWanted,
        stop: watch::Receiver<bool>,
    },
}

/// A listener in force.
#[derive(Debug)]
struct Open {
    settings: Settings,
    dscp_wanted: watch::Sender<bool>,
    stop: watch::Sender<bool>,
}

/// The process while it runs.
pub struct Process {
    /// What all connections share.
    pub shared: Arc<Shared>,
    source: Source,
    /// All names of classes, sites, policers and rules that were ever in force.
    names: Mutex<Names>,
    threads: Vec<mpsc::UnboundedSender<Order>>,
    /// By address. Locked for the length of a reload, by nothing else.
    open: Mutex<HashMap<SocketAddr, Open>>,
    inherited: Mutex<Vec<TcpListener>>,
    /// Tells what depends on the configuration as a whole that it has changed.
    generation: watch::Sender<u32>,
}

impl Process {
    /// Loads the configuration anew and puts it in force, or keeps the old one.
    ///
    /// # Errors
    /// What is wrong with the new configuration; nothing has changed then.
    pub fn reload(&self) -> Result<u32, String> {
        let result = self.try_reload();
        match &result {
            Ok(generation) => tracing::info!(generation, "configuration reloaded"),
            Err(fault) => tracing::error!("reload rejected, the old policy stays: {fault}"),
        }
        self.shared.counters.reloaded(result.as_ref().map(|_| ()).map_err(String::as_str));
        result
    }

    fn try_reload(&self) -> Result<u32, String> {
        let mut open = self.open.lock().expect("no reload panics");
        let former = self.shared.config.load_full();
        let mut names = self.names.lock().expect("no reload panics").clone();
        let mut policy = (self.source)(&mut names)?;
        if policy.threads != former.policy.threads {
            tracing::warn!("`threads` takes effect at the next start");
            policy.threads = former.policy.threads;
        }
        if policy.admin != former.policy.admin {
            tracing::warn!("`admin` takes effect at the next start");
            policy.admin = former.policy.admin;
        }
        warn(&policy);
        bound_connections(&mut policy);
        // All that can fail comes before anything changes.
        let listeners = in_force(&policy).map_err(|error| format!("{error:#}"))?;
        let fresh = self.bind_fresh(&open, &policy).map_err(|error| format!("{error:#}"))?;
        if policy.access_log != former.policy.access_log {
            open_log(&self.shared, &policy).map_err(|error| format!("{error:#}"))?;
        }
        *self.names.lock().expect("no reload panics") = names;
        let generation = former.generation + 1;
        let config = Config::new(policy, generation, Some(&former), &self.shared.counters);
        self.shared.reconfigure(config);
        open.retain(|address, old| {
            let stays = listeners.contains_key(address);
            if !stays {
                let _ = old.stop.send(true);
            }
            stays
        });
        self.apply(&mut open, listeners, fresh);
        self.generation.send_replace(generation);
        Ok(generation)
    }

    /// Binds the listeners that are not open yet: one socket for each thread.
    fn bind_fresh(
        &self,
        open: &HashMap<SocketAddr, Open>,
        policy: &Policy,
    ) -> anyhow::Result<Sockets> {
        let addresses = policy.listeners.iter().map(|listener| listener.address);
        let fresh = addresses.filter(|address| !open.contains_key(address));
        fresh
            .map(|address| {
                let sockets =
                    self.sockets(address).with_context(|| format!("cannot listen on {address}"))?;
                Ok((address, sockets))
            })
            .collect()
    }

    /// Gives each listener its new settings, and opens those that have new sockets.
    fn apply(
        &self,
        open: &mut HashMap<SocketAddr, Open>,
        listeners: HashMap<SocketAddr, InForce>,
        mut fresh: Sockets,
    ) {
        let dscp = self.shared.config.load().policy.wanted.dscp;
        for (address, settings) in listeners {
            match open.get(&address) {
                Some(known) => {
                    known.settings.store(Arc::new(settings));
                    let changes = |wanted: &mut bool| std::mem::replace(wanted, dscp) != dscp;
                    known.dscp_wanted.send_if_modified(changes);
                }
                None => {
                    let sockets = fresh.remove(&address).expect("bound before");
                    open.insert(address, self.open(settings, sockets, dscp));
                }
            }
        }
    }

    fn sockets(&self, address: SocketAddr) -> std::io::Result<Vec<TcpListener>> {
        let mut inherited = self.inherited.lock().expect("nothing panics while it is held");
        let known = inherited
            .iter()
            .position(|socket| socket.local_addr().is_ok_and(|local| local == address));
        if let Some(known) = known {
            // One socket for all threads: the process that passed it on keeps it open, so that no connection
            // in its queue is lost between two processes.
            let socket = inherited.swap_remove(known);
            socket.set_nonblocking(true)?;
            socket2::SockRef::from(&socket).set_tcp_nodelay(true)?;
            return self.threads.iter().map(|_| socket.try_clone()).collect();
        }
        self.threads.iter().map(|_| listen::bind(address)).collect()
    }

    fn open(&self, settings: InForce, sockets: Vec<TcpListener>, dscp: bool) -> Open {
        tracing::info!(address = %settings.listener.address, "listening");
        let settings: Settings = Arc::new(ArcSwap::from_pointee(settings));
        let (dscp_wanted, stop) = (watch::Sender::new(dscp), watch::Sender::new(false));
        for (thread, socket) in self.threads.iter().zip(sockets) {
            let order = Order::Listen {
                socket,
                settings: settings.clone(),
                present: Present::listener(&self.shared),
                dscp_wanted: dscp_wanted.subscribe(),
                stop: stop.subscribe(),
            };
            // A thread is gone only when the process ends.
            let _ = thread.send(order);
        }
        Open { settings, dscp_wanted, stop }
    }
}

/// Sockets that were bound and are not open to clients yet: one for each thread.
type Sockets = HashMap<SocketAddr, Vec<TcpListener>>;

/// Every listener of the policy, with its certificates read.
fn in_force(policy: &Policy) -> anyhow::Result<HashMap<SocketAddr, InForce>> {
    let listeners = policy.listeners.iter().cloned();
    listeners
        .map(|listener| {
            let address = listener.address;
            let settings = InForce::new(listener).with_context(|| format!("TLS on {address}"))?;
            Ok((address, settings))
        })
        .collect()
}

/// Runs the gateway until it has drained after SIGTERM or SIGINT. `once` is polled on the first
/// thread beside everything else: what the command line adds (admin listener, file watch).
///
/// # Errors
/// The configuration is wrong, or a listener cannot be bound.
pub fn run<F>(source: Source, once: impl FnOnce(Arc<Process>) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    clock::now();
    raise_open_files();
    let mut names = Names::default();
    let mut policy = source(&mut names).map_err(|fault| anyhow!("{fault}"))?;
    warn(&policy);
    bound_connections(&mut policy);
    let threads = policy.threads;
    let counters = Counters::new(threads);
    let config = Config::new(policy, 1, None, &counters);
    let shared = Arc::new(Shared::new(config, counters));
    open_log(&shared, &shared.config.load().policy)?;

    let (orders, receivers): (Vec<_>, Vec<_>) =
        (0..threads).map(|_| mpsc::unbounded_channel()).unzip();
    let process = Arc::new(Process {
        shared: shared.clone(),
        source,
        names: Mutex::new(names),
        threads: orders,
        open: Mutex::default(),
        inherited: Mutex::new(inherited()),
        generation: watch::Sender::new(1),
    });
    {
        let mut open = process.open.lock().expect("no other task has it yet");
        let policy = &shared.config.load().policy;
        let listeners = in_force(policy)?;
        let fresh = process.bind_fresh(&open, policy)?;
        process.apply(&mut open, listeners, fresh);
    }
    let mut receivers = receivers.into_iter();
    let first = receivers.next().expect("there is at least one thread");
    let others: Vec<thread::JoinHandle<()>> = receivers
        .enumerate()
        .map(|(place, orders)| {
            let shared = shared.clone();
            let name = format!("serve-{}", place + 1);
            thread::Builder::new()
                .name(name)
                .spawn(move || {
                    serving_runtime().block_on(serve(place + 1, orders, shared.clone()));
                    account::flush(&shared);
                })
                .context("cannot start a thread")
        })
        .collect::<anyhow::Result<_>>()?;
    let result = serving_runtime().block_on(async {
        tokio::select! {
            () = serve(0, first, shared.clone()) => Ok(()),
            result = govern(&process) => result,
            result = once(process.clone()) => result,
        }
    });
    shared.stop();
    account::flush(&shared);
    for other in others {
        let _ = other.join();
    }
    if let Some(log) = &*shared.log.load() {
        log.flush(LOG_PATIENCE);
    }
    result
}

/// How long the last lines of the access log may take at the end.
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
async fn serve(index: usize, mut orders: mpsc::UnboundedReceiver<Order>, shared: Arc<Shared>) {
    shared::set_thread(index);
    let ticking = shared.clone();
    tokio::spawn(timers::run(move || {
        account::tick(&ticking);
        ticking.is_draining()
    }));
    let sweeping = shared.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(POOL_SWEEP).await;
            pool::sweep(clock::now(), sweeping.config.load().policy.timeouts.origin_idle);
        }
    });
    let stopped = shared.stopped();
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let order = tokio::select! {
            order = orders.recv() => order,
            () = &mut stopped => None,
        };
        let Some(Order::Listen { socket, settings, present, dscp_wanted, mut stop }) = order else {
            break;
        };
        tokio::spawn(async move {
            let stop = async move {
                // The sender is dropped only when the listener is.
                let _ = stop.wait_for(|&stop| stop).await;
            };
            let accepting = listen::accept(socket, settings, present, dscp_wanted, stop);
            if let Err(error) = accepting.await {
                tracing::error!(%error, "a listener could not be used");
            }
        });
    }
}

/// How often each thread looks for idle connections to origin servers that can be closed.
const POOL_SWEEP: Duration = Duration::from_secs(1);

/// What the process does once: ticks, health checks, signals; ends with the drain.
async fn govern(process: &Arc<Process>) -> anyhow::Result<()> {
    let shared = process.shared.clone();
    tokio::spawn({
        let shared = shared.clone();
        async move { ticks::run(&shared.door).await }
    });
    tokio::spawn(follow(process.clone(), |config| Some(config.origin.clone()), health::watch));
    let resolve = |dns: Arc<ReverseDns>| async move { dns.resolve().await };
    tokio::spawn(follow(process.clone(), |config| config.reverse_dns.clone(), resolve));
    let mut signals = Signals::new()?;
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    while signals.next().await == Signal::Reload {
        if let Some(log) = &*shared.log.load() {
            log.reopen();
        }
        let process = process.clone();
        // Not on this thread: compiling many rules takes milliseconds.
        let _ = tokio::task::spawn_blocking(move || process.reload()).await;
    }
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
    drain(&shared, &mut signals).await;
    Ok(())
}

/// Takes no new connections and waits for the open ones, at most as long as the policy says; a second
/// signal ends the wait.
async fn drain(shared: &Shared, signals: &mut Signals) {
    let longest = shared.config.load().policy.timeouts.drain;
    tracing::info!("draining, at most {longest:?}");
    shared.drain();
    let until = Instant::now() + longest;
    while shared.is_busy() && Instant::now() < until {
        tokio::select! {
            () = tokio::time::sleep(DRAIN_LOOK) => {}
            signal = signals.next() => if signal == Signal::End { break },
        }
    }
    match shared.connections.load(Ordering::Relaxed) {
        0 => tracing::info!("drained"),
        left => tracing::warn!(left, "connections cut"),
    }
}

const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// Works on what `part` picks of the configuration in force. Begins anew when a reload has replaced that; on
/// what a reload keeps, it goes on without a break.
async fn follow<T, F: Future<Output = ()>>(
    process: Arc<Process>,
    part: impl Fn(&Config) -> Option<Arc<T>>,
    work: impl Fn(Arc<T>) -> F,
) {
    let mut generation = process.generation.subscribe();
    let current = || part(&process.shared.config.load());
    loop {
        let picked = current();
        let changed = async {
            while generation.changed().await.is_ok() {
                if current().as_ref().map(Arc::as_ptr) != picked.as_ref().map(Arc::as_ptr) {
                    break;
                }
            }
        };
        let working = async {
            match picked.clone() {
                Some(picked) => work(picked).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = working => {}
            () = changed => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Reload,
    End,
}

struct Signals {
    hangup: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::Reload,
            _ = self.terminate.recv() => Signal::End,
            _ = self.interrupt.recv() => Signal::End,
        }
    }
}

/// Opens the access log that the policy names, in place of the former.
fn open_log(shared: &Shared, policy: &Policy) -> anyhow::Result<()> {
    let log = match &policy.access_log {
        None => None,
        Some(settings) => {
            let options = Options::from(settings);
            let path = settings.path.as_deref().unwrap_or(Path::new("standard output"));
            let log = Log::start(&options, shared.counters.clone())
                .with_context(|| format!("cannot open the access log {}", path.display()))?;
            Some(Arc::new(log))
        }
    };
    shared.log.store(log);
    Ok(())
}

/// Listening sockets passed on by systemd or by a former process (LISTEN_FDS).
fn inherited() -> Vec<TcpListener> {
    let mut passed = listenfd::ListenFd::from_env();
    (0..passed.len()).filter_map(|place| passed.take_tcp_listener(place).ok().flatten()).collect()
}

/// Open files that are not client connections or their origin's: logs, listeners, epoll, admin.
const OPEN_FILES_RESERVED: u64 = 128;

fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays at {:?}", limit.current);
    }
}

/// Says what is dangerous about the policy's files.
fn warn(policy: &Policy) {
    for warning in &policy.warnings {
        tracing::warn!("{warning}");
    }
}

/// Each client connection may need another to the origin: more than half the open files would end in
/// failed connects instead of a full listen queue.
fn bound_connections(policy: &mut Policy) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let files = limit.current.unwrap_or(u64::MAX).saturating_sub(OPEN_FILES_RESERVED);
    let most = usize::try_from(files / 2).unwrap_or(usize::MAX).max(1);
    if policy.limits.connections_max > most {
        tracing::info!(
            "limits.connections_max lowered to {most} by the limit of open files (ulimit -n)"
        );
        policy.limits.connections_max = most;
    }
}
