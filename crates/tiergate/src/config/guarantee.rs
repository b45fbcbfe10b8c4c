//! What sites are guaranteed, and whether all of it fits.

use super::adaptation::Adaptations;
use super::kind::{Parsed, Text};
use super::place::Place;
use super::quantities::decimal;
use super::rules::PolicyRule;
use super::section::{Kind, section};
use super::show;
use super::values::RATE;
use serde_json::json;
use tiergate_core::adapt::{Adaptation, Guarantee};
use tiergate_core::admit::bucket::Rate;
use tiergate_core::class::Class;
use tiergate_core::names::{AdaptationId, ClassId, SiteId};
use tiergate_core::plan::Plan;
use tiergate_core::schedule::Site;

section! {
    /// What a site can rely on while others overload the server, at full quality.
    pub(super) struct GuaranteeKeys {
        /// Requests a second.
        requests: Option<Rate> = RATE.required("write requests = \"100/s\"");
        /// The bandwidth of their answers. With more requests of fewer bytes, or fewer of more, what both take of the server together is
        /// guaranteed.
        bandwidth: Option<f64> = BANDWIDTH.optional("none: requests alone count");
    }
}

/// Bytes a second.
const BANDWIDTH: Text<f64> = Text {
    expected: "a bandwidth such as \"27Mbit/s\" or \"3MiB/s\"",
    schema: || json!({ "pattern": "^[0-9]+(\\.[0-9]+)?(k|M|G)bit/s$|^[0-9]+(\\.[0-9]+)?(kB|MB|GB|KiB|MiB|GiB)/s$", "examples": ["27Mbit/s", "3MiB/s"] }),
    parse: bandwidth,
};

fn bandwidth(text: &str) -> Parsed<f64> {
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic()).ok_or(None)?;
    let (number, unit) = text.split_at(unit_at);
    let bytes = match unit {
        "kbit/s" => 125.0,
        "Mbit/s" => 125e3,
        "Gbit/s" => 125e6,
        "kB/s" => 1e3,
        "MB/s" => 1e6,
        "GB/s" => 1e9,
        "KiB/s" => 1024.0,
        "MiB/s" => 1_048_576.0,
        "GiB/s" => 1_073_741_824.0,
        _ => return Err(None),
    };
    let value = decimal(number).ok_or(None)? * bytes;
    match value <= BANDWIDTH_MAX {
        true => Ok(value),
        false => Err(Some("must be at most \"1000Gbit/s\"".to_owned())),
    }
}

const BANDWIDTH_MAX: f64 = 125e9;

/// What a site is guaranteed.
pub(super) fn guarantee(raw: &GuaranteeKeys) -> Option<Guarantee> {
    let requests = raw.requests?.tokens_per_second();
    Some(Guarantee { requests, bytes: raw.bandwidth.unwrap_or_default() })
}

/// What takes part in guarantees.
pub(super) struct Parts<'p> {
    pub(super) sites: &'p [Site],
    pub(super) site_ids: &'p [SiteId],
    /// The places of the sites' guarantees; `None`: it has none.
    pub(super) places: &'p [Option<Place>],
    pub(super) classes: &'p [Class],
    pub(super) class_ids: &'p [ClassId],
    pub(super) adaptations: &'p Adaptations,
    pub(super) rules: &'p [(PolicyRule, Place)],
    /// Whether this is all that the file says; else what keeps a guarantee may be observed only.
    pub(super) is_whole: bool,
}

impl Parts<'_> {
    /// Whether some requests of a site are under an adaptation.
    fn is_under(&self, site: SiteId, id: AdaptationId) -> bool {
        let by_rule = |class: Option<ClassId>| {
            let mut rules = self.rules.iter().filter(|(it, _)| it.rule.adaptation == Some(id));
            // One that leaves the class to another rule may be of any.
            rules.any(|(it, _)| it.rule.class.is_none() || it.rule.class == class)
        };
        let mut of_site = self.class_ids.iter().zip(self.classes).filter(|(_, it)| it.site == site);
        of_site.any(|(class, it)| it.adaptation == Some(id) || by_rule(Some(*class)))
    }

    /// The sites whose guarantees an adaptation keeps. Reports what is more than there is, and what cannot be kept.
    fn kept_by(&self, settings: &Adaptation, id: AdaptationId) -> Vec<SiteId> {
        let Some(costs) = settings.costs else { return Vec::new() };
        let reference = settings.reference.value();
        let (mut before, mut is_reported) = (0.0, false);
        let mut kept = Vec::new();
        for ((site, site_id), place) in self.sites.iter().zip(self.site_ids).zip(self.places) {
            let Some((guarantee, place)) = site.guarantee.as_ref().zip(place.as_ref()) else {
                continue;
            };
            if !self.is_under(*site_id, id) {
                continue;
            }
            kept.push(*site_id);
            let share = costs.share(guarantee);
            let name = &settings.name;
            if share == 0.0 {
                place.fault(format!(
                    "is of nothing: requests cost only their bytes in adaptation {name}; write bandwidth = \"…\""
                ));
            } else if !settings.refuses {
                place.fault(format!(
                    "cannot be kept without refuse = true in adaptation {name}: nothing would keep the others from using all"
                ));
            } else if before + share > reference * (1.0 + ROUNDING) && !is_reported {
                is_reported = true;
                place.fault(too_much(settings, guarantee, before, share));
            }
            before += share;
        }
        kept
    }

    /// Says of each adaptation whose guarantees it keeps. Reports guarantees that nothing keeps, and those that are more than there is.
    pub(super) fn settle(&self) -> Vec<Vec<SiteId>> {
        let by_adaptation = self.adaptations.all().map(|(settings, id)| self.kept_by(settings, id));
        let by_adaptation: Vec<Vec<SiteId>> = by_adaptation.collect();
        for ((place, site), id) in self.places.iter().zip(self.sites).zip(self.site_ids) {
            let is_kept = by_adaptation.iter().any(|kept| kept.contains(id));
            if let Some(place) = place
                && site.guarantee.is_some()
                && !is_kept
                && self.is_whole
                && place.is_sound()
            {
                place.fault(
                    "nothing keeps it: no class of the site has an adaptation with cost = { … }",
                );
            }
        }
        by_adaptation
    }
}

