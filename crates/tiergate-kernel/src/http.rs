//! Policing of first requests: the program, its interfaces, and what is in its maps (`bpf/http.bpf.c` has their layout).

use crate::buckets::{self, Buckets};
use crate::counts::{BucketCounts, Service, Way};
use crate::fault::{Fault, io_error};
use crate::keys::{service_key, update};
use crate::link::{self, Links};
use crate::object::{self, compiled};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use std::os::fd::AsFd;
use std::time::Duration;
use tiergate_core::early::bucket::Wanted;
use tiergate_core::early::heads::{Heads, PATH_LEN_MAX, PathEntry};
use tiergate_core::names::PolicerId;

const NO_BUCKET: u16 = 0xffff;
/// Longest answer.
const ANSWER_MAX: usize = 256;
const SERVICE_BITS: u32 = 32;
const KEY_LEN: usize = 8 + PATH_LEN_MAX;

/// The program and its maps.
pub struct HttpGate {
    object: Object,
    links: Links,
    state: MapHandle,
    services: MapHandle,
    paths: MapHandle,
    answers: MapHandle,
    generation: u32,
    is_on: bool,
    in_force: Keys,
    /// What the next rules replace: packets that are on their way may still ask for it.
    former: Keys,
    buckets: Buckets,
}

impl std::fmt::Debug for HttpGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpGate").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// What of the maps belongs to a generation.
#[derive(Debug, Default)]
struct Keys {
    services: Vec<[u8; 24]>,
    paths: Vec<[u8; KEY_LEN]>,
}

impl HttpGate {
    /// Loads the program; attaches nothing, and it is off. Some milliseconds.
    ///
    /// # Errors
    /// The build has none, or a right is missing.
    pub fn load() -> Result<HttpGate, Fault> {
        let object = object::load("tiergate_http", compiled!("http"))?;
        let map = |name| object::map(&object, name);
        Ok(HttpGate {
            links: Links::default(),
            state: map("state")?,
            services: map("services")?,
            paths: map("paths")?,
            answers: map("answers")?,
            generation: 0,
            is_on: false,
            in_force: Keys::default(),
            former: Keys::default(),
            buckets: Buckets::new(&object, 1)?,
            object,
        })
    }

    /// Puts the program at an interface, unless it is there.
    ///
    /// # Errors
    /// There is no such interface, the kernel is too old, or a right is missing.
    pub fn attach(&mut self, interface: &str) -> Result<Way, Fault> {
        let program = self.object.progs().find(|it| it.name() == "tg_http");
        let program = program.expect("it is declared");
        self.links.attach(interface, || link::attach_ingress(program.as_fd(), interface))
    }

    /// Takes the program away from all interfaces but these, and forgets those that are gone.
    pub fn keep_at(&mut self, interfaces: &[String]) {
        self.links.keep_at(interfaces);
    }

