//! One kind of the foreground's requests, those of a lane: what they usually take, and by how much they feel the background.

use super::effect::{CONTRAST_MIN, Effect, Numbers, Taken};
use super::turn::TURNS;

/// By how much of the difference what is usual moves at the end of a pair.
const STEP: f64 = 0.2;
/// Those of a kind feel the background about as all do if they feel less than so many times as much.
const ALIKE: f64 = 2.0;
/// The first so many requests say what is usual as they come, so that one that is not does not say it for minutes.
const FIRST: u32 = 32;
/// A kind's requests of several pairs of turns count as those of one, until there are so many of them in either turn.
const TOGETHER: u32 = 2;
/// Pairs of turns in which none of a kind came before it does not count any more, until one comes.
const ABSENT: u32 = 100;

/// What is known of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Mean of ln of the seconds that they take; `None`: none were answered yet.
    pub(super) usual: Option<f64>,
    /// Those that it was learned from at first.
    first: u32,
    /// Those that were answered in the present pair of turns, and the sum of how far they were from it.
    pub(super) requests: u32,
    sum: f64,
    /// By turn, the oldest first, as the turns of all.
    turns: [Taken; TURNS],
    /// What was not learned from yet, of turns with the background and without.
    with: Found,
    without: Found,
    effect: Effect,
    /// Pairs of turns since one of them was answered.
    absent: u32,
}

impl Default for Kind {
    fn default() -> Self {
        Kind {
            usual: None,
            first: 0,
            requests: 0,
            sum: 0.0,
            turns: [Taken::NOTHING; TURNS],
            with: Found::NOTHING,
            without: Found::NOTHING,
            effect: Effect::UNKNOWN,
            absent: ABSENT,
        }
    }
}

/// What requests of some turns took, and how many background requests they found in progress.
#[derive(Clone, Copy, Debug)]
struct Found {
    taken: Taken,
    found: f64,
}

impl Found {
    const NOTHING: Found = Found { taken: Taken::NOTHING, found: 0.0 };

    /// Those of another turn, who found so many on average.
    fn add(&mut self, taken: Taken, found: f64) {
        self.taken.add(taken);
        self.found += found * f64::from(taken.requests);
    }

    fn mean(&self) -> f64 {
        self.found / f64::from(self.taken.requests.max(1))
    }
}

impl Kind {
    /// One was answered that took so much, in ln. By how much longer that is than usual.
    pub(super) fn answered(&mut self, ln: f64) -> f64 {
        let usual = self.usual.get_or_insert(ln);
        let x = ln - *usual;
        if self.first < FIRST {
            self.first += 1;
            *usual += x / f64::from(self.first);
        } else {
            self.requests += 1;
            self.sum += x;
        }
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

    /// The oldest pair of turns says how much they feel it; that of a kind of which few come, once enough of them came in both turns of all that it was not learned from.
    pub(super) fn learn(&mut self, numbers: Numbers) {
        let Numbers { present, contrast, most } = numbers;
        self.with.add(self.turns[0], present);
        self.without.add(self.turns[1], present - contrast);
        let [with, without] = [self.with, self.without];
        let present = with.mean();
        let contrast = present - without.mean();
        if with.taken.requests.min(without.taken.requests) < TOGETHER {
            return;
        }
        if contrast >= CONTRAST_MIN {
            self.effect.learn(Numbers { present, contrast, most }, with.taken, without.taken);
            self.effect.forget();
        }
        (self.with, self.without) = (Found::NOTHING, Found::NOTHING);
    }

    /// A pair of turns is over: within it, what is usual stood still, so that no difference between them is lost.
    pub(super) fn settle(&mut self) {
        let mean = std::mem::take(&mut self.sum) / f64::from(self.requests.max(1));
        self.requests = 0;
        self.usual = self.usual.map(|usual| usual + STEP * mean);
        self.absent = self.absent.saturating_add(1);
    }

    /// [`Effect::forgets_far`], where they feel it about as all together do, who feel so much: what few requests of a kind feel more than the others is too
    /// dearly learned.
    pub(super) fn forgets_far(&mut self, ratio: f64, of_all: f64) {
        if self.effect.felt().each < ALIKE * of_all {
            self.effect.forgets_far(ratio);
        }
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
