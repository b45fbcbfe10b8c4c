//! The programs of a run: the gateway and its origin servers, and what belongs to them.

use super::ask::Way;
use super::fault::SERVERS;
use super::log::AccessLog;
use super::origin::{self, Say};
use super::policy::{self, Places};
use super::secure;
use crate::process::{self, Program, Running, free_address};
use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Requests that an origin server works on at once, and for how long: 200 requests/s each.
const WORKERS: usize = 6;
const SERVICE: &str = "30ms";
/// Size of the access log's disk.
const DISK: &str = "64m";
/// Debian's package libfaketime.
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";
/// How long the gateway may take to end after SIGTERM: its policy gives it five seconds.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// What makes the access log's disk full.
enum Disk {
    /// A small file system of its own, which only the gateway has mounted: a file fills it.
    Mounted { filler: PathBuf },
    /// Mounting is not permitted: files of the gateway may not grow (RLIMIT_FSIZE).
    FileSize,
}

/// Everything that was started.
pub(super) struct World {
    gateway: Mutex<Running>,
    pub(super) pid: u32,
    pub(super) places: Places,
    /// The ways to connect: HTTP/1.1, twice as many as HTTP/2 and each of them with TLS.
    pub(super) ways: Vec<Way>,
    pub(super) log: AccessLog,
    pub(super) program_log: PathBuf,
    /// Held while the gateway may not open files: a reload would adapt to that.
    pub(super) descriptors: tokio::sync::Mutex<()>,
    servers: [Mutex<Option<Running>>; SERVERS],
    controls: [SocketAddr; SERVERS],
    disk: Disk,
    disk_full: AtomicBool,
    /// The file that says how wrong the gateway's clock is; `None`: libfaketime is not installed.
    clock: Option<PathBuf>,
    policy: PathBuf,
    out: PathBuf,
    // Last: removed when all programs have ended.
    _scratch: TempDir,
}

impl World {
    /// Starts everything; logs of the programs go to `out`.
    pub(super) async fn start(gateway: &Path, out: &Path) -> Result<Self> {
        let scratch = process::scratch()?;
        let logs = scratch.path().join("log");
        std::fs::create_dir(&logs)?;
        let [listen, admin] = [free_address()?, free_address()?];
        let (mut servers, mut controls) = ([listen; SERVERS], [listen; SERVERS]);
        for place in 0..SERVERS {
            (servers[place], controls[place]) = (free_address()?, free_address()?);
        }
        let log = logs.join("access.json");
        let certificate = secure::certificate(scratch.path()).await.ok();
        let secure = certificate.map(|files| anyhow::Ok((free_address()?, files))).transpose()?;
        let places = Places { listen, admin, servers, log, secure };
        let policy = scratch.path().join("policy.toml");
        std::fs::write(&policy, policy::usual(&places))?;
        let mut running = Vec::new();
        for place in 0..SERVERS {
            running.push(Mutex::new(Some(server(out, servers[place], controls[place]).await?)));
        }
        let program_log = out.join("gateway.log");
        let _ = std::fs::remove_file(&program_log);
        let clock = faketime().map(|library| (library, scratch.path().join("clock")));
        if let Some((_, file)) = &clock {
            std::fs::write(file, "+0")?;
        }
        let mounts = may_mount().await;
        let program = program(gateway, &policy, mounts.then_some(&logs), clock.as_ref());
        let mut gateway = program.start(&program_log)?;
        gateway.ready(listen).await?;
        gateway.ready(admin).await?;
        let pid = gateway.pid();
        let seen = |path: &Path| match mounts {
            true => PathBuf::from(format!("/proc/{pid}/root{}", path.display())),
            false => path.to_path_buf(),
        };
        let disk = match mounts {
            true => Disk::Mounted { filler: seen(&logs.join("filler")) },
            false => Disk::FileSize,
        };
        Ok(Self {
            pid,
            gateway: Mutex::new(gateway),
            log: AccessLog::follow(seen(&places.log)),
            ways: ways(&places)?,
            places,
            program_log,
            descriptors: tokio::sync::Mutex::default(),
            servers: running.try_into().ok().context("as many as there are")?,
            controls,
            disk,
            disk_full: AtomicBool::new(false),
            clock: clock.map(|(_, file)| file),
            policy,
            out: out.to_path_buf(),
            _scratch: scratch,
        })
    }

