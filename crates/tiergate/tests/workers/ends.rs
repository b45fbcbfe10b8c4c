//! Workers end with what started them: their table, the policy that asks for fewer, the gateway.

use crate::house::{Askers, await_ready, command, lives, pids, policy, reload, used};
use crate::support::gateway::{Gateway, Policy, Port};
use crate::support::origin::Origin;
use crate::support::{eventually, eventually_is};

#[test]
fn fewer_workers_and_then_none_without_loss() {
    let Some(command) = command(&[]) else { return };
    let ports = [Port::reserve(), Port::reserve(), Port::reserve()];
    let gateway = Gateway::start(&policy(&ports, &command, ""));
    await_ready(&gateway, 3);
    let workers = pids(&gateway, 0);
    let askers = Askers::start(gateway.address, 4, "/x");
    reload(&gateway, &policy(&ports[..1], &command, ""));
    eventually("two end", || workers.iter().filter(|pid| lives(**pid)).count() == 1);
    eventually_is("one is left", workers[..1].to_vec(), || pids(&gateway, 0));
    // Others serve from now on.
    let origin = Origin::echo();
    let before = askers.answered();
    reload(&gateway, &Policy::of(&[origin.server()]));
    eventually("the last one ends", || !lives(workers[0]));
    eventually("they go on", || askers.answered() > before + 50);
    assert_eq!(askers.stop(), 0, "no request is lost");
    assert!(gateway.status().get("workers").is_none());
    gateway.assert_conserved();
}

/// The processes whose command line has a text.
fn with(text: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("it is there").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(has).filter(|pid| lives(*pid)).collect()
}

#[test]
fn a_worker_that_does_not_end_is_killed_with_its_children() {
    let (origin, port) = (Origin::echo(), Port::reserve());
    // The shell and its child both ignore SIGTERM.
    let mark = format!("{}{}", 7_000_000 + std::process::id(), 1);
    let script = format!("trap '' TERM; sleep {mark} & wait; sleep {mark}");
    let tables = format!(
        "[[pool]]\nname = \"stubborn\"\nservers = [\"{}\"]\n[pool.workers]\n\
         command = [\"sh\", \"-c\", {script:?}]\nready = \"alive\"\nstop_max = \"200ms\"\n",
        port.address
    );
    let base = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&Policy { tables, ..base.clone() });
    await_ready(&gateway, 1);
    eventually("the child runs", || with(&mark).len() == 2);
    reload(&gateway, &base);
    eventually("both are killed", || with(&mark).is_empty());
    assert_eq!(gateway.get("/x").status, 200);
}

#[test]
fn a_gateway_that_is_killed_takes_its_workers_along() {
    let Some(command) = command(&[]) else { return };
    let ports = [Port::reserve(), Port::reserve()];
    let mut gateway = Gateway::start(&policy(&ports, &command, ""));
    await_ready(&gateway, 2);
    let workers = pids(&gateway, 0);
    assert!(workers.len() == 2 && workers.iter().all(|pid| lives(*pid)));
    gateway.process.kill();
    eventually("they end", || workers.iter().all(|pid| !lives(*pid)));
}

#[test]
fn a_worker_is_asked_to_end_once_and_its_child_may_finish() {
    let (origin, port) = (Origin::echo(), Port::reserve());
    let folder = tempfile::tempdir().expect("a folder");
    let [set, asked, done] = ["set", "asked", "done"].map(|name| folder.path().join(name));
    // The first ends at once, its child finishes what it is at: some rounds more after it was asked.
    let script = format!(
        "( trap 'echo asked >> {0}' TERM; touch {1}; until [ -e {0} ]; do sleep 0.05; done; \
         for i in 1 2 3 4 5 6; do sleep 0.1; done; touch {2} ) & sleep 600",
        asked.display(),
        set.display(),
        done.display()
    );
    let tables = format!(
        "[[pool]]\nname = \"finishing\"\nservers = [\"{}\"]\n[pool.workers]\n\
         command = [\"sh\", \"-c\", {script:?}]\nready = \"alive\"\n",
        port.address
    );
    let base = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&Policy { tables, ..base.clone() });
    await_ready(&gateway, 1);
    let worker = pids(&gateway, 0)[0];
    eventually("its child has begun", || set.exists());
    reload(&gateway, &base);
    eventually("the first ends", || !lives(worker));
    eventually("its child has finished", || done.exists());
    let asked = std::fs::read_to_string(asked).unwrap_or_default();
    assert_eq!(asked.lines().count(), 1, "{}", gateway.log());
}

#[test]
fn a_worker_that_prints_without_end_fills_neither_log_nor_processor() {
    let (origin, port) = (Origin::echo(), Port::reserve());
    let tables = format!(
        "[[pool]]\nname = \"loud\"\nservers = [\"{}\"]\n[pool.workers]\n\
         command = [\"yes\", \"loud and clear\"]\nready = \"alive\"\n",
        port.address
    );
    let gateway = Gateway::start(&Policy { tables, ..Policy::of(&[origin.server()]) });
    await_ready(&gateway, 1);
    let lines = || gateway.log().lines().filter(|line| line.contains("loud and clear")).count();
    eventually("it prints", || lines() > 0);
    let (before, used_before) = (lines(), used(gateway.process.id()));
    let begun = std::time::Instant::now();
    eventually("it is said how many lines are left out", || gateway.log().contains("left out"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    let seconds = begun.elapsed().as_secs() as usize;
    let logged = lines() - before;
    assert!(logged <= 100 * (seconds + 2), "{logged} lines in {seconds} s");
    // In ticks of ten milliseconds: 64 KiB in 50 ms are little work.
    let ticks = used(gateway.process.id()) - used_before;
    assert!((ticks as usize) < 50 * (seconds + 1), "{ticks} ticks in {seconds} s");
    assert_eq!(gateway.get("/x").status, 200);
}
