//! Answers and refusals by how many requests were in progress when theirs was admitted.
//!
//! Refusals that come with load come where many are in progress and not where few are; refusals because of a path, an
//! address or a restart come at every level. Only the first kind calls for fewer slots.

use crate::admit::groups::{group, left_out};
use crate::time::Moment;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Groups of flows: what one address provokes must not speak for all.
const GROUPS: usize = 16;
/// Steps for each doubling of the number in progress; up to eight times as many it is exact.
const STEPS: u32 = 8;
/// Levels: up to 16,383 in progress, and one for all beyond.
const LEVELS: usize = 128;
/// Answers from which on all count half.
const MEMORY: f32 = 768.0;
/// An answer counts half after this time, so that an outage of a while ago is not held against now. Long
/// enough that an origin with three answers a second is remembered by a hundred.
const HALF: Duration = Duration::from_secs(30);
/// How often time is let pass.
const FADE: Duration = Duration::from_secs(4);
/// Refusals that there must be above a split.
const REFUSALS: f64 = 8.0;
/// Refusals that there would be below a split if load made no difference. With fewer, nothing is known.
const EXPECTED: f64 = 12.0;
/// The share that is refused below, at most, as part of the share above.
const PART: f64 = 1.0 / 3.0;
/// By how much more likely two shares are than one, as a logarithm. The best of some splits is looked for each few
/// seconds: at 5 chance would find one within the hour.
const EVIDENCE: f64 = 8.0;

/// The level of a number in progress.
fn level(found: u32) -> usize {
    let octave = found.max(1).ilog2();
    if octave < 6 {
        return found as usize;
    }
    let step = ((u64::from(found) - (1 << octave)) * u64::from(STEPS)) >> octave;
    (64 + (octave - 6) as usize * STEPS as usize + step as usize).min(LEVELS - 1)
}

/// The least and the largest number of a level.
fn numbers(level: usize) -> RangeInclusive<u32> {
    let Some(above) = level.checked_sub(64) else { return level as u32..=level as u32 };
    let octave = 6 + above as u32 / STEPS;
    let (first, width) = (1 << octave, (1 << octave) / STEPS);
    let least = first + above as u32 % STEPS * width;
    least..=least + width - 1
}

/// Answers, and refusals among them; those of long ago in part.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    answers: f32,
    refusals: f32,
}

impl Cell {
    fn add(&mut self, other: &Cell) {
        self.answers += other.answers;
        self.refusals += other.refusals;
    }

    fn share(&self) -> f64 {
        f64::from(self.refusals) / f64::from(self.answers).max(1e-9)
    }

    /// The likelihood of such a share if it is the true one, as a logarithm.
    fn likelihood(&self) -> f64 {
        let (all, refused) = (f64::from(self.answers), f64::from(self.refusals));
        let of = |part: f64| if part > 1e-6 { part * (part / all).ln() } else { 0.0 };
        of(refused) + of(all - refused)
    }
}

/// Whether two shares are so different that it is the load.
fn differ(below: &Cell, above: &Cell) -> bool {
    f64::from(above.refusals) >= REFUSALS
        && is_known(below, above)
        && below.share() <= PART * above.share()
        && evidence(below, above) >= EVIDENCE
}

/// Whether there were enough answers below to tell.
fn is_known(below: &Cell, above: &Cell) -> bool {
    f64::from(below.answers) * above.share() >= EXPECTED
}

fn evidence(below: &Cell, above: &Cell) -> f64 {
    let mut all = *below;
    all.add(above);
    below.likelihood() + above.likelihood() - all.likelihood()
}

/// Answers and refusals of the last while, by group and level.
#[derive(Debug)]
pub(super) struct Levels {
    /// Group after group; 16 KiB.
    cells: Box<[Cell]>,
    answers: f32,
    faded: Moment,
}

impl Default for Levels {
    fn default() -> Self {
        let cells = vec![Cell::default(); GROUPS * LEVELS].into_boxed_slice();
        Levels { cells, answers: 0.0, faded: Moment::ZERO }
    }
}

impl Levels {
    /// An answer to a request of the flow that was admitted as one of so many in progress. Amortised O(1).
    pub(super) fn add(&mut self, now: Moment, flow: u64, found: u32, is_refusal: bool) {
        if self.answers >= MEMORY {
            self.fade(0.5);
        }
        let since = now.since(self.faded);
        if since >= FADE {
            self.fade((-since.as_secs_f32() / HALF.as_secs_f32()).exp2());
            self.faded = now;
        }
        let cell = &mut self.cells[group(flow, GROUPS) * LEVELS + level(found)];
        cell.answers += 1.0;
        cell.refusals += f32::from(u8::from(is_refusal));
        self.answers += 1.0;
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.fade(0.0);
    }

    fn fade(&mut self, factor: f32) {
        for cell in &mut self.cells {
            // A trace of an answer is not one: a split goes by where there were any.
            let factor = if cell.answers * factor < 0.05 { 0.0 } else { factor };
            cell.answers *= factor;
            cell.refusals *= factor;
        }
        self.answers *= factor;
    }

