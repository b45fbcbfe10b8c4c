//! Steering of connections to a foreign server's listeners: the program, and what is in its maps (`bpf/steer.bpf.c` has their layout).

use crate::buckets;
use crate::counts::SteerCounts;
use crate::fault::Fault;
use crate::keys::{NetworkKey, bytes, service_key, update};
use crate::link;
use crate::object::{self, compiled};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use tiergate_core::early::steer::Steering;

/// Bytes in front of what is looked for, in the place of a packet's header.
const HEADER_LEN: usize = 16;
/// Places for sockets of a target, by each version of IP (`TG_PLACES`).
const PLACES: u32 = 8;
/// How often one of several sockets is drawn at a time.
const DRAWS: u16 = 4;
/// What the program that looks for sockets returns.
const FOUND: u32 = 1;
const HELD: u32 = 2;
const NONE: u32 = 3;

/// The program and its maps.
pub struct SteerGate {
    object: Object,
    link: Option<OwnedFd>,
    state: MapHandle,
    services: MapHandle,
    networks_v4: MapHandle,
    networks_v6: MapHandle,
    sockets: MapHandle,
    counts: MapHandle,
    /// How often another socket was looked for.
    draws: u16,
    generation: u32,
    in_force: Keys,
    /// What the next tables replace: look-ups that are on their way may still ask for it.
    former: Keys,
}

impl std::fmt::Debug for SteerGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteerGate").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// What of the maps belongs to a generation.
#[derive(Debug, Default)]
struct Keys {
    services: Vec<[u8; 24]>,
    networks: Vec<NetworkKey>,
}

impl SteerGate {
    /// Loads the program; attaches nothing, and connections go where they went. Some milliseconds.
    ///
    /// # Errors
    /// The build has none, or a right is missing.
    pub fn load() -> Result<SteerGate, Fault> {
        let object = object::load("tiergate_steer", compiled!("steer"))?;
        let map = |name| object::map(&object, name);
        Ok(SteerGate {
            link: None,
            state: map("state")?,
            services: map("services")?,
            networks_v4: map("networks_v4")?,
            networks_v6: map("networks_v6")?,
            sockets: map("sockets")?,
            counts: map("counts")?,
            draws: 0,
            generation: 0,
            in_force: Keys::default(),
            former: Keys::default(),
            object,
        })
    }

    /// Has the program look up the listening sockets of this thread's network namespace, unless it does.
    ///
    /// # Errors
    /// A right is missing, or the kernel is older than 5.9.
    pub fn attach(&mut self) -> Result<(), Fault> {
        if self.link.is_none() {
            let program = self.object.progs().find(|it| it.name() == "tg_steer");
            let program = program.expect("it is declared");
            self.link = Some(link::attach_lookup(program.as_fd())?);
        }
        Ok(())
    }

    /// Replaces all tables at once: a connection is steered by the former or by these. `services`: in the order of the steering's. O(networks), a microsecond each.
    ///
    /// # Errors
    /// A map is full or cannot be written, and the former ones stay as they are.
    pub fn put_in_force(
        &mut self,
        steering: &Steering,
        services: &[SocketAddr],
    ) -> Result<(), Fault> {
        let former = std::mem::take(&mut self.former);
        self.delete(&former);
        let generation = self.generation.wrapping_add(1);
        let mut keys = Keys::default();
        let written = self
            .write(generation, steering, services, &mut keys)
            .and_then(|()| self.write_state(generation));
        if let Err(fault) = written {
            self.delete(&keys);
            return Err(fault);
        }
        self.generation = generation;
        self.former = std::mem::replace(&mut self.in_force, keys);
        Ok(())
    }

    /// Looks for the sockets that listen at an address in this thread's network namespace: whether there are any. They take the target's connections over the address's version of IP, until they are closed. Of
    /// several (`SO_REUSEPORT`) further ones are found with each call, so that one is known already when another is closed. Some tens of microseconds.
    ///
    /// # Errors
    /// There is a socket that the kernel does not let others be steered to, or what it says.
    pub fn find(&mut self, target: u16, address: SocketAddr) -> Result<bool, Fault> {
        let first = PLACES * (2 * u32::from(target) + u32::from(address.is_ipv6()));
        let is_there = self.look_for(first, address, 0)?;
        if is_there {
            self.draw(first, address);
        }
        Ok(is_there)
    }

