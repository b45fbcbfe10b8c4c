//! Whether any order at all meets every deadline: an exact search.

/// A request: when it comes, how long it takes, when it must have ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) comes: u64,
    pub(crate) takes: u64,
    pub(crate) due: u64,
}

/// Whether one slot can serve the jobs in some order, without interrupting any, idle or not, so that
/// each ends in time. Depth first; an order is given up at the first deadline that it misses.
pub(crate) fn feasible(jobs: &[Job]) -> bool {
    fn from(now: u64, jobs: &mut Vec<Job>) -> bool {
        if jobs.is_empty() {
            return true;
        }
        // Whatever comes first only makes the others later.
        if jobs.iter().any(|job| now.max(job.comes) + job.takes > job.due) {
            return false;
        }
        for place in 0..jobs.len() {
            let job = jobs.swap_remove(place);
            let found = from(now.max(job.comes) + job.takes, jobs);
            jobs.push(job);
            let last = jobs.len() - 1;
            jobs.swap(place, last);
            if found {
                return true;
            }
        }
        false
    }
    from(0, &mut jobs.to_vec())
}

#[test]
fn examples_worked_by_hand() {
    let job = |comes, takes, due| Job { comes, takes, due };
    assert!(feasible(&[]));
    assert!(feasible(&[job(0, 5, 5)]));
    assert!(!feasible(&[job(0, 5, 4)]));
    assert!(feasible(&[job(0, 3, 8), job(0, 5, 5)]));
    assert!(!feasible(&[job(0, 3, 7), job(0, 5, 5)]));
    // Only by waiting for the second.
    assert!(feasible(&[job(0, 9, 30), job(1, 2, 4)]));
    assert!(!feasible(&[job(0, 9, 11), job(1, 2, 4)]));
}
