//! Programs that an experiment starts, and their end on every way out.
//!
//! A started program ends in one of three ways: its [`Running`] is dropped (return, error, Ctrl-C,
//! which drops the experiment's future); the experiment dies without unwinding, and the kernel
//! sends the program SIGTERM (`setpriv --pdeathsig`, of util-linux, essential on Debian); or it
//! ends by itself, which [`Running::ended`] tells.

use anyhow::{Context, Result, bail};
use procfs::net::TcpState;
use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a program may take to end after SIGTERM, before SIGKILL.
const TERM_PATIENCE: Duration = Duration::from_secs(2);
/// How long a server may take until it accepts connections.
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// A command line, the processors that it may use and the network that it sees.
#[derive(Default)]
pub(crate) struct Program {
    name: String,
    argv: Vec<OsString>,
    processors: Option<String>,
    namespace: Option<String>,
}

impl Program {
    /// A program by path, called `name` in messages.
    pub(crate) fn new(name: &str, path: impl AsRef<OsStr>) -> Self {
        Self { name: name.into(), argv: vec![path.as_ref().into()], ..Self::default() }
    }

    /// Adds arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.argv.extend(args.into_iter().map(|a| a.as_ref().into()));
        self
    }

    /// Restricts it to processors, in the words of `taskset -c` ("0", "1-3"); `None`: all.
    pub(crate) fn processors(mut self, list: Option<&str>) -> Self {
        self.processors = list.map(Into::into);
        self
    }

    /// Puts it into the network namespace of that name (`ip netns`); `None`: ours.
    pub(crate) fn namespace(mut self, name: Option<&str>) -> Self {
        self.namespace = name.map(Into::into);
        self
    }

    /// The command: itself, under `taskset` if pinned, under `nsenter` if it has a network of its
    /// own, under `setpriv` so that it cannot outlive us.
    /// Each of them replaces itself by the next, so the process id stays that of the program.
    pub(crate) fn command(&self) -> Command {
        let mut words: Vec<OsString> =
            ["setpriv", "--pdeathsig", "TERM", "--"].map(Into::into).into();
        if let Some(name) = &self.namespace {
            // `ip netns exec` would mount /sys anew and hide the control groups.
            let network = format!("--net=/run/netns/{name}");
            words.extend(["nsenter", &network, "--"].map(Into::into));
        }
        if let Some(list) = &self.processors {
            words.extend(["taskset", "-c", list].map(Into::into));
        }
        words.extend(self.argv.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        // Its own group: a Ctrl-C at the terminal reaches us first, and we end it in order.
        command.process_group(0);
        command
    }

    /// Starts it with both outputs appended to `log`.
    pub(crate) fn start(self, log: &Path) -> Result<Running> {
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = self
            .command()
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", self.name))?;
        Ok(Running { name: self.name, child, log: log.to_path_buf() })
    }
}

/// A started program; ended when dropped.
pub(crate) struct Running {
    name: String,
    child: Child,
    log: std::path::PathBuf,
}

impl Running {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until somebody listens on `address` in the program's network; an error tells what the
    /// program printed. Nothing is sent: the server's first connection is its first client's.
    pub(crate) async fn ready(&mut self, address: SocketAddr) -> Result<()> {
        let begun = Instant::now();
        loop {
            if listens(self.pid(), address) {
                return Ok(());
            }
            if let Some(why) = self.ended() {
                bail!("{why}");
            }
            if begun.elapsed() > READY_PATIENCE {
                bail!("{} does not listen on {address}{}", self.name, self.last_words());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Why it is no longer there, in words; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{} ended ({status}){}", self.name, self.last_words()))
    }

    /// Ends it in order: SIGTERM, patience, SIGKILL.
    pub(crate) fn stop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // An error means that it has just ended, which is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < TERM_PATIENCE {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(pid) = pid {
            // It leads a group of its own. Its children would outlive it.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The end of what it printed, for an error message.
    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(8)..].join("\n  ");
        if tail.is_empty() { String::new() } else { format!("; it said:\n  {tail}") }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether a socket listens on that address, or on its port on every address, in the network of a
/// process. The kernel's table shows what connecting would, from outside the namespace too.
fn listens(pid: u32, address: SocketAddr) -> bool {
    let tables = Process::new(pid as i32).map(|process| [process.tcp(), process.tcp6()]);
    tables.into_iter().flatten().flatten().flatten().any(|socket| {
        let local = socket.local_address;
        // An IPv4 address may be listened on by an IPv6 socket, for it alone (Java does) or for all addresses.
        let here = local.ip().to_canonical() == address.ip() || local.ip().is_unspecified();
        here && local.port() == address.port() && socket.state == TcpState::Listen
    })
}

/// Runs a program to its end within `patience` and returns what it printed on standard output;
/// longer, or a failure, is an error with its own words. Cancel safe: dropped, it is killed.
pub(crate) async fn output(program: Program, patience: Duration) -> Result<String> {
    Printing::start(program)?.output(patience).await
}

/// A program under way that ends by itself, and what it prints; killed when dropped.
pub(crate) struct Printing {
    name: String,
    child: tokio::process::Child,
}

impl Printing {
    /// Starts it.
    pub(crate) fn start(program: Program) -> Result<Self> {
        let mut command = tokio::process::Command::from(program.command());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.name))?;
        Ok(Self { name: program.name, child })
    }

