//! What of a policy is put before the server: its rules for the addresses that the server's clients connect to.

use super::asked::Asked;
use super::steering::{OTHERS, Target};
use crate::config;
use crate::config::meant::{
    BlockInKernel, KernelSettings, Listener, Mechanism, Policy, RequestsInKernel,
};
use anyhow::{anyhow, bail, ensure};
use std::net::SocketAddr;
use std::time::Duration;
use tiergate_core::early::steer::TARGETS_MAX;
use tiergate_core::names::Names;

/// A policy as it is put before the server.
#[derive(Debug)]
pub(super) struct Before {
    /// Listeners that are not attached to are as those whose port others share: nothing is said of them.
    pub(super) policy: Policy,
    pub(super) settings: KernelSettings,
    /// The listeners of the server by class, first that of all others; empty where connections are not steered.
    pub(super) targets: Vec<Target>,
}

/// Reads the policy.
///
/// # Errors
/// It has faults, or what is asked does not fit it, in words.
pub(super) fn load(asked: &Asked, names: &mut Names) -> anyhow::Result<Before> {
    let policy = config::load_with(&asked.policy, names).map_err(|fault| anyhow!("{fault}"))?;
    before(policy, asked)
}

fn before(mut policy: Policy, asked: &Asked) -> anyhow::Result<Before> {
    attach_to(&mut policy, &asked.listen);
    // Without the gateway they are served: they take tokens as others do.
    policy.rules.iter_mut().for_each(|it| it.rule.refuse = false);
    let settings = settings(&policy, asked);
    let targets = targets(&policy, asked)?;
    ensure!(
        !targets.is_empty() || !settings.interfaces.is_empty(),
        "say where clients' packets come in, by --interface eth0 or `interfaces` in [kernel] of the policy; or where the server listens for a class, by --class"
    );
    ensure!(
        !targets.is_empty() || settings.police,
        "nothing to do: the policy has police = false in [kernel], and no --class is given"
    );
    policy.kernel = Some(settings.clone());
    Ok(Before { policy, settings, targets })
}

/// Whether the policy's listener is one of those that an address stands for: `[::]:80` means all addresses of the machine.
fn is_meant(listener: SocketAddr, asked: SocketAddr) -> bool {
    let all = asked.ip().is_unspecified() && (asked.is_ipv6() || listener.is_ipv4());
    listener == asked || all && listener.port() == asked.port()
}

/// Leaves the listeners that are attached to, and adds those that the policy does not have: rules that ask for a listener are not for them.
fn attach_to(policy: &mut Policy, listen: &[SocketAddr]) {
    let all: Vec<SocketAddr> = match listen.is_empty() {
        true => policy.listeners.iter().map(|it| it.address).collect(),
        false => listen.to_vec(),
    };
    for address in &all {
        if policy.listeners.iter().all(|it| it.address != *address) {
            policy.listeners.push(Listener::plain(*address));
        }
    }
    for listener in &mut policy.listeners {
        // Which of the server's processes gets a connection does not matter here.
        listener.share_port = !all.iter().any(|it| is_meant(listener.address, *it));
    }
}

/// The addresses that are attached to.
pub(super) fn attached(policy: &Policy) -> impl Iterator<Item = &Listener> {
    policy.listeners.iter().filter(|it| !it.share_port)
}

/// Which addresses are attached to, for a person.
pub(super) fn addresses_words(policy: &Policy) -> String {
    let all: Vec<String> = attached(policy).map(|it| it.address.to_string()).collect();
    all.join(", ")
}

