//! The open client connections, by client. When there are as many as the policy allows, those that wait
//! for a request, or for the rest of it before it asks for a slot, make room for others: the least important
//! first, and of those the one idle longest of the client with most connections. Which one goes, and how many the requests
//! of a class may hold, is for [`tiergate_core::admit::connections`] to say (docs/adr/0029).
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | the table | a thread that looks for room | accept and close, under its lock |
//! | state of a connection | a thread that looks for room | its own task; one that looks for room, once |
//! | level, and whether it is counted | a thread that looks for room | its own task, under the lock of the waker |
//! | waker | a thread that looks for room | its own task |
//!
//! A request costs two atomic stores, a comparison of its level with the connection's and, if its connection waited for
//! it, a lock that is never contended for long; looking for room costs some nanoseconds a connection.

mod connection;
mod place;
mod report;
mod table;
#[cfg(test)]
mod tests;

pub use connection::{Connection, Entered, Standing};
pub use report::Report;
pub use table::Connections;
