//! SYN policing: the program, its interfaces, and what is in its maps (`bpf/syn.bpf.c` has their layout).

use crate::buckets::{self, Buckets, Slot};
use crate::clock::now;
use crate::counts::{BucketCounts, Lists, Service, Switches, SynCounts, Way};
use crate::fault::Fault;
use crate::keys::{NetworkKey, bytes, service_key, update};
use crate::link::{self, Links};
use crate::object::{self, compiled};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::Duration;
use tiergate_core::early::bucket::{PARTITIONS_MAX, Wanted};
use tiergate_core::early::{Early, Entry};
use tiergate_core::names::PolicerId;

const NO_BUCKET: u16 = 0xffff;
const NO_PARTITION: u8 = 0xff;
const MAY_BE_SPARED: u8 = 1;
const TRUSTED: u8 = 2;
const LET_IN: u32 = 8;
/// Places of the longer list: of one that is written while it is read a place may come twice.
const LISTED_MAX: usize = 65_536;

/// The program and its maps.
pub struct SynGate {
    object: Object,
    links: Links,
    state: MapHandle,
    services: MapHandle,
    rules_v4: MapHandle,
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
    rules: Vec<NetworkKey>,
}

impl SynGate {
    /// Loads the program; attaches nothing, and all switches are off. Some milliseconds.
    ///
    /// # Errors
    /// The build has none, or a right is missing.
    pub fn load() -> Result<SynGate, Fault> {
        let object = object::load("tiergate_syn", compiled!("syn"))?;
        let map = |name| object::map(&object, name);
        Ok(SynGate {
            links: Links::default(),
            state: map("state")?,
            services: map("services")?,
            rules_v4: map("rules_v4")?,
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
        let program = self.object.progs().find(|it| it.name() == "tg_syn").expect("it is declared");
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

    /// Replaces all rules at once: a packet is judged by the former or by these. Policers that stay keep their tokens. O(networks × services), a microsecond each.
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
            .and_then(|()| self.write_state(generation, self.switches));
        if let Err(fault) = written {
            self.delete(&keys);
            self.buckets.keep(&known);
            return Err(fault);
        }
        self.generation = generation;
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

    fn write(
        &self,
        generation: u32,
        early: &Early,
        services: &[Service],
        slots: &[u16],
        keys: &mut Keys,
    ) -> Result<(), Fault> {
        for (place, entries) in early.listeners.iter().enumerate() {
            let number = (generation & 0xffff) << 16 | place as u32;
            for entry in entries {
                let key = NetworkKey::new(number, entry.network);
                let (map, bytes) = key.of(&self.rules_v4, &self.rules_v6);
                update(map, "rules", bytes, &rule_value(entry, slots))?;
                keys.rules.push(key);
            }
            let own = services.iter().filter(|it| usize::from(it.listener) == place);
            for service in own.filter(|_| !entries.is_empty()) {
                let key = service_key(generation, service.local);
                update(&self.services, "services", &key, &number.to_ne_bytes())?;
                keys.services.push(key);
            }
        }
        Ok(())
    }

    fn delete(&self, keys: &Keys) {
        // What is not in force harms nobody if it stays.
        keys.services.iter().for_each(|key| drop(self.services.delete(key)));
        for key in &keys.rules {
            let (map, bytes) = key.of(&self.rules_v4, &self.rules_v6);
            let _ = map.delete(bytes);
        }
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

fn rule_value(entry: &Entry, slots: &[u16]) -> [u8; 4] {
    let slot = entry.bucket.and_then(|place| slots.get(usize::from(place)).copied());
    let [low, high] = slot.unwrap_or(NO_BUCKET).to_ne_bytes();
    let mut flags = if entry.may_be_spared { MAY_BE_SPARED } else { 0 };
    if entry.is_trusted {
        flags |= TRUSTED;
    }
    [low, high, entry.partition.unwrap_or(NO_PARTITION), flags]
}
