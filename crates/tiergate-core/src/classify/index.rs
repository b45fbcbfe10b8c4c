//! Indexes of matchers: one for each kind, whatever part of the request it is for.

use super::matcher::Matcher;
use super::names::Names;
use super::networks::Networks;
use super::numbers::{Numbers, Span};
use super::regexes::{RegexCaches, Regexes};
use super::search::Search;
use super::texts::{Hosts, Texts};
use crate::request::Value;

/// Matchers of one kind, each with the number of the fact that it establishes.
#[derive(Clone, Debug)]
pub(super) enum Index {
    Names(Names<u32>),
    Patterns(Texts),
    Hosts(Hosts),
    Regexes(Regexes),
    Networks(Networks),
    Ranges(Numbers),
}

impl Index {
    /// An index of distinct canonical matchers, all of one kind. `regexes_len`: how many indexes of
    /// expressions there are already. `None`: the expressions together need too many states.
    pub(super) fn new(matchers: &[(&Matcher, u32)], regexes_len: &mut usize) -> Option<Self> {
        /// What matchers of one kind hold, with their facts.
        macro_rules! each {
            ($( $Kind:ident )|+) => {
                matchers.iter().filter_map(|(matcher, fact)| match matcher {
                    $( Matcher::$Kind(inner) )|+ => Some((inner, *fact)),
                    _ => None,
                })
            };
        }
        let (kind, _) = matchers.first()?;
        Some(match kind {
            Matcher::Exact(_) | Matcher::Caseless(_) => {
                let names = each!(Exact | Caseless);
                let names = names.map(|(name, fact)| (name.as_bytes().into(), fact)).collect();
                Index::Names(Names::new(names, matches!(kind, Matcher::Caseless(_))))
            }
            Matcher::Pattern(_) => Index::Patterns(Texts::new(each!(Pattern))),
            Matcher::Host(_) => Index::Hosts(Hosts::new(each!(Host))),
            Matcher::Regex(_) => {
                *regexes_len += 1;
                Index::Regexes(Regexes::new(each!(Regex), *regexes_len - 1)?)
            }
            Matcher::Network(_) => Index::Networks(Networks::new(
                each!(Network).map(|(network, fact)| (*network, fact)),
            )),
            Matcher::Range(_) => {
                let range =
                    |(span, fact): (&Span, u32)| (span.first.into(), span.last.into(), fact);
                Index::Ranges(Numbers::new(each!(Range).map(range).collect()))
            }
        })
    }

    /// Tells the search the fact of every matcher that matches the value. Cost: O(length of the value), or
    /// logarithmic in the number of networks and ranges.
    // A call would cost as much as some look-ups.
    #[inline(always)]
    pub(super) fn find(
        &self,
        value: Value<'_>,
        regexes: &mut RegexCaches,
        search: &mut Search<'_>,
    ) {
        match (self, value) {
            (Index::Patterns(texts), Value::Text(text)) => {
                texts.find(text, |fact| search.hold(fact))
            }
            (Index::Hosts(hosts), Value::Text(text)) => hosts.find(text, |fact| search.hold(fact)),
            (Index::Names(names), Value::Text(text)) => {
                if let Some(fact) = names.find(text) {
                    search.hold(*fact);
                }
            }
            (Index::Networks(networks), Value::Address(address)) => {
                networks.find(address, |fact| search.hold(fact))
            }
            (Index::Ranges(ranges), Value::Number(number)) => {
                ranges.find(number.into(), |fact| search.hold(fact))
            }
            (Index::Regexes(all), Value::Text(text)) => {
                all.find(text, regexes, |fact| search.hold(fact))
            }
            // A matcher of another kind than the part's values never holds.
            _ => {}
        }
    }
}
