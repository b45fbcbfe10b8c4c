//! Who gets the next slot, as written and as meant: sites, and the parts of sites and classes.

use super::defaults;
use super::error::{Faults, Place, instead, shortened};
use super::raw;
use super::read::At;
use super::resolve::{at_most, within};
use super::resolve_rules::{is_name, name_expected};
use super::rule_values::PointsNumber;
use super::show;
use super::values::Share;
use tiergate_core::class::Order;
use tiergate_core::plan::Plan;
use tiergate_core::schedule::{Costing, Policy, Site, SiteId};

/// Who is served next: among sites, and among the classes of each.
pub(super) struct Scheduling {
    pub(super) sites: Vec<Site>,
    pub(super) between_sites: Policy,
    pub(super) cost: Costing,
    pub(super) queue_len_max: u32,
}

/// The sites with their policies; one with every default if none is written.
pub(super) fn scheduling(
    raw: Option<At<raw::Scheduling>>,
    sites: Option<At<Vec<At<raw::Site>>>>,
    faults: &mut Faults,
) -> Scheduling {
    let raw = raw.map(|raw| raw.value).unwrap_or_default();
    let usual = raw.policy.map_or(Policy::default(), |policy| policy.value.0);
    let between = raw.between_sites.map_or(Policy::default(), |policy| policy.value.0);
    let ageing = raw.ageing.as_ref().map_or(defaults::AGEING, |ageing| points(ageing.value));
    let mut sums = Sums::default();
    let sites = match sites {
        None => vec![Site { policy: aged(usual, ageing), ..Site::named(defaults::SITE_NAME) }],
        Some(At { value: raw, place }) => {
            if raw.is_empty() {
                faults.add(&place, "must not be empty; leave it out for a single site");
            }
            at_most(&place, raw.len(), Plan::SITES_MAX, "sites", faults);
            // A site that is alone has all the slots.
            let among = if raw.len() > 1 { between } else { Policy::Strict };
            let mut sites: Vec<Site> = Vec::new();
            for raw in raw {
                let site = site(raw, (usual, ageing, among), &sites, &mut sums, faults);
                sites.extend(site);
            }
            if sites.is_empty() {
                // What is wrong has been told; classes are looked at all the same.
                sites.push(Site::named(defaults::SITE_NAME));
            }
            sites
        }
    };
    let scored = |policy: &Policy| matches!(policy, Policy::Score { .. });
    if let Some(ageing) = &raw.ageing
        && !scored(&between)
        && !sites.iter().any(|site| scored(&site.policy))
    {
        faults.add(&ageing.place, NOT_SCORED);
    }
    Scheduling {
        sites,
        between_sites: aged(between, ageing),
        cost: raw.cost.map_or(Costing::default(), |cost| cost.value.0),
        queue_len_max: match raw.queue {
            None => u32::MAX,
            Some(At { value, place }) => {
                let range = 1..=defaults::QUEUE_MAX;
                within(Some((value, place)), 1, range, faults, |number| number.to_string()) as u32
            }
        },
    }
}

/// In which order a class's requests are served where it does not say it: policies that compare requests
/// are offered the one that each class would serve next.
pub(super) fn usual_order(site: SiteId, scheduling: &Scheduling) -> Order {
    let own = scheduling.sites[site.index()].policy;
    let between = (scheduling.sites.len() > 1).then_some(scheduling.between_sites);
    let compared = [Some(own), between].into_iter().flatten().find_map(|policy| match policy {
        Policy::Deadline => Some(Order::Deadline),
        Policy::Score { .. } => Some(Order::Score),
        _ => None,
    });
    compared.unwrap_or(Order::Fifo)
}

/// What is said where points are to grow and none are counted.
const NOT_SCORED: &str = "has no effect without policy = \"score\"; leave it out";

fn site(
    At { value: raw, place }: At<raw::Site>,
    (usual, ageing, between): (Policy, f64, Policy),
    before: &[Site],
    sums: &mut Sums,
    faults: &mut Faults,
) -> Option<Site> {
    let Some(name) = raw.name else {
        faults.missing(&place, "name", "write name = \"…\"");
        return None;
    };
    if !is_name(&name.value) {
        faults.add(&name.place, name_expected(&name.value));
    } else if before.iter().any(|site| site.name == name.value) {
        faults.add(&name.place, format!("another site is called {:?} already", name.value));
    }
    let policy = raw.policy.map_or(usual, |policy| policy.value.0);
    if let Some(ageing) = raw.ageing.as_ref().filter(|_| !matches!(policy, Policy::Score { .. })) {
        faults.add(&ageing.place, NOT_SCORED);
    }
    let part =
        Part { weight: raw.weight, minimum: raw.minimum, share: raw.share, reserve: raw.reserve };
    let under = (between, &place);
    let Parts { weight, minimum, share, reserve } = part.resolve(under, sums, faults);
    let policy = aged(policy, raw.ageing.map_or(ageing, |ageing| points(ageing.value)));
    Some(Site { name: name.value, policy, weight, minimum, share, reserve })
}

