//! What a class has of its site's slots, and a site of all: weight, minimum, share and reserve.

use super::place::Place;
use super::show;
use super::values::points;
use tiergate_core::classify::score::Points;
use tiergate_core::schedule::{Policy, Terms};

/// Shares are written in decimals, and added up in binary fractions.
pub(super) const ROUNDING: f64 = 1e-9;

/// What is said of a part that is never served under policy = "fixed".
const NEVER_SERVED: &str =
    "where capacity is fixed, nothing without a share is ever served; write share = \"10%\"";

/// What those before have of the slots.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    minimums: f64,
    shares: f64,
}

/// A part as written.
pub(super) struct Part {
    pub(super) weight: Points,
    pub(super) minimum: f64,
    pub(super) share: Option<f64>,
    pub(super) reserve: f64,
}

impl Part {
    /// Checks the part by itself and together with those before. `under`: the policy that divides the
    /// slots; `table`: the place of its keys.
    pub(super) fn resolve(self, under: Policy, sums: &mut Sums, table: &Place) -> Terms {
        let Part { minimum, reserve, .. } = self;
        let (weight, share) = (points(self.weight), self.share.unwrap_or(0.0));
        add(&mut sums.minimums, minimum, "minimum", table);
        add(&mut sums.shares, share, "share", table);
        if weight == 0.0 {
            table.fault_at("weight", "must be more than 0, or nothing of it is ever served");
        }
        if under == Policy::Fixed && share == 0.0 {
            match self.share {
                Some(_) => table.fault_at("share", NEVER_SERVED),
                None if table.has("share") => {}
                None => table.missing("share", NEVER_SERVED),
            }
        }
        if reserve > share {
            let [share, reserve] = [share, reserve].map(show::share);
            let message = match self.share {
                None => "is a part of `share`; write share = \"…\" too".to_owned(),
                Some(_) => format!("must be at most share, \"{share}\", got \"{reserve}\""),
            };
            table.fault_at("reserve", message);
        }
        Terms { weight, minimum, share, reserve }
    }
}

/// Adds to those before; a fault once, where the sum first exceeds the whole.
fn add(sum: &mut f64, part: f64, key: &str, table: &Place) {
    let before = *sum;
    *sum += part;
    if *sum > 1.0 + ROUNDING && before <= 1.0 + ROUNDING {
        let percent = *sum * 100.0;
        table.fault_at(key, format!("the {key}s add up to {percent:.1}%, more than 100%"));
    }
}

/// For `tiergate check`, what the policy gives to a part: begins with a comma, or is empty.
pub(super) fn words(policy: Policy, terms: &Terms) -> String {
    let [minimum, share, reserve] = [terms.minimum, terms.share, terms.reserve].map(show::share);
    match policy {
        Policy::Strict if terms.minimum > 0.0 => format!(", guaranteed {minimum} of the slots"),
        Policy::Weighted => format!(", weight {}", terms.weight),
        Policy::Shared if terms.reserve > 0.0 => {
            format!(", {share} of the slots, {reserve} of them never lent")
        }
        Policy::Shared => format!(", {share} of the slots"),
        Policy::Fixed => format!(", {share} of the slots and no more"),
        _ => String::new(),
    }
}

/// Warns of parts that the policy under `key` ignores; `None`: there is nothing to divide.
pub(super) fn warn(
    whose: &str,
    key: &str,
    policy: Option<Policy>,
    terms: &Terms,
    warnings: &mut Vec<String>,
) {
    let is = |policies: &[Policy]| policy.is_some_and(|policy| policies.contains(&policy));
    let mut needs = |given: bool, name: &str, policies: &[Policy], words: &str| {
        if given && !is(policies) {
            warnings.push(format!("{whose}: {name} has no effect without {key} = {words}"));
        }
    };
    let shared = [Policy::Shared, Policy::Fixed];
    needs(terms.weight != 1.0, "weight", &[Policy::Weighted], "\"weighted\"");
    needs(terms.minimum > 0.0, "minimum", &[Policy::Strict], "\"strict\"");
    needs(terms.share > 0.0, "share", &shared, "\"shared\" or \"fixed\"");
    let reserved = terms.reserve > 0.0 && (terms.share == 0.0 || is(&shared));
    needs(reserved, "reserve", &shared[..1], "\"shared\"");
    if policy == Some(Policy::Shared) && terms.share == 0.0 {
        warnings.push(format!("{whose}: without a share it gets only what the others leave"));
    }
}
