//! Connections steered to the server's listeners by class.

use crate::config::meant::Policy;
use crate::kernel::rules::{default_class, services};
use anyhow::Context;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tiergate_core::classify::rule::Rule;
use tiergate_core::early::NETWORKS_MAX;
use tiergate_core::early::steer::{Steered, Steering};
use tiergate_core::names::ClassId;
use tiergate_kernel::{Fault, SteerGate};

/// What the target of all classes without a listener is called.
pub(super) const OTHERS: &str = "all others";

/// A listener of the server's, and whose connections it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: String,
    /// `None`: all that have no other.
    pub(super) class: Option<ClassId>,
    /// At most one for each version of IP.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Target {
    pub(super) fn new(name: &str, class: Option<ClassId>) -> Self {
        Target { name: name.to_owned(), class, addresses: Vec::new() }
    }

    /// Where to look for its sockets: one that listens at all addresses may take connections over IPv4, too.
    fn sought(&self) -> Vec<SocketAddr> {
        let mut all = self.addresses.clone();
        let has_v4 = all.iter().any(SocketAddr::is_ipv4);
        let any = all.iter().find(|it| it.is_ipv6() && it.ip().is_unspecified()).copied();
        let v4 = any.filter(|_| !has_v4);
        all.extend(v4.map(|it| SocketAddr::from((Ipv4Addr::UNSPECIFIED, it.port()))));
        all
    }
}

/// The program that steers, and what it was told.
#[derive(Debug)]
pub(super) struct Steer {
    gate: SteerGate,
    targets: Vec<Target>,
    sockets: Vec<Socket>,
    services: Vec<SocketAddr>,
}

/// A socket of the server's that takes connections.
#[derive(Debug)]
struct Socket {
    target: u16,
    address: SocketAddr,
    /// What was last seen there; `None`: not looked yet.
    seen: Option<Result<bool, String>>,
}

impl Steer {
    /// Loads and attaches the program; connections go where they went.
    pub(super) fn start(targets: &[Target]) -> Result<Self, Fault> {
        let mut gate = SteerGate::load()?;
        gate.attach()?;
        let sought = |(target, it): (usize, &Target)| {
            let socket = move |address| Socket { target: target as u16, address, seen: None };
            it.sought().into_iter().map(socket)
        };
        let sockets = targets.iter().enumerate().flat_map(sought).collect();
        Ok(Steer { gate, targets: targets.to_vec(), sockets, services: Vec::new() })
    }

    /// Gives the program the policy's networks.
    pub(super) fn put_in_force(&mut self, policy: &Policy, here: &[IpAddr]) -> anyhow::Result<()> {
        let rules: Vec<Rule> = policy.rules.iter().map(|rule| rule.rule.clone()).collect();
        let proxied: Vec<bool> = policy.listeners.iter().map(|it| it.proxy_protocol).collect();
        let classes: Vec<ClassId> = self.targets.iter().filter_map(|it| it.class).collect();
        let steered = Steered {
            rules: &rules,
            default_class: default_class(policy),
            trusted: &policy.trusted,
            proxied: &proxied,
            targets: &classes,
        };
        let services = services(&policy.listeners, here);
        let asked: Vec<_> = services.iter().map(|it| (it.listener, it.local.ip())).collect();
        let too_many = || format!("more than {NETWORKS_MAX} networks would have to be told apart");
        let steering = Steering::of(&steered, &asked).with_context(too_many)?;
        let addresses: Vec<SocketAddr> = services.iter().map(|it| it.local).collect();
        self.gate.put_in_force(&steering, &addresses)?;
        self.services = addresses;
        Ok(())
    }

    /// Whether the addresses that clients connect to have changed.
    pub(super) fn is_elsewhere(&self, policy: &Policy, here: &[IpAddr]) -> bool {
        let services = services(&policy.listeners, here);
        !services.iter().map(|it| it.local).eq(self.services.iter().copied())
    }

    /// Looks for the server's sockets, and says which have come or gone. Some tens of microseconds each.
    pub(super) fn look(&mut self) {
        for place in 0..self.sockets.len() {
            let Socket { target, address, .. } = self.sockets[place];
            let seen = self.gate.find(target, address).map_err(|fault| fault.to_string());
            if self.sockets[place].seen.as_ref() != Some(&seen) {
                self.say(target, address, &seen);
                self.sockets[place].seen = Some(seen);
            }
        }
    }

    fn say(&self, target: u16, address: SocketAddr, seen: &Result<bool, String>) {
        let Target { name, class, .. } = &self.targets[usize::from(target)];
        let whose = class.map_or_else(|| name.clone(), |_| format!("class {name}"));
        let instead = match target {
            0 => "go to the port that they came to",
            _ => "go where all others do",
        };
        match seen {
            Ok(true) => tracing::info!("connections of {whose} go to {address}"),
            Ok(false) => {
                tracing::warn!("nothing listens on {address}: connections of {whose} {instead}");
            }
            Err(fault) => tracing::warn!(
                "the socket on {address} cannot be used: {fault}; connections of {whose} {instead}"
            ),
        }
    }

    /// Where the server's sockets listen that take connections.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(|it| it.address)
    }

    /// Says where connections went, by class.
    pub(super) fn say_counts(&self) {
        for (place, target) in self.targets.iter().enumerate() {
            let counts = self.gate.counts(place as u16).unwrap_or_default();
            let class = target.name.as_str();
            tracing::info!(
                class,
                own = counts.own,
                others = counts.others,
                left = counts.left,
                "connections steered"
            );
        }
    }
}
