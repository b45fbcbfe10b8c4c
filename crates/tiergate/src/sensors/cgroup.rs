//! Control groups, of version 2 or 1.

use super::probe::{Roots, number, text};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// A memory bound of version 1 that is none is about this or more.
const V1_UNBOUNDED: u64 = 1 << 60;

/// A control group. Which version it is of is asked at each reading: the group may not be there yet.
#[derive(Debug)]
pub(super) struct Group {
    /// Its path below the root.
    below: PathBuf,
    root: PathBuf,
}

/// Where the files of a group are.
enum Files {
    /// In one folder.
    Unified(PathBuf),
    /// In a folder for each controller.
    ByController(PathBuf),
}

impl Group {
    pub(super) fn at(below: &Path, roots: &Roots) -> Self {
        Group { below: below.into(), root: roots.sys.join("fs/cgroup") }
    }

    /// The folder of a controller; `v1`: its names in version 1.
    fn files(&self, v1: &[&str]) -> Result<Files> {
        let unified = self.root.join("cgroup.controllers");
        if unified.exists() {
            let folder = self.root.join(&self.below);
            ensure!(folder.is_dir(), "there is no control group {}", folder.display());
            return Ok(Files::Unified(folder));
        }
        let folders = v1.iter().map(|name| self.root.join(name).join(&self.below));
        match folders.into_iter().find(|folder| folder.is_dir()) {
            Some(folder) => Ok(Files::ByController(folder)),
            None => {
                let (below, root) = (self.below.display(), self.root.display());
                bail!("there is no control group /{below} below {root}")
            }
        }
    }

    /// Processor time used since it was made, in ns.
    pub(super) fn cpu_used_ns(&self) -> Result<u64> {
        match self.files(&["cpuacct", "cpu,cpuacct"])? {
            Files::Unified(folder) => {
                let file = folder.join("cpu.stat");
                let used = field(&text(&file)?, "usage_usec");
                Ok(used.with_context(|| format!("{} has no usage_usec", file.display()))? * 1000)
            }
            Files::ByController(folder) => number(&folder.join("cpuacct.usage")),
        }
    }

    /// How many processors it may use at most, if that is bounded.
    pub(super) fn cpu_quota(&self) -> Result<Option<f64>> {
        match self.files(&["cpu", "cpu,cpuacct"])? {
            Files::Unified(folder) => {
                let file = folder.join("cpu.max");
                // The root has none.
                if !file.exists() {
                    return Ok(None);
                }
                let text = text(&file)?;
                let mut words = text.split_ascii_whitespace();
                let quota = (words.next().unwrap_or_default(), words.next().unwrap_or("100000"));
                if quota.0 == "max" {
                    return Ok(None);
                }
                let [quota, period] = [quota.0, quota.1].map(|it| it.parse::<f64>().ok());
                let quota = quota.zip(period).map(|(quota, period)| quota / period);
                Ok(Some(quota.with_context(|| format!("{} has no quota", file.display()))?))
            }
            Files::ByController(folder) => {
                let file = folder.join("cpu.cfs_quota_us");
                if !file.exists() || text(&file)?.trim() == "-1" {
                    return Ok(None);
                }
                let period = number(&folder.join("cpu.cfs_period_us"))?;
                Ok(Some(number(&file)? as f64 / period.max(1) as f64))
            }
        }
    }

    /// How many processors its processes may run on, if that is bounded (`cpuset`).
    pub(super) fn processors_allowed(&self) -> Option<u32> {
        let file = match self.files(&["cpuset"]).ok()? {
            Files::Unified(folder) => folder.join("cpuset.cpus.effective"),
            Files::ByController(folder) => folder.join("cpuset.effective_cpus"),
        };
        // "0-3,8": single ones, and first and last of several.
        let count = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let [first, last] = [first, last].map(|it| it.trim().parse::<u32>().ok());
            last?.checked_sub(first?).map(|more| more + 1)
        };
        text(&file).ok()?.split(',').map(count).sum::<Option<u32>>().filter(|it| *it > 0)
    }

    /// Bytes of memory in use, without what the kernel takes back first: files that nobody has used for long.
    pub(super) fn memory_used(&self) -> Result<u64> {
        let (used, stat, idle) = match self.files(&["memory"])? {
            Files::Unified(folder) => {
                (folder.join("memory.current"), folder.join("memory.stat"), "inactive_file")
            }
            Files::ByController(folder) => (
                folder.join("memory.usage_in_bytes"),
                folder.join("memory.stat"),
                "total_inactive_file",
            ),
        };
        let idle = field(&text(&stat)?, idle).unwrap_or(0);
        Ok(number(&used)?.saturating_sub(idle))
    }

    /// Bytes of memory that it may use at most, if that is bounded.
    pub(super) fn memory_max(&self) -> Result<Option<u64>> {
        match self.files(&["memory"])? {
            Files::Unified(folder) => {
                let file = folder.join("memory.max");
                match file.exists() && text(&file)?.trim() != "max" {
                    true => number(&file).map(Some),
                    false => Ok(None),
                }
            }
            Files::ByController(folder) => {
                let bound = number(&folder.join("memory.limit_in_bytes"))?;
                Ok(Some(bound).filter(|bound| *bound < V1_UNBOUNDED))
            }
        }
    }

    /// The file of its account of pressure.
    pub(super) fn pressure(&self, stalled: &str) -> Result<PathBuf> {
        match self.files(&["memory", "cpu", "cpu,cpuacct"])? {
            Files::Unified(folder) => Ok(folder.join(format!("{stalled}.pressure"))),
            Files::ByController(_) => {
                bail!("control groups of version 1 have no account of pressure")
            }
        }
    }
}

/// A number of a file with a name and a number on each line.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}
