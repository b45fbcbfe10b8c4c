//! Workers: the processes that serve a pool. The gateway starts and supervises them, or finds them in a control group, and gives
//! them what the policy says of processors and disk. What cannot be given is reported, and changes nothing else.
//!
//! ```text
//!  policy ─▶ set ─▶ worker (one task each) ─▶ start: /proc/self/exe start-worker, which waits, then becomes the program
//!              │        │                ├──▶ running: how it ends
//!              │        │                └──▶ output: its lines, in the log
//!              │        └──▶ apply ─▶ threads, kernel, group
//!              └──▶ found: those of a control group or unit ─▶ apply
//!  board: what all of them are doing, for status and metrics
//! ```
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | the order of a worker (`watch`) | set, at each reload | the worker's task |
//! | a pool's board (`Mutex`) | its tasks | the admin listener |
//! | the control group of a pool | set makes it; the last task that has it removes it | |
//!
//! All tasks run on the first thread: the kernel ends a worker when the thread ends that started it.

mod apply;
mod board;
mod found;
mod group;
mod kernel;
mod output;
pub(crate) mod probe;
pub(crate) mod program;
mod running;
mod set;
mod start;
pub mod status;
mod threads;
mod worker;

pub use board::Board;
pub(crate) use set::Set;
pub(crate) use start::{Become, SUCCESSOR, become_worker, have_open_files};
