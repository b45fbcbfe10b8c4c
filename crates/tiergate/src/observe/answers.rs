//! Answers by class: how long requests took as a whole, and their statuses.
//!
//! One table per thread, which that thread alone writes, relaxed; a scrape adds them up. A request costs two additions to an array: no lock, and
//! no allocation but the first time that a thread has a request of 16 classes of consecutive ids (66 KiB; and 4.1 KiB for every class).

use crate::tally::ThreadTally;
use std::sync::OnceLock;
use std::time::Duration;
use tiergate_core::names::ClassId;
use tiergate_core::native_histogram::FineHistogram;

/// Statuses that are counted by themselves: those that servers, and Tiergate, usually send. Any other is counted as `2xx other`, and so on.
pub const STATUSES: [u16; 34] = [
    200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 408, 409, 410,
    412, 413, 414, 416, 417, 422, 429, 431, 451, 499, 500, 501, 502, 503, 504,
];
/// The names of the others.
const OTHERS: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Places of a class: its statuses, and the others.
const PLACES: usize = STATUSES.len() + OTHERS.len();
/// Classes of a part of the table, which is made when the first of them has a request.
const PART: usize = 16;
/// Parts of the table. Classes beyond are not counted here: ids go up with each class that a reload names anew.
const PARTS: usize = 256;

/// What one thread counts.
pub struct ThreadAnswers(Box<[OnceLock<Box<[ClassAnswers; PART]>>; PARTS]>);

impl std::fmt::Debug for ThreadAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ThreadAnswers")
    }
}

impl Default for ThreadAnswers {
    fn default() -> Self {
        ThreadAnswers(Box::new([const { OnceLock::new() }; PARTS]))
    }
}

struct ClassAnswers {
    statuses: [ThreadTally; PLACES],
    buckets: [ThreadTally; FineHistogram::BUCKETS],
    sum_us: ThreadTally,
}

impl Default for ClassAnswers {
    fn default() -> Self {
        ClassAnswers {
            statuses: std::array::from_fn(|_| ThreadTally::default()),
            buckets: std::array::from_fn(|_| ThreadTally::default()),
            sum_us: ThreadTally::default(),
        }
    }
}

/// The answers of a class, of all threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// From the head of each request that was not refused to the last byte of its answer.
    pub took: FineHistogram,
    statuses: [u64; PLACES],
}

impl Default for Answers {
    fn default() -> Self {
        Answers { took: FineHistogram::default(), statuses: [0; PLACES] }
    }
}

impl ThreadAnswers {
    /// Counts an answer of that status; `took`: how long its request took, unless it was refused.
    pub fn count(&self, class: ClassId, status: u16, took: Option<Duration>) {
        let index = class.index();
        let Some(part) = self.0.get(index / PART) else { return };
        let part = part.get_or_init(|| Box::new(std::array::from_fn(|_| ClassAnswers::default())));
        let class = &part[index % PART];
        if status > 0 {
            class.statuses[place(status)].one();
        }
        if let Some(took) = took {
            let (bucket, us) = FineHistogram::bucket(took);
            class.buckets[bucket].one();
            class.sum_us.add(us);
        }
    }

    /// Adds what this thread has counted of a class.
    pub(super) fn add_to(&self, all: &mut Answers, class: ClassId) {
        let part = self.0.get(class.index() / PART).and_then(OnceLock::get);
        let Some(class) = part.map(|part| &part[class.index() % PART]) else { return };
        for (total, own) in all.statuses.iter_mut().zip(&class.statuses) {
            *total += own.total();
        }
        for (bucket, own) in class.buckets.iter().enumerate() {
            all.took.add_counted(bucket, own.total());
        }
        all.took.add_sum(class.sum_us.total());
    }
}

impl Answers {
    /// Statuses that were sent, and how often.
    pub fn statuses(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let name = |place: usize| match STATUSES.get(place) {
            Some(status) => status.to_string(),
            None => OTHERS[place - STATUSES.len()].to_owned(),
        };
        let counts = self.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(move |(place, count)| (name(place), *count))
    }
}

/// Statuses outside 100 to 599 count as 5xx.
fn place(status: u16) -> usize {
    STATUSES.binary_search(&status).unwrap_or_else(|_| {
        let hundred = usize::from(status / 100).wrapping_sub(1);
        STATUSES.len() + hundred.min(OTHERS.len() - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_by_class_and_status() {
        let threads = [ThreadAnswers::default(), ThreadAnswers::default()];
        let second = Some(Duration::from_secs(1));
        for (thread, class, status, took) in [
            (0, 0, 200, second),
            (1, 0, 200, second),
            (1, 0, 503, None),
            (0, 0, 218, second),
            (0, 17, 404, second),
            (0, 0, 0, None),
            (0, 0, 999, None),
        ] {
            threads[thread].count(ClassId(class), status, took);
        }
        let of = |class| {
            let mut all = Answers::default();
            threads.iter().for_each(|it| it.add_to(&mut all, ClassId(class)));
            all
        };
        let statuses: Vec<(String, u64)> = of(0).statuses().collect();
        let named = |name: &str, count| (name.to_owned(), count);
        assert_eq!(statuses, [named("200", 2), named("503", 1), named("2xx", 1), named("5xx", 1)]);
        let took = of(0).took.coarse();
        assert_eq!((took.count(), took.sum_seconds()), (3, 3.0));
        assert_eq!(of(17).statuses().collect::<Vec<_>>(), [named("404", 1)]);
        assert_eq!(of(3), Answers::default());
        // Too far: not counted, and no harm.
        threads[0].count(ClassId(u16::MAX), 200, second);
        assert_eq!(of(u16::MAX), Answers::default());
    }

    #[test]
    fn statuses_are_in_order() {
        assert!(STATUSES.is_sorted());
    }
}