    /// Of all groups but those that are refused most. O(groups · levels).
    pub(super) fn of_most(&self) -> Profile {
        let mut groups: Vec<(f64, &[Cell])> = Vec::with_capacity(GROUPS);
        for cells in self.cells.chunks(LEVELS) {
            let mut sum = Cell::default();
            cells.iter().for_each(|cell| sum.add(cell));
            if sum.answers > 0.0 {
                groups.push((sum.share(), cells));
            }
        }
        groups.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut profile = Profile { cells: [Cell::default(); LEVELS] };
        for (_, cells) in &groups[..groups.len() - left_out(groups.len())] {
            profile.cells.iter_mut().zip(*cells).for_each(|(sum, cell)| sum.add(cell));
        }
        profile
    }
}

/// Answers and refusals by level.
#[derive(Debug)]
pub(super) struct Profile {
    cells: [Cell; LEVELS],
}

impl Profile {
    /// Between which numbers in progress the origin begins to refuse: the split that makes two shares likeliest. `None`
    /// if load makes no difference, or not enough is known.
    pub(super) fn split(&self) -> Option<RangeInclusive<u32>> {
        let seen = || self.cells.iter().enumerate().filter(|(_, cell)| cell.answers > 0.0);
        let mut above = self.sum(0, LEVELS);
        let mut below = Cell::default();
        let mut best: Option<(f64, RangeInclusive<u32>)> = None;
        for ((level, cell), (next, _)) in seen().zip(seen().skip(1)) {
            below.add(cell);
            above.answers -= cell.answers;
            above.refusals -= cell.refusals;
            let evidence = evidence(&below, &above);
            if differ(&below, &above) && best.as_ref().is_none_or(|best| evidence > best.0) {
                best = Some((evidence, *numbers(level).end()..=numbers(next).start() - 1));
            }
        }
        best.map(|best| best.1)
    }

    /// Whether enough is known of what is refused at fewer than so many in progress.
    pub(super) fn is_known_below(&self, found: u32) -> bool {
        let (below, above) = self.at(found);
        is_known(&below, &above)
    }

    /// Whether a larger share is refused at so many in progress, or more, than at fewer.
    pub(super) fn is_worse_from(&self, found: u32) -> bool {
        let (below, above) = self.at(found);
        below.share() <= PART * above.share()
    }

    fn at(&self, found: u32) -> (Cell, Cell) {
        let level = level(found);
        (self.sum(0, level), self.sum(level, LEVELS))
    }

    fn sum(&self, from: usize, to: usize) -> Cell {
        let mut sum = Cell::default();
        self.cells[from..to].iter().for_each(|cell| sum.add(cell));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_its_level() {
        for found in (1..3000).chain([9_999, 10_000, 16_383]) {
            assert!(numbers(level(found)).contains(&found), "{found}");
        }
        assert!((1..64).all(|found| numbers(level(found)) == (found..=found)));
        assert_eq!(level(u32::MAX), LEVELS - 1);
        assert_eq!(level(0), 0);
    }

    fn filled(refuses: impl Fn(u64, u32) -> bool) -> Levels {
        let mut levels = Levels::default();
        for number in 0..400_u64 {
            // Ten numbers in progress, each as often.
            let found = 1 + (number * 7 % 10) as u32;
            levels.add(Moment::from_millis(number), number, found, refuses(number, found));
        }
        levels
    }

    #[test]
    fn refusals_that_come_with_load_are_told_from_others() {
        assert_eq!(filled(|_, found| found > 6).of_most().split(), Some(6..=6));
        assert_eq!(
            filled(|number, found| found > 6 || number % 11 == 0).of_most().split(),
            Some(6..=6)
        );
        for each in [2, 3, 4, 7] {
            let profile = filled(|number, _| number % each == number / 64 % each).of_most();
            assert_eq!(profile.split(), None, "1 of {each}");
            assert!(profile.is_known_below(8), "1 of {each}");
        }
        // Fewer in progress because they are refused: that is no reason to have fewer.
        assert_eq!(filled(|_, found| found <= 3).of_most().split(), None);
        assert_eq!(filled(|_, _| false).of_most().split(), None);
    }

    #[test]
    fn where_nobody_was_in_between_the_split_is_anywhere_there() {
        let mut levels = Levels::default();
        for number in 0..200 {
            let found = if number % 2 == 0 { 28 } else { 40 };
            levels.add(Moment::ZERO, number, found, found > 32);
        }
        assert_eq!(levels.of_most().split(), Some(28..=39));
    }

    #[test]
    fn what_was_long_ago_counts_little() {
        let mut levels = filled(|_, _| true);
        for number in 0..20 {
            levels.add(Moment::from_millis(300_000 + 1000 * number), number, 3, false);
        }
        assert!(levels.of_most().sum(0, LEVELS).share() < 0.05);
    }
}
