//! A worker that runs, and how it is ended.
//!
//! Its process is not reaped before its children have ended: as long as it is not, no other process can have its number, and so no
//! signal to its process group reaches another.

use super::threads;
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::Instant;

/// How often it is looked whether children have ended.
const LOOK: Duration = Duration::from_millis(20);
/// Each look takes twice as long to come as the one before, and so long at most.
const LOOK_MAX: Duration = Duration::from_millis(200);
/// How long those that were killed may take to be gone.
const KILLED_MAX: Duration = Duration::from_secs(1);

/// What it prints.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) out: ChildStdout,
    pub(super) error: ChildStderr,
}

/// A worker that runs. If it is dropped, it is killed, with its children.
#[derive(Debug)]
pub(super) struct Running {
    /// Its process, and the process group that it and its children are in.
    pub(super) pid: u32,
    own: Pid,
    /// Tells that some child of ours has ended.
    children: unix::Signal,
}

/// Tells that children end, from now on.
///
/// # Errors
/// The system's.
pub(super) fn watch_children() -> std::io::Result<unix::Signal> {
    unix::signal(SignalKind::child())
}

impl Running {
    /// The child of that number, which leads a process group and has not been waited for; `children`: what tells that children end.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn new(pid: u32, children: unix::Signal) -> Result<Self> {
        let own = i32::try_from(pid).ok().and_then(Pid::from_raw).context("it has no number")?;
        Ok(Running { pid, own, children })
    }

    /// Returns how it has ended. It is not reaped. Cancel safe.
    pub(super) async fn ended(&mut self) -> String {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        loop {
            match waitid(WaitId::Pid(self.own), options) {
                Ok(Some(status)) => {
                    let exited = status.exit_status().map(|code| code << 8);
                    let raw = exited.or(status.terminating_signal()).unwrap_or_default();
                    return ExitStatus::from_raw(raw).to_string();
                }
                Err(error) if error != Errno::INTR => return error.to_string(),
                Ok(None) | Err(_) => {}
            }
            // What has ended since the last look was told since.
            if self.children.recv().await.is_none() {
                return "the gateway has ended".to_owned();
            }
        }
    }

    /// Asks it and its children to end, by SIGTERM; kills those that have not after a time. Returns how it has ended.
    pub(super) async fn end(mut self, longest: Duration) -> String {
        self.signal(Signal::TERM);
        let until = Instant::now() + longest;
        let how = match tokio::time::timeout_at(until, self.ended()).await {
            Ok(how) => how,
            Err(_) => {
                self.signal(Signal::KILL);
                // What the kernel does not let go must not hold up all else.
                let ended = tokio::time::timeout(KILLED_MAX, self.ended()).await;
                let how = ended.unwrap_or_else(|_| "killed, and still there".to_owned());
                format!("{how}, {longest:?} after SIGTERM")
            }
        };
        self.end_children(until, true).await;
        how
    }

    /// It has ended: so must its children, which may have its sockets open. `is_told`: they have been asked to, once: many servers take a second SIGTERM
    /// to mean at once.
    pub(super) async fn end_children(self, until: Instant, mut is_told: bool) {
        let mut look = LOOK;
        while self.has_children().await {
            if Instant::now() >= until {
                break;
            }
            if !is_told {
                self.signal(Signal::TERM);
                is_told = true;
            }
            tokio::time::sleep_until(until.min(Instant::now() + look)).await;
            look = (look * 2).min(LOOK_MAX);
        }
        // Those that are left. What is killed is gone in a moment, and so are its sockets.
        let until = Instant::now() + KILLED_MAX;
        while self.has_children().await && Instant::now() < until {
            self.signal(Signal::KILL);
            tokio::time::sleep(LOOK).await;
        }
        if !self.has_ended() {
            // What the kernel does not let go is waited for by nobody, and reaped some time.
            tokio::spawn(async move {
                let mut running = self;
                running.ended().await;
            });
        }
    }

    /// Whether it can be reaped.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.own), options), Ok(None))
    }

    /// Whether others of its process group live.
    async fn has_children(&self) -> bool {
        let own = self.pid;
        // Not on this thread, which serves: it reads a file for each process of the machine.
        let look = move || threads::of_process_group(own).into_iter().any(|pid| pid != own);
        tokio::task::spawn_blocking(look).await.unwrap_or(false)
    }

    fn signal(&self, signal: Signal) {
        // None is left: nothing to do.
        let _ = kill_process_group(self.own, signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // With those children of it that the kernel has made ours, where we are process 1. What was killed in this moment has not ended yet: that is
        // where the runtime ends, and the process with it.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while let Ok(Some(_)) = waitid(WaitId::Pgid(Some(self.own)), options) {}
    }
}
