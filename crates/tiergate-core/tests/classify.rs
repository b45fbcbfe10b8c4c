//! The compiled classifier against an interpreter that shares no code with it.

use ipnet::IpNet;
use proptest::prelude::*;
use std::net::IpAddr;
use std::time::Duration;
use tiergate_core::class::ClassId;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::rule::{Condition, Rule};
use tiergate_core::classify::{Classifier, CompileError, Match, Scratch};
use tiergate_core::request::{Field, RequestView};

/// A condition as its text.
#[derive(Clone, Debug)]
enum Spec {
    Path(Vec<String>),
    Host(Vec<String>),
    Method(Vec<String>),
    Header(String, Vec<String>),
    Cookie(String, Vec<String>),
    Client(Vec<String>),
}

#[derive(Clone, Debug)]
struct Request {
    method: String,
    host: String,
    path: String,
    fields: Vec<(String, String)>,
    client: IpAddr,
}

/// Matches by trying everything, as the definition of each wildcard says. Exponential; texts are short.
fn wild(pattern: &[u8], text: &[u8], separator: Option<u8>) -> bool {
    let no_separator = |bytes: &[u8]| !bytes.iter().any(|byte| Some(*byte) == separator);
    match pattern {
        [] => text.is_empty(),
        // Two stars, or one that ends a pattern, cross separators.
        [b'*', b'*', rest @ ..] => (0..=text.len()).any(|skip| {
            let rest = if rest.first() == Some(&b'*') { &pattern[1..] } else { rest };
            wild(rest, &text[skip..], separator)
        }),
        [b'*'] => true,
        [b'*', rest @ ..] => (0..=text.len())
            .any(|skip| no_separator(&text[..skip]) && wild(rest, &text[skip..], separator)),
        [b'?', rest @ ..] => {
            !text.is_empty() && no_separator(&text[..1]) && wild(rest, &text[1..], separator)
        }
        [byte, rest @ ..] => text.first() == Some(byte) && wild(rest, &text[1..], separator),
    }
}

fn holds(spec: &Spec, request: &Request) -> bool {
    let value = |patterns: &[String], text: &str| {
        patterns.iter().any(|pattern| wild(pattern.as_bytes(), text.as_bytes(), None))
    };
    match spec {
        Spec::Path(patterns) => patterns
            .iter()
            .any(|pattern| wild(pattern.as_bytes(), request.path.as_bytes(), Some(b'/'))),
        Spec::Host(patterns) => {
            let host = request.host.to_lowercase();
            let host = host.strip_suffix('.').unwrap_or(&host);
            patterns.iter().any(|pattern| match pattern.strip_prefix('*') {
                Some(end) => host.ends_with(end),
                None => host == pattern,
            })
        }
        Spec::Method(methods) => methods.contains(&request.method),
        Spec::Header(name, patterns) => request
            .fields
            .iter()
            .any(|(found, text)| found.to_lowercase() == *name && value(patterns, text)),
        Spec::Cookie(name, patterns) => request
            .fields
            .iter()
            .filter(|(found, _)| found.to_lowercase() == "cookie")
            .flat_map(|(_, text)| text.split(';'))
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .any(|(found, text)| found.trim() == name && value(patterns, text.trim())),
        Spec::Client(networks) => networks
            .iter()
            .any(|network| network.parse::<IpNet>().unwrap().contains(&request.client)),
    }
}

fn compiled(spec: &Spec) -> Condition {
    let values =
        |texts: &[String]| texts.iter().map(|text| Pattern::value(text).unwrap()).collect();
    match spec {
        Spec::Path(texts) => {
            Condition::Path(texts.iter().map(|text| Pattern::path(text).unwrap()).collect())
        }
        Spec::Host(texts) => {
            Condition::Host(texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect())
        }
        Spec::Method(texts) => {
            Condition::Method(texts.iter().map(|text| text.as_str().into()).collect())
        }
        Spec::Header(name, texts) => {
            Condition::Header { name: name.as_str().into(), values: values(texts) }
        }
        Spec::Cookie(name, texts) => {
            Condition::Cookie { name: name.as_str().into(), values: values(texts) }
        }
        Spec::Client(texts) => {
            Condition::Client(texts.iter().map(|text| text.parse().unwrap()).collect())
        }
    }
}

