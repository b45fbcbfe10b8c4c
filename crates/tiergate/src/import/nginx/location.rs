//! `location`: which one takes a request, and what it does with it.

use super::super::draft::{From, listed, literal, quoted};
use super::access::Serving;
use super::grammar::Directive;
use super::inherited::{GUARDS, Inherited};
use super::reasons::why;
use super::server::{Condition, Here};

/// A location by a regular expression, and what it inherits where it stands.
#[derive(Clone, Copy)]
pub(super) struct Expression<'l> {
    location: &'l Directive,
    inherited: &'l Inherited<'l>,
}

const EXACT: u8 = 0;
/// A prefix that is the last word, unless there is a longer one.
const FIRM: u8 = 1;
/// A prefix before the regular expressions that stand beside it, as [`is_before_expressions`] says; it has a copy of them for itself.
const EARLY: u8 = 2;
const EXPRESSION: u8 = 3;
const PREFIX: u8 = 4;

/// A location with its kind, and among those of its kind its place.
type Ranked<'l> = (u8, usize, &'l Directive);

/// The path of a location.
fn path_of(it: &Directive) -> &str {
    it.arguments.last().map_or("", String::as_str)
}

/// Whether something in a location, however deep, is chosen before the regular expressions beside it.
fn is_before_expressions(it: &Directive) -> bool {
    let inner = it.block.iter().filter(|it| it.name == "location");
    inner
        .into_iter()
        .any(|it| matches!(it.argument(0), "=" | "~" | "~*") || is_before_expressions(it))
}

/// The prefixes that come before regular expressions, longest first: those that are firm, those with inner locations that come before them, and each that is longer than one of these.
fn rank(locations: &mut Vec<Ranked<'_>>) {
    let is_early = |it: &Ranked<'_>| it.0 == FIRM || is_before_expressions(it.2);
    let prefixes = locations.iter().filter(|it| it.0 == FIRM || it.0 == PREFIX);
    let early: Vec<String> =
        prefixes.filter(|it| is_early(it)).map(|it| path_of(it.2).to_owned()).collect();
    for it in locations.iter_mut().filter(|it| it.0 == PREFIX) {
        if early.iter().any(|early| path_of(it.2).starts_with(early)) {
            it.0 = EARLY;
        }
    }
    // One rank for both: the longest of them takes the request.
    locations.sort_by_key(|(kind, order, _)| (if *kind == FIRM { EARLY } else { *kind }, *order));
}

impl Here<'_> {
    /// The locations of a server or location, in the order in which nginx chooses; `after`: the regular expressions around it, which come
    /// before a mere prefix. Whether one takes everything.
    ///
    /// Source: `ngx_http_core_find_location`: an exact path; the longest prefix, and in it the same anew, of which only an exact path or an expression
    /// is the last word; unless the prefix is firm, the expressions; the deepest prefix.
    pub(super) fn locations(
        &mut self,
        list: &[Directive],
        conditions: &[Condition],
        inherited: &Inherited<'_>,
        after: &[Expression<'_>],
    ) -> bool {
        let mut locations: Vec<Ranked<'_>> = Vec::new();
        for it in list.iter().filter(|it| it.name == "location") {
            let place = locations.len();
            let length = |path: &str| usize::MAX - path.len();
            match it.argument(0) {
                "=" => locations.push((EXACT, place, it)),
                "^~" => locations.push((FIRM, length(it.argument(1)), it)),
                "~" | "~*" => locations.push((EXPRESSION, place, it)),
                path if path.starts_with('@') => self.draft.note(
                    &it.from,
                    "a named location: errors of servers are answered by Tiergate itself",
                ),
                path => locations.push((PREFIX, length(path), it)),
            }
        }
        rank(&mut locations);
        let expressions = locations.iter().filter(|it| it.0 == EXPRESSION);
        let beside = expressions.map(|(_, _, location)| Expression { location, inherited });
        let all: Vec<_> = beside.chain(after.iter().copied()).collect();
        let (mut is_whole, mut redirects) = (false, true);
        for (kind, _, it) in &locations {
            if *kind != EXACT && std::mem::take(&mut redirects) {
                self.slashes(&locations, conditions);
            }
            if is_whole {
                // `location /` comes before expressions only with copies of them.
                break;
            }
            if *kind == EXPRESSION {
                self.expression(it, conditions, inherited);
                continue;
            }
            // A path within a path is the longer one.
            let mut own: Vec<Condition> =
                conditions.iter().filter(|it| it.0 != "path").cloned().collect();
            let path = path_of(it);
            let pattern = match *kind {
                EXACT => literal(path),
                _ => format!("{}*", literal(path)),
            };
            is_whole |= *kind != EXACT && path == "/";
            if *kind == EXACT || path != "/" {
                own.push(("path".to_owned(), quoted(&pattern), it.from.clone()));
            }
            let after = match *kind {
                EXACT => &[],
                EARLY => all.as_slice(),
                _ => after,
            };
            self.location(it, &own, inherited, after);
        }
        if redirects {
            self.slashes(&locations, conditions);
        }
        is_whole
    }

    /// A location by a regular expression, for requests with these conditions.
    fn expression(&mut self, it: &Directive, conditions: &[Condition], inherited: &Inherited<'_>) {
        if conditions.iter().any(|it| it.0 == "path_regex") {
            self.refuse(conditions, &it.from);
            self.draft.stricter(&it.from, "a regular expression within another: the outer location refuses everything until you write its rules");
            return self.keep_pools(&it.block);
        }
        let flags = if it.argument(0) == "~*" { "(?i)" } else { "" };
        let text = quoted(&format!("{flags}{}", it.argument(1)));
        let mut own = conditions.to_vec();
        own.push(("path_regex".to_owned(), text, it.from.clone()));
        self.location(it, &own, inherited, &[]);
    }

    /// nginx sends clients that leave out the slash at the end of a location's path there, if it proxies and no other one has the path without it.
    fn slashes(&mut self, locations: &[Ranked<'_>], conditions: &[Condition]) {
        let paths = locations.iter().filter(|it| it.0 != EXPRESSION).map(|it| path_of(it.2));
        let conditions: Vec<_> = conditions.iter().filter(|it| it.0 != "path").cloned().collect();
        for (_, _, it) in locations.iter().filter(|it| it.0 != EXPRESSION) {
            let path = path_of(it);
            let Some(short) = path.strip_suffix('/').filter(|it| !it.is_empty()) else { continue };
            let proxies = it.block.iter().any(|it| it.name == "proxy_pass");
            if proxies && !paths.clone().any(|it| it == short) {
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

    /// A location, for requests with these conditions that none of the regular expressions `after` takes.
    fn location(
        &mut self,
        it: &Directive,
        conditions: &[Condition],
        outer: &Inherited<'_>,
        after: &[Expression<'_>],
    ) {
        let inherited = outer.within(&it.block);
        self.unlike(&it.block);
        self.locations(&it.block, conditions, &inherited, after);
        for Expression { location, inherited } in after {
            self.expression(location, conditions, inherited);
        }
        self.own(it, conditions, &inherited);
    }

    /// What a location does with the requests that no other one takes.
    fn own(&mut self, it: &Directive, conditions: &[Condition], inherited: &Inherited<'_>) {
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
            policed: self.police(inherited),
            resource: None,
            location: it,
            target,
        };
        let resource = self.resource(inherited, &serving.pools);
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
            self.access(&named, inherited, &serving);
            self.access(&conditions, &inherited.within(&except.block), &serving);
        } else {
            self.access(&conditions, inherited, &serving);
        }
        if let Some(answer) = others {
            self.refused(answer, outer);
        }
    }
}
