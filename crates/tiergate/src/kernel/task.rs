//! The task that has the program: follows the policy, the overload and the rates.

use super::carried::carried_words;
use super::programs::{KernelCounts, Orders, Programs};
use super::status::KernelStatus;
use super::unqueued::Unqueued;
use crate::clock;
use crate::config::meant::{BlockInKernel, KernelSettings};
use crate::door::BlockNews;
use crate::shared::{Config, Shared};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::early::overload::{Counted, Overload};
use tiergate_core::early::unseen::Unseen;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;
use tiergate_kernel::{Fault, local_addresses};
use tokio::sync::watch;

/// How often blocks and clients in sessions are passed on.
const PASS_ON: Duration = Duration::from_millis(50);
/// How often all else is looked at. By the clock: in a flood a turn may take several times as long.
const LOOK: Duration = Duration::from_secs(1);
/// How often addresses are looked at, in looks.
const LOOK_AROUND: u32 = 5;

/// Does what the policy in force says, until the drain or the end. Then the programs are gone, and every packet passes.
pub async fn run(shared: Arc<Shared>, mut generation: watch::Receiver<u32>) {
    let mut kernel = Kernel::default();
    let mut draining = std::pin::pin!(shared.draining());
    loop {
        let policy_changed = kernel.generation != Some(*generation.borrow_and_update());
        if policy_changed {
            kernel.generation = Some(*generation.borrow());
            kernel = kernel.follow(&shared).await;
        }
        let Some(settings) = kernel.settings.clone() else {
            // Nothing is asked for.
            tokio::select! {
                changed = generation.changed() => if changed.is_err() { return },
                () = &mut draining => return,
            }
            continue;
        };
        tokio::select! {
            () = tokio::time::sleep(PASS_ON) => kernel = kernel.turn(&shared, &settings).await,
            changed = generation.changed() => if changed.is_err() { break },
            () = &mut draining => break,
        }
    }
    shared.kernel.set_status(None);
}

/// What it has.
struct Kernel {
    programs: Programs,
    counts: KernelCounts,
    settings: Option<KernelSettings>,
    here: Vec<IpAddr>,
    overload: Overload,
    /// What a flood of SYNs leaves in the system's counters.
    unqueued: Unqueued,
    /// What controllers of rates have to know of requests that never come.
    unseen: Unseen,
    generation: Option<u32>,
    /// What was last said to be missing.
    fault: Option<String>,
    /// Whether it was last said that the kernel polices.
    is_policing: bool,
    looks: u32,
    looked: Option<Moment>,
}

impl Default for Kernel {
    fn default() -> Self {
        Kernel {
            programs: Programs::default(),
            counts: KernelCounts::default(),
            settings: None,
            here: Vec::new(),
            overload: Overload::new(1.0),
            unqueued: Unqueued::default(),
            unseen: Unseen::default(),
            generation: None,
            fault: None,
            is_policing: false,
            looks: 0,
            looked: None,
        }
    }
}

/// What the request path has said since the last turn.
struct News {
    let_in: Vec<IpAddr>,
    lasting: Duration,
    blocks: Vec<BlockNews>,
}

impl Kernel {
    /// Does what the policy in force says from now on.
    async fn follow(mut self, shared: &Arc<Shared>) -> Self {
        let config = shared.config.load_full();
        self.settings = config.policy.kernel.clone();
        let settings = self.settings.clone();
        let blocks = settings.as_ref().is_some_and(|it| it.block != BlockInKernel::None);
        let let_in = settings.as_ref().filter(|_| config.policy.session.is_some());
        shared.door.want_blocks(blocks);
        shared.kernel.want(blocks, let_in.map(|it| it.let_in));
        let Some(settings) = settings else {
            shared.kernel.set_status(None);
            let generation = self.generation;
            apart(move || drop(self)).await;
            return Kernel { generation, ..Kernel::default() };
        };
        self.overload.reconfigure(settings.begin);
        let shared = shared.clone();
        apart(move || {
            self.look_around();
            let done = self.put_in_force(&shared, &settings, &config);
            carried_words(&settings).iter().for_each(|it| tracing::warn!("{it}"));
            self.say(done);
            self.counts = self.programs.counts(&config.policy.plan);
            self.show(&shared, &settings);
            self
        })
        .await
    }

    /// A turn, every [`PASS_ON`]. System calls are for another thread: of what is counted and what is blocked there may be thousands.
    async fn turn(mut self, shared: &Arc<Shared>, settings: &KernelSettings) -> Self {
        let now = clock::now();
        let is_look = self.looked.is_none_or(|it| now.since(it) >= LOOK);
        let (let_in, lasting) = shared.kernel.take_let_in();
        let news = News { let_in, lasting, blocks: shared.door.take_blocks() };
        if !is_look && news.let_in.is_empty() && news.blocks.is_empty() {
            return self;
        }
        let (shared, settings) = (shared.clone(), settings.clone());
        let counted = is_look.then(|| counted(&shared));
        apart(move || {
            self.pass_on(&shared, news, now);
            if let Some(counted) = counted {
                self.look(&shared, &settings, counted, now);
            }
            self
        })
        .await
    }

