//! What the table of a gateway has, as steps of transactions. Nothing here is carried out.
//!
//! ```text
//! hook of an interface ─ SYN ─▶ syn ─ by the listener's address and port ─▶ listener ─ let in ─▶ passes
//!                                                                              │
//!                                                                by the client's address
//!                                                                              ▼
//!                                              rule ─ blocked ─▶ drop    (what the networks' entry says)
//!                                                │
//!                                                ▼
//!                                             policer: the class's limit, else the overflow's, else drop
//! ```
//!
//! Maps and the chains `listener` and `rule` are of a generation, and are replaced as a whole; chains of policers stay, and so do their tokens. While nothing is switched on, `syn` is empty.

use super::command::{Command, Statement, Version};
use crate::counts::{Service, Switches};
use std::net::SocketAddr;
use tiergate_core::early::bucket::{PARTITIONS_MAX, Wanted};
use tiergate_core::early::limit::Limits;
use tiergate_core::early::ranges::{Range, ranges};
use tiergate_core::early::{Early, Entry};

/// The chain of SYNs.
const SYN: &str = "syn";
/// Lists of clients.
pub(crate) const BLOCKED: &str = "blocked";
pub(crate) const LET_IN: &str = "let_in";
/// SYNs to the listeners while anything is on.
pub(crate) const SEEN: &str = "syns_seen";
/// Of them, those of clients that were let in, and of blocked ones.
pub(crate) const SYNS_LET_IN: &str = "syns_let_in";
pub(crate) const SYNS_BLOCKED: &str = "syns_blocked";

/// The place of a policer's clients that have no partition.
pub(crate) const OTHERS: u32 = PARTITIONS_MAX as u32;

/// What there is from the beginning.
pub(crate) fn begin() -> Vec<Command> {
    let counters = [SEEN, SYNS_LET_IN, SYNS_BLOCKED].map(|name| Command::Counter(name.to_owned()));
    let lists = [BLOCKED, LET_IN]
        .into_iter()
        .flat_map(|list| Version::BOTH.map(|it| Command::List(of_version(list, it), it)));
    let table = [Command::Table, Command::Chain(SYN.to_owned())];
    table.into_iter().chain(counters).chain(lists).collect()
}

/// What sends SYNs that come in by an interface through the rules; `number`: the interface's, which another of the same name has not.
pub(crate) fn hook(interface: &str, number: i32) -> Vec<Command> {
    let chain = hook_name(number);
    let rule = vec![Statement::IsSyn, Statement::Goto(SYN.to_owned())];
    vec![
        Command::Hook { chain: chain.clone(), interface: interface.to_owned() },
        Command::Rule(chain, rule),
    ]
}

/// What takes it away.
pub(crate) fn unhook(number: i32) -> Vec<Command> {
    let chain = hook_name(number);
    vec![Command::FlushChain(chain.clone()), Command::DeleteChain(chain)]
}

fn hook_name(number: i32) -> String {
    format!("at_{number}")
}

fn of_version(name: &str, version: Version) -> String {
    format!("{name}_{}", version.suffix())
}

/// The chains of a policer, under a number of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policer {
    /// Which no other has had.
    pub(crate) number: u32,
    /// How often its limits have been changed.
    pub(crate) version: u32,
    /// Its bucket.
    pub(crate) wanted: Wanted,
}

/// Where the counts of a place are.
pub(crate) struct Counters {
    /// SYNs that got a token of the class's own, of the overflow, or none.
    pub(crate) own: String,
    pub(crate) overflow: String,
    pub(crate) dropped: String,
}

impl Policer {
    /// One that is not there yet.
    pub(crate) fn new(number: u32, wanted: Wanted) -> Self {
        Policer { number, version: 0, wanted }
    }

