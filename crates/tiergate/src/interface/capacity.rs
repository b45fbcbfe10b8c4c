//! What an interface carries: the rate of the shaper at its root, or else its link's speed.

use super::name::InterfaceName;
use super::queues::{Class, Root};
use super::tc::TcFault;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// What an interface carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bits a second.
    pub bits: u64,
    /// What says so.
    pub from: Source,
}

impl Capacity {
    /// What a policy may say, in bits a second.
    pub(crate) const BOUNDS: std::ops::RangeInclusive<u64> = 100_000..=1_000_000_000_000;
}

/// What says what an interface carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The rate of an HTB's class that has none above.
    Htb,
    /// The rate of a TBF.
    Tbf,
    /// The link's speed.
    Speed,
    /// Packets that were watched until they were acknowledged.
    Estimate,
}

impl Source {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Source::Htb => "its shaper (htb)",
            Source::Tbf => "its shaper (tbf)",
            Source::Speed => "its link's speed",
            Source::Estimate => "an estimate",
        }
    }
}

/// Why it is not known what an interface carries.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unknown {
    /// Its queues are not known.
    #[error(transparent)]
    Queues(#[from] TcFault),
    /// It has a shaper that is not understood.
    #[error(
        "the shaper of {0} ({1}) does not say one rate for all: write capacity = BITS_A_SECOND instead"
    )]
    Shaper(InterfaceName, String),
    /// It is none that a policy could say.
    #[error(
        "{0} says {1} bit/s, which is not from 100000 to 1000000000000: write capacity = BITS_A_SECOND instead"
    )]
    Bounds(InterfaceName, u64),
    /// It has no shaper, and its link no speed, as virtual ones.
    #[error(
        "{0} has no shaper and its link tells no speed ({1}): write capacity = BITS_A_SECOND instead, or put a shaper there by `tiergate \
         link setup {0} --capacity RATE`"
    )]
    Speed(InterfaceName, io::Error),
}

/// What it carries now. Runs `tc`, so that it may block for some milliseconds, or for seconds where the system is busy.
///
/// # Errors
/// Why that is not known.
pub(crate) fn read(interface: &InterfaceName) -> Result<Capacity, Unknown> {
    let root = Root::of(interface)?;
    let classes = if root.kind == "htb" { Class::all_of(interface)? } else { Vec::new() };
    let read = match shaped(&root, &classes) {
        Shaped::At(capacity) => Ok(capacity),
        Shaped::Unclear => Err(Unknown::Shaper(interface.clone(), root.kind)),
        Shaped::No => {
            let speed = speed(&folder(Path::new("/sys"), interface.as_str()));
            let speed = speed.map_err(|error| Unknown::Speed(interface.clone(), error))?;
            Ok(Capacity { bits: speed, from: Source::Speed })
        }
    }?;
    let is_sensible = Capacity::BOUNDS.contains(&read.bits);
    is_sensible.then_some(read).ok_or_else(|| Unknown::Bounds(interface.clone(), read.bits))
}

/// What a queue lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shaped {
    At(Capacity),
    /// As much as comes.
    No,
    /// Less than comes, but how much is not known.
    Unclear,
}

/// Queues that have a rate which is not read here.
const OTHER_SHAPERS: [&str; 4] = ["cake", "cbq", "hfsc", "netem"];

fn shaped(root: &Root, classes: &[Class]) -> Shaped {
    let at = |bits, from| Shaped::At(Capacity { bits, from });
    match root.kind.as_str() {
        "htb" => {
            let mut topmost = classes.iter().filter(|it| it.parent.is_none());
            match (topmost.next(), topmost.next()) {
                (Some(only), None) => at(only.rate, Source::Htb),
                // It is being made, or all goes past it.
                _ => Shaped::Unclear,
            }
        }
        "tbf" => root.rate().map_or(Shaped::Unclear, |bits| at(bits, Source::Tbf)),
        kind if OTHER_SHAPERS.contains(&kind) => Shaped::Unclear,
        _ => Shaped::No,
    }
}

/// What the kernel has of an interface, below the root of `/sys`. That may be of another network namespace.
pub(crate) fn folder(sys: &Path, interface: &str) -> PathBuf {
    sys.join("class/net").join(interface)
}

/// The speed of a link in bits a second, by the interface's folder.
///
/// # Errors
/// If it tells none, as virtual ones and those without a carrier.
pub(crate) fn speed(folder: &Path) -> io::Result<u64> {
    // In Mbit/s; a virtual link has -1 or an error.
    let text = std::fs::read_to_string(folder.join("speed"))?;
    let megabits = text.trim().parse::<u64>().ok().filter(|it| *it > 0);
    let bits = megabits.and_then(|it| it.checked_mul(1_000_000));
    bits.ok_or_else(|| io::Error::other(format!("speed {}", text.trim())))
}

#[cfg(test)]
mod tests {
    use super::super::queues::tests::{CLASSES, classes, root};
    use super::*;

    fn queue(kind: &str, options: &str) -> Root {
        root(&format!(r#"[{{"kind":"{kind}","handle":"1:","root":true,"options":{options}}}]"#))
    }

    #[test]
    fn a_shaper_has_one_rate_for_all_or_it_is_unclear() {
        let at = |bits, from| Shaped::At(Capacity { bits, from });
        let htb = queue("htb", "{}");
        assert_eq!(shaped(&htb, &classes(CLASSES)), at(98_000_000, Source::Htb));
        let second = format!("{CLASSES}\nclass htb 71e9:2 root rate 1Mbit ceil 1Mbit\n");
        assert_eq!(shaped(&htb, &classes(&second)), Shaped::Unclear);
        assert_eq!(shaped(&htb, &[]), Shaped::Unclear, "it is being made");
        let tbf = queue("tbf", r#"{"rate":1250000,"burst":1600}"#);
        assert_eq!(shaped(&tbf, &[]), at(10_000_000, Source::Tbf));
        assert_eq!(shaped(&queue("tbf", "{}"), &[]), Shaped::Unclear);
        assert_eq!(shaped(&queue("cake", "{}"), &[]), Shaped::Unclear);
        for kind in ["mq", "fq_codel", "noqueue", "pfifo_fast"] {
            assert_eq!(shaped(&queue(kind, "{}"), &[]), Shaped::No, "{kind}");
        }
    }

    #[test]
    fn a_link_has_a_speed_in_megabits_or_none() {
        let sys = tempfile::tempdir().expect("a folder");
        let eth0 = folder(sys.path(), "eth0");
        std::fs::create_dir_all(&eth0).expect("made");
        assert!(speed(&eth0).is_err(), "there is no file");
        for (text, expected) in [("1000\n", Some(1_000_000_000)), ("-1\n", None), ("0\n", None)] {
            std::fs::write(eth0.join("speed"), text).expect("written");
            assert_eq!(speed(&eth0).ok(), expected, "{text:?}");
        }
    }
}
