//! Floods of SYNs under way beside the clients' requests: `[[flood]]` of an experiment.
//!
//! They come from the clients' machine, by the same link ([`crate::flood`]). What a machine receives is worked on by its own processor, as machines do: on a link between namespaces
//! of one machine it would be the sender's, and a flood would cost the gateway nothing. So packets are handed to the receiver's processors (RPS), and where the gateway has a program at its
//! interface (XDP), the threads that run it are there as well. Answers to forged addresses are dropped where they arrive.
//!
//! How many there were, the interface's counters say: what the sender put on the link, and what of it found a place in the receiver's queue.

use super::apart::Place;
use super::experiment::Experiment;
use super::flood::Flood;
use super::machine::Split;
use super::network::Network;
use super::result::Phase;
use crate::cpu;
use crate::flood::{Plan, Step};
use crate::process::{Program, Running, output};
use anyhow::{Context, Result, bail, ensure};
use procfs::process::all_processes;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// The interfaces of the link between clients and gateway, at either end.
const CLIENTS_END: &str = "wire";
const GATEWAYS_END: &str = "outer";
/// The clients' address by which forged ones seem to be reached.
const NEXT_HOP: &str = "10.77.0.2";
/// The clients' own.
const CLIENTS: &str = "10.77.0.0/24";
/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the gateway has to put its program at the interface.
const SETTLING: Duration = Duration::from_secs(1);
/// What is less of the rate than this is not the flood that the experiment says.
const RATE_LEAST: f64 = 0.95;

/// What was seen of floods, second by second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Flooded {
    /// Packets that the clients' machine put on the link.
    pub(super) sent: Vec<f64>,
    /// Of them, those that found a place in the gateway's queue for what it receives.
    pub(super) arrived: Vec<f64>,
    /// Why a sender was no longer there at the end.
    ended: Option<String>,
}

/// Makes the machines ready, before anything is started on them.
pub(super) async fn prepare(
    experiment: &Experiment,
    network: &Network,
    split: &Split,
) -> Result<()> {
    if experiment.floods.is_empty() {
        return Ok(());
    }
    let mut gateway = receive_on(GATEWAYS_END, split.front.as_deref());
    for flood in &experiment.floods {
        gateway += &format!("ip route add {} via {NEXT_HOP}\n", flood.from);
    }
    let mut clients = receive_on(CLIENTS_END, split.load.as_deref());
    clients += &format!(
        "nft 'add table netdev flood; \
         add chain netdev flood answers {{ type filter hook ingress device {CLIENTS_END} priority -500; }}; \
         add rule netdev flood answers ip daddr != {CLIENTS} drop'\n"
    );
    for (namespace, script) in [(&network.gateway, gateway), (&network.clients, clients)] {
        shell(namespace, &script).await?;
    }
    Ok(())
}

/// Runs a script in a namespace. `ip netns exec` shows the namespace's own interfaces in /sys.
async fn shell(namespace: &str, script: &str) -> Result<()> {
    let program = Program::new("the preparation of a flood", "ip");
    let program = program.args(["netns", "exec", namespace, "sh", "-ec", script]);
    output(program, PATIENCE).await.map(drop)
}

/// Has packets that come by an interface worked on by these processors.
fn receive_on(interface: &str, processors: Option<&str>) -> String {
    let Some(list) = processors else { return String::new() };
    let mask = mask(&cpu::processors(list));
    format!(
        "for it in /sys/class/net/{interface}/queues/rx-*/rps_cpus; do echo {mask} > $it; done\n"
    )
}

/// Processors as the kernel writes them: 32 in a group, the lowest last.
fn mask(processors: &[usize]) -> String {
    let mut groups = vec![0u32; processors.iter().max().map_or(1, |most| most / 32 + 1)];
    processors.iter().for_each(|it| groups[it / 32] |= 1 << (it % 32));
    let groups: Vec<String> = groups.iter().rev().map(|group| format!("{group:08x}")).collect();
    groups.join(",")
}

/// Floods under way; dropped, they end.
pub(super) struct Flooding {
    senders: Vec<Running>,
    watch: JoinHandle<()>,
    seen: Arc<Mutex<Flooded>>,
}

