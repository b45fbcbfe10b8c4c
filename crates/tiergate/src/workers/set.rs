//! The workers of all pools: follows the policy over reloads.

use super::apply::{Before, to_group};
use super::board::{Board, PoolBoard};
use super::found;
use super::group::{Group, Roots};
use super::worker::{Order, Stay, Together, Worker};
use crate::config::meant::{Command, Processes, Server, Workers};
use crate::origin::Origin;
use crate::origin::pools::Pools;
use std::sync::Arc;
use tiergate_core::workers::{Roster, Shares, roster};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// The workers of all pools. If it is dropped, they end.
#[derive(Debug)]
pub(crate) struct Set {
    board: Arc<Board>,
    pools: Vec<Pool>,
    leaving: Vec<Leaving>,
}

/// A worker that is on its way out.
#[derive(Debug)]
struct Leaving {
    pool: String,
    one: One,
}

/// Those of a pool.
#[derive(Debug)]
struct Pool {
    board: Arc<PoolBoard>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Started(Started),
    Found { wanted: watch::Sender<found::Wanted> },
}

/// Those of a pool that the gateway starts.
#[derive(Debug)]
struct Started {
    together: Together,
    workers: Vec<One>,
    group: Option<Arc<Result<Group, String>>>,
    before: Before,
}

/// One worker: it keeps its number and its server for as long as it is.
#[derive(Debug)]
struct One {
    number: u32,
    server: Server,
    orders: watch::Sender<Order>,
    /// Its sender is dropped when it is gone.
    gone: watch::Receiver<()>,
    task: JoinHandle<()>,
}

impl Set {
    /// None yet; `board` shows them.
    pub(crate) fn new(board: Arc<Board>) -> Self {
        Set { board, pools: Vec::new(), leaving: Vec::new() }
    }

    /// Starts, changes and ends workers so that they are what a policy says. Those of which it says nothing new stay as they are.
    pub(crate) fn follow(&mut self, wanted: &[Workers], servers: &Pools) {
        self.leaving.retain(|it| !it.one.task.is_finished());
        let mut former = std::mem::take(&mut self.pools);
        let mut pools = Vec::new();
        for it in wanted {
            let known = former.iter().position(|pool| pool.is_of(it));
            pools.push(known.map_or_else(|| Pool::new(it), |known| former.swap_remove(known)));
        }
        // First what goes, so that those that come know whom to wait for.
        let mut gone: Vec<Leaving> = former.into_iter().flat_map(Pool::all).collect();
        let mut coming = Vec::new();
        for (pool, it) in pools.iter_mut().zip(wanted) {
            let others = self.leaving.iter().chain(&gone).filter(|other| other.pool == it.pool);
            let leaves: Vec<u32> = others.map(|other| other.one.number).collect();
            let (goes, comes) = pool.changes(it, &leaves);
            gone.extend(goes);
            coming.push(comes);
        }
        for it in gone {
            it.one.leave(&having(servers, &it.one.server));
            self.leaving.push(it);
        }
        for ((pool, it), comes) in pools.iter_mut().zip(wanted).zip(coming) {
            pool.follow(it, servers, &self.leaving, comes);
        }
        self.pools = pools;
        self.board.show(self.pools.iter().map(|pool| pool.board.clone()).collect());
    }

    /// Ends all of them. For each it takes at most as long as its policy says, and about two seconds.
    pub(crate) async fn end(mut self) {
        self.leaving.extend(std::mem::take(&mut self.pools).into_iter().flat_map(Pool::all));
        for it in &self.leaving {
            it.one.orders.send_modify(|order| order.stay = Stay::Ends);
        }
        for it in self.leaving {
            let _ = it.one.task.await;
        }
    }
}

/// The pools that have a server.
fn having(servers: &Pools, server: &Server) -> Vec<Arc<Origin>> {
    servers.iter().filter(|origin| origin.settings.servers.contains(server)).collect()
}

impl Pool {
    fn new(it: &Workers) -> Self {
        let from = match &it.processes {
            Processes::Started(_) => "command",
            Processes::Group(_) => "cgroup",
            Processes::Unit(_) => "unit",
        };
        let board = PoolBoard::new(&it.pool, from);
        let kind = match &it.processes {
            Processes::Started(_) => {
                let turn = Arc::new(Semaphore::new(1));
                let together = Together { board: board.clone(), turn, lines: Arc::default() };
                let before = Before::default();
                Kind::Started(Started { together, workers: Vec::new(), group: None, before })
            }
            found => {
                let (wanted, orders) = watch::channel((found.clone(), it.shares));
                tokio::spawn(found::follow(orders, board.clone()));
                Kind::Found { wanted }
            }
        };
        Pool { board, kind }
    }

