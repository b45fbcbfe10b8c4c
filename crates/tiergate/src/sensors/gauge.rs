//! Readings whenever they are asked for, for programs other than the gateway.

use super::disk::Disk;
use super::growth::Growth;
use super::listen_queue;
use super::network::Network;
use super::probe::{Probe, Roots, processors, text};
use super::process_tree::{First, Tree};
use crate::config::meant::Measure;
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// What takes readings of one thing.
pub(crate) struct Gauge(Box<dyn Probe>);

impl Gauge {
    /// Of what a sensor may measure.
    pub(crate) fn of(measure: &Measure) -> Self {
        Gauge(super::probe(measure, &Roots::default()).expect("asked for what this machine has"))
    }

    /// Of an interface, the fuller direction. `capacity`: bits a second; `None`: the link's speed.
    pub(crate) fn link(interface: &str, capacity: Option<u64>) -> Self {
        Gauge(Box::new(Network::both_ways(interface, capacity, &Roots::default())))
    }

    /// The busiest disk of the machine.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn busiest_disk() -> Result<Self> {
        let roots = Roots::default();
        let folder = roots.sys.join("block");
        let fault = || format!("{} cannot be read", folder.display());
        let entries = std::fs::read_dir(&folder).with_context(fault)?.flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let disks: Vec<Disk> =
            names.filter(|name| is_disk(name)).map(|name| Disk::new(&name, &roots)).collect();
        ensure!(!disks.is_empty(), "{} names no disk", folder.display());
        Ok(Gauge(Box::new(BusiestDisk(disks))))
    }

    /// A reading; `None`: only with the next one will there be something to compare.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(crate) fn take(&mut self, at: Instant) -> Result<Option<f64>> {
        Ok(self.0.take(at)?.map(|quantity| quantity.value()))
    }
}

/// Whether a block device is a disk, and not memory, a file, or a drive for media.
fn is_disk(name: &str) -> bool {
    !["loop", "ram", "zram", "sr", "fd"].iter().any(|other| name.starts_with(other))
}

struct BusiestDisk(Vec<Disk>);

impl Probe for BusiestDisk {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        let mut busiest: Option<Quantity> = None;
        for disk in &mut self.0 {
            let reading = disk.take(at)?;
            let is_busier = |one: Quantity| reading.is_some_and(|it| it.value() > one.value());
            busiest = if busiest.is_none_or(is_busier) { reading } else { busiest };
        }
        Ok(busiest)
    }
}

/// A process and its descendants: what they use of the processors that it may run on, and what their busiest thread uses of one.
pub(crate) struct Process {
    tree: Tree,
    roots: Roots,
    last: Option<Instant>,
    /// Of each thread, time on a processor and waiting for one, in ns.
    threads: HashMap<u32, [Growth; 2]>,
}

/// What a process and its descendants use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    /// Of all processors that it may run on, 0.0 to 1.0.
    pub(crate) processors: f64,
    /// What the busiest thread uses of one, 0.0 to 1.0; `None`: the kernel does not tell.
    pub(crate) thread: Option<f64>,
    /// The largest share of time in which a thread used a processor or waited for one.
    pub(crate) wanted: Option<f64>,
}

impl Process {
    /// That process.
    pub(crate) fn new(first: First) -> Self {
        let roots = Roots::default();
        Process { tree: Tree::below(first, &roots), roots, last: None, threads: HashMap::new() }
    }

    /// A reading; `None`: only with the next one will there be something to compare.
    ///
    /// # Errors
    /// Why there is no reading, in words.
    pub(crate) fn take(&mut self, at: Instant) -> Result<Option<Used>> {
        let used = self.tree.cpu_used()?;
        let before = self.last.replace(at);
        let (thread, wanted) = self.busiest_thread(at);
        let Some((used_s, before)) = used.zip(before) else { return Ok(None) };
        let seconds = at.saturating_duration_since(before).as_secs_f64().max(1e-3);
        let machine = processors(&self.roots)?;
        let allowed = self.tree.processors_allowed().unwrap_or(machine).min(machine);
        let share = used_s / seconds / f64::from(allowed);
        Ok(Some(Used { processors: share.clamp(0.0, 1.0), thread, wanted }))
    }

