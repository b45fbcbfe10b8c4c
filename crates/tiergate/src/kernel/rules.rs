//! What of a policy goes early: for the program, and in words.

use crate::config::meant::{KernelSettings, Listener, Policy, RequestsInKernel};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::classify::Match;
use tiergate_core::classify::rule::Rule;
use tiergate_core::early::heads::Heads;
use tiergate_core::early::{Early, Policing, REFUSED, Stage};
use tiergate_core::names::ClassId;
use tiergate_core::request::RequestView;
use tiergate_kernel::Service;

/// Most rules that `tiergate check` lists.
const SHOWN_MAX: usize = 20;

/// What may go early.
pub(super) fn early(policy: &Policy) -> Early {
    let rules: Vec<Rule> = policy.rules.iter().map(|rule| rule.rule.clone()).collect();
    let is_proxied = |it: &Listener| it.proxy_protocol || it.share_port;
    let proxied: Vec<bool> = policy.listeners.iter().map(is_proxied).collect();
    Early::of(&Policing {
        rules: &rules,
        plan: &policy.plan,
        default_class: default_class(policy),
        trusted: &policy.trusted,
        proxied: &proxied,
    })
}

/// The class of requests that no rule matches; `None`: a score decides.
pub(super) fn default_class(policy: &Policy) -> Option<ClassId> {
    let by_score = policy.score.as_ref().is_some_and(|tables| !tables.bands.is_empty());
    (!by_score).then(|| policy.classifier.default_class())
}

/// Which first requests may go early: those of listeners at which all connections are clients' own, and can be read.
pub(super) fn heads(policy: &Policy) -> Heads {
    let rules: Vec<Rule> = policy.rules.iter().map(|rule| rule.rule.clone()).collect();
    let judged: Vec<bool> =
        policy.listeners.iter().map(|it| unjudged(policy, it).is_none()).collect();
    Heads::of(&rules, &policy.plan, &judged)
}

/// Why no first request to a listener is judged, for a person; `None`: they are. The connection of a proxy is not ended for one of its clients, and its peer cannot be told from others by a head.
pub(super) fn unjudged(policy: &Policy, listener: &Listener) -> Option<&'static str> {
    let reasons = [
        (listener.tls.is_some(), "it has TLS"),
        (listener.proxy_protocol, "its peers are proxies (proxy_protocol)"),
        (listener.share_port, "other processes share the port"),
        (!policy.trusted.is_empty(), "proxies connect to it as well (trusted)"),
    ];
    reasons.into_iter().find_map(|(holds, why)| holds.then_some(why))
}

/// The listeners whose first requests the kernel judges: they accept connections with their first data.
pub(crate) fn deferred(policy: &Policy) -> Vec<SocketAddr> {
    let judges = |it: &KernelSettings| it.police && it.judges_requests();
    if !policy.kernel.as_ref().is_some_and(judges) {
        return Vec::new();
    }
    let heads = heads(policy).listeners;
    let judged = policy.listeners.iter().zip(&heads).filter(|(_, entries)| !entries.is_empty());
    judged.map(|(listener, _)| listener.address).collect()
}

/// As [`services`], of the listeners whose first requests are judged.
pub(super) fn judged_services(policy: &Policy, here: &[IpAddr]) -> Vec<Service> {
    let is_judged =
        |it: &Service| unjudged(policy, &policy.listeners[usize::from(it.listener)]).is_none();
    services(&policy.listeners, here).into_iter().filter(is_judged).collect()
}

/// The addresses that connections of the listeners come to. One that listens at all addresses has those of this machine: what is passed on to others is not its. One that shares its port with
/// other processes has none: whose a connection will be is not known.
pub(super) fn services(listeners: &[Listener], here: &[IpAddr]) -> Vec<Service> {
    let mut found: HashMap<SocketAddr, u16> = HashMap::new();
    // As the system looks for the socket: the exact one first, then of the version, then of both.
    for pass in 0..3 {
        for (place, listener) in listeners.iter().enumerate() {
            let Listener { address, .. } = listener;
            let is_exact = !address.ip().is_unspecified();
            let own: Vec<IpAddr> = match pass {
                0 if is_exact => vec![address.ip().to_canonical()],
                1 if !is_exact => {
                    here.iter().copied().filter(|it| it.is_ipv4() == address.is_ipv4()).collect()
                }
                2 if !is_exact && address.is_ipv6() => here.to_vec(),
                _ => continue,
            };
            // A port that the system picks is not known here.
            for ip in own.into_iter().filter(|_| address.port() != 0) {
                found.entry(SocketAddr::new(ip, address.port())).or_insert(place as u16);
            }
        }
    }
    let own = found.into_iter().filter(|it| !listeners[usize::from(it.1)].share_port);
    let mut all: Vec<Service> = own.map(|(local, listener)| Service { listener, local }).collect();
    all.sort_by_key(|it| it.local);
    all
}

