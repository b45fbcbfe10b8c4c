//! Without the rights of a program nftables polices, and without any the gateway alone.

use super::*;

const FEW: &str = "-all,+net_admin,+net_bind_service";

/// Tables of the server's namespace.
pub(crate) fn tables(network: &Network) -> String {
    let output = network.server_command(Path::new("nft")).args(["list", "tables"]).output();
    String::from_utf8_lossy(&output.expect("nft runs").stdout).into_owned()
}

#[test]
fn without_the_right_to_load_programs_nftables_polices_and_leaves_nothing() {
    let Some(network) = Network::without_programs() else { return };
    let mut gateway = Gateway::with_rights(&network, POLICY, FEW);
    eventually("it is at the interface", || gateway.way() == "nftables");
    let kernel = gateway.kernel();
    assert_eq!((&kernel["mechanism"], &kernel["policing"]), (&"nftables".into(), &false.into()));
    let why = kernel["not_ebpf"].as_str().expect("it is said");
    assert!(why.contains("CAP_BPF") || why.contains("clang"), "{why}");
    assert_eq!(kernel["fault"], Value::Null);
    let said = format!("kernel: SYNs are policed by nftables: {why}");
    eventually("it is logged", || gateway.log().contains(&said));
    // No overload: the gateway refuses, and says why.
    let answers: Vec<_> = (0..20).map(|_| gateway.get(POLICED, "")).collect();
    assert!(answers.contains(&Some(429)) && !answers.contains(&None), "{answers:?}");
    let (stop, served, refused) = Default::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| network.on_client(|| storm(POLICED, &stop, [&served, &refused])));
        }
        let policing = || gateway.kernel()["policing"] == true;
        let until = Instant::now() + Duration::from_secs(60);
        while !policing() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        let has_begun = policing();
        let before = refused.load(Ordering::Relaxed);
        let others: Vec<_> = (0..50).map(|_| gateway.get(OTHER, "")).collect();
        // Another policy in the midst of it: the policer stays, and so does what it has dropped.
        gateway.reload(&POLICY.replace("10.78.0.1\"", "10.78.0.0/24\""));
        let dropped = || gateway.kernel()["policers"][0]["dropped"].as_u64().unwrap_or(0);
        let until = Instant::now() + Duration::from_secs(20);
        while dropped() <= 100 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        let after = refused.load(Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
        assert!(has_begun, "{}", gateway.kernel());
        assert!(others.iter().all(|it| *it == Some(200)), "{others:?}");
        assert!(
            before > 100 && after - before < before / 2,
            "{before} refused before, {after} after"
        );
    });
    let kernel = gateway.kernel();
    assert_eq!(kernel["policing"], true, "{kernel}");
    let policer = &kernel["policers"][0];
    assert!(policer["dropped"].as_u64() > Some(100), "{policer}");
    for line in [
        "tiergate_kernel_policing 1",
        "tiergate_kernel_mechanism{mechanism=\"nftables\"} 1",
        "tiergate_kernel_mechanism{mechanism=\"ebpf\"} 0",
    ] {
        assert!(gateway.metrics().lines().any(|it| it == line), "{line}");
    }
    assert!(tables(&network).contains("table inet tiergate_"));
    gateway.process.kill();
    assert_eq!(tables(&network), "", "killed");
}

#[test]
fn with_no_right_at_all_the_gateway_refuses_by_itself_and_says_so() {
    let Some(network) = Network::without_programs() else { return };
    let gateway = Gateway::with_rights(&network, POLICY, "-all,+net_bind_service");
    eventually("it was tried", || gateway.kernel() != Value::Null);
    let kernel = gateway.kernel();
    assert_eq!((&kernel["mechanism"], &kernel["policing"]), (&"none".into(), &false.into()));
    let fault = kernel["fault"].as_str().expect("it is said");
    assert!(fault.ends_with("; it needs CAP_NET_ADMIN"), "{fault}");
    let words = "what is not in force there, the gateway does by itself";
    eventually("it is logged", || gateway.log().contains(words));
    let answers: Vec<_> = (0..20).map(|_| gateway.get(POLICED, "")).collect();
    assert!(answers.contains(&Some(429)) && !answers.contains(&None), "{answers:?}");
    assert_eq!(gateway.log().matches(words).count(), 1, "once: {}", gateway.log());
    // A policy that wants one of them, and not the other.
    for (mechanism, wanted) in [("nftables", "CAP_NET_ADMIN"), ("ebpf", "the program")] {
        gateway.reload(&format!("{POLICY}mechanism = \"{mechanism}\"\n"));
        eventually("it is said", || {
            let fault = gateway.kernel()["fault"].as_str().unwrap_or_default().to_owned();
            fault.contains(wanted) && fault.matches(';').count() == 1
        });
    }
}

