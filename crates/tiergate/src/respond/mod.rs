//! Answers of the gateway's own.
//!
//! | file | what it has |
//! |---|---|
//! | `format` | what a client would rather read |
//! | `template` | one refusal, made once per configuration but for its numbers |
//! | `refusals` | all of a configuration: statuses, words, pages |
//! | `errors` | errors, after which a connection closes |
//! | `websocket` | what shows that a WebSocket's key was read |

mod errors;
mod format;
mod refusals;
mod template;
mod websocket;

pub use errors::{error_body, write_error};
pub use format::Format;
pub use refusals::Refusals;
pub use template::{Advice, Template};
pub(crate) use websocket::accept;

#[cfg(test)]
mod tests;
