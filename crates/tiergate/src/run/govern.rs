//! What the process does once, on its first thread: ticks, health checks, lookups of names, signals, the
//! drain, unused memory.

use super::process::Process;
use super::unused;
use super::upgrade;
use crate::clock;
use crate::kernel;
use crate::link::FollowedInterface;
use crate::origin::{Work, access, health};
use crate::reverse_dns::ReverseDns;
use crate::sensors::{self, Sensors};
use crate::shared::{Config, Shared};
use crate::ticks;
use crate::workers::Set;
use rustix::process::{
    Pid, PidfdFlags, Signal as System, kill_process, pidfd_open, pidfd_send_signal,
};
use sd_notify::NotifyState;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tiergate_core::sense::Reading;
use tokio::sync::oneshot;

/// How often the drain looks whether connections are left.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// Does it; ends with the drain.
pub(super) async fn govern(process: &Arc<Process>, mut signals: Signals) -> anyhow::Result<()> {
    let shared = process.shared.clone();
    tokio::spawn({
        let shared = shared.clone();
        async move { ticks::run(&shared.door).await }
    });
    tokio::spawn({
        let shared = shared.clone();
        async move { access::follow(&shared).await }
    });
    tokio::spawn(watch_pools(process.clone()));
    tokio::spawn(kernel::run(shared.clone(), process.generation.subscribe()));
    tokio::spawn(resolve_names(process.clone()));
    let resolve = |dns: Arc<ReverseDns>| async move { dns.resolve().await };
    tokio::spawn(follow(process.clone(), |config| config.reverse_dns.clone(), resolve));
    let measure = {
        let shared = shared.clone();
        move |them: Arc<Sensors>| {
            let (shared, sensors) = (shared.clone(), them.clone());
            let pools = shared.clone();
            let work = move |pool| match pools.config.load().pools.get(pool) {
                Some(origin) => origin.work(),
                // A reload has just taken it away, and its sensors.
                None => Work::Busy,
            };
            sensors::run(them, work, move |place, quantity, lasting| {
                let source = &sensors.settings()[place].name;
                sensors::tell(&shared, Reading { source, quantity, lasting })
            })
        }
    };
    tokio::spawn(follow(process.clone(), |config| Some(config.sensors.clone()), measure));
    let carry = {
        let shared = shared.clone();
        move |interface: Arc<FollowedInterface>| {
            let shared = shared.clone();
            async move {
                let hears = |it: &_, said| shared.link.hears(clock::now(), it, said);
                interface.follow(hears).await;
            }
        }
    };
    tokio::spawn(follow(process.clone(), |config| config.link_interface.clone(), carry));
    tokio::spawn(unused::run());
    let (end_workers, ending) = oneshot::channel();
    let mut workers = tokio::spawn(look_after_workers(process.clone(), ending));
    let _ = sd_notify::notify(false, &[NotifyState::Ready]);
    tokio::spawn(watchdog());
    process.predecessor.iter().for_each(upgrade::tell);
    let mut is_succeeded = false;
    while !is_succeeded {
        match signals.next().await {
            Signal::End => break,
            Signal::Upgrade => match hand_over(process, &mut signals).await {
                Handed::Over => is_succeeded = true,
                Handed::Not => {}
                Handed::Ended => break,
            },
            Signal::Reopen => reopen_log(&shared),
            Signal::Reload => {
                if let Ok(now) = NotifyState::monotonic_usec_now() {
                    let _ = sd_notify::notify(false, &[NotifyState::Reloading, now]);
                }
                reopen_log(&shared);
                match reload(process, &mut signals).await {
                    Reloaded::Ended => break,
                    Reloaded::Done => drop(sd_notify::notify(false, &[NotifyState::Ready])),
                }
            }
        }
    }
    if !is_succeeded {
        let _ = sd_notify::notify(false, &[NotifyState::Stopping]);
        lame_duck(&shared, &mut signals).await;
    }
    drain(process, &mut signals, is_succeeded).await;
    // The last, because they serve what is drained. Another signal ends the wait for them: then they are killed with the runtime.
    let _ = end_workers.send(());
    tokio::select! {
        _ = &mut workers => {}
        () = signals.end_of_leaving(&process.shared) => {}
    }
    Ok(())
}

