//! What requests are known by: their ids, the names of their headers, their traces, and the log's lines about what never became one.

#[path = "../support/mod.rs"]
mod support;

mod collector;
mod ids;
mod renamed;
mod strays;
mod traces;

use serde_json::Value;
use std::path::Path;
use support::gateway::Policy;
use support::origin::Origin;

/// A policy that logs as JSON; `tables` follow.
fn policy(origin: &Origin, log: &Path, tables: &str) -> Policy {
    Policy {
        top: "threads = 1\ntrusted = [\"127.0.0.9\"]".into(),
        tables: format!("[access_log]\npath = {log:?}\n{tables}"),
        ..Policy::of(&[origin.server()])
    }
}

/// The log's lines so far.
fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// So many lines, once they are there.
fn await_lines(log: &Path, count: usize) -> Vec<Value> {
    support::eventually_is("the log's lines", count, || lines(log).len());
    lines(log)
}