    /// How full disks, clock steps and TLS are made, in words.
    pub(super) fn means(&self) -> [&'static str; 3] {
        let disk = match self.disk {
            Disk::Mounted { .. } => "a file system of 64 MiB (tmpfs), filled up",
            Disk::FileSize => "mounting is not permitted: a limit on file sizes (RLIMIT_FSIZE)",
        };
        let clock = match self.clock {
            Some(_) => "libfaketime, wall clock only",
            None => "left out: libfaketime is not installed (make setup)",
        };
        let tls = match self.places.secure {
            Some(_) => "two of five premium clients",
            None => "left out: openssl is not installed (make setup)",
        };
        [disk, clock, tls]
    }

    /// Why the gateway is no longer there; `None` while it runs.
    pub(super) fn gateway_ended(&self) -> Option<String> {
        self.gateway.lock().expect("no code panics with it").ended()
    }

    /// Ends the gateway in order: how it ended.
    pub(super) async fn end_gateway(&self) -> String {
        self.signal(Signal::TERM);
        let begun = std::time::Instant::now();
        while begun.elapsed() < END_PATIENCE {
            if let Some(how) = self.gateway_ended() {
                return how;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        "it did not end".into()
    }

    /// Sends the gateway a signal.
    pub(super) fn signal(&self, signal: Signal) {
        send(self.pid, signal);
    }

    /// Sends an origin server a signal.
    pub(super) fn signal_server(&self, place: usize, signal: Signal) {
        if let Some(server) = &*self.servers[place].lock().expect("no code panics with it") {
            send(server.pid(), signal);
        }
    }

    /// Kills an origin server.
    pub(super) fn kill_server(&self, place: usize) {
        self.signal_server(place, Signal::KILL);
        *self.servers[place].lock().expect("no code panics with it") = None;
    }

    /// Starts an origin server that was killed.
    pub(super) async fn start_server(&self, place: usize) -> Result<()> {
        let server = server(&self.out, self.places.servers[place], self.controls[place]).await?;
        *self.servers[place].lock().expect("no code panics with it") = Some(server);
        Ok(())
    }

    /// Has an origin server answer everything in one way.
    pub(super) async fn tell_server(&self, place: usize, say: Say) -> Result<()> {
        origin::tell(self.controls[place], say).await
    }

    /// Puts a policy in the place of the last one; the gateway is still to be told.
    pub(super) fn write_policy(&self, text: &str) -> Result<()> {
        let next = self.policy.with_extension("next");
        std::fs::write(&next, text)?;
        Ok(std::fs::rename(next, &self.policy)?)
    }

    /// Moves the access log and has it reopened.
    pub(super) fn rotate_log(&self) {
        if self.log.rotate() {
            self.signal(Signal::USR1);
        }
    }

    /// Fills the access log's disk, or makes room again.
    pub(super) fn fill_disk(&self, full: bool) -> Result<()> {
        self.disk_full.store(full, Ordering::Relaxed);
        match (&self.disk, full) {
            (Disk::Mounted { filler }, true) => fill(filler),
            (Disk::Mounted { filler }, false) => Ok(std::fs::remove_file(filler)?),
            (Disk::FileSize, true) => self.limit(Resource::Fsize, Some(self.log.len())).map(drop),
            (Disk::FileSize, false) => self.limit(Resource::Fsize, None).map(drop),
        }
    }

    pub(super) fn disk_is_full(&self) -> bool {
        self.disk_full.load(Ordering::Relaxed)
    }

    /// Sets the gateway's clock wrong by so many seconds; `false`: there is no way to.
    pub(super) fn set_clock(&self, seconds: i64) -> Result<bool> {
        let Some(file) = &self.clock else { return Ok(false) };
        let next = file.with_extension("next");
        std::fs::write(&next, format!("{seconds:+}"))?;
        std::fs::rename(next, file)?;
        Ok(true)
    }

    /// Sets a limit of the gateway, and returns the former; `None`: unlimited.
    pub(super) fn limit(&self, of: Resource, current: Option<u64>) -> Result<Option<u64>> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let former = std::fs::read_to_string(format!("/proc/{}/limits", self.pid))?;
        let maximum = match of {
            Resource::Nofile => hard(&former, "Max open files"),
            _ => hard(&former, "Max file size"),
        };
        let former = prlimit(pid, of, Rlimit { current, maximum })?;
        Ok(former.current)
    }
}

fn ways(places: &Places) -> Result<Vec<Way>> {
    let plain = |http2| Way { address: places.listen, http2, tls: None };
    let mut ways = vec![plain(false), plain(false), plain(true)];
    if let Some((address, [certificate, _])) = &places.secure {
        for http2 in [false, true] {
            let tls = Some(secure::connector(certificate, http2)?);
            ways.push(Way { address: *address, http2, tls });
        }
    }
    Ok(ways)
}

/// The hard limit in `/proc/PID/limits`; `None`: unlimited.
fn hard(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // An error means that it has ended, which others notice.
        let _ = kill_process(pid, signal);
    }
}

