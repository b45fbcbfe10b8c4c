//! Collections that the rest of the core is built of: each keeps its items in tables that grow and are
//! reused, so that nothing is allocated once they have grown, and names them by their place in a table.
//!
//! | file | what it keeps |
//! |---|---|
//! | `slab` | items under keys that notice when their item is gone |
//! | `list` | the order of items of a slab, each in one doubly linked list at a time |
//! | `heap` | which item is first by a rank; an item can leave from the middle |
//! | `earliest` | which of a million moments is next |
//! | `flow_table` | a number for each flow, in bounded memory |
//! | `table` | a table that grows by defaults |

mod earliest;
mod flow_table;
mod heap;
mod list;
mod slab;
mod table;

pub(crate) use earliest::Earliest;
pub(crate) use flow_table::FlowTable;
pub(crate) use heap::{Heaps, Rank};
pub(crate) use list::{Links, List};
pub(crate) use slab::{Key, Slab};
pub(crate) use table::grown;
