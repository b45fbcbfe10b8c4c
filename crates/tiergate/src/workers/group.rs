//! Control groups, of version 2 or 1: one of our own for the workers of a pool, or one that is there.

use super::threads;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How long a period of a quota is, in µs: the kernel's own choice.
const PERIOD_US: u64 = 100_000;
/// Shortest quota in µs that the kernel takes.
const QUOTA_US_MIN: u64 = 1000;

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    /// `/sys/fs/cgroup`.
    pub(super) groups: PathBuf,
    /// `/proc/self/cgroup`.
    pub(super) own: PathBuf,
    /// `/run/systemd/system`, which is there where systemd runs, and the groups are its own but for those that it has left to others.
    pub(super) systemd: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots {
            groups: "/sys/fs/cgroup".into(),
            own: "/proc/self/cgroup".into(),
            systemd: "/run/systemd/system".into(),
        }
    }
}

impl Roots {
    fn is_unified(&self) -> bool {
        self.groups.join("cgroup.controllers").exists()
    }

    /// Whether groups may be made below that one: nobody else looks after it, or who does has left it to its processes (`Delegate=`).
    fn may_make_below(&self, parent: &Path) -> bool {
        let is_delegated = |name: &str| {
            let mut value = [0; 8];
            let read = rustix::fs::getxattr(parent, name, &mut value[..]);
            read.is_ok_and(|len| value[..len] == *b"1")
        };
        !self.systemd.exists()
            || ["user.delegate", "trusted.delegate"].into_iter().any(is_delegated)
    }

    /// The folder of the version 1 controller of processors.
    fn cpu(&self) -> Result<PathBuf> {
        let folders = ["cpu", "cpu,cpuacct"].map(|name| self.groups.join(name));
        let found = folders.into_iter().find(|folder| folder.is_dir());
        found.with_context(|| {
            format!("there is no controller `cpu` below {}", self.groups.display())
        })
    }

    /// The group of this process: `/a/b` without the first `/`.
    fn own_group(&self) -> Result<PathBuf> {
        let fault = || format!("{} cannot be read", self.own.display());
        let text = std::fs::read_to_string(&self.own).with_context(fault)?;
        let is_ours = |controllers: &str| match self.is_unified() {
            true => controllers.is_empty(),
            false => controllers.split(',').any(|name| name == "cpu"),
        };
        let line = text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            is_ours(controllers).then(|| PathBuf::from(path.trim_start_matches('/')))
        });
        line.with_context(|| format!("{} has no group for processors", self.own.display()))
    }
}

/// A control group.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
    is_unified: bool,
    /// Whether it was made here, and is removed in the end.
    is_own: bool,
}

impl Group {
    /// Makes one for the workers of a pool, beside or below that of the gateway. Removes those that former gateways left behind.
    ///
    /// # Errors
    /// Why it cannot be made, and what to do.
    pub(super) fn make(pool: &str, roots: &Roots) -> Result<Self> {
        let own = roots.own_group()?;
        // Each has a number: a pool that comes back must not have the group of its predecessor, which goes with that.
        let name = || {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            format!("{PREFIX}{}.{number}.{pool}", std::process::id())
        };
        let is_unified = roots.is_unified();
        let parents = match is_unified {
            false => vec![roots.cpu()?.join(&own)],
            // A group with processes of its own can have none below it that share processors: then beside it.
            true => {
                let mut parents = vec![roots.groups.join(&own)];
                parents.extend(own.parent().map(|parent| roots.groups.join(parent)));
                parents
            }
        };
        let mut last = None;
        for parent in parents {
            if is_unified && !roots.may_make_below(&parent) {
                let whose = anyhow!(
                    "{} is systemd's, which has not left it to the gateway",
                    parent.display()
                );
                last = Some(last.unwrap_or(whose));
                continue;
            }
            sweep(&parent);
            match make_below(&parent, name, is_unified) {
                Ok(folder) => return Ok(Group { folder, is_unified, is_own: true }),
                Err(fault) => last = Some(fault),
            }
        }
        let fault = last.expect("there is at least one parent");
        let how = "the gateway's unit needs Delegate=cpu and DelegateSubgroup=gateway, or the gateway root's rights";
        Err(fault.context(how))
    }