impl Flooding {
    /// Starts them, once the contender is there; `None`: the experiment has none. Their first phase begins when this returns.
    pub(super) async fn start(
        experiment: &Experiment,
        target: SocketAddr,
        seed: u64,
        place: Place<'_>,
    ) -> Result<Option<Self>> {
        if experiment.floods.is_empty() {
            return Ok(None);
        }
        let Place { scratch, network, split } = place;
        sleep(SETTLING).await;
        let link = link(&network.gateway).await?;
        if let Some(list) = split.front.as_deref().filter(|_| has_program(&link)) {
            pin_receivers(&network.gateway, list).await?;
        }
        let hardware = read_hardware(&link);
        let hardware = hardware.with_context(|| format!("no hardware address in {link}"))?;
        let SocketAddr::V4(target) = target else { bail!("a flood is of IPv4") };
        let mut senders = Vec::new();
        for (number, flood) in experiment.floods.iter().enumerate() {
            let plan = Plan {
                interface: CLIENTS_END.into(),
                hardware,
                target,
                from: flood.from,
                steps: steps(flood, &experiment.phases),
                seed: seed.wrapping_mul(1009).wrapping_add(number as u64),
            };
            let file = scratch.join(format!("flood-{number}.json"));
            std::fs::write(&file, serde_json::to_vec(&plan)?)?;
            // It never sleeps, and gives way at once to who sends requests.
            let program = Program::new("a flood", "chrt")
                .args(["--idle", "0"])
                .args([std::env::current_exe()?.as_os_str(), "flood".as_ref(), "--plan".as_ref()])
                .args([&file])
                .namespace(Some(&network.clients))
                .processors(split.load.as_deref());
            senders.push(program.start(&scratch.join("floods"))?);
        }
        let pid = senders[0].pid();
        let first = first_counters(pid).await?;
        let seen = Arc::new(Mutex::new(Flooded::default()));
        let watch = tokio::spawn(watch(pid, first, seen.clone()));
        Ok(Some(Self { senders, watch, seen }))
    }

    /// What was seen until now.
    pub(super) fn stop(mut self) -> Flooded {
        let mut seen = std::mem::take(&mut *self.seen.lock().expect("nobody panics with it"));
        seen.ended = self.senders.iter_mut().find_map(Running::ended);
        seen
    }
}

