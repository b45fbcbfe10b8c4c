//! The set points of the classes: which of them get better or worse answers when the server is to be used more or less.
//!
//! Worse: the full quality of the least important class goes first, level by level, then that of the next; only when all are at the
//! lowest quality are clients refused, the least important class first again. Better: the other way round. The paper
//! leaves each class what higher ones leave, refusals before a higher class's quality; but a worse answer is better than none.
//!
//! A class whose site asks for more than it is guaranteed goes before all that are not, and has the least first:
//! what is beyond a guarantee is had only as long as nobody else needs it.
//!
//! Source: Abdelzaher 5.2 for the order of classes, 5.3 for what is beyond guarantees.

use super::level::LevelNumber;
use crate::names::ClassId;

/// Most that a set point moves in a step.
const FALL_MAX: f64 = 0.5;
const RISE_MAX: f64 = 0.25;
/// By how much the set point of a class without requests rises in a step in which others may: nothing is known of what it would take.
const RISE_IDLE: f64 = 0.1;
/// What is kept of a class's rate of requests after a period.
const RATE_KEPT: f64 = 0.5;
const USUAL_RATE_KEPT: f64 = 0.8;
/// A class with fewer requests a second has none.
const RATE_MIN: f64 = 0.02;

/// A class, and its set point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) class: ClassId,
    /// m: from 0, all are refused, to the highest level.
    pub(crate) set_point: f64,
    /// Requests a second, on average over the last periods.
    pub(crate) rate: f64,
    /// The same over more periods.
    usual_rate: f64,
    /// The highest level.
    highest: f64,
    /// What its site's guarantee pays for ([`super::floors`]), below which it does not fall; `None`: it has none.
    floor: Option<f64>,
    /// It would be lower without that, and follows its floor.
    is_held: bool,
    /// Where the set point was before this step.
    before: f64,
}

impl Part {
    /// Whether it has requests.
    pub(crate) fn is_busy(&self) -> bool {
        self.rate >= RATE_MIN
    }

    /// Whether it can fall no further; `least`: that of all classes.
    pub(crate) fn is_lowest(&self, least: LevelNumber) -> bool {
        self.set_point <= self.floor.unwrap_or_default().max(f64::from(least))
    }

    /// Whether its site asks for more than it is guaranteed.
    fn is_excess(&self) -> bool {
        self.floor.is_some_and(|floor| floor < self.highest)
    }
}

/// The set points of all classes of a plan, the most important first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetPoints {
    parts: Vec<Part>,
}

