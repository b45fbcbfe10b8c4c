//! `[link]`: what answers leave by.

use super::dscp;
use super::kind::Text;
use super::place::{At, Place};
use super::section::{Kind, section};
use super::values::{FLAG, whole};
use crate::interface::capacity::{self, Capacity};
use crate::interface::name::InterfaceName;
use crate::secrets::NamedFile;
use serde_json::json;
use tiergate_core::class::Class;
use tiergate_core::mark::Label;
use tiergate_core::transmit::Capacity as Carries;

section! {
    /// The link that answers leave by, which background classes use only where it is idle.
    pub(super) struct LinkKeys {
        /// How many bits a second it carries, headers included: of the narrowest part of the way that all clients share.
        capacity: Option<u64> = whole(100_000..=1_000_000_000_000).optional("that of `interface`, if it is given");
        /// The network interface whose capacity is that of the link, such as `"eth0"`: the rate of the shaper at its root (`htb`, `tbf`; the program `tc`
        /// is needed), or else its link's speed. Read with the policy, when a queue has changed, and every five seconds.
        interface: Option<At<InterfaceName>> = INTERFACE.placed().optional("none");
        /// Whether the gateway is to find out what the link carries, by when packets of background classes are acknowledged: see
        /// [a link of unknown capacity](#a-link-of-unknown-capacity).
        /// Why: a capacity that is written is more exact; where it changes, or nobody knows it, this is better than a guess.
        estimate: bool = FLAG.or(false);
        /// Whether background classes that do not say otherwise are marked: `dscp = "le"`, `socket_priority = 1`; and whether the
        /// requests of all classes are marked on their way to the origin, as their answers are: see [one priority on the
        /// wire](#one-priority-on-the-wire).
        /// Why: networks treat packets by their marks only where somebody has set them up to.
        mark: bool = FLAG.or(false);
    }
}

pub(super) const INTERFACE: Text<InterfaceName> = Text {
    expected: InterfaceName::EXPECTED,
    schema: || json!({ "pattern": "^[A-Za-z0-9._@+][A-Za-z0-9._@+-]{0,14}$", "examples": ["eth0"] }),
    parse: |text| InterfaceName::parse(text).ok_or(None),
};

/// The link as the policy has it. By default, nothing is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Bits a second, as the policy says it.
    pub capacity: Option<u64>,
    /// The interface that says the capacity.
    pub interface: Option<LinkInterface>,
    /// Whether it is to be found what it carries.
    pub estimates: bool,
    /// Whether background classes are marked, and requests to the origin.
    pub marks: bool,
}

/// The interface whose capacity is that of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInterface {
    /// Its name.
    pub name: InterfaceName,
    /// What the kernel has of it, and where the policy names it.
    pub named: NamedFile,
    /// What it carries, once [`load`](super::load()) has read it.
    pub capacity: Option<Capacity>,
}

impl Link {
    /// What is written, in the types that the gateway uses.
    pub(super) fn of(raw: Option<At<LinkKeys>>) -> Self {
        let Some(At { value: raw, place }) = raw else { return Link::default() };
        let LinkKeys { capacity: bits, interface, estimate: estimates, mark } = raw;
        match (place.has("capacity"), place.has("interface")) {
            (true, true) => {
                place.fault_at(
                    "interface",
                    "cannot be together with capacity; leave one of them out",
                );
            }
            _ if estimates && is_said(&place) => place.fault_at(
                "estimate",
                "cannot be together with capacity or interface; leave one of them out",
            ),
            (false, false) if !mark && !estimates => place.missing(
                "capacity",
                "write capacity = 100_000_000, for 100 Mbit/s, or interface = \"eth0\", or estimate = true",
            ),
            _ => {}
        }
        let interface = interface.map(|At { value: name, place }| {
            let path = capacity::folder("/sys".as_ref(), name.as_str());
            let named = NamedFile { path, key: place.key.clone(), at: place.at };
            LinkInterface { name, named, capacity: None }
        });
        Link { capacity: bits, interface, estimates, marks: mark }
    }

    /// How many bits a second it carries. `None`: not known.
    pub fn bits(&self) -> Option<u64> {
        let read = self.interface.as_ref().and_then(|it| it.capacity);
        self.capacity.or(read.map(|read| read.bits))
    }

    /// What it carries, if that is known or to be found.
    pub fn carries(&self) -> Option<Carries> {
        match self.estimates {
            true => Some(Carries::Found),
            false => self.bits().map(Carries::Said),
        }
    }

    /// Marks the background classes that do not say otherwise, if the policy wants it.
    pub(super) fn mark(&self, classes: &mut [Class]) {
        for class in classes.iter_mut().filter(|class| self.marks && class.background) {
            class.dscp.get_or_insert(Label::BACKGROUND.dscp);
            class.socket_priority.get_or_insert(Label::BACKGROUND.priority);
        }
    }
}

/// Whether it says what the link carries.
pub(super) fn is_known(raw: Option<&At<LinkKeys>>) -> bool {
    raw.is_some_and(|raw| is_said(&raw.place))
}

fn is_said(place: &Place) -> bool {
    place.has("capacity") || place.has("interface")
}

/// For `tiergate check`: a line for each.
pub(crate) fn words(link: &Link) -> Vec<String> {
    let of = |it: &LinkInterface| {
        let from = it.capacity.map_or("", |read| read.from.words());
        format!(", as {} says: {from}; read again while running", it.name)
    };
    let of = link.interface.as_ref().map_or(String::new(), of);
    let carries = |bits| format!("carries {} Mbit/s{of}", bits as f64 / 1e6);
    let mut lines: Vec<String> = link.bits().map(carries).into_iter().collect();
    if link.estimates {
        lines.push(
            "what it carries is estimated while running, by background answers over HTTP/1.1"
                .to_owned(),
        );
    }
    if link.marks {
        lines.push(format!(
            "background classes are marked {} unless they say otherwise, and requests to the origin as answers are",
            dscp::shown(Label::BACKGROUND.dscp)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use crate::config::parse;

    #[test]
    fn the_background_is_marked_unless_its_classes_say_otherwise() {
        let policy = |link: &str| {
            let text = format!(
                "{link}\n[origin]\nservers = [\"a:1\"]\n[[class]]\nname = \"site\"\n\
                 [[class]]\nname = \"bulk\"\nbackground = true\n\
                 [[class]]\nname = \"own\"\nbackground = true\ndscp = \"cs1\"\nsocket_priority = 2\n"
            );
            parse(&text, "p.toml").expect("a policy")
        };
        let marks = |link: &str| {
            let policy = policy(link);
            let classes = policy.plan.classes.iter();
            classes.map(|class| (class.dscp, class.socket_priority)).collect::<Vec<_>>()
        };
        let own = (Some(8), Some(2));
        assert_eq!(marks("[link]\nmark = true"), [(None, None), (Some(1), Some(1)), own]);
        for link in ["", "[link]\ncapacity = 1_000_000", "[link]\ninterface = \"eth0\""] {
            assert_eq!(marks(link), [(None, None), (None, None), own], "{link}");
        }
        let link = policy("[link]\ninterface = \"eth0\"").link;
        assert_eq!(link.bits(), None, "parsing opens nothing");
        let named = link.interface.expect("it is named").named;
        assert_eq!((named.key.as_str(), named.at), ("link.interface", 19));
    }
}
