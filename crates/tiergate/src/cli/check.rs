//! `tiergate check`: what a policy means, in words, and what in it has no effect.

use super::stdout::{print, print_words};
pub use super::warn::warnings;
use super::{grants, observed, words};
use crate::config::meant::{Listener, Origin, Policy, PolicyRule};
use crate::config::{
    ConfigError, Errors, Fault, adaptation, block, class, forwarding, guarantee, kernel, lane,
    link, load, policer, resource, scheduling, score, sensor, session, shedding,
};
use crate::startable;
use crate::workers::probe;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tiergate_core::plan::PoolSettings;

/// Reads a policy file and says what it means.
///
/// `is_here`: it is to run on this machine.
///
/// # Errors
/// As [`sound`].
pub fn check(path: &Path, is_here: bool) -> Result<String, ConfigError> {
    Ok(meaning(&sound(path, is_here)?, &path.to_string_lossy()))
}

/// What `tiergate check` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The policy files; `-` is standard input
    #[arg(value_name = "POLICY.toml", required = true)]
    files: Vec<PathBuf>,

    /// Print a JSON list with an object for each file: its errors with line, column and key, and its warnings
    #[arg(long)]
    json: bool,

    /// The policies are for another machine: do not look whether certificates and keys can be used here, the access log can be written, addresses are this
    /// machine's, and processors can be reserved
    #[arg(long)]
    other_machine: bool,
}

/// Checks each of the files.
///
/// # Errors
/// Those of all files; by JSON how many files have some.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let checked: Vec<_> =
        options.files.iter().map(|path| (path, sound(path, !options.other_machine))).collect();
    let words = |(path, policy): &(&PathBuf, Result<Policy, ConfigError>)| {
        Some(meaning(policy.as_ref().ok()?, &path.to_string_lossy()))
    };
    match options.json {
        true => {
            let files: Vec<Value> = checked.iter().map(|(path, it)| as_json(path, it)).collect();
            print(serde_json::to_string_pretty(&files).map(|text| text + "\n"))?;
        }
        false => {
            let texts: Vec<String> = checked.iter().filter_map(words).collect();
            print_words(Ok::<_, anyhow::Error>(texts.join("\n")))?;
        }
    }
    let faults: Vec<String> =
        checked.iter().filter_map(|(_, it)| it.as_ref().err()).map(ToString::to_string).collect();
    match faults.len() {
        0 => Ok(()),
        wrong if options.json => anyhow::bail!("{wrong} of {} files have errors", checked.len()),
        _ => anyhow::bail!("{}", faults.join("\n")),
    }
}

fn as_json(path: &Path, policy: &Result<Policy, ConfigError>) -> Value {
    let file = path.to_string_lossy();
    match policy {
        Ok(policy) => {
            json!({ "file": file, "valid": true, "warnings": all_warnings(policy), "errors": [] })
        }
        Err(ConfigError::Faults(errors)) => {
            let error = |it: &Fault| {
                let Fault { file, line, column, key, message } = it;
                json!({ "file": &**file, "line": line, "column": column, "key": key, "message": message })
            };
            let faults: Vec<Value> = errors.faults.iter().map(error).collect();
            json!({ "file": file, "valid": false, "warnings": [], "errors": faults, "more_errors": errors.more })
        }
        Err(fault) => {
            let error = json!({ "file": file, "line": null, "column": null, "key": "", "message": fault.to_string() });
            json!({ "file": file, "valid": false, "warnings": [], "errors": [error], "more_errors": 0 })
        }
    }
}

/// A policy that `tiergate run` would start with, as far as that can be told beforehand: its file, and what that names. `is_here`: on this machine.
///
/// # Errors
/// When a file cannot be read or has faults, all of them; when certificates and keys are of no use, or there is no place for the log; when
/// workers reserve more of the processors than the kernel grants here.
fn sound(path: &Path, is_here: bool) -> Result<Policy, ConfigError> {
    let mut policy = load(path)?;
    if !is_here {
        return Ok(policy);
    }
    let (mut faults, warnings) = startable::look(&policy);
    policy.warnings.extend(warnings);
    if let Some(capacity) = probe::capacity() {
        faults.extend(grants::faults(&policy, capacity));
    }
    if faults.is_empty() {
        return Ok(policy);
    }
    let order = |file: &str| policy.sources.files.iter().position(|it| *it.name == *file);
    faults.sort_by_key(|it| (order(&it.file), it.line, it.column));
    let file = path.to_string_lossy().into_owned();
    Err(ConfigError::Faults(Errors { file, faults, more: 0 }))
}

