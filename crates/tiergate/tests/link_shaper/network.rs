//! Two network namespaces with a link between them.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::process::program;

/// Two machines, `a` and `b`, and between them `out` of `a` and `in` of `b`.
pub(crate) struct Network {
    a: String,
    b: String,
}

/// Addresses of `b`.
pub(crate) const TO: [&str; 2] = ["10.78.0.2", "fd78::2"];

/// What a class has sent: packets and bytes; and how many packets wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) waiting: u64,
}

impl Network {
    /// `None`, and says so, without the right to make one, or without the programs.
    pub(crate) fn start() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (ip, _) = (program("ip")?, program("tc")?);
        let ip = |words: &str| {
            let output = Command::new(&ip).args(words.split(' ')).output().expect("ip runs");
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(error) }
        };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |which| format!("tglink{}-{number}{which}", std::process::id());
        let network = Network { a: name('a'), b: name('b') };
        let (a, b) = (&network.a, &network.b);
        if let Err(error) = ip(&format!("netns add {a}")) {
            eprintln!("not tested: network namespaces cannot be made here ({})", error.trim());
            return None;
        }
        for words in [
            format!("netns add {b}"),
            format!("link add out netns {a} type veth peer name in netns {b}"),
            format!("-n {a} addr add 10.78.0.1/24 dev out"),
            format!("-n {b} addr add 10.78.0.2/24 dev in"),
            format!("-n {a} addr add fd78::1/64 dev out nodad"),
            format!("-n {b} addr add fd78::2/64 dev in nodad"),
            format!("-n {a} link set lo up"),
            format!("-n {b} link set lo up"),
            format!("-n {a} link set out up"),
            format!("-n {b} link set in up"),
        ] {
            ip(&words).unwrap_or_else(|error| panic!("ip {words}: {error}"));
        }
        Some(network)
    }

    /// A program on a machine: `a`, or else `b`.
    pub(crate) fn command(&self, on_a: bool, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", if on_a { &self.a } else { &self.b }]).args(words);
        command
    }

    /// Runs it on `a`.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(true, words).output().expect("ip runs")
    }

    /// What it prints on `a`, where it succeeds.
    pub(crate) fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The queues of `out`.
    pub(crate) fn queues(&self) -> String {
        self.text(&["tc", "qdisc", "show", "dev", "out"])
    }

    /// What a class of `out` has sent: by its number, such as `71e9:10`.
    pub(crate) fn sent(&self, class: &str) -> Sent {
        let text = self.text(&["tc", "-s", "class", "show", "dev", "out"]);
        let begin = text.find(&format!("class htb {class} ")).unwrap_or_else(|| panic!("{text}"));
        let number = |before: &str, behind: &str| {
            let rest = text[begin..].split_once(before).expect("its line").1;
            let word = rest.split(behind).next().unwrap_or_default();
            word.rsplit(' ').next().and_then(|it| it.parse().ok()).expect("a number")
        };
        Sent {
            bytes: number("Sent ", " bytes"),
            packets: number(" bytes ", " pkt"),
            waiting: number("backlog ", "p requeues"),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.a, &self.b] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}
