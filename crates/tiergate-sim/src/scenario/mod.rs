//! A scenario as written in TOML: server, clients, and what must come out.
//!
//! There is one language and two uses of it. A scenario by itself also says what the gateway does
//! (`limit`, `[[class]]`, …) and names the class of each population. A scenario for a policy file
//! leaves that to the policy and names requests, which the policy classifies ([`for_policy`]).

mod check;
pub mod for_policy;
mod gateway;

pub use gateway::Gateway;

use crate::asked::Mix;
use crate::client::Population;
use crate::demand::Demand;
use crate::fault::{Fault, Source};
use crate::laws::LawKind;
use crate::server::Shape;
use crate::trial::{Front, Trial};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::{Bounds, Quantile, ServiceTarget, Slots};
use tiergate_core::names::{PoolId, ResourceId};
use tiergate_core::origin::OnCancel;
use tiergate_core::plan::{Plan, ResourceSettings, Spec};

/// Everything that one simulation is made of.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// What the scenario shows, in a sentence.
    pub about: String,
    /// How long it lasts, in virtual seconds. 0, and absent: a log says it.
    pub seconds: f64,
    /// The seed where the command line names none.
    pub seed: u64,
    /// Moments that cut the run into phases that are counted apart.
    pub cuts_s: Vec<f64>,
    /// What limits the requests in progress.
    pub limit: LimitKind,
    /// The number of slots that is right, of all gateways together, where that is known: what a law is compared with.
    pub right: Option<u32>,
    /// Whether the gateway knows sessions, and so which of them run already.
    pub sessions: bool,
    /// The delay of the backlog at which requests are shed by importance; absent: none are. Each
    /// session is a persistent connection, every other request has one of its own.
    pub shed_aim_ms: Option<f64>,
    /// How long the gateway waits for an answer before it gives up.
    pub origin_timeout_ms: f64,
    /// The classes, most important first.
    pub class: Vec<ClassShape>,
    /// The gateways, where there are several before the server; absent: one.
    pub gateway: Vec<Gateway>,
    /// The server.
    pub server: Shape,
    /// The clients.
    pub population: Vec<Population>,
    /// What must come out.
    pub expect: Vec<Expectation>,
}

/// How long the gateway waits for an answer where the scenario does not say it.
const ORIGIN_TIMEOUT_MS: f64 = 60_000.0;

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            about: String::new(),
            seconds: 0.0,
            seed: 1,
            cuts_s: Vec::new(),
            limit: LimitKind::default(),
            right: None,
            sessions: false,
            shed_aim_ms: None,
            origin_timeout_ms: ORIGIN_TIMEOUT_MS,
            class: Vec::new(),
            gateway: Vec::new(),
            server: Shape::default(),
            population: Vec::new(),
            expect: Vec::new(),
        }
    }
}

/// What limits the requests in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// What the policy file says.
    #[default]
    #[serde(skip)]
    Policy,
    /// Nothing: requests go straight to the server.
    None,
    /// Tiergate with its adaptive limit.
    Adaptive,
    /// Tiergate with its adaptive limit for servers that get requests from other gateways, too.
    Shared,
    /// Tiergate with so many slots.
    Fixed(u32),
    /// Tiergate with another law, for comparison.
    Law(LawKind),
}

/// A class as written.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassShape {
    /// Its name.
    pub name: String,
    /// Longest wait.
    #[serde(default = "deadline")]
    pub deadline_ms: f64,
    /// Guaranteed share of the slots.
    #[serde(default)]
    pub minimum: f64,
    /// Most that may wait.
    #[serde(default = "queue_len_max")]
    pub queue_len_max: u32,
    /// Backlogs at which it is refused.
    #[serde(default)]
    pub refuse_at: Vec<TriggerShape>,
    /// Its service target: 99 of 100 requests are to take the server no longer. Absent: none.
    #[serde(default)]
    pub target_p99_ms: Option<f64>,
    /// What the gateway is told that its requests need beside a slot. Absent: nothing.
    #[serde(default)]
    pub resource: Option<NamedResource>,
    /// Whether it uses only what is idle.
    #[serde(default)]
    pub background: bool,
}