fn all_warnings(policy: &Policy) -> Vec<String> {
    let (whole, of_parts) = match &policy.observed {
        Some(whole) => (whole.as_ref(), policy.warnings.clone()),
        None => (policy, Vec::new()),
    };
    let warnings = warnings(whole).into_iter().chain(of_parts);
    warnings.map(|it| policy.redaction.redacted(&it).into_owned()).collect()
}

/// What a policy means, in words, warnings last. Where parts of it are only observed: those, and what is in force.
/// Secrets of files are shown as the names of these.
pub fn meaning(policy: &Policy, file: &str) -> String {
    policy.redaction.redacted(&whole_meaning(policy, file)).into_owned()
}

fn whole_meaning(policy: &Policy, file: &str) -> String {
    let text = format!("{file} is a valid policy.\n");
    let Some(whole) = &policy.observed else {
        return text + &sections(policy, warnings(policy));
    };
    // What a part that is not in force would be needed for is not idle.
    let warnings = all_warnings(policy);
    if policy.is_all_observed {
        return text + OBSERVED_ALL + &sections(whole, warnings);
    }
    let lines = observed::words(policy, whole).join("\n  ");
    text + &format!("\nObserved, and not in force\n  {lines}\n") + &sections(policy, warnings)
}

/// What is said of a policy that is observed as a whole.
const OBSERVED_ALL: &str = "
All of it is observed, and nothing in force: every request is let through at once, to the pool that its rule or class
names. What follows is observed, but for listeners, servers, limits, timeouts and logs, which are as they say.
";

/// What is said of each part of a policy.
fn sections(policy: &Policy, warnings: Vec<String>) -> String {
    let plan = &policy.plan;
    let mut text = String::new();
    let score = policy.score.as_ref().map(|tables| score::words(tables, plan));
    let by_session = policy.session.is_some();
    let shedding = plan.shedding.map(|delay| shedding::words(delay, policy.shed, by_session));
    for (title, lines) in [
        ("Clients connect to", listeners(policy)),
        ("Requests go to", origin(policy)),
        ("Pools, for requests whose rule or class names one", pools(policy)),
        ("Workers, the processes that serve pools", grants::words(policy, probe::capacity())),
        ("Resources, for requests whose rule or class names one", resource::words(plan)),
        ("Adaptations, for requests whose rule or class names one", adaptation::words(plan)),
        ("Guarantees of the sites", guarantee::words(plan)),
        ("Classes, most important first", classes(policy)),
        ("The next free slot goes to", scheduling::words(plan)),
        ("Policers", policers(policy)),
        ("Rules, the first that matches decides", rules(policy)),
        ("Score", score.unwrap_or_default()),
        (
            "Requests of running sessions have priority in their class",
            policy.session.as_ref().map(session::words).unwrap_or_default(),
        ),
        ("Under overload the least important requests are shed", shedding.unwrap_or_default()),
        ("The link that answers leave by", link::words(&policy.link)),
        ("Lanes, threads of their own for some connections", lane::words(&policy.lanes, plan)),
        ("In the kernel, before the gateway", in_kernel(policy)),
        ("Sensors", sensor::words(&policy.sensors)),
        ("Refusals", refusal(policy)),
        ("Limits", policy.limits.words(policy.buffering, policy.spooling.as_ref(), policy.threads)),
        ("Timeouts", policy.timeouts.words()),
        ("Observability", observability(policy)),
        ("Warnings", warnings),
    ] {
        if !lines.is_empty() {
            text += &format!("\n{title}\n  {}\n", lines.join("\n  "));
        }
    }
    text
}

fn in_kernel(policy: &Policy) -> Vec<String> {
    let mut lines = policy.kernel.as_ref().map(kernel::words).unwrap_or_default();
    lines.extend(crate::kernel::check_words(policy));
    lines
}

