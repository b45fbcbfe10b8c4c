//! `tiergate check`: what a policy means, in words, and what in it makes no sense.

pub use super::warn::warnings;
use super::{schedule_words, words};
use crate::config::meant::{
    ClientCertificate, Listener, Policy, ProxyProtocol, Recognised, RefusalConnection,
};
use crate::config::{ConfigError, load, show};
use crate::session::COOKIE;
use std::fmt::Write as _;
use std::path::Path;
use tiergate_core::admit::policer::Settings;
use tiergate_core::control::Slots;

/// Reads a policy file and says what it means. The program ends with 0 then, also when there are
/// warnings, and with 1 on an error, which is to be shown on standard error.
///
/// Certificates are not opened; that they fit is checked when listening starts.
///
/// # Errors
/// When the file cannot be read or has faults: all of them.
pub fn check(path: &Path) -> Result<String, ConfigError> {
    let policy = load(path)?;
    Ok(meaning(&policy, &path.to_string_lossy()))
}

/// What a policy means, in words, warnings last.
pub fn meaning(policy: &Policy, file: &str) -> String {
    let mut text = format!("{file} is a policy without faults.\n");
    for (title, lines) in [
        ("Clients connect to", listeners(policy)),
        ("Requests go to", origin(policy)),
        ("Classes, most important first", classes(policy)),
        ("Who is served next", schedule_words::scheduling(policy)),
        ("Policers", policers(policy)),
        ("Rules, the first that matches decides", rules(policy)),
        ("Score", score(policy)),
        ("Sessions that were admitted go first in their class", sessions(policy)),
        ("Under overload the least important go", words::shedding(policy)),
        ("A refusal", refusal(policy)),
        ("Limits", limits(policy)),
        ("Timeouts", timeouts(policy)),
        ("Seen at", seen(policy)),
        ("Warnings", warnings(policy)),
    ] {
        if !lines.is_empty() {
            write!(text, "\n{title}\n  {}\n", lines.join("\n  ")).expect("a string takes all");
        }
    }
    text
}

fn listeners(policy: &Policy) -> Vec<String> {
    let listener = |listener: &Listener| {
        let scheme = match &listener.tls {
            Some(tls) if tls.certificates.len() == 1 => "https, 1 certificate".to_owned(),
            Some(tls) => format!("https, {} certificates", tls.certificates.len()),
            None => "http".to_owned(),
        };
        let scheme = match listener.tls.as_ref().and_then(|tls| tls.client.as_ref()) {
            Some(client) => {
                let must = match client.certificate {
                    ClientCertificate::Optional => "may",
                    ClientCertificate::Required => "must",
                };
                let revoked = match client.revoked.len() {
                    0 => "",
                    _ => " that are not revoked",
                };
                format!("{scheme}, clients {must} have certificates{revoked}")
            }
            None => scheme,
        };
        let http2 = if listener.http2 { "HTTP/1.1 and HTTP/2" } else { "HTTP/1.1 only" };
        let proxied = match listener.proxy_protocol {
            ProxyProtocol::Off => "",
            ProxyProtocol::Required => ", PROXY protocol required",
        };
        format!("{}  {scheme}, {http2}{proxied}", listener.address)
    };
    let mut lines: Vec<String> = policy.listeners.iter().map(listener).collect();
    if !policy.trusted.is_empty() {
        let trusted: Vec<String> = policy.trusted.iter().map(ToString::to_string).collect();
        lines.push(format!("forwarded client addresses are believed from {}", trusted.join(", ")));
    }
    lines
}

fn origin(policy: &Policy) -> Vec<String> {
    let origin = &policy.origin;
    let mut lines: Vec<String> = origin.servers.iter().map(ToString::to_string).collect();
    lines.push(match &policy.plan.slots {
        Slots::Fixed(slots) => format!("at most {slots} at once (fixed)"),
        Slots::Adaptive(_) => {
            "as many at once as it can take, found while running (adaptive)".to_owned()
        }
    });
    lines.push(format!(
        "a server is left out after {} failures in a row, and tried again after {}",
        origin.failures_max,
        show::time(origin.retry_after)
    ));
    lines.push(format!(
        "at most {} of the requests of 10s and {} a second are tried once more",
        show::share(origin.retries.share),
        origin.retries.floor
    ));
    if let Some(health) = &origin.health {
        lines.push(format!(
            "health: GET {} every {}, at most {} each; out after {} failures, back after {} successes",
            health.path,
            show::time(health.interval),
            show::time(health.timeout),
            health.fall,
            health.rise
        ));
    }
    let forwarding = policy.forwarding;
    let headers = [
        (forwarding.x_forwarded, "X-Forwarded-*"),
        (forwarding.forwarded, "Forwarded"),
        (forwarding.via, "Via"),
    ];
    let added: Vec<&str> = headers.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    if !added.is_empty() {
        lines.push(format!("with {}", added.join(", ")));
    }
    lines
}

