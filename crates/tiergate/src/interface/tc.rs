//! The program `tc` of iproute2, which asks and changes the kernel's queues.
//!
//! A command and not netlink: what `setup` does is what the operator can read, and repeat by hand.

use super::name::InterfaceName;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a command may take: the kernel answers within milliseconds, or waits for a lock that another configuration holds.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is asked whether the command has ended.
const LOOK: Duration = Duration::from_millis(2);
/// Most that is read of what it prints: some thousand classes.
const OUTPUT_LEN_MAX: u64 = 1 << 20;
/// Where it is: not where `PATH` leads first, which may be another's folder; there it is looked for last, and not by root.
const PLACES: [&str; 3] = ["/usr/sbin/tc", "/sbin/tc", "tc"];

/// A command of `tc`, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tc(Vec<String>);

/// Why a command of `tc` did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TcFault {
    /// The program is not there.
    #[error(
        "the program `tc` is missing: install iproute2 (Debian, Ubuntu: apt install iproute2; Fedora, RHEL: dnf install iproute-tc)"
    )]
    Missing,
    /// It could not be started, or what it printed not be read.
    #[error("`{0}` cannot be run: {1}")]
    System(Tc, io::Error),
    /// It took too long, and was killed.
    #[error("`{0}` did not end within {time}s, and was stopped: see whether another program changes queues", time = PATIENCE.as_secs())]
    Slow(Tc),
    /// It failed.
    #[error("`{0}` failed: {1}{hint}", hint = hint(.1))]
    Failed(Tc, String),
    /// It printed what is not understood.
    #[error("`{0}` printed what is not understood ({1}): it needs iproute2 of 2018 or later")]
    Unknown(Tc, String),
}

/// The queue of each class: short, and fair between connections. Without it a class has a FIFO of a thousand packets.
pub(crate) const LEAF: &str = "fq_codel";

impl TcFault {
    /// Whether the kernel has no such queue.
    pub(crate) fn is_unknown_kind(&self) -> bool {
        let is_unknown =
            |said: &str| said.contains("kind is unknown") || said.contains("Unknown qdisc");
        matches!(self, TcFault::Failed(_, said) if is_unknown(said))
    }
}

impl Tc {
    /// `words`, of which each is one argument, however it is written.
    pub(crate) fn new<T: Into<String>>(words: impl IntoIterator<Item = T>) -> Self {
        Tc(words.into_iter().map(Into::into).collect())
    }

    /// What its queues are, as JSON.
    pub(crate) fn show_qdiscs(interface: &InterfaceName) -> Self {
        Tc::new(["-j", "qdisc", "show", "dev", interface.as_str()])
    }

    /// What their classes are and have sent, as text: iproute2 6.1 has no JSON of them.
    pub(crate) fn show_classes(interface: &InterfaceName) -> Self {
        Tc::new(["-s", "class", "show", "dev", interface.as_str()])
    }

    /// What the filters of a queue with this handle are, as text, as of the classes.
    pub(crate) fn show_filters(interface: &InterfaceName, handle: &str) -> Self {
        Tc::new(["filter", "show", "dev", interface.as_str(), "parent", handle])
    }

    /// Whether a kernel without what it asks for does without it.
    pub(crate) fn is_optional(&self) -> bool {
        self.0.iter().any(|word| word == LEAF)
    }

    /// Runs it, and returns what it printed.
    ///
    /// # Errors
    /// Why it could not, and what to do.
    pub(crate) fn run(&self) -> Result<String, TcFault> {
        let system = |error| TcFault::System(self.clone(), error);
        let mut child = self.start()?;
        // Read while it runs: a full pipe would stop it.
        let readers = [reader(child.stdout.take()), reader(child.stderr.take())];
        let [Ok(out), Ok(error)] = readers else {
            end(child);
            return Err(system(io::Error::other(
                "no thread can be started to read what it prints",
            )));
        };
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(system)? {
                break status;
            }
            if Instant::now() >= until {
                end(child);
                return Err(TcFault::Slow(self.clone()));
            }
            thread::sleep(LOOK);
        };
        let [out, error] = [out, error].map(|it| it.join().unwrap_or_default());
        match status.success() {
            true => Ok(out),
            false => Err(TcFault::Failed(self.clone(), joined(&error))),
        }
    }

    fn start(&self) -> Result<Child, TcFault> {
        let is_root = rustix::process::geteuid().is_root();
        for place in PLACES.iter().filter(|place| place.starts_with('/') || !is_root) {
            let mut command = Command::new(OsStr::new(place));
            command.args(&self.0).stdin(Stdio::null());
            // Nor does it take its plug-ins from where another says.
            command.env_clear().env("LC_ALL", "C");
            command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
            match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(TcFault::System(self.clone(), error)),
                Ok(child) => return Ok(child),
            }
        }
        Err(TcFault::Missing)
    }
}

impl fmt::Display for Tc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tc {}", self.0.join(" "))
    }
}

/// Ends it without waiting for that: where it waits for a lock of the kernel's it cannot be ended.
fn end(mut child: Child) {
    let _ = child.kill();
    let waits = thread::Builder::new().name("tc".to_owned()).spawn(move || child.wait());
    // Without a thread for it it stays until the process ends.
    let _ = waits;
}

/// A thread that reads all that is printed, and keeps the beginning.
fn reader(from: Option<impl Read + Send + 'static>) -> io::Result<thread::JoinHandle<String>> {
    thread::Builder::new().name("tc".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.by_ref().take(OUTPUT_LEN_MAX).read_to_end(&mut bytes);
            let _ = io::copy(&mut from, &mut io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What it said, in one line.
fn joined(error: &str) -> String {
    let lines: Vec<&str> = error.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.is_empty() {
        true => "it did not say why".to_owned(),
        false => lines.join(" "),
    }
}

/// What to do, by what it said.
fn hint(said: &str) -> &'static str {
    let says = |part: &str| said.contains(part);
    if says("Operation not permitted") || says("you must be root") {
        "; run it as root, or with CAP_NET_ADMIN as an ambient capability"
    } else if says("Cannot find device") || says("No such device") {
        "; `ip link` shows which interfaces there are"
    } else if says("qdisc kind is unknown") || says("Unknown qdisc") {
        "; the kernel has no htb: load it by `modprobe sch_htb`, or install the kernel's package of extra modules"
    } else if says("classifier not found") || says("Unknown filter") {
        "; the kernel has no u32 filters: load them by `modprobe cls_u32`, or install the kernel's package of extra modules"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_to_do() {
        for (said, expected) in [
            ("RTNETLINK answers: Operation not permitted\n", "CAP_NET_ADMIN"),
            ("Cannot find device \"eth9\"", "ip link"),
            ("Error: Specified qdisc kind is unknown.", "modprobe sch_htb"),
            ("Error: TC classifier not found.\nWe have an error talking to the kernel", "cls_u32"),
        ] {
            let fault = TcFault::Failed(Tc::new(["qdisc", "add"]), joined(said)).to_string();
            assert!(fault.starts_with("`tc qdisc add` failed: "), "{fault}");
            assert!(fault.contains(expected) && !fault.contains('\n'), "{fault}");
        }
        assert_eq!(joined(" \n"), "it did not say why");
    }
}
