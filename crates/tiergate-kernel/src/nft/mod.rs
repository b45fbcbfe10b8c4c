//! SYN policing by rules of nftables, where no program can be loaded: the same rules, buckets, lists and counts, in a table of this process.
//!
//! The kernel is told by a socket of its own, not by the program `nft`: the table belongs to the socket (`flags owner`), so that it is gone when the process ends, however it does. What is
//! told is decided in `ruleset`, apart from the socket, and can be read as text: `nft list table inet tiergate_PID` shows the same.
//!
//! | file | what it has |
//! |---|---|
//! | `mod` | the gate: what is in force, and what is asked of it |
//! | `ruleset` | what the table has, as steps of transactions |
//! | `listed` | which clients are blocked or let in |
//! | `command` | a step, and how nftables writes it |
//! | `message` | a step as the kernel reads it |
//! | `expression` | a rule's statements as the kernel reads them |
//! | `writer` | netlink's messages and attributes |
//! | `socket` | transactions, and the counters |

mod command;
mod expression;
mod listed;
mod message;
mod ruleset;
mod socket;
mod writer;

use crate::counts::{BucketCounts, Lists, Service, Switches, SynCounts, Way};
use crate::fault::Fault;
use crate::interface::interface_index;
use command::Command;
use listed::Listed;
use ruleset::{BLOCKED, Counters, Generation, LET_IN, OTHERS, Policer};
use socket::{Netlink, Refused};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tiergate_core::early::Early;
use tiergate_core::early::bucket::Wanted;
use tiergate_core::names::PolicerId;
use tiergate_core::time::Moment;

/// Most clients that are blocked, and that are let in, of each: as many as the program's maps have.
const BLOCKED_MAX: usize = 65_536;
const LET_IN_MAX: usize = 16_384;
/// So many are put on a list by one transaction, where there are many.
const LISTED_AT_ONCE: usize = 256;
/// Most tables of a process, or of processes with the same number in other containers.
const TABLES_MAX: u32 = 64;
/// Most steps that the kernel has not taken, and that would take former rules away.
const LEFTOVERS_MAX: usize = 64;
/// How long former rules stay: a packet that has begun with them ends with them, and it may wait for its processor in between.
const STAY: Duration = Duration::from_millis(20);
/// Most of a step that a fault tells.
const COMMAND_LEN_MAX: usize = 160;

/// The table, and what is in it.
pub struct NftGate {
    netlink: Netlink,
    table: String,
    /// Interfaces whose packets go through it, by name and number.
    hooks: Vec<(String, i32)>,
    policers: HashMap<PolicerId, Policer>,
    policer_last: u32,
    generation: Generation,
    generation_last: u32,
    switches: Switches,
    blocked: Listed,
    let_in: Listed,
    /// What is to be taken away and is still there.
    leftovers: Vec<Vec<Command>>,
    /// When rules were last replaced.
    replaced: Option<Instant>,
    counts: HashMap<String, u64>,
}

impl std::fmt::Debug for NftGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NftGate").field("table", &self.table).finish_non_exhaustive()
    }
}

impl NftGate {
    /// Makes the table in this network namespace; it is at no interface, and all switches are off.
    ///
    /// # Errors
    /// A right is missing, or the kernel has no nf_tables, or none whose tables have owners.
    pub fn load() -> Result<NftGate, Fault> {
        let mut netlink = Netlink::open().map_err(Fault::Nftables)?;
        let table = make_table(&mut netlink).map_err(Fault::Nftables)?;
        Ok(NftGate {
            netlink,
            table,
            hooks: Vec::new(),
            policers: HashMap::new(),
            policer_last: 0,
            generation: Generation::default(),
            generation_last: 0,
            switches: Switches::default(),
            blocked: Listed::new(BLOCKED, BLOCKED_MAX),
            let_in: Listed::new(LET_IN, LET_IN_MAX),
            leftovers: Vec::new(),
            replaced: None,
            counts: HashMap::new(),
        })
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Has packets that come in by an interface go through the table, unless they do.
    ///
    /// # Errors
    /// There is no such interface, or what the kernel says.
    pub fn attach(&mut self, interface: &str) -> Result<Way, Fault> {
        if self.hooks.iter().any(|(name, _)| name == interface) {
            return Ok(Way::Nftables);
        }
        let number = interface_index(interface)?;
        let done = self.netlink.transact(&self.table, &ruleset::hook(interface, number));
        done.map_err(|Refused { error, .. }| Fault::Hook { interface: interface.into(), error })?;
        self.hooks.push((interface.to_owned(), number));
        Ok(Way::Nftables)
    }

    /// Takes it away from all interfaces but these, and forgets those that are gone.
    pub fn keep_at(&mut self, interfaces: &[String]) {
        let stays = |(name, number): &(String, i32)| {
            interfaces.contains(name) && interface_index(name).is_ok_and(|it| it == *number)
        };
        let (hooks, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.hooks).into_iter().partition(stays);
        self.hooks = hooks;
        for (_, number) in gone {
            // With the interface the kernel has taken the chain away, too, or keeps it for another of its name.
            let _ = self.netlink.transact(&self.table, &ruleset::unhook(number));
        }
    }

    /// Where it is.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, Way)> {
        self.hooks.iter().map(|(name, _)| (&**name, Way::Nftables))
    }

