//! `[[sensor]]`: what is measured of the machine that the gateway runs on, and what is asked of others.

use super::kind::{Choice, Scalar};
use super::place::{At, Place};
use super::pool::Pools;
use super::section::{Kind, Section, section};
use super::sensor_remote::{AGENT, AgentSensor, METRIC, OrcaSensor, UNIT, Unit};
use super::show;
use super::values::{ADDRESS, FILE_TO_READ, Name, TEXT, TIME, check_unique, whole};
use crate::orca::Metric;
use crate::secrets::NamedFile;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use tiergate_core::admit::inbound::Inbound;

section! {
    /// A sensor: something of this machine, or of another, that is measured again and again.
    pub(super) struct SensorKeys {
        /// Its name in status, metrics and messages.
        name: Option<String> = Name.required("write name = \"…\"");
        /// What it measures: `"cpu"`, `"cpu-pressure"`, `"io-pressure"`, `"memory-pressure"`, `"memory"`, `"paging"`,
        /// `"disk"`, `"network"` or `"listen-queue"` of this machine, `"orca"` or `"agent"` of others; see below.
        measure: Option<Asked> = ASKED.required("write measure = \"cpu\" or another one");
        /// How often.
        /// Why: a reading costs some tens of µs of another thread; controllers act every few seconds.
        every: Duration = EVERY.or("1s");
        /// With `cpu`, `memory` and pressure: only what is in this control group, such as
        /// `"/system.slice/apache2.service"`.
        cgroup: Option<String> = TEXT.optional("the whole machine");
        /// With `cpu`: only the process whose number is in this file, and its descendants.
        pid_file: Option<String> = TEXT.optional("the whole machine");
        /// With `disk`: its name in `/proc/diskstats`, such as `"sda"`.
        device: Option<String> = TEXT.optional("must be given with `disk`");
        /// With `network`: its name, such as `"eth0"`.
        interface: Option<String> = TEXT.optional("must be given with `network`");
        /// With `network`: the bits a second that it can send. Where a shaper bounds it, write the shaper's rate.
        capacity: Option<u64> = whole(1000..=1_000_000_000_000).optional("the link's speed");
        /// With `listen-queue`: the address that a server of this machine listens on.
        address: Option<SocketAddr> = ADDRESS.optional("must be given with `listen-queue`");
        /// With `orca`: which number of the servers' reports: `"cpu_utilization"`, `"mem_utilization"`, `"application_utilization"`,
        /// `"rps_fractional"`, `"eps"`, `"utilization.NAME"` or `"named_metrics.NAME"`.
        metric: Option<Metric> = METRIC.optional("must be given with `orca`");
        /// With `orca`: the pool whose servers report it.
        pool: Option<String> = TEXT.optional("`\"default\"`: the servers of `[origin]`");
        /// With `agent`: where `tiergate agent` listens.
        agent: Option<String> = AGENT.optional("must be given with `agent`");
        /// With `agent`: the file of the agent's token; a second line is not looked at.
        token_file: Option<NamedFile> = FILE_TO_READ.optional("no token is sent");
        /// With `agent`: the name of the sensor there.
        reading: Option<String> = Name.optional("`name`");
        /// With `agent`, or a named metric: what the number is: `"utilization"` (0 to 1), `"queue_len"`, `"rate"` (a second) or `"level"`
        /// (any other).
        /// Why: a policer or an adaptation can only follow a share or a queue, and is checked before the first reading comes.
        quantity: Option<Unit> = UNIT.optional("`\"utilization\"`");
    }
}

const EVERY: Scalar<Duration, (Duration, Duration)> =
    Scalar { bounds: (Duration::from_millis(100), Duration::from_secs(60)), ..TIME };

/// What is asked for, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Cpu,
    Pressure(Stalled),
    Memory,
    Paging,
    Disk,
    Network,
    ListenQueue,
    Orca,
    Agent,
}

const ASKED: Choice<Asked> = Choice(&[
    ("cpu", Asked::Cpu),
    ("cpu-pressure", Asked::Pressure(Stalled::Cpu)),
    ("io-pressure", Asked::Pressure(Stalled::Io)),
    ("memory-pressure", Asked::Pressure(Stalled::Memory)),
    ("memory", Asked::Memory),
    ("paging", Asked::Paging),
    ("disk", Asked::Disk),
    ("network", Asked::Network),
    ("listen-queue", Asked::ListenQueue),
    ("orca", Asked::Orca),
    ("agent", Asked::Agent),
]);

