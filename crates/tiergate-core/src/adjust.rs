//! Adjustments: settings of the plan that controllers override while serving.
//!
//! Each setting has one owner at a time, which says how far it may go (bounds) and how fast (slew). It
//! moves there by itself, as time passes. An adjustment outlives reloads: the plan changes underneath, and
//! what is in force stays in force. If what it adjusts is gone, or cannot have that value any more, it
//! lapses; it is listed as lapsed until its owner releases it.

use crate::admit::bucket::Rate;
use crate::admit::policer::PolicerId;
use crate::class::ClassId;
use crate::control::Slots;
use crate::plan::Plan;
use crate::time::Moment;

/// A setting that may be adjusted. Each is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Fewest slots, where the limit adapts.
    SlotsMin,
    /// Most slots; the slots there are, where the limit is fixed.
    SlotsMax,
    /// Tokens a second of a policer.
    PolicerRate(PolicerId),
    /// Waiting requests from which on a class's trigger, by its place, refuses the class.
    TriggerLen(ClassId, usize),
    /// A class's guaranteed share of the slots.
    Minimum(ClassId),
    /// A class's weight.
    Weight(ClassId),
    /// A class's share of the slots, where capacity is shared or fixed.
    Share(ClassId),
}

impl Setting {
    /// What status calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Setting::SlotsMin => "slots_min",
            Setting::SlotsMax => "slots_max",
            Setting::PolicerRate(_) => "policer_rate",
            Setting::TriggerLen(..) => "trigger_len",
            Setting::Minimum(_) => "minimum",
            Setting::Weight(_) => "weight",
            Setting::Share(_) => "share",
        }
    }

    /// The plan's value; `None`: it has no such setting.
    pub(crate) fn read(self, plan: &Plan) -> Option<f64> {
        let class = |id: ClassId| plan.classes.get(id.index());
        match (self, &plan.slots) {
            (Setting::SlotsMin, Slots::Adaptive(bounds)) => Some(bounds.slots_min.into()),
            (Setting::SlotsMin, Slots::Fixed(_)) => None,
            (Setting::SlotsMax, Slots::Adaptive(bounds)) => Some(bounds.slots_max.into()),
            (Setting::SlotsMax, Slots::Fixed(slots)) => Some((*slots).into()),
            (Setting::PolicerRate(id), _) => {
                plan.policers.get(id.index()).map(|it| it.rate.tokens_per_second())
            }
            (Setting::TriggerLen(id, place), _) => {
                class(id)?.refuse_at.get(place).map(|it| it.waiting.into())
            }
            (Setting::Minimum(id), _) => class(id).map(|it| it.minimum),
            (Setting::Weight(id), _) => class(id).map(|it| it.weight),
            (Setting::Share(id), _) => class(id).map(|it| it.share),
        }
    }

    /// Writes a value over that of `base`, in a plan that has the setting.
    pub(crate) fn write(self, base: &Plan, plan: &mut Plan, value: f64) {
        let whole = value.round().max(0.0) as u32;
        match (self, &mut plan.slots) {
            (Setting::SlotsMin, Slots::Adaptive(bounds)) => bounds.slots_min = whole.max(1),
            (Setting::SlotsMin, Slots::Fixed(_)) => {}
            (Setting::SlotsMax, Slots::Adaptive(bounds)) => bounds.slots_max = whole.max(1),
            (Setting::SlotsMax, Slots::Fixed(slots)) => *slots = whole.max(1),
            (Setting::PolicerRate(id), _) => {
                plan.policers[id.index()].rate = Rate::of_per_second(value);
            }
            (Setting::TriggerLen(id, place), _) => {
                let planned = &base.classes[id.index()].refuse_at[place];
                let trigger = &mut plan.classes[id.index()].refuse_at[place];
                trigger.waiting = whole.max(1);
                // It ends at the same part of the length at which it begins.
                let part = f64::from(planned.until) / f64::from(planned.waiting);
                let until = (f64::from(trigger.waiting) * part).ceil() as u32;
                trigger.until = until.clamp(1, trigger.waiting);
            }
            (Setting::Minimum(id), _) => plan.classes[id.index()].minimum = value,
            (Setting::Weight(id), _) => plan.classes[id.index()].weight = value,
            (Setting::Share(id), _) => plan.classes[id.index()].share = value,
        }
    }

    /// The name of the class or policer that it is of; empty: it is of the gate.
    pub(crate) fn of(self, plan: &Plan) -> &str {
        match self {
            Setting::SlotsMin | Setting::SlotsMax => "",
            Setting::PolicerRate(id) => &plan.policers[id.index()].name,
            Setting::TriggerLen(id, _)
            | Setting::Minimum(id)
            | Setting::Weight(id)
            | Setting::Share(id) => &plan.classes[id.index()].name,
        }
    }
}

/// What an owner asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adjustment {
    /// What to adjust.
    pub setting: Setting,
    /// The value to go to.
    pub value: f64,
    /// Lowest value.
    pub min: f64,
    /// Highest value.
    pub max: f64,
    /// Most that the value changes in a second, more than 0; infinite: it changes at once.
    pub slew_per_s: f64,
}

/// What has become of an adjustment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Applied {
    /// The value in force.
    pub value: f64,
    /// The value that it moves to.
    pub target: f64,
    /// The plan's value.
    pub planned: f64,
}

/// Why an adjustment is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdjustError {
    /// Somebody else adjusts the setting: its owner.
    Owned(Box<str>),
    /// The plan in force has no such setting.
    NoSuchSetting,
    /// Value, bounds and slew make no sense, or the owner's name does not.
    Invalid,
    /// The plan would be wrong with that value.
    Unfit,
    /// There are [`Adjustments::COUNT_MAX`] adjustments.
    TooMany,
}

