//! Starts workers.
//!
//! The gateway does not start the program itself: it starts its own program as `tiergate start-worker`, which asks the kernel to
//! be ended with the gateway, waits until the gateway has given it its shares, and then becomes the program. So nothing of
//! the program runs before it has them, its threads and children inherit them, and no code has to run between fork and exec.

use super::apply::{self, Effect};
use super::group::Group;
use super::program;
use super::running::{Outputs, Running, watch_children};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tiergate_core::workers::Shares;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// This very program, even if its file has been replaced.
pub(super) const OURSELVES: &str = "/proc/self/exe";
/// What tells a worker that it has its shares.
const GO: &[u8] = b"g";
/// What tells a gateway that it is the successor of one ([`crate::run`]).
pub(crate) const SUCCESSOR: &str = "TIERGATE_SUCCESSOR";
/// What systemd or a former process told the gateway is not for its workers.
const NOT_FOR_WORKERS: [&str; 10] = [
    SUCCESSOR,
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "JOURNAL_STREAM",
    "INVOCATION_ID",
    "SYSTEMD_EXEC_PID",
];

/// How many files workers may open; `None`: as many as they like.
static OPEN_FILES: OnceLock<Option<u64>> = OnceLock::new();

/// Says how many files workers may open: what was set for all processes, not what the gateway needs. Some programs walk through all
/// descriptors below the limit, and `select` takes none from 1024 up.
pub(crate) fn have_open_files(limit: Option<u64>) {
    // A second gateway in one process does not come before the first has ended.
    let _ = OPEN_FILES.set(limit);
}

/// What the gateway tells a worker that is about to become its program.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Become {
    /// The gateway's process
    #[arg(long)]
    parent: Option<u32>,
    /// How many files it may open
    #[arg(long)]
    open_files: Option<u64>,
    /// Program and arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the program, once the gateway says so.
///
/// # Errors
/// The program cannot be started, or the gateway is gone.
pub(crate) fn become_worker(told: &Become) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM)).context("cannot ask for a signal")?;
    let mut go = [0; GO.len()];
    // A gateway that ended before the kernel was asked has closed it; one that ended since is our parent no more.
    let is_told = std::io::stdin().read_exact(&mut go).is_ok() && go == *GO;
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
    let lives = told.parent.is_none_or(|wanted| parent == Some(wanted));
    ensure!(is_told && lives, "this is how the gateway starts workers; it is of no use otherwise");
    if let Some(current) = told.open_files {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum })
            .context("cannot set how many files it may open")?;
    }
    let [program, arguments @ ..] = &told.words[..] else { bail!("no program is given") };
    let error = Command::new(program).args(arguments).stdin(Stdio::null()).exec();
    match program.to_str().and_then(program::unstartable) {
        Some(why) => bail!(why),
        None => Err(error).with_context(|| format!("cannot start {}", program.display())),
    }
}

/// Starts a worker with its shares. To be called on a thread that lives as long as the process: the kernel ends the worker with the
/// thread.
///
/// # Errors
/// The system's. That the program is not there, the worker says itself.
pub(super) async fn start(
    words: &[String],
    shares: Shares,
    group: Option<Arc<Result<Group, String>>>,
) -> Result<(Running, Outputs, Vec<Effect>)> {
    let mut command = Command::new(OURSELVES);
    command.args(["start-worker", "--parent", &std::process::id().to_string()]);
    if let Some(Some(limit)) = OPEN_FILES.get() {
        command.args(["--open-files", &limit.to_string()]);
    }
    command.arg("--").args(words).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in NOT_FOR_WORKERS {
        command.env_remove(name);
    }
    let children = watch_children().context("cannot watch processes")?;
    let mut child = command.spawn().context("cannot start a process")?;
    let running = Running::new(child.id(), children)?;
    match become_ready(&mut child, shares, group).await {
        Ok((outputs, effects)) => Ok((running, outputs, effects)),
        Err(fault) => {
            running.end(Duration::ZERO).await;
            Err(fault)
        }
    }
}

/// Gives it its shares, and has it become its program.
async fn become_ready(
    child: &mut Child,
    shares: Shares,
    group: Option<Arc<Result<Group, String>>>,
) -> Result<(Outputs, Vec<Effect>)> {
    let mut go = ChildStdin::from_std(child.stdin.take().context("it was asked for")?)?;
    let outputs = Outputs {
        out: ChildStdout::from_std(child.stdout.take().context("it was asked for")?)?,
        error: ChildStderr::from_std(child.stderr.take().context("it was asked for")?)?,
    };
    let pid = child.id();
    // Not on this thread, which serves: the kernel waits for all processors before it moves a process to another group.
    let effects = tokio::task::spawn_blocking(move || {
        // A thread of its own so far, and no other.
        let mut effects = apply::to_processes(&[pid], &shares, &Shares::default());
        if let Some(Ok(group)) = group.as_deref() {
            effects.extend(apply::into_group(&[pid], group, &shares));
        }
        effects
    });
    let effects = effects.await.context("the gateway ends")?;
    go.write_all(GO).await.context("it has ended already")?;
    Ok((outputs, effects))
}
