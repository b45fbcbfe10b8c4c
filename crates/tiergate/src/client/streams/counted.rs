//! A stream's task, counted while it lives.

use super::tally::{Ended, Tally};
use std::sync::Arc;

/// A stream's task, counted until it is dropped: also where it panics.
#[derive(Debug)]
pub(in crate::client) struct Counted {
    tally: Arc<Tally>,
    /// How it ends.
    pub(in crate::client) ended: Ended,
}

impl Counted {
    /// A stream's task begins.
    pub(in crate::client) fn begin(tally: &Arc<Tally>) -> Self {
        tally.begin();
        Counted { tally: tally.clone(), ended: Ended::default() }
    }

    pub(in crate::client) fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.tally.end(self.ended);
        self.tally.parking.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::Meter;
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_task_that_panics_is_no_longer_counted() {
        let tally = Arc::new(Tally::new(Meter::new(|| None, |_| Ok(()), |_| {}, || None, |_| {})));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let counted = Counted::begin(&tally);
            assert_eq!(counted.tally().live(), 2, "on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!((tally.live(), tally.resets()), (0, 0));
    }
}
