//! The task that has the program: follows the policy, the overload and the rates.

use super::programs::Programs;
use super::status::KernelStatus;
use crate::clock;
use crate::config::meant::{BlockInKernel, KernelSettings};
use crate::door::BlockNews;
use crate::shared::{Config, Shared};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::early::overload::{Counted, Overload};
use tiergate_core::reason::Reason;
use tiergate_kernel::{Fault, local_addresses};
use tokio::sync::watch;

/// How often blocks and clients in sessions are passed on.
const PASS_ON: Duration = Duration::from_millis(50);
/// How often all else is looked at, in that unit: once a second.
const LOOK: u32 = 20;
/// How often addresses and interfaces are looked at, in looks.
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
    settings: Option<KernelSettings>,
    here: Vec<IpAddr>,
    overload: Overload,
    generation: Option<u32>,
    /// What was last said to be missing.
    fault: Option<String>,
    turns: u32,
}

impl Default for Kernel {
    fn default() -> Self {
        Kernel {
            programs: Programs::default(),
            settings: None,
            here: Vec::new(),
            overload: Overload::new(1.0),
            generation: None,
            fault: None,
            turns: 0,
        }
    }
}

impl Kernel {
    /// Does what the policy in force says from now on.
    async fn follow(mut self, shared: &Arc<Shared>) -> Self {
        let config = shared.config.load_full();
        self.settings = config.policy.kernel.clone();
        let settings = self.settings.as_ref();
        let blocks = settings.is_some_and(|it| it.block != BlockInKernel::None);
        let has_sessions = config.policy.session.is_some();
        shared.door.want_blocks(blocks);
        shared.kernel.want(blocks, settings.filter(|_| has_sessions).map(|it| it.let_in));
        let Some(settings) = settings else {
            shared.kernel.set_status(None);
            return Kernel { generation: self.generation, ..Kernel::default() };
        };
        self.overload.reconfigure(settings.begin);
        self.here = local_addresses().unwrap_or_default();
        let kernel = self.put_in_force(shared, config).await;
        kernel.show(shared);
        kernel
    }

    /// Gives the programs what the policy says, on a thread that may take its time.
    async fn put_in_force(mut self, shared: &Arc<Shared>, config: Arc<Config>) -> Self {
        let Some(settings) = self.settings.clone() else { return self };
        let shared = shared.clone();
        let work = move || {
            let is_overload = self.overload.is_on();
            let rate = |id| shared.door.gate().policer_rate(id);
            let policy = &config.policy;
            let done = self.programs.put_in_force(&settings, policy, &self.here, is_overload, rate);
            self.say(done);
            self
        };
        tokio::task::spawn_blocking(work).await.expect("nothing panics within")
    }

    /// A turn, every [`PASS_ON`].
    async fn turn(mut self, shared: &Arc<Shared>, settings: &KernelSettings) -> Self {
        self.pass_on(shared);
        self.turns = self.turns.wrapping_add(1);
        if !self.turns.is_multiple_of(LOOK) {
            return self;
        }
        if self.turns.is_multiple_of(LOOK * LOOK_AROUND) {
            let here = local_addresses().unwrap_or_default();
            let is_same = here == self.here;
            self.here = here;
            if !self.programs.is_whole(settings) || !is_same {
                self = self.put_in_force(shared, shared.config.load_full()).await;
            }
        }
        // What is missing was said before.
        if let Err(fault) = self.look(shared, settings) {
            self.say(Err(fault));
        }
        self.show(shared);
        self
    }

    /// Passes on who is blocked and who is let in.
    fn pass_on(&mut self, shared: &Shared) {
        let now = clock::now();
        let (let_in, lasting) = shared.kernel.take_let_in();
        self.programs.let_in(&let_in, lasting);
        for news in shared.door.take_blocks() {
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

    /// Follows the overload and the rates that controllers set.
    fn look(&mut self, shared: &Shared, settings: &KernelSettings) -> Result<(), Fault> {
        let config = shared.config.load();
        let plan = &config.policy.plan;
        let mut counted = counted(shared);
        counted.dropped += self.programs.total().blocked;
        counted.dropped += self.programs.syns(plan).iter().map(|it| it.dropped).sum::<u64>();
        counted.dropped += self.programs.requests(plan).iter().map(|it| it.refused).sum::<u64>();
        if let Some(is_on) = self.overload.observe(clock::now(), counted) {
            if settings.police && self.programs.polices() {
                match is_on {
                    true => tracing::warn!("overload: the kernel polices from now on"),
                    false => tracing::info!("the overload is over: the kernel polices no more"),
                }
            }
            self.programs.switch(settings, is_on)?;
        }
        self.programs.set_rates(plan, |id| shared.door.gate().policer_rate(id))
    }

    /// Says what is missing, once.
    fn say(&mut self, done: Result<(), Fault>) {
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

    fn show(&self, shared: &Shared) {
        let Some(settings) = &self.settings else { return };
        let config = shared.config.load();
        let plan = &config.policy.plan;
        let (networks, paths) = self.programs.sizes();
        let total = self.programs.total();
        shared.kernel.set_status(Some(KernelStatus {
            interfaces: self.programs.interfaces(settings),
            fault: self.fault.clone(),
            policing: settings.police && self.overload.is_on(),
            networks,
            paths,
            seen: total.seen,
            let_in: total.let_in,
            blocked: total.blocked,
            policers: self.programs.syns(plan),
            requests: self.programs.requests(plan),
        }));
    }
}

/// What was counted of requests, in all pools.
fn counted(shared: &Shared) -> Counted {
    let gate = shared.door.gate();
    let mut counted = Counted::default();
    for class in gate.all_pools().flat_map(|pool| &pool.account().classes) {
        counted.arrived += class.arrived;
        for (reason, refused) in Reason::ALL.into_iter().zip(class.refused) {
            let is_ours = matches!(reason, Reason::Policed | Reason::SitePoliced | Reason::Blocked);
            if is_ours || reason.is_for_want_of_capacity() {
                counted.refused += refused;
            }
        }
    }
    counted
}
