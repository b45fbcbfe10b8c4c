//! `tiergate kernel attach`: the kernel's part of a policy before a server on this machine that knows nothing of it, without the gateway between them.
//!
//! SYNs and first requests are policed by the same programs as before the gateway, with the same buckets; connections are steered to the server's listeners by class. Everything ends with the process.
//!
//! | file | what it has |
//! |---|---|
//! | `asked` | what is asked for |
//! | `policy` | what of a policy is put before the server |
//! | `steering` | connections steered by class |
//! | `queue` | how full the server's listen queues are |
//!
//! Source: Voigt B (SYN policing, prioritized listen queue, HTTP-header control), for servers of several listeners and without a change of the kernel.

mod asked;
mod policy;
mod queue;
mod steering;

pub use asked::Asked;

use super::carried::carried_words;
use super::programs::{KernelCounts, Orders, Programs};
use super::rules::{services, stage_words, unjudged};
use crate::clock;
use crate::config::meant::RequestsInKernel;
use crate::config::show;
use anyhow::{Context, anyhow};
use policy::{Before, attached};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use steering::Steer;
use tiergate_core::early::queue::{QueueOverload, Seen};
use tiergate_core::names::Names;
use tiergate_core::time::Moment;
use tiergate_kernel::{Fault, local_addresses};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

/// How often the server's sockets are looked for.
const TURN: Duration = Duration::from_millis(250);
/// How often all else is looked at, in turns: once a second.
const LOOK: u64 = 4;
/// How often this machine's addresses are looked at, in turns.
const LOOK_AROUND: u64 = 20;

/// Does it until a signal ends it.
///
/// # Errors
/// The policy has faults, what is asked does not fit it, or nothing of it can be put in force.
pub fn run(asked: Asked) -> anyhow::Result<()> {
    clock::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut hangup = signal(SignalKind::hangup())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut attached = Attached::start(asked)?;
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
        let mut turns = tokio::time::interval(TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = turns.tick() => attached.turn(clock::now()),
                _ = hangup.recv() => attached.reload(),
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        attached.say_counts();
        Ok(())
    })
}

/// What is in force.
struct Attached {
    asked: Asked,
    names: Names,
    before: Before,
    here: Vec<IpAddr>,
    programs: Programs,
    /// `None`: connections are not steered.
    steer: Option<Steer>,
    overload: QueueOverload,
    /// What was last said to be missing.
    fault: Option<String>,
    /// What was last said of listen queues that cannot be read.
    queue_fault: Option<String>,
    turns: u64,
    /// When counts were last logged.
    shown: Moment,
}

impl Attached {
    fn start(asked: Asked) -> anyhow::Result<Self> {
        let mut names = Names::default();
        let before = policy::load(&asked, &mut names)?;
        let here = local_addresses().context("the addresses of this machine cannot be read")?;
        let mut it = Attached {
            overload: QueueOverload::new(asked.queue.unwrap_or(1.0)),
            asked,
            names,
            before,
            here,
            programs: Programs::default(),
            steer: None,
            fault: None,
            queue_fault: None,
            turns: 0,
            shown: clock::now(),
        };
        it.police();
        let steered = it.steer();
        let is_policing = it.programs.can_police();
        if let Err(fault) = steered {
            let fault = fault.context("connections are not steered by class");
            if !is_policing {
                return Err(fault);
            }
            tracing::warn!("{fault:#}");
        }
        if !is_policing && it.steer.is_none() {
            return Err(match it.fault.take() {
                Some(fault) => anyhow!("{fault}"),
                None => anyhow!("nothing to police:\n  {}", it.stages().join("\n  ")),
            });
        }
        it.say_in_force();
        Ok(it)
    }

    /// Whether anything is to be policed.
    fn has_policing(&self) -> bool {
        self.before.settings.police && !self.before.settings.interfaces.is_empty()
    }

    /// Whether it is policed now.
    fn is_overload(&self) -> bool {
        self.asked.queue.is_none() || self.overload.is_on()
    }

