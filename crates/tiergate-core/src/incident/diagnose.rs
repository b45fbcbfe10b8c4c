//! From what was counted to what stands out.

use super::finding::{Finding, Urgency};
use super::situation::{ClassSituation, Life, PoolSituation, Situation, share};
use std::fmt;

/// From here on a part of the most important class that is not served has to be looked at: a hundredth.
const SERVED_MIN: f64 = 0.99;
/// Part of requests that fail, and how many, from which on the origin is said to fail.
const FAILING_SHARE: f64 = 0.01;
const FAILING_MIN: u64 = 3;
/// Part of requests that fail from which on somebody has to look.
const FAILING_ACT: f64 = 0.1;
/// Part of a class's requests from which on it is said that they are shed, policed, or leave.
const TURNED_AWAY_SHARE: f64 = 0.005;
const LEAVING_SHARE: f64 = 0.1;
/// Part of the refusals that is of one client, and refusals in all, from which on that is said.
const FLOOD_SHARE: f64 = 0.5;
const FLOOD_MIN: u64 = 20;
/// Part of a bound from which on it is said to be near.
const NEAR_BOUND: f64 = 0.9;
const LINK_FULL: f64 = 0.95;
/// Time before a certificate expires from which on that is said: renewal is usually tried a month before.
const CERTIFICATE_NEAR_SECONDS: i64 = 14 * 86_400;

/// What stands out, the most important first, and how urgent it is. It reads as one sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// How soon somebody has to look.
    pub urgency: Urgency,
    /// At least one.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, finding) in self.findings.iter().enumerate() {
            let before = if place == 0 { "" } else { "; " };
            write!(f, "{before}{finding}")?;
        }
        Ok(())
    }
}

impl Situation {
    /// What stands out. O(classes + pools + servers).
    pub fn diagnose(&self) -> Diagnosis {
        let mut found = Found::default();
        self.life(&mut found);
        self.origin(&mut found);
        self.load(&mut found);
        self.most_important(&mut found);
        self.bounds(&mut found);
        if found.is_calm() {
            let none_ended = self.classes.iter().all(|it| it.ended() == 0);
            let first = match self.in_progress {
                0 if none_ended => (Urgency::Calm, Finding::Idle),
                // An origin that does not answer looks like this until the requests time out.
                pending if none_ended => (Urgency::Watch, Finding::NoneEnded(pending)),
                _ => (Urgency::Calm, Finding::Healthy),
            };
            // What is known to be well comes after that it is well.
            found.0.insert(0, first);
        }
        found.diagnosis()
    }

    fn life(&self, found: &mut Found) {
        match self.life {
            Life::Serving => {}
            Life::Starting => found.push(Urgency::Watch, Finding::Starting),
            Life::Leaving => found.push(Urgency::Watch, Finding::Leaving),
            Life::Draining => found.push(Urgency::Watch, Finding::Draining(self.in_progress)),
        }
        if !self.is_enforced {
            found.push(Urgency::Watch, Finding::ObservesOnly);
        }
    }

    fn origin(&self, found: &mut Found) {
        for pool in &self.pools {
            let (name, down) = (pool.name.clone(), pool.servers_down.len() as u32);
            match down {
                0 => {}
                _ if down >= pool.servers => found.push(Urgency::Act, Finding::OriginDown(name)),
                _ => {
                    let down = pool.servers_down.clone();
                    let finding = Finding::ServersDown { pool: name, down, of: pool.servers };
                    found.push(Urgency::Watch, finding);
                }
            }
            let failing = share(pool.failed, pool.finished).unwrap_or_default();
            if pool.failed >= FAILING_MIN && failing >= FAILING_SHARE {
                let urgency = if failing >= FAILING_ACT { Urgency::Act } else { Urgency::Watch };
                let finding = Finding::Failing { pool: pool.name.clone(), share: failing };
                found.push(urgency, finding);
            }
            if pool.is_saturated() {
                found.push(Urgency::Watch, Finding::Saturated(pool.name.clone()));
            }
        }
    }

