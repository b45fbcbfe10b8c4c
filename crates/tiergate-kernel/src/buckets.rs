//! The buckets of a program: which policer has which, their settings, and what is counted there.

use crate::counts::BucketCounts;
use crate::fault::{Fault, io_error};
use crate::object;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ProgramInput};
use std::collections::HashMap;
use std::io;
use std::time::Duration;
use tiergate_core::early::bucket::{Part, Wanted};
use tiergate_core::names::PolicerId;

const BUCKETS: u32 = 1024;

/// The buckets in use. They and their counts are in maps of the object's (`buckets`, `counts`), which the program `tg_configure` writes.
#[derive(Debug)]
pub(crate) struct Buckets {
    counts: MapHandle,
    /// How many places of counts a bucket has; the first place is of none.
    stride: u32,
    slots: HashMap<PolicerId, Slot>,
}

/// A policer's bucket.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    pub(crate) wanted: Wanted,
}

impl Buckets {
    /// None in use.
    pub(crate) fn new(object: &Object, stride: u32) -> Result<Self, Fault> {
        Ok(Buckets { counts: object::map(object, "counts")?, stride, slots: HashMap::new() })
    }

    /// That of a policer, if it has one.
    pub(crate) fn of(&self, policer: PolicerId) -> Option<&Slot> {
        self.slots.get(&policer)
    }

    /// Whose policers have one.
    pub(crate) fn policers(&self) -> Vec<PolicerId> {
        self.slots.keys().copied().collect()
    }

    /// Frees all but those of these.
    pub(crate) fn keep(&mut self, policers: &[PolicerId]) {
        self.slots.retain(|id, _| policers.contains(id));
    }

    /// Gives each policer a bucket: the one that it has, as it is until [`Buckets::settle`], or a full one. Returns their numbers.
    pub(crate) fn place(
        &mut self,
        object: &Object,
        policers: &[PolicerId],
        wanted: impl Fn(PolicerId) -> Option<Wanted>,
    ) -> Result<Vec<u16>, Fault> {
        let mut numbers = Vec::with_capacity(policers.len());
        for id in policers {
            if let Some(slot) = self.slots.get(id) {
                numbers.push(slot.number as u16);
                continue;
            }
            let wanted = wanted(*id).unwrap_or_default();
            let is_free = |number: &u32| self.slots.values().all(|slot| slot.number != *number);
            let full = || Fault::Map { map: "buckets", error: io::ErrorKind::StorageFull.into() };
            let number = (0..BUCKETS).find(is_free).ok_or_else(full)?;
            self.clear(number)?;
            configure(object, number, true, &wanted)?;
            self.slots.insert(*id, Slot { number, wanted });
            numbers.push(number as u16);
        }
        Ok(numbers)
    }

    /// Frees all buckets but those of these policers, and gives the others what is wanted: once the rules that need it are in force.
    pub(crate) fn settle(
        &mut self,
        object: &Object,
        policers: &[PolicerId],
        wanted: impl Fn(PolicerId) -> Option<Wanted>,
    ) -> Result<(), Fault> {
        self.keep(policers);
        policers.iter().try_for_each(|id| self.set(object, *id, wanted(*id).unwrap_or_default()))
    }

    /// Gives a policer's bucket other settings, if it has one.
    pub(crate) fn set(
        &mut self,
        object: &Object,
        policer: PolicerId,
        wanted: Wanted,
    ) -> Result<(), Fault> {
        let Some(slot) = self.slots.get(&policer).filter(|slot| slot.wanted != wanted) else {
            return Ok(());
        };
        let number = slot.number;
        configure(object, number, false, &wanted)?;
        self.slots.insert(policer, Slot { number, wanted });
        Ok(())
    }

    /// What was counted in a place of a bucket's.
    pub(crate) fn count(&self, number: u32, place: u32) -> Result<BucketCounts, Fault> {
        self.count_at(1 + number * self.stride + place)
    }

    /// What was counted in a place of the map.
    pub(crate) fn count_at(&self, place: u32) -> Result<BucketCounts, Fault> {
        let [passed, overflow, dropped] = sum_at(&self.counts, place)?;
        Ok(BucketCounts { passed, overflow, dropped })
    }

    fn clear(&self, number: u32) -> Result<(), Fault> {
        let fault = |error| Fault::Map { map: "counts", error: io_error(error) };
        let processors = libbpf_rs::num_possible_cpus().map_err(fault)?;
        let zeros = vec![vec![0_u8; 24]; processors];
        for place in 0..self.stride {
            let key = (1 + number * self.stride + place).to_ne_bytes();
            self.counts.update_percpu(&key, &zeros, MapFlags::ANY).map_err(fault)?;
        }
        Ok(())
    }
}

/// The three numbers in a place of a map of counts, of all processors.
pub(crate) fn sum_at(counts: &MapHandle, place: u32) -> Result<[u64; 3], Fault> {
    let found = counts.lookup_percpu(&place.to_ne_bytes(), MapFlags::ANY);
    let found = found.map_err(|error| Fault::Map { map: "counts", error: io_error(error) })?;
    let mut sum = [0; 3];
    for of_processor in found.into_iter().flatten() {
        for (sum, bytes) in sum.iter_mut().zip(of_processor.chunks_exact(8)) {
            *sum += bytes.try_into().map_or(0, u64::from_ne_bytes);
        }
    }
    Ok(sum)
}

fn configure(object: &Object, number: u32, is_new: bool, wanted: &Wanted) -> Result<(), Fault> {
    let map = "buckets";
    let mut order = Vec::with_capacity(256);
    order.extend(number.to_ne_bytes());
    order.extend(u32::from(is_new).to_ne_bytes());
    order.extend([wanted.len, wanted.longest].iter().flat_map(|it| it.to_ne_bytes()));
    for Part { rate, burst, key } in [&wanted.overflow].into_iter().chain(&wanted.parts) {
        order.extend([*rate, *burst, *key].iter().flat_map(|it| it.to_ne_bytes()));
    }
    match run(object, "tg_configure", &order, 1) {
        Ok((1, _)) => Ok(()),
        Ok(_) => Err(Fault::Map { map, error: io::ErrorKind::InvalidInput.into() }),
        Err(error) => Err(Fault::Map { map, error }),
    }
}

/// Runs a program of the object on a packet, so often: what it returns, and how long a run takes.
pub(crate) fn run(
    object: &Object,
    program: &str,
    data: &[u8],
    repeat: u32,
) -> io::Result<(u32, Duration)> {
    let program = object.progs_mut().find(|it| it.name() == program).expect("it is declared");
    let input = ProgramInput { data_in: Some(data), repeat, ..ProgramInput::default() };
    let output = program.test_run(input).map_err(io_error)?;
    Ok((output.return_value, output.duration))
}
