//! `[kernel]`: what the kernel refuses before the gateway sees it.

use super::kind::{Choice, one_or_many};
use super::link::INTERFACE;
use super::place::At;
use super::section::{Kind, section};
use super::show;
use super::values::{FLAG, SHARE, TIME};
use crate::interface::name::InterfaceName;
use std::time::Duration;

/// Most interfaces.
const INTERFACES_MAX: usize = 64;

section! {
    /// What the kernel refuses before the gateway sees it. Needs root, or `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`, or, by nftables, `CAP_NET_ADMIN` alone; without them, or on an
    /// interface that is missing, a warning says so and the gateway refuses by itself.
    pub(super) struct KernelKeys {
        /// The network interfaces that clients' packets come in by, such as `"eth0"`.
        interfaces: Vec<At<InterfaceName>> = one_or_many(INTERFACE, INTERFACES_MAX, "interfaces").needed("write interfaces = [\"eth0\"]");
        /// What does it: `"ebpf"`: programs; `"nftables"`: a table of the gateway's own, which polices SYNs and judges no requests; `"auto"`: programs, or where they cannot be loaded or put at any of the interfaces, nftables.
        /// Why: programs are exact also for shares of classes, and cost least.
        mechanism: Mechanism = Choice(&[
            ("auto", Mechanism::Auto),
            ("ebpf", Mechanism::Ebpf),
            ("nftables", Mechanism::Nftables),
        ]).or("auto");
        /// Whether policers are enforced at the first packet (SYN) of connections while there is an overload: those that the client's address and the listener
        /// decide. A SYN without a token is dropped silently; `tiergate check` says which policers go early.
        police: bool = FLAG.or(true);
        /// What becomes, under overload, of the first request of a connection that is subject to a policer by its path, method and listener alone, and finds no token: `"pass"`: the gateway refuses it; `"answer"`: the
        /// kernel answers 429 with `Retry-After`; `"reset"`: the kernel resets the connection. On listeners without TLS, `proxy_protocol` and `share_port`, and only without `trusted`; they then accept connections with their first data only.
        /// Why: answers of the kernel are not in the access log, and are not the refusal page.
        requests: RequestsInKernel = Choice(&[
            ("pass", RequestsInKernel::Pass),
            ("answer", RequestsInKernel::Answer),
            ("reset", RequestsInKernel::Reset),
        ]).or("pass");
        /// There is an overload while policers refuse this share of what comes, here or in the kernel, for three seconds; until it is less than a tenth of it for ten. More than 0%. SYNs for which the system's queue has no room count as refused, unless their clients come back with a SYN cookie; where they are 10,000 a second and nine tenths of what comes, two are enough. Refusals for want of capacity do not count.
        /// Why: a refusal tells the client when to come back, and a dropped packet tells it nothing; so the kernel is the last resort.
        begin: f64 = SHARE.or("20%");
        /// Which clients' SYNs are dropped while `[refusal.block]` blocks them: `"none"`; `"certain"`: those whose requests are
        /// surely not of the most important class, by their address; `"all"`: also those whose requests might be, which the gateway would not block. Never those of `trusted` proxies.
        /// Why: one client behind an address that many share blocks them all.
        block: BlockInKernel = Choice(&[
            ("none", BlockInKernel::None),
            ("certain", BlockInKernel::Certain),
            ("all", BlockInKernel::All),
        ]).or("none");
        /// How long SYNs of a client pass, whatever else is said of it, from the last request of a running [`[session]`](#session-running-sessions) of it.
        /// Why: longer than people think before they go on; so that they get in again when their connection has timed out.
        let_in: Duration = TIME.or("5m");
    }
}

/// What polices in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Programs, or else nftables.
    Auto,
    /// Programs.
    Ebpf,
    /// nftables.
    Nftables,
}

/// What becomes of first requests without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestsInKernel {
    /// The gateway refuses them.
    Pass,
    /// The kernel answers.
    Answer,
    /// The kernel resets the connection.
    Reset,
}

/// Which clients' SYNs are dropped while they are blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockInKernel {
    /// None.
    None,
    /// Those whose requests the gate would refuse, whatever they ask for.
    Certain,
    /// All.
    All,
}

/// What the kernel is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSettings {
    /// Where clients' packets come in.
    pub interfaces: Vec<String>,
    /// What does it.
    pub mechanism: Mechanism,
    /// Whether it polices under overload.
    pub police: bool,
    /// What becomes of first requests without a token.
    pub requests: RequestsInKernel,
    /// The share of refusals that is an overload.
    pub begin: f64,
    /// Which blocked clients it keeps out.
    pub block: BlockInKernel,
    /// How long clients of running sessions pass.
    pub let_in: Duration,
}

impl KernelSettings {
    /// Whether it refuses by the first request of a connection: nftables does not.
    pub fn judges_requests(&self) -> bool {
        self.requests != RequestsInKernel::Pass && self.mechanism != Mechanism::Nftables
    }
}

/// As it is meant.
pub(super) fn kernel(At { value: raw, place }: At<KernelKeys>, has_blocks: bool) -> KernelSettings {
    let KernelKeys { interfaces, mechanism, police, requests, begin, block, let_in } = raw;
    if begin == 0.0 {
        place.fault_at("begin", "must be more than 0%: with none refused there is no overload");
    }
    if block != BlockInKernel::None && !has_blocks {
        place.fault_at("block", "needs [refusal.block], which says when a client is blocked");
    }
    let interfaces = interfaces.into_iter().map(|it| it.value.as_str().to_owned()).collect();
    if requests != RequestsInKernel::Pass && !police {
        place.fault_at("requests", "needs police = true");
    }
    KernelSettings { interfaces, mechanism, police, requests, begin, block, let_in }
}

/// For `tiergate check`: what is done where.
pub(crate) fn words(settings: &KernelSettings) -> Vec<String> {
    let KernelSettings { interfaces, mechanism, police, requests, begin, block, let_in } = settings;
    let on = interfaces.join(", ");
    let mut lines = vec![match police {
        true => format!(
            "on {on}: under overload, while policers refuse {} of what comes, SYNs without a token are dropped",
            show::share(*begin)
        ),
        false => format!("on {on}: no SYN is policed"),
    }];
    lines.extend(match mechanism {
        Mechanism::Auto => Some("by programs (eBPF); where there are none by nftables, which judges no requests and lets through more of policers with shares"),
        Mechanism::Ebpf => None,
        Mechanism::Nftables => Some("by nftables, which lets through more of policers with shares"),
    }.map(str::to_owned));
    lines.extend(match requests {
        RequestsInKernel::Pass => None,
        _ if !settings.judges_requests() => {
            Some("nftables judges no first requests: the gateway refuses them".to_owned())
        }
        RequestsInKernel::Answer => {
            Some("first requests without a token are answered by the kernel, 429".to_owned())
        }
        RequestsInKernel::Reset => Some(
            "connections whose first request finds no token are reset by the kernel".to_owned(),
        ),
    });
    lines.extend(match block {
        BlockInKernel::None => None,
        BlockInKernel::Certain => Some("SYNs of blocked clients are dropped, unless their requests may be of the most important class".to_owned()),
        BlockInKernel::All => Some("SYNs of blocked clients are dropped".to_owned()),
    });
    lines.push(format!(
        "SYNs of clients with a running session pass for {} after its last request",
        show::time(*let_in)
    ));
    lines
}
