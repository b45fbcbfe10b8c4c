//! Which first requests of connections the kernel may police, by method and path.
//!
//! As for addresses ([`super`]): the kernel finds the longest of the paths and prefixes that the rules name, and its table says which policer *every* request has that begins so and is none of the longer ones.
//! What asks for more than method and path, or has wildcards elsewhere than at the end, may be the first rule for a request; then the gateway alone says.
//! A request that a rule refuses takes no token of the gateway's, and is told what the rule says. So what rules refuse for certain passes, by the same table; where it depends on more, as on the client, the policer goes first.
//! The kernel judges only paths that are in normal form as they are written (`bpf/head.h`): of these the gateway makes what they are.
//!
//! Source: Voigt B §3.3 (HTTP-header control by URL and prefix). What may go early: ours.

use super::bucket::Wanted;
use crate::admit::bucket::Rate;
use crate::admit::retry::{self, Bounds};
use crate::classify::Matcher;
use crate::classify::pattern::Pattern;
use crate::classify::rule::{Output, Rule};
use crate::names::PolicerId;
use crate::plan::Plan;
use crate::request::{Part, RequestView};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most bytes of a path that the kernel compares, with a 0 where the path ends.
pub const PATH_LEN_MAX: usize = 64;
/// Most paths of all listeners together.
pub const PATHS_MAX: usize = 8000;
/// Most buckets.
pub const BUCKETS_MAX: usize = 500;
/// Most looks at a rule: a fraction of a second.
const LOOKS_MAX: usize = 40_000_000;

/// The methods that the kernel knows, each with its bit.
const METHODS: [(&[u8], u8); 3] = [(b"GET", 1), (b"HEAD", 2), (b"POST", 4)];

/// What becomes of requests for a path, unless a longer one has an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// The path, or what it begins with.
    pub path: Box<[u8]>,
    /// Whether it is the whole path.
    pub is_whole: bool,
    /// Place in [`Heads::policers`]; `None`: they pass.
    pub bucket: Option<u16>,
    /// Bits of the methods that are policed: 1 GET, 2 HEAD, 4 POST.
    pub methods: u8,
}

impl PathEntry {
    /// Whether requests with this method are policed.
    pub fn has_method(&self, method: &[u8]) -> bool {
        METHODS.iter().any(|(known, bit)| *known == method && self.methods & bit != 0)
    }

    /// What the kernel compares.
    pub fn key(&self) -> Vec<u8> {
        let end = self.is_whole.then_some(0);
        self.path.iter().copied().chain(end).collect()
    }
}

/// What the kernel is to do at the first request of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heads {
    /// The policers that have a bucket.
    pub policers: Vec<PolicerId>,
    /// By listener.
    pub listeners: Vec<Vec<PathEntry>>,
}

impl Heads {
    /// What may go early. `plain`: by listener, whether its requests can be read. Nothing, where the policy has too much of it. O(paths × rules).
    pub fn of(rules: &[Rule], plan: &Plan, plain: &[bool]) -> Heads {
        let count = plain.len();
        let none = Heads { policers: Vec::new(), listeners: vec![Vec::new(); count] };
        let policing: Vec<&Rule> = rules.iter().filter(|it| it.sets(Output::Policer)).collect();
        let mut refusing = up_to_the_last_that_refuses(rules);
        let mut paths: BTreeSet<Key> = policing.iter().flat_map(|it| keys(it)).collect();
        let plain_count = plain.iter().filter(|it| **it).count();
        let is_too_much = |paths: usize, looks: usize| {
            paths * plain_count > PATHS_MAX || paths.saturating_mul(looks) > LOOKS_MAX
        };
        if is_too_much(paths.len(), policing.len()) {
            return none;
        }
        let with_refused = and_what_is_refused_of_them(&paths, &refusing);
        let looks = refusing.iter().map(|it| 1 + keys(it).count()).sum::<usize>();
        match is_too_much(with_refused.len(), policing.len() + looks) {
            // Then these take tokens as others do.
            true => refusing.clear(),
            false => paths = with_refused,
        }
        let mut heads = none.clone();
        for listener in (0..count).filter(|place| plain[*place]) {
            for (path, is_whole) in &paths {
                let found = METHODS.map(|(method, bit)| {
                    let view =
                        RequestView { method, listener: listener as u16, ..RequestView::EMPTY };
                    let policer = first(&policing, &view, path, *is_whole);
                    let policer = policer.filter(|id| can_be_early(plan, *id));
                    (policer.filter(|_| !is_refused(&refusing, &view, path, *is_whole)), bit)
                });
                let policer = found.iter().find_map(|(policer, _)| *policer);
                let same = found.iter().filter(|it| policer.is_some() && it.0 == policer);
                let methods = same.map(|(_, bit)| bit).sum();
                let bucket = policer.map(|id| heads.bucket(id));
                if heads.policers.len() > BUCKETS_MAX {
                    return none;
                }
                let (path, is_whole) = (path.clone(), *is_whole);
                heads.listeners[listener].push(PathEntry { path, is_whole, bucket, methods });
            }
            let own = &mut heads.listeners[listener];
            if own.iter().all(|entry| entry.bucket.is_none()) {
                own.clear();
            }
        }
        heads
    }

