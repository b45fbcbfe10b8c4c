//! What a process has of the kernel's programs, maps and links, by their numbers: so that tests count their own, whatever else is on the machine.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the kernel may take to end what a process had: it does so a moment after it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) programs: BTreeSet<u32>,
    pub(crate) maps: BTreeSet<u32>,
    pub(crate) links: BTreeSet<u32>,
}

impl Held {
    /// Those of a process.
    pub(crate) fn by(process: u32) -> Held {
        let mut held = Held::default();
        let descriptors = fs::read_dir(format!("/proc/{process}/fdinfo"));
        for descriptor in descriptors.into_iter().flatten().flatten() {
            let text = fs::read_to_string(descriptor.path()).unwrap_or_default();
            for (key, number) in text.lines().filter_map(|line| line.split_once(":\t")) {
                let numbers = match key {
                    "prog_id" => &mut held.programs,
                    "map_id" => &mut held.maps,
                    "link_id" => &mut held.links,
                    _ => continue,
                };
                numbers.extend(number.trim().parse::<u32>().ok());
            }
        }
        held
    }

    /// Whether there are some of each.
    pub(crate) fn is_some_of_each(&self) -> bool {
        [&self.programs, &self.maps, &self.links].iter().all(|it| !it.is_empty())
    }

    /// Asserts that the kernel has none of them any more.
    pub(crate) fn assert_gone(&self) {
        let until = Instant::now() + PATIENCE;
        while self.left() != Held::default() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(self.left(), Held::default(), "nothing is left");
    }

    fn left(&self) -> Held {
        let left = |kind, of: &BTreeSet<u32>| {
            listed(kind, "").intersection(of).copied().collect::<BTreeSet<u32>>()
        };
        Held {
            programs: left("prog", &self.programs),
            maps: left("map", &self.maps),
            links: left("link", &self.links),
        }
    }
}

/// Programs of ours that no process has.
pub(crate) fn orphans() -> BTreeSet<u32> {
    let ours = listed("prog", " name tg_");
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let number = |it: fs::DirEntry| it.file_name().to_str()?.parse().ok();
    let held: BTreeSet<u32> =
        processes.filter_map(number).flat_map(|it: u32| Held::by(it).programs).collect();
    ours.difference(&held).copied().collect()
}

/// The numbers of all there are of a kind whose line has these words.
fn listed(kind: &str, words: &str) -> BTreeSet<u32> {
    let bpftool = ["bpftool", "/usr/sbin/bpftool"];
    let list = |it: &&str| Command::new(it).args([kind, "list"]).output().ok();
    let output = bpftool.iter().find_map(list).expect("bpftool is needed here: make setup");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.contains(words));
    lines.filter_map(|line| line.split_once(':')?.0.parse().ok()).collect()
}
