//! An upgrade: the process starts its successor, hands it the listening sockets, and leaves once that serves.
//!
//! The successor is the program as it is on disk by then, where it was when this process started, with the same arguments. It gets every
//! listening socket, those of the admin listener too, as systemd would pass them (LISTEN_FDS), so that connections that wait to be accepted
//! are accepted by either; and one more, by which it says that it serves. If it does not, it is ended, and this process goes on as if nothing
//! had been asked.

use super::process::Process;
use crate::workers::SUCCESSOR;
use anyhow::{Context, bail};
use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long it has until it serves: reading a large policy and databases takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// A signal is told within this time, also to a process that stood still.
const SIGNALS_TOLD: Duration = Duration::from_millis(50);
/// The first descriptor that is passed on, as systemd has it.
const FIRST: i32 = 3;
/// What it says.
const SERVES: &[u8] = b"serves";

/// What systemd or a former process has passed on.
#[derive(Debug, Default)]
pub(super) struct PassedOn {
    /// Listening sockets that nobody has named yet.
    pub(super) listeners: Vec<TcpListener>,
    /// Who waits to hear that this process serves.
    pub(super) predecessor: Option<UnixDatagram>,
}

impl PassedOn {
    /// Takes it. Once in the life of a process.
    pub(super) fn take() -> Self {
        let mut passed = listenfd::ListenFd::from_env();
        let is_successor = std::env::var_os(SUCCESSOR).is_some();
        let sockets = passed.len() - usize::from(is_successor && passed.len() > 0);
        let predecessor = match is_successor && passed.len() > sockets {
            true => passed.take_unix_datagram(sockets).ok().flatten(),
            false => None,
        };
        let listeners = (0..sockets).filter_map(|it| passed.take_tcp_listener(it).ok().flatten());
        PassedOn { listeners: listeners.collect(), predecessor }
    }

    /// The one that listens on an address, if there is one.
    pub(super) fn listener(&mut self, address: std::net::SocketAddr) -> Option<TcpListener> {
        let is = |it: &TcpListener| it.local_addr().is_ok_and(|local| local == address);
        let place = self.listeners.iter().position(is)?;
        let known = self.listeners.swap_remove(place);
        known.set_nonblocking(true).ok()?;
        Some(known)
    }
}

/// This process serves: its predecessor may leave.
pub(super) fn tell(predecessor: &UnixDatagram) {
    // If that has gone meanwhile, there is nobody to be told.
    let _ = predecessor.send(SERVES);
}

/// Starts a successor, and returns its number once it serves; `None`: it was told to end because this process was asked to end, which is what `end` waits for.
///
/// # Errors
/// There is none: why not. Nothing has changed then.
pub(super) async fn hand_over(
    process: &Process,
    end: impl Future<Output = ()>,
) -> anyhow::Result<Option<u32>> {
    if !process.shared.config.load().policy.workers.is_empty() {
        bail!(
            "the policy has workers, which the successor would start beside those of this process: restart it instead"
        );
    }
    if let Some(why) = process.no_successor {
        bail!(why);
    }
    let mut passed: Vec<OwnedFd> = process.listeners.lock().expect("no panic").copies()?;
    if let Some(admin) = &process.admin {
        passed.push(admin.try_clone()?.into());
    }
    let (ours, theirs) = UnixDatagram::pair().context("no socket to hear from the successor")?;
    ours.set_nonblocking(true)?;
    let ours = tokio::net::UnixDatagram::from_std(ours)?;
    passed.push(theirs.into());
    let count = passed.len();
    let mappings =
        (FIRST..).zip(passed).map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd });
    let program = process.program.as_ref().context("cannot tell which program this is")?;
    let mut command = std::process::Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .env("LISTEN_FDS", count.to_string())
        .env(SUCCESSOR, "1")
        .env_remove("LISTEN_PID")
        .env_remove("LISTEN_FDNAMES")
        // It is the one that systemd waits for then.
        .env_remove("WATCHDOG_PID")
        .fd_mappings(mappings.collect())
        .context("no place for the sockets")?;
    let mut successor = tokio::process::Command::from(command)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let number = successor.id().unwrap_or_default();
    let mut said = [0; SERVES.len()];
    let mut end = std::pin::pin!(end);
    let why = tokio::select! {
        biased;
        () = &mut end => None,
        read = ours.recv(&mut said) => match read {
            // A signal to end that came before that may be told only now.
            Ok(_) if said == SERVES => match tokio::time::timeout(SIGNALS_TOLD, end).await {
                Ok(()) => None,
                Err(_) => return Ok(Some(number)),
            },
            _ => Some("it did not say that it serves".to_owned()),
        },
        ended = successor.wait() => match ended {
            Ok(status) => bail!("the successor ended before it served: {status}; its messages say why"),
            Err(fault) => Some(fault.to_string()),
        },
        () = tokio::time::sleep(PATIENCE) => Some(format!("it does not serve after {PATIENCE:?}")),
    };
    let Some(why) = why else {
        // It may have clients already, and drains while this process does.
        if let Some(number) = Pid::from_raw(number.cast_signed()) {
            let _ = kill_process(number, Signal::TERM);
        }
        *process.leaving.lock().expect("no panic") = Some(successor);
        return Ok(None);
    };
    let _ = successor.start_kill();
    bail!("the successor was ended: {why}")
}

/// This program, as it was called: another file may take its place later, or a link lead to another. `None`: it cannot be told. To be asked
/// at the start, because the kernel's answer follows a file that is renamed.
pub(super) fn program() -> Option<PathBuf> {
    let called =
        std::env::args_os().next().map(PathBuf::from).filter(|it| it.file_name().is_some());
    let path = match called {
        Some(path) if path.components().count() > 1 => Some(path).filter(|it| it.is_file()),
        Some(name) => in_search_path(&name),
        None => None,
    };
    path.or_else(|| {
        let path = std::env::current_exe().ok()?;
        let shown = path.to_string_lossy();
        Some(shown.strip_suffix(" (deleted)").map_or(path.clone(), PathBuf::from))
    })
}

/// The file by this name in `PATH` that is this program: who has started it may have looked elsewhere.
fn in_search_path(name: &Path) -> Option<PathBuf> {
    let identity = |path: &Path| path.metadata().ok().map(|it| (it.dev(), it.ino()));
    let own = identity(Path::new("/proc/self/exe"))?;
    let folders = std::env::var_os("PATH")?;
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(name));
    paths.find(|path| identity(path) == Some(own))
}
