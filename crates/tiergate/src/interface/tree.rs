//! Our shaper on an interface: the commands that make it, change it and take it away, and how it is recognised.

use super::name::InterfaceName;
use super::queues::{Class, Filter, Root};
use super::tc::{LEAF, Tc, TcFault};
use tiergate_core::mark::Label;
use tiergate_core::transmit::Tree;

/// The number of the root. That an operator has chosen the same one by chance is unlikely, and then the classes differ.
const MAJOR: &str = "71e9";
/// The numbers of the classes, hexadecimal as all of `tc`'s: all, and within it the foreground and the background.
const ALL: &str = "1";
const FOREGROUND: &str = "10";
const BACKGROUND: &str = "20";
/// A packet of Ethernet: the classes take turns by packets.
const QUANTUM: &str = "1514";

/// What is at the root of an interface.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// The system's own queue, of that kind.
    Default(String),
    /// Our tree.
    Ours(Box<OurTree>),
    /// A queue that an operator or another program put there.
    Other {
        kind: String,
        handle: String,
        /// Whether the root is as ours, and only its classes are not.
        is_nearly_ours: bool,
    },
}

/// Our tree as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OurTree {
    pub(crate) all: Class,
    pub(crate) foreground: Class,
    pub(crate) background: Class,
    /// Which of [`FILTERS`] are there: not all, if the command that made the tree was stopped.
    pub(crate) filters: [bool; 2],
}

/// What leads marked packets to the background.
pub(crate) struct FilterOf {
    /// Of which packets, as people say it.
    pub(crate) packets: &'static str,
    /// The same as `tc` says it.
    protocol: &'static str,
    /// Its place among the filters.
    place: &'static str,
    /// How `tc` calls the field that has the code point, and its bits in the first word of the packet.
    field: [&'static str; 2],
    shift: u32,
}

/// Those of our tree.
pub(crate) const FILTERS: [FilterOf; 2] = [
    FilterOf { packets: "IPv4", protocol: "ip", place: "1", field: ["ip", "tos"], shift: 16 },
    // `priority` is what `tc` calls the traffic class.
    FilterOf {
        packets: "IPv6",
        protocol: "ipv6",
        place: "2",
        field: ["ip6", "priority"],
        shift: 20,
    },
];

/// What is to be done to have the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It is there already.
    Nothing,
    /// These commands. `begins`: how many of them come before anything of ours is there.
    Commands { commands: Vec<Tc>, begins: usize },
}

impl Found {
    /// What is there.
    ///
    /// # Errors
    /// Why `tc` does not say it.
    pub(crate) fn at(interface: &InterfaceName) -> Result<Self, TcFault> {
        let root = Root::of(interface)?;
        if !is_our_root(&root) {
            return Ok(Found::of(root, &[], &[]));
        }
        let filters = Filter::all_of(interface, &root.handle)?;
        Ok(Found::of(root, &Class::all_of(interface)?, &filters))
    }

    fn of(root: Root, classes: &[Class], filters: &[Filter]) -> Self {
        if root.is_default() {
            return Found::Default(root.kind);
        }
        let is_nearly_ours = is_our_root(&root);
        match OurTree::of(classes, filters).filter(|_| is_nearly_ours) {
            Some(tree) => Found::Ours(Box::new(tree)),
            None => Found::Other { kind: root.kind, handle: root.handle, is_nearly_ours },
        }
    }

    /// What makes it the tree; `None`: it is another's, and `replaces` does not say that it may be taken away.
    pub(crate) fn plan(
        &self,
        interface: &InterfaceName,
        tree: &Tree,
        replaces: bool,
    ) -> Option<Plan> {
        let commands = match self {
            Found::Ours(ours) => {
                // No packet is lost.
                let changes = classes(interface, tree, "change");
                let mut commands = if ours.is(tree) { Vec::new() } else { changes };
                let missing = FILTERS.iter().zip(ours.filters).filter(|(_, is_there)| !is_there);
                commands.extend(missing.map(|(it, _)| it.command(interface)));
                if commands.is_empty() {
                    return Some(Plan::Nothing);
                }
                commands
            }
            Found::Default(_) => made(interface, tree),
            Found::Other { .. } if !replaces => return None,
            Found::Other { .. } => {
                let mut commands = vec![removal_of_any(interface)];
                commands.extend(made(interface, tree));
                return Some(Plan::Commands { commands, begins: 1 });
            }
        };
        Some(Plan::Commands { commands, begins: 0 })
    }
}

fn is_our_root(root: &Root) -> bool {
    root.kind == "htb" && root.handle.strip_suffix(':') == Some(MAJOR)
}

fn id(minor: &str) -> String {
    format!("{MAJOR}:{minor}")
}

