//! Adjustments: settings of the plan that controllers override while serving.
//!
//! Each setting has one owner at a time, which says how far it may go (bounds) and how fast (slew). It
//! moves there by itself, as time passes. An adjustment outlives reloads: the plan changes underneath, and
//! what is in force stays in force. If what it adjusts is gone, or cannot have that value any more, it
//! lapses; it is listed as lapsed until its owner releases it.

use crate::admit::bucket::Rate;
use crate::control::Slots;
use crate::names::{ClassId, PolicerId};
use crate::plan::{Plan, Spec};
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
        let class = |id: ClassId| plan.class(id);
        match (self, &plan.slots) {
            (Setting::SlotsMin, Slots::Adaptive(bounds) | Slots::Shared(bounds)) => {
                Some(bounds.slots_min.into())
            }
            (Setting::SlotsMin, Slots::Fixed(_)) => None,
            (Setting::SlotsMax, Slots::Adaptive(bounds) | Slots::Shared(bounds)) => {
                Some(bounds.slots_max.into())
            }
            (Setting::SlotsMax, Slots::Fixed(slots)) => Some((*slots).into()),
            (Setting::PolicerRate(id), _) => plan.policer(id).map(|it| it.rate.tokens_per_second()),
            (Setting::TriggerLen(id, place), _) => {
                class(id)?.refuse_at.get(place).map(|it| it.waiting.into())
            }
            (Setting::Minimum(id), _) => class(id).map(|it| it.minimum),
            (Setting::Weight(id), _) => class(id).map(|it| it.weight),
            (Setting::Share(id), _) => class(id).map(|it| it.share),
        }
    }

    /// Writes a value over that of `base`, in a plan that has the setting.
    pub(crate) fn write(self, base: &Plan, plan: &mut Spec, value: f64) {
        let rank = |id: ClassId| base.rank(id).expect("the plan has the setting");
        let whole = value.round().max(0.0) as u32;
        match (self, &mut plan.slots) {
            (Setting::SlotsMin, Slots::Adaptive(bounds) | Slots::Shared(bounds)) => {
                bounds.slots_min = whole.max(1);
            }
            (Setting::SlotsMin, Slots::Fixed(_)) => {}
            (Setting::SlotsMax, Slots::Adaptive(bounds) | Slots::Shared(bounds)) => {
                bounds.slots_max = whole.max(1);
            }
            (Setting::SlotsMax, Slots::Fixed(slots)) => *slots = whole.max(1),
            (Setting::PolicerRate(id), _) => {
                let place = base.policer_ids().iter().position(|it| *it == id);
                let policer = &mut plan.policers[place.expect("the plan has the setting")];
                policer.rate = Rate::of_per_second(value);
                // A rate below the control's minimum was set on purpose: the minimum gives way.
                if let Some(inbound) = &mut policer.inbound {
                    inbound.min = inbound.min.min(policer.rate);
                }
            }
            (Setting::TriggerLen(id, place), _) => {
                let planned = &base.classes[rank(id)].refuse_at[place];
                let trigger = &mut plan.classes[rank(id)].refuse_at[place];
                trigger.waiting = whole.max(1);
                // It ends at the same part of the length at which it begins.
                let part = f64::from(planned.until) / f64::from(planned.waiting);
                let until = (f64::from(trigger.waiting) * part).ceil() as u32;
                trigger.until = until.clamp(1, trigger.waiting);
            }
            (Setting::Minimum(id), _) => plan.classes[rank(id)].minimum = value,
            (Setting::Weight(id), _) => plan.classes[rank(id)].weight = value,
            (Setting::Share(id), _) => plan.classes[rank(id)].share = value,
        }
    }

    /// The name of the class or policer that it is of; empty: it is of the gate.
    pub(crate) fn of(self, plan: &Plan) -> &str {
        match self {
            Setting::SlotsMin | Setting::SlotsMax => "",
            Setting::PolicerRate(id) => plan.policer(id).map_or("", |it| &it.name),
            Setting::TriggerLen(id, _)
            | Setting::Minimum(id)
            | Setting::Weight(id)
            | Setting::Share(id) => plan.class(id).map_or("", |it| &it.name),
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

/// One of several changes that are made together, or not at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Adjusts a setting.
    Set(Adjustment),
    /// Ends the owner's adjustment of a setting: the plan's value is in force again.
    Undo(Setting),
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

/// The plan as it was given, and all adjustments of it.
#[derive(Clone, Debug)]
pub struct Adjustments {
    base: Plan,
    list: Vec<Adjusted>,
}

impl Adjustments {
    /// Most settings that are adjusted at once, beside those of the gate's own control.
    pub const COUNT_MAX: usize = 64;
    /// Longest name of an owner, in bytes.
    pub const OWNER_LEN_MAX: usize = 64;

    /// The owner of what the gate's own control of policers sets. It gives way to anybody else.
    pub const INBOUND: &str = "inbound control";

    /// No adjustment of a plan yet.
    pub(crate) fn of(base: Plan) -> Self {
        Adjustments { base, list: Vec::new() }
    }

    /// The plan as it was given.
    pub(crate) fn base(&self) -> &Plan {
        &self.base
    }

    /// Every adjustment, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Adjusted> {
        self.list.iter()
    }

    /// Whether a value is on its way.
    pub(crate) fn is_moving(&self) -> bool {
        self.list.iter().any(|it| !it.lapsed && it.applied.value != it.applied.target)
    }

    /// Takes in what an owner wants; call after [`Adjustments::advance`]. Returns what has become of it, and
    /// the plan with it.
    ///
    /// # Errors
    /// These adjustments are no good then: claim on a copy.
    pub(crate) fn claim(
        &mut self,
        now: Moment,
        owner: &str,
        wanted: Adjustment,
    ) -> Result<(Applied, Plan), AdjustError> {
        let place = self.enter(now, owner, wanted)?;
        let plan = self.over();
        let Adjusted { applied, lapsed, .. } = self.list[place];
        if lapsed { Err(AdjustError::Unfit) } else { Ok((applied, plan)) }
    }

    /// Takes in several changes of an owner at once, so that shares may move from one class to another; call after
    /// [`Adjustments::advance`]. Returns the plan with them.
    ///
    /// # Errors
    /// Which change is no good, and why. These adjustments are none either then: change a copy.
    pub(crate) fn change(
        &mut self,
        now: Moment,
        owner: &str,
        changes: &[Change],
    ) -> Result<Plan, (usize, AdjustError)> {
        let mut set = Vec::new();
        for (number, change) in changes.iter().enumerate() {
            match *change {
                Change::Set(wanted) => {
                    self.enter(now, owner, wanted).map_err(|error| (number, error))?;
                    set.push((number, wanted.setting));
                }
                Change::Undo(setting) => self.forget(owner, setting),
            }
        }
        let lapsed = |list: &[Adjusted]| list.iter().filter(|it| it.lapsed).count();
        let before = lapsed(&self.list);
        let plan = self.over();
        if lapsed(&self.list) == before {
            return Ok(plan);
        }
        // One that is set, or one from before that cannot stay without another that is undone.
        let is_lost = |(_, setting): &&(usize, Setting)| {
            self.list.iter().any(|it| it.lapsed && it.wanted.setting == *setting)
        };
        let lost = set.iter().find(is_lost).map(|(number, _)| *number);
        Err((lost.unwrap_or(changes.len().saturating_sub(1)), AdjustError::Unfit))
    }

    /// Puts what an owner wants into the list, and returns where. The plan does not have it yet.
    fn enter(
        &mut self,
        now: Moment,
        owner: &str,
        wanted: Adjustment,
    ) -> Result<usize, AdjustError> {
        let Adjustment { setting, value, min, max, slew_per_s } = wanted;
        let planned = setting.read(&self.base).ok_or(AdjustError::NoSuchSetting)?;
        let is_valid = value.is_finite() && min <= max && slew_per_s > 0.0;
        if !is_valid || !(1..=Self::OWNER_LEN_MAX).contains(&owner.len()) {
            return Err(AdjustError::Invalid);
        }
        let known = self.list.iter().position(|it| !it.lapsed && it.wanted.setting == setting);
        if let Some(place) = known
            && *self.list[place].owner != *owner
            && *self.list[place].owner != *Self::INBOUND
        {
            return Err(AdjustError::Owned(self.list[place].owner.clone()));
        }
        let before = known.map_or(planned, |place| self.list[place].applied.value);
        let applied =
            Applied { value: before.clamp(min, max), target: value.clamp(min, max), planned };
        let mut new = Adjusted {
            owner: owner.into(),
            of: setting.of(&self.base).into(),
            wanted,
            applied,
            lapsed: false,
            moved: now,
        };
        new.applied.value = new.value_at(now);
        match known {
            Some(place) => self.list[place] = new,
            None => {
                self.list.retain(|it| !(it.lapsed && it.owner == new.owner && it.of == new.of));
                self.list.push(new);
            }
        }
        let place = known.unwrap_or(self.list.len() - 1);
        // Those of the gate's own control are bounded by themselves, and take nobody's place.
        let is_counted = |it: &&Adjusted| *it.owner != *Self::INBOUND;
        if self.list.iter().filter(is_counted).count() > Self::COUNT_MAX {
            return Err(AdjustError::TooMany);
        }
        Ok(place)
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

    /// Ends all adjustments of an owner; returns how many there were.
    pub(crate) fn release(&mut self, owner: &str) -> usize {
        let before = self.list.len();
        self.list.retain(|it| *it.owner != *owner);
        before - self.list.len()
    }

    /// Ends an owner's adjustment of one setting, from the next plan on.
    pub(crate) fn forget(&mut self, owner: &str, setting: Setting) {
        self.list.retain(|it| *it.owner != *owner || it.wanted.setting != setting);
    }

    /// Another plan was given; returns it with every adjustment on top.
    pub(crate) fn rebase(&mut self, base: Plan) -> Plan {
        self.base = base;
        self.over()
    }

    /// The plan with every adjustment on top. What it has no more lapses; so does the newest, as long as
    /// the plan would be wrong.
    pub(crate) fn over(&mut self) -> Plan {
        let base = &self.base;
        let mut spec = Spec::clone(base);
        for it in self.list.iter_mut().filter(|it| !it.lapsed) {
            match it.wanted.setting.read(base) {
                Some(planned) => {
                    it.applied.planned = planned;
                    it.wanted.setting.write(base, &mut spec, it.applied.value);
                }
                None => it.lapsed = true,
            }
        }
        for it in self.list.iter_mut().rev().filter(|it| !it.lapsed) {
            if let Ok(plan) = base.with(spec.clone()) {
                return plan;
            }
            it.wanted.setting.write(base, &mut spec, it.applied.planned);
            it.lapsed = true;
        }
        base.clone()
    }
}