impl Drop for Flooding {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

fn steps(flood: &Flood, phases: &[Phase]) -> Vec<Step> {
    let all = flood.rate.iter().zip(phases);
    all.map(|(rate, phase)| Step { rate: *rate, seconds: phase.seconds }).collect()
}

/// Has the packets for a program at the gateway's interface taken by threads, and these run on its processors, before all processes, as what receives does where there is no
/// program: in interrupts.
async fn pin_receivers(namespace: &str, list: &str) -> Result<()> {
    shell(namespace, &format!("echo 1 > /sys/class/net/{GATEWAYS_END}/threaded")).await?;
    let prefix = format!("napi/{GATEWAYS_END}");
    let stats = all_processes().context("cannot list processes")?;
    let stats = stats.filter_map(|process| process.ok()?.stat().ok());
    let mut pinned = 0;
    for stat in stats.filter(|stat| stat.comm.starts_with(&prefix)) {
        let pid = stat.pid.to_string();
        output(Program::new("taskset", "taskset").args(["-cp", list, &pid]), PATIENCE).await?;
        let words = ["--fifo", "--pid", "1", &pid];
        output(Program::new("chrt", "chrt").args(words), PATIENCE).await?;
        pinned += 1;
    }
    ensure!(pinned > 0, "no thread takes the packets that come by {GATEWAYS_END}");
    Ok(())
}

/// What the system says of the gateway's end of the link.
async fn link(namespace: &str) -> Result<String> {
    let words = ["-n", namespace, "-o", "link", "show", "dev", GATEWAYS_END];
    output(Program::new("ip", "ip").args(words), PATIENCE).await
}

/// Whether a program is there (XDP).
fn has_program(said: &str) -> bool {
    said.contains("prog/xdp")
}

fn read_hardware(said: &str) -> Option<[u8; 6]> {
    let mut words = said.split_ascii_whitespace();
    words.find(|word| *word == "link/ether")?;
    let bytes = words.next()?.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// What an interface has counted: packets put on the link, and those of them that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counters {
    sent: u64,
    arrived: u64,
}

/// Those of the clients' end of the link, by a process of their machine.
fn counters(pid: u32) -> Option<Counters> {
    read_counters(&std::fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?)
}

fn read_counters(text: &str) -> Option<Counters> {
    let of = |line: &str| {
        Some(line.trim_start().strip_prefix(CLIENTS_END)?.strip_prefix(':')?.to_owned())
    };
    let line = text.lines().find_map(of)?;
    let numbers: Vec<u64> = line.split_ascii_whitespace().flat_map(str::parse).collect();
    // Eight of what is received; then bytes, packets, errors and losses of what is sent.
    let (arrived, lost) = (*numbers.get(9)?, *numbers.get(11)?);
    Some(Counters { sent: arrived + lost, arrived })
}

/// The first ones, once the process is on its machine.
async fn first_counters(pid: u32) -> Result<Counters> {
    let begun = Instant::now();
    loop {
        if let Some(counters) = counters(pid) {
            return Ok(counters);
        }
        if begun.elapsed() > PATIENCE {
            bail!("the flood's process cannot be looked at");
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Writes down what happens in each second.
async fn watch(pid: u32, first: Counters, into: Arc<Mutex<Flooded>>) {
    let mut every = interval(Duration::from_secs(1));
    every.set_missed_tick_behavior(MissedTickBehavior::Skip);
    every.tick().await;
    let mut before = (Instant::now(), first);
    loop {
        every.tick().await;
        let Some(now) = counters(pid) else { continue };
        let at = Instant::now();
        let seconds = (at - before.0).as_secs_f64();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let (sent, arrived) = (rate(now.sent, before.1.sent), rate(now.arrived, before.1.arrived));
        {
            let mut seen = into.lock().expect("nobody panics with it");
            seen.sent.push(sent);
            seen.arrived.push(arrived);
        }
        before = (at, now);
    }
}

impl Flooded {
    /// Why the figures are not of the flood that the experiment says; `None`: they are.
    pub(super) fn void(&self, floods: &[Flood], phases: &[Phase]) -> Option<String> {
        if let Some(why) = &self.ended {
            return Some(format!("void: {why}"));
        }
        let mut begin = 0.0;
        for (number, phase) in phases.iter().enumerate() {
            let end = begin + phase.seconds;
            let wanted: f64 = floods.iter().filter_map(|flood| flood.rate.get(number)).sum();
            // The first and the last second may be partly of another phase.
            let (first, last) = (begin as usize + 1, (end as usize).saturating_sub(1));
            begin = end;
            let last = last.min(self.sent.len());
            if wanted == 0.0 || first >= last {
                continue;
            }
            let seconds = &self.sent[first..last];
            let sent = seconds.iter().sum::<f64>() / seconds.len() as f64;
            if sent < RATE_LEAST * wanted {
                let name = &phase.name;
                return Some(format!(
                    "void: the flood was {sent:.0} SYNs a second in phase {name}, not {wanted:.0}; the machine is too slow for it"
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_written_as_the_kernel_reads_them() {
        assert_eq!(mask(&[0]), "00000001");
        assert_eq!(mask(&[2, 3, 7]), "0000008c");
        assert_eq!(mask(&[1, 33]), "00000002,00000002");
    }

    #[test]
    fn the_hardware_address_is_found() {
        let said = "3: outer@if2: <BROADCAST,UP> mtu 1500 qdisc noqueue state UP \\    link/ether \
                    02:77:aa:00:0f:ff brd ff:ff:ff:ff:ff:ff link-netns x\n";
        assert_eq!(read_hardware(said), Some([2, 0x77, 0xaa, 0, 0x0f, 0xff]));
        assert_eq!(read_hardware("1: lo: <LOOPBACK> link/loopback 00:00:00:00:00:00"), None);
        assert_eq!(read_hardware("link/ether 02:77"), None);
        assert!(
            !has_program(said) && has_program(&said.replace("mtu", "mtu 1500 xdp prog/xdp id 7"))
        );
    }

    #[test]
    fn what_was_lost_on_the_link_was_sent() {
        let text = "Inter-|   Receive                            |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
                    lo:     1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
                    wire:  10 20 0 0 0 0 0 0 5400 100 0 7 0 0 0 0\n";
        assert_eq!(read_counters(text), Some(Counters { sent: 107, arrived: 100 }));
        assert_eq!(read_counters(&text.replace("wire", "wired")), None);
    }

    #[test]
    fn a_weaker_flood_than_promised_says_nothing() {
        let phase = |name: &str, seconds| Phase { name: name.into(), seconds };
        let phases = [phase("calm", 3.0), phase("flood", 5.0)];
        let flood =
            |rate: [f64; 2]| Flood { from: "198.18.0.0/15".parse().unwrap(), rate: rate.into() };
        let floods = [flood([0.0, 200_000.0]), flood([0.0, 100_000.0])];
        let seen = |rate: f64| Flooded {
            sent: vec![100.0, 100.0, 9.0, 5.0, rate, rate, rate, 7.0],
            ..Flooded::default()
        };
        assert_eq!(seen(286_000.0).void(&floods, &phases), None);
        let void = seen(284_000.0).void(&floods, &phases).unwrap();
        assert!(void.contains("284000 SYNs a second in phase flood, not 300000"), "{void}");
        let ended = Flooded { ended: Some("a flood ended".into()), ..seen(3e5) };
        assert_eq!(ended.void(&floods, &phases), Some("void: a flood ended".into()));
        assert!(Flooded::default().void(&floods, &phases).is_none(), "nothing was seen");
    }
}