    /// Whether requests of the policer can be told by their heads.
    pub fn has(&self, policer: PolicerId) -> bool {
        self.policers.contains(&policer)
    }

    /// What becomes of a request that the kernel judges.
    pub fn entry(&self, listener: u16, path: &[u8]) -> Option<&PathEntry> {
        let fits = |entry: &&PathEntry| match entry.is_whole {
            true => *entry.path == *path,
            false => path.starts_with(&entry.path),
        };
        let entries = self.listeners.get(usize::from(listener))?.iter().filter(fits);
        entries.max_by_key(|entry| entry.key().len())
    }

    fn bucket(&mut self, id: PolicerId) -> u16 {
        let known = self.policers.iter().position(|it| *it == id);
        known.unwrap_or_else(|| {
            self.policers.push(id);
            self.policers.len() - 1
        }) as u16
    }
}

/// What the kernel's answer says in `Retry-After`, in seconds: when the next token of a policer with this rate comes, if no one else takes it, within the bounds of all refusals. The answer is
/// the same for all, so there is no jitter in it.
pub fn retry_after(rate: Rate, bounds: Bounds) -> u64 {
    let next = Duration::try_from_secs_f64(1.0 / rate.tokens_per_second());
    // Without a rate none comes.
    retry::seconds(next.unwrap_or(Duration::MAX), bounds, 0)
}

/// Of one with shares the class says whose tokens they are, which may depend on more than the head's first line.
fn can_be_early(plan: &Plan, id: PolicerId) -> bool {
    plan.policer(id).is_some_and(|it| it.shares.is_empty() && Wanted::of(it, it.rate).is_ok())
}

/// A path, or what it begins with, and whether it is the whole.
type Key = (Box<[u8]>, bool);

/// The rules that say whether a request is refused: the first of them for it does. Behind the last that refuses, it is not.
fn up_to_the_last_that_refuses(rules: &[Rule]) -> Vec<&Rule> {
    let count = rules.iter().rposition(|rule| rule.refuse).map_or(0, |last| last + 1);
    rules[..count].iter().filter(|it| it.sets(Output::Verdict)).collect()
}

/// The paths of policers, and those within their prefixes of which rules may say something else: that they are refused, or are not. O(paths of rules × their lengths).
fn and_what_is_refused_of_them(paths: &BTreeSet<Key>, refusing: &[&Rule]) -> BTreeSet<Key> {
    let is_prefix = |begin: &[u8]| paths.contains(&(begin.into(), false));
    let is_within = |(path, _): &Key| (0..=path.len()).any(|len| is_prefix(&path[..len]));
    let theirs = refusing.iter().flat_map(|it| keys(it)).filter(is_within);
    paths.iter().cloned().chain(theirs).collect()
}

