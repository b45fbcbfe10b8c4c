//! Control: how many requests the origin should work on at once.

pub mod adaptive;
mod curve;
mod ends;
mod law;
mod levels;
mod limit;
mod limits;
mod lookback;
mod mix;
mod pushback;
mod quickest;
mod regain;
pub mod shared;
mod slots;
mod target;
mod targets;
mod timely;
mod unfelt;
mod unused;
mod window;

pub use law::{Bounds, Cause, Completion, Law, OriginLoad, Step};
pub(crate) use limit::Limit;
pub use limits::{Access, ServerSlots};
pub(crate) use limits::{Limits, Seat};
pub use slots::Slots;
pub use target::{Quantile, ServiceTarget, TargetState};
pub use unfelt::Felt;
pub(crate) use unfelt::{BoundedBy, Unfelt};