async fn server(out: &Path, listen: SocketAddr, control: SocketAddr) -> Result<Running> {
    let (listen_text, control_text) = (listen.to_string(), control.to_string());
    let (workers, us) = (WORKERS.to_string(), std::env::current_exe()?);
    let program = Program::new("an origin server", us).args([
        "chaos-origin",
        "--listen",
        &listen_text,
        "--control",
        &control_text,
        "--workers",
        &workers,
        "--service",
        SERVICE,
    ]);
    let mut running = program.start(&out.join("origin.log"))?;
    running.ready(control).await?;
    running.ready(listen).await?;
    Ok(running)
}

/// The gateway, with a disk of its own for its log and a clock that can be wrong, where these are possible.
fn program(
    gateway: &Path,
    policy: &Path,
    disk: Option<&PathBuf>,
    clock: Option<&(PathBuf, PathBuf)>,
) -> Program {
    let mut words: Vec<String> = Vec::new();
    if let Some(logs) = disk {
        let mount = format!("mount -t tmpfs -o size={DISK} chaos \"$0\" && exec \"$@\"");
        words.extend(["unshare", "--mount", "--", "sh", "-c"].map(String::from));
        words.extend([mount, logs.display().to_string()]);
    }
    words.push("env".into());
    if let Some((library, clock)) = clock {
        words.push(format!("LD_PRELOAD={}", library.display()));
        words.push(format!("FAKETIME_TIMESTAMP_FILE={}", clock.display()));
        words.extend(["FAKETIME_CACHE_DURATION=1", "DONT_FAKE_MONOTONIC=1"].map(String::from));
        words.push("FAKETIME_DONT_FAKE_MONOTONIC=1".into());
    }
    words.extend([gateway.display().to_string(), "run".into(), policy.display().to_string()]);
    Program::new("the gateway", &words[0]).args(&words[1..])
}

/// Where the library is: in a folder of the machine's architecture.
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
    folders.map(|folder| folder.path().join(FAKETIME)).find(|path| path.exists())
}

async fn may_mount() -> bool {
    let words = ["--mount", "--", "mount", "-t", "tmpfs", "chaos", "/mnt"];
    let program = Program::new("unshare", "unshare").args(words);
    process::output(program, Duration::from_secs(5)).await.is_ok()
}

/// Writes until the disk is full.
fn fill(path: &Path) -> Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::create(path)?;
    // Ever smaller pieces take the last bytes.
    for size in [1 << 20, 4096, 1] {
        let piece = vec![0; size];
        while file.write_all(&piece).is_ok() {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_limits_are_read() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\n\
            Max file size   unlimited   unlimited  bytes\nMax open files   20   4096  files\n";
        assert_eq!(hard(limits, "Max open files"), Some(4096));
        assert_eq!(hard(limits, "Max file size"), None);
    }
}
