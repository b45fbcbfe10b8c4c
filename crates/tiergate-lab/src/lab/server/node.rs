//! A shop by Node: one event loop.

use super::place::Place;
use crate::process::{Running, find};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How Node is set: not at all.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Node {
    /// How many requests at once an operator would let through to it; Node itself has no such number.
    pub(crate) slots: u32,
}

impl Default for Node {
    /// What keeps the event loop busy while pages wait for their database, and some more.
    fn default() -> Self {
        Self { slots: 16 }
    }
}

impl Node {
    /// Its program; an error says how to install it.
    pub(super) fn installed() -> Result<PathBuf> {
        find("node").context("Node is not installed; run scripts/setup.sh")
    }

    /// Starts it with its shop.
    pub(super) async fn start(&self, place: &Place<'_>) -> Result<Vec<Running>> {
        let file = place.write("shop.js", include_str!("../../../origins/node/shop.js"), &[])?;
        let (ip, port) = (place.listen.ip().to_string(), place.listen.port().to_string());
        let program = place.program("Node", Self::installed()?).args([file]).args([ip, port]);
        Ok(vec![place.start(program, place.listen).await?])
    }
}
