use super::*;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, Settings, Share};
use tiergate_core::names::{ClassId, PolicerId};

fn wanted(rate: u32, burst: u32, shares: &[(u16, u32)]) -> Wanted {
    let share = |(class, (parts, burst)): (usize, &(u16, u32))| Share {
        class: ClassId(class as u16),
        parts: *parts,
        burst: *burst,
    };
    let settings = Settings {
        name: String::new(),
        key: None,
        rate: Rate::per_second(rate),
        burst,
        per: Per::Rule,
        shares: shares.iter().enumerate().map(share).collect(),
        inbound: None,
        announce: false,
    };
    Wanted::of(&settings, settings.rate).expect("within bounds")
}

fn entry(network: &str, bucket: Option<u16>, partition: Option<u8>) -> Entry {
    let network = network.parse().expect("a network");
    Entry { network, bucket, partition, may_be_spared: false, is_trusted: false }
}

fn text(commands: &[Command]) -> String {
    let lines: Vec<String> = commands.iter().map(|it| it.in_table("t").to_string()).collect();
    lines.join("\n").replace(" inet t", "")
}

#[test]
fn a_table_begins_without_rules() {
    let wanted = "add table { flags owner; }\nadd chain syn\nadd counter syns_seen\n\
        add counter syns_let_in\nadd counter syns_blocked\n\
        add set blocked_v4 { type ipv4_addr; flags timeout; }\n\
        add set blocked_v6 { type ipv6_addr; flags timeout; }\n\
        add set let_in_v4 { type ipv4_addr; flags timeout; }\n\
        add set let_in_v6 { type ipv6_addr; flags timeout; }";
    assert_eq!(text(&begin()), wanted);
    let wanted = "add chain at_7 { type filter hook ingress device \"eth0\" priority 0; policy accept; }\n\
        add rule at_7 tcp flags & (syn|rst|ack) == syn goto syn";
    assert_eq!(text(&hook("eth0", 7)), wanted);
    assert_eq!(text(&unhook(7)), "flush chain at_7\ndelete chain at_7");
}

#[test]
fn a_policer_has_a_limit_a_class_and_one_for_all() {
    let policer = Policer { version: 3, ..Policer::new(5, wanted(10, 4, &[(6000, 20)])) };
    let wanted = "add limit p5_overflow_3 { rate 10/second burst 4 packets; }\n\
        flush chain p5_0\n\
        add rule p5_0 limit rate 6/second burst 20 packets counter name \"p5_0_own\" accept\n\
        add rule p5_0 limit name \"p5_overflow_3\" counter name \"p5_0_overflow\" accept\n\
        add rule p5_0 counter name \"p5_0_dropped\" drop\n\
        flush chain p5_others\n\
        add rule p5_others limit name \"p5_overflow_3\" counter name \"p5_others_overflow\" accept\n\
        add rule p5_others counter name \"p5_others_dropped\" drop";
    assert_eq!(text(&policer.limits()), wanted);
    let making = text(&policer.making());
    assert!(making.starts_with("add chain p5_0\nadd counter p5_0_own\n"), "{making}");
    assert!(making.ends_with(wanted), "{making}");
    // No burst of the overflow: a class has its own, others have nothing.
    let none = Policer::new(1, self::wanted(10, 0, &[(6000, 20)]));
    assert!(!text(&none.limits()).contains("overflow_"), "{}", text(&none.limits()));
    assert!(none.removal_of_limits().is_empty());
    let [first, then] = policer.removal();
    let wanted =
        "flush chain p5_0\nflush chain p5_others\ndelete chain p5_0\ndelete chain p5_others";
    assert_eq!(text(&first), wanted);
    assert!(text(&then).ends_with("delete limit p5_overflow_3"), "{}", text(&then));
}

fn generation() -> (Generation, Vec<Command>) {
    let spared = Entry { may_be_spared: true, ..entry("10.2.0.0/16", None, None) };
    let proxy = Entry { is_trusted: true, ..entry("10.3.0.0/16", None, None) };
    let entries = vec![
        entry("0.0.0.0/0", None, None),
        entry("10.0.0.0/8", Some(0), Some(0)),
        spared,
        proxy,
        entry("::/0", Some(0), None),
    ];
    let early = Early {
        policers: vec![PolicerId(3)],
        listeners: vec![entries, vec![]],
        ..Early::default()
    };
    let service = |listener, local: &str| Service { listener, local: local.parse().expect("one") };
    let services =
        [service(0, "10.0.0.1:80"), service(0, "[fd00::1]:80"), service(1, "10.0.0.1:81")];
    let policer = Policer::new(5, wanted(10, 4, &[(6000, 20)]));
    Generation::of(9, &early, &services, &[&policer])
}

