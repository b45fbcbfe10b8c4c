//! What `tiergate link` says.

use crate::interface::name::InterfaceName;
use crate::interface::queues::Class;
use crate::interface::tree::{FILTERS, FilterOf, Found, OurTree, removal_of_any};
use tiergate_draw::number::thousands;

/// What is at an interface.
pub(super) fn shown(interface: &InterfaceName, found: &Found) -> String {
    match found {
        Found::Default(kind) => {
            format!("{interface} has no shaper, but the system's own queue ({kind})")
        }
        Found::Ours(tree) => of_tree(interface, tree),
        Found::Other { .. } => is_not_ours(interface, found),
    }
}

fn of_tree(interface: &InterfaceName, tree: &OurTree) -> String {
    let (all, capacity) = (megabits(tree.all.rate), megabits(tree.capacity()));
    let head = format!("{interface}: tiergate's shaper, {all} of a link that carries {capacity}");
    let columns = ["class", "sure of", "at most", "sent bytes", "packets", "dropped", "waiting"];
    let row = |name: &str, class: &Class| {
        let counts = [class.sent_bytes, class.sent_packets, class.dropped, class.waiting];
        let [bytes, packets, dropped, waiting] = counts.map(thousands);
        [
            name.to_owned(),
            megabits(class.rate),
            megabits(class.ceil),
            bytes,
            packets,
            dropped,
            waiting,
        ]
    };
    let line = |cells: [String; 7]| {
        let [name, sure, most, bytes, packets, dropped, waiting] = cells;
        format!(
            "  {name:<10} {sure:>14} {most:>14} {bytes:>18} {packets:>14} {dropped:>10} {waiting:>8}"
        )
    };
    let lines = [
        head,
        line(columns.map(str::to_owned)),
        line(row("foreground", &tree.foreground)),
        line(row("background", &tree.background)),
    ];
    lines.join("\n") + &marks(tree)
}

/// Which packets are in the background, a line each.
fn marks(tree: &OurTree) -> String {
    let line = |(of, is_there): (&FilterOf, bool)| match is_there {
        true => {
            format!("\n  background: packets of {} with the code point LE (DSCP 1)", of.packets)
        }
        false => format!(
            "\n  no packet of {} is in the background: its filter is missing, run `tiergate link setup` again",
            of.packets
        ),
    };
    FILTERS.iter().zip(tree.filters).map(line).collect()
}

/// Why there is nothing that `setup` may replace.
pub(super) fn is_taken(interface: &InterfaceName, found: &Found) -> String {
    let what = other(found);
    format!(
        "{interface} has {what} at its root, which somebody put there: nothing was changed. See `tc qdisc show dev {interface}`; if it \
         is not needed, add --replace, and {what} is lost"
    )
}

/// Why nothing is undone.
pub(super) fn is_not_ours(interface: &InterfaceName, found: &Found) -> String {
    let removal = removal_of_any(interface);
    let what = other(found);
    match found {
        Found::Other { is_nearly_ours: true, .. } => format!(
            "{interface} has {what} at its root, whose classes are not those that `tiergate link setup` makes: nothing was changed. If \
             all of it is to go, run `{removal}`"
        ),
        _ => format!(
            "{interface} has {what} at its root, which `tiergate link setup` did not make. If it is to go, run `{removal}`"
        ),
    }
}

fn other(found: &Found) -> String {
    match found {
        Found::Other { kind, handle, .. } => format!("{kind} {handle}"),
        Found::Ours(_) => "tiergate's shaper".to_owned(),
        Found::Default(kind) => kind.clone(),
    }
}

/// A rate in megabits, with as many digits as it needs.
fn megabits(bits: u64) -> String {
    format!("{} Mbit/s", bits as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_shown_with_what_its_classes_sent() {
        let class = |rate, packets| Class {
            rate,
            ceil: 98_000_000,
            sent_packets: packets,
            sent_bytes: packets * 1514,
            ..Class::default()
        };
        let tree = OurTree {
            all: class(98_000_000, 0),
            foreground: class(97_020_000, 1000),
            background: class(980_000, 5),
            filters: [true, false],
        };
        let eth0 = InterfaceName::parse("eth0").expect("a name");
        let text = shown(&eth0, &Found::Ours(Box::new(tree)));
        for part in [
            "eth0: tiergate's shaper, 98 Mbit/s of a link that carries 100 Mbit/s",
            "97.02 Mbit/s",
            "1,514,000",
            "0.98 Mbit/s",
            "packets of IPv4 with the code point LE",
            "no packet of IPv6",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let lens: Vec<usize> = text.lines().skip(1).take(3).map(str::len).collect();
        assert!(lens.iter().all(|len| *len == lens[0]), "{text}");
        let other =
            Found::Other { kind: "tbf".into(), handle: "8001:".into(), is_nearly_ours: false };
        assert!(
            is_taken(&eth0, &other).contains("tbf 8001:")
                && is_taken(&eth0, &other).contains("--replace")
        );
        assert!(shown(&eth0, &other).contains("run `tc qdisc del dev eth0 root`"));
    }
}
