//! A listener's rules by the networks of their clients, and the first that matches all connections from one.

use super::bucket::NoBucket;
use crate::classify::Matcher;
use crate::classify::rule::{Output, Rule};
use crate::request::{Part, RequestView};
use ipnet::IpNet;
use std::collections::HashMap;

/// Why a policer stays with the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// The rule asks for this.
    AsksFor(&'static str),
    /// A rule before it may be the one for every client of it.
    Behind,
    /// The class is not known, and is what gives the policer or its part of it.
    ClassUnknown,
    /// Clients come by proxies only, or to ports that other processes share.
    Proxied,
    /// The policy has too much of it.
    TooMany,
    /// The kernel cannot keep such a bucket.
    NoBucket(NoBucket),
}

/// The first rule with an output for all connections from a network.
pub(super) enum Found<'a> {
    /// It is this one, for every request of theirs.
    Rule(&'a Rule),
    /// There is none.
    None,
    /// It depends on the request.
    Perhaps,
}

/// The rules of a listener.
pub(super) struct Index<'a> {
    rules: &'a [Rule],
    /// Those that ask for a network of the client, by it: by each of their first condition on it.
    by_network: HashMap<IpNet, Vec<u32>>,
    /// Those that ask for none.
    others: Vec<u32>,
}

impl<'a> Index<'a> {
    /// Those that give a class or a policer to requests of the listener. O(rules).
    pub(super) fn of(rules: &'a [Rule], listener: u16) -> Self {
        let mut index = Index { rules, by_network: HashMap::new(), others: Vec::new() };
        let view = RequestView { listener, ..RequestView::EMPTY };
        for (number, rule) in rules.iter().enumerate() {
            let is_wanted = rule.sets(Output::Verdict) || rule.sets(Output::Policer);
            let of_listener = rule.conditions.iter().filter(|it| *it.part() == Part::Listener);
            if !is_wanted || !of_listener.into_iter().all(|condition| condition.holds(&view)) {
                continue;
            }
            let number = number as u32;
            let mut of_client = rule.conditions.iter().filter(|it| *it.part() == Part::Client);
            let Some(first) = of_client.next() else {
                index.others.push(number);
                continue;
            };
            for network in first.any_of().iter().filter_map(network) {
                let numbers = index.by_network.entry(network).or_default();
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            }
            // Where its further networks begin, what is said of clients changes, too.
            for network in of_client.flat_map(|it| it.any_of()).filter_map(network) {
                index.by_network.entry(network).or_default();
            }
        }
        index
    }

    /// All networks that a rule names.
    pub(super) fn networks(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.by_network.keys().copied()
    }

    /// What gives the class.
    pub(super) fn verdict(&self, network: IpNet) -> Found<'a> {
        self.first(network, Output::Verdict)
    }

    /// What gives the policer.
    pub(super) fn policer(&self, network: IpNet) -> Found<'a> {
        self.first(network, Output::Policer)
    }

    fn first(&self, network: IpNet, output: Output) -> Found<'a> {
        let lists = around(network).filter_map(|it| self.by_network.get(&it));
        let first = lists.chain([&self.others]).filter_map(|numbers| {
            let rule = |number: &&u32| &self.rules[**number as usize];
            numbers.iter().find(|it| rule(it).sets(output) && takes(rule(it), network))
        });
        match first.min() {
            None => Found::None,
            Some(number) => match &self.rules[*number as usize] {
                rule if asks_for_more(rule).is_some() => Found::Perhaps,
                rule => Found::Rule(rule),
            },
        }
    }
}

/// Whether the rule refuses all that some clients ask for. One that refuses what comes to a listener may send all its clients elsewhere.
pub(super) fn refuses_clients(rule: &Rule) -> bool {
    rule.refuse && rule.conditions.iter().any(|it| *it.part() == Part::Client)
}

/// The network and all those around it, the smallest first.
pub(super) fn around(network: IpNet) -> impl Iterator<Item = IpNet> {
    std::iter::successors(Some(network.trunc()), IpNet::supernet)
}

/// What a rule asks for beyond listener and client's network.
pub(super) fn asks_for_more(rule: &Rule) -> Option<&'static str> {
    let more = rule.conditions.iter().find(|it| !it.is_always_true() && word(it.part()).is_some());
    more.and_then(|it| word(it.part()))
}

fn word(part: &Part) -> Option<&'static str> {
    Some(match part {
        Part::Client | Part::Listener => return None,
        Part::Destination => "the destination",
        Part::Dscp => "a code point",
        _ => "the request",
    })
}

/// Whether all addresses of the network are of the rule's clients. It was found by its first condition on them, which may have thousands of networks, and so that holds.
fn takes(rule: &Rule, network: IpNet) -> bool {
    let holds = |matchers: &[Matcher]| {
        matchers.iter().filter_map(self::network).any(|it| it.contains(&network))
    };
    let of_client = rule.conditions.iter().filter(|it| *it.part() == Part::Client);
    of_client.skip(1).all(|condition| holds(condition.any_of()))
}

fn network(matcher: &Matcher) -> Option<IpNet> {
    match matcher {
        Matcher::Network(network) => Some(network.trunc()),
        _ => None,
    }
}
