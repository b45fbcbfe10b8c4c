//! `[[policer]]` and `police`: how many requests pass in a time.

use super::inbound::{self, ControlKeys, inbound};
use super::kind::{Choice, list};
use super::lookup::{Classes, Interning, class_name, find};
use super::mode::{MODE, Mode};
use super::place::{At, Place, wrong};
use super::section::{Definitions, Kind, section, table};
use super::sensor::Sensor;
use super::show;
use super::values::{FLAG, Name, RATE, SHARE, TEXT, check_unique, whole};
use serde_json::{Value as Json, json};
use tiergate_core::admit::bucket::{PARTS, Rate};
use tiergate_core::admit::inbound::Inbound;
use tiergate_core::admit::policer::{Per, PolicerId, Settings, Share};
use tiergate_core::names::Interned;
use tiergate_core::plan::Plan;
use toml::de::DeValue;

section! {
    /// A token bucket that rules, classes and the whole site may name.
    pub(super) struct PolicerKeys {
        /// Its name in rules and metrics.
        name: Option<String> = Name.required("write name = \"…\"");
        /// Whether it is in force, `"enforce"`; or only [observed](#mode-parts-of-a-policy-that-are-observed), `"observe"`: in force nothing is subject to it.
        mode: Mode = MODE.or("enforce");
        /// Average rate of requests: `"60/s"`, `"10/m"`, `"1.5/h"`, `"10 per minute"`; units s, m, h, d or
        /// second, minute, hour, day; at most three decimals.
        rate: Option<Rate> = RATE.required(RATE_HOW);
        /// The size of the bucket: how many requests may come at once after a pause. With shares, the size of
        /// the overflow bucket, which may be 0.
        /// Why: with 20, Poisson arrivals are refused no more often than evenly spaced ones; with 5 they are
        /// (Voigt, Paper D, §3.5).
        burst: u32 = whole(0..=Settings::BURST_MAX.into()).or(20);
        /// `"rule"`: all requests subject to it share a bucket; `"flow"`: each client (IPv6 by /64) has one.
        per: PerWhat = PER.or("rule");
        /// With `per = "flow"`: how many clients whose bucket is not full are tracked at once.
        /// Why: at 24 bytes each 2.4 MB; more than the concurrently active clients of most sites.
        flows_max: u32 = whole(1..=Settings::FLOWS_MAX.into()).or(FLOWS_MAX);
        /// Whether responses say what is left of the bucket, in `RateLimit` and `RateLimit-Policy`, with the policer's name; `Retry-After` then says the same. With
        /// `per = "flow"` it tells clients how fast they may go; the level of a shared bucket depends on the others and promises nothing.
        /// Why: names and rates tell the public how the site is protected.
        announce: bool = FLAG.or(false);
        /// What the rate follows, as `[policer.control]`; `rate` is the highest then.
        control: Option<At<ControlKeys>> = table().placed().optional("none: the rate stays");
        /// Parts of the tokens that classes are guaranteed: `[[policer.share]]` tables.
        share: Vec<At<PolicerShare>> = list(table(), usize::MAX, "shares").or_none("none");
    }
}

section! {
    /// A class's part of a policer's tokens.
    pub(super) struct PolicerShare {
        /// The class.
        class: Option<String> = TEXT.required("write class = \"…\"");
        /// Its part of the rate; the sum must not exceed 100%.
        share: Option<f64> = SHARE.required("write share = \"50%\"");
        /// The size of the class's bucket; a larger one absorbs larger bursts, so give an important class
        /// more.
        burst: Option<u32> =
            whole(0..=Settings::BURST_MAX.into()).optional("the policer's `burst`");
    }
}

section! {
    /// A policer that only one rule or class uses; keys as of `[[policer]]`.
    pub(super) struct OwnPolicer {
        /// Whether it is in force, `"enforce"`; or only [observed](#mode-parts-of-a-policy-that-are-observed), `"observe"`: in force nothing is subject to it.
        mode: Mode = MODE.or("enforce");
        /// Requests in a time, on average.
        rate: Option<Rate> = RATE.required(RATE_HOW);
        /// How many at once after a pause.
        burst: u32 = whole(1..=Settings::BURST_MAX.into()).or(20);
        /// What has a bucket of its own.
        per: PerWhat = PER.or("rule");
        /// With `per = "flow"`: how many clients whose bucket is not full are tracked at once.
        flows_max: u32 = whole(1..=Settings::FLOWS_MAX.into()).or(FLOWS_MAX);
        /// Whether clients are told what is left.
        announce: bool = FLAG.or(false);
        /// What the rate follows.
        control: Option<At<ControlKeys>> = table().placed().optional("none: the rate stays");
    }
}

