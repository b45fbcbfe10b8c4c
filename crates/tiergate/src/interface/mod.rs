//! Network interfaces of this machine: what they carry, and the shaper that has the background last.
//!
//! | file | what it has |
//! |---|---|
//! | `name` | names that are no options and no paths |
//! | `tc` | the program `tc`, which asks and changes the kernel's queues: with a time limit, bounded output, and what to do where it fails |
//! | `queues` | what it says: the root queue and its classes |
//! | `tree` | our shaper: its commands, and whether a queue is ours |
//! | `capacity` | what an interface carries: by its shaper, or else its link's speed |
//!
//! Nothing is remembered of what was set up: the kernel's queues say it.

pub mod capacity;
pub mod name;
pub(crate) mod queues;
pub(crate) mod tc;
pub(crate) mod tree;
