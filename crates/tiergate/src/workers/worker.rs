//! The task of one worker: starts it, and again when it has ended; gives it new shares; replaces it by one of another command; ends it.

use super::apply::{into_group, to_processes};
use super::board::PoolBoard;
use super::group::Group;
use super::output::{self, Budget};
use super::running::{Outputs, Running};
use super::start::start;
use super::threads::of_process_group;
use crate::clock;
use crate::config::meant::{Command, Ready, Server};
use crate::origin::Origin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tiergate_core::time::Moment;
use tiergate_core::workers::{Restart, Shares};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// What a worker is to do; changes with reloads.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) command: Arc<Command>,
    pub(super) shares: Shares,
    pub(super) group: Option<Arc<Result<Group, String>>>,
    /// The pools that have its server, for the requests in progress there.
    pub(super) origins: Vec<Arc<Origin>>,
    /// Whether no pool has its server any more.
    pub(super) is_left: bool,
    pub(super) stay: Stay,
}

/// Whether a worker is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// It is.
    Runs,
    /// It is to end when its requests have.
    Leaves,
    /// It is to end now: there are no requests any more.
    Ends,
}

/// What the workers of a pool have together.
#[derive(Clone, Debug)]
pub(super) struct Together {
    pub(super) board: Arc<PoolBoard>,
    /// Whose turn it is to be replaced by one of another command: one at a time, so that a command that does not work takes one of them.
    pub(super) turn: Arc<Semaphore>,
    pub(super) lines: Arc<Mutex<Budget>>,
}

/// One worker.
pub(super) struct Worker {
    number: u32,
    server: Server,
    orders: watch::Receiver<Order>,
    pool: Together,
    restart: Restart,
    /// What runs, or ran last: another than ordered until it is its turn.
    command: Arc<Command>,
    /// Its turn, until the one that replaces it is ready.
    in_turn: Option<OwnedSemaphorePermit>,
    /// Its server gets no requests while it is being replaced.
    away: Option<Away>,
    /// Whether it was started before, and has ended by itself.
    has_ended: bool,
    /// Dropped with it, when it is gone.
    _gone: watch::Sender<()>,
}

/// A server that had better get no requests. Dropped, it gets them again.
struct Away {
    origins: Vec<Arc<Origin>>,
    server: Server,
}

impl Away {
    fn new(origins: &[Arc<Origin>], server: &Server) -> Self {
        origins.iter().for_each(|origin| origin.ends(server, true));
        Away { origins: origins.to_vec(), server: server.clone() }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.origins.iter().for_each(|origin| origin.ends(&self.server, false));
    }
}

/// What comes after a worker has ended.
enum Next {
    /// It is started again, at that time.
    Again(Moment),
    /// Another is started in its place, at once.
    Anew,
    /// Nothing.
    Over,
}

impl Worker {
    /// One of that number for that server; `gone` is dropped when it is.
    pub(super) fn new(
        number: u32,
        server: Server,
        orders: watch::Receiver<Order>,
        pool: Together,
        gone: watch::Sender<()>,
    ) -> Self {
        let command = orders.borrow().command.clone();
        let restart = Restart::default();
        let (in_turn, away, has_ended) = (None, None, false);
        Worker {
            number,
            server,
            orders,
            pool,
            restart,
            command,
            in_turn,
            away,
            has_ended,
            _gone: gone,
        }
    }

    /// Runs the worker until it is told to end. Dropping the future kills it. `before`: those on their way out that have what it needs; their senders
    /// are dropped when they are gone.
    pub(super) async fn run(mut self, before: Vec<watch::Receiver<()>>) {
        for mut other in before {
            while other.changed().await.is_ok() {}
        }
        loop {
            let order = self.orders.borrow_and_update().clone();
            if order.stay != Stay::Runs {
                break;
            }
            if !self.differs(&order) || self.takes_turn() {
                self.command = order.command.clone();
            }
            self.restart.started(clock::now());
            match self.start_and_watch(order).await {
                Next::Anew => self.has_ended = false,
                Next::Over => break,
                Next::Again(at) => {
                    self.has_ended = true;
                    self.wait_to_restart(at).await;
                }
            }
        }
        self.pool.board.gone(self.number);
    }

    /// Whether an order is of another command than what runs.
    fn differs(&self, order: &Order) -> bool {
        let words = |it: &Command| it.words(self.number, &self.server);
        words(&order.command) != words(&self.command)
    }

    /// Whether it is its turn, taken now if nobody has it.
    fn takes_turn(&mut self) -> bool {
        if self.in_turn.is_none() {
            self.in_turn = self.pool.turn.clone().try_acquire_owned().ok();
        }
        self.in_turn.is_some()
    }