/// The paths and prefixes that a rule names and the kernel can compare.
fn keys(rule: &Rule) -> impl Iterator<Item = Key> + '_ {
    let of_path = rule.conditions.iter().filter(|it| *it.part() == Part::Path);
    of_path
        .flat_map(|it| it.any_of())
        .filter_map(|matcher| match matcher {
            Matcher::Pattern(Pattern::Exact(path)) => Some((path.clone(), true)),
            Matcher::Pattern(Pattern::Prefix(path)) => Some((path.clone(), false)),
            _ => None,
        })
        .map(|(path, is_whole)| match path.len() + usize::from(is_whole) {
            // What is longer is found by its begin, of which the kernel knows nothing certain.
            0..=PATH_LEN_MAX => (path, is_whole),
            _ => (path[..PATH_LEN_MAX].into(), false),
        })
}

/// The policer of all requests with this method to this listener that begin so; `None` if there is none, or none for certain.
fn first(
    rules: &[&Rule],
    view: &RequestView<'_>,
    path: &[u8],
    is_whole: bool,
) -> Option<PolicerId> {
    for rule in rules {
        match matches(rule, view, path, is_whole) {
            Holds::Yes => return rule.policer,
            Holds::Perhaps => return None,
            Holds::No => {}
        }
    }
    None
}

/// Whether rules refuse all of these requests, whatever else they have.
fn is_refused(rules: &[&Rule], view: &RequestView<'_>, path: &[u8], is_whole: bool) -> bool {
    for rule in rules {
        match matches(rule, view, path, is_whole) {
            Holds::Yes => return rule.refuse,
            // If it is not the first for one of them, the next may be.
            Holds::Perhaps if rule.refuse => {}
            Holds::Perhaps => return false,
            Holds::No => {}
        }
    }
    false
}

/// Whether a rule is for these requests.
fn matches(rule: &Rule, view: &RequestView<'_>, path: &[u8], is_whole: bool) -> Holds {
    let held = rule.conditions.iter().map(|condition| match condition.part() {
        Part::Listener | Part::Method => Holds::of(condition.holds(view)),
        Part::Path => condition
            .any_of()
            .iter()
            .fold(Holds::No, |so_far, matcher| so_far.max(at(matcher, path, is_whole))),
        _ => Holds::Perhaps,
    });
    held.min().unwrap_or(Holds::Yes)
}

/// Whether a condition holds for all requests that have an entry's path, and no longer one that rules name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    No,
    Perhaps,
    Yes,
}

impl Holds {
    fn of(holds: bool) -> Self {
        if holds { Holds::Yes } else { Holds::No }
    }
}