    /// Turns on and off.
    ///
    /// # Errors
    /// The kernel does not take it; then nothing has changed.
    pub fn switch(&mut self, switches: Switches) -> Result<(), Fault> {
        if switches == self.switches {
            return Ok(());
        }
        self.transact(&self.generation.in_force(switches))?;
        self.switches = switches;
        Ok(())
    }

    /// What is on.
    pub fn switches(&self) -> Switches {
        self.switches
    }

    /// Replaces all rules at once: a packet is judged by the former or by these. Waits until the former ones are 20 ms old. Policers that stay as they are keep their tokens; those that change are full. O(networks × log networks), some microseconds each.
    ///
    /// # Errors
    /// The kernel does not take them; then nothing has changed.
    pub fn put_in_force(
        &mut self,
        early: &Early,
        services: &[Service],
        wanted: impl Fn(PolicerId) -> Option<Wanted>,
    ) -> Result<(), Fault> {
        if let Some(rest) = self.replaced.and_then(|at| STAY.checked_sub(at.elapsed())) {
            std::thread::sleep(rest);
        }
        self.tidy();
        if self.leftovers.len() > LEFTOVERS_MAX {
            let error = io::ErrorKind::StorageFull.into();
            return Err(Fault::Rules { command: "delete former rules".to_owned(), error });
        }
        let mut next = Next::default();
        let mut last = self.policer_last;
        for id in &early.policers {
            let wanted = wanted(*id).unwrap_or_default();
            let former = self.policers.get(id).filter(|it| is_alike(&it.wanted, &wanted));
            let policer = match former {
                Some(former) => next.settle(former, wanted),
                None => {
                    last += 1;
                    let policer = Policer::new(last, wanted);
                    next.made.extend(policer.making());
                    policer
                }
            };
            next.policers.insert(*id, policer);
        }
        let of_places: Vec<&Policer> = early.policers.iter().map(|id| &next.policers[id]).collect();
        let number = self.generation_last + 1;
        let (generation, made) = Generation::of(number, early, services, &of_places);
        next.made.extend(made);
        next.commands.extend(generation.in_force(self.switches));
        // Apart: the kernel shows what is in a map of ranges a moment after the rules that look there.
        self.transact(&next.made)?;
        let before = std::mem::replace(&mut self.policer_last, last);
        self.generation_last = number;
        if let Err(fault) = self.transact(&next.commands) {
            let new = next.policers.values().filter(|it| it.number > before);
            self.leftovers.extend(generation.removal());
            self.leftovers.extend(new.flat_map(Policer::removal));
            return Err(fault);
        }
        self.replaced = Some(Instant::now());
        let former = std::mem::replace(&mut self.generation, generation);
        self.leftovers.extend(former.removal());
        self.leftovers.push(next.stale);
        for (id, former) in std::mem::replace(&mut self.policers, next.policers) {
            if self.policers.get(&id).is_none_or(|it| it.number != former.number) {
                self.leftovers.extend(former.removal());
            }
        }
        Ok(())
    }

    /// Gives a policer's bucket another rate, if it has one; it is full again.
    ///
    /// # Errors
    /// The kernel does not take it; then nothing has changed.
    pub fn set_bucket(&mut self, policer: PolicerId, wanted: Wanted) -> Result<(), Fault> {
        let Some(former) = self.policers.get(&policer) else { return Ok(()) };
        // Of another policy, whose rules are not in force yet.
        if former.wanted == wanted || !is_alike(&former.wanted, &wanted) {
            return Ok(());
        }
        let mut next = Next::default();
        let changed = next.settle(former, wanted);
        self.transact(&next.commands)?;
        self.policers.insert(policer, changed);
        self.remove(next.stale);
        Ok(())
    }

