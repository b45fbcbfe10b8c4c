use super::*;
use crate::admit::bucket::Rate;
use crate::admit::policer::{Per, Settings, Share};
use crate::class::Class;
use crate::classify::pattern::Pattern;
use crate::classify::{Classifier, Condition, Matcher, Scratch, Span};
use crate::names::Names;
use crate::plan::Spec;
use crate::request::{Part, RequestView};
use proptest::prelude::*;
use std::net::IpAddr;

fn policer(name: &str, shares: &[u16]) -> Settings {
    let share = |class: &u16| Share { class: ClassId(*class), parts: 3000, burst: 2 };
    Settings {
        name: name.into(),
        key: None,
        rate: Rate::per_second(10),
        burst: 5,
        per: Per::Rule,
        shares: shares.iter().map(share).collect(),
        inbound: None,
        announce: false,
    }
}

fn plan(policers: Vec<Settings>, site: Option<u16>, by_class: &[Option<u16>]) -> Plan {
    let class = |(number, policer): (usize, &Option<u16>)| Class {
        policer: policer.map(PolicerId),
        ..Class::named(format!("c{number}"))
    };
    let spec = Spec {
        classes: by_class.iter().enumerate().map(class).collect(),
        policers,
        site_policer: site.map(PolicerId),
        ..Spec::protective()
    };
    Plan::build(spec, &mut Names::default()).expect("a plan")
}

fn network(text: &str) -> Condition {
    Condition::new(Part::Client, [Matcher::Network(text.parse().expect("a network"))])
}

fn path() -> Condition {
    Condition::new(Part::Path, [Matcher::Pattern(Pattern::path("/cart").expect("a pattern"))])
}

fn listener(number: u64) -> Condition {
    Condition::new(Part::Listener, [Matcher::Range(Span::one(number))])
}

fn police(policer: u16, conditions: Vec<Condition>) -> Rule {
    Rule { conditions, policer: Some(PolicerId(policer)), ..Rule::default() }
}

fn class(class: u16, conditions: Vec<Condition>) -> Rule {
    Rule { conditions, class: Some(ClassId(class)), ..Rule::default() }
}

fn refuse(conditions: Vec<Condition>) -> Rule {
    Rule { conditions, refuse: true, ..Rule::default() }
}

fn early(rules: &[Rule], plan: &Plan, trusted: &[&str], proxied: &[bool]) -> Early {
    let trusted: Vec<IpNet> = trusted.iter().map(|it| it.parse().expect("a network")).collect();
    let default_class = Some(plan.class_ids()[plan.classes.len() - 1]);
    Early::of(&Policing { rules, plan, default_class, trusted: &trusted, proxied })
}

fn bucket(early: &Early, listener: u16, client: &str) -> Option<u16> {
    let entry = early.entry(listener, client.parse().expect("an address"))?;
    entry.bucket.map(|place| early.policers[usize::from(place)].0)
}

#[test]
fn the_first_rule_decides_and_one_that_asks_for_more_stops_it() {
    let plan = plan(vec![policer("a", &[]), policer("b", &[]), policer("c", &[])], None, &[None]);
    let rules = [
        police(0, vec![network("10.1.0.0/16"), path()]),
        police(1, vec![network("10.0.0.0/8")]),
        police(2, vec![network("10.2.0.0/16")]),
        police(2, vec![network("2001:db8::/32"), listener(0)]),
    ];
    let early = early(&rules, &plan, &["10.9.0.0/16"], &[false, false]);
    let of = |listener, client| bucket(&early, listener, client);
    assert_eq!(of(0, "10.1.2.3"), None, "the cart has another policer");
    assert_eq!((of(0, "10.2.2.3"), of(0, "10.3.2.3")), (Some(1), Some(1)));
    assert_eq!(of(0, "10.9.2.3"), None, "a proxy");
    let is_trusted = |client: &str| {
        early.entry(0, client.parse().expect("an address")).is_some_and(|it| it.is_trusted)
    };
    assert_eq!(["10.9.2.3", "10.3.2.3"].map(is_trusted), [true, false], "never blocked");
    assert_eq!(of(0, "192.0.2.1"), None);
    assert_eq!((of(0, "2001:db8::1"), of(1, "2001:db8::1")), (Some(2), None));
    let stages = [
        Some(Stage::Late(Late::AsksFor("the request"))),
        Some(Stage::Early),
        // By the fourth rule its policer is early; of the third alone nothing would be.
        Some(Stage::Early),
        Some(Stage::Early),
    ];
    assert_eq!(early.rules, stages);
}

