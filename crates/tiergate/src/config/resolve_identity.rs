//! Who clients are, as written and as meant.

use super::defaults;
use super::meant::{Names, PolicyRule, Wanted};
use super::raw;
use super::resolve::{Resolver, at_most};
use super::show;

impl Resolver<'_> {
    pub(super) fn names(&mut self, raw: raw::Names) -> Names {
        let d = defaults::NAMES;
        let servers = raw.servers.map_or_else(Vec::new, |servers| {
            // A server that cannot be read is left out of the list, and has been told of.
            if servers.value.is_empty() && !self.faults.in_list(&servers.place) {
                let message = "must not be empty; leave it out for the system's servers";
                self.faults.add(&servers.place, message);
            }
            let (len, max) = (servers.value.len(), defaults::NAME_SERVERS_MAX);
            at_most(&servers.place, len, max, "servers", self.faults);
            servers.value.into_iter().map(|server| server.value.0).collect()
        });
        let timeout = raw.timeout.as_ref().map(|timeout| timeout.place.clone());
        let least = raw.ttl_min.as_ref().or(raw.ttl_max.as_ref()).map(|ttl| ttl.place.clone());
        let names = Names {
            servers,
            timeout: self.time(raw.timeout, d.timeout),
            entries_max: self.number(raw.entries_max, d.entries_max as u64, 64..=1 << 24) as usize,
            lookups_max: self.number(raw.lookups_max, d.lookups_max as u64, 1..=1024) as usize,
            ttl_min: self.time(raw.ttl_min, d.ttl_min),
            ttl_max: self.time(raw.ttl_max, d.ttl_max),
        };
        let longest = defaults::NAMES_TIMEOUT_MAX;
        if let Some(place) = timeout.filter(|_| names.timeout > longest) {
            let [most, got] = [longest, names.timeout].map(show::time);
            self.faults.add(&place, format!("must be at most \"{most}\", got \"{got}\""));
        }
        if let Some(place) = least.filter(|_| names.ttl_min > names.ttl_max) {
            let [min, max] = [names.ttl_min, names.ttl_max].map(show::time);
            let message = format!("ttl_min, \"{min}\", must be at most ttl_max, \"{max}\"");
            self.faults.add(&place, message);
        }
        names
    }
}

/// What the rules ask for.
pub(super) fn wanted(rules: &[PolicyRule]) -> Wanted {
    let _ = rules;
    Wanted::default()
}
