//! What the policy says of the processors is given to workers, and changes with a reload while they run.

use crate::house::{
    Askers, await_ready, command, lives, of_pool, pids, policy, processors, reload, scheduling,
    share,
};
use crate::support::gateway::{Gateway, Policy, Port};
use crate::support::origin::Origin;
use crate::support::{eventually, eventually_is};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Scheduling policies as the kernel counts them.
const OTHER: i64 = 0;
const IDLE: i64 = 5;
const DEADLINE: i64 = 6;

#[test]
fn reloads_change_shares_without_a_restart_and_without_loss() {
    let Some(command) = command(&[]) else { return };
    let ports = [Port::reserve(), Port::reserve()];
    let with = |keys: &str| policy(&ports, &command, keys);
    let gateway = Gateway::start(&with("nice = 10"));
    await_ready(&gateway, 2);
    let workers = pids(&gateway, 0);
    let askers = Askers::start(gateway.address, 4, "/x");
    let both = |(nice, policy)| vec![(nice, policy); 2];
    let seen = || workers.iter().map(|pid| scheduling(*pid)).collect::<Vec<_>>();
    assert_eq!(seen(), both((10, OTHER)), "before the program began");
    reload(&gateway, &with("nice = 15\nio = \"idle\""));
    eventually_is("the nice value changes", both((15, OTHER)), seen);
    eventually("status says so", || share(&gateway, "nice")["asked"] == "15");
    eventually("its place at the disk is in force", || share(&gateway, "io")["in_force"] == true);
    reload(&gateway, &with("scheduling = \"idle\""));
    eventually_is("only when nothing else runs", vec![IDLE; 2], || {
        workers.iter().map(|pid| scheduling(*pid).1).collect::<Vec<_>>()
    });
    reload(&gateway, &with("scheduling = { slice = \"2ms\", period = \"20ms\", extra = true }"));
    let is_denied = || {
        let deadline = share(&gateway, "deadline");
        deadline["fault"].as_str().is_some_and(|it| it.contains("CAP_SYS_NICE"))
    };
    eventually("both have it, or the right is missing, which is said", || {
        is_denied() || workers.iter().all(|pid| scheduling(*pid).1 == DEADLINE)
    });
    let is_denied = is_denied();
    // Reservations that the kernel has no room for are reported, and change nothing else: two of 99 % on at most two processors.
    let bound = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
    if bound.is_ok_and(|it| !it.starts_with('-')) && processors() <= 2 {
        reload(&gateway, &with("scheduling = { slice = \"99ms\", period = \"100ms\" }"));
        eventually("it is not granted", || {
            let deadline = share(&gateway, "deadline");
            deadline["asked"].as_str().is_some_and(|it| it.starts_with("99ms"))
                && deadline["in_force"] == false
        });
    }
    reload(&gateway, &with(""));
    // To raise a priority takes a right.
    if !is_denied {
        eventually_is("it is as by default again", both((0, OTHER)), seen);
    }
    let seen = askers.answered();
    eventually("they go on", || askers.answered() > seen + 50);
    assert_eq!(askers.stop(), 0, "no request is lost");
    assert_eq!(pids(&gateway, 0), workers, "none was started again");
    gateway.assert_conserved();
}

#[test]
fn a_new_command_replaces_workers_one_at_a_time() {
    let Some(command) = command(&[]) else { return };
    let ports = [Port::reserve(), Port::reserve()];
    let gateway = Gateway::start(&policy(&ports, &command, ""));
    await_ready(&gateway, 2);
    let workers = pids(&gateway, 0);
    let askers = Askers::start(gateway.address, 4, "/x");
    let other = command.replace("\"{n}\"", "\"new-{n}\"");
    reload(&gateway, &policy(&ports, &other, ""));
    eventually("both are new", || {
        let now = pids(&gateway, 0);
        now.len() == 2 && now.iter().all(|pid| !workers.contains(pid))
    });
    await_ready(&gateway, 2);
    eventually("the new ones answer", || gateway.get("/x").text().starts_with("new-"));
    let seen = askers.answered();
    eventually("they go on", || askers.answered() > seen + 50);
    // A worker that ends loses what is in its listen queue just then.
    let lost = askers.stop();
    println!("{lost} requests were lost");
    assert!(lost <= 4, "at most one of each client: {lost}");
    assert!(workers.iter().all(|pid| !lives(*pid)));
    gateway.assert_conserved();
}

/// The command runs at the first worker alone; whether the second is what it was.
fn is_only_at_the_first(gateway: &Gateway, workers: &[u32]) -> bool {
    let now = pids(gateway, 0);
    !lives(workers[0]) && lives(workers[1]) && now.contains(&workers[1])
}

