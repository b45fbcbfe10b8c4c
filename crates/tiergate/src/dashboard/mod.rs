//! `tiergate top`: classes, rates, waits, the limit and refusals, live.
//!
//! It reads the admin listener of a running gateway, twice for a rate. On a terminal it draws; into
//! a pipe, or with `--once`, it prints one table.

mod course;
mod draw;
mod fetch;
mod plain;
mod rates;
mod refused;
mod screen;
mod terminal;

use crate::observe::words::harmless;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Shortest time between two readings: the gateway has better things to do.
pub const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// What `tiergate top` is asked.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Options {
    // With or without `http://`.
    /// The gateway's admin listener
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8434")]
    pub admin: String,
    // At least `INTERVAL_MIN`.
    /// Seconds between two updates
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub interval: Duration,
    /// Print one table and exit
    #[arg(long)]
    pub once: bool,
}

/// A time from the command line; one that cannot be is a second.
fn seconds(text: &str) -> Result<Duration, std::num::ParseFloatError> {
    Ok(Duration::try_from_secs_f64(text.parse()?).unwrap_or(Duration::from_secs(1)))
}

/// Runs until the user leaves, or prints one table if that is asked for or standard output is not a
/// terminal. The terminal is as it was on every way out.
///
/// # Errors
/// With `once`: if the gateway cannot be read. Else: if the terminal cannot be used.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let interval = options.interval.max(INTERVAL_MIN);
    let authority = options.admin.trim_start_matches("http://").trim_end_matches('/').to_owned();
    if options.once || !io::stdout().is_terminal() {
        // A fault may quote what was answered.
        let harmless = |fault: anyhow::Error| anyhow::anyhow!(harmless(&format!("{fault:#}")));
        let view = fetch::view_once(&authority, interval).map_err(harmless)?;
        return match io::stdout().write_all(plain::table(&view).as_bytes()) {
            // `tiergate top --once | head` is no fault.
            Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        };
    }
    terminal::show(authority, interval, colour_wanted(std::env::var_os("NO_COLOR").as_deref()))
}

/// Source: no-color.org: any value but the empty one asks for no colour.
fn colour_wanted(no_color: Option<&std::ffi::OsStr>) -> bool {
    no_color.is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_off_only_when_asked() {
        assert!(colour_wanted(None));
        assert!(colour_wanted(Some("".as_ref())));
        assert!(!colour_wanted(Some("1".as_ref())));
    }
}
