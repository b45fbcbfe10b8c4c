//! Three machines on one: clients, gateway and origin, each in a network namespace of its own.
//!
//! ```text
//!  clients 10.77.0.2–.241 ──veth── 10.77.0.1 gateway 10.77.1.1 ──veth── 10.77.1.2 origin
//! ```
//!
//! The gateway's machine forwards packets, so that with nothing in front the clients reach the
//! origin over the same two links. A link is as fast as the machine or shaped in both directions, and that of the clients may
//! be a long one ([`super::delay`]).
//!
//! The names carry our process id. Dropped, the namespaces are removed, and their links with them;
//! what a killed lab has left behind is removed by the next one.

use super::delay::DelayLine;
use crate::units;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What the names of our namespaces begin with.
const PREFIX: &str = "tglab";
/// Networks made by this process.
static MADE: AtomicU32 = AtomicU32::new(0);
/// Where `ip netns` keeps the names.
const DIRECTORY: &str = "/run/netns";
/// Addresses of the clients' machine: 10.77.0.2 and so on. So many that, as with people, few who are
/// there at the same time share one.
pub(super) const CLIENT_ADDRESSES: u8 = 240;
/// A shaped link's queue: how long a packet may wait in it.
const QUEUE: &str = "200ms";
/// What leaves at once after a pause; where packets leave one by one, three of them, or else timers would cost some of the rate.
const BURST: &str = "32kb";
const ONE_PACKET: &str = "5kb";
/// Congestion control of every machine's connections: Linux's default, whatever this machine has set. With BBR, an answer on a kept connection took
/// 31 ms at first and 44 some seconds after the load had risen, on a link with round trips of 20 ms and nothing beside it.
pub(super) const CONGESTION: &str = "cubic";

/// The speeds of the links, in the words of `tc` (`10mbit`); none: as fast as the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Links {
    /// Between clients and gateway.
    pub(super) clients: Option<String>,
    /// The same in each phase ([`super::changes`]); none: it stays as it is.
    #[serde(default)]
    pub(super) changes: Vec<String>,
    /// Between gateway and origin.
    pub(super) origin: Option<String>,
    /// Whether packets leave one by one, as on a wire. Else up to 32 KiB leave at once after a pause, and what the kernel hands on in one piece
    /// stays so.
    #[serde(default)]
    pub(super) exact: bool,
    /// Queues of the link between clients and gateway, each of 256 packets in each direction for a receiver with a program at its interface (XDP). One is 0.8 ms of 320,000 packets a second; four have room for as
    /// many as the system keeps of what is received elsewhere, 1,000 (`netdev_max_backlog`), or a network adapter.
    #[serde(default)]
    pub(super) queues: Option<NonZero<u8>>,
    /// How long a packet is on its way between clients and gateway, in each direction, after it has left the queue. Packets leave one by one then.
    #[serde(default, with = "units::text")]
    pub(super) delay: Duration,
    /// Whether what the gateway sends to the clients is shaped by `tiergate link setup`, in place of the lab's own shaper.
    #[serde(default)]
    pub(super) tree: bool,
}

impl Links {
    /// Whether it can be made for so many phases.
    pub(super) fn check(&self, phases: usize) -> Result<()> {
        ensure!(self.queues.is_none() || self.delay.is_zero(), "link: a long one has one queue");
        if self.changes.is_empty() {
            return Ok(());
        }
        ensure!(
            self.changes.len() == phases,
            "link: {} changes for {phases} phases",
            self.changes.len()
        );
        ensure!(!self.tree, "link: a tree does not change");
        ensure!(
            self.clients.as_ref() == self.changes.first(),
            "link: it begins with the first of its changes"
        );
        Ok(())
    }

    /// What leaves at once after a pause.
    fn burst(&self) -> &'static str {
        if self.exact { ONE_PACKET } else { BURST }
    }
}

