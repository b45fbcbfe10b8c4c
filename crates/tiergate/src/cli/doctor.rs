//! `tiergate doctor`: which mechanisms of the machine work, and which right or tool is missing for the others.
//!
//! Each is tried for real, on a scratch process, socket or network namespace that is gone afterwards. Nothing else is changed.

use super::grants;
use super::stdout::print;
use crate::config;
use crate::config::meant::Processes;
use crate::kernel;
use crate::saved_syn;
use crate::workers::probe;
use anyhow::anyhow;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tiergate_core::workers::{Capacity, Shares};
use tiergate_draw::{Paint, Table};

/// How long a tool may take.
const TOOL_MAX: Duration = Duration::from_secs(5);

/// What `tiergate doctor` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// A policy: what its workers ask for is tried, too. The exit code is 1 if any of that is missing
    #[arg(value_name = "POLICY.toml")]
    policy: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What came of trying a mechanism.
struct Finding {
    name: String,
    what: String,
    /// What is missing, and what to do; `None`: it works.
    fault: Option<String>,
}

/// Tries a mechanism; says what is missing.
type Attempt = fn() -> Result<(), String>;

/// Tries everything and says what came of it.
///
/// # Errors
/// The policy has faults, or what it asks for is missing.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let asked = match &options.policy {
        Some(path) => of_policy(path)?,
        None => Vec::new(),
    };
    let machine = of_machine();
    let capacity = probe::capacity();
    let text = match options.json {
        true => format!("{:#}\n", as_json(&machine, &asked, capacity)),
        false => as_table(&machine, &asked, capacity, options.policy.is_some()),
    };
    print(Ok::<_, anyhow::Error>(text))?;
    match asked.iter().filter(|it| it.fault.is_some()).count() {
        0 => Ok(()),
        count => Err(anyhow!(
            "{count} of the mechanisms that the policy asks for are missing; the gateway runs without them"
        )),
    }
}

fn of_machine() -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, what, shares) in probe::examples() {
        let fault = match probe::try_shares(&shares, name) {
            Ok(effects) => effects.into_iter().find_map(|effect| effect.fault),
            Err(fault) => Some(format!("{fault:#}")),
        };
        findings.push(Finding { name: name.to_owned(), what: what.to_owned(), fault });
    }
    let others: [(&str, &str, Attempt); 6] = [
        ("systemd", "workers: unit", systemd),
        ("dscp", "classes: dscp of answers", dscp),
        ("saved-syn", "rules: dscp of clients", saved),
        ("pressure", "sensors: measure = \"pressure\"", pressure),
        ("namespaces", "network namespaces, for tests and the lab", namespaces),
        ("htb", "HTB, which dscp of answers can steer", htb),
    ];
    findings.extend(kernel::probe::in_scratch().map(|(name, what, fault)| Finding {
        name: name.to_owned(),
        what: what.to_owned(),
        fault,
    }));
    findings.extend(others.map(|(name, what, attempt)| Finding {
        name: name.to_owned(),
        what: what.to_owned(),
        fault: attempt().err(),
    }));
    findings
}

/// What the workers of a policy ask for.
fn of_policy(path: &std::path::Path) -> anyhow::Result<Vec<Finding>> {
    let policy = config::load(path)?;
    let mut findings = Vec::new();
    for workers in &policy.workers {
        let pool = workers.pool_name();
        let (found, shares) = match &workers.processes {
            Processes::Started(_) => (None, workers.shares),
            // What is of their group cannot be tried on a process of ours.
            others => {
                let shares = Shares { cpu_weight: None, cpu_quota: None, ..workers.shares };
                (Some(of_others(others, &workers.shares)), shares)
            }
        };
        findings.extend(found.map(|(what, fault)| {
            let name = format!("{pool}: processes");
            Finding { name, what, fault }
        }));
        let effects = probe::try_shares(&shares, pool)?;
        findings.extend(effects.into_iter().map(|effect| Finding {
            name: format!("{pool}: {}", effect.mechanism.name()),
            what: effect.asked,
            fault: effect.fault,
        }));
    }
    // That one can be had does not mean that all can.
    let refused = probe::capacity().map(|capacity| grants::faults(&policy, capacity));
    findings.extend(refused.unwrap_or_default().into_iter().map(|fault| Finding {
        name: fault.key,
        what: "reservations of all workers".to_owned(),
        fault: Some(fault.message),
    }));
    Ok(findings)
}

const NOT_OURS: &str =
    "systemctl set-property may refuse weight and quota: only root may change them for certain";

/// Processes that others start: which, and why they are not found, or cannot be given what is asked for.
fn of_others(processes: &Processes, shares: &Shares) -> (String, Option<String>) {
    match processes {
        Processes::Unit(unit) => {
            let active = tool("systemctl", &["is-active", "--quiet", "--", unit]);
            let active = active.map_err(|fault| format!("it is not running: {fault}"));
            let may = || match rustix::process::geteuid().is_root() || !shares.needs_group() {
                true => Ok(()),
                false => Err(NOT_OURS.to_owned()),
            };
            (format!("unit {unit}"), active.and_then(|()| may()).err())
        }
        Processes::Group(path) => {
            let tried = probe::try_group(path, shares).err();
            (format!("control group /{}", path.display()), tried.map(|fault| format!("{fault:#}")))
        }
        Processes::Started(_) => (String::new(), None),
    }
}

