//! The command line: what each command does, as functions that return what is to be printed.

pub mod check;
pub mod explain;
pub mod schema;
mod words;