    /// The one at a path below the root.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn at(below: &Path, roots: &Roots) -> Result<Self> {
        let is_unified = roots.is_unified();
        // In version 1, systemd makes the groups of processors only for units that have shares of them.
        let hierarchies: &[&str] =
            if is_unified { &[""] } else { &["cpu", "cpu,cpuacct", "systemd"] };
        let mut folders = hierarchies.iter().map(|name| roots.groups.join(name).join(below));
        let fault = || {
            let (below, groups) = (below.display(), roots.groups.display());
            format!("there is no control group /{below} below {groups}")
        };
        let folder = folders.find(|folder| folder.is_dir()).with_context(fault)?;
        Ok(Group { folder, is_unified, is_own: false })
    }

    /// Whether weight and quota can be written.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn is_writable(&self) -> Result<()> {
        for (file, text) in self.settings().into_iter().flatten().flatten() {
            self.write(file, &text)?;
        }
        let is_there = self.settings().into_iter().all(|it| it.is_some());
        ensure!(is_there, "{} has no files of a processor controller", self.folder.display());
        Ok(())
    }

    /// What its weight and its quota are now, as its files have them; `None`: they cannot be read.
    pub(super) fn settings(&self) -> [Option<Vec<(&'static str, String)>>; 2] {
        let files: [&[&'static str]; 2] = match self.is_unified {
            true => [&["cpu.weight"], &["cpu.max"]],
            false => [&["cpu.shares"], &["cpu.cfs_period_us", "cpu.cfs_quota_us"]],
        };
        let read = |file: &'static str| {
            let text = std::fs::read_to_string(self.folder.join(file)).ok()?;
            Some((file, text.trim().to_owned()))
        };
        files.map(|files| files.iter().map(|file| read(file)).collect())
    }

    /// Makes a setting what it was.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn restore(&self, files: &[(&'static str, String)]) -> Result<()> {
        files.iter().try_for_each(|(file, text)| self.write(file, text))
    }

    /// Gives it this weight.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn set_weight(&self, weight: u32) -> Result<()> {
        match self.is_unified {
            true => self.write("cpu.weight", &weight.to_string()),
            // Version 1 counts from 1024 where version 2 does from 100.
            false => {
                let shares = (u64::from(weight) * 1024 / 100).clamp(2, 262_144);
                self.write("cpu.shares", &shares.to_string())
            }
        }
    }

    /// Bounds it to so many processors.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn set_quota(&self, processors: f64) -> Result<()> {
        let quota = ((processors * PERIOD_US as f64) as u64).max(QUOTA_US_MIN);
        match self.is_unified {
            true => self.write("cpu.max", &format!("{quota} {PERIOD_US}")),
            false => {
                self.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                self.write("cpu.cfs_quota_us", &quota.to_string())
            }
        }
    }

    /// Takes a process in, with all its threads.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn add(&self, process: u32) -> Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    /// What tells it from others that had its name before, or will.
    ///
    /// # Errors
    /// It is gone.
    pub(super) fn id(&self) -> Result<u64> {
        let fault = || format!("the control group {} is gone", self.folder.display());
        std::fs::metadata(&self.folder).map(|it| it.ino()).with_context(fault)
    }

    /// The processes in it and below it.
    pub(super) fn processes(&self) -> Vec<u32> {
        threads::of_group(&self.folder)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        write(&path, text)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.is_own
            && let Err(error) = std::fs::remove_dir(&self.folder)
        {
            tracing::warn!("the control group {} stays: {error}", self.folder.display());
        }
    }
}

/// How the names of our groups begin; then comes the gateway's process.
const PREFIX: &str = "tiergate-";
/// The number of the next one.
static NEXT: AtomicU32 = AtomicU32::new(1);

fn make_below(parent: &Path, name: impl Fn() -> String, is_unified: bool) -> Result<PathBuf> {
    let control = parent.join("cgroup.subtree_control");
    if is_unified {
        let enabled = std::fs::read_to_string(&control).unwrap_or_default();
        if !enabled.split_ascii_whitespace().any(|name| name == "cpu") {
            write(&control, "+cpu")?;
        }
    }
    let folder = parent.join(name());
    match std::fs::create_dir(&folder) {
        // One of a gateway that had our number, with what that gave it: the next is free, or the one after it.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let folder = parent.join(name());
            std::fs::create_dir(&folder)
                .with_context(|| format!("{} cannot be made", folder.display()))?;
            Ok(folder)
        }
        Err(error) => bail!("{} cannot be made: {error}", folder.display()),
        Ok(()) => Ok(folder),
    }
}