/// Follows the policy's workers over reloads, and ends them when it is told to.
async fn look_after_workers(process: Arc<Process>, ending: oneshot::Receiver<()>) {
    let mut generation = process.generation.subscribe();
    let mut workers = Set::new(process.shared.workers.clone());
    let following = async {
        loop {
            let config = process.shared.config.load_full();
            workers.follow(&config.policy.workers, &config.pools);
            if generation.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = following => {}
        _ = ending => {}
    }
    workers.end().await;
}

/// Tells systemd that this thread, which accepts clients too, goes on, if its unit has `WatchdogSec=`.
async fn watchdog() {
    let read = |name| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    // A successor is not told which process is meant: it is the one.
    let is_meant = read("WATCHDOG_PID").is_none_or(|it| it == u64::from(std::process::id()));
    let Some(micros) = read("WATCHDOG_USEC").filter(|_| is_meant) else { return };
    // Half the time, as sd_watchdog_enabled(3) recommends.
    let mut ticks = tokio::time::interval(Duration::from_micros((micros / 2).max(1)));
    loop {
        ticks.tick().await;
        let _ = sd_notify::notify(false, &[NotifyState::Watchdog]);
    }
}

/// What became of a reload.
enum Reloaded {
    /// It is in force, or rejected.
    Done,
    /// It was not done when this process was asked to end.
    Ended,
}

/// How long a reload takes until that is said: a file that does not answer, as on a server that is gone, is nothing that anybody sees.
const RELOAD_LONG: Duration = Duration::from_secs(10);

/// Reloads. What else is asked for meanwhile comes afterwards, except for the end, which waits for no file.
async fn reload(process: &Arc<Process>, signals: &mut Signals) -> Reloaded {
    let working = process.clone();
    // Not on this thread: compiling many rules takes milliseconds, and a file may not answer at all.
    let mut work = tokio::task::spawn_blocking(move || working.reload());
    let tell = async {
        tokio::time::sleep(RELOAD_LONG).await;
        tracing::warn!(
            "the reload is not done after {RELOAD_LONG:?}: do all files of the policy answer? The old policy is in force"
        );
        std::future::pending().await
    };
    tokio::select! {
        _ = &mut work => Reloaded::Done,
        () = signals.end(&process.shared) => Reloaded::Ended,
        () = tell => Reloaded::Done,
    }
}

/// What became of an attempt to start a successor.
enum Handed {
    /// It serves.
    Over,
    /// It does not; this process goes on.
    Not,
    /// It does not, and this process was asked to end.
    Ended,
}

/// Starts a successor that this process may leave its clients to.
async fn hand_over(process: &Process, signals: &mut Signals) -> Handed {
    tracing::info!("starting a successor");
    signals.has_reopened = false;
    let generation = *process.generation.borrow();
    let handed = upgrade::hand_over(process, signals.end(&process.shared)).await;
    match handed {
        Ok(Some(number)) => {
            tracing::info!(successor = number, "the successor serves");
            // First: from here on no reload takes effect in this process that the successor would not hear of.
            process.shared.succeed();
            signals.is_to_reload |= process.has_changed_since(generation);
            signals.pass_on(number);
            signals.is_to_reload = false;
            // Another one was meant for this start.
            signals.is_to_upgrade = false;
            let _ = sd_notify::notify(false, &[NotifyState::MainPid(number)]);
            Handed::Over
        }
        Ok(None) => Handed::Ended,
        Err(fault) => {
            // A signal that has come meanwhile is that of an operator who has mended something: it is the next one.
            tracing::error!("no upgrade, this process goes on: {fault:#}");
            Handed::Not
        }
    }
}

/// Says that it will leave, and serves on for as long as the policy says: so that a load balancer has time to notice. A signal to end
/// ends the wait.
async fn lame_duck(shared: &Shared, signals: &mut Signals) {
    let Some(time) = shared.config.load().policy.timeouts.lame_duck else { return };
    tracing::info!("not ready any more; draining in {time:?}");
    shared.leave();
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = signals.end_of_leaving(shared) => {}
    }
}

fn reopen_log(shared: &Shared) {
    if let Some(log) = &*shared.log.load() {
        log.reopen();
    }
}

/// Takes no new connections and waits for the open ones, at most as long as the policy says; a second
/// signal ends the wait. `is_first`: none has come yet, and the first is meant for the successor, too, as by `systemctl stop`.
async fn drain(process: &Process, signals: &mut Signals, mut is_first: bool) {
    let shared = &process.shared;
    let longest = shared.config.load().policy.timeouts.drain;
    tracing::info!("draining, at most {longest:?}");
    shared.drain();
    // After that: a reload in these moments opens nothing any more.
    process.listeners.lock().expect("no panic").let_go();
    let until = Instant::now() + longest;
    let successor_leaves = || {
        let mut leaving = process.leaving.lock().expect("no panic");
        leaving.as_mut().is_some_and(|it| matches!(it.try_wait(), Ok(None)))
    };
    while (shared.is_busy() || successor_leaves()) && Instant::now() < until {
        tokio::select! {
            () = tokio::time::sleep(DRAIN_LOOK) => {}
            () = signals.end_of_leaving(shared) => {
                if !std::mem::take(&mut is_first) {
                    break;
                }
            }
        }
    }
    if let Some(successor) = &mut *process.leaving.lock().expect("no panic") {
        // If it has not ended by itself.
        let _ = successor.start_kill();
    }
    match shared.connections.open() {
        0 => tracing::info!("drained"),
        left => tracing::warn!(left, "connections cut"),
    }
}

