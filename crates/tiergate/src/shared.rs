//! What all connections of the process share.

use crate::config::meant::Policy;
use crate::door::Door;
use crate::origin::Origin;
use crate::respond::Refusals;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::watch;

/// A configuration in force, with what is derived from it once.
#[derive(Debug)]
pub struct Config {
    /// What the policy says.
    pub policy: Policy,
    /// Counts configurations; the gate's plan carries the same number.
    pub generation: u32,
    /// The origin, with what earlier configurations learnt about its servers.
    pub origin: Arc<Origin>,
    /// Every refusal, ready to be sent.
    pub refusals: Refusals,
}

impl Config {
    /// Puts the generation into the policy's plan and derives the rest.
    pub fn new(mut policy: Policy, generation: u32, former: Option<&Config>) -> Self {
        policy.plan.generation = generation;
        // An unchanged origin stays the same object, so that its counts and checks go on.
        let origin = match former {
            Some(former) if former.origin.settings == policy.origin => former.origin.clone(),
            _ => {
                let former = former.map(|former| &*former.origin);
                Arc::new(Origin::new(policy.origin.clone(), former))
            }
        };
        let refusals = Refusals::new(&policy.refusal);
        Config {
            policy,
            generation,
            origin,
            refusals,
        }
    }
}

/// What all connections of the process share.
#[derive(Debug)]
pub struct Shared {
    /// The gate.
    pub door: Door,
    /// The configuration in force.
    pub config: ArcSwap<Config>,
    /// Client connections that are open.
    pub connections: AtomicUsize,
    /// Upgraded connections that are open.
    pub tunnels: AtomicUsize,
    draining: AtomicBool,
    drained: watch::Sender<bool>,
}

impl Shared {
    /// The state of a process that starts with this configuration.
    pub fn new(config: Config) -> Self {
        Shared {
            door: Door::new(config.policy.plan.clone()),
            config: ArcSwap::from_pointee(config),
            connections: AtomicUsize::new(0),
            tunnels: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            drained: watch::Sender::new(false),
        }
    }

    /// Puts a configuration in force, whole: the gate first, so that no request is classified by a
    /// plan that the gate does not know.
    pub fn reconfigure(&self, config: Config) {
        let mut gate = self.door.gate();
        gate.reconfigure(crate::clock::now(), config.policy.plan.clone());
        self.config.store(Arc::new(config));
        self.door.wake(gate);
    }

    /// Whether the process is on its way out.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Takes no new connections, and closes each open one after the request that it is busy with.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.drained.send_replace(true);
    }

    /// Returns when the drain begins.
    pub async fn draining(&self) {
        let mut drained = self.drained.subscribe();
        // The sender lives as long as `self`.
        let _ = drained.wait_for(|&draining| draining).await;
    }
}

/// Counts something while it lives.
#[derive(Debug)]
pub struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// One more, unless there are `max` already.
    pub fn below(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        if count.fetch_add(1, Ordering::Relaxed) < max {
            return Some(Counted(count));
        }
        count.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
