//! The program's own log, on standard error. A thread of its own writes it, so that no request waits if its reader hangs.
//! Lines that do not fit meanwhile are dropped and counted.

use super::access_log::rfc3339;
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::SystemTime;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// h2 warns of each connection that resets many streams: with these lines any client could fill the log.
const QUIET: &str = "h2=error";
/// Lines that wait to be written, at most: half a megabyte or so.
const LINES_MAX: usize = 4096;

/// What TIERGATE_LOG may be.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Begins to log; the level is set by TIERGATE_LOG (error, warn, info, debug, trace), and by TIERGATE_LOG_FORMAT=json each line is an object. Lines are written for as long as the
/// guard lives, and when it is dropped, for a second at most.
pub fn start() -> WorkerGuard {
    let wanted = std::env::var("TIERGATE_LOG").unwrap_or_default();
    let known = filter(&wanted);
    let is_wrong = known.is_none() && !wanted.is_empty();
    let filter = known.unwrap_or_else(|| EnvFilter::new(format!("{QUIET},info")));
    let builder = NonBlockingBuilder::default().buffered_lines_limit(LINES_MAX).lossy(true);
    let (writer, guard) = builder.thread_name("program-log").finish(std::io::stderr());
    DROPPED.get_or_init(|| writer.error_counter());
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_target(false);
    let format = std::env::var("TIERGATE_LOG_FORMAT").unwrap_or_default();
    match &*format {
        "json" => log.json().flatten_event(true).init(),
        _ => log.with_ansi(std::io::stderr().is_terminal()).init(),
    }
    if !matches!(&*format, "" | "text" | "json") {
        tracing::warn!("TIERGATE_LOG_FORMAT must be text or json, got {format:?}: it is text");
    }
    if is_wrong {
        tracing::warn!(
            "TIERGATE_LOG must be error, warn, info, debug or trace, got {wanted:?}: it is info"
        );
    }
    guard
}

/// Says on standard error what has ended the program: behind its name or, by TIERGATE_LOG_FORMAT=json, as a line of the log.
pub fn last_words(fault: &anyhow::Error) {
    let said = format!("{fault:#}");
    match wants_json() {
        true => eprintln!(
            "{}",
            serde_json::json!({ "timestamp": rfc3339(SystemTime::now()), "level": "ERROR", "message": said })
        ),
        false => eprintln!("tiergate: {said}"),
    }
}

fn wants_json() -> bool {
    std::env::var_os("TIERGATE_LOG_FORMAT").is_some_and(|it| it == "json")
}

/// What TIERGATE_LOG asks for; `None`: nothing that there is.
fn filter(wanted: &str) -> Option<EnvFilter> {
    let level = wanted.to_ascii_lowercase();
    // Another word would be the name of a module, and all others silent.
    let is_level = LEVELS.contains(&&*level) || level.contains('=');
    EnvFilter::try_new(format!("{QUIET},{level}")).ok().filter(|_| is_level)
}

/// Lines that were dropped.
pub fn dropped() -> u64 {
    DROPPED.get().map_or(0, |counter| counter.dropped_lines() as u64)
}