/// How often it is asked whether names of servers are to be looked up again.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(1);

/// Follows the names of servers.
async fn resolve_names(process: Arc<Process>) {
    loop {
        let config = process.shared.config.load_full();
        let changed = config.pools.resolve(&process.shared.counters).await;
        if !changed.is_empty() {
            process.shared.servers_changed(&changed);
            // Health checks follow.
            process.generation.send_modify(|_| {});
        }
        tokio::time::sleep(RESOLVE_INTERVAL).await;
    }
}

/// Looks after the servers of the pools of whatever configuration is in force.
async fn watch_pools(process: Arc<Process>) {
    let mut generation = process.generation.subscribe();
    let mut watches = health::Watches::default();
    loop {
        watches.follow(&process.shared.config.load().pools);
        if generation.changed().await.is_err() {
            return;
        }
    }
}

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
    /// SIGHUP.
    Reload,
    /// SIGUSR1, as for nginx and Apache.
    Reopen,
    /// SIGUSR2, as for nginx.
    Upgrade,
    /// SIGTERM and SIGINT.
    End,
}

/// Signals, none of which ends the process by itself from here on.
pub(super) struct Signals {
    hangup: tokio::signal::unix::Signal,
    user1: tokio::signal::unix::Signal,
    user2: tokio::signal::unix::Signal,
    /// That a file is as large as the process may make it means nothing: the write tells.
    _file_size: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    /// A reload was asked for while none could be done.
    is_to_reload: bool,
    /// The same of an upgrade.
    is_to_upgrade: bool,
    /// The access log was opened anew while something else was done.
    has_reopened: bool,
    /// The process that has succeeded this one, if the kernel has descriptors of processes.
    successor: Option<OwnedFd>,
}

impl Signals {
    /// Takes them over. Must run within a runtime.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let file_size = SignalKind::from_raw(System::XFSZ.as_raw());
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            _file_size: signal(file_size)?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            is_to_reload: false,
            is_to_upgrade: false,
            has_reopened: false,
            successor: None,
        })
    }

    /// The next signal to end. What others ask for is done now, or is the next signal afterwards.
    async fn end(&mut self, shared: &Shared) {
        loop {
            match self.received().await {
                Signal::End => return,
                Signal::Reopen => {
                    reopen_log(shared);
                    self.has_reopened = true;
                }
                Signal::Reload => {
                    reopen_log(shared);
                    self.is_to_reload = true;
                }
                Signal::Upgrade => self.is_to_upgrade = true,
            }
        }
    }

    /// The next signal to end of a process that is on its way out. The access log is opened anew; what else a successor can do is passed on to it.
    async fn end_of_leaving(&mut self, shared: &Shared) {
        loop {
            match self.next().await {
                Signal::End => return,
                Signal::Reopen => {
                    reopen_log(shared);
                    self.tell_successor(System::USR1);
                }
                Signal::Reload if self.tell_successor(System::HUP) => {
                    reopen_log(shared);
                    tracing::info!("SIGHUP is passed on to the successor");
                }
                Signal::Reload => {
                    reopen_log(shared);
                    tracing::warn!(
                        "SIGHUP reopens the access log only: this process is on its way out, and loads no policy any more; a successor does, or the next start"
                    );
                }
                Signal::Upgrade if shared.has_succeeded() => tracing::warn!(
                    "SIGUSR2 is ignored: this process has a successor already; send it to that"
                ),
                Signal::Upgrade => tracing::warn!(
                    "SIGUSR2 is ignored: this process is on its way out, and starts no successor; start the gateway anew"
                ),
            }
        }
    }

    /// Has a successor do what was asked of this process while that started: it may have read the files before they changed.
    fn pass_on(&mut self, successor: u32) {
        let Some(successor) = Pid::from_raw(successor.cast_signed()) else { return };
        self.successor = pidfd_open(successor, PidfdFlags::empty()).ok();
        let signal = match (self.is_to_reload, self.has_reopened) {
            (true, _) => System::HUP,
            (false, true) => System::USR1,
            (false, false) => return,
        };
        let _ = kill_process(successor, signal);
    }

    /// Sends the successor a signal. Whether there is one, and it lives.
    fn tell_successor(&self, signal: System) -> bool {
        self.successor.as_ref().is_some_and(|it| pidfd_send_signal(it, signal).is_ok())
    }

    async fn next(&mut self) -> Signal {
        if std::mem::take(&mut self.is_to_reload) {
            return Signal::Reload;
        }
        match std::mem::take(&mut self.is_to_upgrade) {
            true => Signal::Upgrade,
            false => self.received().await,
        }
    }

    async fn received(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::Reload,
            _ = self.user1.recv() => Signal::Reopen,
            _ = self.user2.recv() => Signal::Upgrade,
            _ = self.terminate.recv() => Signal::End,
            _ = self.interrupt.recv() => Signal::End,
        }
    }
}