fn listeners(policy: &Policy) -> Vec<String> {
    let mut lines: Vec<String> = policy.listeners.iter().map(Listener::words).collect();
    if !policy.trusted.is_empty() {
        let trusted: Vec<String> = policy.trusted.iter().map(ToString::to_string).collect();
        lines.push(format!("forwarded client addresses are trusted from {}", trusted.join(", ")));
    }
    lines
}

fn origin(policy: &Policy) -> Vec<String> {
    let mut lines = policy.origin.words(&policy.plan.slots);
    lines.push(forwarding::path_words(policy.paths).to_owned());
    lines.extend(forwarding::header_words(&policy.forwarding));
    lines
}

/// The pools beside the default one: a line for each, and what differs from the default one.
fn pools(policy: &Policy) -> Vec<String> {
    let inherited = policy.origin.care_words();
    let words = |(settings, origin): (&PoolSettings, &Origin)| {
        let fallback = settings.fallback.and_then(|pool| policy.plan.pool_name(pool));
        let fallback = match fallback {
            Some(pool) => format!("; while no server is usable, {pool} takes its requests"),
            None => String::new(),
        };
        let (name, servers) = (&settings.name, origin.servers_words(&settings.slots));
        let mut lines = vec![format!("{name}: {servers}{fallback}")];
        let mut own = origin.care_words();
        own.retain(|line| !inherited.contains(line));
        if origin.health.is_none() && policy.origin.health.is_some() {
            own.push("health: no active checks".to_owned());
        }
        lines.extend(own.iter().map(|line| format!("  {line}")));
        lines
    };
    policy.plan.pools.iter().zip(&policy.pools).flat_map(words).collect()
}

fn classes(policy: &Policy) -> Vec<String> {
    let classes = &policy.plan.classes;
    let width = classes.iter().map(|class| class.name.len()).max().unwrap_or(0);
    let default = policy.plan.rank(policy.classifier.default_class());
    let line = |(index, class): (usize, &tiergate_core::class::Class)| {
        let default =
            if default == Some(index) { "; takes requests that no rule matches" } else { "" };
        let words = class::words(class, &policy.plan);
        format!("{}  {:width$}  {words}{default}", index + 1, class.name)
    };
    classes.iter().enumerate().map(line).collect()
}

fn policers(policy: &Policy) -> Vec<String> {
    let plan = &policy.plan;
    let width = plan.policers.iter().map(|policer| policer.name.len()).max().unwrap_or(0);
    let lines = plan.policers.iter();
    let mut lines: Vec<String> =
        lines.map(|it| format!("{:width$}  {}", it.name, policer::words(it, plan))).collect();
    if let Some(site) = plan.site_policer {
        let name = &plan.policer(site).expect("the plan has it").name;
        lines.push(format!("every request is subject to {name}, and gets 503 beyond it"));
    }
    lines
}

fn rules(policy: &Policy) -> Vec<String> {
    let line = |rule: &PolicyRule| {
        let denial = rule.denial.iter().map(|it| format!(", {}", it.words()));
        words::rule(rule, policy) + &denial.collect::<String>()
    };
    policy.rules.iter().map(line).collect()
}

fn refusal(policy: &Policy) -> Vec<String> {
    let mut lines = policy.refusal.words(policy.refusal_page.as_ref());
    lines.extend(policy.plan.block.iter().map(block::words));
    lines
}