    /// Waits until it is time to start it again, or until it is to end or to be started by another command and may.
    async fn wait_to_restart(&mut self, at: Moment) {
        let mut wait = std::pin::pin!(tokio::time::sleep(at.since(clock::now())));
        loop {
            let order = self.orders.borrow_and_update().clone();
            let is_replaced = self.differs(&order);
            if order.stay != Stay::Runs || is_replaced && self.in_turn.is_some() {
                break;
            }
            tokio::select! {
                () = &mut wait => return,
                turn = self.pool.turn.clone().acquire_owned(), if is_replaced => {
                    self.in_turn = turn.ok();
                    break;
                }
                changed = self.orders.changed() => if changed.is_err() { break },
            }
        }
        self.restart = Restart::default();
    }

    async fn start_and_watch(&mut self, order: Order) -> Next {
        let words = self.command.words(self.number, &self.server);
        let (pool, number) = (self.pool.board.name().to_owned(), self.number);
        match start(&words, order.shares, order.group.clone()).await {
            Ok((running, outputs, effects)) => {
                self.pool.board.started(number, running.pid, self.has_ended);
                self.pool.board.has(number, effects, false);
                tracing::info!(pool, worker = number, pid = running.pid, "worker started");
                self.log(outputs);
                self.watch(running, order).await
            }
            Err(fault) => {
                tracing::error!(pool, worker = number, "worker not started: {fault:#}");
                self.pool.board.ended(number, format!("{fault:#}"));
                Next::Again(self.restart.ended(clock::now()))
            }
        }
    }

    /// Logs what it prints.
    fn log(&self, Outputs { out, error }: Outputs) {
        let (pool, lines) = (self.pool.board.name(), &self.pool.lines);
        tokio::spawn(output::log(pool.to_owned(), self.number, lines.clone(), out));
        tokio::spawn(output::log(pool.to_owned(), self.number, lines.clone(), error));
    }

    async fn watch(&mut self, mut running: Running, mut order: Order) -> Next {
        let (number, pool) = (self.number, self.pool.clone());
        let mut readiness = std::pin::pin!(is_ready(self.command.ready, self.server.clone()));
        let mut late = std::pin::pin!(tokio::time::sleep(READY_LATE));
        let mut lives = std::pin::pin!(tokio::time::sleep(Restart::SHORT));
        let (mut is_awaited, mut is_late, mut is_replaced) = (true, false, self.differs(&order));
        loop {
            let turn = pool.turn.clone().acquire_owned();
            tokio::select! {
                how = running.ended() => {
                    // Its children may take their time: that is no life of it.
                    let again = self.restart.ended(clock::now());
                    let name = pool.board.name();
                    tracing::warn!(pool = name, worker = number, pid = running.pid, "worker ended: {how}");
                    pool.board.ended(number, how);
                    running.end_children(Instant::now() + self.command.stop_max, false).await;
                    return Next::Again(again);
                }
                () = &mut readiness, if is_awaited => {
                    is_awaited = false;
                    pool.board.becomes(number, "ready");
                    drop(self.away.take());
                    self.check_reservation(running.pid, &order.shares);
                }
                // A command that fails soon after all must not take the others, too.
                () = &mut lives, if !is_awaited && self.in_turn.is_some() && !is_replaced => self.in_turn = None,
                () = &mut late, if is_awaited && !is_late => {
                    is_late = true;
                    let (name, after, server) = (pool.board.name(), READY_LATE, &self.server);
                    tracing::warn!(pool = name, worker = number, "not ready after {after:?}: {server} accepts no connection; others are not replaced meanwhile");
                }
                // Without waiting for anybody if it has its turn still: what replaced it last is not ready.
                turn = async { if self.in_turn.is_some() { None } else { turn.await.ok() } }, if is_replaced => {
                    if self.in_turn.is_none() {
                        self.in_turn = turn;
                    }
                    // A server that closes its listen queue loses what is in it: best when nothing is.
                    self.end(running, true).await;
                    return Next::Anew;
                }
                changed = self.orders.changed() => {
                    let new = self.orders.borrow_and_update().clone();
                    if changed.is_err() || new.stay != Stay::Runs {
                        self.end(running, new.stay == Stay::Leaves).await;
                        return Next::Over;
                    }
                    is_replaced = self.differs(&new);
                    if !is_replaced {
                        let ready = new.command.ready;
                        if is_awaited && ready != self.command.ready {
                            readiness.set(is_ready(ready, self.server.clone()));
                        }
                        self.command = new.command.clone();
                    }
                    let has_group = |it: &Order| it.group.as_deref().is_some_and(Result::is_ok);
                    if new.shares != order.shares || has_group(&new) != has_group(&order) {
                        self.share(running.pid, &new, &order).await;
                    }
                    order = new;
                }
            }
        }
    }

