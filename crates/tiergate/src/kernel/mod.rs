//! The kernel's part of the gate: SYNs that are dropped before a connection exists, and first requests that are answered before user space wakes.
//!
//! The core decides which policers go early and when ([`tiergate_core::early`]); `tiergate-kernel` carries it out. Here is what connects both to the gateway: the policy's rules become the program's,
//! rates that controllers change are passed on, blocked clients are kept out, those in a session let in. Where the program cannot be had, nftables polices SYNs; where a right, an interface or all of it is missing, a warning says so once, and the
//! gateway refuses by itself.
//!
//! | file | what it has |
//! |---|---|
//! | `rules` | what of a policy goes early, for the program and in words |
//! | `clients` | what the request path says of clients |
//! | `gate` | what polices SYNs: a program, or nftables |
//! | `programs` | the programs, and what they are given; which of the mechanisms is in force |
//! | `task` | follows policy, overload and rates: its turns on the first thread, its system calls on threads apart |
//! | `carried` | interfaces that carry one another's packets |
//! | `unqueued` | SYNs for which the system's own queue had no room |
//! | `status` | what is in force, and what was counted |
//! | `probe` | tries it for `tiergate doctor` |
//! | `attach` | the same before another server, without the gateway |
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | the program and its maps | the task | the task, and threads that it waits for |
//! | which flow is which client; who is let in | the task | the request path |
//! | the status | `/status` and metrics | the task |

pub mod attach;
mod carried;
mod clients;
mod gate;
mod missing;
pub mod probe;
mod programs;
mod rules;
mod status;
mod task;
mod unqueued;

pub(crate) use carried::carried_words;
pub use clients::Clients;
pub(crate) use missing::missing_words;
pub(crate) use rules::{check_words, deferred, explain_words};
pub use status::{KernelInterface, KernelPolicer, KernelRequests, KernelStatus};
pub use task::run;
