//! A process and its descendants, such as a server with a process for each request.

use super::probe::{Roots, text};
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Most processes that are looked at: more are no server's, and looking at each costs some µs.
const PROCESSES_MAX: usize = 4096;

/// Which process is the first of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// The one whose number is in a file.
    File(PathBuf),
    /// The one of that number.
    Pid(u32),
}

/// The tree below a process.
#[derive(Debug)]
pub(super) struct Tree {
    first: First,
    proc: PathBuf,
    /// The processes that there were last time; none: the first has not been seen yet.
    known: HashMap<u32, Times>,
    ticks_per_second: f64,
}

impl Tree {
    pub(super) fn of(pid_file: &Path, roots: &Roots) -> Self {
        Tree::below(First::File(pid_file.into()), roots)
    }

    pub(super) fn below(first: First, roots: &Roots) -> Self {
        Tree {
            first,
            proc: roots.proc.clone(),
            known: HashMap::new(),
            ticks_per_second: rustix::param::clock_ticks_per_second() as f64,
        }
    }

    /// Processor time that all of them have used since the last time, in seconds. With that of descendants that have ended
    /// meanwhile, if they were waited for. `None` at first, and where the process is another one than last time.
    pub(super) fn cpu_used(&mut self) -> Result<Option<f64>> {
        let pid = self.first_pid()?;
        let first = self.times(pid).with_context(|| match &self.first {
            First::File(file) => {
                format!("there is no process {pid}, which {} names", file.display())
            }
            First::Pid(pid) => format!("there is no process {pid}"),
        })?;
        let mut found = HashMap::from([(pid, first)]);
        let tasks = self.proc.join(format!("{pid}/task/{pid}/children"));
        ensure!(
            tasks.exists(),
            "this kernel does not list children ({} is missing)",
            tasks.display()
        );
        let mut left = self.children(pid);
        while let Some(next) = left.pop() {
            ensure!(
                found.len() < PROCESSES_MAX,
                "process {pid} has over {PROCESSES_MAX} descendants"
            );
            // One that has just ended is counted with its parent.
            let Some(times) = self.times(next) else { continue };
            if found.insert(next, times).is_none() {
                left.extend(self.children(next));
            }
        }
        let known = std::mem::replace(&mut self.known, found);
        let is_same = known.get(&pid).is_some_and(|it| it.begun == first.begun);
        Ok(is_same.then(|| self.since(&known) as f64 / self.ticks_per_second))
    }

    fn first_pid(&self) -> Result<u32> {
        let file = match &self.first {
            First::Pid(pid) => return Ok(*pid),
            First::File(file) => file,
        };
        let fault = || format!("{} has no number of a process", file.display());
        text(file)?.trim().parse().with_context(fault)
    }

    /// How many processors the first process may run on; `None`: the kernel does not tell.
    pub(super) fn processors_allowed(&self) -> Option<u32> {
        let pid = self.first_pid().ok()?;
        let status = text(&self.proc.join(pid.to_string()).join("status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?;
        let words = mask.trim().split(',').map(|word| u32::from_str_radix(word, 16).ok());
        words.map(|word| Some(word?.count_ones())).sum::<Option<u32>>().filter(|it| *it > 0)
    }

    /// The processes that there were last time.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.known.keys().copied()
    }

    /// Ticks used since there were those processes.
    fn since(&self, known: &HashMap<u32, Times>) -> u64 {
        let before = |pid: &u32, times: &Times| {
            known.get(pid).copied().filter(|it| it.begun == times.begun).unwrap_or_default()
        };
        let (mut own, mut of_ended) = (0, 0);
        for (pid, times) in &self.known {
            let before = before(pid, times);
            own += times.own.saturating_sub(before.own);
            of_ended += times.of_ended.saturating_sub(before.of_ended);
        }
        // A process that has ended is among those of its parent with all that it ever used.
        let is_gone = |(pid, times): &(&u32, &Times)| {
            self.known.get(pid).is_none_or(|it| it.begun != times.begun)
        };
        let counted: u64 = known.iter().filter(is_gone).map(|(_, it)| it.own + it.of_ended).sum();
        own + of_ended.saturating_sub(counted)
    }

    /// `None`: there is no such process.
    fn times(&self, pid: u32) -> Option<Times> {
        Times::parse(&text(&self.proc.join(pid.to_string()).join("stat")).ok()?)
    }

    /// The children of all its threads.
    fn children(&self, pid: u32) -> Vec<u32> {
        let tasks = self.proc.join(pid.to_string()).join("task");
        let threads = std::fs::read_dir(tasks).into_iter().flatten().flatten();
        let children = threads.filter_map(|thread| text(&thread.path().join("children")).ok());
        let numbers = |list: String| -> Vec<u32> {
            list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
        };
        children.flat_map(numbers).collect()
    }
}

/// What `/proc/PID/stat` says of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    /// Ticks used by itself.
    own: u64,
    /// Ticks used by children of it that have ended and that it waited for.
    of_ended: u64,
    /// When it began, in ticks since the start of the machine.
    begun: u64,
}