    /// Whether it is what that table of a policy is about.
    fn is_of(&self, it: &Workers) -> bool {
        let is_same_kind = matches!(
            (&self.kind, &it.processes),
            (Kind::Started(_), Processes::Started(_))
                | (Kind::Found { .. }, Processes::Group(_) | Processes::Unit(_))
        );
        is_same_kind && self.board.pool == it.pool
    }

    /// Takes those out that are to go, and says which are to come. `leaves`: numbers of the pool's that are on their way out.
    fn changes(&mut self, it: &Workers, leaves: &[u32]) -> (Vec<Leaving>, Vec<(u32, Server)>) {
        let (Kind::Started(started), Processes::Started(command)) = (&mut self.kind, &it.processes)
        else {
            return Default::default();
        };
        let wanted: Vec<Server> = command.servers().cloned().collect();
        let runs: Vec<(u32, Server)> =
            started.workers.iter().map(|one| (one.number, one.server.clone())).collect();
        let Roster { stays, comes } = roster(&runs, &wanted, leaves);
        let mut stays = stays.into_iter();
        let goes = started.workers.extract_if(.., |_| stays.next() == Some(false));
        let goes = goes.map(|one| Leaving { pool: self.board.pool.clone(), one });
        (goes.collect(), comes)
    }

    /// Does what the policy says now.
    fn follow(
        &mut self,
        it: &Workers,
        servers: &Pools,
        leaving: &[Leaving],
        comes: Vec<(u32, Server)>,
    ) {
        match (&mut self.kind, &it.processes) {
            (Kind::Started(started), Processes::Started(command)) => {
                started.follow(command, it.shares, servers, leaving, comes);
            }
            (Kind::Found { wanted }, found) => {
                wanted.send_if_modified(|known| {
                    let new = (found.clone(), it.shares);
                    let is_new = *known != new;
                    *known = new;
                    is_new
                });
            }
            (Kind::Started(_), _) => unreachable!("a pool of another kind is another"),
        }
    }

    /// All that it has started.
    fn all(self) -> Vec<Leaving> {
        match self.kind {
            Kind::Started(Started { workers, .. }) => {
                let leaving = |one| Leaving { pool: self.board.pool.clone(), one };
                workers.into_iter().map(leaving).collect()
            }
            Kind::Found { .. } => Vec::new(),
        }
    }
}

impl Started {
    fn follow(
        &mut self,
        command: &Command,
        shares: Shares,
        servers: &Pools,
        leaving: &[Leaving],
        comes: Vec<(u32, Server)>,
    ) {
        let board = self.together.board.clone();
        // Where it could not be made, it may be now.
        let has_group = self.group.as_deref().is_some_and(Result::is_ok);
        if shares.needs_group() && !has_group {
            let made = Group::make(board.name(), &Roots::default());
            self.group = Some(Arc::new(made.map_err(|fault| format!("{fault:#}"))));
        }
        board.group_has(to_group(self.group.as_deref(), &shares, &mut self.before));
        board.wants(command.count);
        let (command, group) = (Arc::new(command.clone()), self.group.clone());
        let order = |server: &Server| Order {
            command: command.clone(),
            shares,
            group: group.clone(),
            origins: having(servers, server),
            is_left: false,
            stay: Stay::Runs,
        };
        for one in &self.workers {
            one.orders.send_replace(order(&one.server));
        }
        for (number, server) in comes {
            let is_in_its_way = |it: &&Leaving| {
                it.one.server == server || it.pool == board.pool && it.one.number == number
            };
            let before = leaving.iter().filter(is_in_its_way);
            let before = before.map(|it| it.one.gone.clone()).collect();
            let together = self.together.clone();
            let order = order(&server);
            self.workers.push(One::start(number, server, order, together, before));
        }
    }
}

impl One {
    fn start(
        number: u32,
        server: Server,
        order: Order,
        together: Together,
        before: Vec<watch::Receiver<()>>,
    ) -> Self {
        let (orders, receiver) = watch::channel(order);
        let (sender, gone) = watch::channel(());
        let worker = Worker::new(number, server.clone(), receiver, together, sender);
        One { number, server, orders, gone, task: tokio::spawn(worker.run(before)) }
    }

    /// Tells it to end; `origins`: the pools that have its server now.
    fn leave(&self, origins: &[Arc<Origin>]) {
        self.orders.send_modify(|order| {
            (order.stay, order.is_left) = (Stay::Leaves, origins.is_empty());
            order.origins.extend_from_slice(origins);
            // The last that has it removes it.
            order.group = None;
        });
    }
}