/// For `tiergate check`: which policers go early, and why others do not.
pub(crate) fn check_words(policy: &Policy) -> Vec<String> {
    if policy.kernel.as_ref().is_none_or(|kernel| !kernel.police) {
        return Vec::new();
    }
    let mut lines = stage_words(policy, "stays with the gateway");
    if policy.kernel.as_ref().is_some_and(KernelSettings::judges_requests) {
        let of = |it: &Listener| {
            let why = unjudged(policy, it)?;
            Some(format!("listener {}: first requests are not judged: {why}", it.address))
        };
        lines.extend(policy.listeners.iter().filter_map(of));
    }
    lines
}

/// Which policers go early. `late`: what becomes of the others.
pub(super) fn stage_words(policy: &Policy, late: &str) -> Vec<String> {
    let early = early(policy);
    let judges = policy.kernel.as_ref().is_some_and(KernelSettings::judges_requests);
    let by_request = if judges { heads(policy) } else { Heads::default() };
    let name = |id: PolicerId| policy.plan.policer(id).map_or("", |it| it.name.as_str());
    let stage = |stage: Stage| match stage {
        Stage::Early => "goes early".to_owned(),
        Stage::Late(why) => format!("{late}: {}", why.words()),
    };
    let of_rule = |(place, found): (usize, &Option<Stage>)| {
        let rule = &policy.rules[place];
        let id = rule.rule.policer?;
        let stage = match (*found)? {
            Stage::Late(_) if by_request.has(id) => {
                "goes early, with the first request of a connection".to_owned()
            }
            found => stage(found),
        };
        Some(format!("rule {}, policer {}: {stage}", rule.label(), name(id)))
    };
    let mut lines: Vec<String> = early.rules.iter().enumerate().filter_map(of_rule).collect();
    let more = lines.len().saturating_sub(SHOWN_MAX);
    lines.truncate(SHOWN_MAX);
    lines.extend((more > 0).then(|| format!("and {more} more rules")));
    lines.extend(early.others.iter().map(|(id, found)| {
        let of = if policy.plan.site_policer == Some(*id) { "all requests" } else { "a class" };
        format!("policer {} of {of}: {}", name(*id), stage(*found))
    }));
    lines.extend(early.refused_like.map(|_| refused_words(policy, &early)));
    if lines.is_empty() {
        lines.push("no policer: nothing is policed early".to_owned());
    }
    lines
}

/// For `tiergate explain`: where the request is policed; empty where the kernel is not asked, or nothing polices it.
pub(crate) fn explain_words(policy: &Policy, view: &RequestView<'_>, found: &Match) -> String {
    let Some(kernel) = policy.kernel.as_ref().filter(|kernel| kernel.police) else {
        return String::new();
    };
    let class = policy.plan.class(found.class).and_then(|class| class.policer);
    if (found.policer, class, policy.plan.site_policer) == (None, None, None) {
        return String::new();
    }
    let early = early(policy);
    let entry = early.entry(view.listener, view.client);
    let id = entry.and_then(|it| early.policers.get(usize::from(it.bucket?)).copied());
    if id == Some(REFUSED) {
        let words = refused_words(policy, &early);
        return format!(
            "\nPoliced at the first packet of its connection, by the kernel, under overload: {words}\n"
        );
    }
    let name = id.and_then(|id| Some(policy.plan.policer(id)?.name.clone()));
    match name {
        Some(name) => format!(
            "\nPoliced by {name} at the first packet of its connection, by the kernel, under overload ({} refused by policers); {}\n",
            crate::config::show::share(kernel.begin),
            // What a rule refuses takes no token there.
            if found.refuse { "and not by the gateway" } else { "and again by the gateway" }
        ),
        None if is_by_request(policy, view, found) => format!(
            "\nPoliced at the first request of its connection, by the kernel, under overload ({} refused by policers); and again by the gateway\n",
            crate::config::show::share(kernel.begin)
        ),
        // It takes no token of anybody's.
        None if found.refuse => String::new(),
        None if kernel.requests != RequestsInKernel::Pass && !kernel.judges_requests() => {
            "\nPoliced by the gateway alone: its first packet does not decide it, and nftables judges no requests\n".to_owned()
        }
        None => {
            "\nPoliced by the gateway alone: what the kernel sees does not decide it\n".to_owned()
        }
    }
}

/// What becomes of connections from networks that a rule refuses.
fn refused_words(policy: &Policy, early: &Early) -> String {
    let like = policy.plan.policer(early.settings_of(REFUSED)).map_or("", |it| it.name.as_str());
    format!("networks that a rule refuses have tokens of their own, as many as policer {like} has")
}

