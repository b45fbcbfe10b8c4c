//! The table of tries that a program reads: of the rules in force, and of those that are to replace them.

use crate::fault::{Fault, io_error};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io;
use std::ops::Range;
use tiergate_core::early::trie::WORDS;

/// Bytes of a node.
const NODE_LEN: usize = WORDS * size_of::<u32>();
/// A table is enlarged to a multiple of this.
const STEP: u32 = 1024;

/// The table.
#[derive(Debug)]
pub(crate) struct Nodes {
    map: MapHandle,
    /// Places of the rules in force. All others are free.
    in_force: Range<u32>,
}

impl Nodes {
    /// Without rules.
    pub(crate) fn new(map: MapHandle) -> Nodes {
        Nodes { map, in_force: 0..0 }
    }

    /// Where so many nodes can be written; `None`: the table is too small.
    pub(crate) fn room(&self, nodes: u32) -> Option<u32> {
        room(&self.in_force, self.map.max_entries(), nodes)
    }

    /// How large a table must be that has room for so many beside the rules in force, and for as many again to replace them.
    pub(crate) fn size_for(&self, nodes: u32) -> u32 {
        let beside = self.in_force.end.saturating_add(nodes);
        beside.max(nodes.saturating_mul(2)).next_multiple_of(STEP)
    }

    /// The same rules in force, at the same places of a larger table.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn copy_to(&self, map: MapHandle) -> Result<Nodes, Fault> {
        let mut words = Vec::with_capacity(self.in_force.len() * WORDS);
        for place in self.in_force.clone() {
            let node = self.map.lookup(&place.to_ne_bytes(), MapFlags::ANY).map_err(fault)?;
            let node = node.ok_or_else(|| missing(place))?;
            let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
            words.extend(node.chunks_exact(size_of::<u32>()).map(word));
        }
        let nodes = Nodes { map, in_force: self.in_force.clone() };
        nodes.write(self.in_force.start, words.into_iter())?;
        Ok(nodes)
    }

    /// Writes nodes, which nobody reads yet. Some tens of nanoseconds each.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn write(&self, first: u32, words: impl Iterator<Item = u32>) -> Result<(), Fault> {
        let values: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
        let count = (values.len() / NODE_LEN) as u32;
        if count == 0 {
            return Ok(());
        }
        let keys: Vec<u8> = (first..first + count).flat_map(u32::to_ne_bytes).collect();
        let any = MapFlags::ANY;
        self.map.update_batch(&keys, &values, count, any, any).map_err(fault)
    }

    /// These are in force now.
    pub(crate) fn put_in_force(&mut self, places: Range<u32>) {
        self.in_force = places;
    }
}

/// Before those in force, or behind them.
fn room(in_force: &Range<u32>, len: u32, nodes: u32) -> Option<u32> {
    let before = (nodes <= in_force.start).then_some(0);
    before.or_else(|| (nodes <= len.saturating_sub(in_force.end)).then_some(in_force.end))
}

fn fault(error: libbpf_rs::Error) -> Fault {
    Fault::Map { map: "nodes", error: io_error(error) }
}

fn missing(place: u32) -> Fault {
    Fault::Map { map: "nodes", error: io::Error::other(format!("nothing at place {place}")) }
}

#[cfg(test)]
mod tests {
    use super::room;

    #[test]
    fn rules_to_come_never_lie_on_those_in_force() {
        assert_eq!(room(&(0..0), 100, 100), Some(0));
        assert_eq!(room(&(0..40), 100, 60), Some(40));
        assert_eq!(room(&(0..41), 100, 60), None);
        assert_eq!(room(&(40..90), 100, 40), Some(0));
        assert_eq!(room(&(40..90), 100, 41), None);
    }
}