/// The link between clients and gateway, to give it another rate while a run is under way.
#[derive(Clone, Debug)]
pub(super) struct ClientsLink {
    /// Namespace and device.
    ends: [(String, &'static str); 2],
    burst: &'static str,
}

impl ClientsLink {
    /// Gives it another rate. What waits in its queues stays there.
    pub(super) fn change(&self, rate: &str) -> Result<()> {
        let mut ends = self.ends.iter();
        ends.try_for_each(|(name, device)| shape("change", name, device, rate, self.burst))
    }
}

/// Network namespaces could not be made: without them there is no lab.
#[derive(Debug)]
pub(super) struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot make network namespaces; run the lab as root ({})", self.0)
    }
}

impl std::error::Error for Refused {}

/// The machines of one run.
pub(super) struct Network {
    /// The namespace of the clients.
    pub(super) clients: String,
    /// The namespace of the gateway.
    pub(super) gateway: String,
    /// The namespace of the origin.
    pub(super) origin: String,
    /// The link between clients and gateway, if it is a long one.
    line: Option<DelayLine>,
}

impl Network {
    /// Makes the machines and connects them. Needs the right to administer networks.
    pub(super) fn make(links: &Links) -> Result<Self> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = |role: &str| format!("{PREFIX}{}-{number}{role}", std::process::id());
        let (clients, gateway, origin) = (name("c"), name("g"), name("o"));
        let mut network = Self { clients, gateway, origin, line: None };
        network.fill(links).map_err(|error| Refused(format!("{error:#}")))?;
        Ok(network)
    }

    fn fill(&mut self, links: &Links) -> Result<()> {
        allow_congestion()?;
        let [c, g, o] = [&self.clients, &self.gateway, &self.origin];
        for name in [c, g, o] {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        match links.delay {
            Duration::ZERO => {
                let queues = links.queues.map_or(String::new(), |queues| {
                    format!(" numtxqueues {queues} numrxqueues {queues}")
                });
                ip(&format!(
                    "link add wire netns {c}{queues} type veth peer name outer netns {g}{queues}"
                ))?;
            }
            delay => {
                let (line, [one, other]) = DelayLine::make(delay)?;
                self.line = Some(line);
                ip(&format!("link set {one} netns {c} name wire"))?;
                ip(&format!("link set {other} netns {g} name outer"))?;
            }
        }
        ip(&format!("link add inner netns {g} type veth peer name wire netns {o}"))?;
        for last in 2..2 + CLIENT_ADDRESSES {
            ip(&format!("-n {c} address add 10.77.0.{last}/24 dev wire"))?;
        }
        ip(&format!("-n {g} address add 10.77.0.1/24 dev outer"))?;
        ip(&format!("-n {g} address add 10.77.1.1/24 dev inner"))?;
        ip(&format!("-n {o} address add 10.77.1.2/24 dev wire"))?;
        for (name, device) in [(c, "wire"), (g, "outer"), (g, "inner"), (o, "wire")] {
            ip(&format!("-n {name} link set {device} up"))?;
        }
        ip(&format!("-n {c} route add default via 10.77.0.1"))?;
        ip(&format!("-n {o} route add default via 10.77.1.1"))?;
        for (name, setting, value) in [
            (c, "ipv4/tcp_congestion_control", CONGESTION),
            (g, "ipv4/tcp_congestion_control", CONGESTION),
            (o, "ipv4/tcp_congestion_control", CONGESTION),
            (g, "ipv4/ip_forward", "1"),
            // An overload opens thousands of connections a second from a handful of addresses, and a
            // port that its client has closed rests for a minute by default: with httperf at 2,000
            // connections a second none was left after 7 seconds, and it reported want of descriptors.
            (c, "ipv4/ip_local_port_range", "1024 65000"),
            (c, "ipv4/tcp_tw_reuse", "1"),
            (g, "ipv4/ip_local_port_range", "1024 65000"),
            (g, "ipv4/tcp_tw_reuse", "1"),
            // What operators of busy servers set; the default of 4,096 on recent kernels.
            (g, "core/somaxconn", "4096"),
            (o, "core/somaxconn", "4096"),
        ] {
            set(name, setting, value)?;
        }
        for (rate, ends) in [
            (&links.clients, [(c, "wire"), (g, "outer")]),
            (&links.origin, [(g, "inner"), (o, "wire")]),
        ] {
            let Some(rate) = rate else { continue };
            for (name, device) in ends {
                if links.tree && device == "outer" {
                    continue;
                }
                if links.exact {
                    ip(&format!(
                        "-n {name} link set dev {device} gso_max_size 1514 gso_max_segs 1"
                    ))?;
                }
                shape("add", name, device, rate, links.burst())?;
            }
        }
        Ok(())
    }

    /// The link between clients and gateway.
    pub(super) fn clients_link(&self, links: &Links) -> ClientsLink {
        let ends = [(self.clients.clone(), "wire"), (self.gateway.clone(), "outer")];
        ClientsLink { ends, burst: links.burst() }
    }

    /// Gives each connection of the clients the next of their addresses, for a load generator that cannot choose one: the
    /// limits by client of a contender would meet all its clients as one.
    pub(super) fn spread(&self) -> Result<()> {
        let addresses: Vec<String> =
            (0..CLIENT_ADDRESSES).map(|n| format!("{n} : {}", Self::client(n))).collect();
        let rules = format!(
            "add table ip spread; \
             add chain ip spread out {{ type nat hook postrouting priority srcnat; }}; \
             add rule ip spread out oifname wire meta l4proto tcp \
             snat to numgen inc mod {CLIENT_ADDRESSES} map {{ {} }}",
            addresses.join(", ")
        );
        command("ip", ["netns", "exec", &self.clients, "nft", &rules])
    }

    /// Has the gateway's program shape what leaves for the clients, where an experiment says so, as an operator would have it.
    pub(super) fn shape_by(&self, gateway: &Path, links: &Links) -> Result<()> {
        let Some(rate) = links.clients.as_deref().filter(|_| links.tree) else { return Ok(()) };
        if links.exact {
            ip(&format!(
                "-n {} link set dev outer gso_max_size 1514 gso_max_segs 1",
                self.gateway
            ))?;
        }
        let program = gateway.to_str().context("the gateway's path is not UTF-8")?;
        let words = ["netns", "exec", &self.gateway, program, "link", "setup", "outer"];
        command("ip", words.into_iter().chain(["--capacity", rate, "--yes"]))
    }

    /// Where the gateway takes requests.
    pub(super) const LISTEN: SocketAddr = address([10, 77, 0, 1], 8080);
    /// Where the gateway takes its operator's, on its own machine.
    pub(super) const ADMIN: SocketAddr = address([127, 0, 0, 1], 9900);
    /// Where the origin listens.
    pub(super) const ORIGIN: SocketAddr = address([10, 77, 1, 2], 8081);

    /// Address number `n` of the clients' machine, from 0.
    pub(super) fn client(n: u8) -> IpAddr {
        Ipv4Addr::new(10, 77, 0, 2 + n % CLIENT_ADDRESSES).into()
    }
}

