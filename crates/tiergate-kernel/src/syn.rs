//! SYN policing: the program, its interfaces, and what is in its maps (`bpf/syn.bpf.c` has their layout).

use crate::buckets::{self, Buckets, Slot};
use crate::clock::now;
use crate::counts::{BucketCounts, Lists, Service, Switches, SynCounts, Way};
use crate::fault::Fault;
use crate::keys::{NetworkKey, bytes, service_key, update};
use crate::link::{self, Links};
use crate::nodes::Nodes;
use crate::object::{self, compiled};
use ipnet::{IpNet, Ipv6Net};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, Program};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Duration;
use tiergate_core::early::bucket::{PARTITIONS_MAX, Wanted};
use tiergate_core::early::trie::Trie;
use tiergate_core::early::{Early, Entry};
use tiergate_core::names::PolicerId;

const NAME: &str = "tiergate_syn";
const NO_BUCKET: u16 = 0xffff;
const NO_PARTITION: u8 = 0xff;
const MAY_BE_SPARED: u32 = 1 << 24;
const TRUSTED: u32 = 1 << 25;
/// So that no rule is 0, which is none.
const RULE: u32 = 1 << 30;
const LET_IN: u32 = 8;
/// Places of the longer list: of one that is written while it is read a place may come twice.
const LISTED_MAX: usize = 65_536;

/// The program and its maps.
pub struct SynGate {
    object: Object,
    links: Links,
    state: MapHandle,
    services: MapHandle,
    nodes: Nodes,
    rules_v6: MapHandle,
    blocked: MapHandle,
    let_in: MapHandle,
    generation: u32,
    switches: Switches,
    has_let_in: bool,
    in_force: Keys,
    /// What the next rules replace: packets that are on their way may still ask for it.
    former: Keys,
    buckets: Buckets,
}

impl std::fmt::Debug for SynGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SynGate").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// What of the maps belongs to a generation.
#[derive(Debug, Default)]
struct Keys {
    services: Vec<[u8; 24]>,
    rules_v6: Vec<NetworkKey>,
}

impl SynGate {
    /// Loads the program; attaches nothing, and all switches are off. Some milliseconds.
    ///
    /// # Errors
    /// The build has none, or a right is missing.
    pub fn load() -> Result<SynGate, Fault> {
        let object = object::load(NAME, compiled!("syn"))?;
        let map = |name| object::map(&object, name);
        Ok(SynGate {
            links: Links::default(),
            state: map("state")?,
            services: map("services")?,
            nodes: Nodes::new(map("nodes")?),
            rules_v6: map("rules_v6")?,
            buckets: Buckets::new(&object, PARTITIONS_MAX as u32 + 1)?,
            blocked: map("blocked")?,
            let_in: map("let_in")?,
            generation: 0,
            switches: Switches::default(),
            has_let_in: false,
            in_force: Keys::default(),
            former: Keys::default(),
            object,
        })
    }

    /// Puts the program at an interface, unless it is there.
    ///
    /// # Errors
    /// There is no such interface, another program is there, or a right is missing.
    pub fn attach(&mut self, interface: &str) -> Result<Way, Fault> {
        let program = program(&self.object);
        self.links.attach(interface, || link::attach_xdp(program.as_fd(), interface))
    }

    /// Takes the program away from all interfaces but these, and forgets those that are gone.
    pub fn keep_at(&mut self, interfaces: &[String]) {
        self.links.keep_at(interfaces);
    }

