//! Tries the programs, and nftables, for `tiergate doctor`: each is loaded, and attached in a network namespace that ends with the attempt.

use std::process::{Command, Stdio};
use tiergate_kernel::{HttpGate, NftGate, SteerGate, SynGate};

/// What `tiergate doctor` runs in the namespace: this program, with this word.
const WORD: &str = "probe-kernel";
/// The name of each, and what it is for.
const MECHANISMS: [(&str, &str); 4] = [
    ("kernel-syn", "kernel: SYNs policed (XDP)"),
    ("kernel-http", "kernel: first requests policed (tcx)"),
    ("kernel-nftables", "kernel: SYNs policed (nftables)"),
    ("kernel-steer", "kernel attach: connections steered by class (sk_lookup)"),
];

/// What is missing for each of them; `None`: it works.
type Found = [Option<String>; MECHANISMS.len()];

/// Tries each where it is: name, what for, what is missing. Leaves nothing behind.
pub fn in_scratch() -> impl Iterator<Item = (&'static str, &'static str, Option<String>)> {
    // In a namespace that cannot be made nothing can be attached; but what may load a program of this kind, or make a table, may attach it, too.
    let loaded = || {
        [
            SynGate::load().err(),
            HttpGate::load().err(),
            NftGate::load().err(),
            SteerGate::load().err(),
        ]
    };
    let found = attached().unwrap_or_else(|| loaded().map(|it| it.map(|it| it.to_string())));
    MECHANISMS.into_iter().zip(found).map(|((name, what), fault)| (name, what, fault))
}

/// In a namespace of its own; `None`: none can be made.
fn attached() -> Option<Found> {
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--"]).arg(program).arg(WORD);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

/// What came of loading and attaching each in this network namespace, as JSON.
///
/// # Errors
/// None.
pub fn as_json() -> anyhow::Result<String> {
    let syn = SynGate::load().and_then(|mut gate| gate.attach("lo"));
    let http = HttpGate::load().and_then(|mut gate| gate.attach("lo"));
    let nft = NftGate::load().and_then(|mut gate| gate.attach("lo"));
    let steer = SteerGate::load().and_then(|mut gate| gate.attach());
    let found: Found =
        [syn.err(), http.err(), nft.err(), steer.err()].map(|it| it.map(|fault| fault.to_string()));
    Ok(serde_json::to_string(&found)?)
}