    /// Gives the programs what the policy says.
    fn put_in_force(
        &mut self,
        shared: &Shared,
        settings: &KernelSettings,
        config: &Config,
    ) -> Result<(), Fault> {
        self.programs.put_in_force(Orders {
            settings,
            policy: &config.policy,
            here: &self.here,
            is_overload: self.overload.is_on(),
            rate: &|id| shared.door.gate().policer_rate(id),
        })
    }

    /// Passes on who is blocked and who is let in.
    fn pass_on(&mut self, shared: &Shared, news: News, now: Moment) {
        self.programs.let_in(&news.let_in, news.lasting);
        for news in news.blocks {
            match news {
                BlockNews::UnblockAll => self.programs.unblock_all(),
                // Of others it is not known whose flow it is: the gate refuses them.
                BlockNews::Block { flow, until } => {
                    if let Some(client) = shared.kernel.client(flow) {
                        self.programs.block(client, until.since(now));
                    }
                }
            }
        }
    }

    /// Once a second: follows interfaces and addresses, the overload, and the rates that controllers set.
    fn look(
        &mut self,
        shared: &Shared,
        settings: &KernelSettings,
        mut counted: Counted,
        now: Moment,
    ) {
        let config = shared.config.load_full();
        let plan = &config.policy.plan;
        self.looked = Some(now);
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOK_AROUND) {
            self.look_around();
        }
        self.mend(shared, settings, &config, now);
        self.counts = self.programs.counts(plan);
        let KernelCounts { total, syns, requests, refused } = &self.counts;
        let at_first_packets = self.programs.at_first_packets();
        for (id, count) in self.unseen.since(refused, plan.site_policer, at_first_packets) {
            shared.door.gate().refused_early(id, count);
        }
        // Blocked clients come, too, and no policer refuses them.
        counted.arrived += total.blocked;
        counted.dropped += syns.iter().map(|it| it.dropped).sum::<u64>();
        counted.dropped += requests.iter().map(|it| it.refused).sum::<u64>();
        counted.unqueued = self.unqueued.look();
        let done = match self.overload.observe(now, counted) {
            Some(is_on) => self.programs.switch(settings, is_on),
            None => Ok(()),
        };
        let rate = |id| shared.door.gate().policer_rate(id);
        if let Err(fault) = done.and_then(|()| self.programs.set_rates(plan, rate)) {
            self.programs.give_up(now);
            self.say(Err(fault));
        }
        self.show(shared, settings);
    }

    /// Tries again what has failed, when it is time.
    fn mend(&mut self, shared: &Shared, settings: &KernelSettings, config: &Config, now: Moment) {
        let orders = Orders {
            settings,
            policy: &config.policy,
            here: &self.here,
            is_overload: self.overload.is_on(),
            rate: &|id| shared.door.gate().policer_rate(id),
        };
        let done = self.programs.mend(orders, now);
        if let Some(done) = done {
            self.say(done);
        }
    }

    /// Which addresses this machine has; those of before, if it does not say.
    fn look_around(&mut self) {
        if let Ok(here) = local_addresses() {
            self.here = here;
        }
    }

    /// Says what is missing, once.
    fn say(&mut self, done: Result<(), Fault>) {
        self.programs.say_mechanism();
        let fault = done.err().map(|fault| fault.to_string());
        if fault == self.fault {
            return;
        }
        match &fault {
            Some(fault) => tracing::warn!(
                "kernel: {fault}; what is not in force there, the gateway does by itself"
            ),
            None => tracing::info!("kernel: all that the policy asks for is in force"),
        }
        self.fault = fault;
    }

    /// Says when policing has begun or ended, and shows what there is.
    fn show(&mut self, shared: &Shared, settings: &KernelSettings) {
        self.programs.say_mechanism();
        let is_overload = self.overload.is_on();
        let is_policing = settings.police && is_overload && self.programs.can_police();
        match (std::mem::replace(&mut self.is_policing, is_policing), is_policing) {
            (false, true) => tracing::warn!("overload: the kernel polices from now on"),
            (true, false) if is_overload => {
                tracing::warn!("the kernel polices no more, although the overload lasts");
            }
            (true, false) => {
                tracing::info!("the overload is over: the kernel polices no more");
            }
            _ => {}
        }
        let (networks, paths) = self.programs.sizes();
        let KernelCounts { total, syns, requests, .. } = &self.counts;
        shared.kernel.set_status(Some(KernelStatus {
            interfaces: self.programs.interfaces(settings),
            mechanism: self.programs.mechanism().to_owned(),
            not_ebpf: self.programs.not_ebpf().map(str::to_owned),
            fault: self.fault.clone(),
            policing: is_policing,
            networks,
            paths,
            seen: total.seen,
            let_in: total.let_in,
            blocked: total.blocked,
            policers: syns.clone(),
            requests: requests.clone(),
        }));
    }
}

/// Does it on a thread that may take its time.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("nothing panics within")
}

/// What was counted of requests, in all pools.
fn counted(shared: &Shared) -> Counted {
    let gate = shared.door.gate();
    let mut counted = Counted::default();
    for class in gate.all_pools().flat_map(|pool| &pool.account().classes) {
        counted.add(class.arrived, Reason::ALL.into_iter().zip(class.refused));
    }
    counted
}
