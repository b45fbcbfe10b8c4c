//! A pool's servers are all others from now on: what the former ones still do takes no slots of theirs.
//!
//! Servers are often replaced because they hang. The requests that hang there would hold every slot until they time out,
//! and nothing would go to the new servers; how slowly queues were served would have newcomers refused.

use super::lent::Lent;
use super::outlived::Outlived;
use super::pool::Pool;
use super::{Gate, Holds, Slot};
use crate::admit::stall::Stalls;
use crate::names::PoolId;
use crate::time::Moment;

impl<T> Gate<T> {
    /// None of the pool's servers is the pool's any more; it has others. Requests in progress at the former ones go on, without
    /// slots. What the limit has found is kept: the new servers are likely to be of the same kind. O(classes + requests in progress).
    pub fn moved(&mut self, now: Moment, pool: PoolId) {
        let (now, pool, common) = self.at(now, pool);
        pool.advance(now);
        pool.move_on(now);
        pool.dispatch(common, now);
    }

    /// The request in the slot is about to go to one of the servers that the pool has now. O(1).
    pub fn goes_to(&mut self, now: Moment, slot: &mut Slot) {
        let (now, pool, _) = self.at(now, slot.pool);
        pool.take_in(now, slot);
    }
}

impl<T> Pool<T> {
    fn move_on(&mut self, now: Moment) {
        self.lineup += 1;
        self.limit.write_off(now);
        self.lent = Lent::default();
        if let Some(background) = &mut self.background {
            (background.outlived, background.outlives) = (Outlived::default(), 0);
        }
        self.overtaken.forget();
        for load in self.classes.loads_mut() {
            (load.running, load.beside) = (0, 0);
        }
        (self.stalls, self.away_until) = (Stalls::default(), Moment::ZERO);
        self.resources.iter_mut().for_each(|resource| resource.limit.write_off(now));
        for lane in self.lanes.ids() {
            self.lanes.at_mut(lane).forget_drains(now);
        }
    }

    /// Whether the request was let go to servers that are not the pool's any more, so that it holds no slots.
    pub(super) fn is_written_off(&self, slot: &Slot) -> bool {
        slot.lineup != self.lineup
    }

    /// The request goes to one of the new servers after all.
    fn take_in(&mut self, now: Moment, slot: &mut Slot) {
        // Where each server has its own, it gets one by a transfer.
        if self.is_written_off(slot) && !self.limit.is_per_server() {
            slot.lineup = self.lineup;
            let seat = self.limit.grant(now, slot.grant.slots);
            slot.holds = Holds::Slots(seat);
            self.overtaken.goes_on(now, slot.place, seat);
            self.takes_resource(now, slot.lane);
            self.classes.load_mut(slot.class).running += u32::from(slot.grant.slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::{Class, ClassId};
    use crate::control::Slots;
    use crate::gate::{Arrival, Claim, Ticket, Verdict};
    use crate::outcome::{End, Outcome};
    use crate::plan::Spec;
    use std::time::Duration;

    fn at(ms: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(ms)
    }

    /// Two slots that are held, and so many requests that wait.
    fn full(waiting: usize) -> (Gate<()>, [Slot; 2], Vec<Ticket>) {
        let classes = vec![Class::named("all")];
        let spec = Spec { classes, slots: Slots::Fixed(2), ..Spec::protective() };
        let mut gate = Gate::new(spec.build().expect("a valid plan"));
        let mut arrive = || gate.arrive(at(0), Arrival::of(ClassId(0)), || ());
        let held = [(); 2].map(|()| match arrive() {
            Verdict::Admit(slot) => slot,
            verdict => panic!("{verdict:?}"),
        });
        let wait = |_| match arrive() {
            Verdict::Queue(ticket) => ticket,
            verdict => panic!("{verdict:?}"),
        };
        let tickets = (0..waiting).map(wait).collect();
        (gate, held, tickets)
    }

    fn finish(gate: &mut Gate<()>, ms: u64, slot: Slot) {
        gate.finish(at(ms), slot, Outcome::without_answer(End::Served));
    }

    #[test]
    fn what_hangs_at_former_servers_holds_no_slots() {
        let (mut gate, old, tickets) = full(3);
        gate.moved(at(1000), PoolId::DEFAULT);
        assert_eq!((gate.running(), gate.waiting()), (2, 1));
        assert_eq!(gate.state(ClassId(0)).running, 2);
        let [Claim::Admitted(first), Claim::Admitted(second), Claim::Waiting] =
            [0, 1, 2].map(|place| gate.claim(tickets[place]))
        else {
            panic!("two of them have slots");
        };
        old.into_iter().for_each(|slot| finish(&mut gate, 1100, slot));
        assert_eq!((gate.running(), gate.waiting()), (2, 1), "they had none to give");
        finish(&mut gate, 1200, first);
        assert_eq!((gate.running(), gate.waiting()), (2, 0));
        let Claim::Admitted(third) = gate.claim(tickets[2]) else { panic!("its turn") };
        finish(&mut gate, 1300, second);
        finish(&mut gate, 1300, third);
        assert_eq!(gate.running(), 0);
        assert_eq!(gate.state(ClassId(0)), Default::default());
    }

    #[test]
    fn a_slot_that_was_not_claimed_yet_is_none_either() {
        let (mut gate, [one, other], tickets) = full(1);
        finish(&mut gate, 500, one);
        gate.moved(at(1000), PoolId::DEFAULT);
        assert_eq!(gate.running(), 0);
        let Claim::Admitted(slot) = gate.claim(tickets[0]) else { panic!("it was granted one") };
        finish(&mut gate, 1100, slot);
        finish(&mut gate, 1100, other);
        assert_eq!(gate.running(), 0);
    }

    #[test]
    fn whoever_still_waits_for_a_former_server_goes_to_the_new_ones_with_a_slot() {
        let (mut gate, [mut one, other], _) = full(0);
        gate.is_away(at(900), &mut one, at(1060));
        gate.moved(at(1000), PoolId::DEFAULT);
        assert_eq!(gate.running(), 0);
        gate.goes_to(at(1060), &mut one);
        gate.goes_to(at(1060), &mut one);
        assert_eq!((gate.running(), gate.state(ClassId(0)).running), (1, 1));
        finish(&mut gate, 1100, one);
        finish(&mut gate, 1100, other);
        assert_eq!(gate.running(), 0);
    }

    #[test]
    fn how_slowly_the_former_served_says_nothing() {
        let (mut gate, _old, _) = full(1);
        let arrive = |gate: &mut Gate<()>, ms| gate.arrive(at(ms), Arrival::of(ClassId(0)), || ());
        (0..40).for_each(|step| {
            gate.tick(at(step * 250));
            arrive(&mut gate, step * 250);
        });
        assert!(matches!(arrive(&mut gate, 10_000), Verdict::Reject(_)));
        gate.moved(at(10_000), PoolId::DEFAULT);
        let verdicts: Vec<_> = (0..4).map(|_| arrive(&mut gate, 10_000)).collect();
        assert!(!verdicts.iter().any(|it| matches!(it, Verdict::Reject(_))), "{verdicts:?}");
    }
}
