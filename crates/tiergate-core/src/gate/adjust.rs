//! What comes in beside requests: readings of sensors, adjustments of controllers, and the wall clock.

use super::Gate;
use crate::adjust::{AdjustError, Adjustment, Adjustments, Applied, Change};
use crate::names::PoolId;
use crate::plan::Plan;
use crate::sense::{Reading, ReadingError, Sources};
use crate::time::Moment;
use std::time::Duration;

/// So often a value that is on its way is moved on.
const MOVE_EVERY: Duration = Duration::from_millis(100);

impl<T> Gate<T> {
    /// Takes a reading: keeps it as the last of its source, and tells the law of the default pool's limit. O(sources).
    ///
    /// # Errors
    /// A reading that cannot be, or too many sources. Nothing has changed then.
    pub fn observe(&mut self, now: Moment, reading: Reading<'_>) -> Result<(), ReadingError> {
        // Sensors do not say yet which servers they watch: those of the default pool.
        let now = self.common.latest(now);
        self.sources.take(now, reading)?;
        let (now, pool, common) = self.at(now, PoolId::DEFAULT);
        pool.advance(now);
        pool.limit.observe(now, &reading);
        pool.dispatch(common, now);
        Ok(())
    }

    /// By how much the wall clock is ahead of moments: UNIX time at [`Moment::ZERO`]. To be told before the first request and
    /// again now and then, since clocks are set. What several gateways do together ([`Slots::Shared`]) they do at moments
    /// of the wall clock; where it is never told, they find each other by chance. O(pools).
    ///
    /// [`Slots::Shared`]: crate::control::Slots::Shared
    pub fn set_clock(&mut self, ahead: Duration) {
        self.common.ahead = ahead;
        for pool in &mut self.pools {
            pool.limit.set_clock(ahead);
            pool.resources.iter_mut().for_each(|resource| resource.limit.set_clock(ahead));
        }
    }

    /// The last reading of each source.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Adjusts a setting of the plan for `owner`, from now on until [`Gate::release`]: it moves from where
    /// it is to the value wanted, within the owner's bounds and no faster than its slew. A reload does not
    /// end it. Costs a copy of the plan: for what acts a few times a second.
    ///
    /// # Errors
    /// Nothing has changed then.
    pub fn adjust(
        &mut self,
        now: Moment,
        owner: &str,
        wanted: Adjustment,
    ) -> Result<Applied, AdjustError> {
        let now = self.common.latest(now);
        self.move_adjustments(now);
        let mut adjustments = self.adjustments.clone();
        let (applied, plan) = adjustments.claim(now, owner, wanted)?;
        self.adjustments = adjustments;
        self.put_adjusted(now, plan);
        Ok(applied)
    }

    /// Makes several changes of an owner's adjustments together. Costs a copy of the plan.
    ///
    /// # Errors
    /// Which change cannot be made, by its place, and why. Nothing has changed then.
    pub fn change(
        &mut self,
        now: Moment,
        owner: &str,
        changes: &[Change],
    ) -> Result<(), (usize, AdjustError)> {
        let now = self.common.latest(now);
        self.move_adjustments(now);
        let mut adjustments = self.adjustments.clone();
        let plan = adjustments.change(now, owner, changes)?;
        self.adjustments = adjustments;
        self.put_adjusted(now, plan);
        Ok(())
    }

    /// Ends all adjustments of an owner: the plan's values are in force again at once. Returns how many
    /// there were.
    pub fn release(&mut self, now: Moment, owner: &str) -> usize {
        let now = self.common.latest(now);
        let count = self.adjustments.release(owner);
        let plan = self.adjustments.over();
        self.put_adjusted(now, plan);
        count
    }

    /// Who adjusts what.
    pub fn adjustments(&self) -> &Adjustments {
        &self.adjustments
    }

    /// Moves values on that are on their way. Returns when to do so again.
    pub(super) fn move_adjustments(&mut self, now: Moment) -> Moment {
        if self.adjustments.advance(now) {
            let plan = self.adjustments.over();
            self.put_adjusted(now, plan);
        }
        if self.adjustments.is_moving() { now + MOVE_EVERY } else { Moment::NEVER }
    }

    /// Puts the plan in force with other values of what may be adjusted.
    fn put_adjusted(&mut self, now: Moment, plan: Plan) {
        self.let_time_pass(now);
        if plan.slots != self.common.plan.slots {
            self.pool_of_mut(PoolId::DEFAULT).limit.set_bounds(now, &plan.slots);
        }
        self.put_in_force(now, plan);
    }
}
