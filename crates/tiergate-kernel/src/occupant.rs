//! Whose program is where another one is to be, as far as the system tells.

use std::fmt;

/// A program at an interface that has room for one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupant {
    /// Its number and its name; `None`: the system does not say. The name is empty if it has none, or the right to ask for it (CAP_SYS_ADMIN) is missing.
    pub program: Option<(u32, String)>,
    /// The number and the name of the process that has put it there; `None`: it has ended, or may not be looked at.
    pub process: Option<(u32, String)>,
}

impl Occupant {
    /// What to do.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.process {
            Some(_) => "end that process, or leave the interface out",
            None => {
                "end what has put it there (`bpftool net` shows it, `ip link set dev … xdp off` takes away what no process has), or leave the interface out"
            }
        }
    }
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Some((number, name)) if name.is_empty() => write!(f, "the program with id {number}")?,
            Some((number, name)) => write!(f, "the program {name} (id {number})")?,
            None => write!(f, "another program")?,
        }
        match &self.process {
            Some((number, name)) => write!(f, " of process {number} ({name}) is there already"),
            None => write!(f, " is there already"),
        }
    }
}

#[cfg(feature = "load")]
pub(crate) use found::at;

#[cfg(feature = "load")]
mod found {
    use super::Occupant;
    use libbpf_rs::query::ProgInfoIter;
    use libbpf_rs::{Xdp, XdpFlags};
    use std::fs;
    use std::os::fd::BorrowedFd;
    use std::path::Path;

    /// Most descriptors that are looked at: a large machine has some ten thousand.
    const DESCRIPTORS_MAX: usize = 200_000;

    /// What is at an interface. `ours`: any program of XDP. Looks at every process that it may look at, and [`DESCRIPTORS_MAX`] of their descriptors: not for a thread that serves.
    pub(crate) fn at(interface: i32, ours: BorrowedFd<'_>) -> Occupant {
        let number = Xdp::new(ours).query_id(interface, XdpFlags::NONE).ok();
        let Some(number) = number.filter(|it| *it != 0) else { return Occupant::default() };
        let name = ProgInfoIter::default().find(|it| it.id == number);
        let name = name.map(|it| it.name.to_string_lossy().into_owned());
        Occupant { program: Some((number, name.unwrap_or_default())), process: holder(number) }
    }

    /// The process that has a link of the program, or else the program itself.
    fn holder(program: u32) -> Option<(u32, String)> {
        let line = format!("prog_id:\t{program}");
        let mut left = DESCRIPTORS_MAX;
        let mut of_program = None;
        for process in fs::read_dir("/proc").ok()?.flatten() {
            let name = process.file_name();
            let Some(number) = name.to_str().and_then(|it| it.parse().ok()) else { continue };
            // Of others it may be forbidden, and it may have ended.
            let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
            for descriptor in descriptors.flatten() {
                left = left.checked_sub(1)?;
                let Some(is_link) = is_link(&descriptor.path()) else { continue };
                let path = process.path().join("fdinfo").join(descriptor.file_name());
                let text = fs::read_to_string(path).unwrap_or_default();
                if !text.lines().any(|it| it == line) {
                    continue;
                }
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                let found = (number, name.trim().to_owned());
                if is_link {
                    return Some(found);
                }
                of_program.get_or_insert(found);
            }
        }
        of_program
    }

    /// Whether a descriptor is of a link (`anon_inode:bpf_link`); `None`: neither of one nor of a program (`anon_inode:bpf-prog`).
    fn is_link(descriptor: &Path) -> Option<bool> {
        let target = fs::read_link(descriptor).ok()?;
        let what = target.to_str()?.strip_prefix("anon_inode:")?.trim_matches(['[', ']']);
        let what = what.strip_prefix("bpf")?.trim_start_matches(['_', '-']);
        match what {
            "link" => Some(true),
            "prog" => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_said_and_what_to_do() {
        let program = Some((42, "tg_syn".to_owned()));
        let process = Some((7, "tiergate".to_owned()));
        let said = |it: &Occupant| format!("{it}; {}", it.remedy());
        let all = Occupant { program: program.clone(), process };
        assert_eq!(
            said(&all),
            "the program tg_syn (id 42) of process 7 (tiergate) is there already; end that process, or leave the interface out"
        );
        let some = said(&Occupant { program, process: None });
        assert!(
            some.starts_with("the program tg_syn (id 42) is there already; end what"),
            "{some}"
        );
        let unnamed = said(&Occupant { program: Some((42, String::new())), process: None });
        assert!(unnamed.starts_with("the program with id 42 is there already; end"), "{unnamed}");
        let none = said(&Occupant::default());
        assert!(none.starts_with("another program is there already; end what"), "{none}");
    }
}