    /// Where it is, and which way.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, Way)> {
        self.links.interfaces()
    }

    /// Turns it on or off.
    ///
    /// # Errors
    /// The map cannot be written; then nothing has changed.
    pub fn switch(&mut self, is_on: bool) -> Result<(), Fault> {
        self.write_state(self.generation, is_on)?;
        self.is_on = is_on;
        Ok(())
    }

    /// Replaces all rules at once: a request is judged by the former or by these. Policers that stay keep their tokens. `answer`: what a client is told whose request finds no token of a
    /// policer, a whole response of at most 256 bytes; empty: its connection is reset.
    ///
    /// # Errors
    /// A map is full, and the former rules stay as they are; or a bucket cannot be written, and these are in force with a former rate. The caller switches the program off.
    pub fn put_in_force(
        &mut self,
        heads: &Heads,
        services: &[Service],
        wanted: impl Fn(PolicerId) -> Option<Wanted> + Copy,
        answer: impl Fn(PolicerId) -> Vec<u8>,
    ) -> Result<(), Fault> {
        let former = std::mem::take(&mut self.former);
        self.delete(&former);
        let known = self.buckets.policers();
        let generation = self.generation.wrapping_add(1);
        let mut keys = Keys::default();
        let slots = self.buckets.place(&self.object, &heads.policers, wanted);
        let written = slots
            .and_then(|slots| {
                for (number, policer) in slots.iter().zip(&heads.policers) {
                    self.write_answer(*number, &answer(*policer))?;
                }
                self.write(generation, heads, services, &slots, &mut keys)
            })
            .and_then(|()| self.write_state(generation, self.is_on));
        if let Err(fault) = written {
            self.delete(&keys);
            self.buckets.keep(&known);
            return Err(fault);
        }
        self.generation = generation;
        self.former = std::mem::replace(&mut self.in_force, keys);
        self.buckets.settle(&self.object, &heads.policers, wanted)
    }

    /// Gives a policer's bucket another rate, if it has one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_bucket(&mut self, policer: PolicerId, wanted: Wanted) -> Result<(), Fault> {
        self.buckets.set(&self.object, policer, wanted)
    }

    /// What was counted of a policer: requests that passed and that were answered. Begins anew when it comes into force.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counts(&self, policer: PolicerId) -> Result<BucketCounts, Fault> {
        let slot = self.buckets.of(policer);
        slot.map_or(Ok(BucketCounts::default()), |slot| self.buckets.count(slot.number, 0))
    }

    /// Runs the program on a packet, so often: whether it would pass, and how long a run takes. For tests and measurements; there is no connection that the packet is of.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn try_packet(&self, packet: &[u8], repeat: u32) -> Result<(bool, Duration), Fault> {
        let run = buckets::run(&self.object, "tg_http", packet, repeat);
        let (value, duration) = run.map_err(Fault::Load)?;
        Ok((value == TCX_NEXT, duration))
    }

    fn write(
        &self,
        generation: u32,
        heads: &Heads,
        services: &[Service],
        slots: &[u16],
        keys: &mut Keys,
    ) -> Result<(), Fault> {
        for (place, entries) in heads.listeners.iter().enumerate() {
            let number = (generation & 0xffff) << 16 | place as u32;
            for entry in entries {
                let key = path_key(number, entry);
                let slot = entry.bucket.and_then(|it| slots.get(usize::from(it)).copied());
                let [low, high] = slot.unwrap_or(NO_BUCKET).to_ne_bytes();
                update(&self.paths, "paths", &key, &[low, high, entry.methods, 0])?;
                keys.paths.push(key);
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

    fn write_answer(&self, number: u16, answer: &[u8]) -> Result<(), Fault> {
        let answer = if answer.len() > ANSWER_MAX { &[] } else { answer };
        // Padded to what the kernel sums up, where HTTP allows it: at the end of a body.
        let mut bytes = answer.to_vec();
        bytes.resize(answer.len().next_multiple_of(4), b'\n');
        let words = bytes.chunks_exact(2).map(|it| u32::from(u16::from_ne_bytes([it[0], it[1]])));
        let sum: u32 = words.sum();
        let mut value = (bytes.len() as u32).to_ne_bytes().to_vec();
        value.extend(sum.to_ne_bytes());
        value.extend(&bytes);
        value.resize(8 + ANSWER_MAX, 0);
        update(&self.answers, "answers", &u32::from(number).to_ne_bytes(), &value)
    }

    fn delete(&self, keys: &Keys) {
        // What is not in force harms nobody if it stays.
        keys.services.iter().for_each(|key| drop(self.services.delete(key)));
        keys.paths.iter().for_each(|key| drop(self.paths.delete(key)));
    }

    fn write_state(&self, generation: u32, is_on: bool) -> Result<(), Fault> {
        let mut value = [0; 8];
        value[..4].copy_from_slice(&generation.to_ne_bytes());
        value[4] = u8::from(is_on);
        let written = self.state.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY);
        written.map_err(|error| Fault::Map { map: "state", error: io_error(error) })
    }
}

const TCX_NEXT: u32 = u32::MAX;

fn path_key(service: u32, entry: &PathEntry) -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    let bytes = entry.key();
    key[..4].copy_from_slice(&(SERVICE_BITS + 8 * bytes.len() as u32).to_ne_bytes());
    key[4..8].copy_from_slice(&service.to_be_bytes());
    key[8..8 + bytes.len()].copy_from_slice(&bytes);
    key
}