    /// Gives the programs that police the policy's rules.
    fn police(&mut self) {
        if !self.has_policing() {
            self.programs = Programs::default();
            return;
        }
        let (is_overload, Before { policy, settings, .. }) = (self.is_overload(), &self.before);
        let orders = Orders { settings, policy, here: &self.here, is_overload, rate: &|_| None };
        let done = self.programs.put_in_force(orders);
        carried_words(settings).iter().for_each(|it| tracing::warn!("{it}"));
        self.say(done);
    }

    /// Begins to steer, if that is asked for.
    fn steer(&mut self) -> anyhow::Result<()> {
        if self.before.targets.is_empty() {
            return Ok(());
        }
        let mut steer = Steer::start(&self.before.targets)?;
        steer.put_in_force(&self.before.policy, &self.here)?;
        steer.look();
        self.steer = Some(steer);
        Ok(())
    }

    /// Says once what is missing, and what stands in for it.
    fn say(&mut self, done: Result<(), Fault>) {
        self.programs.say_mechanism();
        let fault = done.err().map(|fault| fault.to_string());
        if fault == self.fault {
            return;
        }
        match &fault {
            Some(fault) => tracing::warn!("{fault}; what is missing there is not policed"),
            None => tracing::info!("all that is to be policed is"),
        }
        self.fault = fault;
    }

    /// Every [`TURN`].
    fn turn(&mut self, now: Moment) {
        self.turns += 1;
        if let Some(steer) = &mut self.steer {
            steer.look();
        }
        if self.turns.is_multiple_of(LOOK_AROUND) {
            self.look_around();
        }
        if self.turns.is_multiple_of(LOOK) && self.has_policing() {
            self.look(now);
        }
        if self.asked.status.is_some_and(|it| now.since(self.shown) >= it) {
            self.shown = now;
            self.say_counts();
        }
    }

    /// Follows this machine's addresses; those of before, if it does not say.
    fn look_around(&mut self) {
        if let Ok(here) = local_addresses() {
            self.here = here;
        }
        let policy = &self.before.policy;
        if let Some(steer) = self.steer.as_mut().filter(|it| it.is_elsewhere(policy, &self.here))
            && let Err(fault) = steer.put_in_force(policy, &self.here)
        {
            tracing::warn!("connections to new addresses are not steered: {fault:#}");
        }
    }

    /// Once a second: interfaces, and the overload.
    fn look(&mut self, now: Moment) {
        self.mend(now);
        let KernelCounts { total, syns, requests, .. } =
            self.programs.counts(&self.before.policy.plan);
        let seen = Seen {
            queue: self.queue(),
            came: total.seen + requests.iter().map(|it| it.passed + it.refused).sum::<u64>(),
            dropped: syns.iter().map(|it| it.dropped).sum::<u64>()
                + requests.iter().map(|it| it.refused).sum::<u64>(),
        };
        let Some(is_on) = self.overload.observe(now, seen).filter(|_| self.asked.queue.is_some())
        else {
            return;
        };
        match self.programs.switch(&self.before.settings, is_on) {
            Ok(()) if !self.programs.can_police() => {}
            Ok(()) if is_on => tracing::warn!(
                "overload: a listen queue is {} full; the kernel polices from now on",
                show::share(seen.queue)
            ),
            Ok(()) => tracing::info!("the overload is over: the kernel polices no more"),
            Err(fault) => {
                self.programs.give_up(now);
                self.say(Err(fault));
            }
        }
    }

    /// How full the fullest listen queue of the server is.
    fn queue(&mut self) -> f64 {
        if self.asked.queue.is_none() {
            return 0.0;
        }
        let own = services(&self.before.policy.listeners, &self.here);
        let mut addresses: Vec<SocketAddr> = own.into_iter().map(|it| it.local).collect();
        addresses.extend(self.steer.iter().flat_map(Steer::addresses));
        match queue::fullest(&addresses) {
            Ok(fullest) => {
                self.queue_fault = None;
                fullest.unwrap_or(0.0)
            }
            Err(error) => {
                let fault = Some(error.to_string());
                if self.queue_fault != fault {
                    tracing::warn!(
                        "listen queues cannot be read: {error}; nothing begins policing without --always"
                    );
                }
                self.queue_fault = fault;
                0.0
            }
        }
    }