const RATE_HOW: &str = "write rate = \"60/s\"";
const FLOWS_MAX: u64 = 100_000;
const PER: Choice<PerWhat> = Choice(&[("rule", PerWhat::Rule), ("flow", PerWhat::Flow)]);

/// What has a token bucket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PerWhat {
    Rule,
    Flow,
}

/// A policer's name, or the policer itself.
#[derive(Clone, Debug)]
pub(super) enum Police {
    Named(String),
    Own(OwnPolicer),
    /// None, whatever later rules say.
    None,
}

/// A policer's name, or the policer itself.
pub(super) struct PoliceKind;

impl Kind for PoliceKind {
    type Value = Police;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Police> {
        match value {
            DeValue::String(name) => Some(Police::Named(name.to_string())),
            DeValue::Table(_) => table().read(value, place).map(Police::Own),
            DeValue::Boolean(false) => Some(Police::None),
            _ => wrong(
                value,
                place,
                "a policer's name, or { rate = \"60/s\", burst = 20 }, or false",
            ),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let own = table::<OwnPolicer>().schema(definitions);
        json!({ "anyOf": [{ "type": "string" }, { "const": false }, own] })
    }
}

/// The policers found so far: the named ones first, then those that rules and classes have of their own.
pub(super) struct Policers<'n> {
    names: Interning<'n, PolicerId>,
    sensors: &'n [Sensor],
    ids: Vec<PolicerId>,
    pub(super) settings: Vec<Settings>,
    /// How many of them have a name, and can be named: the first.
    named: usize,
    /// The shares of each that is named and has any, until the classes are known.
    shares: Vec<(usize, Place, Vec<At<PolicerShare>>)>,
}

impl<'n> Policers<'n> {
    /// The policers that have a name.
    pub(super) fn named(
        raw: Vec<At<PolicerKeys>>,
        names: &'n mut Interned<PolicerId>,
        sensors: &'n [Sensor],
    ) -> Self {
        let (ids, settings, shares) = (Vec::new(), Vec::new(), Vec::new());
        let mut policers =
            Policers { names: Interning::of(names), sensors, ids, settings, named: 0, shares };
        for At { value: raw, place } in raw {
            let Some(name) = raw.name else { continue };
            let before = policers.settings.iter().map(|other| other.name.as_str());
            check_unique("policer", &name, before, &place.key("name"));
            let PolicerKeys { mode, rate, burst, per, flows_max, announce, control, .. } = raw;
            let own = OwnPolicer { mode, rate, burst, per, flows_max, announce, control };
            if burst == 0 && raw.share.is_empty() {
                place.fault_at("burst", "must be at least 1, or every request is refused; got 0");
            }
            if !raw.share.is_empty() {
                policers.shares.push((policers.settings.len(), place.key("share"), raw.share));
            }
            policers.add(own.resolve(name, None, &place, sensors), &place.key("name"));
        }
        policers.named = policers.settings.len();
        policers
    }

    fn add(&mut self, settings: Settings, place: &Place) {
        let steered = self.settings.iter().filter(|it| it.inbound.is_some()).count();
        if settings.inbound.is_some() && steered == Inbound::COUNT_MAX {
            let most = Inbound::COUNT_MAX;
            place.fault(format!("the rates of at most {most} policers may have a control"));
        }
        self.ids.push(self.names.id(settings.key(), place));
        self.settings.push(settings);
    }

    /// Gives the classes their shares.
    pub(super) fn share_out(&mut self, classes: &Classes) {
        for (index, place, shares) in std::mem::take(&mut self.shares) {
            let policer = &mut self.settings[index];
            if policer.per != Per::Rule {
                place.fault("has no effect where each flow has a bucket of its own; leave it out");
            }
            let mut sum = 0;
            for At { value: raw, place } in shares {
                let Some((name, part)) = raw.class.zip(raw.share) else { continue };
                let parts = (part * PARTS as f64).round() as u64;
                let before = sum;
                sum += parts;
                if before <= PARTS && sum > PARTS {
                    let percent = sum as f64 * 100.0 / PARTS as f64;
                    let message = format!("the shares add up to {percent}%, more than 100%");
                    place.fault_at("share", message);
                }
                let Some(class) = classes.named(&name, &place.key("class")) else { continue };
                if policer.shares.iter().any(|share| share.class == class) {
                    place.fault_at("class", format!("{name:?} has a share already"));
                }
                let burst = raw.burst.unwrap_or(policer.burst);
                if burst == 0 && policer.burst == 0 {
                    place.fault_at("burst", format!("must be at least 1 where the policer has burst = 0, or every request of {name:?} is refused; got 0"));
                }
                policer.shares.push(Share { class, parts: parts as u16, burst });
            }
        }
    }