fn as_table(
    machine: &[Finding],
    asked: &[Finding],
    capacity: Option<Capacity>,
    has_policy: bool,
) -> String {
    let table = |findings: &[Finding]| {
        let mut table =
            Table::new(["<mechanism", "<for", "<state", "<what is missing, and what to do"]);
        for Finding { name, what, fault } in findings {
            let state = if fault.is_none() { "works" } else { "missing" };
            let fault = fault.clone().unwrap_or_default();
            table.row([name.clone(), what.clone(), state.to_owned(), fault]);
        }
        table.render(Paint::PLAIN)
    };
    let mut text = format!("This machine\n{}", table(machine));
    if let Some(capacity) = capacity {
        let total = (capacity.total() * 1000.0).round() / 10.0;
        text += &format!(
            "\nThe kernel grants reservations ({{ slice, period }}) of {total}% of a processor in all, on {} processors.\n",
            capacity.processors
        );
    }
    let [syns, requests] = in_kernel(machine).map(|it| match it {
        "ebpf" => "by a program (eBPF)",
        "nftables" => "by nftables",
        _ => "by the gateway alone",
    });
    text += &format!("\nWith [kernel] SYNs are policed {syns}, and first requests {requests}.\n");
    text += "\nTried with the rights of this command; a gateway that runs as another user, or as a service, may have others.\n";
    if has_policy {
        text += "\nWhat the policy asks for\n";
        text += &match asked.is_empty() {
            true => "  nothing of this\n".to_owned(),
            false => table(asked),
        };
    }
    text
}

/// What `[kernel]` would have: for SYNs and for first requests.
fn in_kernel(machine: &[Finding]) -> [&'static str; 2] {
    let works = |name| machine.iter().any(|it| it.name == name && it.fault.is_none());
    let syns = match (works("kernel-syn"), works("kernel-nftables")) {
        (true, _) => "ebpf",
        (false, true) => "nftables",
        (false, false) => "none",
    };
    [syns, if works("kernel-http") { "ebpf" } else { "none" }]
}

fn as_json(machine: &[Finding], asked: &[Finding], capacity: Option<Capacity>) -> Json {
    let list = |findings: &[Finding]| -> Vec<Json> {
        let one = |it: &Finding| json!({ "name": it.name, "for": it.what, "works": it.fault.is_none(), "missing": it.fault });
        findings.iter().map(one).collect()
    };
    json!({
        "machine": list(machine),
        "policy": list(asked),
        "kernel": {
            "syns": in_kernel(machine)[0],
            "requests": in_kernel(machine)[1],
        },
        "reservations": capacity.map(|it| json!({ "processors": it.processors, "total": it.total() })),
    })
}

fn systemd() -> Result<(), String> {
    tool("systemctl", &["show", "--property=Version"])
        .map_err(|fault| format!("{fault}; name the control group instead of a unit"))
}

fn dscp() -> Result<(), String> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let marked = socket2::SockRef::from(&socket).set_tos_v4(46 << 2);
    marked.map_err(|error| error.to_string())
}

fn saved() -> Result<(), String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    saved_syn::keep(&listener, true).map_err(|error| error.to_string())
}

fn pressure() -> Result<(), String> {
    let read = std::fs::read("/proc/pressure/cpu");
    read.map(|_| ()).map_err(|error| {
        format!("/proc/pressure: {error}; the kernel needs CONFIG_PSI, and psi=1 at its start")
    })
}

const NEEDS: &str = "needs CAP_SYS_ADMIN and CAP_NET_ADMIN";

fn namespaces() -> Result<(), String> {
    tool("unshare", &["--net", "true"]).map_err(|fault| format!("{fault}; {NEEDS}"))
}

/// On the loopback interface of a network namespace that ends with the command.
fn htb() -> Result<(), String> {
    let words = ["--net", "tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb"];
    tool("unshare", &words)
        .map_err(|fault| format!("{fault}; {NEEDS}, iproute2 and the kernel's sch_htb"))
}

/// Runs a tool, for a while at most.
fn tool(name: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(name);
    // Some tools are where only root looks.
    let known = std::env::var("PATH").unwrap_or_default();
    let path: Vec<&str> =
        known.split(':').chain(["/usr/sbin", "/sbin"]).filter(|it| !it.is_empty()).collect();
    command.args(arguments).env("PATH", path.join(":")).stdin(Stdio::null());
    let spawned = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("cannot run {name}: {error}"))?;
    let until = Instant::now() + TOOL_MAX;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} does not answer"));
            }
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    if let Some(mut error) = child.stderr.take() {
        let _ = std::io::Read::read_to_string(&mut error, &mut said);
    }
    let said = said.lines().next().unwrap_or("it failed");
    Err(if said.starts_with(name) { said.to_owned() } else { format!("{name}: {said}") })
}