/// Removes the empty groups of gateways that are gone.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('.'));
        let is_gone =
            |pid: &str| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists();
        if of.is_some_and(|(pid, _)| is_gone(pid)) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let open = std::fs::OpenOptions::new().write(true).open(path);
    let done = open.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    done.with_context(|| format!("{} cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder with files as the kernel would have them, of the groups given.
    fn tree(own: &str, files: &[&str]) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name| folder.path().join(name);
        let roots = Roots { groups: at("cgroup"), own: at("own"), systemd: at("systemd") };
        fs::write(&roots.own, own).expect("written");
        for file in files {
            let path = roots.groups.join(file);
            fs::create_dir_all(path.parent().expect("below a folder")).expect("made");
            fs::write(path, "").expect("written");
        }
        (folder, roots)
    }

    fn read(group: &Group, file: &str) -> String {
        fs::read_to_string(group.folder.join(file)).expect("it is there")
    }

    #[test]
    fn weight_and_quota_are_written_as_each_version_has_them() {
        let files = ["cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cgroup.procs"];
        let files = files.map(|file| format!("cpu/app/{file}"));
        let (_folder, roots) = tree("3:cpu:/\n", &files.each_ref().map(|it| &**it));
        let group = Group::at(Path::new("app"), &roots).expect("it is there");
        for (file, text) in files.each_ref().iter().zip(["512", "-1", "50000", ""]) {
            fs::write(roots.groups.join(file), text).expect("written");
        }
        let before = group.settings();
        group.set_weight(1000).expect("written");
        group.set_quota(1.5).expect("written");
        group.add(7).expect("written");
        assert_eq!(
            files
                .each_ref()
                .map(|file| { fs::read_to_string(roots.groups.join(file)).expect("it is there") }),
            ["10240", "150000", "100000", "7"]
        );
        for files in before {
            group.restore(&files.expect("they were there")).expect("written");
        }
        // A file of the kernel's is not written over from its beginning, as these are.
        assert!(read(&group, "cpu.shares").starts_with("512"), "as it was");
        assert!(read(&group, "cpu.cfs_quota_us").starts_with("-1"), "as it was");

        let files = ["cgroup.controllers", "app/cpu.weight", "app/cpu.max"];
        let (_folder, roots) = tree("0::/\n", &files);
        let group = Group::at(Path::new("app"), &roots).expect("it is there");
        group.set_weight(1000).expect("written");
        group.set_quota(0.25).expect("written");
        assert_eq!([read(&group, "cpu.weight"), read(&group, "cpu.max")], ["1000", "25000 100000"]);
        let fault = Group::at(Path::new("none"), &roots).expect_err("it is not there").to_string();
        assert!(fault.contains("there is no control group"), "{fault}");
    }

    #[test]
    fn a_group_of_our_own_comes_and_goes_and_takes_old_ones_along() {
        let (_folder, roots) = tree("3:cpu,cpuacct:/box\n", &["cpu,cpuacct/box/tasks"]);
        let parent = roots.groups.join("cpu,cpuacct/box");
        // No process has this number: it is above the kernel's bound.
        let old = parent.join("tiergate-4194305.web");
        fs::create_dir(&old).expect("made");
        let group = Group::make("web", &roots).expect("it can be made");
        assert!(group.folder.starts_with(&parent) && group.folder.is_dir());
        assert!(!old.exists(), "it was left behind by a gateway that is gone");
        let folder = group.folder.clone();
        drop(group);
        assert!(!folder.exists());
    }

    #[test]
    fn below_a_group_of_version_2_the_controller_is_enabled_first() {
        let files = ["cgroup.controllers", "a/gateway/x", "a/cgroup.subtree_control"];
        let (_folder, roots) = tree("0::/a/gateway\n", &files);
        // The gateway's own has no file to enable it by: beside it, then.
        let group = Group::make("web", &roots).expect("it can be made");
        assert_eq!(group.folder.parent(), Some(&*roots.groups.join("a")));
        let enabled = fs::read_to_string(roots.groups.join("a/cgroup.subtree_control"));
        assert_eq!(enabled.expect("it is there"), "+cpu");
        // The same under systemd, which has not left it to the gateway.
        fs::write(&roots.systemd, "").expect("written");
        let fault = format!("{:#}", Group::make("web", &roots).expect_err("it is not ours"));
        assert!(fault.contains("Delegate=cpu") && fault.contains("is systemd's"), "{fault}");
    }
}