#[test]
fn rules_are_maps_of_ranges() {
    let (_, commands) = generation();
    let wanted = "add chain rule9_0\nadd chain rule9_1\nadd chain rule9_2\nadd chain rule9_3\n\
        add chain listener9_0\n\
        add rule listener9_0 counter name \"syns_seen\"\n\
        add rule listener9_0 ip saddr @let_in_v4 counter name \"syns_let_in\" accept\n\
        add rule listener9_0 ip6 saddr & ffff:ffff:ffff:ffff:: @let_in_v6 counter name \"syns_let_in\" accept\n\
        add map clients9_0_v4 { type ipv4_addr : verdict; flags interval; }\n\
        add element clients9_0_v4 { 0.0.0.0-9.255.255.255 : goto rule9_0, 10.0.0.0-10.1.255.255 : goto rule9_1, \
        10.2.0.0-10.2.255.255 : goto rule9_2, 10.4.0.0-10.255.255.255 : goto rule9_1, 11.0.0.0-255.255.255.255 : goto rule9_0 }\n\
        add rule listener9_0 ip saddr vmap @clients9_0_v4\n\
        add map clients9_0_v6 { type ipv6_addr : verdict; flags interval; }\n\
        add element clients9_0_v6 { ::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff : goto rule9_3 }\n\
        add rule listener9_0 ip6 saddr vmap @clients9_0_v6\n\
        add map services9_v4 { type ipv4_addr . inet_service : verdict; }\n\
        add element services9_v4 { 10.0.0.1 . 80 : goto listener9_0 }\n\
        add map services9_v6 { type ipv6_addr . inet_service : verdict; }\n\
        add element services9_v6 { fd00::1 . 80 : goto listener9_0 }";
    assert_eq!(text(&commands), wanted);
}

#[test]
fn switches_are_rules_that_are_there_or_not() {
    let (generation, _) = generation();
    let off = text(&generation.in_force(Switches::default()));
    assert!(!off.contains("add"), "{off}");
    assert!(off.starts_with("flush chain syn\nflush chain rule9_0"), "{off}");
    let police = Switches { police: true, ..Switches::default() };
    let on = text(&generation.in_force(police));
    let wanted = "flush chain syn\n\
        add rule syn ip daddr . tcp dport vmap @services9_v4\n\
        add rule syn ip6 daddr . tcp dport vmap @services9_v6\n\
        flush chain rule9_0\n\
        flush chain rule9_1\n\
        add rule rule9_1 goto p5_0\n\
        flush chain rule9_2\n\
        flush chain rule9_3\n\
        add rule rule9_3 goto p5_others";
    assert_eq!(on, wanted);
    let certain = Switches { block: true, ..Switches::default() };
    let blocks = |switches| {
        let commands = generation.in_force(switches);
        let drops = commands
            .iter()
            .filter(|it| matches!(it, Command::Rule(_, it) if it.contains(&Statement::Drop)));
        drops.count()
    };
    assert_eq!((blocks(police), blocks(certain)), (0, 6), "spared networks are not blocked");
    assert_eq!(blocks(Switches { block_all: true, ..certain }), 8);
    assert!(!text(&generation.in_force(certain)).contains("goto"), "blocks alone police nothing");
}

#[test]
fn what_is_replaced_is_taken_away_from_its_end() {
    let (generation, made) = generation();
    let removal = generation.removal();
    let text = text(&removal.concat());
    for command in made {
        let (word, name) = match command {
            Command::Chain(name) => ("chain", name),
            Command::Clients(name, _) | Command::Services(name, _) => ("map", name),
            _ => continue,
        };
        assert!(text.lines().any(|it| it == format!("delete {word} {name}")), "{name}: {text}");
    }
    assert!(Generation::default().removal().concat().is_empty());
}
