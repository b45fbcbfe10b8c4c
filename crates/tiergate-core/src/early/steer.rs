//! Which listener of a server connections are for, by their client's network: how the kernel steers connections to a server that has a listener for each class.
//!
//! As at the accept of a gateway with lanes ([`crate::demux`]), the class is that of the first rule that is decided by the addresses. A rule before it that asks for more may still give a request
//! another class, but not another listener. Code points of packets are not known where connections are steered, and rules that ask for one are passed over. A connection that no rule decides is of
//! the default class.
//!
//! As in the table of policers, networks are nested or disjoint: what matches at a network are the rules with a network around it, and the first of them decides.
//!
//! Source: Voigt B §3.2 (the listen queue in the order of classes). For the listeners of a server that knows nothing of it: ours.

use super::NETWORKS_MAX;
use super::rules::{self, Found, Index};
use crate::classify::Condition;
use crate::classify::rule::{Output, Rule};
use crate::names::ClassId;
use crate::request::{Part, RequestView};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashSet;
use std::net::IpAddr;

/// Most classes with a listener of their own.
pub const TARGETS_MAX: usize = 32;

/// What of a policy decides where connections go.
#[derive(Clone, Copy, Debug)]
pub struct Steered<'a> {
    /// The rules, first match first.
    pub rules: &'a [Rule],
    /// The class of requests that no rule matches; `None`: a score decides.
    pub default_class: Option<ClassId>,
    /// Peers that say who their clients are: of these only the listener is known.
    pub trusted: &'a [IpNet],
    /// By listener: whether all of its peers are such.
    pub proxied: &'a [bool],
    /// The classes that have a listener of the server's, at most [`TARGETS_MAX`].
    pub targets: &'a [ClassId],
}

/// Where connections go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Networks of clients, each with the target of its connections unless a smaller network is there, too: 0 is the listener of all other classes, and 1 that of the first of [`Steered::targets`].
    /// The networks of all IPv4 and of all IPv6 clients are in each table.
    pub tables: Vec<Vec<(IpNet, u16)>>,
    /// By service: the place of its table.
    pub services: Vec<u16>,
}

impl Steering {
    /// Where connections to these services go: the listener's place in the policy, and the address that they come to. `None`: more than [`NETWORKS_MAX`] networks. O(rules × length of an address), and
    /// so much again for each address where a rule asks for the destination.
    pub fn of(steered: &Steered<'_>, services: &[(u16, IpAddr)]) -> Option<Steering> {
        let mut conditions = steered.rules.iter().flat_map(|rule| &rule.conditions);
        let by_address = conditions.any(|it| *it.part() == Part::Destination);
        let mut known: Vec<(u16, Option<IpAddr>)> = Vec::new();
        let (mut steering, mut networks) = (Steering::default(), 0);
        for (listener, local) in services {
            let key = (*listener, by_address.then_some(*local));
            let place = known.iter().position(|it| *it == key).unwrap_or(known.len());
            if place == known.len() {
                known.push(key);
                let table = steered.table(*listener, *local);
                networks += table.len();
                if networks > NETWORKS_MAX {
                    return None;
                }
                steering.tables.push(table);
            }
            steering.services.push(place as u16);
        }
        Some(steering)
    }

    /// The target of a client's connection to a service; `None`: there is no such service.
    pub fn target(&self, service: usize, client: IpAddr) -> Option<u16> {
        let table = self.tables.get(usize::from(*self.services.get(service)?))?;
        let around = table.iter().filter(|(network, _)| network.contains(&client));
        around.max_by_key(|(network, _)| network.prefix_len()).map(|(_, target)| *target)
    }
}

impl Steered<'_> {
    fn table(&self, listener: u16, local: IpAddr) -> Vec<(IpNet, u16)> {
        let by_addresses: Vec<Rule> =
            self.rules.iter().filter_map(|rule| by_addresses(rule, local)).collect();
        let index = Index::of(&by_addresses, listener);
        let is_proxied = self.proxied.get(usize::from(listener)).copied().unwrap_or(false);
        let trusted: HashSet<IpNet> = self.trusted.iter().map(IpNet::trunc).collect();
        let of_listener = self.target(self.class_of_listener(listener));
        let mut networks: Vec<IpNet> = vec![Ipv4Net::default().into(), Ipv6Net::default().into()];
        if !is_proxied {
            networks.extend(index.networks().chain(trusted.iter().copied()));
        }
        networks.sort_unstable();
        networks.dedup();
        let target = |network: IpNet| {
            if is_proxied || rules::around(network).any(|it| trusted.contains(&it)) {
                return of_listener;
            }
            match index.verdict(network) {
                Found::Rule(rule) => self.target(rule.class),
                Found::None | Found::Perhaps => self.target(None),
            }
        };
        networks.into_iter().map(|network| (network, target(network))).collect()
    }

    /// The target of a class; `None`: of the default one.
    fn target(&self, class: Option<ClassId>) -> u16 {
        let class = class.or(self.default_class);
        let place = class.and_then(|class| self.targets.iter().position(|it| *it == class));
        place.map_or(0, |place| place as u16 + 1)
    }

    /// The class of connections of which nothing but the listener is known.
    fn class_of_listener(&self, listener: u16) -> Option<ClassId> {
        let view = RequestView { listener, ..RequestView::EMPTY };
        let decides = |rule: &&Rule| {
            let holds = |it: &Condition| {
                it.is_always_true() || *it.part() == Part::Listener && it.holds(&view)
            };
            rule.sets(Output::Verdict) && rule.conditions.iter().all(holds)
        };
        self.rules.iter().find(decides).and_then(|rule| rule.class)
    }
}

