//! Which thread of a gateway with lanes a connection goes to, decided by the kernel from its first packet.
//!
//! All threads listen at the same address with sockets of their own (SO_REUSEPORT). A program of the kernel's classic packet filter, which needs no right, picks
//! one by the packet's headers: [`program()`] writes it from the rules that are decided by them alone. What a connection's class is, and where it belongs, is decided again when it is
//! accepted: the program saves the way from one thread to another.
//!
//! Source: Voigt's thesis, paper B (prioritized listen queues); SILK's early demultiplexing (paper E).

mod filter;

pub use filter::{Instruction, LEN_MAX, Sockets};

use crate::classify::{Classifier, Condition, Known, Matcher, Scratch};
use crate::names::ClassId;
use crate::request::{Part, RequestView};
use filter::{Chunk, Family, Filter};
use ipnet::IpNet;

/// A listener whose connections are told apart.
#[derive(Clone, Copy, Debug)]
pub struct Demux<'a> {
    /// Its place in the policy.
    pub listener: u16,
    /// Who its clients are comes after the first packet, from a peer that is always trusted (PROXY protocol).
    pub is_proxied: bool,
    /// Peers of which the same is true.
    pub trusted: &'a [IpNet],
    /// Where connections go whose class has no sockets of its own.
    pub others: Sockets,
}

/// The program for a listener; `sockets`: those of a class, if it has its own. Rules that do not fit are left out with all that come after them: their connections
/// go where those of no class do. Some 130 rules with an IPv4 network fit, and beside them 70 with an IPv6 address. O(rules).
pub fn program(
    classifier: &Classifier,
    demux: Demux<'_>,
    sockets: impl Fn(ClassId) -> Option<Sockets>,
) -> Vec<Instruction> {
    let Demux { listener, is_proxied, trusted, others } = demux;
    let view = RequestView { listener, ..RequestView::EMPTY };
    let target = |class| sockets(class).unwrap_or(others);
    let of_listener = classifier.class_at_accept(&view, Known::Listener, &mut Scratch::default());
    let of_listener = of_listener.map_or(others, target);
    if is_proxied {
        return Filter::same(of_listener);
    }
    let part = |family: Family| {
        let mut part = Chunk::default();
        part.load(family);
        for network in trusted.iter().filter(|network| family.has(**network)) {
            let mut chunk = Chunk::default();
            chunk.test_client(*network);
            chunk.unless_found();
            chunk.to(of_listener);
            if !part.append(chunk) {
                return part.or(others);
            }
        }
        for rule in classifier.rules_at_accept() {
            let Some(chunk) = of_rule(family, rule.conditions, &view, target(rule.class)) else {
                continue;
            };
            if !part.append(chunk) {
                break;
            }
        }
        part.or(others)
    };
    Filter::by_family(part(Family::V4), part(Family::V6), others)
}

/// What a rule comes to for packets of a family; `None`: it never holds there.
fn of_rule(
    family: Family,
    conditions: &[Condition],
    view: &RequestView<'_>,
    target: Sockets,
) -> Option<Chunk> {
    let mut chunk = Chunk::default();
    for condition in conditions {
        let mut can_hold = false;
        for matcher in condition.any_of() {
            match (condition.part(), matcher) {
                (Part::Client, Matcher::Network(network)) if family.has(*network) => {
                    chunk.test_client(*network);
                }
                (Part::Destination, Matcher::Network(network)) if family.has(*network) => {
                    chunk.test_destination(*network);
                }
                (Part::Dscp, Matcher::Range(span)) => chunk.test_dscp(*span),
                (Part::Client | Part::Destination | Part::Dscp, _) => continue,
                // Of the listener, or of nothing.
                _ if condition.holds(view) => chunk.holds(),
                _ => continue,
            }
            can_hold = true;
            if chunk.is_too_long() {
                return Some(chunk);
            }
        }
        if !can_hold {
            return None;
        }
        chunk.unless_found();
    }
    chunk.to(target);
    Some(chunk)
}

#[cfg(test)]
mod tests;
