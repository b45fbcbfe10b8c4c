//! A static site like those of the Web: few pages are asked for often, few files are very large.
//!
//! Source: P. Barford, M. Crovella, "Generating Representative Web Workloads for Network and Server
//! Performance Evaluation", SIGMETRICS 1998: file sizes are lognormal with a Pareto tail, popularity
//! follows Zipf's law. Departures: the tail ends at 10 MB, since by its law (of infinite
//! variance) one file could be larger than the disk; which file is popular is independent of its
//! size, where SURGE matches the sizes of the requests to a second distribution.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::Path;

/// Parameters of the body, of the logarithm of bytes.
const BODY_MU: f64 = 9.357;
const BODY_SIGMA: f64 = 1.318;
/// Where the tail begins, in bytes, its exponent, and the part of the files that is in it.
const TAIL_FROM: f64 = 133_000.0;
const TAIL_ALPHA: f64 = 1.1;
const TAIL_PART: f64 = 0.07;
/// Largest file, in bytes.
const FILE_BYTES_MAX: f64 = 10e6;
/// Most files of a site: about 650 MB on average.
const FILES_MAX: u32 = 10_000;
/// Files of a directory, as sites have them.
const FILES_PER_DIRECTORY: u32 = 100;

/// Writes the files of a site below `dir`, readable by everyone, and returns their paths on the
/// site (`/3/317.html`), the most popular first. The same seed makes the same site, byte for byte.
pub(crate) fn write(dir: &Path, files: u32, seed: u64) -> Result<Vec<String>> {
    ensure!((1..=FILES_MAX).contains(&files), "a site has 1 to {FILES_MAX} files, not {files}");
    // Random letters, so that nothing on the way makes them smaller.
    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(1));
    let text: Vec<u8> =
        std::iter::repeat_with(|| random.alphanumeric() as u8).take(1 << 16).collect();
    let paths = paths(files);
    for (path, bytes) in paths.iter().zip(sizes(files, seed)) {
        let file = dir.join(&path[1..]);
        let parent = file.parent().expect("every path has a directory");
        std::fs::create_dir_all(parent)?;
        let wrong = || format!("cannot write {}", file.display());
        let mut out = std::fs::File::create(&file).with_context(wrong)?;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(text.len() as u64);
            out.write_all(&text[..part as usize]).with_context(wrong)?;
            left -= part;
        }
    }
    Ok(paths)
}

/// The paths of a site, the most popular first. Sizes are independent of each other, so their
/// order is as good as any.
pub(crate) fn paths(files: u32) -> Vec<String> {
    (0..files).map(|number| format!("/{}/{number}.html", number / FILES_PER_DIRECTORY)).collect()
}

/// The files' sizes in bytes, in the order of [`paths`].
fn sizes(files: u32, seed: u64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..files).map(|_| size(&mut random)).collect()
}

fn size(random: &mut fastrand::Rng) -> u64 {
    let bytes = if random.f64() < TAIL_PART {
        // Inverse of the Pareto distribution between both ends.
        let cut = 1.0 - (TAIL_FROM / FILE_BYTES_MAX).powf(TAIL_ALPHA);
        TAIL_FROM * (1.0 - cut * random.f64()).powf(-1.0 / TAIL_ALPHA)
    } else {
        body(random)
    };
    bytes.round() as u64
}

/// Lognormal below the tail.
fn body(random: &mut fastrand::Rng) -> f64 {
    loop {
        let bytes = (BODY_MU + BODY_SIGMA * normal(random)).exp();
        // Three in a hundred are drawn again.
        if bytes < TAIL_FROM {
            return bytes;
        }
    }
}

/// A draw from the standard normal distribution (Box and Muller).
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (2.0 * crate::load::exponential(random)).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// Which paths are asked for: by Zipf's law, the one in place `r` with probability proportional to
/// `1 / r`. `paths`: the most popular first, not empty.
pub(crate) fn requests(paths: &[String], count: usize, seed: u64) -> Vec<String> {
    let ranks = crate::load::Ranks::new(paths.len(), 1.0);
    let mut random = fastrand::Rng::with_seed(seed);
    let draw = || paths[ranks.draw(&mut random)].clone();
    std::iter::repeat_with(draw).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn sizes_are_those_of_the_paper() {
        let mut all = sizes(20_000, 7);
        all.sort_unstable();
        let tail = all.iter().filter(|bytes| **bytes >= TAIL_FROM as u64).count();
        assert!((1300..1500).contains(&tail), "7 % of 20,000: {tail}");
        assert!(*all.last().unwrap() <= FILE_BYTES_MAX as u64);
        // The median of a lognormal distribution is e^mu, a little less without its upper end and
        // a little more with the tail: of all files, the 50th of 93 body percents.
        let median = all[10_000] as f64;
        assert!((median / BODY_MU.exp() - 1.0).abs() < 0.1, "{median}");
        // Half the tail lies below k * 2^(1 / alpha), nearly, as its end is far.
        let half = TAIL_FROM * 2_f64.powf(1.0 / TAIL_ALPHA);
        let below = all.iter().filter(|b| (TAIL_FROM..half).contains(&(**b as f64))).count();
        assert!((below as f64 / tail as f64 - 0.5).abs() < 0.05, "{below} of {tail}");
    }

    #[test]
    fn a_seed_makes_the_same_site() {
        let site = |seed| {
            let dir = tempfile::tempdir().unwrap();
            let paths = write(dir.path(), 120, seed).unwrap();
            let read = |path: &String| std::fs::read(dir.path().join(&path[1..])).unwrap();
            paths.iter().map(|path| (path.clone(), read(path))).collect::<BTreeMap<_, _>>()
        };
        let one = site(1);
        assert_eq!(one.len(), 120);
        assert!(one.contains_key("/0/0.html") && one.contains_key("/1/119.html"));
        assert!(one == site(1) && one != site(2));
        let lengths: Vec<u64> = paths(120).iter().map(|path| one[path].len() as u64).collect();
        assert_eq!(lengths, sizes(120, 1));
        let dir = tempfile::tempdir().unwrap();
        assert!(write(dir.path(), 0, 1).is_err() && write(dir.path(), 10_001, 1).is_err());
    }

    #[test]
    fn requests_follow_zipf() {
        let paths = paths(1000);
        let asked = requests(&paths, 100_000, 3);
        let count = |path: &str| asked.iter().filter(|p| *p == path).count() as f64;
        // 100,000 / (ln 1000 + 0.577), and a tenth of that.
        let (first, tenth) = (count("/0/0.html"), count("/0/9.html"));
        assert!((first / 13_360.0 - 1.0).abs() < 0.05, "{first}");
        assert!((tenth / 1336.0 - 1.0).abs() < 0.15, "{tenth}");
        assert_eq!(requests(&paths, 50, 3), asked[..50]);
    }
}