/// The rule for connections to an address, with what is left to decide by listener and client; `None`: it gives no class, holds for none of them, or asks for more.
fn by_addresses(rule: &Rule, local: IpAddr) -> Option<Rule> {
    let view = RequestView { local, ..RequestView::EMPTY };
    let mut conditions = Vec::new();
    for condition in &rule.conditions {
        match condition.part() {
            Part::Client | Part::Listener => conditions.push(condition.clone()),
            Part::Destination if condition.holds(&view) => {}
            _ if condition.is_always_true() => {}
            _ => return None,
        }
    }
    let Rule { class, deadline, refuse, .. } = *rule;
    rule.sets(Output::Verdict).then(|| Rule {
        conditions,
        class,
        deadline,
        refuse,
        ..Rule::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::pattern::Pattern;
    use crate::classify::{Classifier, Known, Matcher, Scratch, Span};
    use proptest::prelude::*;

    const OTHERS: ClassId = ClassId(9);

    fn network(part: Part, text: &str) -> Condition {
        Condition::new(part, [Matcher::Network(text.parse().expect("a network"))])
    }

    fn client(text: &str) -> Condition {
        network(Part::Client, text)
    }

    fn path() -> Condition {
        Condition::new(Part::Path, [Matcher::Pattern(Pattern::path("/cart").expect("a pattern"))])
    }

    fn listener(number: u64) -> Condition {
        Condition::new(Part::Listener, [Matcher::Range(Span::one(number))])
    }

    fn rule(class: u16, conditions: Vec<Condition>) -> Rule {
        Rule { conditions, class: Some(ClassId(class)), ..Rule::default() }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_first_rule_that_the_addresses_decide_gives_the_listener() {
        let refusing =
            Rule { conditions: vec![client("10.4.0.0/16")], refuse: true, ..Rule::default() };
        let rules = [
            rule(1, vec![client("10.1.0.0/16"), path()]),
            rule(2, vec![network(Part::Destination, "192.0.2.2/32")]),
            rule(1, vec![client("10.1.2.0/24")]),
            rule(3, vec![client("10.0.0.0/8")]),
            refusing,
            rule(1, vec![client("2001:db8::/32"), listener(1)]),
        ];
        let trusted = ["10.9.0.0/16".parse().expect("a network")];
        let steered = Steered {
            rules: &rules,
            default_class: Some(OTHERS),
            trusted: &trusted,
            proxied: &[false, false],
            targets: &[ClassId(1), ClassId(2)],
        };
        let services = [(0, address("192.0.2.1")), (0, address("192.0.2.2")), (1, address("::1"))];
        let steering = Steering::of(&steered, &services).expect("few");
        let of = |service, client| steering.target(service, address(client)).expect("a table");
        assert_eq!(of(0, "10.1.9.9"), 0, "the path is not known, and class 3 has no listener");
        assert_eq!(of(0, "10.1.2.9"), 1);
        assert_eq!([of(1, "10.1.2.9"), of(1, "2001:db8::1")], [2, 2], "by its destination");
        assert_eq!([of(0, "2001:db8::1"), of(2, "2001:db8::1"), of(2, "2001:db9::1")], [0, 1, 0]);
        assert_eq!(of(1, "10.9.0.1"), 0, "a proxy");
        assert_eq!(steering.tables.len(), 3);
        // Where others are of a class with a listener, those of whom nothing is known go there.
        let steered = Steered { default_class: Some(ClassId(2)), ..steered };
        let steering = Steering::of(&steered, &services).expect("few");
        assert_eq!(steering.target(0, address("198.51.100.1")), Some(2));
        assert_eq!(steering.target(0, address("10.4.0.1")), Some(0), "class 3 is before it");
        assert_eq!(steering.target(3, address("10.4.0.1")), None);
    }

    #[test]
    fn services_share_a_table_and_too_many_networks_are_none() {
        let of = |number: u32| {
            let [a, b, c, _] = (number << 8).to_be_bytes();
            rule(1, vec![client(&format!("{a}.{b}.{c}.0/24"))])
        };
        let rules: Vec<Rule> = (0..50_000).map(of).collect();
        let steered = |proxied: &'static [bool]| Steered {
            rules: &rules,
            default_class: Some(OTHERS),
            trusted: &[],
            proxied,
            targets: &[ClassId(1)],
        };
        let services = [(0, address("192.0.2.1")), (0, address("::1")), (1, address("::1"))];
        let steering = Steering::of(&steered(&[false]), &services[..2]).expect("one table");
        assert_eq!((steering.tables.len(), &*steering.services), (1, &[0, 0][..]));
        assert_eq!(Steering::of(&steered(&[false, false]), &services), None);
        let steering = Steering::of(&steered(&[false, true]), &services).expect("few");
        assert_eq!(steering.tables[1].len(), 2, "proxies");
    }

    fn any_network() -> impl Strategy<Value = String> {
        let v4 = (0_u32..4, 0_u32..4, 6_u8..=12)
            .prop_map(|(a, b, len)| format!("{}.{}.0.0/{len}", a * 64, b * 16));
        let v6 = (0_u32..3, 28_u8..40).prop_map(|(a, len)| format!("2001:d{a}00::/{len}"));
        prop_oneof![4 => v4, 1 => v6]
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let dscp = Condition::new(Part::Dscp, [Matcher::Range(Span::one(46))]);
        let conditions = prop_oneof![
            4 => any_network().prop_map(|it| vec![client(&it)]),
            1 => (any_network(), any_network()).prop_map(|(one, other)| vec![client(&one), client(&other)]),
            1 => any_network().prop_map(|it| vec![client(&it), path()]),
            1 => (any_network(), 0_u64..2).prop_map(|(it, number)| vec![client(&it), listener(number)]),
            1 => (0_u64..2).prop_map(|it| vec![listener(it)]),
            1 => (0_u8..2).prop_map(|it| vec![network(Part::Destination, &format!("192.0.2.{it}/32"))]),
            1 => Just(vec![dscp]),
        ];
        (conditions, prop::option::of(0_u16..3), any::<bool>()).prop_map(
            |(conditions, class, refuse)| Rule {
                conditions,
                class: class.map(ClassId),
                refuse,
                ..Rule::default()
            },
        )
    }

    proptest! {
        /// Where connections go is what the classifier says of them when they are accepted, and where it says nothing, the default.
        #[test]
        fn connections_go_where_the_class_at_the_accept_is(
            rules in prop::collection::vec(any_rule(), 1..12),
            trusted in prop::collection::vec(any_network(), 0..2),
            clients in prop::collection::vec((any_network(), any::<u16>()), 1..20),
            is_proxied in any::<bool>(),
        ) {
            let trusted: Vec<IpNet> = trusted.iter().map(|it| it.parse().expect("a network")).collect();
            let targets = [ClassId(0), ClassId(2), OTHERS];
            let proxied = [false, is_proxied];
            let steered = Steered { rules: &rules, default_class: Some(OTHERS), trusted: &trusted, proxied: &proxied, targets: &targets };
            let services: Vec<(u16, IpAddr)> = (0..2).flat_map(|it| [(it, address("192.0.2.0")), (it, address("192.0.2.1"))]).collect();
            let steering = Steering::of(&steered, &services).expect("few");
            let classifier = Classifier::compile(&rules, OTHERS).expect("rules");
            let mut scratch = Scratch::default();
            for (network, host) in clients {
                let network: IpNet = network.parse().expect("a network");
                let client = match network.addr() {
                    IpAddr::V4(it) => IpAddr::from((it.to_bits() | u32::from(host) << 6).to_be_bytes()),
                    IpAddr::V6(it) => IpAddr::from((it.to_bits() | u128::from(host) << 80).to_be_bytes()),
                };
                for (place, (listener, local)) in services.iter().enumerate() {
                    let (listener, local) = (*listener, *local);
                    let is_a_proxy = proxied[usize::from(listener)] || trusted.iter().any(|it| it.contains(&client));
                    let dscp = RequestView::DSCP_UNKNOWN;
                    let class = match is_a_proxy {
                        true => classifier.class_at_accept(&RequestView { listener, dscp, ..RequestView::EMPTY }, Known::Listener, &mut scratch),
                        false => classifier.class_at_accept(&RequestView { client, listener, local, dscp, ..RequestView::EMPTY }, Known::Addresses, &mut scratch),
                    };
                    let class = class.unwrap_or(OTHERS);
                    let wanted = targets.iter().position(|it| *it == class).map_or(0, |it| it as u16 + 1);
                    prop_assert_eq!(steering.target(place, client), Some(wanted));
                }
            }
        }
    }
}
