//! Adaptation: answers of lower quality while the server is busy, so that fewer clients or none are refused.
//!
//! An adaptation has levels, 1 the lowest quality and M the full one; 0 is to be refused. A set point m = I + F says that a
//! part F of the clients gets level I + 1, and the others level I. Which of the two a client gets is decided by a hash of whom it is,
//! so that it stays the same from request to request. A controller moves the set points so that a reading stays at its reference.
//!
//! | file | its idea |
//! |---|---|
//! | `settings` | an adaptation as a plan has it |
//! | `level` | from a set point and a client to a level |
//! | `watch` | a reading, and what follows from it |
//! | `law` | how much less, or more, of the server is to be used: proportional and integral |
//! | `model` | what a request of each level costs, by recursive least squares |
//! | `traffic` | what came and was answered since the last step |
//! | `set_points` | which classes get better or worse answers for it |
//! | `guarantee` | what a site is guaranteed, as a share of the server |
//! | `floors` | the set points that guarantees pay for |
//!
//! Source: Abdelzaher, Shin and Bhatti (2002), sections 4.2 to 4.4, 5.2 for classes, and 5.1 and 5.3 for guarantees.

mod floors;
mod guarantee;
mod law;
mod level;
mod model;
mod set_points;
mod settings;
mod traffic;
mod watch;

pub(crate) use floors::{Floors, Period};
pub use guarantee::{Costs, Guarantee};
pub use law::{Margins, margins};
pub(crate) use level::of_client;
pub use level::{Adapted, LevelNumber};
pub use model::Estimate;
pub(crate) use set_points::{Part, SetPoints};
pub use settings::{Adaptation, Level, Watched};
pub(crate) use traffic::Traffic;
pub(crate) use watch::{Said, Watch};