const fn address([a, b, c, d]: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.clients, &self.gateway, &self.origin] {
            // One that was never made cannot be removed, which is as good.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// Removes the namespaces of labs that are no longer alive. Returns how many.
pub(super) fn remove_left_behind() -> usize {
    let names = std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    let dead = |name: &String| {
        let pid: Option<u32> = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_suffix(['c', 'g', 'o']))
            .and_then(|rest| rest.split_once('-')?.0.parse().ok());
        pid.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    };
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(dead).filter(|name| ip(&format!("netns del {name}")).is_ok()).count()
}

/// Runs `ip` with these words.
fn ip(words: &str) -> Result<()> {
    command("ip", words.split(' '))
}

/// Has the system allow [`CONGESTION`] in namespaces, where it has another by default: what each connection of this machine uses stays.
fn allow_congestion() -> Result<()> {
    let setting = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    let allowed =
        std::fs::read_to_string(setting).with_context(|| format!("cannot read {setting}"))?;
    match allowed.split_whitespace().any(|name| name == CONGESTION) {
        true => Ok(()),
        false => std::fs::write(setting, format!("{} {CONGESTION}", allowed.trim()))
            .with_context(|| format!("cannot allow {CONGESTION} in {setting}")),
    }
}

/// Writes a setting of a namespace's network.
fn set(namespace: &str, setting: &str, value: &str) -> Result<()> {
    let script = format!("echo '{value}' > /proc/sys/net/{setting}");
    command("nsenter", [&format!("--net={DIRECTORY}/{namespace}"), "--", "sh", "-c", &script])
}