#[test]
fn partitions_need_a_class_that_the_address_gives() {
    let policers = vec![policer("a", &[1, 2])];
    let plan = plan(policers, Some(0), &[None, None, None]);
    let rules = [class(1, vec![network("10.0.0.0/8")]), class(2, vec![path()])];
    let with = early(&rules, &plan, &[], &[false]);
    let entry = |early: &Early, client: &str| early.entry(0, client.parse().expect("one"));
    let found = entry(&with, "10.0.0.1").expect("an entry");
    assert_eq!((found.bucket, found.partition, found.may_be_spared), (Some(0), Some(0), false));
    let found = entry(&with, "11.0.0.1").expect("an entry");
    assert_eq!((found.bucket, found.may_be_spared), (None, true), "the path gives its class");
    assert_eq!(with.others, [(PolicerId(0), Stage::Early)]);
    let rules = [class(2, vec![path()])];
    let without = early(&rules, &plan, &[], &[false]);
    assert_eq!(without.others, [(PolicerId(0), Stage::Late(Late::ClassUnknown))]);
    assert!(without.policers.is_empty());
}

#[test]
fn rule_then_class_then_site() {
    let policers = vec![policer("a", &[]), policer("b", &[]), policer("c", &[])];
    let plan = plan(policers, Some(2), &[None, Some(1)]);
    let rules = [
        police(0, vec![network("10.0.0.0/8")]),
        class(0, vec![network("11.0.0.0/8")]),
        class(0, vec![network("12.0.0.0/8"), path()]),
    ];
    let early = early(&rules, &plan, &[], &[false, true]);
    let of = |client| bucket(&early, 0, client);
    assert_eq!([of("10.0.0.1"), of("11.0.0.1"), of("12.0.0.1")], [Some(0), Some(2), Some(2)]);
    assert_eq!(of("13.0.0.1"), Some(1));
    assert!(early.listeners[1].is_empty(), "proxies say who its clients are");
}

#[test]
fn networks_that_a_rule_refuses_do_not_draw_on_what_others_need() {
    let fast = Settings { rate: Rate::per_second(30), ..policer("fast", &[0]) };
    let policers = vec![policer("a", &[]), fast, policer("c", &[])];
    let plan = plan(policers, Some(2), &[Some(1), None]);
    let rules = [
        police(0, vec![network("10.0.0.0/8")]),
        class(1, vec![network("11.1.0.0/16")]),
        refuse(vec![network("10.2.0.0/16")]),
        refuse(vec![network("11.0.0.0/8")]),
        Rule { class: Some(ClassId(0)), ..refuse(vec![network("12.0.0.0/8")]) },
        refuse(vec![network("13.0.0.0/8"), path()]),
        refuse(vec![listener(1)]),
    ];
    let early = early(&rules, &plan, &[], &[false, false]);
    let of = |client| bucket(&early, 0, client);
    let refused = Some(REFUSED.0);
    assert_eq!([of("10.1.0.1"), of("10.2.0.1")], [Some(0), refused]);
    assert_eq!([of("11.1.0.1"), of("11.0.0.1")], [Some(2), refused]);
    let entry = early.entry(0, "12.0.0.1".parse().expect("an address")).expect("one");
    let place = early.bucket(REFUSED);
    assert_eq!((entry.bucket, entry.partition, place.is_some()), (place, None, true));
    assert_eq!(of("13.0.0.1"), Some(2), "what else they ask for is served");
    assert_eq!(bucket(&early, 1, "14.0.0.1"), Some(2), "a listener that sends all elsewhere");
    assert_eq!(early.settings_of(REFUSED), PolicerId(1), "the fastest of the three");
    let fast = plan.policer(PolicerId(1)).expect("it is there");
    let undivided = Wanted::of(fast, fast.rate).expect("a bucket").undivided();
    let whole = Settings { shares: Vec::new(), ..fast.clone() };
    assert_eq!(Ok(undivided), Wanted::of(&whole, whole.rate));
}

#[test]
fn refused_networks_without_a_policer_pass() {
    let plan = plan(vec![policer("a", &[])], None, &[None]);
    let rules = [refuse(vec![network("10.0.0.0/8")]), police(0, vec![network("11.0.0.0/8")])];
    let early = early(&rules, &plan, &[], &[false]);
    assert_eq!((bucket(&early, 0, "10.0.0.1"), early.bucket(REFUSED)), (None, None));
}