#[test]
fn a_command_that_does_not_work_takes_one_worker_and_the_next_reload_mends_it() {
    let Some(command) = command(&[]) else { return };
    let ports = [Port::reserve(), Port::reserve()];
    let gateway = Gateway::start(&policy(&ports, &command, ""));
    await_ready(&gateway, 2);
    let workers = pids(&gateway, 0);
    let askers = Askers::start(gateway.address, 4, "/x");
    let fails = |keys: &str| policy(&ports, "command = [\"false\", \"{n}\"]", keys);
    reload(&gateway, &fails(""));
    eventually("it fails again and again", || of_pool(&gateway, 0, "restarts") >= 3);
    assert!(is_only_at_the_first(&gateway, &workers));
    // Nor one that is ready at once, and then ends.
    reload(&gateway, &fails("ready = \"alive\""));
    let seen = of_pool(&gateway, 0, "restarts");
    eventually("it fails once more", || of_pool(&gateway, 0, "restarts") > seen);
    assert!(is_only_at_the_first(&gateway, &workers));
    // One that never is ready.
    reload(&gateway, &policy(&ports, "command = [\"sleep\", \"600\", \"{n}\"]", ""));
    eventually("it is tried, and is not ready", || {
        pids(&gateway, 0).len() == 2 && of_pool(&gateway, 0, "ready") == 1
    });
    assert!(is_only_at_the_first(&gateway, &workers));
    let seen = askers.answered();
    eventually("the other serves", || askers.answered() > seen + 50);
    // One that works: without waiting for the one that is not ready.
    let works = command.replace("\"{n}\"", "\"new-{n}\"");
    reload(&gateway, &policy(&ports, &works, ""));
    eventually("both are new", || workers.iter().all(|pid| !lives(*pid)));
    await_ready(&gateway, 2);
    let lost = askers.stop();
    assert!(lost <= 4, "at most one of each client: {lost}");
    gateway.assert_conserved();
}

#[test]
fn a_pool_of_another_name_takes_its_workers_place_without_failing_at_the_address() {
    let Some(command) = command(&[]) else { return };
    let (origin, port) = (Origin::echo(), Port::reserve());
    let named = |name: &str| {
        let address = port.address;
        let tables = format!(
            "[[pool]]\nname = \"{name}\"\nservers = [\"{address}\"]\n[pool.workers]\n{command}\n\
             cpu_weight = 50\n"
        );
        Policy { tables, ..Policy::of(&[origin.server()]) }
    };
    let gateway = Gateway::start(&named("one"));
    await_ready(&gateway, 1);
    for name in ["two", "one"] {
        let former = pids(&gateway, 0)[0];
        reload(&gateway, &named(name));
        eventually("another has its place", || {
            !lives(former) && of_pool(&gateway, 0, "ready") == 1
        });
        assert_eq!(of_pool(&gateway, 0, "restarts"), 0, "{}", gateway.log());
    }
    if share(&gateway, "cpu_weight")["in_force"] == true {
        let worker = pids(&gateway, 0)[0];
        let folder = group_of(worker).expect("it is in a group of ours");
        assert!(folder.display().to_string().ends_with(".one"), "{folder:?}");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(read("cpu.shares").trim() == "512" || read("cpu.weight").trim() == "50");
    }
}

/// The folder of the group that a gateway made for a process.
fn group_of(worker: u32) -> Option<PathBuf> {
    let groups = std::fs::read_to_string(format!("/proc/{worker}/cgroup")).expect("it lives");
    let path = groups
        .lines()
        .find_map(|line| line.rsplit(':').next().filter(|it| it.contains("tiergate-")))?;
    let roots = ["", "cpu", "cpu,cpuacct"].map(|it| PathBuf::from("/sys/fs/cgroup").join(it));
    let mut folders = roots.into_iter().map(|root| root.join(path.trim_start_matches('/')));
    folders.find(|it| it.is_dir())
}

#[test]
fn a_server_that_a_reload_removes_takes_its_worker_along_and_no_other() {
    let Some(command) = command(&[]) else { return };
    let ports = [Port::reserve(), Port::reserve(), Port::reserve()];
    let gateway = Gateway::start(&policy(&ports, &command, ""));
    await_ready(&gateway, 3);
    let workers = pids(&gateway, 0);
    let askers = Askers::start(gateway.address, 4, "/x");
    // With another command at the same time: the two that stay are replaced where they are.
    let other = command.replace("\"{n}\"", "\"new-{n}\"");
    reload(&gateway, &policy(&ports[1..], &other, ""));
    eventually("all of the former have ended", || workers.iter().all(|pid| !lives(*pid)));
    await_ready(&gateway, 2);
    assert_eq!((pids(&gateway, 0).len(), of_pool(&gateway, 0, "restarts")), (2, 0));
    let seen = askers.answered();
    eventually("they go on", || askers.answered() > seen + 50);
    assert_eq!(askers.stop(), 0, "each got no more requests before it ended");
    gateway.assert_conserved();
}

