//! Workers: the processes that serve a pool.
//!
//! | file | what it has |
//! |---|---|
//! | `shares` | what a policy gives them of processors and disk |
//! | `grant` | whether what all pools reserve fits into what the kernel gives |
//! | `roster` | which stay, go and come when the policy changes |
//! | `restart` | when one that has ended is started again |

mod grant;
mod restart;
mod roster;
mod shares;

pub use grant::{Capacity, Refused, Wanted, refused};
pub use restart::Restart;
pub use roster::{Roster, roster};
pub use shares::{Change, Class, Io, Mechanism, Reservation, Scheduling, Shares};