impl Asked {
    /// The keys that say more about it, beside `name`, `measure` and `every`.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Asked::Cpu => &["cgroup", "pid_file"],
            Asked::Pressure(_) | Asked::Memory => &["cgroup"],
            Asked::Paging => &[],
            Asked::Disk => &["device"],
            Asked::Network => &["interface", "capacity"],
            Asked::ListenQueue => &["address"],
            Asked::Orca => &["metric", "pool", "quantity"],
            Asked::Agent => &["agent", "token_file", "reading", "quantity"],
        }
    }
}

/// What tasks wait for, by the kernel's account of pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stalled {
    /// A processor.
    Cpu,
    /// A disk.
    Io,
    /// Memory.
    Memory,
}

impl Stalled {
    /// As the kernel's files are called.
    pub const fn name(self) -> &'static str {
        match self {
            Stalled::Cpu => "cpu",
            Stalled::Io => "io",
            Stalled::Memory => "memory",
        }
    }
}

/// What a sensor measures, and of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Share of the processors in use: of all of them, or of the control group's quota.
    Cpu(Of),
    /// Share of time in which some task waited.
    Pressure(Stalled, Of),
    /// Share of the memory in use: of all of it, or of the control group's bound.
    Memory(Of),
    /// Pages a second that are swapped in or out.
    Paging,
    /// Share of time in which the disk is busy.
    Disk(String),
    /// Share of what an interface can send.
    Network {
        /// Its name.
        interface: String,
        /// Bits a second; `None`: the link's speed.
        capacity: Option<u64>,
    },
    /// Connections that a server of this machine has not accepted yet.
    ListenQueue(SocketAddr),
    /// What the servers of a pool report of their load.
    Orca(OrcaSensor),
    /// What a sensor of another machine reads.
    Agent(AgentSensor),
}

impl Measure {
    /// What its number is.
    pub const fn unit(&self) -> Unit {
        match self {
            Measure::Cpu(_)
            | Measure::Pressure(..)
            | Measure::Memory(_)
            | Measure::Disk(_)
            | Measure::Network { .. } => Unit::Utilization,
            Measure::Paging => Unit::Rate,
            Measure::ListenQueue(_) => Unit::QueueLen,
            Measure::Orca(orca) => orca.unit,
            Measure::Agent(agent) => agent.unit,
        }
    }
}

/// What part of the machine is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// All of it.
    Machine,
    /// A control group, by its path below the root of all groups.
    Cgroup(PathBuf),
    /// The process of a file, and its descendants.
    PidFile(PathBuf),
}

/// A sensor as the policy has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// Its name.
    pub name: String,
    /// What it measures.
    pub measure: Measure,
    /// How often.
    pub every: Duration,
}

/// Most sensors: fewer than the gate tells apart, so that there is room for those of other machines.
pub(super) const COUNT_MAX: usize = 32;

/// The sensors of a policy with these pools; `None`: of an agent.
pub(super) fn sensors(raw: Vec<At<SensorKeys>>, pools: Option<&Pools>) -> Vec<Sensor> {
    let mut sensors: Vec<Sensor> = Vec::new();
    for At { value: raw, place } in raw {
        let (name, every) = (raw.name.clone(), raw.every);
        if let Some(name) = &name {
            let before = sensors.iter().map(|other| other.name.as_str());
            check_unique("sensor", name, before, &place.key("name"));
            if name == Inbound::BACKLOG {
                place.fault_at("name", "\"backlog\" is the gateway's own; choose another name");
            }
        }
        let Some(asked) = raw.measure else { continue };
        only_its_keys(asked, &place);
        let Some(measure) = measure(asked, raw, pools, &place) else { continue };
        sensors.extend(name.map(|name| Sensor { name, measure, every }));
    }
    sensors
}

/// Reports keys that say nothing about what is asked for.
fn only_its_keys(asked: Asked, place: &Place) {
    let all = SensorKeys::KEYS.iter().copied();
    let of_all = ["name", "measure", "every"];
    let all = all.filter(|key| !of_all.contains(key));
    for key in all.filter(|key| place.has(key) && !asked.keys().contains(key)) {
        place.fault_at(key, "says nothing about this measure; leave it out");
    }
}