fn at(matcher: &Matcher, path: &[u8], is_whole: bool) -> Holds {
    match matcher {
        Matcher::Pattern(Pattern::Any) => Holds::Yes,
        Matcher::Pattern(Pattern::Exact(exact)) if exact.len() < PATH_LEN_MAX => {
            Holds::of(is_whole && **exact == *path)
        }
        Matcher::Pattern(Pattern::Prefix(prefix)) if prefix.len() <= PATH_LEN_MAX => {
            Holds::of(path.starts_with(prefix))
        }
        // Longer ones: of what begins as they do.
        Matcher::Pattern(Pattern::Exact(long) | Pattern::Prefix(long)) => {
            match long.starts_with(path) && path.len() == PATH_LEN_MAX {
                true => Holds::Perhaps,
                false => Holds::No,
            }
        }
        _ => Holds::Perhaps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::policer::{Per, Settings, Share};
    use crate::classify::{Classifier, Condition, Scratch, Span};
    use crate::names::{ClassId, Names};
    use crate::plan::Spec;
    use proptest::prelude::*;

    fn plan() -> Plan {
        let policer = |(place, name): (usize, &str)| Settings {
            name: name.into(),
            key: None,
            rate: Rate::per_second(10),
            burst: 5,
            per: Per::Rule,
            shares: (place == 2)
                .then_some(Share { class: ClassId(0), parts: 100, burst: 1 })
                .into_iter()
                .collect(),
            inbound: None,
            announce: false,
        };
        let policers = ["a", "b", "shared"].into_iter().enumerate().map(policer).collect();
        let spec = Spec { policers, ..Spec::protective() };
        Plan::build(spec, &mut Names::default()).expect("a plan")
    }

    fn path(text: &str) -> Condition {
        Condition::new(Part::Path, [Matcher::Pattern(Pattern::path(text).expect("a pattern"))])
    }

    fn method(text: &str) -> Condition {
        Condition::new(Part::Method, [Matcher::Pattern(Pattern::value(text).expect("a pattern"))])
    }

    fn police(policer: u16, conditions: Vec<Condition>) -> Rule {
        Rule { conditions, policer: Some(PolicerId(policer)), ..Rule::default() }
    }

    fn policed(heads: &Heads, path: &str) -> Option<(u16, u8)> {
        let entry = heads.entry(0, path.as_bytes())?;
        Some((heads.policers[usize::from(entry.bucket?)].0, entry.methods))
    }

    #[test]
    fn clients_are_told_when_a_token_comes_within_the_bounds_of_all_refusals() {
        let secs = Duration::from_secs;
        let bounds = |min, max| Bounds { min: secs(min), max: secs(max) };
        for (rate, bounds, told) in [
            (Rate::per_second(50), bounds(1, 30), 1),
            (Rate::per_second(50), bounds(5, 30), 5),
            (Rate::per_minute(7), bounds(1, 30), 9),
            (Rate::per_minute(1), bounds(1, 30), 30),
            (Rate::per_minute(1), bounds(1, 3600), 60),
            (Rate::default(), bounds(1, 30), 30),
        ] {
            assert_eq!(retry_after(rate, bounds), told, "{rate:?} {bounds:?}");
        }
    }

    #[test]
    fn the_longest_path_is_found_and_what_asks_for_more_stops_it() {
        let host = Condition::new(Part::Host, [Matcher::Pattern(Pattern::Any)]);
        let rules = [
            police(0, vec![path("/cgi/free/*"), host]),
            police(0, vec![path("/cgi/*"), method("GET")]),
            police(1, vec![path("/cgi/*")]),
            police(1, vec![path("/one")]),
            police(2, vec![path("/shares/*")]),
            police(0, vec![path("/a/*/b")]),
            police(1, vec![path("/late/*")]),
        ];
        let heads = Heads::of(&rules, &plan(), &[true, false]);
        let of = |path| policed(&heads, path);
        assert_eq!(
            of("/cgi/x"),
            Some((0, 1)),
            "POST has another policer, which the table has no room for"
        );
        assert_eq!((of("/cgi/free/x"), of("/shares/x")), (None, None));
        assert_eq!((of("/one"), of("/one/more"), of("/on")), (Some((1, 7)), None, None));
        assert_eq!(of("/late/x"), None, "a rule with a wildcard within may come first");
        assert!(heads.listeners[1].is_empty(), "encrypted");
    }

    fn refuse(conditions: Vec<Condition>) -> Rule {
        Rule { conditions, refuse: true, ..Rule::default() }
    }

    fn class(conditions: Vec<Condition>) -> Rule {
        Rule { conditions, class: Some(ClassId(0)), ..Rule::default() }
    }

    #[test]
    fn what_a_rule_refuses_for_certain_takes_no_token() {
        let client = || {
            Condition::new(
                Part::Client,
                [Matcher::Network("10.0.0.0/8".parse().expect("a network"))],
            )
        };
        let rules = [
            class(vec![path("/cgi/admin/login")]),
            refuse(vec![path("/cgi/admin*")]),
            refuse(vec![path("/cgi/put"), method("POST")]),
            refuse(vec![path("/cgi/some/*"), client()]),
            class(vec![path("/cgi/any/*"), client()]),
            refuse(vec![path("/cgi/any/*")]),
            refuse(vec![path("/cgi/both/*"), client()]),
            refuse(vec![path("/cgi/both/*")]),
            refuse(vec![path("/elsewhere/*")]),
            police(0, vec![path("/cgi/*")]),
            // The first of all, though it stands behind the policer.
            refuse(vec![path("/cgi/late/*")]),
            class(vec![path("/cgi/served/*")]),
        ];
        let heads = Heads::of(&rules, &plan(), &[true]);
        let of = |path| policed(&heads, path);
        assert_eq!((of("/cgi/admin"), of("/cgi/admin/x"), of("/cgi/late/x")), (None, None, None));
        assert_eq!(of("/cgi/both/x"), None, "one of the two refuses it");
        for path in ["/cgi/x", "/cgi/admi", "/cgi/admin/login", "/cgi/some/x", "/cgi/any/x"] {
            assert_eq!(of(path), Some((0, 7)), "{path}");
        }
        assert_eq!(of("/cgi/put"), Some((0, 3)), "GET and HEAD are served");
        assert_eq!(heads.listeners[0].len(), 8, "what is not within a policer's prefix has none");
    }

    #[test]
    fn more_refused_paths_than_there_is_room_for_take_tokens() {
        let plain = [true; 8];
        let mut rules = vec![police(0, vec![path("/*")])];
        let refused = (1..PATHS_MAX / plain.len()).map(|it| refuse(vec![path(&format!("/{it}"))]));
        rules.extend(refused);
        assert_eq!(policed(&Heads::of(&rules, &plan(), &plain), "/7"), None);
        rules.push(refuse(vec![path("/one/more")]));
        let heads = Heads::of(&rules, &plan(), &plain);
        assert_eq!((policed(&heads, "/7"), heads.listeners[0].len()), (Some((0, 7)), 1));
    }

    #[test]
    fn long_paths_and_too_many_stay_with_the_gateway() {
        let long = format!("/{}/*", "x".repeat(80));
        let rules = [police(0, vec![path(&long)]), police(1, vec![path("/xxx*")])];
        let heads = Heads::of(&rules, &plan(), &[true]);
        assert_eq!(policed(&heads, &long), None);
        assert_eq!(policed(&heads, "/xxxy"), Some((1, 7)));
        let rules: Vec<Rule> =
            (0..PATHS_MAX + 1).map(|number| police(0, vec![path(&format!("/{number}"))])).collect();
        assert!(Heads::of(&rules, &plan(), &[true]).policers.is_empty());
    }

    proptest! {
        /// Whatever else a request has, the classifier gives it the policer by which the kernel polices it, and it is refused by no rule, if that is certain.
        #[test]
        fn all_requests_that_are_policed_have_that_policer(
            rules in prop::collection::vec((0_u16..4, prop::collection::vec("/[ab/]{0,3}[*]?", 1..3), prop::option::of("GET|POST"), prop::option::of(0_u64..2), any::<bool>()), 1..10),
            paths in prop::collection::vec("/[ab/]{0,5}", 1..20),
        ) {
            let is_certain = rules.iter().all(|it| !it.4);
            let rules: Vec<Rule> = rules.into_iter().map(|(output, paths, of, listener, more)| {
                let patterns = paths.iter().filter_map(|it| Pattern::path(it).ok()).map(Matcher::Pattern);
                let mut conditions = vec![Condition::new(Part::Path, patterns.chain([Matcher::Pattern(Pattern::path("/b/a").expect("one"))]))];
                conditions.extend(of.map(|it| method(&it)));
                conditions.extend(listener.map(|it| Condition::new(Part::Listener, [Matcher::Range(Span::one(it))])));
                conditions.extend(more.then(|| Condition::new(Part::Host, [Matcher::Pattern(Pattern::Any)])));
                match output {
                    2 => class(conditions),
                    3 => refuse(conditions),
                    policer => police(policer, conditions),
                }
            }).collect();
            let heads = Heads::of(&rules, &plan(), &[true, true]);
            let classifier = Classifier::compile(&rules, ClassId(0)).expect("rules");
            let mut scratch = Scratch::default();
            for path in &paths {
                for (listener, (method, bit)) in [0, 1].into_iter().flat_map(|it| METHODS.map(|method| (it, method))) {
                    let Some(entry) = heads.entry(listener, path.as_bytes()) else { continue };
                    let Some(bucket) = entry.bucket.filter(|_| entry.methods & bit != 0) else { continue };
                    for host in [&b""[..], b"x"] {
                        let view = RequestView { method, listener, host, path: path.as_bytes(), ..RequestView::EMPTY };
                        let found = classifier.classify(&view, &mut scratch);
                        prop_assert_eq!(found.policer, Some(heads.policers[usize::from(bucket)]));
                        prop_assert!(!is_certain || !found.refuse, "{:?}", path);
                    }
                }
            }
        }
    }
}