/// Runs `check` on the view of a request.
fn with_view<R>(request: &Request, check: impl FnOnce(&RequestView<'_>) -> R) -> R {
    let fields: Vec<Field<'_>> = request
        .fields
        .iter()
        .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    check(&RequestView {
        method: request.method.as_bytes(),
        host: request.host.as_bytes(),
        path: request.path.as_bytes(),
        query: b"",
        fields: &fields,
        client: request.client,
        ..RequestView::EMPTY
    })
}

fn classes(rules: &[Vec<Spec>]) -> Vec<Rule> {
    let rule = |(index, specs): (usize, &Vec<Spec>)| Rule {
        conditions: specs.iter().map(compiled).collect(),
        class: (index % 3 != 0).then_some(ClassId(index as u16 % 7)),
        deadline: (index % 5 == 0).then_some(Duration::from_millis(index as u64)),
        refuse: index % 3 == 0,
    };
    rules.iter().enumerate().map(rule).collect()
}

fn alternatives(one: &'static str) -> BoxedStrategy<Vec<String>> {
    prop_oneof![4 => prop::collection::vec(one, 1..2), 1 => prop::collection::vec(one, 1..6)]
        .boxed()
}

fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        4 => alternatives("/[ab/]{0,3}[*?ab/]{0,4}")
            .prop_map(|texts| Spec::Path(texts.iter().map(|text| without_doubles(text)).collect())),
        2 => alternatives("(\\*\\.)?[ab](\\.[ab]){0,2}").prop_map(Spec::Host),
        2 => alternatives("GET|PUT|PUSH").prop_map(Spec::Method),
        2 => ("x-[ab]|[ab]", alternatives("[*?xy/]{0,4}")).prop_map(|(n, v)| Spec::Header(n, v)),
        2 => ("[abAB]{1,2}", alternatives("[*?xy]{0,3}")).prop_map(|(n, v)| Spec::Cookie(n, v)),
        2 => alternatives("10\\.[01]\\.0\\.0/(8|15|16|17)|0\\.0\\.0\\.0/0|10\\.[01]\\.128\\.1/32|::/0|fe8[01]::/(15|16)")
            .prop_map(Spec::Client),
    ]
}

/// Takes out what no normalised path has.
fn without_doubles(text: &str) -> String {
    let mut text = text.to_owned();
    while text.contains("//") {
        text = text.replace("//", "/");
    }
    text
}

fn request() -> impl Strategy<Value = Request> {
    let cookie = "[abAB]{1,2}(=[xy]{0,2})?(; ?[abAB]{1,2}=[xy]{0,2}){0,3}";
    let field = prop_oneof![
        3 => ("[xX]-[abAB]|[abAB]", "[xy/]{0,4}"),
        1 => ("[Cc]ookie", cookie),
    ];
    (
        "GET|PUT|PUSH|get",
        "[abAB](\\.[ab]){0,3}\\.?",
        "/[ab/]{0,6}",
        prop::collection::vec(field, 0..5),
        "10\\.[012]\\.(0|128)\\.[01]|9\\.0\\.0\\.1|fe8[012]::1",
    )
        .prop_map(|(method, host, path, fields, client)| Request {
            method,
            host,
            path: without_doubles(&path),
            fields,
            client: client.parse().unwrap(),
        })
}

/// Checks one set of rules on many requests against the interpreter; says which rule matched each.
fn agree(rules: &[Vec<Spec>], requests: &[Request]) -> Vec<Option<u32>> {
    let meant = classes(rules);
    let classifier = Classifier::compile(&meant, ClassId(9)).unwrap();
    let mut scratch = Scratch::default();
    let mut matched = Vec::new();
    for request in requests {
        let expected = rules.iter().position(|specs| specs.iter().all(|spec| holds(spec, request)));
        let expected = match expected {
            Some(index) => Match {
                class: meant[index].class.unwrap_or(ClassId(9)),
                rule: Some(index as u32),
                deadline: meant[index].deadline,
                refuse: meant[index].refuse,
            },
            None => Match { class: ClassId(9), rule: None, deadline: None, refuse: false },
        };
        with_view(request, |view| {
            assert_eq!(classifier.classify(view, &mut scratch), expected, "{request:?}");
            let direct = meant.iter().position(|rule| rule.matches(view));
            assert_eq!(direct.map(|index| index as u32), expected.rule, "{request:?}");
        });
        matched.push(expected.rule);
    }
    matched
}

proptest! {
    // 2,000 sets of rules with 60 requests each: 120,000 comparisons.
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn compiled_rules_say_what_the_interpreter_says(
        rules in prop::collection::vec(prop::collection::vec(spec(), 0..5), 0..40)
            .prop_map(|mut rules| {
                // A rule without conditions hides all behind it; one in eight sets has one.
                let keep = rules.len() % 8 == 0;
                rules.retain(|rule| keep || !rule.is_empty());
                rules
            }),
        requests in prop::collection::vec(request(), 60),
    ) {
        agree(&rules, &requests);
    }

    #[test]
    fn a_rule_that_is_covered_never_decides(
        first in prop::collection::vec(spec(), 0..3),
        second in prop::collection::vec(spec(), 0..3),
        requests in prop::collection::vec(request(), 10),
    ) {
        let rules = [first, second];
        let meant = classes(&rules);
        if meant[0].covers(&meant[1]) {
            prop_assert!(!agree(&rules, &requests).contains(&Some(1)));
        }
    }
}