    /// Its process id; `None`: it has ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// See [`output`].
    pub(crate) async fn output(self, patience: Duration) -> Result<String> {
        let Self { name, child } = self;
        let done = tokio::time::timeout(patience, child.wait_with_output())
            .await
            .with_context(|| format!("{name} took longer than {patience:?}"))??;
        if !done.status.success() {
            let words = String::from_utf8_lossy(&done.stderr);
            bail!("{name} failed ({}): {}", done.status, words.trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

/// Where a program of that name is, along `PATH`; `None`: not installed.
/// Debian keeps servers in `/usr/sbin`, which an ordinary user's `PATH` lacks.
pub(crate) fn find(name: &str) -> Option<std::path::PathBuf> {
    if name.contains('/') {
        return Path::new(name).exists().then(|| name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([Path::new("/usr/sbin").to_path_buf(), Path::new("/usr/local/sbin").to_path_buf()])
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// The file `DIRECTORY/BEGINNING…/REST` of the highest version (`php-fpm8.2`, `15/bin/initdb`); `None`: not installed.
pub(crate) fn versioned(
    directory: &str,
    beginning: &str,
    rest: &str,
) -> Option<std::path::PathBuf> {
    let version =
        |name: &OsStr| -> Option<f64> { name.to_str()?.strip_prefix(beginning)?.parse().ok() };
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let found = entries.filter_map(|entry| {
        let file = if rest.is_empty() { entry.path() } else { entry.path().join(rest) };
        Some((version(&entry.file_name())?, file)).filter(|(_, file)| file.is_file())
    });
    found.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, file)| file)
}

/// A directory that is removed in the end, readable for servers that run as another user.
pub(crate) fn scratch() -> Result<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt;
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755))?;
    Ok(scratch)
}

/// Where programs listen: below the ports that Linux gives outgoing connections unless it is told otherwise.
/// None of those takes a port before its program does, or while who listens there is stopped.
const PORTS: std::ops::Range<u16> = 10_000..32_768;

/// A loopback address that nobody listens on, another one each time. Another process may take the port before
/// it is used; then the program that was to have it says so and ends.
pub(crate) fn free_address() -> Result<SocketAddr> {
    // One after the other, so that no two programs are given the same; from anywhere, so that two processes differ.
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(fastrand::u16(..).into()));
    for _ in PORTS {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(PORTS.end - PORTS.start);
        let address =
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORTS.start + u16::try_from(step)?);
        match std::net::TcpListener::bind(address) {
            Ok(_) => return Ok(address),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context("cannot listen on the loopback interface"),
        }
    }
    bail!("no free loopback port from {} to {}", PORTS.start, PORTS.end - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_is_given_twice() {
        let mut given: Vec<_> = (0..2_000).map(|_| free_address().unwrap()).collect();
        let outgoing = given.iter().filter(|address| !PORTS.contains(&address.port()));
        assert_eq!(outgoing.count(), 0, "ports that an outgoing connection may take");
        given.sort();
        given.dedup();
        assert_eq!(given.len(), 2_000);
    }

    #[test]
    fn a_dropped_program_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let running =
            Program::new("sleep", "sleep").args(["60"]).start(&dir.path().join("log")).unwrap();
        let proc = format!("/proc/{}", running.pid());
        assert!(Path::new(&proc).exists());
        drop(running);
        assert!(!Path::new(&proc).exists());
    }

    #[test]
    fn the_process_id_is_that_of_the_pinned_program() {
        let dir = tempfile::tempdir().unwrap();
        let running = Program::new("sleep", "sleep")
            .args(["60"])
            .processors(Some("0"))
            .start(&dir.path().join("log"))
            .unwrap();
        let comm = format!("/proc/{}/comm", running.pid());
        let begun = Instant::now();
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            assert!(begun.elapsed() < Duration::from_secs(5), "it never became sleep");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn who_listens_is_seen_without_connecting() {
        let me = std::process::id();
        for bind in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let socket = std::net::TcpListener::bind(bind).unwrap();
            let port = socket.local_addr().unwrap().port();
            let of = |ip: &str| SocketAddr::new(ip.parse().unwrap(), port);
            let asked = if bind.starts_with("[::1]") { of("::1") } else { of("127.0.0.1") };
            assert!(listens(me, asked), "{bind}");
            socket.set_nonblocking(true).unwrap();
            assert!(socket.accept().is_err(), "{bind}: something connected");
            drop(socket);
            assert!(!listens(me, asked), "{bind}: closed");
        }
        let socket = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        let elsewhere = SocketAddr::new([127, 0, 0, 1].into(), socket.local_addr().unwrap().port());
        assert!(!listens(me, elsewhere), "another address");
    }

    #[test]
    fn the_highest_version_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        assert_eq!(versioned(path, "", "bin/initdb"), None);
        for version in ["9", "15", "14", "common"] {
            std::fs::create_dir_all(dir.path().join(version).join("bin")).unwrap();
            std::fs::write(dir.path().join(version).join("bin/initdb"), "").unwrap();
        }
        std::fs::write(dir.path().join("php-fpm8.2"), "").unwrap();
        let found = |beginning, rest| versioned(path, beginning, rest).unwrap();
        assert_eq!(found("", "bin/initdb"), dir.path().join("15/bin/initdb"));
        assert_eq!(found("php-fpm", ""), dir.path().join("php-fpm8.2"));
        assert_eq!(versioned("/nowhere", "", ""), None);
    }

    #[test]
    fn an_ended_program_tells_why() {
        let dir = tempfile::tempdir().unwrap();
        let mut running = Program::new("a shell", "sh")
            .args(["-c", "echo no such key; exit 3"])
            .start(&dir.path().join("log"))
            .unwrap();
        running.child.wait().unwrap();
        let why = running.ended().unwrap();
        assert!(why.contains("exit status: 3") && why.contains("no such key"), "{why}");
    }
}