fn measure(asked: Asked, raw: SensorKeys, pools: Option<&Pools>, place: &Place) -> Option<Measure> {
    if raw.cgroup.is_some() && raw.pid_file.is_some() {
        place.fault_at("pid_file", "cannot be together with cgroup; leave one of them out");
    }
    let of = of(raw.cgroup, raw.pid_file, place);
    let given = |value: Option<String>, key: &str, example: &str| {
        match &value {
            None => place.missing(key, &format!("write {key} = \"{example}\"")),
            Some(name) if !is_file_name(name) => {
                place.fault_at(key, format!("must be a name such as \"{example}\""));
            }
            Some(_) => {}
        }
        value
    };
    Some(match asked {
        Asked::Cpu => Measure::Cpu(of),
        Asked::Pressure(what) => Measure::Pressure(what, of),
        Asked::Memory => Measure::Memory(of),
        Asked::Paging => Measure::Paging,
        Asked::Disk => Measure::Disk(given(raw.device, "device", "sda")?),
        Asked::Network => {
            let interface = given(raw.interface, "interface", "eth0")?;
            Measure::Network { interface, capacity: raw.capacity }
        }
        Asked::ListenQueue => {
            match raw.address {
                None => place.missing("address", "write address = \"127.0.0.1:8080\""),
                Some(address) if address.port() == 0 => {
                    place.fault_at("address", "must have the port that the server listens on");
                }
                Some(_) => {}
            }
            Measure::ListenQueue(raw.address?)
        }
        Asked::Orca | Asked::Agent if pools.is_none() => {
            let how = "an agent reads its own machine only; leave this sensor out";
            place.fault_at("measure", how);
            return None;
        }
        Asked::Orca => {
            Measure::Orca(OrcaSensor::of(raw.metric, raw.pool, raw.quantity, pools?, place)?)
        }
        Asked::Agent => {
            let SensorKeys { agent, reading, quantity, token_file, .. } = raw;
            Measure::Agent(AgentSensor::of(agent, reading, quantity, token_file, place)?)
        }
    })
}

fn of(cgroup: Option<String>, pid_file: Option<String>, place: &Place) -> Of {
    if let Some(group) = cgroup {
        let below: PathBuf =
            Path::new(&group).strip_prefix("/").unwrap_or(Path::new(&group)).into();
        let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
        if below.as_os_str().is_empty() || !inside {
            let how =
                "must be the path of a control group, such as \"/system.slice/apache2.service\"";
            place.fault_at("cgroup", how);
        }
        return Of::Cgroup(below);
    }
    match pid_file {
        Some(file) => {
            if !Path::new(&file).is_absolute() {
                place.fault_at("pid_file", "must be an absolute path");
            }
            Of::PidFile(file.into())
        }
        None => Of::Machine,
    }
}

/// Whether a name is that of a file in a folder, and of no other.
fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

impl Sensor {
    /// What it measures, in words.
    pub fn words(&self) -> String {
        let of = |of: &Of| match of {
            Of::Machine => "the machine".to_owned(),
            Of::Cgroup(group) => format!("control group /{}", group.display()),
            Of::PidFile(file) => format!("the process of {}", file.display()),
        };
        match &self.measure {
            Measure::Cpu(what) => format!("processors in use by {}", of(what)),
            Measure::Pressure(stalled, what) => {
                format!("time in which tasks of {} waited for {}", of(what), stalled.name())
            }
            Measure::Memory(what) => format!("memory in use by {}", of(what)),
            Measure::Paging => "pages swapped in and out".to_owned(),
            Measure::Disk(device) => format!("time in which disk {device} was busy"),
            Measure::Network { interface, capacity: None } => {
                format!("what interface {interface} sends, of its link's speed")
            }
            Measure::Network { interface, capacity: Some(bits) } => {
                format!("what interface {interface} sends, of {bits} bit/s")
            }
            Measure::ListenQueue(address) => format!("connections not yet accepted at {address}"),
            Measure::Orca(orca) => orca.words(),
            Measure::Agent(agent) => agent.words(),
        }
    }
}

/// For `tiergate check`: a line for each.
pub(crate) fn words(sensors: &[Sensor]) -> Vec<String> {
    let line = |it: &Sensor| format!("{}: {}, every {}", it.name, it.words(), show::time(it.every));
    sensors.iter().map(line).collect()
}
