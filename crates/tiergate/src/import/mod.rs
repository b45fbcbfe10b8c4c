//! Policies from the configuration files of other systems.

mod draft;
pub mod haproxy;
pub mod nginx;
pub mod options_conf;

pub use draft::{ImportFault, Imported};
