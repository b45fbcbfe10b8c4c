//! Which processes and threads there are, by `/proc`.

use std::path::Path;

/// Most processes of a pool that are looked at.
pub(super) const PROCESSES_MAX: usize = 4096;

/// The processes of a process group that have not ended, by the number of the one that leads it, which comes first.
pub(super) fn of_process_group(group: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let lives = |pid: &u32| process_group(*pid).is_some_and(|(of, lives)| of == group && lives);
    let mut found: Vec<u32> = pids.filter(lives).take(PROCESSES_MAX).collect();
    found.sort_by_key(|pid| *pid != group);
    found
}

/// The process group of a process, and whether it has not ended.
fn process_group(pid: u32) -> Option<(u32, bool)> {
    let text = fields(&format!("/proc/{pid}/stat"))?;
    let mut fields = text.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((group, !matches!(state, "Z" | "X")))
}

/// When a process was started, in ticks since the machine was: no other of its number has the same.
pub(super) fn started(pid: u32) -> Option<u64> {
    stat(&format!("/proc/{pid}/stat"), 19)
}

/// The nice value and the scheduling policy of a thread, as the kernel shows them.
pub(super) fn scheduling(pid: u32) -> Option<(i32, u32)> {
    let path = format!("/proc/{pid}/stat");
    Some((stat(&path, 16)?, stat(&path, 38)?))
}

/// A field of a stat file; they are counted behind the name, from 0.
fn stat<T: std::str::FromStr>(path: &str, field: usize) -> Option<T> {
    fields(path)?.split_ascii_whitespace().nth(field)?.parse().ok()
}

/// What stands behind the name in a stat file.
fn fields(path: &str) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // The name in brackets may contain both blanks and brackets.
    text.rsplit_once(')').map(|(_, rest)| rest.to_owned())
}

/// The threads of a process, the first one first.
pub(super) fn of_process(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ids = tasks.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut threads = vec![pid];
    threads.extend(ids.filter(|thread| *thread != pid));
    threads
}

/// The processes of a control group, and of the groups below it.
pub(super) fn of_group(folder: &Path) -> Vec<u32> {
    let (mut left, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = left.pop() {
        let listed = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        found.extend(listed.lines().filter_map(|pid| pid.parse::<u32>().ok()));
        if found.len() + left.len() > PROCESSES_MAX {
            found.truncate(PROCESSES_MAX);
            break;
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(folders.map(|entry| entry.path()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_its_group_and_has_its_threads() {
        let pid = std::process::id();
        let (group, lives) = process_group(pid).expect("it has one");
        assert!(lives && of_process_group(group).contains(&pid));
        assert!(started(pid).is_some_and(|it| it > 0));
        assert_eq!(of_process(pid)[0], pid);
        assert!(scheduling(pid).is_some_and(|(nice, _)| (-20..=19).contains(&nice)));
    }
}
