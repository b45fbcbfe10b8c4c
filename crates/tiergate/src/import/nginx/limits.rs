//! `limit_req` and `limit_conn`: policers and resources.

use super::super::draft::{From, Item, quoted};
use super::asked::SEVERAL;
use super::grammar::Directive;
use super::http::{Per, Zone};
use super::inherited::Inherited;
use super::maps::Entry;
use super::server::{Condition, Here};

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
            self.draft.less_safe(&other.from, "a second limit_req of the same requests: write police in their class, which holds beside the rule's");
        }
        let zone_name = it.option("zone").unwrap_or_default();
        let Some(zone) = self.http.zones.get(zone_name).cloned() else {
            self.draft.less_safe(&it.from, "its zone could not be taken over");
            return vec![(None, "false".to_owned(), it.from.clone())];
        };
        let (burst, greatest) = self.http.bursts.get(zone_name).copied().unwrap_or_default();
        if burst < greatest {
            self.draft.stricter(&zone.from, &format!("bursts from {burst} to {greatest} of one zone, which has one bucket: the smaller counts for all"));
        }
        let pace = it.arguments.iter().any(|it| it == "nodelay");
        if burst > 0 && !pace {
            self.draft.note(&it.from, "without nodelay nginx delays what comes early: here it passes at once, and slots pace it");
        }
        if inherited.status.is_none_or(|it| it.argument(0) != "429") {
            self.draft.note(&it.from, "refused by 429 instead of limit_req_status (503): clients and monitoring can tell them apart from overload");
        }
        let Per::Map(map) = &zone.per else {
            let policer = self.policer("", &zone, it, burst, inherited);
            return vec![(None, quoted(&policer), it.from.clone())];
        };
        let map = &self.http.maps[map];
        if map.is_inexact {
            self.draft.less_safe(&zone.from, SEVERAL);
        }
        let entries = map.entries.clone();
        let mut list = Vec::new();
        for Entry { matches, value, from } in entries {
            let condition = matches.map(|(key, value)| (key, value, from.clone()));
            let counted = match value.as_str() {
                // An empty key is not counted.
                "" => {
                    list.push((condition, "false".to_owned(), from));
                    continue;
                }
                "$binary_remote_addr" | "$remote_addr" => ("", Per::Client),
                it if it.contains('$') => {
                    self.draft.less_safe(&from, "counts each client's address instead of this: write per = \"flow\" and flow = … in the rule");
                    ("", Per::Client)
                }
                // Each constant has a bucket of its own.
                it => (it, Per::All),
            };
            let zone = Zone { per: counted.1, ..zone.clone() };
            let policer = self.policer(counted.0, &zone, it, burst, inherited);
            list.push((condition, quoted(&policer), from));
        }
        if list.last().is_none_or(|(condition, ..)| condition.is_some()) {
            list.push((None, "false".to_owned(), zone.from.clone()));
        }
        list
    }

    /// The name of a policer, which is made if it is not there yet; `value`: of a map, if it counts by that.
    fn policer(
        &mut self,
        value: &str,
        zone: &Zone,
        it: &Directive,
        burst: u64,
        inherited: &Inherited<'_>,
    ) -> String {
        let mode = if inherited.dry_run { "-dry-run" } else { "" };
        let zone_name = it.option("zone").unwrap_or_default();
        let mut text = format!("{zone_name}-{burst}{mode}");
        if !value.is_empty() {
            text += &format!("-{value}");
        }
        let (called, is_new) =
            self.servers.called(&format!("{zone_name} {burst}{mode} {value}"), &text);
        if !is_new {
            return called;
        }
        let mut item = Item::new("[[policer]]");
        item.key("name", quoted(&called), &it.from);
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
        called
    }

    /// The resource that a bound on the connections of all clients is.
    pub(super) fn resource(
        &mut self,
        inherited: &Inherited<'_>,
        pools: &[(Option<Condition>, Option<String>)],
    ) -> Option<(String, From)> {
        let [(None, Some(pool))] = pools else {
            for it in &inherited.limit_conn {
                self.draft
                    .less_safe(&it.from, "before several pools: write a [[resource]] for each");
            }
            return None;
        };
        let mut found = None;
        for it in &inherited.limit_conn {
            match self.http.connection_zones.get(it.argument(0)) {
                Some(true) if found.is_none() => {
                    let text = format!("{}-{pool}", it.argument(0));
                    let (resource, is_new) =
                        self.servers.called(&format!("{} {pool} slots", it.argument(0)), &text);
                    if is_new {
                        let mut item = Item::new("[[resource]]");
                        item.key("name", quoted(&resource), &it.from);
                        let (least, most) = self.http.connections[it.argument(0)];
                        if least < most {
                            self.draft.stricter(&it.from, &format!("bounds from {least} to {most} of one zone: the smaller counts for all"));
                        }
                        item.key("slots", least, &it.from);
                        item.remark("pool", quoted(pool), "the pool of these requests");
                        self.servers.resources.push(item);
                    }
                    self.draft.note(&it.from, "what is beyond the bound waits for its class's deadline, instead of being refused at once");
                    found = Some((resource, it.from.clone()));
                }
                _ => self.draft.less_safe(&it.from, "connections of each client: fair queueing gives each client its turn, so none is needed; for a hard bound on requests, police = { rate, per = \"flow\" }"),
            }
        }
        found
    }
}