#[test]
fn flows_and_too_much_stay_with_the_gateway() {
    let flows = Settings { per: Per::Flow { flows_max: 9 }, ..policer("a", &[]) };
    let with_flows = plan(vec![flows, policer("b", &[])], None, &[None]);
    let of = |number: u32| {
        let [a, b, c, _] = (number << 8).to_be_bytes();
        police(1, vec![network(&format!("{a}.{b}.{c}.0/24"))])
    };
    let mut rules = vec![police(0, vec![])];
    let found = early(&rules, &with_flows, &[], &[false]);
    assert_eq!(found.rules, [Some(Stage::Late(Late::NoBucket(NoBucket::Flows)))]);
    rules = (0..50_000).map(of).collect();
    let found = early(&rules, &with_flows, &[], &[false]);
    assert_eq!(found.networks(), 50_002);
    assert_eq!(bucket(&found, 0, "0.7.9.1"), Some(1));
    let found = early(&rules, &with_flows, &[], &[false, false]);
    assert_eq!((found.networks(), found.policers.len()), (0, 0), "all or nothing");
    assert_eq!(found.rules[7], Some(Stage::Late(Late::TooMany)));
}

fn any_network() -> impl Strategy<Value = String> {
    let v4 = (0_u32..4, 0_u32..4, 6_u8..=8)
        .prop_map(|(a, b, len)| format!("{}.{b}.0.0/{}", a * 64, len + 4 * u8::from(a == 1)));
    let v6 = (0_u32..3, 28_u8..40).prop_map(|(a, len)| format!("2001:d{a}00::/{len}"));
    prop_oneof![4 => v4, 1 => v6]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let conditions = prop_oneof![
        3 => any_network().prop_map(|it| vec![network(&it)]),
        1 => (any_network(), any_network()).prop_map(|(one, other)| vec![network(&one), network(&other)]),
        1 => any_network().prop_map(|it| vec![network(&it), path()]),
        1 => Just(vec![path()]),
        1 => (0_u64..2).prop_map(|it| vec![listener(it)]),
    ];
    let class = prop::option::of(0_u16..3);
    (conditions, prop::option::of(0_u16..3), class, prop::bool::weighted(0.2)).prop_map(
        |(conditions, policer, class, refuse)| Rule {
            conditions,
            policer: policer.map(PolicerId).filter(|_| !refuse),
            class: class.map(ClassId),
            refuse,
            ..Rule::default()
        },
    )
}

proptest! {
    /// Whatever request a policed connection brings, the classifier gives it that policer, and the class whose partition it draws on.
    #[test]
    fn all_requests_of_a_policed_connection_have_its_policer(
        rules in prop::collection::vec(any_rule(), 1..12),
        clients in prop::collection::vec((any_network(), any::<u16>()), 1..20),
        of_class in prop::option::of(0_u16..3),
        site in prop::option::of(0_u16..3),
    ) {
        let policers = vec![policer("a", &[0, 2]), policer("b", &[]), policer("c", &[])];
        let plan = plan(policers, site, &[of_class, None, None]);
        let early = early(&rules, &plan, &[], &[false, false]);
        let classifier = Classifier::compile(&rules, ClassId(2)).expect("rules");
        let mut scratch = Scratch::default();
        for (network, host) in clients {
            let network: IpNet = network.parse().expect("a network");
            let client = match network.addr() {
                IpAddr::V4(it) => IpAddr::from((it.to_bits() | u32::from(host) << 6).to_be_bytes()),
                IpAddr::V6(it) => IpAddr::from((it.to_bits() | u128::from(host) << 80).to_be_bytes()),
            };
            for listener in 0..2 {
                let Some(entry) = early.entry(listener, client) else { continue };
                for at in [&b"/cart"[..], b"/"] {
                    let view = RequestView { client, listener, path: at, ..RequestView::EMPTY };
                    let found = classifier.classify(&view, &mut scratch);
                    let class = plan.class(found.class).expect("in the plan");
                    let under = [found.policer, class.policer, plan.site_policer];
                    let Some(bucket) = entry.bucket else {
                        // None that could go early is left out.
                        let is_known = rules.iter().all(|it| !it.conditions.contains(&path()));
                        prop_assert!(!is_known || under == [None; 3], "{under:?}");
                        continue;
                    };
                    let id = early.policers[usize::from(bucket)];
                    if id == REFUSED {
                        prop_assert!(found.refuse && under != [None; 3], "{found:?}");
                        prop_assert_eq!(entry.partition, None);
                        continue;
                    }
                    prop_assert!(under.contains(&Some(id)), "{under:?}");
                    let shares = &plan.policer(id).expect("in the plan").shares;
                    let own = shares.iter().position(|share| share.class == found.class);
                    prop_assert_eq!(entry.partition.map(usize::from), own);
                }
            }
        }
    }
}