/// The policy with the points that waiting requests gain.
fn aged(policy: Policy, ageing: f64) -> Policy {
    match policy {
        Policy::Score { .. } => Policy::Score { ageing },
        other => other,
    }
}

fn points(number: PointsNumber) -> f64 {
    f64::from(number.0.thousandths()) / 1000.0
}

/// The site that a class belongs to; where there is only one, the class need not say it.
pub(super) fn site_of(
    name: Option<At<String>>,
    sites: &[Site],
    class: &Place,
    faults: &mut Faults,
) -> SiteId {
    let Some(name) = name else {
        if sites.len() > 1 {
            faults.missing(class, "site", &format!("write site = {:?}", sites[0].name));
        }
        return SiteId(0);
    };
    let found = sites.iter().position(|site| site.name == name.value);
    if found.is_none() {
        let instead = instead(&name.value, sites.iter().map(|site| site.name.as_str()));
        let name_text = shortened(&name.value);
        faults.add(&name.place, format!("no site is called {name_text:?}{instead}"));
    }
    SiteId(found.unwrap_or(0) as u16)
}

/// What a class, or a site, has of the slots, as written.
pub(super) struct Part {
    pub(super) weight: Option<At<PointsNumber>>,
    pub(super) minimum: Option<At<Share>>,
    pub(super) share: Option<At<Share>>,
    pub(super) reserve: Option<At<Share>>,
}

/// The same as meant.
pub(super) struct Parts {
    pub(super) weight: f64,
    pub(super) minimum: f64,
    pub(super) share: f64,
    pub(super) reserve: f64,
}

/// What those before have of the slots.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    minimums: f64,
    shares: f64,
}

/// Shares are written in decimals, and added up in binary fractions.
const ROUNDING: f64 = 1e-9;

impl Part {
    /// Checks the part by itself and together with those before.
    /// `under`: the policy that it is a part under; `table`: where it stands.
    pub(super) fn resolve(
        self,
        (under, table): (Policy, &Place),
        sums: &mut Sums,
        faults: &mut Faults,
    ) -> Parts {
        let number = |at: &Option<At<Share>>| at.as_ref().map_or(0.0, |at| at.value.0);
        let (minimum, share, reserve) =
            (number(&self.minimum), number(&self.share), number(&self.reserve));
        add(&mut sums.minimums, self.minimum.as_ref(), "minimums", faults);
        add(&mut sums.shares, self.share.as_ref(), "shares", faults);
        let weight = self.weight.as_ref().map_or(1.0, |weight| points(weight.value));
        if let Some(weight) = self.weight.as_ref().filter(|_| weight == 0.0) {
            faults.add(&weight.place, "must be more than 0, or nothing of it is ever served");
        }
        if under == Policy::Fixed && share == 0.0 {
            match &self.share {
                Some(share) => faults.add(&share.place, NEVER_SERVED),
                None if faults.at_key(table, "share") => {}
                None => faults.missing(table, "share", NEVER_SERVED),
            }
        }
        if let Some(place) = self.reserve.map(|at| at.place).filter(|_| reserve > share) {
            let message = match self.share {
                None => "is a part of `share`; write share = \"…\" too".to_owned(),
                Some(_) => {
                    let (share, reserve) = (show::share(share), show::share(reserve));
                    format!("must be at most share, \"{share}\", got \"{reserve}\"")
                }
            };
            faults.add(&place, message);
        }
        Parts { weight, minimum, share, reserve }
    }
}

/// What is said of a part of which policy = "fixed" makes nothing.
const NEVER_SERVED: &str =
    "where capacity is fixed, nothing without a share is ever served; write share = \"10%\"";

/// Adds a share to those before; told once, where the sum first goes beyond the whole.
fn add(sum: &mut f64, share: Option<&At<Share>>, what: &str, faults: &mut Faults) {
    let Some(share) = share else { return };
    let before = *sum;
    *sum += share.value.0;
    if *sum > 1.0 + ROUNDING && before <= 1.0 + ROUNDING {
        let percent = *sum * 100.0;
        faults.add(&share.place, format!("the {what} add up to {percent:.1}%, more than 100%"));
    }
}