/// Guarantees are written in decimals, and added up in binary fractions.
const ROUNDING: f64 = 1e-9;

/// What is said of a guarantee that does not fit beside those before it.
fn too_much(settings: &Adaptation, guarantee: &Guarantee, before: f64, share: f64) -> String {
    let reference = settings.reference.value();
    // What is too much is never nothing.
    let over = ((before + share - reference) * 1e4).ceil() / 100.0;
    let [all, of] = [before + share, reference].map(show::share);
    let room = (reference - before).max(0.0) / share;
    // Rounded down, so that it does fit.
    let thousandths = (room * guarantee.requests * 1000.0).floor();
    let requests = match thousandths {
        more if more >= 10_000.0 => (more / 1000.0).floor(),
        less => less / 1000.0,
    };
    let fits = match requests > 0.0 {
        false => "nothing of it fits".to_owned(),
        true => format!("{requests}/s{} would fit", and_bandwidth(guarantee.bytes * room)),
    };
    format!(
        "is too much: with it, {all} of what sensor {} measures is guaranteed, {over}% more than adaptation {}'s reference, {of}; {fits}",
        settings.source, settings.name
    )
}

fn and_bandwidth(bytes: f64) -> String {
    match bytes > 0.0 {
        true => format!(" and {}", bandwidth_words(bytes)),
        false => String::new(),
    }
}

/// Bytes a second, rounded down to three digits.
pub(crate) fn bandwidth_words(bytes: f64) -> String {
    let bits = bytes * 8.0;
    let (value, unit) = match bits {
        bits if bits >= 1e9 => (bits / 1e9, "Gbit/s"),
        bits if bits >= 1e6 => (bits / 1e6, "Mbit/s"),
        bits => (bits / 1e3, "kbit/s"),
    };
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let scale = 10f64.powi(decimals);
    // What was written in this unit is not to lose its last digit.
    let value = ((value * scale) * (1.0 + ROUNDING)).floor() / scale;
    format!("{value}{unit}")
}

/// For `tiergate check`: what is guaranteed, a line for each adaptation that keeps guarantees.
pub(crate) fn words(plan: &Plan) -> Vec<String> {
    let sites = |settings: &Adaptation| {
        let costs = settings.costs?;
        let of = |(site, id): (&Site, &SiteId)| {
            let guarantee = site.guarantee.filter(|_| settings.sites.contains(id))?;
            let share = costs.share(&guarantee);
            let words = format!(
                "{} {}/s{} ({})",
                site.name,
                guarantee.requests,
                and_bandwidth(guarantee.bytes),
                show::share(share)
            );
            Some((words, share))
        };
        let (words, shares): (Vec<String>, Vec<f64>) =
            plan.sites.iter().zip(plan.site_ids()).filter_map(of).unzip();
        let all = show::share(shares.iter().sum());
        let reference = show::share(settings.reference.value());
        let (words, name) = (words.join(", "), &settings.name);
        (!words.is_empty()).then(|| format!("{name}: {words}; {all} of {reference}"))
    };
    plan.adaptations.iter().filter_map(sites).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths() {
        assert_eq!(bandwidth("27Mbit/s"), Ok(3_375_000.0));
        assert_eq!(bandwidth("1.5MiB/s"), Ok(1_572_864.0));
        for wrong in ["", "27", "Mbit/s", "27Mb/s", "27 Mbit/s", "-1kB/s", "1e3kB/s", "27mbit/s"] {
            assert_eq!(bandwidth(wrong), Err(None), "{wrong}");
        }
        assert!(bandwidth("1001Gbit/s").is_err_and(|fault| fault.is_some()));
        assert_eq!(bandwidth_words(3_375_000.0), "27Mbit/s");
        assert_eq!(bandwidth_words(125.0 * 8.5), "8.5kbit/s");
        assert_eq!(bandwidth_words(1.239e9), "9.91Gbit/s");
    }
}
