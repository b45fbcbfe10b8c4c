//! Degraded content trees: every file of a tree under the same path, cheaper to serve. For a level of an `[[adaptation]]`.
//!
//! What is to be done is decided by functions without I/O: `kind` (what a file is), `picture` and `html` (its content
//! in, the content to serve out), `plan` (what is made, kept and removed). [`run`] reads the tree, carries that out on
//! several threads, and reports.
//!
//! Source: Abdelzaher, Shin and Bhatti (2002), §4.2 and §7.4: compressed images, and fewer embedded objects.

mod answer;
mod charset;
mod html;
mod kind;
mod manifest;
mod memory;
mod picture;
mod place;
mod plan;
mod png;
mod report;
mod run;
mod settings;
mod tree;

pub use html::STRIPPED;
pub use report::{Item, Report};
pub use run::{Progress, run};
pub use settings::{Bounds, Settings};
