//! From policers as written to policers as meant.

use super::defaults;
use super::error::{Faults, Place, instead, shortened};
use super::raw::{self, Police};
use super::read::At;
use super::resolve::{at_most, within};
use super::resolve_rules::class_named;
use super::values::{PerText, PerWhat, RateText};
use tiergate_core::admit::bucket::PARTS;
use tiergate_core::admit::policer::{Per, PolicerId, Settings, Share};
use tiergate_core::class::Class;

/// The policers found so far: those that have a name first, then those that rules and classes have of
/// their own.
#[derive(Default)]
pub(super) struct Policers {
    settings: Vec<Settings>,
    /// The shares of each that is named, until the classes are known.
    shares: Vec<At<Vec<At<raw::PolicerShare>>>>,
    owners: Vec<usize>,
}

impl Policers {
    /// The policers that have a name.
    pub(super) fn named(raw: Option<At<Vec<At<raw::Policer>>>>, faults: &mut Faults) -> Self {
        let mut policers = Policers::default();
        let Some(At { value: raw, place }) = raw else {
            return policers;
        };
        at_most(&place, raw.len(), Settings::COUNT_MAX, "policers", faults);
        for At { value: raw, place } in raw {
            let Some(name) = raw.name else {
                faults.missing(&place, "name", "write name = \"…\"");
                continue;
            };
            policers.check_name(&name, faults);
            if let Some(shares) = raw.share {
                policers.owners.push(policers.settings.len());
                policers.shares.push(shares);
            }
            let numbers = Numbers { burst_min: 0, place: &place };
            let mut settings =
                numbers.settings(name.value, raw.rate, raw.burst, raw.per, raw.flows_max, faults);
            settings.announce = announce(raw.announce, &settings);
            policers.settings.push(settings);
        }
        policers
    }

    fn check_name(&self, name: &At<String>, faults: &mut Faults) {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let max = defaults::CLASS_NAME_LEN_MAX;
        if name.value.is_empty() || name.value.len() > max || !name.value.bytes().all(letter) {
            let message = format!(
                "must be 1 to {max} letters, digits, `-`, `_` or `.`, got {:?}",
                shortened(&name.value)
            );
            faults.add(&name.place, message);
        } else if self.settings.iter().any(|other| other.name == name.value) {
            faults.add(&name.place, format!("another policer is called {:?} already", name.value));
        }
    }

    /// Gives the classes their shares.
    pub(super) fn share_out(&mut self, classes: &[Class], faults: &mut Faults) {
        for (owner, At { value: raw, place }) in
            self.owners.iter().zip(std::mem::take(&mut self.shares))
        {
            let policer = &mut self.settings[*owner];
            if policer.per != Per::Rule {
                let message = "has no effect where each flow has a bucket of its own; leave it out";
                faults.add(&place, message);
            }
            let mut sum = 0;
            for At { value: raw, place } in raw {
                sum += share(raw, &place, sum, policer, classes, faults);
            }
        }
    }

    /// The policer that is meant. `own`: what one is called that has no name.
    pub(super) fn find(
        &mut self,
        At { value, place }: At<Police>,
        own: &str,
        faults: &mut Faults,
    ) -> Option<PolicerId> {
        let index = match value {
            Police::Named(name) => {
                let found = self.settings.iter().position(|policer| policer.name == name);
                if found.is_none() {
                    let instead = instead(&name, self.settings.iter().map(|it| it.name.as_str()));
                    let name = shortened(&name);
                    faults.add(&place, format!("no policer is called {name:?}{instead}"));
                }
                found?
            }
            Police::Own(raw) => {
                let raw = *raw;
                if self.settings.iter().any(|policer| policer.name == own) {
                    faults.add(&place, format!("a policer is called {own:?}; call it otherwise"));
                }
                if self.settings.len() == Settings::COUNT_MAX {
                    let message = format!("there may be at most {} policers", Settings::COUNT_MAX);
                    faults.add(&place, message);
                }
                let numbers = Numbers { burst_min: 1, place: &place };
                let mut settings = numbers.settings(
                    own.to_owned(),
                    raw.rate,
                    raw.burst,
                    raw.per,
                    raw.flows_max,
                    faults,
                );
                settings.announce = announce(raw.announce, &settings);
                self.settings.push(settings);
                self.settings.len() - 1
            }
        };
        Some(PolicerId(index.min(u16::MAX.into()) as u16))
    }

