//! Copies of answers, served while the server is overloaded: which answers may be kept, for whom, and what becomes of a
//! request for which there is a copy.
//!
//! | file | its idea |
//! |---|---|
//! | `asked` | what a request says of copies |
//! | `answer` | whether an answer may be kept, and its terms |
//! | `directives` | the members of `Cache-Control` |
//! | `names` | what the names of a request's fields say |
//! | `vary` | the fields that tell one copy from another |
//! | `role` | whether a copy may be served, in which situation, and who replaces it |
//! | `variants` | which copy of a target makes room for another |
//!
//! Source: RFC 9111, as far as a shared cache goes; stricter where that is cheap. Copies are for overload only: a request that can be
//! served at once goes to the server, so freshness says nothing, and the age that the policy sets is the bound. What an origin says
//! against stale answers is obeyed.
//!
//! Nothing here holds a copy: the shell does, with its own bounds.

mod answer;
mod asked;
mod directives;
mod names;
mod role;
#[cfg(test)]
mod tests;
mod variants;
mod vary;

pub use answer::{Answer, Fate, Terms, keep};
pub use asked::{Asked, Credentials, is_unsafe};
pub use names::{FORWARDED, is_called};
pub use role::{Held, Role, is_usable, role, takes_over};
pub use variants::{Room, room};
pub use vary::{VARY_MAX, VARY_VALUE_MAX, selects};

use crate::named::named;

named! {
    /// What a copy was served instead of.
    pub enum Instead {
        /// A wait for a slot.
        Wait = "wait",
        /// A refusal for overload, or because no server was usable.
        Refusal = "refusal",
        /// An error of the origin, or a preemption: the request had a slot, and is counted as finished, too.
        Failure = "failure",
    }
}
