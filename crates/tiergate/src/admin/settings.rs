//! `/settings`: weights, shares, rates, triggers and bounds of the limit, changed while serving and undone again.
//!
//! A change outlives reloads, lasts until it is undone, and is shown in `/status` beside what controllers change.

use serde_json::{Map, Value};
use tiergate_core::adjust::{AdjustError, Adjustment, Change, Setting};
use tiergate_core::gate::Gate;
use tiergate_core::plan::Plan;
use tiergate_core::schedule::Policy;
use tiergate_core::time::Moment;

/// Who changes settings here, in `/status`.
pub const OWNER: &str = "admin";

/// Bytes of a change.
pub(super) const BODY_LEN_MAX: usize = 16 << 10;

/// What of a request's body is to be changed, and where it stands there.
struct Asked {
    place: String,
    change: Change,
}

/// Makes all changes of a JSON object, or none. A number sets, `null` undoes:
/// `{"slots_max": 64, "class": {"basic": {"weight": 2, "refuse_at": [50, null]}}, "policer": {"api": {"rate": 100}}}`.
/// Returns how many there were.
///
/// # Errors
/// What is wrong with the first that cannot be made, and where it stands.
pub fn change<T>(gate: &mut Gate<T>, now: Moment, wanted: &Value) -> Result<usize, String> {
    let asked = asked(gate.plan(), wanted)?;
    let changes: Vec<Change> = asked.iter().map(|asked| asked.change).collect();
    gate.change(now, OWNER, &changes).map_err(|(number, error)| {
        let place = asked.get(number).map_or("", |asked| &asked.place);
        format!("{place}: {}", words(&error))
    })?;
    Ok(changes.len())
}

/// Undoes every change that was made here. Returns how many there were.
pub fn undo<T>(gate: &mut Gate<T>, now: Moment) -> usize {
    gate.release(now, OWNER)
}

fn words(error: &AdjustError) -> String {
    match error {
        AdjustError::Owned(owner) => format!("is in the hands of {owner}"),
        AdjustError::NoSuchSetting => "the policy in force has no such setting".to_owned(),
        AdjustError::Invalid => "must be a number".to_owned(),
        AdjustError::Unfit => {
            "the policy would be wrong with it: shares and minimums may not be more than 1 together"
                .to_owned()
        }
        AdjustError::TooMany => "too many settings are changed already; undo some".to_owned(),
    }
}

fn asked(plan: &Plan, wanted: &Value) -> Result<Vec<Asked>, String> {
    let mut all = Vec::new();
    for (key, value) in object("the body", wanted)? {
        match key.as_str() {
            "slots_min" => all.push(one(key, Setting::SlotsMin, value)?),
            "slots_max" => all.push(one(key, Setting::SlotsMax, value)?),
            "class" => {
                for (name, keys) in object(key, value)? {
                    class(plan, name, keys, &mut all)?;
                }
            }
            "policer" => {
                for (name, keys) in object(key, value)? {
                    policer(plan, name, keys, &mut all)?;
                }
            }
            _ => return Err(unknown(key, "slots_min, slots_max, class, policer")),
        }
    }
    if all.is_empty() {
        return Err("nothing is to be changed".to_owned());
    }
    Ok(all)
}

fn class(plan: &Plan, name: &str, keys: &Value, all: &mut Vec<Asked>) -> Result<(), String> {
    let place = format!("class.{name}");
    let rank = place_of(&place, "class", name, plan.classes.iter().map(|it| it.name.as_str()))?;
    let (id, class) = (&plan.class_ids()[rank], &plan.classes[rank]);
    let policy = plan.site_of(class).policy;
    for (key, value) in object(&place, keys)? {
        let place = format!("{place}.{key}");
        match key.as_str() {
            "weight" => {
                needs(&place, policy == Policy::Weighted, "policy = \"weighted\"")?;
                all.push(one(&place, Setting::Weight(*id), value)?);
            }
            "share" => {
                needs(&place, policy.is_by_share(), "policy = \"shared\" or \"fixed\"")?;
                all.push(one(&place, Setting::Share(*id), value)?);
            }
            "minimum" => {
                needs(&place, policy == Policy::Strict, "policy = \"strict\"")?;
                all.push(one(&place, Setting::Minimum(*id), value)?);
            }
            "refuse_at" => {
                let Some(lengths) = value.as_array() else {
                    return Err(format!("{place}: must be a list, a number for each trigger"));
                };
                if lengths.len() > class.refuse_at.len() {
                    let count = class.refuse_at.len();
                    return Err(format!(
                        "{place}: the class has {count} triggers, got {}",
                        lengths.len()
                    ));
                }
                for (trigger, length) in lengths.iter().enumerate() {
                    let place = format!("{place}[{trigger}]");
                    all.push(one(&place, Setting::TriggerLen(*id, trigger), length)?);
                }
            }
            _ => return Err(unknown(&place, "weight, share, minimum, refuse_at")),
        }
    }
    Ok(())
}

fn policer(plan: &Plan, name: &str, keys: &Value, all: &mut Vec<Asked>) -> Result<(), String> {
    let place = format!("policer.{name}");
    let names = plan.policers.iter().map(|it| it.name.as_str());
    let id = &plan.policer_ids()[place_of(&place, "policer", name, names)?];
    for (key, value) in object(&place, keys)? {
        let place = format!("{place}.{key}");
        match key.as_str() {
            "rate" => all.push(one(&place, Setting::PolicerRate(*id), value)?),
            _ => return Err(unknown(&place, "rate")),
        }
    }
    Ok(())
}

/// Where the name stands among those that there are.
fn place_of<'n>(
    place: &str,
    kind: &str,
    name: &str,
    names: impl Iterator<Item = &'n str>,
) -> Result<usize, String> {
    let names: Vec<&str> = names.collect();
    let found = names.iter().position(|it| *it == name);
    found.ok_or_else(|| format!("{place}: no such {kind}; there are: {}", names.join(", ")))
}

fn object<'v>(place: &str, value: &'v Value) -> Result<&'v Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{place}: must be a JSON object"))
}

fn unknown(place: &str, known: &str) -> String {
    format!("{place}: cannot be changed; there are: {known}")
}

fn needs(place: &str, has: bool, what: &str) -> Result<(), String> {
    if has { Ok(()) } else { Err(format!("{place}: has no effect without {what}")) }
}

/// A setting's change. Its bounds are those of the policy's own keys.
fn one(place: &str, setting: Setting, value: &Value) -> Result<Asked, String> {
    let place = place.to_owned();
    if value.is_null() {
        return Ok(Asked { place, change: Change::Undo(setting) });
    }
    let (min, max, is_whole) = match setting {
        Setting::SlotsMin | Setting::SlotsMax | Setting::TriggerLen(..) => (1.0, 1e6, true),
        Setting::PolicerRate(_) => (0.001, 1e6, false),
        Setting::Minimum(_) | Setting::Share(_) => (0.0, 1.0, false),
        Setting::Weight(_) => (0.001, 1000.0, false),
    };
    let number = value
        .as_f64()
        .filter(|number| (min..=max).contains(number) && (!is_whole || number.fract() == 0.0));
    let Some(number) = number else {
        let kind = if is_whole { "a whole number" } else { "a number" };
        return Err(format!(
            "{place}: must be {kind} from {min} to {max}, or null to undo, got {value}"
        ));
    };
    let slew_per_s = f64::INFINITY;
    let adjustment = Adjustment { setting, value: number, min: number, max: number, slew_per_s };
    Ok(Asked { place, change: Change::Set(adjustment) })
}
