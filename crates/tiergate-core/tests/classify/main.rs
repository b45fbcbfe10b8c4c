//! The compiled classifier against an interpreter that shares no code with it.

mod naive;
mod random;

use naive::{Request, Spec, compiled, holds, with_view};
use proptest::prelude::*;
use random::{request, spec};
use std::time::Duration;
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::class::ClassId;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::score::{Points, Score};
use tiergate_core::classify::{Classifier, Condition, Match, Matcher, Output, Scratch};
use tiergate_core::names::{AdaptationId, PoolId, ResourceId, Route};
use tiergate_core::request::Part;

const DEFAULT: ClassId = ClassId(9);

/// Rules that set outputs by their place: a third only a class, the others any mixture, also nothing.
fn meant(rules: &[Vec<Spec>]) -> Vec<Rule> {
    let rule = |(index, specs): (usize, &Vec<Spec>)| {
        let sets = |output: u32| match index % 3 {
            0 => output == 0,
            // Well mixed, so that each output is set by one rule in four.
            _ => (index as u32 + 1).wrapping_mul(0x9e37_79b9).rotate_left(output * 5) & 3 == 0,
        };
        let number = index as u16;
        Rule {
            conditions: specs.iter().map(compiled).collect(),
            class: sets(0).then_some(ClassId(number % 7)),
            deadline: sets(1).then_some(Duration::from_millis(index as u64)),
            refuse: sets(2),
            policer: sets(3).then_some(PolicerId(number)),
            pool: sets(11).then_some(Route::Pool(PoolId(number))),
            resource: sets(6).then_some(ResourceId(number)),
            adaptation: sets(12).then_some(AdaptationId(number as u8)),
            stored: sets(13).then_some(Duration::from_secs(index as u64)),
            importance: sets(4).then_some(number as u8),
            score: sets(7).then(|| Score::of(Points::from_thousandths(index as u32).unwrap())),
            flow: sets(8).then_some(Flow::Client { v4: (number % 33) as u8, v6: 0 }),
            slots: sets(9).then_some(number),
            deadline_header: sets(10).then(|| format!("x-{index}").into()),
        }
    };
    rules.iter().enumerate().map(rule).collect()
}

/// What the rules say of a request, each output from the first rule that matches and sets it.
fn expected(rules: &[Vec<Spec>], meant: &[Rule], request: &Request) -> Match {
    let matching: Vec<usize> = (0..rules.len())
        .filter(|rule| rules[*rule].iter().all(|spec| holds(spec, request)))
        .collect();
    fn first<'r, T>(
        matching: &[usize],
        meant: &'r [Rule],
        of: impl Fn(&'r Rule) -> Option<T>,
    ) -> Option<T> {
        matching.iter().find_map(|rule| of(&meant[*rule]))
    }
    let verdict = matching.iter().find(|rule| {
        let rule = &meant[**rule];
        rule.class.is_some() || rule.deadline.is_some() || rule.refuse
    });
    let said = verdict.map(|rule| &meant[*rule]);
    let flow = first(&matching, meant, |rule| rule.flow.clone()).unwrap_or(Flow::CLIENT);
    Match {
        class: said.and_then(|rule| rule.class).unwrap_or(DEFAULT),
        rule: verdict.map(|rule| *rule as u32),
        deadline: said.and_then(|rule| rule.deadline),
        refuse: said.is_some_and(|rule| rule.refuse),
        policer: first(&matching, meant, |rule| rule.policer),
        pool: first(&matching, meant, |rule| rule.pool),
        resource: first(&matching, meant, |rule| rule.resource),
        adaptation: first(&matching, meant, |rule| rule.adaptation),
        stored: first(&matching, meant, |rule| rule.stored),
        importance: first(&matching, meant, |rule| rule.importance),
        score: first(&matching, meant, |rule| rule.score).unwrap_or_default(),
        flow: with_view(request, |view| flow.of(view, Default::default())),
        slots: first(&matching, meant, |rule| rule.slots),
        deadline_header: matching
            .iter()
            .find(|rule| meant[**rule].deadline_header.is_some())
            .map(|rule| *rule as u32),
    }
}

/// Checks one set of rules on many requests against the interpreter; says which rule matched each.
fn agree(rules: &[Vec<Spec>], requests: &[Request]) -> Vec<Match> {
    agree_as(rules, &meant(rules), requests)
}

fn agree_as(rules: &[Vec<Spec>], meant: &[Rule], requests: &[Request]) -> Vec<Match> {
    let classifier = Classifier::compile(meant, DEFAULT).unwrap();
    let mut scratch = Scratch::default();
    let mut found = Vec::new();
    for request in requests {
        let expected = expected(rules, meant, request);
        with_view(request, |view| {
            assert_eq!(classifier.classify(view, &mut scratch), expected, "{request:?}");
            for (rule, specs) in meant.iter().zip(rules) {
                let holds = specs.iter().all(|spec| holds(spec, request));
                assert_eq!(rule.matches(view), holds, "{specs:?} on {request:?}");
            }
        });
        found.push(expected);
    }
    found
}

/// Rules that each give a class of its own, as all policies did once.
fn only_classes(rules: &[Vec<Spec>]) -> Vec<Rule> {
    let rule = |(index, specs): (usize, &Vec<Spec>)| Rule {
        conditions: specs.iter().map(compiled).collect(),
        class: Some(ClassId(index as u16)),
        ..Rule::default()
    };
    rules.iter().enumerate().map(rule).collect()
}

