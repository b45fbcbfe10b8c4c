//! The store: copies of answers in memory, for requests that come while the server is overloaded. Which answers may be kept, and who
//! gets them, is decided by [`tiergate_core::stored`].
//!
//! | state | who reads | who writes | lock |
//! |---|---|---|---|
//! | the copies | every thread, for each request with `stored` | requests that brought a whole answer, or changed a target | the cache's, shortly |
//! | epochs of targets | requests that keep an answer, or get a copy after a wait | requests that changed a target | none: atomics |
//! | memory of copies, and of those that are being made | every thread | every thread | none: an atomic |
//! | which store is in use | a scrape | a reload | its own, shortly |
//! | who replaces a copy, how often it was asked for, whether it is true | every thread | every thread | none: atomics |
//!
//! The cache evicts by frequency of use (TinyLFU), which it counts from when it is half full: a copy that is asked for once makes none go that is
//! asked for again and again, so that a client with a thousand addresses of pages flushes little of use.

mod context;
mod copy;
mod lookup;
mod making;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use copy::Copy;
pub(crate) use lookup::{Change, StoredRequest, Target};
pub(crate) use making::{Making, Passing};
pub use store::{Store, StoreBounds, StoreCounters};
