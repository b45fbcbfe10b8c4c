//! Transmit: which answer may send how many bytes now.
//!
//! | file | what it has |
//! |---|---|
//! | `virtual_queue` | when the link has room |
//! | `heads` | what stands around an answer's bytes on the wire |
//! | `carried` | what a connection's packets took of it, and whether more would leave at once |
//! | `parked` | when to look again whether there is room |
//! | `estimate` | what the link carries, where nobody says it |
//! | `trials` | when more is tried than it is thought to carry, and for how long |
//! | `watched` | the packets that say it |
//! | `known` | whose packets say it |
//! | `standing` | a queue that never empties, though no packet is late |
//! | `share` | what a policy says of a class: what it is sure of, and its part of the rest |
//! | `account` | what a class has left of that |
//! | `scheduler` | whose turn it is |
//! | `tree` | the rates of a shaper in the kernel that has the background last |

mod account;
mod carried;
mod estimate;
mod heads;
mod known;
mod parked;
mod scheduler;
mod share;
mod standing;
mod tree;
mod trials;
mod virtual_queue;
mod watched;

pub use account::Account;
pub use carried::{Carried, Sending};
pub use heads::Heads;
pub use parked::Parked;
pub use scheduler::{Capacity, NotNow, Scheduler, Sender};
pub use share::Share;
pub use tree::Tree;
pub use watched::{Waited, Watched};
