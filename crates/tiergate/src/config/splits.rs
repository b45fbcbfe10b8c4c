//! What sends requests to several pools, as rules and classes of a policy say.

use super::place::Place;
use std::cell::RefCell;
use tiergate_core::names::{PoolId, Route};
use tiergate_core::plan::Split;

/// The splits of a policy, each once.
#[derive(Debug, Default)]
pub(super) struct Splits(RefCell<Vec<Split>>);

impl Splits {
    /// All of them, in the order of their routes.
    pub(super) fn take(&self) -> Vec<Split> {
        self.0.take()
    }

    /// The pools that a route leads to: those of some weight.
    pub(super) fn pools_of(&self, route: Route) -> Vec<PoolId> {
        match route {
            Route::Pool(pool) => vec![pool],
            Route::Split(split) => {
                let splits = self.0.borrow();
                let parts = splits[usize::from(split)].parts.iter();
                parts.filter(|(_, weight)| *weight > 0).map(|(pool, _)| *pool).collect()
            }
        }
    }

    /// The route by this split; reports one too many.
    pub(super) fn route(&self, split: Split, place: &Place) -> Option<Route> {
        let mut splits = self.0.borrow_mut();
        let known = splits.iter().position(|it| *it == split);
        let index = known.unwrap_or(splits.len());
        if index >= Split::COUNT_MAX {
            let most = Split::COUNT_MAX;
            place.fault(format!("is one too many: at most {most} different weights of pools"));
            return None;
        }
        if known.is_none() {
            splits.push(split);
        }
        Some(Route::Split(index as u16))
    }
}
