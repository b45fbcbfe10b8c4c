//! Policies from the configuration files of other systems.

pub mod options_conf;