/// Limits what a device sends, or changes (`add`, `change`) the limit that it has.
fn shape(verb: &str, namespace: &str, device: &str, rate: &str, burst: &str) -> Result<()> {
    let words = format!(
        "-n {namespace} qdisc {verb} dev {device} root tbf rate {rate} burst {burst} latency {QUEUE}"
    );
    command("tc", words.split(' '))
}

fn command<'a>(program: &str, words: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let words: Vec<&str> = words.into_iter().collect();
    let output = Command::new(program)
        .args(&words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}; is it installed?"))?;
    let (words, said) = (words.join(" "), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{program} {words}: {}", said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Links, Network};
    use std::process::{Command, Output};
    use std::time::Duration;

    const DELAY: Duration = Duration::from_millis(20);
    const SENT: usize = 200;
    /// Sends numbered datagrams to an echo at the other end, all at once; prints how many came back in order, and the shortest time in
    /// microseconds.
    const ASKS: &str = r#"
import socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sock.settimeout(5)
sock.sendto(b"first", ("10.77.0.1", 9000)); sock.recv(100)
sent = []
for n in range(int(sys.argv[1])):
    sent.append(time.monotonic()); sock.sendto(str(n).encode(), ("10.77.0.1", 9000))
times = []
for n in range(len(sent)):
    if sock.recv(100) == str(n).encode(): times.append(time.monotonic() - sent[n])
print(len(times), int(min(times) * 1e6))
"#;
    const ECHOES: &str = r#"
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sock.bind(("10.77.0.1", 9000)); sock.settimeout(5)
print("ready", flush=True)
for n in range(int(sys.argv[1]) + 1): data, peer = sock.recvfrom(100); sock.sendto(data, peer)
"#;

    fn python(namespace: &str, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{namespace}"));
        command.args(["--", "python3", "-c", script, &SENT.to_string()]);
        command
    }

    /// How many datagrams came back in order, and the shortest time.
    fn round_trips(links: &Links) -> (usize, Duration) {
        let network = Network::make(links).unwrap();
        let mut echo = python(&network.gateway, ECHOES);
        let mut echo = echo.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(echo.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let Output { stdout, stderr, .. } = python(&network.clients, ASKS).output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert!(echo.wait().unwrap().success(), "{stderr}");
        let mut words = stdout.split_whitespace().map(|it| it.parse::<u64>().expect(&stderr));
        (words.next().unwrap() as usize, Duration::from_micros(words.next().unwrap()))
    }

    #[test]
    fn a_frame_takes_the_delay_in_each_direction_and_none_is_lost_or_overtaken() {
        let (near, far) = (Links::default(), Links { delay: DELAY, ..Links::default() });
        let ((all_near, short), (all_far, long)) = (round_trips(&near), round_trips(&far));
        assert_eq!((all_near, all_far), (SENT, SENT));
        assert!(long >= 2 * DELAY && long >= short + DELAY, "{short:?}, {long:?}");
    }
}