/// Whether the kernel polices it by its head.
fn is_by_request(policy: &Policy, view: &RequestView<'_>, found: &Match) -> bool {
    if !policy.kernel.as_ref().is_some_and(KernelSettings::judges_requests) {
        return false;
    }
    let heads = heads(policy);
    let entry = heads.entry(view.listener, view.path);
    let bucket = entry.filter(|it| it.has_method(view.method)).and_then(|it| it.bucket);
    bucket.is_some_and(|it| heads.policers.get(usize::from(it)).copied() == found.policer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use std::net::Ipv4Addr;

    #[test]
    fn a_listener_at_all_addresses_has_those_of_the_machine_that_no_other_has() {
        let listeners: Vec<Listener> =
            ["[::]:80", "0.0.0.0:80", "10.0.0.1:80", "[::]:81", "127.0.0.1:0"]
                .map(|it| Listener::plain(it.parse().expect("an address")))
                .into();
        let here: Vec<IpAddr> =
            ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|it| it.parse().expect("one")).into();
        let found = services(&listeners, &here);
        let shown: Vec<String> =
            found.iter().map(|it| format!("{} {}", it.local, it.listener)).collect();
        let wanted = [
            "10.0.0.1:80 2",
            "10.0.0.1:81 3",
            "10.0.0.2:80 1",
            "10.0.0.2:81 3",
            "[fd00::1]:80 0",
            "[fd00::1]:81 3",
        ];
        assert_eq!(shown, wanted);
        // One that others share is not ours to police, and not its neighbour's either.
        let mut listeners = listeners;
        listeners[2].share_port = true;
        let found = services(&listeners, &here);
        assert!(found.iter().all(|it| it.listener != 2), "{found:?}");
        assert_eq!(found.len(), wanted.len() - 1, "{found:?}");
    }

    fn policy(rest: &str) -> Policy {
        let text = format!(
            "[[listener]]\naddress = \"10.0.0.1:80\"\n[origin]\nservers = [\"127.0.0.1:1\"]\n\
             [[rule]]\npath = \"/cgi/*\"\npolice = {{ rate = \"1/s\", burst = 5 }}\n\
             [kernel]\ninterfaces = [\"lo\"]\n{rest}"
        );
        crate::config::parse(&text, "policy.toml").expect("a policy")
    }

    #[test]
    fn a_rule_of_many_networks_costs_as_much_more_as_it_has_more() {
        let time = |count: u32| {
            let networks =
                (1..=count).map(|it| format!("\"{}/20\"", Ipv4Addr::from_bits(it << 12)));
            let networks: Vec<String> = networks.collect();
            let policy = policy(&format!(
                "[[rule]]\nclient = [{}]\npolice = {{ rate = \"1/s\", burst = 5 }}\n",
                networks.join(",")
            ));
            let once = || {
                let begun = clock::now();
                assert_eq!(early(&policy).networks(), count as usize + 2);
                clock::now().since(begun)
            };
            (0..3).map(|_| once()).min().expect("three")
        };
        let [of_few, of_many] = [4_000, 32_000].map(time);
        assert!(of_many < 30 * of_few, "{of_many:?} and {of_few:?}");
    }

    #[test]
    fn networks_that_a_rule_refuses_are_said() {
        let words = |rest: &str| check_words(&policy(rest)).join("\n");
        assert!(!words("").contains("refuses"), "{}", words(""));
        let refused = "[[rule]]\nclient = \"10.2.0.0/16\"\nrefuse = true\n";
        assert!(!words(refused).contains("refuses"), "no policer is theirs");
        let class = "[[class]]\nname = \"all\"\npolice = { rate = \"9/s\", burst = 5 }\n";
        let words = words(&format!("{refused}{class}"));
        assert!(words.contains("tokens of their own, as many as policer class.all has"), "{words}");
    }

    #[test]
    fn nftables_judges_no_first_requests() {
        let policy = policy("requests = \"answer\"\nmechanism = \"nftables\"\n");
        assert!(deferred(&policy).is_empty());
        let words = check_words(&policy).join("\n");
        assert!(
            words.contains("stays with the gateway") && !words.contains("goes early"),
            "{words}"
        );
        let settings = policy.kernel.as_ref().expect("it has them");
        let words = crate::config::kernel::words(settings).join("\n");
        assert!(words.contains("nftables judges no first requests"), "{words}");
        assert!(!words.contains("answered by the kernel"), "{words}");
    }

    #[test]
    fn first_requests_of_proxies_are_not_judged() {
        let answer = "requests = \"answer\"\n";
        let judged = |rest: &str| {
            let policy = policy(rest);
            let words = check_words(&policy).join("\n");
            (deferred(&policy).len(), judged_services(&policy, &[]).len(), words)
        };
        let (deferred, services, words) = judged(answer);
        assert_eq!((deferred, services), (1, 1), "{words}");
        assert!(words.contains("goes early, with the first request"), "{words}");
        assert_eq!(judged("").0, 0, "the gateway refuses them");
        type Change = (fn(&mut Policy), &'static str);
        let change: [Change; 3] = [
            (|it| it.listeners[0].share_port = true, "other processes share the port"),
            (|it| it.listeners[0].proxy_protocol = true, "its peers are proxies (proxy_protocol)"),
            (
                |it| it.trusted = vec!["10.9.0.0/16".parse().expect("a network")],
                "proxies connect to it as well (trusted)",
            ),
        ];
        for (change, why) in change {
            let mut policy = policy(answer);
            change(&mut policy);
            let words = check_words(&policy).join("\n");
            assert!(super::deferred(&policy).is_empty(), "{why}");
            assert!(judged_services(&policy, &[]).is_empty(), "{why}");
            let wanted = format!("listener 10.0.0.1:80: first requests are not judged: {why}");
            assert!(words.contains(&wanted) && !words.contains("goes early"), "{words}");
        }
    }
}