    /// Tries again what has failed, when it is time.
    fn mend(&mut self, now: Moment) {
        let (is_overload, Before { policy, settings, .. }) = (self.is_overload(), &self.before);
        let orders = Orders { settings, policy, here: &self.here, is_overload, rate: &|_| None };
        let done = self.programs.mend(orders, now);
        if let Some(done) = done {
            self.say(done);
        }
        self.programs.say_mechanism();
    }

    /// Reads the policy again; a faulty one changes nothing.
    fn reload(&mut self) {
        let asked = &self.asked;
        match self.names.attempt(|names| policy::load(asked, names)) {
            Ok(before) => self.before = before,
            Err(fault) => {
                tracing::error!("the policy stays as it was: {fault:#}");
                return;
            }
        }
        self.police();
        if let Some(steer) = &mut self.steer
            && let Err(fault) = steer.put_in_force(&self.before.policy, &self.here)
        {
            tracing::error!("connections are steered as before: {fault:#}");
        }
        if self.steer.is_none()
            && let Err(fault) = self.steer()
        {
            tracing::warn!("{:#}", fault.context("connections are not steered by class"));
        }
        tracing::info!("the policy was read again");
        self.say_in_force();
    }

    /// Which policers are in force.
    fn stages(&self) -> Vec<String> {
        let policy = &self.before.policy;
        let mut lines = stage_words(policy, "is not enforced without the gateway");
        let denials = policy.denials().count();
        if denials > 0 {
            lines.push(format!(
                "{denials} rules refuse requests: without the gateway nothing does, and their clients are served"
            ));
        }
        if policy.plan.policers.len() > 1 {
            lines.push(
                "where several policers apply to a client, of its rule, its class and all requests, the first of these alone is asked".to_owned(),
            );
        }
        if self.before.settings.judges_requests() {
            lines.extend(attached(policy).filter_map(|it| {
                let why = unjudged(policy, it)?;
                Some(format!("{}: first requests are not judged: {why}", it.address))
            }));
        }
        lines
    }

    /// Says what is in force, by mechanism.
    fn say_in_force(&self) {
        let Before { policy, settings, .. } = &self.before;
        tracing::info!("attached to {}", policy::addresses_words(policy));
        if !self.has_policing() {
            return;
        }
        self.stages().iter().for_each(|line| tracing::info!("{line}"));
        let (networks, paths) = self.programs.sizes();
        let refused = match settings.requests {
            RequestsInKernel::Reset => "reset",
            _ => "answered 429",
        };
        for it in self.programs.interfaces(settings) {
            let name = &it.name;
            if let Some(way) = it.way.as_ref().filter(|_| networks > 0) {
                tracing::info!("{name}: SYNs are policed ({way}), {networks} networks");
            }
            if it.ingress && paths > 0 {
                tracing::info!(
                    "{name}: first requests are policed, {paths} paths; refused ones are {refused}"
                );
            }
        }
        if !self.programs.can_police() {
            return;
        }
        match self.asked.queue {
            None => tracing::info!("the kernel polices at all times"),
            Some(share) => tracing::info!(
                "the kernel polices while a listen queue is {} full, and as long as it has to drop",
                show::share(share)
            ),
        }
    }

    /// Says what was counted.
    fn say_counts(&mut self) {
        let KernelCounts { syns, requests, .. } = self.programs.counts(&self.before.policy.plan);
        for it in &syns {
            let (policer, class) = (it.policer.as_str(), it.class.as_str());
            let (passed, overflow, dropped) = (it.passed, it.overflow, it.dropped);
            tracing::info!(policer, class, passed, overflow, dropped, "SYNs policed");
        }
        for it in &requests {
            let (policer, passed, refused) = (it.policer.as_str(), it.passed, it.refused);
            tracing::info!(policer, passed, refused, "first requests policed");
        }
        self.steer.iter().for_each(Steer::say_counts);
    }
}
