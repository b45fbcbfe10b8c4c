//! `location`: which one takes a request, and what it does with it.

use super::super::draft::{From, listed, literal, quoted};
use super::access::Serving;
use super::grammar::Directive;
use super::inherited::{GUARDS, Inherited};
use super::reasons::why;
use super::server::{Condition, Here};

impl Here<'_> {
    /// The locations of a server or location, in the order in which nginx chooses. Whether one takes everything.
    pub(super) fn locations(
        &mut self,
        list: &[Directive],
        conditions: &[Condition],
        inherited: &Inherited<'_>,
    ) -> bool {
        let mut locations: Vec<(u8, usize, &Directive)> = Vec::new();
        for it in list.iter().filter(|it| it.name == "location") {
            let place = locations.len();
            let length = |path: &str| usize::MAX - path.len();
            match it.argument(0) {
                "=" => locations.push((0, place, it)),
                "^~" => locations.push((1, length(it.argument(1)), it)),
                "~" | "~*" => locations.push((2, place, it)),
                path if path.starts_with('@') => self.draft.note(
                    &it.from,
                    "a named location: errors of servers are answered by Tiergate itself",
                ),
                path => locations.push((3, length(path), it)),
            }
        }
        locations.sort_by_key(|(kind, order, _)| (*kind, *order));
        let exact: Vec<&str> =
            locations.iter().filter(|it| it.0 == 0).map(|it| it.2.argument(1)).collect();
        let (mut is_whole, mut redirects) = (false, true);
        for (kind, _, it) in &locations {
            if *kind > 0 && std::mem::take(&mut redirects) {
                self.slashes(&locations, &exact, conditions);
            }
            // A path within a path is the longer one.
            let mut own: Vec<Condition> =
                conditions.iter().filter(|it| *kind == 2 || it.0 != "path").cloned().collect();
            match *kind {
                0 => {
                    own.push(("path".to_owned(), quoted(&literal(it.argument(1))), it.from.clone()))
                }
                2 if own.iter().any(|it| it.0 == "path_regex") => {
                    self.refuse(conditions, &it.from);
                    self.draft.stricter(&it.from, "a regular expression within another: the outer location refuses everything until you write its rules");
                    self.keep_pools(&it.block);
                    continue;
                }
                2 => {
                    let flags = if it.argument(0) == "~*" { "(?i)" } else { "" };
                    own.push((
                        "path_regex".to_owned(),
                        quoted(&format!("{flags}{}", it.argument(1))),
                        it.from.clone(),
                    ));
                }
                _ => {
                    let path = it.arguments.last().map_or("", String::as_str);
                    is_whole |= path == "/";
                    if path != "/" {
                        own.push((
                            "path".to_owned(),
                            quoted(&format!("{}*", literal(path))),
                            it.from.clone(),
                        ));
                    }
                }
            }
            self.location(it, &own, inherited);
        }
        is_whole
    }

    /// nginx sends clients that leave out the slash at the end of a location's path there, if it proxies.
    fn slashes(
        &mut self,
        locations: &[(u8, usize, &Directive)],
        exact: &[&str],
        conditions: &[Condition],
    ) {
        let conditions: Vec<_> = conditions.iter().filter(|it| it.0 != "path").cloned().collect();
        for (_, _, it) in locations.iter().filter(|it| matches!(it.0, 1 | 3)) {
            let path = it.arguments.last().map_or("", String::as_str);
            let Some(short) = path.strip_suffix('/').filter(|it| !it.is_empty()) else { continue };
            let proxies = it.block.iter().any(|it| it.name == "proxy_pass");
            if proxies && !exact.contains(&short) {
                let mut rule = self.rule(&conditions);
                let from = From {
                    text: format!("{}, which redirects to its slash", it.from.text),
                    ..it.from.clone()
                };
                rule.key("path", quoted(&literal(short)), &from);
                rule.key(
                    "refuse",
                    format!("{{ status = 301, redirect = {} }}", quoted(path)),
                    &from,
                );
                self.servers.rules.push(rule);
            }
        }
    }

    fn location(&mut self, it: &Directive, conditions: &[Condition], outer: &Inherited<'_>) {
        let inherited = outer.within(&it.block);
        self.unlike(&it.block);
        self.locations(&it.block, conditions, &inherited);
        let (mut target, mut except) = (None, None);
        for line in &it.block {
            match line.name.as_str() {
                "proxy_pass" => target = Some(line),
                "limit_except" => except = Some(line),
                "internal" => {
                    self.refuse(conditions, &line.from);
                    return self.keep_pools(&it.block);
                }
                "return"
                | "if"
                | "rewrite"
                | "location"
                | "limit_req"
                | "limit_conn"
                | "limit_req_status"
                | "limit_conn_status"
                | "limit_req_dry_run"
                | "allow"
                | "deny"
                | "satisfy"
                | "client_max_body_size"
                | "access_log" => {}
                name if GUARDS.contains(&name) => {}
                name => self.draft.note(&line.from, why(name)),
            }
        }
        let (outer, mut conditions) = (conditions, conditions.to_vec());
        let Some(others) = self.rewritten(&it.block, &mut conditions) else {
            return self.keep_pools(&it.block);
        };
        let Some(target) = target else {
            self.refuse(outer, &it.from);
            self.draft.stricter(&it.from, "nothing is proxied here: Tiergate serves no files; name the server that does, as its pool");
            return;
        };
        let serving = Serving {
            pools: self.pools(target),
            policed: self.police(&inherited),
            resource: None,
            location: it,
            target,
        };
        let resource = self.resource(&inherited, &serving.pools);
        let serving = Serving { resource, ..serving };
        if let Some(except) = except {
            let mut methods = except.arguments.clone();
            if methods.iter().any(|it| it == "GET") {
                methods.push("HEAD".to_owned());
            }
            let mut named = conditions.clone();
            if named.iter().all(|it| it.0 != "method") {
                named.push(("method".to_owned(), listed(&methods), except.from.clone()));
            }
            self.access(&named, &inherited, &serving);
            self.access(&conditions, &inherited.within(&except.block), &serving);
        } else {
            self.access(&conditions, &inherited, &serving);
        }
        if let Some(answer) = others {
            self.refused(answer, outer);
        }
    }
}
