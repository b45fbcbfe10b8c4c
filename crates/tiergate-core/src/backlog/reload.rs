//! A reload: everybody keeps a place under another plan.

use super::lane::LANES;
use super::slab::State;
use super::{Backlog, Discipline, Standing, lanes_for};
use crate::class::ClassId;
use crate::time::Moment;
use std::collections::HashMap;

impl<T> Backlog<T> {
    /// Puts other classes in force and gives every entry the class that `translate` says. Who began to
    /// wait first still did so; flows keep what they are ahead or behind, counted from their lane's
    /// virtual time, and start anew where that has changed its meaning: in classes whose flows are not
    /// told apart. Services that go on are not put right any more. O(n log n), and it allocates.
    ///
    /// Returns how many entries hold a slot that their owners have not claimed.
    pub(crate) fn reclass(
        &mut self,
        disciplines: Vec<Discipline>,
        translate: impl Fn(ClassId) -> ClassId,
    ) -> u32 {
        let mut granted = 0;
        let mut waiting = Vec::with_capacity(self.len);
        for (index, waiter) in self.slab.used() {
            waiter.class = translate(waiter.class);
            match waiter.state {
                State::Waiting => waiting.push((waiter.sequence, index)),
                State::Granted(_) => granted += 1,
                State::Refused(_) | State::Free => {}
            }
        }
        waiting.sort_unstable();

        let renewed = self.flows.renewed();
        let former = std::mem::replace(&mut self.flows, renewed);
        let lanes = std::mem::replace(&mut self.lanes, lanes_for(disciplines.len()));
        let disciplines = std::mem::replace(&mut self.disciplines, disciplines);
        self.standing = Standing::default();
        self.len = 0;
        // Late enough that nothing which lags behind its lane's time falls below zero.
        let begin = lanes.iter().map(|lane| lane.now).fold(0.0, f64::max);
        self.lanes.iter_mut().for_each(|lane| lane.now = begin);

        let mut kept = HashMap::new();
        let idle: Vec<u32> = former.idle().collect();
        for number in former.all() {
            let mut flow = former.at(number).clone();
            let class = ClassId((flow.lane as usize / LANES) as u16);
            let new = translate(class);
            let is_known = disciplines[class.index()].fair == self.disciplines[new.index()].fair;
            let ahead = flow.start - lanes[flow.lane as usize].now;
            if !is_known || flow.len == 0 && (ahead <= 0.0 || former.is_over(self.now, number)) {
                continue;
            }
            flow.start = begin + ahead;
            let lane = (new.index() * LANES) as u32 + flow.lane % LANES as u32;
            let more = kept.entry((lane, flow.key)).or_insert_with(|| flow.clone());
            // Two accounts become one: the one that was served more.
            if (more.start, more.tie) < (flow.start, flow.tie) {
                *more = flow;
            }
        }
        for (_, index) in waiting {
            self.join(index);
        }
        for (&(lane, key), flow) in &kept {
            let number = self.flows.open(lane, key);
            let new = self.flows.at_mut(number);
            (new.start, new.is_lifo, new.law) = (flow.start, flow.is_lifo, flow.law);
            if new.len > 0 {
                new.tie = flow.tie;
                self.lanes[lane as usize].seat_turn(&mut self.standing, number, new);
            }
        }
        for number in idle {
            let flow = former.at(number);
            let class = translate(ClassId((flow.lane as usize / LANES) as u16));
            let lane = (class.index() * LANES) as u32 + flow.lane % LANES as u32;
            let Some(number) = self.flows.find(lane, flow.key) else {
                continue;
            };
            let new = self.flows.at(number);
            if new.len == 0 && new.idle_since == Moment::NEVER {
                let lanes = &self.lanes;
                self.flows.rests(flow.idle_since, number, |lane| lanes[lane as usize].now);
            }
        }
        granted
    }
}
