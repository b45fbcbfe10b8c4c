//! What `tc` says of an interface: its root queue (qdisc), the classes of it and its filters.

use super::name::InterfaceName;
use super::tc::{Tc, TcFault};
use serde::Deserialize;
use serde_json::Value;

/// A queue that is the root of an interface.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Root {
    /// Such as `htb`.
    pub(crate) kind: String,
    /// Such as `1:`; `0:`: the system's own, which nobody put there.
    pub(crate) handle: String,
    #[serde(default)]
    root: bool,
    #[serde(default)]
    options: Value,
}

/// A class of an HTB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class {
    /// Such as `1:10`.
    pub(crate) id: String,
    /// `None`: it has none above.
    pub(crate) parent: Option<String>,
    /// Bits a second that it is sure of; of a class with none above, all that it has.
    pub(crate) rate: u64,
    /// Bits a second that it has at most.
    pub(crate) ceil: u64,
    /// Since it was made.
    pub(crate) sent_bytes: u64,
    pub(crate) sent_packets: u64,
    /// Packets that there was no room for.
    pub(crate) dropped: u64,
    /// Packets that wait now.
    pub(crate) waiting: u64,
}

/// A filter (u32) of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Such as `ip`.
    pub(crate) protocol: String,
    /// The class that it leads to.
    pub(crate) class: String,
    /// What it looks for, such as `00040000/00fc0000 at 0`.
    pub(crate) matches: Vec<String>,
}

impl Root {
    /// Of an interface; one without a queue has the system's own, too.
    ///
    /// # Errors
    /// Why `tc` does not say it.
    pub(crate) fn of(interface: &InterfaceName) -> Result<Self, TcFault> {
        let tc = Tc::show_qdiscs(interface);
        let text = tc.run()?;
        Root::parse(&text).map_err(|error| TcFault::Unknown(tc, error))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let all: Vec<Root> = serde_json::from_str(text.trim()).map_err(|it| it.to_string())?;
        // Those of ingress have a parent.
        let root = all.into_iter().find(|it| it.root);
        Ok(root.unwrap_or_else(|| Root {
            kind: "noqueue".into(),
            handle: "0:".into(),
            ..Root::default()
        }))
    }

    /// Whether it is the system's own.
    pub(crate) fn is_default(&self) -> bool {
        self.handle == "0:"
    }

    /// The rate that it has as a whole, in bits a second; of one without classes.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.options.get("rate")?.as_u64()?.checked_mul(8)
    }
}

impl Class {
    /// All those of an interface.
    ///
    /// # Errors
    /// Why `tc` does not say it.
    pub(crate) fn all_of(interface: &InterfaceName) -> Result<Vec<Self>, TcFault> {
        let tc = Tc::show_classes(interface);
        let text = tc.run()?;
        Class::parse(&text).ok_or_else(|| TcFault::Unknown(tc, "no list of classes".to_owned()))
    }

    /// Each begins with a line of its settings; lines of what it has done follow, with a space before.
    fn parse(text: &str) -> Option<Vec<Self>> {
        let mut classes = Vec::new();
        let mut is_htb = false;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some(settings) = line.strip_prefix("class ") {
                is_htb = settings.starts_with("htb ");
                if is_htb {
                    classes.push(Class::settings(settings)?);
                }
            } else if is_htb {
                classes.last_mut()?.done(line);
            }
        }
        Some(classes)
    }

    /// `htb 1:10 parent 1:1 leaf 8001: prio 0 rate 97020Kbit ceil 98Mbit burst 1600b cburst 1600b`.
    fn settings(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let behind = |name: &str| {
            let place = words.iter().position(|word| *word == name)?;
            words.get(place + 1).copied()
        };
        Some(Class {
            id: (*words.get(1)?).to_owned(),
            parent: behind("parent").map(str::to_owned),
            rate: bits(behind("rate")?)?,
            ceil: bits(behind("ceil")?)?,
            ..Class::default()
        })
    }

    /// ` Sent 1514 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)`, ` backlog 0b 0p requeues 0`, and others.
    fn done(&mut self, line: &str) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |place: usize| {
            let word = words.get(place).copied().unwrap_or_default();
            word.trim_end_matches([',', 'p', ')']).parse().unwrap_or_default()
        };
        match words.first() {
            Some(&"Sent") => {
                (self.sent_bytes, self.sent_packets) = (number(1), number(3));
                self.dropped = number(6);
            }
            Some(&"backlog") => self.waiting = number(2),
            _ => {}
        }
    }
}

impl Filter {
    /// Those of a queue with this handle.
    ///
    /// # Errors
    /// Why `tc` does not say it.
    pub(crate) fn all_of(interface: &InterfaceName, handle: &str) -> Result<Vec<Self>, TcFault> {
        Ok(Filter::parse(&Tc::show_filters(interface, handle).run()?))
    }

    /// Each begins with a line that has where it leads to; lines of what it looks for follow. Lines of tables, which lead nowhere, are
    /// passed over.
    fn parse(text: &str) -> Vec<Self> {
        let mut filters: Vec<Filter> = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let behind = |name: &str| {
                let place = words.iter().position(|word| word.trim_start_matches('*') == name);
                place.and_then(|place| words.get(place + 1)).map(|word| (*word).to_owned())
            };
            match (words.first(), filters.last_mut()) {
                (Some(&"filter"), _) => {
                    let (protocol, class) = (behind("protocol"), behind("flowid"));
                    filters.push(Filter {
                        protocol: protocol.unwrap_or_default(),
                        class: class.unwrap_or_default(),
                        matches: Vec::new(),
                    });
                }
                (Some(&"match"), Some(filter)) => filter.matches.push(words[1..].join(" ")),
                _ => {}
            }
        }
        filters.retain(|it| !it.class.is_empty());
        filters
    }
}

