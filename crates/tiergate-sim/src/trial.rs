//! A trial: everything that one run is made of, its requests classified already.
//!
//! Scenarios and logs are made into trials; the world runs them. The same trial is run behind the
//! policy, behind a plain queue and without a gateway, so that they can be compared.

use crate::asked::Mix;
use crate::client::{Arrivals, Population};
use crate::demand::Demand;
use crate::laws::LawKind;
use crate::scenario::Gateway;
use crate::server::Shape;
use std::time::Duration;
use tiergate_core::class::Class;
use tiergate_core::origin::OnCancel;
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::schedule::Policy;

/// Points in time at which goodput and waits are told.
pub const BUCKETS: usize = 120;

/// What stands between clients and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// The gateway with its policy.
    Policy,
    /// One queue, first come, first served, and as many slots: no classes, no rules, no policers. The
    /// longest of the classes' deadlines bounds the wait.
    Fifo,
    /// Nothing: requests go straight to the server.
    Nothing,
}

impl Front {
    /// All of them, the policy first.
    pub const ALL: [Front; 3] = [Front::Policy, Front::Fifo, Front::Nothing];

    /// What reports for people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Front::Policy => "policy",
            Front::Fifo => "FIFO",
            Front::Nothing => "no gateway",
        }
    }

    /// What reports for machines call it.
    pub const fn name(self) -> &'static str {
        match self {
            Front::Policy => "policy",
            Front::Fifo => "fifo",
            Front::Nothing => "none",
        }
    }
}

/// Everything that one run is made of.
#[derive(Clone, Debug)]
pub struct Trial {
    /// How long it lasts, in virtual seconds.
    pub seconds: f64,
    /// Moments that cut the run into phases that are counted apart.
    pub cuts_s: Vec<f64>,
    /// What the gate is configured by.
    pub plan: Plan,
    /// A law that sets the gate's slots instead of its own, for comparison.
    pub law: Option<LawKind>,
    /// Whether the gateway knows which sessions run.
    pub sessions: bool,
    /// How long the gateway waits for an answer.
    pub origin_timeout: Option<Duration>,
    /// Whether a slot is free at once when its client leaves ([`OnCancel::Abort`]), or when the server is done,
    /// which is what the gateway finds out to be right for a server like this one.
    pub on_cancel: OnCancel,
    /// The gateways that share the server; none: there is one.
    pub gateways: Vec<Gateway>,
    /// The server.
    pub server: Shape,
    /// Who sends requests.
    pub populations: Vec<Population>,
    /// What each population sends.
    pub mixes: Vec<Mix>,
    /// The requests that may be sent.
    pub demands: Vec<Demand>,
    /// When [`Arrivals::Replay`] sends which demand: nanoseconds, ascending.
    pub replay: Vec<(u64, u32)>,
}

impl Trial {
    /// What the gate gets behind a front; `None`: there is no gate.
    pub fn plan_behind(&self, front: Front) -> Option<Plan> {
        match front {
            Front::Policy => Some(self.plan.clone()),
            Front::Fifo => Some(one_queue(&self.plan)),
            Front::Nothing => None,
        }
    }

    /// The population that replays a log, if there is one.
    pub(crate) fn replaying(&self) -> Option<u16> {
        let replays = |it: &Population| matches!(it.arrivals, Arrivals::Replay);
        self.populations.iter().position(replays).map(|place| place as u16)
    }

    /// Whether every slot is for everybody: whenever one is free, nobody waits.
    pub(crate) fn lends_all(&self, plan: &Plan) -> bool {
        let policies = plan.sites.iter().map(|site| site.policy).chain([plan.between_sites]);
        let keeps = |policy| matches!(policy, Policy::Shared | Policy::Fixed);
        !policies.into_iter().any(keeps) && self.is_narrow()
    }

    /// Whether every request takes one slot.
    pub(crate) fn is_narrow(&self) -> bool {
        self.demands.iter().all(|it| it.arrival.slots <= 1)
    }
}

/// The plan with one class that is served first come, first served, and the same slots.
fn one_queue(plan: &Plan) -> Plan {
    let classes = &plan.classes;
    let queue = classes.iter().map(|class| class.queue_len_max);
    let bytes = classes.iter().map(|class| class.queue_bytes_max);
    let class = Class {
        deadline: classes.iter().map(|class| class.deadline).max().unwrap_or_default(),
        queue_len_max: queue.fold(0, u32::saturating_add),
        queue_bytes_max: bytes.fold(0, u64::saturating_add),
        fair: false,
        ..Class::named("all")
    };
    let spec = Spec { classes: vec![class], slots: plan.slots.clone(), ..Spec::protective() };
    spec.build().expect("one class with every default")
}