impl OurTree {
    /// If the classes are those that we make, and no others.
    fn of(classes: &[Class], filters: &[Filter]) -> Option<Self> {
        if classes.len() != 3 {
            return None;
        }
        let class = |minor: &str, above: Option<&str>| {
            let (id, parent) = (id(minor), above.map(id));
            classes.iter().find(|it| it.id == id && it.parent == parent).cloned()
        };
        Some(OurTree {
            all: class(ALL, None)?,
            foreground: class(FOREGROUND, Some(ALL))?,
            background: class(BACKGROUND, Some(ALL))?,
            filters: FILTERS.map(|it| filters.contains(&it.shown())),
        })
    }

    /// Whether it has these rates, as far as `tc` writes them out: four digits or more.
    fn is(&self, tree: &Tree) -> bool {
        let is_near = |one: u64, other: u64| one.abs_diff(other) <= other / 500;
        let Tree { all, foreground, background, .. } = *tree;
        [(&self.all, all), (&self.foreground, foreground), (&self.background, background)]
            .iter()
            .all(|(class, rate)| is_near(class.rate, *rate) && is_near(class.ceil, all))
    }

    /// The capacity of the link that it was made for, bits a second.
    pub(crate) fn capacity(&self) -> u64 {
        let Class { rate, .. } = self.all;
        Tree { all: rate, ..Tree::of(Tree::CAPACITY_MIN) }.capacity()
    }
}

/// Takes away our tree, and nothing else that may have come in its place: the system's own queue comes back.
pub(crate) fn removal(interface: &InterfaceName) -> Tc {
    let handle = format!("{MAJOR}:");
    Tc::new(["qdisc", "del", "dev", interface.as_str(), "root", "handle", &handle])
}

/// Takes away whatever is at the root.
pub(crate) fn removal_of_any(interface: &InterfaceName) -> Tc {
    Tc::new(["qdisc", "del", "dev", interface.as_str(), "root"])
}

/// Root, classes and filters, none of which is there.
fn made(interface: &InterfaceName, tree: &Tree) -> Vec<Tc> {
    let (name, handle) = (interface.as_str(), format!("{MAJOR}:"));
    let root = ["qdisc", "add", "dev", name, "root", "handle", &handle, "htb", "default"];
    let mut commands = vec![Tc::new(root.into_iter().chain([FOREGROUND]))];
    commands.extend(classes(interface, tree, "add"));
    commands.extend(FILTERS.iter().map(|it| it.command(interface)));
    // Last: a kernel without them does without.
    let leaf = |minor| Tc::new(["qdisc", "add", "dev", name, "parent", &id(minor), LEAF]);
    commands.extend([FOREGROUND, BACKGROUND].map(leaf));
    commands
}

/// `verb`: `add` or `change`.
fn classes(interface: &InterfaceName, tree: &Tree, verb: &str) -> Vec<Tc> {
    let burst = tree.burst.to_string();
    let class = |parent: String, minor: &str, rate: u64, prio: Option<&str>| {
        let [rate, ceil] = [rate, tree.all].map(bits);
        let (name, id) = (interface.as_str(), id(minor));
        let mut words = vec!["class", verb, "dev", name, "parent", &parent, "classid", &id, "htb"];
        words.extend(["rate", &rate, "ceil", &ceil, "burst", &burst, "cburst", &burst]);
        words.extend(["quantum", QUANTUM]);
        words.extend(prio.into_iter().flat_map(|prio| ["prio", prio]));
        Tc::new(words)
    };
    vec![
        class(format!("{MAJOR}:"), ALL, tree.all, None),
        class(id(ALL), FOREGROUND, tree.foreground, Some("0")),
        class(id(ALL), BACKGROUND, tree.background, Some("1")),
    ]
}

impl FilterOf {
    fn command(&self, interface: &InterfaceName) -> Tc {
        let (handle, flow) = (format!("{MAJOR}:"), id(BACKGROUND));
        let field = format!("{FIELD:#04x}");
        let mut words = vec!["filter", "add", "dev", interface.as_str(), "parent", &handle];
        words.extend(["protocol", self.protocol, "prio", self.place, "u32", "match"]);
        words.extend(self.field);
        words.extend([&*field, "0xfc", "flowid", &*flow]);
        Tc::new(words)
    }

    /// As `tc` shows it.
    fn shown(&self) -> Filter {
        let [value, mask] = [FIELD, 0xfc].map(|it| it << self.shift);
        Filter {
            protocol: self.protocol.to_owned(),
            class: id(BACKGROUND),
            matches: vec![format!("{value:08x}/{mask:08x} at 0")],
        }
    }
}

/// The field with the code point in its upper six bits; the others are those of ECN.
const FIELD: u32 = (Label::BACKGROUND.dscp as u32) << 2;

