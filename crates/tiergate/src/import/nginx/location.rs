//! `location`: which one takes a request, and what it does with it.

use super::super::draft::{From, literal, quoted};
use super::expression::path_expression;
use super::grammar::Directive;
use super::inherited::Inherited;
use super::reasons::left_out_of_location;
use super::server::{Condition, Here, and};

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

/// How a location is chosen, and its path or expression. They may be written as one.
fn choice(it: &Directive) -> (&str, &str) {
    let first = it.argument(0);
    let found = ["=", "^~", "~*", "~"].into_iter().find_map(|sign| {
        let rest = first.strip_prefix(sign)?;
        Some((sign, if rest.is_empty() { it.argument(1) } else { rest }))
    });
    found.unwrap_or(("", first))
}

/// The path of a location.
pub(super) fn path_of(it: &Directive) -> &str {
    choice(it).1
}

/// Whether something in a location, however deep, is chosen before the regular expressions beside it.
fn is_before_expressions(it: &Directive) -> bool {
    let inner = it.block.iter().filter(|it| it.name == "location");
    inner
        .into_iter()
        .any(|it| matches!(choice(it).0, "=" | "~" | "~*") || is_before_expressions(it))
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
            match choice(it) {
                ("=", _) => locations.push((EXACT, place, it)),
                ("^~", path) => locations.push((FIRM, length(path), it)),
                ("~" | "~*", _) => locations.push((EXPRESSION, place, it)),
                // Only `try_files` gets there.
                (_, path) if path.starts_with('@') => {}
                (_, path) => locations.push((PREFIX, length(path), it)),
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
        let (sign, text) = choice(it);
        let holds = path_expression(text, sign == "~*");
        let holds = holds
            .map(|it| quoted(&it))
            .map(|text| ("path_regex".to_owned(), text, it.from.clone()));
        match holds.and_then(|holds| and(conditions, holds)) {
            Some(own) if it.block.iter().all(|it| it.name != "location") => {
                self.location(it, &own, inherited, &[]);
            }
            _ => {
                self.refuse(conditions, &it.from);
                self.draft.stricter(&it.from, "this expression may mean something else in rules, or there are locations within it: whatever might be its is refused until you write its rules");
                self.keep_pools(&it.block);
            }
        }
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
        left_out_of_location(it, inherited.internal.is_some(), self.draft);
        self.locations(&it.block, conditions, &inherited, after);
        for Expression { location, inherited } in after {
            self.expression(location, conditions, inherited);
        }
        self.own(it, conditions, &inherited);
    }
}