/// A resource as the gateway knows it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NamedResource {
    /// So many slots. Absent: it finds how many.
    #[serde(default)]
    pub slots: Option<u32>,
}

/// A trigger as written.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TriggerShape {
    /// "total", "own", or a class.
    pub backlog: String,
    /// From so many waiting on.
    pub waiting: u32,
    /// Until there are fewer.
    pub until: Option<u32>,
}

fn deadline() -> f64 {
    Class::DEADLINE_DEFAULT.as_secs_f64() * 1e3
}

fn queue_len_max() -> u32 {
    Class::QUEUE_LEN_MAX_DEFAULT
}

/// A bound on something counted in one phase. Absent bounds are not checked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The phase, from 0.
    #[serde(default)]
    pub phase: usize,
    /// The class; absent: all together.
    pub class: Option<String>,
    /// Fewest good answers a second.
    pub goodput_min: Option<f64>,
    /// Most good answers a second.
    pub goodput_max: Option<f64>,
    /// Smallest share of the requests that ended with a good answer.
    pub good_share_min: Option<f64>,
    /// Smallest share of the sessions begun in the phase whose first request was answered well and
    /// that then came to their end.
    pub completed_min: Option<f64>,
    /// The largest such share.
    pub completed_max: Option<f64>,
    /// Longest mean time from a whole session's first request to its last answer.
    pub session_ms_max: Option<f64>,
    /// Longest 99th percentile from arrival to answer.
    pub p99_ms_max: Option<f64>,
    /// Longest mean time in service.
    pub service_ms_max: Option<f64>,
    /// Lowest mean number of slots.
    pub slots_min: Option<f64>,
    /// Highest mean number of slots.
    pub slots_max: Option<f64>,
}

impl Scenario {
    /// Reads a scenario of either use; nothing is checked but its form.
    ///
    /// # Errors
    /// What is wrong with it, at its line.
    pub fn read(source: Source<'_>) -> Result<Scenario, Fault> {
        toml::from_str(source.text).map_err(|fault| source.unreadable(&fault))
    }

    /// Reads a scenario that names its classes itself.
    ///
    /// # Errors
    /// What is wrong with it, with the place where TOML knows it.
    pub fn parse(text: &str) -> Result<Scenario> {
        let scenario: Scenario = toml::from_str(text)?;
        ensure!(
            scenario.limit != LimitKind::Policy && scenario.seconds > 0.0,
            "a scenario without a policy file needs `limit`, `seconds` and [[class]]"
        );
        ensure!(scenario.server != Shape::default(), "[server] is missing");
        scenario.spec().build()?;
        for population in &scenario.population {
            ensure!(population.request.is_empty(), "`request` is for scenarios of a policy file");
            scenario
                .class_index(&population.class)
                .with_context(|| format!("no class is called `{}`", population.class))?;
        }
        for expectation in &scenario.expect {
            ensure!(
                expectation.phase <= scenario.cuts_s.len(),
                "phase {} does not exist: there are {}",
                expectation.phase,
                scenario.cuts_s.len() + 1
            );
        }
        Ok(scenario)
    }

    /// The plan that the gate gets.
    ///
    /// # Panics
    /// If the scenario was not checked ([`Scenario::parse`]).
    pub fn plan(&self) -> Plan {
        self.spec().build().expect("the scenario was checked")
    }

