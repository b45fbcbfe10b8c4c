//! `limit_req` and `limit_conn`: policers and resources.

use super::super::draft::{From, Item, name, quoted};
use super::http::{Entry, Per};
use super::server::{Condition, Here, Inherited};

impl Here<'_> {
    /// The policers: what exempts from one, its name as TOML, and where that comes from.
    pub(super) fn police(
        &mut self,
        inherited: &Inherited<'_>,
    ) -> Vec<(Option<Condition>, String, From)> {
        let mut lines = inherited.limit_req.iter();
        let Some(it) = lines.next() else {
            let from = From { text: "no limit_req here".to_owned(), ..From::default() };
            return vec![(None, "false".to_owned(), from)];
        };
        for other in lines {
            self.draft.note(&other.from, "a second limit_req of the same requests: write police in their class, which holds beside the rule's");
        }
        let zone_name = it.option("zone").unwrap_or_default();
        let Some(zone) = self.http.zones.get(zone_name).cloned() else {
            self.draft.note(&it.from, "its zone could not be taken over");
            return vec![(None, "false".to_owned(), it.from.clone())];
        };
        let burst: u64 = it.option("burst").and_then(|it| it.parse().ok()).unwrap_or(0);
        let policer = name(&format!("{zone_name}-{burst}"));
        if !self.servers.known.contains(&policer) {
            self.servers.known.push(policer.clone());
            let mut item = Item::new("[[policer]]");
            item.key("name", quoted(&policer), &it.from);
            item.key("rate", quoted(&zone.rate), &zone.from);
            // nginx lets `burst` more pass than the rate, and so one more at once.
            item.key("burst", burst.saturating_add(1), &it.from);
            if zone.per != Per::All {
                item.key("per", "\"flow\"", &zone.from);
            }
            if inherited.dry_run {
                item.key("mode", "\"observe\"", &it.from);
            }
            self.servers.policers.push(item);
        }
        let pace = it.arguments.iter().any(|it| it == "nodelay");
        if burst > 0 && !pace {
            self.draft.note(&it.from, "without nodelay nginx delays what comes early: here it passes at once, and slots pace it");
        }
        if inherited.status.is_none_or(|it| it.argument(0) != "429") {
            self.draft.note(&it.from, "refused by 429 instead of limit_req_status (503): clients and monitoring can tell them apart from overload");
        }
        let Per::Map(map) = &zone.per else {
            return vec![(None, quoted(&policer), it.from.clone())];
        };
        // An empty key is not counted.
        let map = &self.http.maps[map];
        let entry = |entry: &Entry| {
            let police = if entry.value.is_empty() { "false".to_owned() } else { quoted(&policer) };
            let condition =
                entry.matches.clone().map(|it| (map.key.clone(), it, entry.from.clone()));
            (condition, police, entry.from.clone())
        };
        let mut list: Vec<_> = map.entries.iter().map(entry).collect();
        if list.last().is_none_or(|(condition, ..)| condition.is_some()) {
            list.push((None, "false".to_owned(), zone.from.clone()));
        }
        list
    }

    /// The resource that a bound on the connections of all clients is.
    pub(super) fn resource(
        &mut self,
        inherited: &Inherited<'_>,
        pools: &[(Option<Condition>, String)],
    ) -> Option<(String, From)> {
        let [(None, pool)] = pools else {
            for it in &inherited.limit_conn {
                self.draft.note(&it.from, "before several pools: write a [[resource]] for each");
            }
            return None;
        };
        let mut found = None;
        for it in &inherited.limit_conn {
            match self.http.connection_zones.get(it.argument(0)) {
                Some(true) if found.is_none() => {
                    let resource = name(&format!("{}-{pool}", it.argument(0)));
                    if !self.servers.known.contains(&resource) {
                        self.servers.known.push(resource.clone());
                        let mut item = Item::new("[[resource]]");
                        item.key("name", quoted(&resource), &it.from);
                        item.key("slots", it.argument(1), &it.from);
                        item.remark("pool", quoted(pool), "the pool of these requests");
                        self.servers.resources.push(item);
                    }
                    self.draft.note(&it.from, "what is beyond the bound waits for its class's deadline, instead of being refused at once");
                    found = Some((resource, it.from.clone()));
                }
                _ => self.draft.note(&it.from, "connections of each client: fair queueing gives each client its turn, so none is needed; for a hard bound on requests, police = { rate, per = \"flow\" }"),
            }
        }
        found
    }
}
