//! What takes readings, and the kernel's files that it takes them from.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    pub(super) proc: PathBuf,
    pub(super) sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// A reading holds for so many periods of its sensor: one may be late, and one may fail.
pub(super) const LASTING: u32 = 3;

/// There is no reading, and nothing is wrong with that: it is shown, but neither logged nor counted.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Idle(pub(super) &'static str);

/// Takes readings of one thing.
pub(super) trait Probe: Send {
    /// A reading; `None`: only with the next one will there be something to compare.
    ///
    /// # Errors
    /// Why there is none, in words.
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>>;
}

/// Most that is read of a file: the kernel's have some hundred bytes for each processor or disk.
const LEN_MAX: u64 = 4 << 20;

/// The text of a file of the kernel. The name of a process need not be UTF-8, and is of no interest.
pub(super) fn text(path: &Path) -> Result<String> {
    let fault = || format!("{} cannot be read", path.display());
    // Opening a FIFO blocks until somebody writes to it.
    let about = std::fs::metadata(path).with_context(fault)?;
    anyhow::ensure!(about.is_file(), "{} is not a file", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(fault)?;
    file.take(LEN_MAX).read_to_end(&mut bytes).with_context(fault)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The number that a file of the kernel consists of.
pub(super) fn number(path: &Path) -> Result<u64> {
    let text = text(path)?;
    text.trim().parse().with_context(|| format!("{} has no number", path.display()))
}

/// A share of 0.0 to 1.0: more than all is measured where the clocks of two files differ a little.
pub(super) fn utilization(share: f64) -> Quantity {
    Quantity::Utilization(share.clamp(0.0, 1.0))
}

/// How many processors the machine has.
pub(super) fn processors(roots: &Roots) -> Result<u32> {
    let stat = text(&roots.proc.join("stat"))?;
    let is_one = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
    };
    let count = stat.lines().filter(is_one).count();
    anyhow::ensure!(count > 0, "{} names no processor", roots.proc.join("stat").display());
    Ok(count as u32)
}
