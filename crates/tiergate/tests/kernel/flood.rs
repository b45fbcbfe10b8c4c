//! Floods of SYNs that bring no request: what the system has no room for begins policing.

use super::*;
use network::flood_answered;

/// Whom the flood comes from has a rule, and nobody else.
const OF_FLOOD: &str = "[[rule]]\nclient = \"10.81.0.0/16\"\npolice = { rate = \"50/s\", burst = 10 }\n\
    [kernel]\ninterfaces = [\"in\"]\n";

fn on_server(network: &Network, words: &str) {
    let mut words = words.split(' ');
    let mut command = network.server_command(Path::new(words.next().expect("a program")));
    assert!(command.args(words).stdout(Stdio::null()).status().expect("it runs").success());
}

/// A gateway with these tables at whose interface a flood may come.
fn gateway<'n>(network: &'n Network, tables: &str) -> Gateway<'n> {
    // Where the system knows no way back to a client, it keeps nothing of a SYN.
    on_server(network, &format!("ip route add default via {POLICED} dev {INTERFACE}"));
    let gateway = Gateway::start(network, tables);
    eventually("it is attached", || gateway.way() != Value::Null);
    gateway
}

fn is_policing(gateway: &Gateway<'_>) -> bool {
    gateway.kernel()["policing"] == true
}

fn dropped(gateway: &Gateway<'_>) -> u64 {
    let kernel = gateway.kernel();
    let policers = kernel["policers"].as_array().into_iter().flatten();
    policers.filter_map(|it| it["dropped"].as_u64()).sum()
}

/// In a flood, some seconds after the kernel has begun to police it: whether all others are served, and it polices still at the end. It has half a minute to begin.
fn in_a_flood(network: &Network, gateway: &Gateway<'_>, lasting: Duration) -> (bool, bool) {
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            network.on_client(|| flood_answered(&[[10, 81]], TO.1, u64::MAX, &stop, &sent))
        });
        let until = Instant::now() + Duration::from_secs(30);
        while dropped(gateway) < 1000 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        // Half-open connections of before are in the queue still.
        std::thread::sleep(Duration::from_secs(5));
        // A SYN may be lost by chance: each has a second one.
        let is_served = || gateway.get(OTHER, "") == Some(200);
        let others = (0..50).filter(|_| is_served() || is_served()).count();
        std::thread::sleep(lasting);
        let lasts = is_policing(gateway);
        stop.store(true, Ordering::Relaxed);
        (others == 50, lasts)
    })
}

#[test]
fn a_flood_that_brings_no_request_is_policed_until_it_ends() {
    let Some(network) = Network::start() else { return };
    let gateway = gateway(&network, OF_FLOOD);
    // Its own drops keep it on, though the queue has room again.
    let found = in_a_flood(&network, &gateway, Duration::from_secs(8));
    assert_eq!(found, (true, true), "{}", gateway.kernel());
    assert!(dropped(&gateway) > 1000, "{}", gateway.kernel());
    eventually("it is over", || !is_policing(&gateway));
}

#[test]
fn a_flood_is_policed_where_the_system_sends_no_cookies() {
    let Some(network) = Network::start() else { return };
    // Half-open connections of before policing are soon given up.
    on_server(&network, "sysctl -w net.ipv4.tcp_syncookies=0 net.ipv4.tcp_synack_retries=1");
    let gateway = gateway(&network, OF_FLOOD);
    let found = in_a_flood(&network, &gateway, Duration::ZERO);
    assert_eq!(found, (true, true), "{}", gateway.kernel());
}

/// All have the policer of all requests, but those whom a rule refuses do not use its tokens up.
#[test]
fn a_flood_from_a_network_that_a_rule_refuses_costs_others_no_token() {
    for mechanism in ["ebpf", "nftables"] {
        let Some(network) = Network::start() else { return };
        let tables = "police = \"all\"\n[[policer]]\nname = \"all\"\nrate = \"100/s\"\nburst = 50\n\
            [[rule]]\nclient = \"10.81.0.0/16\"\nrefuse = true\n[kernel]\ninterfaces = [\"in\"]\n";
        let gateway = gateway(&network, &format!("{tables}mechanism = \"{mechanism}\"\n"));
        let found = in_a_flood(&network, &gateway, Duration::ZERO);
        let kernel = gateway.kernel();
        assert_eq!(found, (true, true), "{kernel}");
        let policers = kernel["policers"].as_array().expect("a list");
        let names: Vec<_> = policers.iter().map(|it| &it["policer"]).collect();
        assert_eq!(names, ["all", "(refused)"]);
        let dropped = [0, 1].map(|place: usize| policers[place]["dropped"].as_u64());
        assert!(dropped[0] == Some(0) && dropped[1] > Some(1000), "{kernel}");
    }
}

/// SYNs to which there is no way back cost the system little, and are dropped at once: somebody may keep a network out by a route.
#[test]
fn syns_that_the_system_cannot_answer_begin_nothing() {
    let Some(network) = Network::start() else { return };
    on_server(&network, "sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.in.rp_filter=0");
    let gateway = Gateway::start(&network, OF_FLOOD);
    eventually("it is attached", || gateway.way() == "native");
    let before = listen_drops(&network);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let has_begun = std::thread::scope(|scope| {
        scope.spawn(|| {
            network.on_client(|| flood_answered(&[[10, 81]], TO.1, u64::MAX, &stop, &sent))
        });
        let until = Instant::now() + Duration::from_secs(8);
        while !is_policing(&gateway) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        stop.store(true, Ordering::Relaxed);
        is_policing(&gateway)
    });
    let dropped = listen_drops(&network) - before;
    assert!(!has_begun && dropped > 10_000, "{dropped} dropped: {}", gateway.kernel());
}

/// The SYNs that the server's system has dropped for whatever reason.
fn listen_drops(network: &Network) -> u64 {
    network.on_server(|| {
        let text = std::fs::read_to_string("/proc/thread-self/net/netstat").expect("Linux");
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let [names, values] =
            [(); 2].map(|()| lines.next().expect("two lines").split(' ').collect::<Vec<_>>());
        let place = names.iter().position(|name| *name == "ListenDrops").expect("it is there");
        values[place].parse().expect("a number")
    })
}