impl SetPoints {
    /// Follows a plan: a class that is known keeps its set point, as far as the levels go.
    pub(crate) fn reconfigure(&mut self, classes: &[ClassId], least: f64, highest: LevelNumber) {
        let highest = f64::from(highest);
        let former = std::mem::take(&mut self.parts);
        let part = |class: &ClassId| {
            let known = former.iter().find(|it| it.class == *class).copied();
            let (set_point, before) = (highest, highest);
            let new = Part {
                class: *class,
                set_point,
                rate: 0.0,
                usual_rate: 0.0,
                highest,
                floor: None,
                is_held: false,
                before,
            };
            let part = known.unwrap_or(new);
            let set_point = part.set_point.clamp(least, highest);
            // The next step says where its floor is.
            Part { set_point, highest, floor: None, is_held: false, ..part }
        };
        self.parts = classes.iter().map(part).collect();
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The set point of a class; `None`: it is not in the plan.
    pub(crate) fn of_class(&self, class: ClassId) -> Option<f64> {
        self.parts.iter().find(|it| it.class == class).map(|it| it.set_point)
    }

    /// Requests a second of a class, on average over so many periods that chance matters little; or lately, if that is less.
    pub(crate) fn usual_rate_of(&self, class: ClassId) -> f64 {
        let rate = |it: &Part| it.usual_rate.min(it.rate);
        self.parts.iter().find(|it| it.class == class).map_or(0.0, rate)
    }

    /// Whether a class with requests has worse answers because its site asks for more than it is guaranteed.
    pub(crate) fn is_cut(&self, class: ClassId) -> bool {
        let is_cut = |it: &Part| it.is_held && it.is_busy() && it.is_excess();
        self.parts.iter().any(|it| it.class == class && is_cut(it))
    }

    /// Whether a class with requests would have worse answers without its site's guarantee.
    pub(crate) fn is_held(&self, class: ClassId) -> bool {
        self.parts.iter().any(|it| it.class == class && it.is_held && it.is_busy())
    }

    /// Says where the guarantee of a class's site ends.
    pub(crate) fn set_floor(&mut self, class: ClassId, floor: f64) {
        for part in self.parts.iter_mut().filter(|it| it.class == class) {
            part.floor = Some(floor);
            part.is_held |= part.set_point < floor;
            if part.is_held {
                part.set_point = floor;
            }
        }
    }

    /// So many requests of each class came in so many seconds.
    pub(crate) fn came(&mut self, seconds: f64, count: impl Fn(ClassId) -> u64) {
        for part in &mut self.parts {
            let rate = count(part.class) as f64 / seconds.max(1e-3);
            part.rate = part.rate * RATE_KEPT + rate * (1.0 - RATE_KEPT);
            part.usual_rate = part.usual_rate * USUAL_RATE_KEPT + rate * (1.0 - USUAL_RATE_KEPT);
        }
    }

    /// All requests a second.
    pub(crate) fn rate(&self) -> f64 {
        self.parts.iter().map(|it| it.rate).sum()
    }

    /// Lets more of the clients in that are refused: raises each set point below 1, to 1 at most.
    pub(crate) fn let_in(&mut self, by: f64) {
        for part in self.parts.iter_mut().filter(|it| it.set_point < 1.0) {
            part.set_point = (part.set_point + by).min(1.0);
            part.is_held = false;
        }
    }

    /// Moves the set points so that the use of the server changes by so much; returns what it should change besides: less than 0 if they are as low
    /// as they may be. `gain`: by how much it changes if a class that is at a
    /// level gets the next one. `least`: 0 where clients may be refused, or 1.
    pub(crate) fn move_by(
        &mut self,
        mut by: f64,
        least: LevelNumber,
        highest: LevelNumber,
        gain: impl Fn(&Part, LevelNumber) -> f64,
    ) -> f64 {
        // The stretches of quality and of refusal; one of them may be empty.
        let (bottom, top) = (f64::from(least), f64::from(highest));
        let quality = (bottom.max(1.0).min(top), top);
        let refusal = (bottom, quality.0);
        self.parts.iter_mut().for_each(|it| it.before = it.set_point);
        if by < 0.0 {
            for (from, to) in [quality, refusal] {
                for is_excess in [true, false] {
                    let may = |it: &&mut Part| it.is_busy() && it.is_excess() == is_excess;
                    for part in self.parts.iter_mut().rev().filter(may) {
                        by = fall(part, by, (from, to), &gain);
                        if by >= 0.0 {
                            return 0.0;
                        }
                    }
                }
            }
            return by;
        }
        for (from, to) in [refusal, quality] {
            for is_excess in [false, true] {
                for part in self.parts.iter_mut().filter(|it| it.is_excess() == is_excess) {
                    if !part.is_busy() {
                        let within = (from..to).contains(&part.set_point);
                        part.set_point +=
                            if within { RISE_IDLE.min(to - part.set_point) } else { 0.0 };
                        continue;
                    }
                    by = rise(part, by, (from, to), &gain);
                    if by <= 0.0 {
                        return 0.0;
                    }
                }
            }
        }
        by
    }
}

/// Lowers a set point within a stretch; returns what is left to others: 0 or more if nothing.
fn fall(
    part: &mut Part,
    mut by: f64,
    (from, to): (f64, f64),
    gain: &impl Fn(&Part, LevelNumber) -> f64,
) -> f64 {
    let most = part.before - FALL_MAX;
    let lowest = from.max(most).max(part.floor.unwrap_or_default());
    while part.set_point > lowest && part.set_point <= to {
        let level = (part.set_point.ceil() - 1.0).max(0.0);
        let gain = gain(part, level as LevelNumber).max(f64::MIN_POSITIVE);
        let end = level.max(lowest);
        let room = (part.set_point - end) * gain;
        if room + by > 0.0 {
            part.set_point += by / gain;
            return 0.0;
        }
        part.set_point = end;
        by += room;
        if end == most {
            return 0.0;
        }
    }
    part.is_held |= part.floor.is_some_and(|floor| part.set_point <= floor);
    by.min(-0.0)
}

/// Raises a set point within a stretch; returns what is left to others: 0 or less if nothing.
fn rise(
    part: &mut Part,
    mut by: f64,
    (from, to): (f64, f64),
    gain: &impl Fn(&Part, LevelNumber) -> f64,
) -> f64 {
    let most = part.before + RISE_MAX;
    part.is_held = false;
    while part.set_point >= from && part.set_point < to.min(most) {
        let level = part.set_point.floor();
        let gain = gain(part, level as LevelNumber).max(f64::MIN_POSITIVE);
        let end = (level + 1.0).min(to).min(most);
        let room = (end - part.set_point) * gain;
        if by < room {
            part.set_point += by / gain;
            return 0.0;
        }
        part.set_point = end;
        by -= room;
        if end == most {
            return 0.0;
        }
    }
    by
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREMIUM: ClassId = ClassId(0);
    const BASIC: ClassId = ClassId(1);

    fn both(rates: [u64; 2]) -> SetPoints {
        let mut points = SetPoints::default();
        points.reconfigure(&[PREMIUM, BASIC], 0.0, 2);
        for _ in 0..30 {
            points.came(1.0, |class| rates[class.index()]);
        }
        points
    }

    fn set_points(points: &SetPoints) -> [f64; 2] {
        [PREMIUM, BASIC].map(|class| points.of_class(class).expect("it is there"))
    }

    /// By 0.1 of the server for each level of each class.
    fn step(points: &mut SetPoints, by: f64, least: u8) -> [f64; 2] {
        points.move_by(by, least, 2, |_, _| 0.1);
        set_points(points)
    }

    #[test]
    fn the_least_important_get_worse_answers_first_and_nobody_is_refused_before_all_do() {
        let mut points = both([100, 100]);
        assert_eq!(step(&mut points, -0.025, 0), [2.0, 1.75]);
        let mut seen = vec![set_points(&points)];
        for _ in 0..12 {
            seen.push(step(&mut points, -0.05, 0));
        }
        assert_eq!(seen.last(), Some(&[0.0, 0.0]));
        for [premium, basic] in &seen {
            assert!(*premium == 2.0 || *basic <= 1.0, "premium {premium}, basic {basic}");
            assert!(*basic >= 1.0 || *premium <= 1.0, "premium {premium}, basic {basic}");
            assert!(*premium >= 1.0 || *basic == 0.0, "premium {premium}, basic {basic}");
        }
        for _ in 0..20 {
            let [premium, basic] = step(&mut points, 0.03, 0);
            assert!(basic <= premium, "premium {premium}, basic {basic}");
            assert!(premium <= 1.0 || basic >= 1.0, "nobody is refused for their sake");
        }
        assert_eq!(set_points(&points), [2.0, 2.0]);
    }

    #[test]
    fn without_leave_to_refuse_all_have_the_lowest_quality_at_least() {
        let mut points = both([100, 100]);
        for _ in 0..20 {
            step(&mut points, -1.0, 1);
        }
        assert_eq!(set_points(&points), [1.0, 1.0]);
    }

    #[test]
    fn a_step_has_a_bound_and_what_is_left_of_it_is_not_made_up_for_by_others() {
        let mut points = both([100, 100]);
        assert_eq!(step(&mut points, -1.0, 0), [2.0, 1.5]);
        assert_eq!(step(&mut points, 1.0, 0), [2.0, 1.75]);
        let mut one = both([0, 100]);
        step(&mut one, -0.025, 0);
        step(&mut one, -1.0, 0);
        assert_eq!(step(&mut one, -1.0, 0), [2.0, 0.75], "also where refusals begin");
        assert_eq!(step(&mut one, 1.0, 0), [2.0, 1.0]);
    }

    #[test]
    fn classes_without_requests_are_passed_over_and_come_back_by_themselves() {
        let mut points = both([100, 0]);
        assert_eq!(step(&mut points, -0.02, 0), [1.8, 2.0]);
        let mut points = both([100, 100]);
        while set_points(&points)[1] > 1.0 {
            step(&mut points, -0.05, 0);
        }
        for _ in 0..30 {
            points.came(1.0, |class| [100, 0][class.index()]);
        }
        for _ in 0..20 {
            step(&mut points, 0.01, 0);
        }
        assert_eq!(set_points(&points), [2.0, 2.0]);
    }

    #[test]
    fn a_reload_keeps_set_points_within_the_levels_that_there_are() {
        let mut points = both([100, 100]);
        step(&mut points, -0.05, 0);
        points.reconfigure(&[BASIC, PREMIUM, ClassId(7)], 0.0, 2);
        assert_eq!(points.parts()[0].set_point, 1.5);
        assert_eq!(points.of_class(ClassId(7)), Some(2.0));
        points.reconfigure(&[BASIC], 1.0, 1);
        assert_eq!(points.of_class(BASIC), Some(1.0));
        assert_eq!(points.of_class(PREMIUM), None);
    }
}
