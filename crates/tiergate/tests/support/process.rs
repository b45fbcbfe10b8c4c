//! Child processes that never outlive their test.

use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A child that is killed, by its own id, however the test ends.
#[derive(Debug)]
pub struct Process {
    child: Child,
    reaped: bool,
    /// Servers with children of their own end them on SIGTERM only.
    gently: bool,
}

impl Process {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Process { child, reaped: false, gently: false }
    }

    /// The same, for a server that ends its own children on SIGTERM.
    pub fn start_gentle(command: &mut Command) -> Self {
        let mut process = Self::start(command);
        process.gently = true;
        process
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        assert!(!self.reaped, "the process has ended already");
        let pid = Pid::from_raw(self.child.id() as i32).expect("a child has an id");
        kill_process(pid, signal).expect("a child that was not reaped can be signalled");
    }

    pub fn kill(&mut self) {
        if !self.reaped {
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.reaped = true;
        }
    }

    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a child can be waited for");
        self.reaped |= status.is_some();
        status
    }

    /// Waits for its end.
    pub fn wait(&mut self, longest: Duration) -> ExitStatus {
        let until = Instant::now() + longest;
        loop {
            if let Some(status) = self.has_ended() {
                return status;
            }
            assert!(Instant::now() < until, "the process has not ended within {longest:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A number of kB from `/proc/PID/status`, in bytes: `VmHWM`, `VmRSS`.
    pub fn memory(&self, key: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the process runs");
        let line = status.lines().find(|line| line.starts_with(key)).expect("a known key");
        let kib = line.split_whitespace().nth(1).expect("a value");
        kib.parse::<u64>().expect("a number") * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.gently && !self.reaped && self.has_ended().is_none() {
            self.signal(Signal::TERM);
            let until = Instant::now() + Duration::from_secs(5);
            while self.has_ended().is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.kill();
    }
}

/// Where a program is. `None`: it is missing, and `TIERGATE_SKIP_MISSING=1` allows that.
///
/// # Panics
/// If it is missing and that is not allowed.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin";
    let found = path.split(':').map(|folder| Path::new(folder).join(name)).find(|it| it.is_file());
    if found.is_none() {
        let skip = std::env::var("TIERGATE_SKIP_MISSING").is_ok_and(|value| value == "1");
        assert!(
            skip,
            "this test needs `{name}`: run scripts/setup.sh, or set TIERGATE_SKIP_MISSING=1 to skip"
        );
        eprintln!("skipped: `{name}` is missing");
    }
    found
}

/// Runs curl; what it printed. `None`: see [`program`].
pub fn curl(arguments: &[&str]) -> Option<String> {
    let program = program("curl")?;
    let mut command = Command::new(program);
    command.args(["-sS", "--max-time", "60"]).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("curl runs");
    let (out, error) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {error}");
    Some(String::from_utf8_lossy(out).into_owned())
}