    /// All of them.
    pub(super) fn finish(self) -> Vec<Settings> {
        self.settings
    }
}

/// Resolves what all policers have.
struct Numbers<'p> {
    burst_min: u64,
    place: &'p Place,
}

impl Numbers<'_> {
    fn settings(
        &self,
        name: String,
        rate: Option<At<RateText>>,
        burst: Option<At<u64>>,
        per: Option<At<PerText>>,
        flows_max: Option<At<u64>>,
        faults: &mut Faults,
    ) -> Settings {
        if rate.is_none() && !faults.at_key(self.place, "rate") {
            faults.missing(self.place, "rate", "write rate = \"60/s\"");
        }
        let by_flow = per.is_some_and(|per| per.value.0 == PerWhat::Flow);
        let rate_place = rate.as_ref().map(|rate| rate.place.clone());
        let rate = rate.map_or_else(Default::default, |rate| rate.value.0);
        if by_flow && rate > Settings::FLOW_RATE_MAX {
            let message = "must be at most 1000000/s for each flow";
            faults.add(&rate_place.unwrap_or_default(), message);
        }
        if let Some(flows_max) = flows_max.as_ref().filter(|_| !by_flow) {
            faults.add(&flows_max.place, "needs per = \"flow\"; leave it out");
        }
        let number = |at: Option<At<u64>>, default: u32, range, faults: &mut Faults| {
            let at = at.map(|at| (at.value, at.place));
            within(at, default.into(), range, faults, |number| number.to_string()) as u32
        };
        let bursts = self.burst_min..=Settings::BURST_MAX.into();
        let flows = 1..=Settings::FLOWS_MAX.into();
        let flows_max = number(flows_max, defaults::POLICER_FLOWS_MAX, flows, faults);
        Settings {
            name,
            rate,
            burst: number(burst, defaults::POLICER_BURST, bursts, faults),
            per: if by_flow { Per::Flow { flows_max } } else { Per::Rule },
            shares: Vec::new(),
            announce: false,
        }
    }
}

/// Whether clients are told what is left. By default where it is their own: of a bucket that others
/// take from too, the number says what others do, and promises nothing.
fn announce(raw: Option<At<bool>>, settings: &Settings) -> bool {
    raw.map_or(settings.per != Per::Rule, |at| at.value)
}

/// Adds a share to the policer; returns its parts. `before`: the sum of those before it.
fn share(
    raw: raw::PolicerShare,
    place: &Place,
    before: u64,
    policer: &mut Settings,
    classes: &[Class],
    faults: &mut Faults,
) -> u64 {
    let Some(class_at) = raw.class else {
        faults.missing(place, "class", "write class = \"…\"");
        return 0;
    };
    let Some(part) = raw.share else {
        if !faults.at_key(place, "share") {
            faults.missing(place, "share", "write share = \"50%\"");
        }
        return 0;
    };
    let parts = (part.value.0 * PARTS as f64).round() as u64;
    if before <= PARTS && before + parts > PARTS {
        let sum = (before + parts) as f64 * 100.0 / PARTS as f64;
        faults.add(&part.place, format!("the shares add up to {sum}%, more than 100%"));
    }
    let burst = within(
        raw.burst.map(|at| (at.value, at.place)),
        policer.burst.into(),
        0..=Settings::BURST_MAX.into(),
        faults,
        |number| number.to_string(),
    );
    if let Some(class) = class_named(&class_at, classes, faults) {
        if policer.shares.iter().any(|other| other.class == class) {
            let message = format!("{:?} has a share already", class_at.value);
            faults.add(&class_at.place, message);
        }
        policer.shares.push(Share { class, parts: parts as u16, burst: burst as u32 });
    }
    parts
}