    /// Fills the places behind the first with other sockets at the address, as far as there are any: the system picks one by the client's port. Where all places are taken, one is taken anew: its
    /// socket may be of a process that ends.
    fn draw(&mut self, first: u32, address: SocketAddr) {
        // By the system's number of the socket.
        let socket = |it: u32| self.sockets.lookup(&it.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let mut known: Vec<Option<Vec<u8>>> = (first..first + PLACES).map(socket).collect();
        for draw in self.draws..self.draws.saturating_add(DRAWS) {
            let empty = known.iter().skip(1).position(Option::is_none);
            let place = 1 + empty.unwrap_or(usize::from(draw) % (known.len() - 1));
            let key = (first + place as u32).to_ne_bytes();
            // What fails here is tried again the next time.
            if known[place].take().is_some() {
                let _ = self.sockets.delete(&key);
            }
            let _ = self.look_for(first + place as u32, address, draw);
            let found = socket(first + place as u32);
            if found.is_some() && known.contains(&found) {
                let _ = self.sockets.delete(&key);
            } else {
                known[place] = found;
            }
        }
        self.draws = self.draws.wrapping_add(DRAWS);
    }

    /// Fills a place, if nothing is there: whether something is. `from`: the client's port.
    fn look_for(&self, place: u32, address: SocketAddr, from: u16) -> Result<bool, Fault> {
        let map = "sockets";
        let mut order = vec![0; HEADER_LEN];
        order.extend(place.to_ne_bytes());
        order.extend(u32::from(address.is_ipv6()).to_ne_bytes());
        order.extend(bytes(address.ip()));
        order.extend(address.port().to_be_bytes());
        order.extend(from.to_be_bytes());
        match buckets::run(&self.object, "tg_find", &order, 1) {
            Ok((FOUND | HELD, _)) => Ok(true),
            Ok((NONE, _)) => Ok(false),
            Ok(_) => Err(Fault::Map { map, error: io::ErrorKind::Unsupported.into() }),
            Err(error) => Err(Fault::Map { map, error }),
        }
    }

    /// Where connections of a target went, since the program was loaded.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counts(&self, target: u16) -> Result<SteerCounts, Fault> {
        let [own, others, left] = buckets::sum_at(&self.counts, target.into())?;
        Ok(SteerCounts { own, others, left })
    }

    fn write(
        &self,
        generation: u32,
        steering: &Steering,
        services: &[SocketAddr],
        keys: &mut Keys,
    ) -> Result<(), Fault> {
        let number = |table: usize| (generation & 0xffff) << 16 | table as u32;
        for (table, networks) in steering.tables.iter().enumerate() {
            for (network, target) in networks {
                let key = NetworkKey::new(number(table), *network);
                let (map, bytes) = key.of(&self.networks_v4, &self.networks_v6);
                update(map, "networks", bytes, &u32::from(*target).to_ne_bytes())?;
                keys.networks.push(key);
            }
        }
        for (service, table) in services.iter().zip(&steering.services) {
            let key = service_key(generation, *service);
            let number = number(usize::from(*table));
            update(&self.services, "services", &key, &number.to_ne_bytes())?;
            keys.services.push(key);
        }
        Ok(())
    }

    fn delete(&self, keys: &Keys) {
        // What is not in force harms nobody if it stays.
        keys.services.iter().for_each(|key| drop(self.services.delete(key)));
        for key in &keys.networks {
            let (map, bytes) = key.of(&self.networks_v4, &self.networks_v6);
            let _ = map.delete(bytes);
        }
    }

    fn write_state(&self, generation: u32) -> Result<(), Fault> {
        let value = [generation, 1].map(u32::to_ne_bytes).concat();
        update(&self.state, "state", &0_u32.to_ne_bytes(), &value)
    }
}