#[test]
fn a_slice_takes_the_former_priority_from_the_other_processes_of_a_worker() {
    let (origin, port) = (Origin::echo(), Port::reserve());
    let with = |keys: &str| {
        let address = port.address;
        let tables = format!(
            "[[pool]]\nname = \"two\"\nservers = [\"{address}\"]\n[pool.workers]\n\
             command = [\"sh\", \"-c\", \"sleep 600 & wait\"]\nready = \"alive\"\n{keys}\n"
        );
        Policy { tables, ..Policy::of(&[origin.server()]) }
    };
    let gateway = Gateway::start(&with("nice = 10"));
    await_ready(&gateway, 1);
    let worker = pids(&gateway, 0)[0];
    let children = || {
        let file = format!("/proc/{worker}/task/{worker}/children");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.split_ascii_whitespace().filter_map(|it| it.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    eventually("it has a child", || children().len() == 1);
    let child = children()[0];
    assert_eq!(scheduling(child), (10, OTHER));
    reload(&gateway, &with("scheduling = { slice = \"1ms\", period = \"100ms\" }"));
    eventually("the slice is the worker's alone, if there is the right to it", || {
        let deadline = share(&gateway, "deadline");
        let has = scheduling(worker).1 == DEADLINE && scheduling(child) == (0, OTHER);
        has || deadline["fault"].as_str().is_some_and(|it| it.contains("CAP_SYS_NICE"))
    });
}

#[test]
fn a_worker_has_the_limit_of_open_files_that_was_set_for_it() {
    let port = Port::reserve();
    let says = "command = [\"sh\", \"-c\", \"echo files=$(ulimit -Sn); sleep 600\"]";
    let folder = tempfile::tempdir().expect("a folder");
    let policy = policy(&[port], says, "ready = \"alive\"");
    let gateway = Gateway::start_under("ulimit -Sn 700", &policy, folder.path());
    eventually("it says so", || gateway.log().contains("files=700"));
}

#[test]
fn weight_and_quota_are_of_a_control_group_that_goes_with_the_gateway() {
    let Some(command) = command(&[]) else { return };
    let ports = [Port::reserve()];
    let mut gateway =
        Gateway::start(&policy(&ports, &command, "cpu_weight = 50\ncpu_quota = \"50%\""));
    await_ready(&gateway, 1);
    let [weight, quota] = ["cpu_weight", "cpu_quota"].map(|name| share(&gateway, name));
    let worker = pids(&gateway, 0)[0];
    if weight["in_force"] != true {
        assert!(weight["fault"].is_string() && quota["fault"].is_string(), "{weight} {quota}");
        assert_eq!(gateway.get("/x").status, 200, "it serves nevertheless");
        return;
    }
    let folder = group_of(worker).expect("it is in a group of ours");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let v1 = (read("cpu.shares"), read("cpu.cfs_quota_us"));
    let is_v1 = (v1.0.trim(), v1.1.trim()) == ("512", "50000");
    assert!(is_v1 || read("cpu.weight").trim() == "50", "{v1:?}");
    reload(&gateway, &policy(&ports, &command, "cpu_weight = 200"));
    eventually("the reload changes it", || {
        read("cpu.shares").trim() == "2048" || read("cpu.weight").trim() == "200"
    });
    eventually("a quota that is not said any more binds no longer", || {
        read("cpu.cfs_quota_us").trim() == "-1" || read("cpu.max").starts_with("max")
    });
    assert_eq!(pids(&gateway, 0), [worker]);
    gateway.drain();
    assert!(!folder.exists(), "nothing is left behind");
}

fn sleeping() -> Child {
    Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("it is everywhere")
}

/// A process in a control group of its own; both are gone afterwards.
struct Others {
    sleeps: Child,
    name: String,
    folder: PathBuf,
}

impl Others {
    /// `None`: there is no right to make a group.
    fn start(name: &str) -> Option<Self> {
        let others = Self::without_group(name)?;
        others.make_group().then_some(others)
    }

    /// The process alone; the group is to come.
    fn without_group(name: &str) -> Option<Self> {
        let roots = ["cpu", "cpu,cpuacct", ""].map(|it| PathBuf::from("/sys/fs/cgroup").join(it));
        let root = roots.into_iter().find(|it| it.join("cgroup.procs").exists())?;
        let name = format!("{name}-{}", std::process::id());
        let folder = root.join(&name);
        let sleeps = sleeping();
        Some(Others { sleeps, name, folder })
    }

    /// Whether there is the right to.
    fn make_group(&self) -> bool {
        if std::fs::create_dir(&self.folder).is_err() {
            eprintln!("skipped: no right to make a control group");
            return false;
        }
        let procs = self.folder.join("cgroup.procs");
        std::fs::write(procs, self.sleeps.id().to_string()).expect("our own group");
        true
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        let _ = self.sleeps.kill();
        let _ = self.sleeps.wait();
        let _ = std::fs::remove_dir(&self.folder);
    }
}

fn of_others(port: &Port, keys: &str) -> Policy {
    let origin = format!("slots = 10\n[origin.workers]\n{keys}");
    Policy { origin, ..Policy::of(&[port.address.to_string()]) }
}

#[test]
fn processes_of_a_control_group_are_given_shares() {
    let Some(others) = Others::start("of-others") else { return };
    let (port, pid) = (Port::reserve(), others.sleeps.id());
    let keys = format!("cgroup = \"/{}\"\nnice = 7\n", others.name);
    let mut gateway = Gateway::start(&of_others(&port, &keys));
    eventually_is("they have it", (7, OTHER), || scheduling(pid));
    eventually_is("they are counted", 1, || of_pool(&gateway, 0, "alive"));
    assert_eq!(of_pool(&gateway, 0, "wanted"), 0);
    let weight = || std::fs::read_to_string(others.folder.join("cpu.shares")).unwrap_or_default();
    // Of version 1; that of others, not the kernel's.
    let _ = std::fs::write(others.folder.join("cpu.shares"), "3072");
    let had = weight();
    reload(&gateway, &of_others(&port, &keys.replace("nice = 7", "nice = 9\ncpu_weight = 50")));
    eventually_is("a reload changes it", (9, OTHER), || scheduling(pid));
    eventually("and its weight", || had.is_empty() || weight().trim() == "512");
    reload(&gateway, &of_others(&port, &keys));
    eventually_is("the weight is what it was", had.clone(), weight);
    gateway.drain();
    assert!(lives(pid), "they are of others");
}

#[test]
fn a_control_group_may_come_after_the_gateway() {
    let Some(others) = Others::without_group("late") else { return };
    let (port, pid) = (Port::reserve(), others.sleeps.id());
    let keys = format!("cgroup = \"/{}\"\nnice = 7\ncpu_weight = 50\n", others.name);
    let gateway = Gateway::start(&of_others(&port, &keys));
    eventually("that is said", || gateway.log().contains("there is no control group"));
    if !others.make_group() {
        return;
    }
    eventually_is("they have it", (7, OTHER), || scheduling(pid));
    let read = |name: &str| std::fs::read_to_string(others.folder.join(name)).unwrap_or_default();
    let has_weight = ["cpu.shares", "cpu.weight"].iter().any(|it| others.folder.join(it).exists());
    eventually("and their group its weight, if it can have one", || {
        !has_weight || read("cpu.shares").trim() == "512" || read("cpu.weight").trim() == "50"
    });
    // What a process sets itself stays: also when another has come and has its own.
    let own = rustix::process::Pid::from_raw(pid as i32);
    rustix::process::setpriority_process(own, 12).expect("lower needs no right");
    let next = Others { sleeps: sleeping(), name: String::new(), folder: PathBuf::new() };
    let procs = others.folder.join("cgroup.procs");
    std::fs::write(procs, next.sleeps.id().to_string()).expect("our own group");
    eventually_is("the next has it", (7, OTHER), || scheduling(next.sleeps.id()));
    assert_eq!(scheduling(pid).0, 12);
}

#[test]
fn processes_of_a_unit_are_found_and_bounded_by_systemd() {
    let Some(others) = Others::start("of-unit") else { return };
    let (port, folder) = (Port::reserve(), tempfile::tempdir().expect("a folder"));
    let (program, told) = (folder.path().join("systemctl"), folder.path().join("told"));
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}\ncase \"$*\" in show*CPUQuotaPerSecUSec*) echo 300ms ;; \
         show*) echo /{} ;; esac\n",
        told.display(),
        others.name
    );
    std::fs::write(&program, script).expect("our own folder");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).expect("our own file");
    let policy = of_others(&port, "unit = \"app.service\"\nnice = 7\ncpu_quota = \"150%\"\n");
    let path = format!("export PATH={}:$PATH", folder.path().display());
    let gateway = Gateway::start_under(&path, &policy, folder.path());
    eventually_is("they have it", (7, OTHER), || scheduling(others.sleeps.id()));
    eventually("systemd was told", || share(&gateway, "cpu_quota")["in_force"] == true);
    let count = |wanted: &str| {
        let told = std::fs::read_to_string(&told).expect("it was asked");
        told.lines().filter(|line| *line == wanted).count()
    };
    assert_eq!(count("set-property --runtime -- app.service CPUQuota=150%"), 1);
    reload(&gateway, &of_others(&port, "unit = \"app.service\"\nnice = 7\n"));
    eventually_is("it has what it had again", 1, || {
        count("set-property --runtime -- app.service CPUQuota=30%")
    });
}