    /// Places of its partitions, and that of all others.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        (0..self.wanted.len as u32).chain([OTHERS])
    }

    /// The names of a place's counters.
    pub(crate) fn counters(&self, place: u32) -> Counters {
        let name = |what: &str| format!("{}_{what}", self.chain(place));
        Counters { own: name("own"), overflow: name("overflow"), dropped: name("dropped") }
    }

    fn chain(&self, place: u32) -> String {
        match place {
            OTHERS => format!("p{}_others", self.number),
            place => format!("p{}_{place}", self.number),
        }
    }

    fn overflow(&self) -> String {
        format!("p{}_overflow_{}", self.number, self.version)
    }

    /// Makes its chains and counters, and gives them its limits.
    pub(crate) fn making(&self) -> Vec<Command> {
        let of_place = |place| {
            let Counters { own, overflow, dropped } = self.counters(place);
            let counters = [own, overflow, dropped].map(Command::Counter);
            [Command::Chain(self.chain(place))].into_iter().chain(counters)
        };
        self.places().flat_map(of_place).chain(self.limits()).collect()
    }

    /// Gives its chains the limits of its bucket; full ones.
    pub(crate) fn limits(&self) -> Vec<Command> {
        let limits = Limits::of(&self.wanted);
        let object = limits.overflow.map(|limit| Command::Limit(self.overflow(), limit));
        let mut commands: Vec<Command> = object.into_iter().collect();
        for place in self.places() {
            let (chain, counters) = (self.chain(place), self.counters(place));
            commands.push(Command::FlushChain(chain.clone()));
            let rule = |statements: Vec<Statement>| Command::Rule(chain.clone(), statements);
            if let Some(limit) = limits.parts.get(place as usize).copied().flatten() {
                let count = Statement::Count(counters.own);
                commands.push(rule(vec![Statement::Limit(limit), count, Statement::Accept]));
            }
            if limits.overflow.is_some() {
                let (limit, count) =
                    (Statement::LimitOf(self.overflow()), Statement::Count(counters.overflow));
                commands.push(rule(vec![limit, count, Statement::Accept]));
            }
            commands.push(rule(vec![Statement::Count(counters.dropped), Statement::Drop]));
        }
        commands
    }

    /// Takes the limits of this version away, once its chains have others.
    pub(crate) fn removal_of_limits(&self) -> Vec<Command> {
        let limits = Limits::of(&self.wanted);
        limits.overflow.map(|_| Command::DeleteLimit(self.overflow())).into_iter().collect()
    }

    /// Takes all of it away, step by step, once nothing leads to it.
    pub(crate) fn removal(&self) -> [Vec<Command>; 2] {
        let chains = self.places().map(|place| self.chain(place));
        let flush = chains.clone().map(Command::FlushChain);
        let first = flush.chain(chains.map(Command::DeleteChain)).collect();
        let counters = self.places().flat_map(|place| {
            let Counters { own, overflow, dropped } = self.counters(place);
            [own, overflow, dropped].map(Command::DeleteCounter)
        });
        [first, counters.chain(self.removal_of_limits()).collect()]
    }
}

/// What becomes of SYNs from some networks: of many networks the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Treatment {
    /// Place in [`Early::policers`], and the partition.
    bucket: Option<(u16, u32)>,
    may_be_spared: bool,
}

impl Treatment {
    /// `None`: they pass, whatever is on.
    fn of(entry: &Entry) -> Option<Treatment> {
        let Entry { bucket, partition, may_be_spared, is_trusted, .. } = *entry;
        let place = partition.map_or(OTHERS, u32::from);
        let bucket = bucket.map(|bucket| (bucket, place));
        (!is_trusted).then_some(Treatment { bucket, may_be_spared })
    }
}

/// A set of rules: which maps and chains it has.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    number: u32,
    treatments: Vec<Treatment>,
    /// The chain of the policer of each.
    chains: Vec<Option<String>>,
    /// Listeners that have rules.
    listeners: Vec<usize>,
}

impl Generation {
    /// The rules, and what makes them, which is not in force. `policers`: those of [`Early::policers`]. O(networks × log networks).
    pub(crate) fn of(
        number: u32,
        early: &Early,
        services: &[Service],
        policers: &[&Policer],
    ) -> (Generation, Vec<Command>) {
        let mut treatments: Vec<Treatment> = Vec::new();
        for treatment in early.listeners.iter().flatten().filter_map(Treatment::of) {
            if !treatments.contains(&treatment) {
                treatments.push(treatment);
            }
        }
        let chain = |it: &Treatment| {
            let (bucket, place) = it.bucket?;
            policers.get(usize::from(bucket)).map(|policer| policer.chain(place))
        };
        let chains = treatments.iter().map(chain).collect();
        let has_rules = |place: &usize| !early.listeners[*place].is_empty();
        let listeners = (0..early.listeners.len()).filter(has_rules).collect();
        let generation = Generation { number, treatments, chains, listeners };
        let commands = generation.making(early, services);
        (generation, commands)
    }