/// As `tc` reads it.
fn bits(rate: u64) -> String {
    match rate {
        _ if rate.is_multiple_of(1_000_000) => format!("{}mbit", rate / 1_000_000),
        _ if rate.is_multiple_of(1_000) => format!("{}kbit", rate / 1_000),
        _ => format!("{rate}bit"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::queues::tests::{CLASSES, FILTERS as FILTERS_TEXT, classes, filters, root};
    use super::*;

    const OURS: &str = r#"[{"kind":"htb","handle":"71e9:","root":true,"options":{}}]"#;

    fn eth0() -> InterfaceName {
        InterfaceName::parse("eth0").expect("a name")
    }

    fn written(plan: Option<Plan>) -> (Vec<String>, usize) {
        match plan {
            Some(Plan::Commands { commands, begins }) => {
                (commands.iter().map(ToString::to_string).collect(), begins)
            }
            plan => panic!("{plan:?}"),
        }
    }

    #[test]
    fn the_tree_is_made_by_these_commands() {
        let tree = Tree::of(100_000_000);
        let found = Found::of(
            root(r#"[{"kind":"pfifo_fast","handle":"0:","root":true,"options":{}}]"#),
            &[],
            &[],
        );
        assert_eq!(found, Found::Default("pfifo_fast".into()));
        let ends = "burst 1600 cburst 1600 quantum 1514";
        let expected = [
            "tc qdisc add dev eth0 root handle 71e9: htb default 10".to_owned(),
            format!("tc class add dev eth0 parent 71e9: classid 71e9:1 htb rate 98mbit ceil 98mbit {ends}"),
            format!("tc class add dev eth0 parent 71e9:1 classid 71e9:10 htb rate 97020kbit ceil 98mbit {ends} prio 0"),
            format!("tc class add dev eth0 parent 71e9:1 classid 71e9:20 htb rate 980kbit ceil 98mbit {ends} prio 1"),
            "tc filter add dev eth0 parent 71e9: protocol ip prio 1 u32 match ip tos 0x04 0xfc flowid 71e9:20".to_owned(),
            "tc filter add dev eth0 parent 71e9: protocol ipv6 prio 2 u32 match ip6 priority 0x04 0xfc flowid 71e9:20".to_owned(),
            "tc qdisc add dev eth0 parent 71e9:10 fq_codel".to_owned(),
            "tc qdisc add dev eth0 parent 71e9:20 fq_codel".to_owned(),
        ];
        assert_eq!(written(found.plan(&eth0(), &tree, false)), (expected.to_vec(), 0));
        assert_eq!([1_234_567, 98_000, 2_000_000].map(bits), ["1234567bit", "98kbit", "2mbit"]);
    }

    #[test]
    fn ours_is_recognised_by_root_and_classes_and_changed_without_a_loss() {
        let found = Found::of(root(OURS), &classes(CLASSES), &filters(FILTERS_TEXT));
        let Found::Ours(ours) = &found else { panic!("{found:?}") };
        assert_eq!((ours.capacity(), ours.background.sent_packets), (100_000_000, 1));
        let plan = |capacity| found.plan(&eth0(), &Tree::of(capacity), false);
        assert_eq!(plan(100_000_000), Some(Plan::Nothing));
        let (commands, _) = written(plan(10_000_000));
        assert_eq!(commands.len(), 3);
        assert!(commands.iter().all(|it| it.starts_with("tc class change dev eth0 parent 71e9:")));
        assert!(commands[2].contains("rate 98kbit ceil 9800kbit"), "{commands:?}");
        // A setup that was stopped before its last command is completed.
        let half = filters(FILTERS_TEXT)[..1].to_vec();
        let half = Found::of(root(OURS), &classes(CLASSES), &half);
        let (commands, _) = written(half.plan(&eth0(), &Tree::of(100_000_000), false));
        assert_eq!(commands.len(), 1);
        assert!(commands[0].contains(" protocol ipv6 "), "{commands:?}");
        // With a class more, a class less, or one elsewhere, it is not what we made.
        let more = format!("{CLASSES}\nclass htb 71e9:30 parent 71e9:1 rate 1Mbit ceil 1Mbit\n");
        let elsewhere = CLASSES.replace("71e9:20 parent 71e9:1", "71e9:20 parent 71e9:10");
        for classes in [classes(&more), classes(&elsewhere), classes(CLASSES)[..2].to_vec()] {
            let found = Found::of(root(OURS), &classes, &filters(FILTERS_TEXT));
            assert!(matches!(found, Found::Other { is_nearly_ours: true, .. }), "{found:?}");
        }
    }

    #[test]
    fn what_another_put_there_is_taken_away_only_if_that_is_asked_for() {
        let text = r#"[{"kind":"htb","handle":"1:","root":true,"options":{}}]"#;
        let found = Found::of(root(text), &[], &[]);
        let (kind, handle) = ("htb".to_owned(), "1:".to_owned());
        assert_eq!(found, Found::Other { kind, handle, is_nearly_ours: false });
        let tree = Tree::of(100_000_000);
        assert_eq!(found.plan(&eth0(), &tree, false), None);
        let (commands, begins) = written(found.plan(&eth0(), &tree, true));
        assert_eq!((commands[0].as_str(), begins), ("tc qdisc del dev eth0 root", 1));
        assert!(commands[1].starts_with("tc qdisc add dev eth0 root "));
    }
}