/// A rate as `tc` writes it: `98Mbit`, `97020Kbit`, `500bit`.
fn bits(text: &str) -> Option<u64> {
    let number = text.strip_suffix("bit")?;
    let (number, unit) = match number.strip_suffix(['K', 'M', 'G', 'T']) {
        None => (number, 1),
        Some(rest) if number.ends_with('K') => (rest, 1_000),
        Some(rest) if number.ends_with('M') => (rest, 1_000_000),
        Some(rest) if number.ends_with('G') => (rest, 1_000_000_000),
        Some(rest) => (rest, 1_000_000_000_000),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As iproute2 6.1 prints it.
    pub(crate) const CLASSES: &str = "\
class htb 71e9:10 parent 71e9:1 prio 0 rate 97020Kbit ceil 98Mbit burst 1600b cburst 1600b 
 Sent 1514 bytes 1 pkt (dropped 2, overlimits 3 requeues 0) 
 backlog 3028b 2p requeues 0
 lended: 0 borrowed: 0 giants: 0
 tokens: 2046 ctokens: 2031

class htb 71e9:1 root rate 98Mbit ceil 98Mbit burst 1600b cburst 1600b 
 Sent 3028 bytes 2 pkt (dropped 0, overlimits 0 requeues 0) 
 backlog 0b 0p requeues 0

class htb 71e9:20 parent 71e9:1 leaf 8002: prio 1 rate 980Kbit ceil 98Mbit burst 1599b cburst 1600b 
 Sent 1514 bytes 1 pkt (dropped 0, overlimits 0 requeues 0) 
 backlog 0b 0p requeues 0
";

    /// As iproute2 6.1 prints it.
    pub(crate) const FILTERS: &str = "\
filter protocol ip pref 1 u32 chain 0 
filter protocol ip pref 1 u32 chain 0 fh 800: ht divisor 1 
filter protocol ip pref 1 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 *flowid 71e9:20 not_in_hw 
  match 00040000/00fc0000 at 0
filter protocol ipv6 pref 2 u32 chain 0 
filter protocol ipv6 pref 2 u32 chain 0 fh 801: ht divisor 1 
filter protocol ipv6 pref 2 u32 chain 0 fh 801::800 order 2048 key ht 801 bkt 0 flowid 71e9:20 not_in_hw 
  match 00400000/0fc00000 at 0
";

    pub(crate) fn filters(text: &str) -> Vec<Filter> {
        Filter::parse(text)
    }

    pub(crate) fn classes(text: &str) -> Vec<Class> {
        Class::parse(text).expect("classes")
    }

    pub(crate) fn root(text: &str) -> Root {
        Root::parse(text).expect("JSON")
    }

    #[test]
    fn classes_have_rates_and_what_they_sent() {
        let all = classes(CLASSES);
        assert_eq!(
            all[0],
            Class {
                id: "71e9:10".into(),
                parent: Some("71e9:1".into()),
                rate: 97_020_000,
                ceil: 98_000_000,
                sent_bytes: 1514,
                sent_packets: 1,
                dropped: 2,
                waiting: 2,
            }
        );
        let ids: Vec<_> = all.iter().map(|it| (it.id.as_str(), it.parent.as_deref())).collect();
        let above = Some("71e9:1");
        assert_eq!(ids, [("71e9:10", above), ("71e9:1", None), ("71e9:20", above)]);
        assert_eq!(classes("\n"), []);
        assert_eq!(classes("class tbf 80e1:1 parent 80e1: \n Sent 5 bytes 1 pkt\n"), []);
        assert_eq!(Class::parse("class htb 1:1 root rate fast ceil 1Mbit"), None);
        let read = ["500bit", "1234Kbit", "98Mbit", "2Gbit", "1Tbit", "Kbit", "5", "1Xbit"];
        let [a, b, c, d, e, none @ ..] = read.map(bits);
        let all = [500, 1_234_000, 98_000_000, 2_000_000_000, 1_000_000_000_000];
        assert_eq!([a, b, c, d, e], all.map(Some));
        assert_eq!(none, [None; 3]);
    }

    #[test]
    fn filters_lead_to_a_class_by_what_they_look_for() {
        let of = |protocol: &str, matches: &str| Filter {
            protocol: protocol.to_owned(),
            class: "71e9:20".to_owned(),
            matches: vec![matches.to_owned()],
        };
        let expected = [of("ip", "00040000/00fc0000 at 0"), of("ipv6", "00400000/0fc00000 at 0")];
        assert_eq!(filters(FILTERS), expected);
        assert_eq!(filters("\n  match 0/0 at 0\nfilter protocol ip pref 1 u32\n"), []);
    }

    #[test]
    fn the_root_is_found_beside_ingress() {
        let text = r#"[{"kind":"clsact","handle":"ffff:","parent":"ffff:fff1","options":{}},
            {"kind":"tbf","handle":"80e1:","root":true,"refcnt":3,"options":{"rate":1250000,"burst":1600,"lat":10000}}]"#;
        let tbf = root(text);
        assert_eq!((tbf.kind.as_str(), tbf.rate()), ("tbf", Some(10_000_000)));
        assert!(!tbf.is_default());
        let own = r#"[{"kind":"mq","handle":"0:","root":true,"options":{}},
            {"kind":"fq_codel","handle":"0:","parent":":1","options":{"limit":10240}}]"#;
        let own = root(own);
        assert_eq!((own.kind.as_str(), own.is_default(), own.rate()), ("mq", true, None));
        assert!(root("[]").is_default());
        assert!(Root::parse("qdisc noqueue 0: dev lo root").is_err());
    }
}