    /// Where it is, and which way.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, Way)> {
        self.links.interfaces()
    }

    /// Turns on and off.
    ///
    /// # Errors
    /// The map cannot be written; then nothing has changed.
    pub fn switch(&mut self, switches: Switches) -> Result<(), Fault> {
        self.write_state(self.generation, switches)?;
        self.switches = switches;
        Ok(())
    }

    /// What is on.
    pub fn switches(&self) -> Switches {
        self.switches
    }

    /// Replaces all rules at once: a packet is judged by the former or by these. Policers that stay keep their tokens. O(networks), a microsecond each; where they need a larger table, the program is loaded anew, which is some milliseconds.
    ///
    /// # Errors
    /// A map is full, and the former rules stay as they are; or a bucket cannot be written, and these are in force with a former rate. The caller switches the program off.
    pub fn put_in_force(
        &mut self,
        early: &Early,
        services: &[Service],
        wanted: impl Fn(PolicerId) -> Option<Wanted> + Copy,
    ) -> Result<(), Fault> {
        let former = std::mem::take(&mut self.former);
        self.delete(&former);
        let known = self.buckets.policers();
        let generation = self.generation.wrapping_add(1);
        let mut keys = Keys::default();
        let written = self
            .buckets
            .place(&self.object, &early.policers, wanted)
            .and_then(|slots| self.write(generation, early, services, &slots, &mut keys))
            .and_then(|places| self.write_state(generation, self.switches).map(|()| places));
        let places = match written {
            Ok(places) => places,
            Err(fault) => {
                self.delete(&keys);
                self.buckets.keep(&known);
                return Err(fault);
            }
        };
        self.generation = generation;
        self.nodes.put_in_force(places);
        self.former = std::mem::replace(&mut self.in_force, keys);
        self.buckets.settle(&self.object, &early.policers, wanted)
    }

    /// Gives a policer's bucket another rate, if it has one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_bucket(&mut self, policer: PolicerId, wanted: Wanted) -> Result<(), Fault> {
        self.buckets.set(&self.object, policer, wanted)
    }

    /// Has SYNs of a client dropped for a while, IPv6 by the /64; of the longest known, where there are too many.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn block(&self, client: IpAddr, lasting: Duration) -> Result<(), Fault> {
        list(&self.blocked, "blocked", client, lasting)
    }

    /// Has SYNs of a client pass for a while, whatever else is said of it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn let_in(&mut self, client: IpAddr, lasting: Duration) -> Result<(), Fault> {
        list(&self.let_in, "let_in", client, lasting)?;
        if !self.has_let_in {
            self.has_let_in = true;
            self.write_state(self.generation, self.switches)?;
        }
        Ok(())
    }

    /// Ends all blocks.
    pub fn unblock_all(&self) {
        let keys: Vec<Vec<u8>> = self.blocked.keys().collect();
        for key in keys {
            let _ = self.blocked.delete(&key);
        }
    }

    /// Who is blocked and let in now. Of thousands some milliseconds.
    pub fn lists(&self) -> Lists {
        Lists { blocked: listed(&self.blocked), let_in: listed(&self.let_in) }
    }

    /// Blocks and lets in those of another gate, beside its own.
    ///
    /// # Errors
    /// What the kernel says; then some are missing.
    pub fn take_over(&mut self, lists: &Lists) -> Result<(), Fault> {
        lists.blocked.iter().try_for_each(|(client, left)| self.block(*client, *left))?;
        lists.let_in.iter().try_for_each(|(client, left)| self.let_in(*client, *left))
    }

    /// What was counted in all.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counts(&self) -> Result<SynCounts, Fault> {
        let BucketCounts { passed, overflow, dropped } = self.buckets.count_at(0)?;
        Ok(SynCounts { seen: passed, let_in: overflow, blocked: dropped })
    }

    /// What was counted at a policer's bucket, by the class's key and for those that have no partition (`None`). Begins anew when a policer comes into force.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bucket_counts(
        &self,
        policer: PolicerId,
    ) -> Result<Vec<(Option<u64>, BucketCounts)>, Fault> {
        let Some(Slot { number, wanted }) = self.buckets.of(policer) else {
            return Ok(Vec::new());
        };
        let len = wanted.len as usize;
        let parts = wanted.parts.iter().take(len).enumerate();
        let parts = parts.map(|(place, part)| (place as u32, Some(part.key)));
        let all = parts.chain([(PARTITIONS_MAX as u32, None)]);
        all.map(|(place, key)| Ok((key, self.buckets.count(*number, place)?))).collect()
    }

    /// Runs the program on a packet: whether it would pass. `repeat`: how often; returns nanoseconds a run, too. For tests and measurements.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn try_packet(&self, packet: &[u8], repeat: u32) -> Result<(bool, Duration), Fault> {
        let run = buckets::run(&self.object, "tg_syn", packet, repeat);
        let (value, duration) = run.map_err(Fault::Load)?;
        Ok((value == XDP_PASS, duration))
    }

    /// Writes rules under numbers and at places that no service in force has. Returns the places.
    fn write(
        &mut self,
        generation: u32,
        early: &Early,
        services: &[Service],
        slots: &[u16],
        keys: &mut Keys,
    ) -> Result<Range<u32>, Fault> {
        let listeners = early.listeners.iter().enumerate();
        let listeners = listeners.filter(|(_, entries)| !entries.is_empty());
        let tables: Vec<(usize, &[Entry], Trie)> = listeners
            .map(|(place, entries)| (place, &**entries, trie_of(entries, slots)))
            .collect();
        let nodes = tables.iter().map(|(_, _, trie)| trie.nodes() as u32).sum();
        let first = self.room(nodes)?;
        let mut root = first;
        for (place, entries, trie) in tables {
            let number = (generation & 0xffff) << 16 | place as u32;
            self.nodes.write(root, trie.words_at(root))?;
            for (network, rule) in entries.iter().filter_map(|entry| rule_v6(entry, slots)) {
                let key = NetworkKey::new(number, network.into());
                update(&self.rules_v6, "rules", key.v6(), &rule.to_ne_bytes())?;
                keys.rules_v6.push(key);
            }
            let rules = [root, number].map(u32::to_ne_bytes).concat();
            let own = services.iter().filter(|it| usize::from(it.listener) == place);
            for service in own {
                let key = service_key(generation, service.local);
                update(&self.services, "services", &key, &rules)?;
                keys.services.push(key);
            }
            root += trie.nodes() as u32;
        }
        Ok(first..root)
    }

    /// Where so many nodes can be written. Where the table is too small, the program is loaded anew with a larger one, and takes the former one's place at each interface: it has all other maps in common
    /// with it, and in its own what is in force, at the same places. Where it cannot take it, there is none until [`SynGate::attach`].
    fn room(&mut self, nodes: u32) -> Result<u32, Fault> {
        if let Some(first) = self.nodes.room(nodes) {
            return Ok(first);
        }
        let size = self.nodes.size_for(nodes);
        let object = object::load_beside(NAME, compiled!("syn"), &self.object, "nodes", size)?;
        let larger = self.nodes.copy_to(object::map(&object, "nodes")?)?;
        self.links.replace(program(&object).as_fd());
        (self.object, self.nodes) = (object, larger);
        self.nodes
            .room(nodes)
            .ok_or(Fault::Map { map: "nodes", error: io::ErrorKind::StorageFull.into() })
    }

    fn delete(&self, keys: &Keys) {
        // What is not in force harms nobody if it stays.
        keys.services.iter().for_each(|key| drop(self.services.delete(key)));
        keys.rules_v6.iter().for_each(|key| drop(self.rules_v6.delete(key.v6())));
    }

    fn write_state(&self, generation: u32, switches: Switches) -> Result<(), Fault> {
        let Switches { police, block, block_all } = switches;
        let mut flags = u32::from(police) | u32::from(block) << 1 | u32::from(block_all) << 2;
        if flags != 0 && self.has_let_in {
            flags |= LET_IN;
        }
        let mut value = [0; 8];
        value[..4].copy_from_slice(&generation.to_ne_bytes());
        value[4..].copy_from_slice(&flags.to_ne_bytes());
        update(&self.state, "state", &0_u32.to_ne_bytes(), &value)
    }
}