fn settings(policy: &Policy, asked: &Asked) -> KernelSettings {
    let of_policy = policy.kernel.as_ref();
    let interfaces = match asked.interfaces.is_empty() {
        true => of_policy.map(|it| it.interfaces.clone()).unwrap_or_default(),
        false => asked.interfaces.clone(),
    };
    // Behind it there is no gateway that refuses what passes.
    let requests = of_policy.map_or(RequestsInKernel::Answer, |it| it.requests);
    KernelSettings {
        interfaces,
        mechanism: of_policy.map_or(Mechanism::Auto, |it| it.mechanism),
        police: of_policy.is_none_or(|it| it.police),
        requests: asked.requests.unwrap_or(requests),
        // What blocks clients, knows sessions and counts refusals is the gateway.
        begin: 1.0,
        block: BlockInKernel::None,
        let_in: Duration::ZERO,
    }
}

/// The listeners of the server by class.
fn targets(policy: &Policy, asked: &Asked) -> anyhow::Result<Vec<Target>> {
    if asked.classes.is_empty() {
        ensure!(
            asked.others.is_empty(),
            "--default needs a --class: without one, nothing is steered"
        );
        return Ok(Vec::new());
    }
    let mut targets = vec![Target::new(OTHERS, None)];
    for address in &asked.others {
        add(&mut targets[0], *address, policy)?;
    }
    for (name, address) in &asked.classes {
        let place = match targets.iter().position(|it| it.class.is_some() && it.name == *name) {
            Some(place) => place,
            None => {
                let class = policy.plan.class_ids().iter().copied();
                let class = class.zip(&policy.plan.classes).find(|(_, it)| it.name == *name);
                let Some((class, _)) = class else { bail!(no_class(name, policy)) };
                targets.push(Target::new(name, Some(class)));
                targets.len() - 1
            }
        };
        add(&mut targets[place], *address, policy)?;
    }
    ensure!(targets.len() <= TARGETS_MAX + 1, "--class: at most {TARGETS_MAX} classes");
    Ok(targets)
}

fn no_class(name: &str, policy: &Policy) -> String {
    let names: Vec<&str> = policy.plan.classes.iter().map(|it| it.name.as_str()).collect();
    format!("--class {name}: the policy has no such class, but {}", names.join(", "))
}

