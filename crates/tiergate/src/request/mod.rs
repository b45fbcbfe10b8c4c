//! A request's path, once for every protocol:
//!
//! ```text
//! serve: decide ─┬─▶ refuse, or a stored copy ───────────────────────┐
//!          ▲ │   └─▶ [wait] ─▶ forward ─▶ exchange ─▶ deliver ──────▶ account
//!          │ ▼                   │  ▲        │
//!    gather, spool               └──┘        ├─ failed: a stored copy, or an error of ours
//!                                            └─ the client left: abandon
//! ```
//!
//! The client is behind [`crate::client::seam::Client`]; nothing here knows its protocol.

mod abandon;
pub(crate) mod account;
pub(crate) mod answer;
mod attempts;
pub(crate) mod body;
mod deadline;
pub(crate) mod decide;
mod deliver;
mod exchange;
pub(crate) mod facts;
pub(crate) mod fault;
mod forward;
mod gather;
mod identity;
mod judge;
pub(crate) mod limits;
mod look;
pub(crate) mod meter;
pub(crate) mod outbox;
mod path;
pub(crate) mod quality;
pub(crate) mod record;
mod refusal;
mod rest;
pub(crate) mod serve;
mod slow;
pub(crate) mod spool;
mod stored;
pub(crate) mod stray;
pub(crate) mod streaming;