fn observability(policy: &Policy) -> Vec<String> {
    let admin = policy.admin.map(|address| format!("http://{address}"));
    let log = policy.access_log.as_ref().map(|log| log.words());
    let or_none = |what: Option<String>| what.unwrap_or_else(|| "none".to_owned());
    let mut lines = vec![
        format!("metrics and status: {}", or_none(admin)),
        format!("access log: {}", or_none(log)),
    ];
    lines.extend(policy.request_id.iter().map(|it| format!("request ids: {}", it.words())));
    lines.extend(policy.tracing.iter().map(|it| format!("traces: {}", it.words())));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn policers_in_words_and_those_without_effect() {
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
            "  split   10/m: b 60% and 5 at once, c 40% and 9 at once; 5 unused by them for any class",
            "  rule.2  60/s and 20 at once for each flow; 1024 flows, 24KiB",
            "  every request is subject to site, and gets 503 beyond it",
            "  idle    1/s and 20 at once; clients are told what is left",
            "  1  (line 20)  path /s → b, policed by split",
        ] {
            assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
        }
        assert_eq!(
            crate::cli::warn::warnings(&policy),
            [
                "policer idle: never referenced",
                "policer split: class a has no share, and gets only what the others leave",
                "policer split: class c has a share, but is never subject to it",
            ]
        );
    }

    #[test]
    fn shares_of_a_queue_that_is_served_by_importance_are_worth_nothing() {
        let warned = |scheduling: &str, minimum: &str, control: &str| {
            let text = format!(
                "police = \"all\"\n[origin]\nservers = [\"a:1\"]\n{scheduling}\n\
                 [[pool]]\nname = \"batch\"\nservers = [\"b:1\"]\n\
                 [[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n{minimum}\n\
                 [[policer]]\nname = \"all\"\nrate = \"1000/s\"\n{control}\n\
                 share = [{{ class = \"b\", share = \"40%\" }}, {{ class = \"a\", share = \"60%\" }}]\n\
                 [[rule]]\npath = \"/a\"\nclass = \"a\"\n[[rule]]\nclass = \"b\"\n"
            );
            let mut warnings = crate::cli::warn::warnings(&parse(&text, "p.toml").unwrap());
            warnings.retain(|it| it.contains("whatever its share"));
            warnings
        };
        let follows = "control = { sensor = \"backlog\" }";
        let warnings = warned("", "", follows);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("policer all: ") && warnings[0].contains("class b waits"));
        for (scheduling, minimum, control) in [
            ("", "", ""),
            ("[scheduling]\npolicy = \"fifo\"", "", follows),
            ("", "minimum = \"10%\"", follows),
            // It waits elsewhere.
            ("", "pool = \"batch\"", follows),
        ] {
            let warnings = warned(scheduling, minimum, control);
            assert_eq!(warnings, [""; 0], "{scheduling} {minimum} {control}");
        }
    }

    #[test]
    fn pools_in_words_and_those_that_nothing_names() {
        let policy = parse(
            "[origin]\nservers = [\"a:1\"]\nhealth.path = \"/health\"\nslots_per_server = true\n\
             [[pool]]\nname = \"reports\"\nservers = [\"b:1\", \"b:2\"]\nslots = 5\nfallback = \"spare\"\n\
             failures_max = 7\n\
             [[pool]]\nname = \"spare\"\nservers = [\"a:1\"]\nhealth = false\n\
             [[pool]]\nname = \"idle\"\nservers = [\"c:1\"]\nshared = true\nslots_per_server = false\n\
             [[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\npool = \"reports\"\n\
             [[rule]]\npath = \"/x\"\npool = \"default\"\n[[rule]]\npath = \"/r\"\npool = \"reports\"\nslots = 6\n",
            "p.toml",
        );
        let policy = policy.unwrap();
        let words = meaning(&policy, "p.toml");
        for line in [
            "  reports: b:1, b:2; at each server at most 5 at once (fixed); while no server is usable, spare takes its requests",
            "    a server is left out after 7 failures in a row, and tried again after 1s",
            "  spare: a:1; at each server as many at once as it can take, measured continuously (adaptive)",
            "    health: no active checks",
            "  idle: c:1; as many at once as it can take with the requests of other gateways, measured at the same moments of the wall clock as they do (adaptive, shared)",
            "  2  b  waits at most 2s, at most 10000 in the queue, pool reports; takes requests that no rule matches",
            "  1  (line 25)  path /x → pool default",
        ] {
            assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
        }
        let expected = [
            "class a: no rule leads to it",
            "pool idle: never referenced",
            "rule 2 (line 28): takes 6 slots, and there are only 5",
        ];
        assert_eq!(crate::cli::warn::warnings(&policy), expected);
    }

    #[test]
    fn servers_with_slots_of_their_own_in_words() {
        let policy = parse(
            "[origin]\nservers = [\"a:1\", { address = \"b:1\", slots = 4 }]\n\
             [[pool]]\nname = \"mixed\"\nservers = [\"c:1\", { address = \"b:1\", slots = 2 }]\nslots = 5\n\
             slots_per_server = true\n\
             [[pool]]\nname = \"all\"\n\
             servers = [{ address = \"c:1\", slots = 3 }, { address = \"b:1\", slots = 4 }]\n\
             [[resource]]\nname = \"db\"\nslots = 6\npool = \"all\"\n\
             [[class]]\nname = \"a\"\nservice_target = { p99 = \"1s\" }\n\
             [[rule]]\npath = \"/m\"\npool = \"mixed\"\nslots = 6\n\
             [[rule]]\npath = \"/l\"\npool = \"all\"\nslots = 4\nresource = \"db\"\n",
            "p.toml",
        );
        let policy = policy.unwrap();
        let words = meaning(&policy, "p.toml");
        for line in [
            "  a:1",
            "  b:1: at most 4 at once (fixed), its own number",
            "  at each other server as many at once as it can take, measured continuously (adaptive)",
            "  mixed: c:1, b:1 (2 at once); at each other server at most 5 at once (fixed)",
            "  all: c:1 (3 at once), b:1 (4 at once)",
        ] {
            assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
        }
        let expected = [
            "class a: its service target has no effect at b:1, with slots of their own",
            "rule 1 (line 18): takes 6 slots, and there are only 5",
        ];
        assert_eq!(crate::cli::warn::warnings(&policy), expected);
    }

    #[test]
    fn resources_in_words_and_those_that_bound_nothing() {
        let policy = parse(
            "[origin]\nservers = [\"a:1\"]\n\
             [[pool]]\nname = \"reports\"\nservers = [\"b:1\"]\n\
             [[resource]]\nname = \"db\"\nslots = 4\n\
             [[resource]]\nname = \"far\"\nslots = \"adaptive\"\npool = \"reports\"\n\
             [[resource]]\nname = \"idle\"\nslots = 3\n\
             [[class]]\nname = \"a\"\nresource = \"db\"\n\
             [[rule]]\npath = \"/x\"\nclass = \"a\"\nresource = \"far\"\n",
            "p.toml",
        );
        let policy = policy.unwrap();
        let words = meaning(&policy, "p.toml");
        for line in [
            "  db, of pool default: at most 4 at once (fixed)",
            "  far, of pool reports: as many at once as it can take, measured continuously (adaptive)",
            "  1  a  waits at most 2s, at most 10000 in the queue, needs db; takes requests that no rule matches",
            "  1  (line 19)  path /x → a, needs far",
        ] {
            assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
        }
        let expected = [
            "pool reports: never referenced",
            "resource far: is of pool reports, and the requests that need it go to others",
            "resource idle: never referenced",
        ];
        assert_eq!(crate::cli::warn::warnings(&policy), expected);
        let twice = "[origin]\nservers = [\"a:1\"]\n[[resource]]\nname = \"db\"\nslots = 1\n[[resource]]\nname = \"db\"\nslots = 1\n\
                     [[class]]\nname = \"a\"\nresource = \"bd\"\n";
        let fault = parse(twice, "p.toml").unwrap_err().to_string();
        assert!(fault.contains("another resource is called \"db\" already"), "{fault}");
        assert!(fault.contains("no resource is called \"bd\", expected one of"), "{fault}");
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
            "p.toml is a valid policy.",
            "  127.0.0.1:8080  http, HTTP/1.1 and HTTP/2",
            "  at most 8 at once (fixed)",
            "  1  checkout  waits at most 2s, at most 10000 in the queue, guaranteed 12.5% of the slots",
            "  2  rest      never waits; takes requests that no rule matches",
            "  1  (line 11)  path /cart/* or /pay and header accept present → checkout",
            "  2  (line 15)  client in 10.0.0.0/8 → refused (counted in rest), answered with 403",
            "  503 with Retry-After from 1s to 30s by the length of the queue, plus up to half as much; a built-in page, JSON or plain text by Accept",
            "  at most 20% of the requests of the last 10s, and 10 a second, are retried",
            "  metrics and status: http://127.0.0.1:8434",
        ] {
            assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
        }
        assert!(!words.contains("Warnings"), "{words}");
    }
}