fn classes(policy: &Policy) -> Vec<String> {
    let classes = &policy.plan.classes;
    let width = classes.iter().map(|class| class.name.len()).max().unwrap_or(0);
    let line = |(index, class): (usize, &tiergate_core::class::Class)| {
        let default = match policy.classifier.default_class().index() == index {
            true => "; takes what no rule matches",
            false => "",
        };
        format!("{}  {:width$}  {}{default}", index + 1, class.name, words::class(class, policy))
    };
    classes.iter().enumerate().map(line).collect()
}

fn policers(policy: &Policy) -> Vec<String> {
    let plan = &policy.plan;
    let width = plan.policers.iter().map(|policer| policer.name.len()).max().unwrap_or(0);
    let line = |policer: &Settings| {
        format!("{:width$}  {}", policer.name, words::policer(policer, policy))
    };
    let mut lines: Vec<String> = plan.policers.iter().map(line).collect();
    if let Some(site) = plan.site_policer {
        let name = words::policer_name(policy, site);
        lines.push(format!("every request comes under {name}, and gets 503 beyond it"));
    }
    lines
}

fn rules(policy: &Policy) -> Vec<String> {
    let rule = |(index, rule): (usize, &crate::config::meant::PolicyRule)| {
        let conditions = words::conditions(&rule.rule, policy);
        let action = words::action(&rule.rule, policy);
        format!("{}  (line {})  {conditions} → {action}", index + 1, rule.line)
    };
    policy.rules.iter().enumerate().map(rule).collect()
}

fn refusal(policy: &Policy) -> Vec<String> {
    let refusal = &policy.refusal;
    let page = match &policy.refusal_page {
        Some(page) => format!("the page {}", page.display()),
        None => "a built-in page".to_owned(),
    };
    let answer = format!(
        "503 with Retry-After from {} to {} by what waits, and up to half as much more; {page}, JSON or plain text by Accept",
        show::time(refusal.retry_after),
        show::time(refusal.retry_after_max)
    );
    let mut lines = match refusal.connection {
        RefusalConnection::Keep => vec![answer, "the connection is kept".to_owned()],
        RefusalConnection::Close => vec![answer, "the connection is closed".to_owned()],
        RefusalConnection::Reset => vec!["the connection is reset without an answer".to_owned()],
    };
    if let Some(header) = &refusal.reason_header {
        lines.push(format!("the reason stands in {header}"));
    }
    if let Some(block) = &policy.plan.block {
        lines.push(format!(
            "a client refused {} times within {} is blocked for {}; {} flows, {}",
            block.after,
            show::time(block.within),
            show::time(block.lasting),
            block.flows_max,
            show::bytes(24 * u64::from(block.flows_max))
        ));
    }
    lines
}

fn sessions(policy: &Policy) -> Vec<String> {
    let Some(session) = &policy.session else {
        return Vec::new();
    };
    let named = match (&session.recognised, &session.secret_file) {
        (Recognised::Application(cookie), _) => {
            format!("known by the application's cookie `{cookie}`, once admitted and answered well")
        }
        (Recognised::Own(_), Some(file)) => {
            format!(
                "known by our own cookie `{COOKIE}`, signed by a secret of {}",
                file.path.display()
            )
        }
        (Recognised::Own(_), None) => {
            format!(
                "known by our own cookie `{COOKIE}`; they end with the process, without `secret_file`"
            )
        }
    };
    let bounds = session.bounds;
    let lasts = format!(
        "over after {} without a request, and after {} in any case",
        show::time(bounds.idle),
        show::time(bounds.lifetime)
    );
    let most = format!(
        "at most {} kept, {} requests at once of each go first",
        bounds.sessions_max, bounds.at_once_max
    );
    vec![named, lasts, most]
}

fn limits(policy: &Policy) -> Vec<String> {
    let limits = policy.limits;
    let body = match limits.request_body_max {
        0 => "unbounded".to_owned(),
        max => show::bytes(max),
    };
    vec![
        format!(
            "request: head {}, target {}, {} fields, body {body}",
            show::bytes(limits.request_head_max as u64),
            show::bytes(limits.target_len_max as u64),
            limits.fields_max
        ),
        format!("answer: head {}", show::bytes(limits.response_head_max as u64)),
        format!(
            "kept for slow clients: {} of a request's body, {} of an answer, {} together",
            show::bytes(policy.buffering.request_max as u64),
            show::bytes(policy.buffering.response_max as u64),
            show::bytes(limits.buffers_max as u64)
        ),
        format!(
            "{} client connections, {} HTTP/2 streams each, {} tunnels; {} threads",
            limits.connections_max, limits.http2_streams_max, limits.tunnels_max, policy.threads
        ),
    ]
}