#[expect(clippy::disallowed_methods, reason = "how long a test runs is no decision of the core")]
fn cases(default: u32) -> u32 {
    let given = std::env::var("PROPTEST_CASES").ok();
    given.and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

proptest! {
    // 400 sets of rules with 60 requests each, twice; by PROPTEST_CASES any number.
    #![proptest_config(ProptestConfig::with_cases(cases(400)))]

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
        agree_as(&rules, &only_classes(&rules), &requests);
    }

    #[test]
    fn a_rule_that_is_covered_never_decides(
        first in prop::collection::vec(spec(), 0..3),
        second in prop::collection::vec(spec(), 0..3),
        requests in prop::collection::vec(request(), 10),
    ) {
        let rules = [first, second];
        let meant = only_classes(&rules);
        if meant[0].covers(&meant[1]) {
            let found = agree_as(&rules, &meant, &requests);
            prop_assert!(!found.iter().any(|found| found.rule == Some(1)));
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
                ..Request::get("")
            })
            .collect();
        agree(&rules, &requests);
        let matched = agree_as(&rules, &only_classes(&rules), &requests);
        let hits = matched.iter().filter(|found| found.rule.is_some()).count();
        assert!(count < 4_000 || hits > 200, "only {hits} of 400 matched, the test says little");
    }
}

#[test]
fn the_last_rule_of_many_is_found_and_the_first_wins() {
    for count in [63usize, 64, 65, 4_095, 4_096, 4_097] {
        let mut rules: Vec<_> =
            (0..count).map(|index| vec![Spec::Path(vec![format!("/{index}")])]).collect();
        rules.push(vec![Spec::Path(vec!["/0".into()])]);
        let request = |index: usize| Request::get(&format!("/{index}"));
        let requests = [request(0), request(count - 1), request(count)];
        let expected = [Some(0), Some(count as u32 - 1), None];
        let found = agree_as(&rules, &only_classes(&rules), &requests);
        assert_eq!(found.iter().map(|found| found.rule).collect::<Vec<_>>(), expected);
        agree(&rules, &requests);
    }
}

#[test]
fn a_scratch_serves_several_classifiers() {
    let one =
        Classifier::compile(&only_classes(&[vec![Spec::Method(vec!["GET".into()])]]), DEFAULT)
            .unwrap();
    let rules: Vec<_> = (0..500)
        .map(|index| vec![Spec::Path(vec![format!("/{index}")]), Spec::Method(vec!["GET".into()])])
        .collect();
    let many = Classifier::compile(&only_classes(&rules), DEFAULT).unwrap();
    let mut scratch = Scratch::default();
    let request = Request::get("/499");
    for _ in 0..3 {
        with_view(&request, |view| {
            assert_eq!(one.classify(view, &mut scratch).rule, Some(0));
            assert_eq!(many.classify(view, &mut scratch).rule, Some(499));
        });
    }
}

#[test]
fn bounds_are_kept() {
    let always = Rule::default();
    let most = vec![always.clone(); Classifier::RULES_MAX];
    assert!(Classifier::compile(&most, ClassId(0)).is_ok());
    let fault = |rules: &[Rule]| Classifier::compile(rules, ClassId(0)).unwrap_err();
    let (first_too_many, message) = fault(&vec![always.clone(); Classifier::RULES_MAX + 1]);
    assert_eq!(first_too_many, Classifier::RULES_MAX);
    assert_eq!(message.to_string(), "there may be at most 100000 rules");

    let method = Condition::new(Part::Method, [Matcher::Exact("GET".into())]);
    let with = |conditions| Rule { conditions, ..always.clone() };
    let full = with(vec![method.clone(); Classifier::CONDITIONS_MAX]);
    assert!(Classifier::compile(std::slice::from_ref(&full), ClassId(0)).is_ok());
    let over = with(vec![method; Classifier::CONDITIONS_MAX + 1]);
    let (index, message) = fault(&[full, over]);
    assert_eq!((index, &*message.to_string()), (1, "may have at most 32 conditions"));
    let never = Condition::new(Part::Client, Vec::<Matcher>::new());
    let (index, message) = fault(&[always.clone(), with(vec![never])]);
    assert_eq!(index, 1);
    assert!(message.to_string().starts_with("has an empty list"), "{message}");
}

#[test]
fn each_output_comes_from_its_own_first_rule() {
    let path = |text: &str| vec![Spec::Path(vec![text.into()])];
    let rules = [path("/a/*"), path("/a/b"), Vec::new(), path("/a/b"), Vec::new()];
    let conditions = |index: usize| rules[index].iter().map(compiled).collect();
    let rule = |index| Rule { conditions: conditions(index), ..Rule::default() };
    let four = Score::of(Points::from_thousandths(4).unwrap());
    let meant = [
        Rule { importance: Some(1), ..rule(0) },
        Rule { importance: Some(2), slots: Some(2), ..rule(1) },
        Rule { class: Some(ClassId(3)), policer: Some(PolicerId(3)), ..rule(2) },
        Rule { class: Some(ClassId(4)), score: Some(four), ..rule(3) },
        Rule { policer: Some(PolicerId(5)), importance: Some(5), ..rule(4) },
    ];
    let request = Request::get;
    let found = agree_as(&rules, &meant, &[request("/a/b"), request("/a/c"), request("/")]);
    let said = |found: &Match| {
        let policer = found.policer.map(|policer| policer.0);
        (found.rule, policer, found.importance, found.slots, found.score)
    };
    assert_eq!(said(&found[0]), (Some(2), Some(3), Some(1), Some(2), four));
    assert_eq!(said(&found[1]), (Some(2), Some(3), Some(1), None, Score::ZERO));
    assert_eq!(said(&found[2]), (Some(2), Some(3), Some(5), None, Score::ZERO));
    assert_eq!(meant[1].outputs().collect::<Vec<_>>(), [Output::Importance, Output::Slots]);
}