const XDP_PASS: u32 = 2;

fn list(
    map: &MapHandle,
    name: &'static str,
    client: IpAddr,
    lasting: Duration,
) -> Result<(), Fault> {
    let client = client.to_canonical();
    let mut key = bytes(client);
    if client.is_ipv6() {
        key[8..].fill(0);
    }
    let now = now().map_err(|error| Fault::Map { map: name, error: error.into() })?;
    let until = now.saturating_add(lasting).as_nanos();
    let until = u64::try_from(until).unwrap_or(u64::MAX);
    update(map, name, &key, &until.to_ne_bytes())
}

/// Who is on a list, for how much longer; of a list that cannot be read, nobody.
fn listed(map: &MapHandle) -> Vec<(IpAddr, Duration)> {
    let Ok(now) = now() else { return Vec::new() };
    let left = |key: Vec<u8>| {
        let until = map.lookup(&key, MapFlags::ANY).ok()??.try_into().ok()?;
        let left = Duration::from_nanos(u64::from_ne_bytes(until)).saturating_sub(now);
        let client = Ipv6Addr::from(<[u8; 16]>::try_from(key).ok()?);
        (!left.is_zero()).then(|| (IpAddr::from(client).to_canonical(), left))
    };
    map.keys().take(LISTED_MAX).filter_map(left).collect()
}

fn program(object: &Object) -> Program<'_> {
    object.progs().find(|it| it.name() == "tg_syn").expect("it is declared")
}

fn trie_of(entries: &[Entry], slots: &[u16]) -> Trie {
    let own = entries.iter().filter_map(|entry| match entry.network {
        IpNet::V4(network) => Some((network, rule_word(entry, slots))),
        IpNet::V6(_) => None,
    });
    Trie::of(own)
}

fn rule_v6(entry: &Entry, slots: &[u16]) -> Option<(Ipv6Net, u32)> {
    match entry.network {
        IpNet::V4(_) => None,
        IpNet::V6(network) => Some((network, rule_word(entry, slots))),
    }
}

/// As `bpf/syn.bpf.c` has it.
fn rule_word(entry: &Entry, slots: &[u16]) -> u32 {
    let slot = entry.bucket.and_then(|place| slots.get(usize::from(place)).copied());
    let partition = u32::from(entry.partition.unwrap_or(NO_PARTITION)) << 16;
    let spared = if entry.may_be_spared { MAY_BE_SPARED } else { 0 };
    let trusted = if entry.is_trusted { TRUSTED } else { 0 };
    RULE | trusted | spared | partition | u32::from(slot.unwrap_or(NO_BUCKET))
}