fn timeouts(policy: &Policy) -> Vec<String> {
    let timeouts = policy.timeouts;
    let times = |named: &[(&str, std::time::Duration)]| {
        let named: Vec<String> =
            named.iter().map(|(name, time)| format!("{name} {}", show::time(*time))).collect();
        named.join(", ")
    };
    vec![
        times(&[
            ("client: handshake", timeouts.handshake),
            ("request head", timeouts.request_head),
            ("pause in a body", timeouts.request_body),
            ("idle", timeouts.idle),
            ("blocked write", timeouts.write),
        ]),
        times(&[
            ("origin: connect", timeouts.connect),
            ("answer's head", timeouts.response_head),
            ("pause in an answer", timeouts.response_body),
            ("idle", timeouts.origin_idle),
        ]),
        times(&[("tunnel idle", timeouts.tunnel_idle), ("drain", timeouts.drain)]),
    ]
}

fn seen(policy: &Policy) -> Vec<String> {
    let admin = match policy.admin {
        Some(address) => format!("metrics and status: http://{address}"),
        None => "metrics and status: nowhere".to_owned(),
    };
    let log = match &policy.access_log {
        None => "access log: nowhere".to_owned(),
        Some(log) => {
            let path = log.path.as_ref().map(|path| path.display().to_string());
            let format = format!("{:?}", log.format).to_lowercase();
            format!("access log: {} ({format})", path.as_deref().unwrap_or("standard output"))
        }
    };
    vec![admin, log]
}

/// The score's factors, tables and bands.
fn score(policy: &Policy) -> Vec<String> {
    let Some(tables) = &policy.score else {
        return Vec::new();
    };
    let mut lines = vec![format!(
        "{} x the client's priority (of {}) + {} x the path's priority (of {}), 1 where none matches",
        tables.client_factor,
        tables.clients.len(),
        tables.path_factor,
        tables.paths.len()
    )];
    for (from, class) in &tables.bands {
        lines.push(format!(
            "from {from} on: {}, unless a rule says otherwise",
            words::class_name(policy, *class)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn policers_in_words_and_what_makes_no_sense_in_them() {
        let policy = parse(
            "police = { rate = \"1000/s\", burst = 100 }\n[origin]\nservers = [\"a:1\"]\n\
             [[class]]\nname = \"a\"\npolice = \"split\"\n\
             [[class]]\nname = \"b\"\n[[class]]\nname = \"c\"\n\
             [[policer]]\nname = \"idle\"\nrate = \"1/s\"\nannounce = true\n\
             [[policer]]\nname = \"split\"\nrate = \"10/m\"\nburst = 5\n\
             share = [{ class = \"b\", share = \"60%\" }, { class = \"c\", share = \"40%\", burst = 9 }]\n\
             [[rule]]\npath = \"/s\"\nclass = \"b\"\npolice = \"split\"\n\
             [[rule]]\npath = \"/a\"\nclass = \"a\"\npolice = { rate = \"60/s\", per = \"flow\", flows_max = 1024 }\n",
            "p.toml",
        );
        let policy = policy.unwrap();
        let words = meaning(&policy, "p.toml");
        for line in [
            "  1  a  waits at most 2s, at most 10000 in the queue, policed by split",
            "  split   10/m: b 60% and 5 at once, c 40% and 9 at once; 5 that they left for any class",
            "  rule.2  60/s and 20 at once for each flow; 1024 flows, 24KiB; clients are told what is left",
            "  every request comes under site, and gets 503 beyond it",
            "  idle    1/s and 20 at once; clients are told what is left",
            "  1  (line 20)  path /s → b, policed by split",
        ] {
            assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
        }
        assert_eq!(
            crate::cli::warn::warnings(&policy),
            [
                "policer idle: nothing comes under it",
                "policer split: class a has no share, and gets only what the others leave",
                "policer split: class c has a share, but never comes under it",
            ]
        );
    }

    #[test]
    fn a_policy_in_words() {
        let policy = parse(
            "threads = 2\n[origin]\nservers = [\"a:1\"]\nslots = 8\n\
             [[class]]\nname = \"checkout\"\nminimum = \"12.5%\"\n[[class]]\nname = \"rest\"\nqueue = 0\n\
             [[rule]]\npath = [\"/cart/*\", \"/pay\"]\nheader.accept = true\nclass = \"checkout\"\n\
             [[rule]]\nclient = \"10.0.0.0/8\"\nrefuse = true\n",
            "p.toml",
        );
        let words = meaning(&policy.unwrap(), "p.toml");
        for line in [
            "p.toml is a policy without faults.",
            "  127.0.0.1:8080  http, HTTP/1.1 and HTTP/2",
            "  at most 8 at once (fixed)",
            "  1  checkout  waits at most 2s, at most 10000 in the queue, sure of 12.5% of the slots",
            "  2  rest      never waits; takes what no rule matches",
            "  1  (line 11)  path /cart/* or /pay and header accept present → checkout",
            "  2  (line 15)  client in 10.0.0.0/8 → refused (counted in rest)",
            "  503 with Retry-After from 1s to 30s by what waits, and up to half as much more; a built-in page, JSON or plain text by Accept",
            "  at most 20% of the requests of 10s and 10 a second are tried once more",
            "  metrics and status: http://127.0.0.1:9090",
        ] {
            assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
        }
        assert!(!words.contains("Warnings"), "{words}");
    }
}
