//! What comes most often, in bounded memory, fading with time.
//!
//! Source: Metwally, Agrawal, El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data Streams" (2005), §3
//! (Space-Saving): what is not in a full table takes the place, and the count, of the least; so a count is never too small, and too
//! large by at most what the table's least had.

use serde::{Deserialize, Serialize};

/// Entries of the table. Whatever makes up more than a 64th of all is in it.
const ENTRIES_MAX: usize = 64;
/// By how much counts fade a second: to a half in five minutes, or in three seconds.
const SLOWLY: f64 = 0.997_692;
const FAST: f64 = 0.793_701;
/// What fades to less is forgotten.
const COUNT_MIN: f64 = 0.5;

/// What came most often.
#[derive(Clone, Debug)]
pub struct Top {
    entries: Vec<TopEntry>,
    total: f64,
    /// What is left of a count after a second.
    left: f64,
}

impl Default for Top {
    /// Over minutes: counts fade to a half in five.
    fn default() -> Self {
        Top { entries: Vec::new(), total: 0.0, left: SLOWLY }
    }
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopEntry {
    /// What.
    pub what: String,
    /// How often, lately: older ones count less.
    pub count: f64,
    /// By how much that may be too large.
    pub error: f64,
    /// The part of all, 0.0 to 1.0.
    pub share: f64,
}

impl Top {
    /// Over seconds: counts fade to a half in three.
    pub fn of_seconds() -> Self {
        Top { left: FAST, ..Top::default() }
    }

    /// Counts it `weight` times. O([`ENTRIES_MAX`]).
    pub fn count(&mut self, what: &str, weight: f64) {
        self.total += weight;
        if let Some(entry) = self.entries.iter_mut().find(|it| it.what == what) {
            entry.count += weight;
            return;
        }
        let mut error = 0.0;
        if self.entries.len() == ENTRIES_MAX {
            let least = (0..ENTRIES_MAX)
                .min_by(|&a, &b| self.entries[a].count.total_cmp(&self.entries[b].count))
                .expect("the table is not empty");
            error = self.entries.swap_remove(least).count;
        }
        let (what, count) = (what.to_owned(), error + weight);
        self.entries.push(TopEntry { what, count, error, share: 0.0 });
    }

    /// A second has passed.
    pub fn fade(&mut self) {
        self.total *= self.left;
        for entry in &mut self.entries {
            entry.count *= self.left;
            entry.error *= self.left;
        }
        self.entries.retain(|it| it.count >= COUNT_MIN);
    }

    /// The first of them, the most frequent first.
    pub fn most(&self, len: usize) -> Vec<TopEntry> {
        let mut all = self.entries.clone();
        all.sort_by(|a, b| b.count.total_cmp(&a.count).then_with(|| a.what.cmp(&b.what)));
        all.truncate(len);
        all.iter_mut().for_each(|it| it.share = (it.count / self.total.max(1e-9)).min(1.0));
        all
    }

    /// How often all came, lately.
    pub fn total(&self) -> f64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequent_are_found_among_many_and_the_table_is_bounded() {
        let mut top = Top::default();
        for number in 0..100_000 {
            top.count(&format!("once {number}"), 1.0);
            if number % 10 == 0 {
                top.count("often", 1.0);
            }
        }
        assert!(top.entries.len() <= ENTRIES_MAX);
        let first = &top.most(1)[0];
        assert_eq!(first.what, "often");
        // Never too small, and too large by no more than it says.
        assert!(first.count >= 10_000.0 && first.count - first.error <= 10_000.0, "{first:?}");
    }

    #[test]
    fn what_is_over_fades() {
        let mut top = Top::default();
        top.count("before", 1000.0);
        (0..300).for_each(|_| top.fade());
        top.count("now", 501.0);
        let all = top.most(9);
        assert_eq!([&*all[0].what, &*all[1].what], ["now", "before"]);
        assert!((all[1].count - 500.0).abs() < 1.0 && (all[0].share - 0.5).abs() < 0.01);
        (0..10_000).for_each(|_| top.fade());
        assert!(top.most(9).is_empty());
    }
}
