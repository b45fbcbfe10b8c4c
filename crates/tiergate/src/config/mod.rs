//! Configuration: policy files, one table of the file in each module.
//!
//! A table is declared once, by [`section!`](section): each key with its kind, default, bounds, meaning
//! and reason. From there come what is read, the schema for editors ([`schema()`]) and the tables of
//! docs/configuration.md ([`reference`]). Beside it is what the table becomes in the types that the
//! gateway uses, and how `tiergate check` says it in words.
//!
//! TOML texts (the file, and those that it includes: `sources`) → values with their places (`toml`), `merge`d → tables as written ([`section`](mod@section): types, bounds, defaults)
//! → [`Policy`] (references, bounds between keys). Each step goes on after a fault, so that all faults of
//! a file are reported at once.

mod access_log;
pub(crate) mod adaptation;
mod agent_file;
pub(crate) mod block;
pub(crate) mod class;
mod cost;
mod denial;
mod dscp;
mod elsewhere;
mod environment;
pub mod error;
pub(crate) mod forwarding;
pub(crate) mod guarantee;
mod header_name;
mod header_twice;
mod identity;
mod in_force;
mod inbound;
pub(crate) mod kernel;
mod kind;
pub(crate) mod lane;
mod let_through;
mod limits;
pub(crate) mod link;
mod listener;
mod load;
mod log_line;
mod lookup;
pub mod meant;
mod meets;
mod merge;
mod mode;
mod observed_parts;
pub(crate) mod origin;
mod origin_tls;
mod parts;
mod place;
pub(crate) mod policer;
mod policy;
mod pool;
pub(crate) mod quantities;
mod read_files;
mod redaction;
mod refusal;
mod request_id;
pub(crate) mod resource;
mod reverse_dns;
pub(crate) mod route;
pub(crate) mod rule;
mod rule_values;
mod rules;
pub(crate) mod scheduling;
mod schema;
pub(crate) mod score;
mod secret_place;
mod section;
pub(crate) mod sensor;
mod sensor_remote;
pub(crate) mod server;
mod service_target;
pub(crate) mod session;
pub(crate) mod shedding;
pub(crate) mod show;
mod sides;
pub(crate) mod slots;
mod source;
mod sources;
mod splits;
mod stored;
mod text;
mod timeouts;
mod traces;
mod trailers;
mod transmit;
mod values;
mod wanted;
pub(crate) mod workers;
mod workers_values;

pub(crate) use agent_file::load_agent;
pub use error::{ConfigError, Errors, Fault, Spot};
pub(crate) use load::sources;
pub use load::{load, load_with, parse, parse_with};
pub(crate) use lookup::class_name;
pub(crate) use merge::{Step, first_observed, place_of};
pub use redaction::Redaction;
pub use schema::{reference, schema, tables};
pub use source::{Source, Sources};
pub(crate) use text::{FILE_LEN_MAX, read_text, read_text_lossily};