    /// The policer of a class or of all requests, where `false` is the same as none.
    pub(super) fn of_place(&mut self, police: At<Police>, own: &str) -> Option<PolicerId> {
        self.find(police, own, None).filter(|id| *id != PolicerId::NONE)
    }

    /// The policer that is meant; `own`: what one is called that has no name, and what it is known by if
    /// that is not the same.
    pub(super) fn find(
        &mut self,
        police: At<Police>,
        own: &str,
        key: Option<Box<str>>,
    ) -> Option<PolicerId> {
        let At { value, place } = police;
        let names = || self.settings.iter().map(|policer| policer.name.as_str());
        let index = match value {
            Police::Named(name)
                if (RATE.parse)(&name).is_ok() && !names().any(|known| known == name) =>
            {
                place.fault(format!(
                    "must be the name of a policer, or of a rate {{ rate = {name:?} }}, got {name:?}"
                ));
                return None;
            }
            Police::Named(name) => find("policer", &name, names().take(self.named), &place)?,
            Police::None => return Some(PolicerId::NONE),
            Police::Own(raw) => {
                if names().any(|known| known == own) {
                    place.fault(format!("a policer is called {own:?}; give it another name"));
                }
                if self.settings.len() == Settings::COUNT_MAX {
                    let max = Settings::COUNT_MAX;
                    place.fault(format!("there may be at most {max} policers"));
                }
                self.add(raw.resolve(own.to_owned(), key, &place, self.sensors), &place);
                self.settings.len() - 1
            }
        };
        Some(self.ids[index])
    }
}

impl OwnPolicer {
    fn resolve(
        self,
        name: String,
        key: Option<Box<str>>,
        place: &Place,
        sensors: &[Sensor],
    ) -> Settings {
        let rate = self.rate.unwrap_or_default();
        let by_flow = self.per == PerWhat::Flow;
        if by_flow && rate > Settings::FLOW_RATE_MAX {
            place.fault_at("rate", "must be at most 1000000/s for each flow");
        }
        if !by_flow && place.has("flows_max") {
            place.fault_at("flows_max", "needs per = \"flow\"; leave it out");
        }
        let per = if by_flow { Per::Flow { flows_max: self.flows_max } } else { Per::Rule };
        if by_flow && let Some(control) = &self.control {
            control.place.fault("needs per = \"rule\"; leave it out");
        }
        let control = self.control.filter(|_| !by_flow);
        let inbound = control.and_then(|control| inbound(control, rate, sensors));
        let (burst, shares, announce) = (self.burst, Vec::new(), self.announce);
        Settings { name, key, rate, burst, per, shares, inbound, announce }
    }
}

/// For `tiergate check`: what a policer lets through.
pub(crate) fn words(policer: &Settings, plan: &Plan) -> String {
    let Settings { burst, per, shares, .. } = policer;
    let rate = show::rate(policer.rate);
    let announced = if policer.announce { "; clients are told what is left" } else { "" };
    let words = match per {
        Per::Flow { flows_max } => format!(
            "{rate} and {burst} at once for each flow; {flows_max} flows, {}",
            show::bytes(24 * u64::from(*flows_max))
        ),
        Per::Rule if shares.is_empty() => format!("{rate} and {burst} at once"),
        Per::Rule => {
            let share = |Share { class, parts, burst }: &Share| {
                let part = show::share(f64::from(*parts) / PARTS as f64);
                format!("{} {part} and {burst} at once", class_name(plan, *class))
            };
            let shares: Vec<String> = shares.iter().map(share).collect();
            format!("{rate}: {}; {burst} unused by them for any class", shares.join(", "))
        }
    };
    let control = policer.inbound.as_ref().map(inbound::words).unwrap_or_default();
    words + &control + announced
}