/// One setting that somebody adjusts.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjusted {
    /// Who.
    pub owner: Box<str>,
    /// The class or policer that it is of; empty: of the gate as a whole.
    pub of: Box<str>,
    /// What was asked for last.
    pub wanted: Adjustment,
    /// What is in force.
    pub applied: Applied,
    /// Whether it has ended because a reload took away what it adjusts, or left it no room.
    pub lapsed: bool,
    moved: Moment,
}

impl Adjusted {
    /// The value at a later moment.
    fn value_at(&self, now: Moment) -> f64 {
        let Applied { value, target, .. } = self.applied;
        let slew = self.wanted.slew_per_s;
        let most = slew * now.since(self.moved).as_secs_f64();
        if slew.is_infinite() || (target - value).abs() <= most {
            return target;
        }
        value + most.copysign(target - value)
    }
}

/// All adjustments.
#[derive(Clone, Debug, Default)]
pub struct Adjustments {
    list: Vec<Adjusted>,
}

impl Adjustments {
    /// Most settings that are adjusted at once.
    pub const COUNT_MAX: usize = 64;
    /// Longest name of an owner, in bytes.
    pub const OWNER_LEN_MAX: usize = 64;

    /// Every adjustment, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Adjusted> {
        self.list.iter()
    }

    /// Whether a value is on its way.
    pub(crate) fn is_moving(&self) -> bool {
        self.list.iter().any(|it| !it.lapsed && it.applied.value != it.applied.target)
    }

    /// Takes in what an owner wants of a setting, which the plan gives `planned`; call after
    /// [`Adjustments::advance`]. Returns its place.
    pub(crate) fn claim(
        &mut self,
        now: Moment,
        (owner, of): (&str, &str),
        wanted: Adjustment,
        planned: f64,
    ) -> Result<usize, AdjustError> {
        let Adjustment { setting, value, min, max, slew_per_s } = wanted;
        let is_valid = value.is_finite() && min <= max && slew_per_s > 0.0;
        if !is_valid || !(1..=Self::OWNER_LEN_MAX).contains(&owner.len()) {
            return Err(AdjustError::Invalid);
        }
        let known = self.list.iter().position(|it| !it.lapsed && it.wanted.setting == setting);
        if let Some(place) = known
            && *self.list[place].owner != *owner
        {
            return Err(AdjustError::Owned(self.list[place].owner.clone()));
        }
        let before = known.map_or(planned, |place| self.list[place].applied.value);
        let applied =
            Applied { value: before.clamp(min, max), target: value.clamp(min, max), planned };
        let mut new = Adjusted {
            owner: owner.into(),
            of: of.into(),
            wanted,
            applied,
            lapsed: false,
            moved: now,
        };
        new.applied.value = new.value_at(now);
        if let Some(place) = known {
            self.list[place] = new;
            return Ok(place);
        }
        self.list.retain(|it| !(it.lapsed && it.owner == new.owner && it.of == new.of));
        if self.list.len() >= Self::COUNT_MAX {
            return Err(AdjustError::TooMany);
        }
        self.list.push(new);
        Ok(self.list.len() - 1)
    }

    /// Moves every value on to now; whether one changed.
    pub(crate) fn advance(&mut self, now: Moment) -> bool {
        let mut changed = false;
        for it in self.list.iter_mut().filter(|it| !it.lapsed) {
            let value = it.value_at(now);
            changed |= value != it.applied.value;
            (it.applied.value, it.moved) = (value, now);
        }
        changed
    }

    /// The adjustment at a place.
    pub(crate) fn at(&self, place: usize) -> &Adjusted {
        &self.list[place]
    }

    /// Ends all adjustments of an owner; returns how many there were.
    pub(crate) fn release(&mut self, owner: &str) -> usize {
        let before = self.list.len();
        self.list.retain(|it| *it.owner != *owner);
        before - self.list.len()
    }

    /// The plan with every adjustment on top. What it has no more lapses; so does the newest, as long as
    /// the plan would be wrong.
    pub(crate) fn over(&mut self, base: &Plan) -> Plan {
        let mut plan = base.clone();
        for it in self.list.iter_mut().filter(|it| !it.lapsed) {
            match it.wanted.setting.read(base) {
                Some(planned) => {
                    it.applied.planned = planned;
                    it.wanted.setting.write(base, &mut plan, it.applied.value);
                }
                None => it.lapsed = true,
            }
        }
        for it in self.list.iter_mut().rev().filter(|it| !it.lapsed) {
            if plan.check().is_ok() {
                break;
            }
            it.wanted.setting.write(base, &mut plan, it.applied.planned);
            it.lapsed = true;
        }
        plan
    }

    /// Classes and policers have other numbers in a new plan: they are found again by name.
    pub(crate) fn renumber(&mut self, plan: &Plan) {
        for it in self.list.iter_mut().filter(|it| !it.lapsed) {
            let class = || plan.classes.iter().position(|class| *class.name == *it.of);
            let class = || class().map(|place| ClassId(place as u16));
            let policer = || plan.policers.iter().position(|policer| *policer.name == *it.of);
            let found = match it.wanted.setting {
                Setting::SlotsMin | Setting::SlotsMax => Some(it.wanted.setting),
                Setting::PolicerRate(_) => {
                    policer().map(|place| Setting::PolicerRate(PolicerId(place as u16)))
                }
                Setting::TriggerLen(_, place) => class().map(|id| Setting::TriggerLen(id, place)),
                Setting::Minimum(_) => class().map(Setting::Minimum),
                Setting::Weight(_) => class().map(Setting::Weight),
                Setting::Share(_) => class().map(Setting::Share),
            };
            match found {
                Some(setting) => it.wanted.setting = setting,
                None => it.lapsed = true,
            }
        }
    }
}
