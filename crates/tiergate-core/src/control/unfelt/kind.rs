//! One kind of the foreground's requests, those of a lane: what they usually take, and by how much they feel the background.

use super::effect::{Effect, Numbers, Taken};
use super::turn::TURNS;

/// By how much of the difference what is usual moves at the end of a pair.
const STEP: f64 = 0.2;
/// Pairs of turns in which none of a kind came before it does not count any more, until one comes.
const ABSENT: u32 = 100;

/// What is known of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Mean of ln of the seconds that they take; `None`: none were answered yet.
    pub(super) usual: Option<f64>,
    /// Those that were answered in the present pair of turns, and the sum of how far they were from it.
    pub(super) requests: u32,
    sum: f64,
    /// By turn, the oldest first, as the turns of all.
    turns: [Taken; TURNS],
    effect: Effect,
    /// Pairs of turns since one of them was answered.
    absent: u32,
}

impl Default for Kind {
    fn default() -> Self {
        Kind {
            usual: None,
            requests: 0,
            sum: 0.0,
            turns: [Taken::NOTHING; TURNS],
            effect: Effect::UNKNOWN,
            absent: ABSENT,
        }
    }
}

impl Kind {
    /// One was answered that took so much, in ln. By how much longer that is than usual.
    pub(super) fn answered(&mut self, ln: f64) -> f64 {
        let x = ln - *self.usual.get_or_insert(ln);
        self.requests += 1;
        self.sum += x;
        x
    }

    /// One that came in the turn, if that is remembered, took so much longer than is usual, in ln.
    pub(super) fn note(&mut self, turn: Option<usize>, x: f64) {
        self.absent = 0;
        if let Some(square) = turn.and_then(|turn| self.turns[turn].note(x)) {
            self.effect.varies(square);
        }
    }

    /// A turn begins.
    pub(super) fn begin(&mut self) {
        self.turns.rotate_left(1);
        self.turns[TURNS - 1] = Taken::NOTHING;
    }

    /// Nobody was there to feel anything.
    pub(super) fn begins_anew(&mut self) {
        self.turns = [Taken::NOTHING; TURNS];
    }

    /// The oldest pair of turns says how much they feel it, if any of them came in both.
    pub(super) fn learn(&mut self, numbers: Numbers) {
        let [with, without] = [self.turns[0], self.turns[1]];
        if with.requests.min(without.requests) > 0 {
            self.effect.learn(numbers, with, without);
        }
    }

    /// A pair of turns is over: within it, what is usual stood still, so that no difference between them is lost.
    pub(super) fn settle(&mut self) {
        let mean = std::mem::take(&mut self.sum) / f64::from(self.requests.max(1));
        self.requests = 0;
        self.usual = self.usual.map(|usual| usual + STEP * mean);
        self.absent = self.absent.saturating_add(1);
        self.effect.forget();
    }

    /// By how much longer they take for each background request in progress, at least, in ln.
    pub(super) fn surely_felt(&self) -> f64 {
        if self.absent < ABSENT { self.effect.surely() } else { 0.0 }
    }

    /// How many do not surely make them longer by more than this.
    pub(super) fn unhurt(&self, tolerated: f64) -> f64 {
        if self.absent < ABSENT { self.effect.unhurt(tolerated) } else { f64::INFINITY }
    }
}