#[test]
fn the_policy_may_ask_for_either() {
    let Some(network) = Network::start() else { return };
    let with = |mechanism: &str| format!("{POLICY}mechanism = \"{mechanism}\"\n");
    let requests = format!("{}requests = \"answer\"\n", with("nftables"));
    let gateway = Gateway::start(&network, &requests);
    eventually("nftables", || gateway.way() == "nftables");
    let kernel = gateway.kernel();
    assert_eq!((&kernel["fault"], &kernel["not_ebpf"]), (&Value::Null, &Value::Null));
    assert_eq!(kernel["interfaces"][0]["ingress"], false, "nftables judges no requests");
    gateway.reload(&with("auto"));
    eventually("the program", || gateway.way() == "native");
    assert_eq!(tables(&network), "", "nothing of it is left");
    gateway.reload(&with("nftables"));
    eventually("nftables again", || gateway.way() == "nftables");
    let link =
        network.server_command(Path::new("ip")).args(["link", "show", "dev", INTERFACE]).output();
    let link = String::from_utf8_lossy(&link.expect("ip runs").stdout).into_owned();
    assert!(link.contains(INTERFACE) && !link.contains("xdp"), "nothing of it is left: {link}");
}

/// Another program is at the interface: nftables polices until it is gone. Who is blocked by then stays so.
#[test]
fn while_another_program_is_at_the_interface_nftables_polices() {
    let Some(network) = Network::start() else { return };
    let other = network.on_server(|| {
        let mut other = tiergate_kernel::SynGate::load().expect("it loads");
        other.attach(INTERFACE).expect("it is free");
        other
    });
    let blocking = format!(
        "{POLICY}block = \"all\"\n[refusal]\nblock = {{ after = 5, within = \"10s\", for = \"300s\" }}\n"
    );
    let gateway = Gateway::start(&network, &blocking);
    eventually("nftables", || gateway.way() == "nftables");
    let why = gateway.kernel()["not_ebpf"].as_str().unwrap_or_default().to_owned();
    let process = format!(" of process {} (", std::process::id());
    assert!(why.contains("tg_syn") && why.contains(&process), "{why}");
    eventually("it is blocked", || gateway.get(POLICED, "").is_none());
    let blocked = || gateway.kernel()["blocked"].as_u64().unwrap_or(0);
    eventually("it is counted", || blocked() > 0);
    drop(other);
    eventually("the program", || gateway.way() == "native");
    assert_eq!(gateway.kernel()["not_ebpf"], Value::Null);
    assert_eq!(tables(&network), "", "nothing of nftables is left");
    assert_eq!(gateway.get(POLICED, ""), None, "still blocked");
    assert_eq!(gateway.get(OTHER, ""), Some(200));
    // The program counts from zero.
    eventually("by the program", || blocked() > 0);
    // And the other way.
    let all = "block = \"all\"\n";
    gateway.reload(&blocking.replace(all, &format!("{all}mechanism = \"nftables\"\n")));
    eventually("nftables again", || gateway.way() == "nftables");
    assert_eq!(gateway.get(POLICED, ""), None, "still blocked");
}

/// A program would be there and read nothing: packets of a tunnel begin with the header of IP.
#[test]
fn where_packets_have_no_ethernet_header_nftables_polices() {
    let Some(network) = Network::start() else { return };
    let make = ["tuntap", "add", "dev", "flat", "mode", "tun"];
    if !network.server_command(Path::new("ip")).args(make).status().is_ok_and(|it| it.success()) {
        return eprintln!("not tested: no tun interface can be made here");
    }
    let gateway = Gateway::start(&network, &POLICY.replace("\"in\"", "\"flat\""));
    eventually("nftables", || gateway.way() == "nftables");
    let why = gateway.kernel()["not_ebpf"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("flat: its packets have no Ethernet header"), "{why}");
    assert_eq!(gateway.kernel()["fault"], Value::Null);
}

#[test]
fn the_doctor_says_what_would_police() {
    let Some(_network) = Network::without_programs() else { return };
    let found = |without: &str| {
        let mut command = Command::new("setpriv");
        command.arg(format!("--bounding-set={without}")).arg(env!("CARGO_BIN_EXE_tiergate"));
        let output = command.args(["doctor", "--json"]).output().expect("setpriv runs");
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut machine = all["machine"].as_array().expect("a list").iter();
        let nft = machine.find(|it| it["name"] == "kernel-nftables").expect("it is tried");
        let missing = nft["missing"].as_str().unwrap_or("nothing").to_owned();
        (missing, all["kernel"]["syns"].clone(), all["kernel"]["requests"].clone())
    };
    let (missing, syns, requests) = found("-bpf,-perfmon,-sys_admin");
    assert_eq!((missing.as_str(), syns, requests), ("nothing", "nftables".into(), "none".into()));
    let (missing, syns, _) = found("-net_admin,-sys_admin");
    assert!(missing.ends_with("; it needs CAP_NET_ADMIN"), "{missing}");
    assert_eq!(syns, "none");
}