    fn busiest_thread(&mut self, at: Instant) -> (Option<f64>, Option<f64>) {
        let mut known = std::mem::take(&mut self.threads);
        let (mut busiest, mut wanting): (Option<f64>, Option<f64>) = (None, None);
        for pid in self.tree.pids() {
            let tasks = self.roots.proc.join(pid.to_string()).join("task");
            for task in std::fs::read_dir(tasks).into_iter().flatten().flatten() {
                let Some(id) = task.file_name().to_str().and_then(|it| it.parse().ok()) else {
                    continue;
                };
                let Some(times_ns) = times_ns(&task.path().join("schedstat")) else { continue };
                let mut growth = known.remove(&id).unwrap_or_default();
                let [ran, waited] = [0, 1].map(|it| growth[it].per_second(at, times_ns[it]));
                if let Some((ran, waited)) = ran.zip(waited) {
                    let more = |most: Option<f64>, ns: f64| {
                        Some((ns / 1e9).min(1.0).max(most.unwrap_or(0.0)))
                    };
                    (busiest, wanting) = (more(busiest, ran), more(wanting, ran + waited));
                }
                self.threads.insert(id, growth);
            }
        }
        (busiest, wanting)
    }
}

/// How many processors this machine has; `None`: the kernel does not tell.
pub(crate) fn machine_processors() -> Option<u32> {
    processors(&Roots::default()).ok()
}

/// Time that a thread has been on a processor, and time that it has waited for one, in ns.
pub(crate) fn times_ns(schedstat: &Path) -> Option<[u64; 2]> {
    let text = text(schedstat).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(|it| it.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

/// The processes that listen at an address of this network namespace, as far as this process may see their files; those whose
/// parent does too are left out, as is systemd where it has only opened the socket for another.
///
/// # Errors
/// If the kernel's tables cannot be read.
pub(crate) fn listening_processes(address: SocketAddr) -> Result<Vec<u32>> {
    let roots = Roots::default();
    let inodes = listen_queue::inodes(address, &roots)?;
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let holds = |folder: &Path| {
        let files = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        links.any(|link| link.to_str().is_some_and(|link| wanted.iter().any(|it| it == link)))
    };
    let processes = std::fs::read_dir(&roots.proc).context("/proc cannot be read")?.flatten();
    let mut found: HashMap<u32, u32> = HashMap::new();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        if !wanted.is_empty() && holds(&process.path()) {
            found.insert(pid, parent(&process.path()).unwrap_or(0));
        }
    }
    let is_opener =
        |pid: u32| text(&roots.proc.join(format!("{pid}/comm"))).is_ok_and(|it| it == "systemd\n");
    if found.keys().any(|pid| !is_opener(*pid)) {
        found.retain(|pid, _| !is_opener(*pid));
    }
    let mut first: Vec<u32> = found.keys().copied().collect();
    first.retain(|pid| !found.contains_key(&found[pid]));
    first.sort_unstable();
    Ok(first)
}

fn parent(folder: &Path) -> Option<u32> {
    let stat = text(&folder.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_listens_is_found_and_its_busiest_thread_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("bound");
        let me = std::process::id();
        assert_eq!(listening_processes(address).expect("readable"), [me]);
        let mut process = Process::new(First::Pid(me));
        assert_eq!(process.take(Instant::now()).expect("it runs"), None);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(60) {
            std::hint::black_box(begun.elapsed());
        }
        let used = process.take(Instant::now()).expect("it runs").expect("known before");
        // Kernels without statistics of scheduling do not tell.
        assert!(used.thread.is_none_or(|share| share > 0.1), "{used:?}");
        assert!(used.wanted >= used.thread, "{used:?}");
        drop(listener);
        // A child of another test may have it until it is another program.
        let until = Instant::now() + Duration::from_secs(5);
        while listening_processes(address).is_ok_and(|it| !it.is_empty()) && Instant::now() < until
        {
            std::thread::yield_now();
        }
        assert_eq!(listening_processes(address).expect("readable"), [] as [u32; 0]);
    }

    #[test]
    fn disks_are_not_memory_and_files() {
        let names = ["sda", "nvme0n1", "vda", "loop3", "ram0", "zram0", "sr0"];
        assert_eq!(names.map(is_disk), [true, true, true, false, false, false, false]);
    }
}
