//! Policies as they are written, checked, explained and replaced: what is wrong with one is said, and loses nothing.

#[path = "../support/mod.rs"]
mod support;

mod conditions;
mod docs;
mod identity_faults;
mod includes;
mod policies;
mod policy_faults;
mod reload;
mod reload_faults;
mod settings;