    fn spec(&self) -> Spec {
        let millis = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        Spec {
            classes: self
                .class
                .iter()
                .map(|class| Class {
                    name: class.name.clone(),
                    deadline: millis(class.deadline_ms),
                    minimum: class.minimum,
                    queue_len_max: class.queue_len_max,
                    refuse_at: class.refuse_at.iter().map(|it| self.trigger(it, class)).collect(),
                    service_target: class
                        .target_p99_ms
                        .map(|ms| ServiceTarget { time: millis(ms), quantile: Quantile::P99 }),
                    resource: self.resource_of(class),
                    background: class.background,
                    ..Class::named("")
                })
                .collect(),
            resources: self.resources().map(|(_, settings)| settings).collect(),
            slots: match self.limit {
                LimitKind::Fixed(slots) => Slots::Fixed(slots),
                LimitKind::None => Slots::Fixed(u32::MAX),
                LimitKind::Adaptive | LimitKind::Policy | LimitKind::Law(_) => Slots::default(),
                LimitKind::Shared => Slots::Shared(Bounds::default()),
            },
            shedding: self.shed_aim_ms.map(millis),
            ..Spec::protective()
        }
    }

    /// The resources by class.
    fn resources(&self) -> impl Iterator<Item = (&ClassShape, ResourceSettings)> {
        self.class.iter().filter_map(|class| {
            let slots = match class.resource?.slots {
                Some(slots) => Slots::Fixed(slots),
                None => Slots::default(),
            };
            let (name, pool) = (class.name.clone(), PoolId::DEFAULT);
            Some((class, ResourceSettings { name, pool, slots }))
        })
    }

    fn resource_of(&self, class: &ClassShape) -> Option<ResourceId> {
        let place = self.resources().position(|(of, _)| of.name == class.name)?;
        Some(ResourceId(place as u16))
    }

    fn trigger(&self, shape: &TriggerShape, own: &ClassShape) -> Trigger {
        let name = if shape.backlog == "own" { &own.name } else { &shape.backlog };
        let of = match self.class_index(name) {
            Some(class) => Backlogs::Of(vec![ClassId(class as u16)]),
            None if name == "total" => Backlogs::All,
            None => panic!("no class is called `{name}`"),
        };
        Trigger { of, waiting: shape.waiting, until: shape.until.unwrap_or(shape.waiting) }
    }

    /// The trial of a scenario that names its classes itself.
    ///
    /// # Panics
    /// If it was not made by [`Scenario::parse`] and names a class that is not there.
    pub fn trial(&self) -> Trial {
        let classes = 0..self.class.len() as u16;
        let mix = |population: &Population| {
            let class = self.class_index(&population.class).expect("checked by `parse`");
            Mix::single(class as u32)
        };
        let demand = |class: u16| {
            let mut demand = Demand::of(ClassId(class));
            demand.arrival.resource = self.resource_of(&self.class[usize::from(class)]);
            demand
        };
        let timeout = Duration::from_secs_f64(self.origin_timeout_ms / 1e3);
        Trial {
            seconds: self.seconds,
            cuts_s: self.cuts_s.clone(),
            plan: self.plan(),
            law: match self.limit {
                LimitKind::Law(kind) => Some(kind),
                _ => None,
            },
            sessions: self.sessions,
            // Longer than the default, clients have left before.
            origin_timeout: (self.origin_timeout_ms < ORIGIN_TIMEOUT_MS).then_some(timeout),
            on_cancel: OnCancel::Learn,
            gateways: self.gateway.clone(),
            server: self.server.clone(),
            populations: self.population.clone(),
            mixes: self.population.iter().map(mix).collect(),
            demands: classes.map(demand).collect(),
            replay: Vec::new(),
        }
    }

    /// What stands in front of the server: the gateway, or nothing.
    pub fn front(&self) -> Front {
        if self.limit == LimitKind::None { Front::Nothing } else { Front::Policy }
    }

    /// The classes' names, most important first.
    pub fn class_names(&self) -> Vec<&str> {
        self.class.iter().map(|class| class.name.as_str()).collect()
    }

    /// A class's place in the order of importance.
    pub fn class_index(&self, name: &str) -> Option<usize> {
        self.class.iter().position(|class| class.name == name)
    }
}