    fn making(&self, early: &Early, services: &[Service]) -> Vec<Command> {
        let rules = (0..self.treatments.len()).map(|place| Command::Chain(self.rule(place)));
        let mut commands: Vec<Command> = rules.collect();
        for listener in &self.listeners {
            commands.extend(self.listener(*listener, &early.listeners[*listener]));
        }
        for version in Version::BOTH {
            let map = self.services(version);
            commands.push(Command::Services(map.clone(), version));
            let of_version = services.iter().filter(|it| Version::of(it.local.ip()) == version);
            let own = of_version.filter(|it| self.listeners.contains(&it.listener.into()));
            let ports: Vec<(SocketAddr, String)> =
                own.map(|it| (it.local, self.listener_chain(it.listener.into()))).collect();
            commands.push(Command::Ports(map, ports));
        }
        commands
    }

    /// The chain of a listener, and its maps of clients.
    fn listener(&self, place: usize, entries: &[Entry]) -> Vec<Command> {
        let chain = self.listener_chain(place);
        let mut commands = vec![
            Command::Chain(chain.clone()),
            Command::Rule(chain.clone(), vec![Statement::Count(SEEN.to_owned())]),
        ];
        for version in Version::BOTH {
            let list = Statement::From(of_version(LET_IN, version), version);
            let count = Statement::Count(SYNS_LET_IN.to_owned());
            commands.push(Command::Rule(chain.clone(), vec![list, count, Statement::Accept]));
        }
        for version in Version::BOTH {
            let map = self.clients(place, version);
            let all = ranges(entries, version == Version::V4, |entry| self.treatment(entry));
            let led = all.into_iter().filter_map(|Range { first, last, value }| {
                value.map(|value| Range { first, last, value: self.rule(value) })
            });
            commands.push(Command::Clients(map.clone(), version));
            commands.push(Command::Ranges(map.clone(), version, led.collect()));
            let lead = Statement::ByClient(map, version);
            commands.push(Command::Rule(chain.clone(), vec![lead]));
        }
        commands
    }

    fn treatment(&self, entry: &Entry) -> Option<usize> {
        let treatment = Treatment::of(entry)?;
        self.treatments.iter().position(|it| *it == treatment)
    }

    /// What puts these rules in force in the place of others, and what is switched on.
    pub(crate) fn in_force(&self, switches: Switches) -> Vec<Command> {
        let mut commands = vec![Command::FlushChain(SYN.to_owned())];
        if switches != Switches::default() && !self.listeners.is_empty() {
            let lead = |version| {
                let map = Statement::ByService(self.services(version), version);
                Command::Rule(SYN.to_owned(), vec![map])
            };
            commands.extend(Version::BOTH.map(lead));
        }
        for (place, treatment) in self.treatments.iter().enumerate() {
            let chain = self.rule(place);
            commands.push(Command::FlushChain(chain.clone()));
            let blocks = switches.block_all || switches.block && !treatment.may_be_spared;
            for version in Version::BOTH.into_iter().filter(|_| blocks) {
                let list = Statement::From(of_version(BLOCKED, version), version);
                let count = Statement::Count(SYNS_BLOCKED.to_owned());
                commands.push(Command::Rule(chain.clone(), vec![list, count, Statement::Drop]));
            }
            let policer = self.chains[place].as_ref().filter(|_| switches.police);
            let lead = policer.map(|to| vec![Statement::Goto(to.clone())]);
            commands.extend(lead.map(|lead| Command::Rule(chain, lead)));
        }
        commands
    }

    /// Takes it away, step by step, once others are in force.
    pub(crate) fn removal(&self) -> [Vec<Command>; 2] {
        if self.number == 0 {
            return Default::default();
        }
        let listeners = || self.listeners.iter().map(|it| self.listener_chain(*it));
        let rules = || (0..self.treatments.len()).map(|place| self.rule(place));
        let clients = self
            .listeners
            .iter()
            .flat_map(|it| Version::BOTH.map(|version| self.clients(*it, version)));
        let services = Version::BOTH.map(|version| self.services(version));
        let maps = services.into_iter().chain(clients).map(Command::DeleteMap);
        let flushed = listeners().chain(rules()).map(Command::FlushChain);
        let chains = listeners().chain(rules()).map(Command::DeleteChain);
        [flushed.chain(maps).collect(), chains.collect()]
    }

    fn rule(&self, place: usize) -> String {
        format!("rule{}_{place}", self.number)
    }

    fn listener_chain(&self, place: usize) -> String {
        format!("listener{}_{place}", self.number)
    }

    fn clients(&self, place: usize, version: Version) -> String {
        format!("clients{}_{place}_{}", self.number, version.suffix())
    }

    fn services(&self, version: Version) -> String {
        format!("services{}_{}", self.number, version.suffix())
    }
}

#[cfg(test)]
mod tests;