fn add(target: &mut Target, address: SocketAddr, policy: &Policy) -> anyhow::Result<()> {
    let Target { name, addresses, .. } = target;
    // An address at which clients connect is where connections go that are not steered.
    let is_attached = |it: &Listener| is_meant(address, it.address) || it.address == address;
    ensure!(
        !attached(policy).any(is_attached),
        "{address} for {name}: clients connect there; the server needs another address or port for connections that are steered"
    );
    ensure!(
        addresses.iter().all(|it| it.is_ipv4() != address.is_ipv4()),
        "{address} for {name}: there is one already; give at most one for IPv4 and one for IPv6"
    );
    addresses.push(address);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[origin]\nservers = [\"127.0.0.1:1\"]\n\
        [[listener]]\naddress = \"0.0.0.0:80\"\nshare_port = true\n[[listener]]\naddress = \"10.0.0.1:80\"\nshare_port = true\n\
        [[listener]]\naddress = \"[::]:81\"\n\
        [[class]]\nname = \"premium\"\n[[class]]\nname = \"standard\"\n\
        [[rule]]\nclient = \"10.0.0.0/8\"\nclass = \"premium\"\npolice = { rate = \"1/s\", burst = 5 }\n";

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn asked(listen: &[&str]) -> Asked {
        Asked {
            listen: listen.iter().map(|it| address(it)).collect(),
            interfaces: vec!["eth0".into()],
            ..Asked::default()
        }
    }

    fn of(kernel: &str, asked: &Asked) -> anyhow::Result<Before> {
        let policy = config::parse(&format!("{TEXT}{kernel}"), "policy.toml").expect("a policy");
        before(policy, asked)
    }

    fn attached_to(listen: &[&str]) -> Vec<String> {
        let before = of("", &asked(listen)).expect("it fits");
        attached(&before.policy).map(|it| it.address.to_string()).collect()
    }

    #[test]
    fn an_address_means_the_listeners_of_the_policy_that_are_there() {
        assert_eq!(attached_to(&[]), ["0.0.0.0:80", "10.0.0.1:80", "[::]:81"]);
        assert_eq!(attached_to(&["[::]:80"]), ["0.0.0.0:80", "10.0.0.1:80", "[::]:80"]);
        assert_eq!(attached_to(&["0.0.0.0:80"]), ["0.0.0.0:80", "10.0.0.1:80"]);
        assert_eq!(attached_to(&["10.0.0.1:80"]), ["10.0.0.1:80"]);
        assert_eq!(attached_to(&["192.0.2.1:80"]), ["192.0.2.1:80"], "one that it does not have");
        // The places of the policy's own are those of its rules.
        let before = of("", &asked(&["192.0.2.1:80"])).expect("it fits");
        assert_eq!(before.policy.listeners[1].address, address("10.0.0.1:80"));
    }

    #[test]
    fn what_the_command_line_says_goes_before_the_policy() {
        let kernel = "[kernel]\ninterfaces = [\"eth1\"]\nrequests = \"reset\"\n";
        let none = Asked { interfaces: Vec::new(), ..asked(&[]) };
        let found = |kernel, asked: &Asked| {
            let settings = of(kernel, asked).expect("it fits").settings;
            (settings.interfaces.join(","), settings.requests)
        };
        assert_eq!(found(kernel, &none), ("eth1".into(), RequestsInKernel::Reset));
        assert_eq!(found("", &asked(&[])), ("eth0".into(), RequestsInKernel::Answer));
        let all = Asked { requests: Some(RequestsInKernel::Pass), ..asked(&[]) };
        assert_eq!(found(kernel, &all), ("eth0".into(), RequestsInKernel::Pass));
    }

    #[test]
    fn rules_refuse_nothing_without_the_gateway() {
        let refused = "[[rule]]\npath = \"/cgi/admin*\"\nrefuse = true\n";
        let policy = of(refused, &asked(&[])).expect("it fits").policy;
        assert!(policy.rules.iter().all(|it| !it.rule.refuse), "they would pass without a token");
        assert_eq!(policy.denials().count(), 1, "it is said");
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let class = |name: &str, at: &str| (name.to_owned(), address(at));
        let none = Asked { interfaces: Vec::new(), ..asked(&["[::]:80"]) };
        let premium = Asked { classes: vec![class("premium", "127.0.0.1:8081")], ..none.clone() };
        let fault = |kernel, asked: Asked| {
            of(kernel, &asked)
                .map(drop)
                .map_err(|fault| fault.to_string())
                .err()
                .unwrap_or_default()
        };
        assert_eq!(fault("", premium.clone()), "", "steering needs no interface");
        assert!(fault("", none.clone()).starts_with("say where clients' packets come in"));
        let off = "[kernel]\ninterfaces = [\"eth0\"]\npolice = false\n";
        assert!(fault(off, none.clone()).starts_with("nothing to do"));
        assert_eq!(fault(off, premium.clone()), "");
        let others = vec![address("127.0.0.1:8082")];
        assert!(fault("", Asked { others, ..asked(&[]) }).contains("needs a --class"));
        for (add, wanted) in [
            (class("gold", "127.0.0.1:8083"), "no such class, but premium, standard"),
            (class("premium", "127.0.0.1:8083"), "at most one for IPv4 and one for IPv6"),
            (class("standard", "127.0.0.1:80"), "clients connect there"),
            (class("standard", "[::]:80"), "clients connect there"),
        ] {
            let mut asked = premium.clone();
            asked.classes.push(add);
            let fault = fault("", asked);
            assert!(fault.contains(wanted), "{fault}");
        }
        let mut both = premium;
        both.classes.push(class("premium", "[::1]:8081"));
        both.others.push(address("127.0.0.1:8082"));
        let targets = of("", &both).expect("it fits").targets;
        let shown: Vec<(&str, usize)> =
            targets.iter().map(|it| (it.name.as_str(), it.addresses.len())).collect();
        assert_eq!(shown, [(OTHERS, 1), ("premium", 2)]);
    }
}
