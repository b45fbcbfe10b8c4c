//! A request as policy code sees it, whatever the protocol it came in by: borrowed slices, and the
//! parts of it that rules may ask for.

pub(crate) mod cookie;
mod grammar;
mod view;

pub(crate) use grammar::parameters;
pub use view::{Field, Part, RequestView, Value};