    /// Has SYNs of a client dropped for a while, IPv6 by the /64; of those that end first, where there are too many.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn block(&mut self, client: IpAddr, lasting: Duration) -> Result<(), Fault> {
        let commands = self.blocked.list(now()?, client, lasting);
        self.transact(&commands)
    }

    /// Has SYNs of a client pass for a while, whatever else is said of it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn let_in(&mut self, client: IpAddr, lasting: Duration) -> Result<(), Fault> {
        let commands = self.let_in.list(now()?, client, lasting);
        self.transact(&commands)
    }

    /// Ends all blocks.
    pub fn unblock_all(&mut self) {
        let commands = self.blocked.clear();
        let _ = self.transact(&commands);
    }

    /// Who is blocked and let in now.
    pub fn lists(&self) -> Lists {
        let Ok(now) = now() else { return Lists::default() };
        Lists { blocked: self.blocked.left(now), let_in: self.let_in.left(now) }
    }

    /// Blocks and lets in those of another gate, beside its own.
    ///
    /// # Errors
    /// What the kernel says; then some are missing.
    pub fn take_over(&mut self, lists: &Lists) -> Result<(), Fault> {
        let now = now()?;
        for some in lists.blocked.chunks(LISTED_AT_ONCE) {
            let list =
                some.iter().flat_map(|(client, left)| self.blocked.list(now, *client, *left));
            let commands: Vec<Command> = list.collect();
            self.transact(&commands)?;
        }
        for some in lists.let_in.chunks(LISTED_AT_ONCE) {
            let list = some.iter().flat_map(|(client, left)| self.let_in.list(now, *client, *left));
            let commands: Vec<Command> = list.collect();
            self.transact(&commands)?;
        }
        Ok(())
    }

    /// Reads what was counted, for [`NftGate::counts`] and [`NftGate::bucket_counts`]. One question for all of it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read_counts(&mut self) -> Result<(), Fault> {
        if self.replaced.is_none_or(|at| at.elapsed() >= STAY) {
            self.tidy();
        }
        self.counts = self.netlink.counters(&self.table).map_err(Fault::Nftables)?;
        Ok(())
    }

    /// What was counted in all.
    pub fn counts(&self) -> SynCounts {
        SynCounts {
            seen: self.count(ruleset::SEEN),
            let_in: self.count(ruleset::SYNS_LET_IN),
            blocked: self.count(ruleset::SYNS_BLOCKED),
        }
    }

    /// What was counted at a policer's bucket, by the class's key and for those that have no partition (`None`). Begins anew when a policer comes into force.
    pub fn bucket_counts(&self, policer: PolicerId) -> Vec<(Option<u64>, BucketCounts)> {
        let Some(policer) = self.policers.get(&policer) else { return Vec::new() };
        let count = |place: u32| {
            let Counters { own, overflow, dropped } = policer.counters(place);
            let key = policer.wanted.parts.get(place as usize).filter(|_| place != OTHERS);
            let overflow = self.count(&overflow);
            let passed = self.count(&own) + overflow;
            (key.map(|it| it.key), BucketCounts { passed, overflow, dropped: self.count(&dropped) })
        };
        policer.places().map(count).collect()
    }

    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    fn transact(&mut self, commands: &[Command]) -> Result<(), Fault> {
        let table = &self.table;
        self.netlink.transact(table, commands).map_err(|Refused { place, error }| {
            let command = place.and_then(|place| commands.get(place));
            let command = command.map_or_else(String::new, |it| it.in_table(table).to_string());
            let command: String = command.chars().take(COMMAND_LEN_MAX).collect();
            match command.is_empty() {
                true => Fault::Nftables(error),
                false => Fault::Rules { command, error },
            }
        })
    }

    /// Takes away what is in force no more; a step that is not taken is tried again the next time.
    fn tidy(&mut self) {
        for step in std::mem::take(&mut self.leftovers) {
            self.remove(step);
        }
    }

    fn remove(&mut self, step: Vec<Command>) {
        if self.netlink.transact(&self.table, &step).is_err() {
            self.leftovers.push(step);
        }
    }
}

/// What a change makes.
#[derive(Default)]
struct Next {
    /// What nothing leads to yet.
    made: Vec<Command>,
    /// What changes what becomes of packets.
    commands: Vec<Command>,
    policers: HashMap<PolicerId, Policer>,
    /// What is not needed afterwards.
    stale: Vec<Command>,
}

impl Next {
    /// A policer with this bucket; its limits are others only if the bucket is.
    fn settle(&mut self, former: &Policer, wanted: Wanted) -> Policer {
        if former.wanted == wanted {
            return former.clone();
        }
        let policer = Policer { wanted, version: former.version.wrapping_add(1), ..*former };
        self.commands.extend(policer.limits());
        self.stale.extend(former.removal_of_limits());
        policer
    }
}

/// Whether the partitions are those of the same classes.
fn is_alike(one: &Wanted, other: &Wanted) -> bool {
    let len = one.len as usize;
    let keys = |it: &Wanted| it.parts.map(|part| part.key);
    one.len == other.len && keys(one)[..len] == keys(other)[..len]
}

/// The table's name, which no other in the namespace has.
fn make_table(netlink: &mut Netlink) -> io::Result<String> {
    let process = std::process::id();
    let mut number = 1;
    loop {
        let name = match number {
            1 => format!("tiergate_{process}"),
            more => format!("tiergate_{process}_{more}"),
        };
        match netlink.transact(&name, &ruleset::begin()) {
            Ok(()) => return Ok(name),
            Err(refused) if number < TABLES_MAX && is_taken(&refused) => number += 1,
            Err(refused) => return Err(refused.error),
        }
    }
}

/// Whether another has a table of the name. EPERM of the first step: it belongs to a socket; without the right, it is of the whole.
fn is_taken(refused: &Refused) -> bool {
    let error = refused.error.raw_os_error();
    refused.place == Some(0) && matches!(error, Some(1 | 17))
}

fn now() -> Result<Moment, Fault> {
    let now = nix::time::ClockId::CLOCK_MONOTONIC.now();
    let now = now.map_err(|error| Fault::Nftables(error.into()))?;
    let nanos = Duration::from(now).as_nanos();
    Ok(Moment::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}