impl Times {
    fn parse(stat: &str) -> Option<Times> {
        // The name in brackets may contain both blanks and brackets.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number)?.parse::<u64>().ok();
        // The first field here is the third of all: its state.
        Some(Times {
            own: field(11)? + field(12)?,
            of_ended: field(13)? + field(14)?,
            begun: field(19)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, Write};

    #[test]
    fn a_process_s_name_may_look_like_its_state() {
        let stat = "7 (a) R 1 (x) S 1 7 7 0 -1 0 0 0 0 0 11 12 13 14 20 0 1 0 4242 0 0";
        assert_eq!(Times::parse(stat), Some(Times { own: 23, of_ended: 27, begun: 4242 }));
        assert_eq!(Times::parse("7 (a) S 1"), None);
    }

    #[test]
    fn the_time_of_children_counts_once_while_they_run_and_after() {
        let busy = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";
        // A child that is seen at work and ends, and one that begins and ends between two looks.
        let script = "read go; sh -c \"$BUSY; echo busy; read go\"; echo ended; read go; sh -c \"$BUSY\"; echo short; read go";
        let mut root = std::process::Command::new("sh")
            .args(["-c", script])
            .env("BUSY", busy)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut go = root.stdin.take().expect("piped");
        let mut said = std::io::BufReader::new(root.stdout.take().expect("piped")).lines();
        let mut until = |word: &str| {
            go.write_all(b"\n").expect("it reads");
            assert_eq!(said.next().expect("it goes on").expect("a line"), word);
        };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pid");
        std::fs::write(&file, root.id().to_string()).expect("written");
        let mut tree = Tree::of(&file, &Roots::default());
        let mut used = || tree.cpu_used().expect("it runs");
        assert_eq!(used(), None, "nothing was known before");
        until("busy");
        let running = used().expect("it is the same");
        until("ended");
        let ended = used().expect("it is the same");
        until("short");
        let short = used().expect("it is the same");
        drop(go);
        root.wait().expect("it ends");
        assert!(running >= 0.05 && short >= 0.05, "{running} {short}");
        assert!(ended < running / 2.0, "what it used counts once: {running} {ended}");
    }

    #[test]
    fn a_process_whose_name_is_not_utf_8_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let proc = folder.path().join("proc");
        let write = |path: &str, text: &[u8]| {
            let path = proc.join(path);
            std::fs::create_dir_all(path.parent().expect("below a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let stat = |name: &[u8], ticks: u32| {
            let rest = format!(") S 1 7 7 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 5 0 0\n");
            [b"7 (", name, rest.as_bytes()].concat()
        };
        write("7/stat", &stat(b"master", 0));
        write("7/task/7/children", b"8 ");
        write("8/stat", &stat(b"w\xffrker", 0));
        let file = folder.path().join("pid");
        std::fs::write(&file, "7").expect("written");
        let mut tree = Tree::of(&file, &Roots { proc: proc.clone(), ..Roots::default() });
        assert_eq!(tree.cpu_used().expect("it runs"), None);
        write("8/stat", &stat(b"w\xffrker", 500));
        let used = tree.cpu_used().expect("it runs");
        assert!(used.is_some_and(|used| used > 0.0), "{used:?}");
    }

    #[test]
    fn a_process_that_is_gone_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pid");
        let mut tree = Tree::of(&file, &Roots::default());
        let fault = |tree: &mut Tree| format!("{:#}", tree.cpu_used().expect_err("no process"));
        assert!(fault(&mut tree).contains("cannot be read"));
        std::fs::write(&file, "nobody").expect("written");
        assert!(fault(&mut tree).contains("has no number of a process"));
        std::fs::write(&file, "4194305").expect("written");
        assert!(fault(&mut tree).contains("there is no process 4194305"));
    }
}