    fn load(&self, found: &mut Found) {
        if let Some(share) = self.link.filter(|share| *share >= LINK_FULL) {
            found.push(Urgency::Watch, Finding::LinkFull(share));
        }
        let shed = self.parts(|it| it.shed, TURNED_AWAY_SHARE);
        let policed = self.parts(|it| it.policed, TURNED_AWAY_SHARE);
        let left = self.parts(|it| it.left, LEAVING_SHARE);
        for (classes, finding) in [
            (shed, Finding::Shedding as fn(_) -> _),
            (policed, Finding::Policing),
            (left, Finding::LeavingQueue),
        ] {
            if !classes.is_empty() {
                found.push(Urgency::Watch, finding(classes));
            }
        }
        let flood =
            self.flood.as_ref().filter(|it| it.share >= FLOOD_SHARE && it.refusals >= FLOOD_MIN);
        if let Some(flood) = flood {
            let finding = Finding::Flood { client: flood.client.clone(), share: flood.share };
            found.push(Urgency::Watch, finding);
        }
    }

    /// The classes of which so large a part met that, the one that it met most first.
    fn parts(&self, met: impl Fn(&ClassSituation) -> u64, least: f64) -> Vec<(String, f64)> {
        let part = |it: &ClassSituation| {
            let part = share(met(it), it.ended()).filter(|part| *part >= least)?;
            Some((it.name.clone(), part))
        };
        let foreground = self.classes.iter().filter(|it| !it.is_background);
        let mut parts: Vec<_> = foreground.filter_map(part).collect();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        parts
    }

    fn most_important(&self, found: &mut Found) {
        let mut foreground = self.classes.iter().filter(|it| !it.is_background);
        let known = foreground.find_map(|it| Some((it, it.served_share()?)));
        let Some((class, share)) = known else { return };
        let urgency = if share < SERVED_MIN { Urgency::Act } else { Urgency::Calm };
        found.push(urgency, Finding::Served { class: class.name.clone(), share });
    }

    fn bounds(&self, found: &mut Found) {
        if self.connections >= NEAR_BOUND {
            found.push(Urgency::Watch, Finding::Connections(self.connections));
        }
        if let Some(share) = self.descriptors.filter(|share| *share >= NEAR_BOUND) {
            found.push(Urgency::Watch, Finding::Descriptors(share));
        }
        if !self.silent_sensors.is_empty() {
            found.push(Urgency::Watch, Finding::SilentSensors(self.silent_sensors.clone()));
        }
        if self.is_reload_rejected {
            found.push(Urgency::Watch, Finding::ReloadRejected);
        }
        let expires = self.certificate_expires_in_seconds;
        if let Some(seconds) = expires.filter(|seconds| *seconds < CERTIFICATE_NEAR_SECONDS) {
            let urgency = if seconds <= 0 { Urgency::Act } else { Urgency::Watch };
            found.push(urgency, Finding::Certificate(seconds));
        }
    }
}

impl PoolSituation {
    /// Whether all slots are in use and more requests came.
    fn is_saturated(&self) -> bool {
        self.slots > 0 && self.running >= self.slots && (self.waiting > 0 || self.shed > 0)
    }
}

/// Findings in the order in which they are said.
#[derive(Default)]
struct Found(Vec<(Urgency, Finding)>);

impl Found {
    fn push(&mut self, urgency: Urgency, finding: Finding) {
        self.0.push((urgency, finding));
    }

    fn is_calm(&self) -> bool {
        self.0.iter().all(|(urgency, _)| *urgency == Urgency::Calm)
    }

    fn diagnosis(self) -> Diagnosis {
        let urgency = self.0.iter().map(|(urgency, _)| *urgency).max().unwrap_or_default();
        Diagnosis { urgency, findings: self.0.into_iter().map(|(_, finding)| finding).collect() }
    }
}