/// A seeded generator, so that large sets are the same every time.
fn random(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) as usize) % below
}

/// Many rules over few facts: whole products of conditions, so that much is filed under each.
#[test]
fn large_sets_agree_around_every_word_and_page() {
    for count in [1, 63, 64, 65, 4_095, 4_096, 4_097, 10_000] {
        let mut state = count as u64;
        let pick =
            |state: &mut u64, letters: &[&str]| letters[random(state, letters.len())].to_owned();
        let mut rules = Vec::new();
        for index in 0..count {
            let mut specs =
                vec![Spec::Path(vec![format!("/{}/{}/*", index % 21, random(&mut state, 9))])];
            if random(&mut state, 3) > 0 {
                specs.push(Spec::Host(vec![format!("h{}.com", index % 13)]));
            }
            if random(&mut state, 3) > 0 {
                specs.push(Spec::Header(
                    format!("x-{}", index % 11),
                    vec![pick(&mut state, &["a*", "b", "*c*"])],
                ));
            }
            if random(&mut state, 3) == 0 {
                specs.push(Spec::Method(vec![pick(&mut state, &["GET", "PUT"])]));
            }
            rules.push(specs);
        }
        let requests: Vec<Request> = (0..400)
            .map(|_| Request {
                method: pick(&mut state, &["GET", "PUT", "POST"]),
                host: format!("H{}.com", random(&mut state, 14)),
                path: format!("/{}/{}/x", random(&mut state, 22), random(&mut state, 10)),
                fields: (0..random(&mut state, 30))
                    .map(|_| {
                        (
                            format!("X-{}", random(&mut state, 12)),
                            pick(&mut state, &["a", "ab", "b", "xcx", "d"]),
                        )
                    })
                    .collect(),
                client: "192.0.2.1".parse().unwrap(),
            })
            .collect();
        let matched = agree(&rules, &requests);
        let hits = matched.iter().flatten().count();
        assert!(count < 4_000 || hits > 200, "only {hits} of 400 matched, the test says little");
    }
}

#[test]
fn the_last_rule_of_many_is_found_and_the_first_wins() {
    for count in [63usize, 64, 65, 4_095, 4_096, 4_097] {
        let mut rules: Vec<_> =
            (0..count).map(|index| vec![Spec::Path(vec![format!("/{index}")])]).collect();
        rules.push(vec![Spec::Path(vec!["/0".into()])]);
        let request = |index: usize| Request {
            method: "GET".into(),
            host: "a".into(),
            path: format!("/{index}"),
            fields: Vec::new(),
            client: "192.0.2.1".parse().unwrap(),
        };
        let requests = [request(0), request(count - 1), request(count)];
        let expected = [Some(0), Some(count as u32 - 1), None];
        assert_eq!(agree(&rules, &requests), expected);
    }
}

#[test]
fn a_scratch_serves_several_classifiers() {
    let one = Classifier::compile(&classes(&[vec![Spec::Method(vec!["GET".into()])]]), ClassId(9))
        .unwrap();
    let rules: Vec<_> = (0..500)
        .map(|index| vec![Spec::Path(vec![format!("/{index}")]), Spec::Method(vec!["GET".into()])])
        .collect();
    let many = Classifier::compile(&classes(&rules), ClassId(9)).unwrap();
    let mut scratch = Scratch::default();
    let request = Request {
        method: "GET".into(),
        host: String::new(),
        path: "/499".into(),
        fields: Vec::new(),
        client: "::1".parse().unwrap(),
    };
    for _ in 0..3 {
        with_view(&request, |view| {
            assert_eq!(one.classify(view, &mut scratch).rule, Some(0));
            assert_eq!(many.classify(view, &mut scratch).rule, Some(499));
        });
    }
}

#[test]
fn bounds_are_kept() {
    let always = Rule { conditions: Vec::new(), class: None, deadline: None, refuse: false };
    let most = vec![always.clone(); Classifier::RULES_MAX];
    assert!(Classifier::compile(&most, ClassId(0)).is_ok());
    let fault = |rules: &[Rule]| Classifier::compile(rules, ClassId(0)).unwrap_err();
    assert_eq!(fault(&vec![always.clone(); Classifier::RULES_MAX + 1]), CompileError::TooManyRules);

    let method = Condition::Method(vec!["GET".into()]);
    let with = |conditions| Rule { conditions, ..always.clone() };
    let full = with(vec![method.clone(); Classifier::CONDITIONS_MAX]);
    assert!(Classifier::compile(std::slice::from_ref(&full), ClassId(0)).is_ok());
    let over = with(vec![method; Classifier::CONDITIONS_MAX + 1]);
    assert_eq!(fault(&[full, over]), CompileError::TooManyConditions(1));
    assert_eq!(fault(&[with(vec![Condition::Client(Vec::new())])]), CompileError::NoAlternative(0));
}
