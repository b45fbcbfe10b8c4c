//! Effects: what the gate asks its shell to do.

use crate::control::Cause;
use crate::names::{ClassId, PoolId, ResourceId};
use crate::time::Moment;
use std::collections::VecDeque;

/// Something that the shell is to do, or may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<T> {
    /// Wake the owner of a ticket that is settled, or of a slot that is to be given back: its `T`.
    Wake(T),
    /// The number of slots of a pool, or of a resource of it, is another one since this was last said.
    SlotsChanged {
        /// Whose.
        pool: PoolId,
        /// Of which of its resources; `None`: its own.
        resource: Option<ResourceId>,
        /// The number of slots in force.
        slots: u32,
        /// Why it changed last.
        cause: Cause,
    },
    /// A class's service target came to be missed although the limit does what it can, or is missed no longer.
    TargetMissed {
        /// In which pool.
        pool: PoolId,
        /// Whose target.
        class: ClassId,
        /// Whether it is missed now.
        is_missed: bool,
    },
    /// The gate refuses what this flow sends until then, running sessions and the most important of
    /// several classes apart: it may be turned away earlier, where that costs less.
    Block {
        /// Whose requests: [`crate::arrival::Arrival::flow`].
        flow: u64,
        /// When the block ends by itself.
        until: Moment,
    },
    /// All blocks said so far have ended: a plan without them came in force.
    UnblockAll,
}

impl<T> Effect<T> {
    /// Whom to wake, if that is what it is.
    pub fn into_wake(self) -> Option<T> {
        match self {
            Effect::Wake(owner) => Some(owner),
            _ => None,
        }
    }
}

/// Most blocks that wait to be taken. What is beyond is not said, and only the gate refuses the flow.
const BLOCKS_MAX: usize = 64;

/// What was not taken yet.
#[derive(Debug)]
pub(super) struct Effects<T> {
    /// Bounded by the tickets and slots that are out.
    wakes: Vec<T>,
    blocks: VecDeque<(u64, Moment)>,
    unblock_all: bool,
}

impl<T> Effects<T> {
    pub(super) fn new() -> Self {
        Effects {
            wakes: Vec::new(),
            blocks: VecDeque::with_capacity(BLOCKS_MAX),
            unblock_all: false,
        }
    }

    pub(super) fn wake(&mut self, owner: T) {
        self.wakes.push(owner);
    }

    pub(super) fn block(&mut self, flow: u64, until: Moment) {
        if self.blocks.len() < BLOCKS_MAX {
            self.blocks.push_back((flow, until));
        }
    }

    pub(super) fn unblock_all(&mut self) {
        self.blocks.clear();
        self.unblock_all = true;
    }

    pub(super) fn next_wake(&mut self) -> Option<T> {
        self.wakes.pop()
    }

    /// The next that is about blocks.
    pub(super) fn next_block(&mut self) -> Option<Effect<T>> {
        if std::mem::take(&mut self.unblock_all) {
            return Some(Effect::UnblockAll);
        }
        let (flow, until) = self.blocks.pop_front()?;
        Some(Effect::Block { flow, until })
    }
}