    /// Gives the worker and its children what a new order says.
    async fn share(&self, pid: u32, new: &Order, former: &Order) {
        let (shares, before, group) = (new.shares, former.shares, new.group.clone());
        // What is as it was stays as it is: processes may have changed it themselves.
        let of_threads = |it: &Shares| (it.nice, it.scheduling, it.io);
        let is_same = of_threads(&shares) == of_threads(&before);
        // Not on this thread, which serves: looking for the children takes milliseconds.
        let effects = tokio::task::spawn_blocking(move || {
            let processes = of_process_group(pid);
            let mut effects = match is_same {
                true => Vec::new(),
                false => to_processes(&processes, &shares, &before),
            };
            if let Some(Ok(group)) = group.as_deref() {
                effects.extend(into_group(&processes, group, &shares));
            }
            effects
        });
        if let Ok(effects) = effects.await {
            self.pool.board.has(self.number, effects, is_same);
        }
    }

    /// A reservation is of the first thread alone: says so where a worker has children, which serve without one.
    fn check_reservation(&self, pid: u32, shares: &Shares) {
        if !shares.is_reserved() {
            return;
        }
        let (board, number) = (self.pool.board.clone(), self.number);
        tokio::spawn(async move {
            // Some begin to listen before they start the processes that serve.
            tokio::time::sleep(CHILDREN_AFTER).await;
            let count = move || of_process_group(pid).len().saturating_sub(1);
            let children = tokio::task::spawn_blocking(count).await.unwrap_or(0);
            if children > 0 {
                let name = board.name();
                tracing::warn!(
                    pool = name,
                    worker = number,
                    pid,
                    "it has {children} processes besides its first, which have no slice of the processor: a slice is for a server that is one thread"
                );
            }
        });
    }

    /// Ends the worker. `waits`: first for its requests to end, unless the gateway ends.
    async fn end(&mut self, mut running: Running, waits: bool) {
        let latest = self.orders.borrow().clone();
        let longest = latest.command.stop_max;
        self.pool.board.becomes(self.number, "ending");
        // Of several at one server it is not known which requests are whose.
        let has_own = !self.command.is_shared();
        if waits && (has_own || latest.is_left) {
            let origins = latest.origins;
            // Whether it gets no more requests: its server is in no pool any more, or another can serve.
            let is_spared = latest.is_left || latest.command.is_one_each();
            if is_spared && has_own {
                // The former one first: what it marks is the same.
                drop(self.away.take());
                self.away = Some(Away::new(&origins, &self.server));
            }
            // Where they come on, only for a moment without any.
            let longest = if is_spared { longest } else { longest.min(ALONE_MAX) };
            let until = Instant::now() + longest;
            let of: Vec<&Server> = match self.command.is_one_for_all() {
                true => self.command.servers_all().iter().collect(),
                false => vec![&self.server],
            };
            let at = |origin: &Arc<Origin>| of.iter().map(|it| origin.outstanding(it)).sum::<u32>();
            let outstanding = || origins.iter().map(at).sum::<u32>();
            let has_none = async {
                while outstanding() > 0 && Instant::now() < until {
                    tokio::time::sleep(LOOK).await;
                }
            };
            tokio::select! {
                () = has_none => {}
                _ = running.ended() => {}
                _ = self.orders.wait_for(|it| it.stay == Stay::Ends) => {}
            }
        }
        let how = running.end(longest).await;
        let pool = self.pool.board.name();
        tracing::info!(pool, worker = self.number, "worker ended as it was told: {how}");
        self.pool.board.ended(self.number, how);
    }
}

/// How often it is looked whether requests have ended.
const LOOK: Duration = Duration::from_millis(5);
/// How long one without another beside it waits for a moment without a request.
const ALONE_MAX: Duration = Duration::from_secs(1);
/// How long after it is ready a worker has its children.
const CHILDREN_AFTER: Duration = Duration::from_secs(2);
/// A worker that takes longer to be ready is reported.
const READY_LATE: Duration = Duration::from_secs(60);
/// How often it is tried to connect to a worker that is not ready.
const TRY_EVERY: Duration = Duration::from_millis(50);
/// How long that may take.
const TRY_MAX: Duration = Duration::from_secs(1);

/// Returns when a worker is ready.
async fn is_ready(ready: Ready, server: Server) {
    if ready == Ready::Alive {
        return;
    }
    loop {
        let connected = async {
            match &server {
                Server::Tcp(host, port) => TcpStream::connect((host.as_str(), *port)).await.is_ok(),
                Server::Unix(path) => UnixStream::connect(path).await.is_ok(),
            }
        };
        if tokio::time::timeout(TRY_MAX, connected).await == Ok(true) {
            return;
        }
        tokio::time::sleep(TRY_EVERY).await;
    }
}
