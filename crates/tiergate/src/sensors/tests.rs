//! Sensors against files as kernels write them, and against this machine's own.

use super::*;
use crate::config::meant::{Of, Stalled};
use std::time::Duration;
use tempfile::TempDir;

/// Files of a kernel.
struct Kernel {
    folder: TempDir,
    begun: Instant,
}

impl Kernel {
    /// One with four processors.
    fn new() -> Self {
        let kernel =
            Kernel { folder: tempfile::tempdir().expect("a folder"), begun: Instant::now() };
        kernel.write("proc/stat", "cpu  0 0 0 0 0 0 0 0\ncpu0 0\ncpu1 0\ncpu2 0\ncpu3 0\nintr 5\n");
        kernel
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("below a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    fn remove(&self, path: &str) {
        std::fs::remove_dir_all(self.folder.path().join(path)).expect("it was there");
    }

    fn probe(&self, measure: &Measure) -> Box<dyn Probe> {
        let root = self.folder.path();
        let roots = Roots { proc: root.join("proc"), sys: root.join("sys") };
        probe(measure, &roots).expect("it is of this machine")
    }

    /// What it says at a second.
    fn take(&self, probe: &mut dyn Probe, second: u64) -> Result<Option<f64>, String> {
        let taken = probe.take(self.begun + Duration::from_secs(second));
        taken.map(|it| it.map(Quantity::value)).map_err(|fault| format!("{fault:#}"))
    }
}

#[test]
fn processors_of_the_machine() {
    let kernel = Kernel::new();
    let mut probe = kernel.probe(&Measure::Cpu(Of::Machine));
    kernel.write("proc/stat", "cpu  100 0 50 850 0 0 0 0 0 0\n");
    assert_eq!(kernel.take(&mut *probe, 0), Ok(None));
    kernel.write("proc/stat", "cpu  130 0 70 880 20 0 0 0 0 0\n");
    assert_eq!(kernel.take(&mut *probe, 1), Ok(Some(0.5)));
    assert_eq!(kernel.take(&mut *probe, 2), Ok(None), "no tick has passed");
    kernel.write("proc/stat", "cpu  1 0 1 1\n");
    let fault = kernel.take(&mut *probe, 3).expect_err("it is no kernel's");
    assert!(fault.contains("has no times of all processors"), "{fault}");
}

#[test]
fn processors_of_a_control_group_of_either_version() {
    let group = Measure::Cpu(Of::Cgroup("site/web".into()));
    let v2 = Kernel::new();
    v2.write("sys/fs/cgroup/cgroup.controllers", "cpu memory");
    let mut probe = v2.probe(&group);
    let fault = v2.take(&mut *probe, 0).expect_err("no group yet");
    assert!(fault.contains("there is no control group"), "{fault}");
    v2.write("sys/fs/cgroup/site/web/cpu.stat", "usage_usec 1000000\nuser_usec 7\n");
    assert_eq!(v2.take(&mut *probe, 1), Ok(None));
    v2.write("sys/fs/cgroup/site/web/cpu.stat", "usage_usec 3000000\nuser_usec 7\n");
    assert_eq!(v2.take(&mut *probe, 2), Ok(Some(0.5)), "2 of 4 processors");
    v2.write("sys/fs/cgroup/site/web/cpu.max", "max 100000\n");
    v2.write("sys/fs/cgroup/site/web/cpu.stat", "usage_usec 4000000\n");
    assert_eq!(v2.take(&mut *probe, 3), Ok(Some(0.25)));
    v2.write("sys/fs/cgroup/site/web/cpu.max", "250000 100000\n");
    v2.write("sys/fs/cgroup/site/web/cpu.stat", "usage_usec 5000000\n");
    assert_eq!(v2.take(&mut *probe, 4), Ok(Some(0.4)), "1 of a quota of 2.5");
    v2.write("sys/fs/cgroup/site/web/cpuset.cpus.effective", "0,2-3\n");
    v2.write("sys/fs/cgroup/site/web/cpu.max", "max 100000\n");
    v2.write("sys/fs/cgroup/site/web/cpu.stat", "usage_usec 6500000\n");
    assert_eq!(v2.take(&mut *probe, 5), Ok(Some(0.5)), "1.5 of the 3 that it may run on");
    // The group is made anew, its times begin anew.
    v2.remove("sys/fs/cgroup/site");
    assert!(v2.take(&mut *probe, 6).is_err());
    v2.write("sys/fs/cgroup/site/web/cpu.stat", "usage_usec 100\n");
    assert_eq!(v2.take(&mut *probe, 7), Ok(None));

    let v1 = Kernel::new();
    let mut probe = v1.probe(&group);
    v1.write("sys/fs/cgroup/cpuacct/site/web/cpuacct.usage", "1000000000\n");
    assert_eq!(v1.take(&mut *probe, 0), Ok(None));
    v1.write("sys/fs/cgroup/cpu/site/web/cpu.cfs_quota_us", "-1\n");
    v1.write("sys/fs/cgroup/cpu/site/web/cpu.cfs_period_us", "100000\n");
    v1.write("sys/fs/cgroup/cpuacct/site/web/cpuacct.usage", "2000000000\n");
    assert_eq!(v1.take(&mut *probe, 1), Ok(Some(0.25)));
    v1.write("sys/fs/cgroup/cpu/site/web/cpu.cfs_quota_us", "200000\n");
    v1.write("sys/fs/cgroup/cpuacct/site/web/cpuacct.usage", "3000000000\n");
    assert_eq!(v1.take(&mut *probe, 2), Ok(Some(0.5)));
    v1.write("sys/fs/cgroup/cpuset/site/web/cpuset.effective_cpus", "3\n");
    v1.write("sys/fs/cgroup/cpuacct/site/web/cpuacct.usage", "3250000000\n");
    assert_eq!(v1.take(&mut *probe, 3), Ok(Some(0.25)), "of one processor");
}

#[test]
fn memory_of_machine_and_control_group() {
    let kernel = Kernel::new();
    kernel.write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 250 kB\n");
    let mut probe = kernel.probe(&Measure::Memory(Of::Machine));
    assert_eq!(kernel.take(&mut *probe, 0), Ok(Some(0.75)));
    let mut probe = kernel.probe(&Measure::Memory(Of::Cgroup("web".into())));
    kernel.write("sys/fs/cgroup/cgroup.controllers", "cpu memory");
    kernel.write("sys/fs/cgroup/web/memory.current", "307200\n");
    kernel.write("sys/fs/cgroup/web/memory.stat", "anon 1\ninactive_file 51200\n");
    kernel.write("sys/fs/cgroup/web/memory.max", "max\n");
    assert_eq!(kernel.take(&mut *probe, 0), Ok(Some(0.25)), "of the machine's");
    kernel.write("sys/fs/cgroup/web/memory.max", "512000\n");
    assert_eq!(kernel.take(&mut *probe, 1), Ok(Some(0.5)));
    kernel.write("proc/meminfo", "MemTotal: 1000 kB\n");
    let mut probe = kernel.probe(&Measure::Memory(Of::Machine));
    let fault = kernel.take(&mut *probe, 0).expect_err("an ancient kernel's");
    assert!(fault.contains("has no MemAvailable"), "{fault}");
}

#[test]
fn pressure_paging_and_disk_are_growth_of_counters() {
    let kernel = Kernel::new();
    let mut pressure = kernel.probe(&Measure::Pressure(Stalled::Io, Of::Machine));
    let mut paging = kernel.probe(&Measure::Paging);
    let mut disk = kernel.probe(&Measure::Disk("sda".to_owned()));
    let write = |pressure: u64, pages: u64, busy: u64| {
        kernel.write("proc/pressure/io", &format!("some avg10=0.00 total={pressure}\n"));
        kernel.write("proc/vmstat", &format!("pgmajfault 9\npswpin {pages}\npswpout {pages}\n"));
        kernel.write("proc/diskstats", &format!("8 0 sda 1 2 3 4 5 6 7 8 0 {busy} 9\n"));
    };
    write(1000, 10, 100);
    for probe in [&mut pressure, &mut paging, &mut disk] {
        assert_eq!(kernel.take(&mut **probe, 0), Ok(None));
    }
    write(501_000, 60, 1100);
    assert_eq!(kernel.take(&mut *pressure, 2), Ok(Some(0.25)));
    assert_eq!(kernel.take(&mut *paging, 2), Ok(Some(50.0)));
    assert_eq!(kernel.take(&mut *disk, 2), Ok(Some(0.5)));
    let mut gone = kernel.probe(&Measure::Disk("sdb".to_owned()));
    let fault = kernel.take(&mut *gone, 0).expect_err("there is no such disk");
    assert!(fault.contains("names no disk sdb"), "{fault}");
}

#[test]
fn a_link_s_speed_unless_the_policy_says_what_it_can_send() {
    let kernel = Kernel::new();
    let network = |capacity| Measure::Network { interface: "eth9".to_owned(), capacity };
    let mut probe = kernel.probe(&network(None));
    let device =
        |name: &str, sent: u64| format!("  {name}: 9 9 9 9 9 9 9 9 {sent} 9 9 9 9 9 9 9\n");
    kernel.write("proc/net/dev", &device("eth90", 7));
    let fault = kernel.take(&mut *probe, 0).expect_err("there is none");
    assert_eq!(fault, "there is no interface eth9");
    kernel.write("proc/net/dev", &(device("eth90", 7) + &device("eth9", 0)));
    kernel.write("sys/class/net/eth9/speed", "-1\n");
    let fault = kernel.take(&mut *probe, 0).expect_err("no speed");
    assert!(fault.contains("tells no speed; write capacity"), "{fault}");
    kernel.write("sys/class/net/eth9/speed", "100\n");
    let mut shaped = kernel.probe(&network(Some(10_000_000)));
    for probe in [&mut probe, &mut shaped] {
        assert_eq!(kernel.take(&mut **probe, 0), Ok(None));
    }
    kernel.write("proc/net/dev", &(device("eth90", 7) + &device("eth9", 1_250_000)));
    assert_eq!(kernel.take(&mut *probe, 2), Ok(Some(0.05)));
    assert_eq!(kernel.take(&mut *shaped, 2), Ok(Some(0.5)));
}

#[test]
fn this_machine_is_measured() {
    let begun = Instant::now();
    for measure in [Measure::Cpu(Of::Machine), Measure::Memory(Of::Machine), Measure::Paging] {
        let mut probe = probe(&measure, &Roots::default()).expect("it is of this machine");
        let first = probe.take(begun).expect("this kernel has it");
        // Until a tick has passed.
        let reading = first.or_else(|| {
            (1..200).find_map(|_| {
                std::thread::sleep(Duration::from_millis(10));
                probe.take(Instant::now()).expect("this kernel has it")
            })
        });
        let value = reading.expect("within two seconds").value();
        assert!(value >= 0.0, "{measure:?}: {value}");
    }
}
