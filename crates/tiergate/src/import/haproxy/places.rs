//! The addresses that frontends bind, and which listener takes the connections to each.
//!
//! HAProxy may listen at an address beside all addresses of the same port, and its frontend has the connections to it. A policy has one
//! listener for them, and rules tell them apart by `destination`.

use super::super::draft::{Draft, From, Item, quoted};
use super::bind::{Folders, Tls, address, tls};
use super::grammar::{Line, Section};
use super::options::Options;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

/// The connections to an address.
#[derive(Clone)]
pub(super) struct Place {
    /// The number of its section among all.
    section: usize,
    pub(super) address: SocketAddr,
    /// The listener that takes them: that of all addresses, if there is one.
    pub(super) listener: SocketAddr,
    pub(super) tls: Option<Tls>,
    /// What of it could not be taken over: it refuses everything.
    pub(super) is_closed: bool,
    /// Whether it is to have no connections over IPv4.
    is_v6_only: bool,
    pub(super) from: From,
}

impl Place {
    /// Whether another listener takes its connections.
    pub(super) fn is_single(&self) -> bool {
        self.address != self.listener
    }
}

/// The addresses of all frontends.
#[derive(Default)]
pub(super) struct Places {
    list: Vec<Place>,
}

/// An address as it is written.
struct Bound {
    place: Place,
    /// Why it has no listener.
    why: Option<String>,
}

impl Places {
    pub(super) fn read(sections: &[Section], draft: &mut Draft) -> Self {
        let folders = Folders::read(sections);
        let (mut all, mut unknown) = (Vec::new(), Vec::new());
        for (section, it) in sections.iter().enumerate() {
            if !it.is_front() || it.is_disabled() {
                continue;
            }
            for line in it.lines.iter().filter(|it| it.word(0) == "bind") {
                bound(section, line, &folders, &mut all, &mut unknown, draft);
            }
        }
        add_v4(&mut all);
        for (line, ports) in unknown {
            let why = "must be an address with a port, such as 0.0.0.0:80; no UNIX socket and no range of ports";
            let takes = |it: &Bound| {
                it.why.is_none()
                    && ports.as_ref().is_some_and(|of| of.contains(&it.place.address.port()))
            };
            match all.iter().any(takes) {
                true => draft.less_safe(
                    &line.from,
                    &format!("{why}: another listener may take its connections, with other rules"),
                ),
                false => draft.stricter(&line.from, why),
            }
        }
        Places { list: taken(all, draft) }
    }

    /// Those of a section.
    pub(super) fn of(&self, section: usize) -> impl Iterator<Item = &Place> {
        self.list.iter().filter(move |it| it.section == section)
    }

    /// The port, if all have the same.
    pub(super) fn port(&self) -> Option<u16> {
        let first = self.list.first()?.address.port();
        self.list.iter().all(|it| it.address.port() == first).then_some(first)
    }

    pub(super) fn listeners(&self) -> Vec<Item> {
        let listener = |place: &Place| {
            let mut item = Item::new("[[listener]]");
            item.key("address", quoted(&place.address.to_string()), &place.from);
            if let Some(tls) = &place.tls {
                item.key("tls", tls.toml(), &place.from);
            }
            item
        };
        self.list.iter().filter(|it| !it.is_single()).map(listener).collect()
    }

    /// The listeners that would take connections over IPv4, and are not to: those of all addresses of IPv6 do unless another listener has the port.
    pub(super) fn without_v4(&self) -> impl Iterator<Item = &Place> {
        let has_v4 = |port| {
            let v4 = |it: &&Place| it.listener.is_ipv4() && it.listener.port() == port;
            self.list.iter().any(|it| v4(&it))
        };
        self.list.iter().filter(move |it| {
            it.is_v6_only && it.address.ip().is_unspecified() && !has_v4(it.address.port())
        })
    }
}

/// Adds the addresses of a line, or it itself with its ports where they are unknown.
fn bound<'l>(
    section: usize,
    line: &'l Line,
    folders: &Folders,
    all: &mut Vec<Bound>,
    unknown: &mut Vec<(&'l Line, Option<RangeInclusive<u16>>)>,
    draft: &mut Draft,
) {
    let (tls, why) = match tls(line, folders, draft) {
        Ok(tls) => (tls, None),
        Err(why) => (None, Some(why)),
    };
    let is_v6_only = Options::of_bind(line).is_on("v6only", &["v4v6"]);
    for text in line.word(1).split(',') {
        match address(text) {
            Ok(address) => {
                let place = Place {
                    section,
                    address,
                    listener: address,
                    tls: tls.clone(),
                    is_closed: why.is_some(),
                    is_v6_only: is_v6_only && address.is_ipv6(),
                    from: line.from.clone(),
                };
                all.push(Bound { place, why: why.clone() });
            }
            Err(ports) => unknown.push((line, ports)),
        }
    }
}

/// Whether it takes all connections of a port over IPv6 and, where no other does, over IPv4.
fn has_both(it: &Bound) -> bool {
    let address = it.place.address;
    it.why.is_none() && !it.place.is_v6_only && address.is_ipv6() && address.ip().is_unspecified()
}

/// Adds all addresses of IPv4 where those of IPv6 have them, too: a listener of a policy leaves IPv4 to others as soon as one has its port.
fn add_v4(all: &mut Vec<Bound>) {
    let mut more: Vec<Bound> = Vec::new();
    for it in all.iter().filter(|it| has_both(it)) {
        let of_v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), it.place.address.port());
        let mut others = all.iter().filter(|other| {
            let address = other.place.address;
            other.why.is_none() && address.is_ipv4() && address.port() == of_v4.port()
        });
        let is_shared = others.next().is_some();
        let has_it =
            |list: &[Bound]| list.iter().any(|it| it.why.is_none() && it.place.address == of_v4);
        if is_shared && !has_it(all) && !has_it(&more) {
            let place = Place { address: of_v4, listener: of_v4, ..it.place.clone() };
            more.push(Bound { place, why: None });
        }
    }
    all.extend(more);
}

/// The places whose connections come, with the listeners that take them.
fn taken(all: Vec<Bound>, draft: &mut Draft) -> Vec<Place> {
    let written = |it: &&Bound| it.why.is_none();
    let addresses: Vec<SocketAddr> =
        all.iter().filter(written).map(|it| it.place.address).collect();
    let both: Vec<u16> =
        all.iter().filter(|it| has_both(it)).map(|it| it.place.address.port()).collect();
    let mut places: Vec<Place> = Vec::new();
    for Bound { mut place, why } in all {
        let own = place.address;
        let takes = |it: &&SocketAddr| {
            it.ip().is_unspecified() && it.port() == own.port() && it.is_ipv4() == own.is_ipv4()
        };
        place.listener = addresses.iter().find(takes).copied().unwrap_or(own);
        if let Some(why) = why {
            let is_shared = addresses.contains(&own)
                || own.is_ipv4() && own.ip().is_unspecified() && both.contains(&own.port());
            match (is_shared, place.is_single()) {
                (true, _) => draft.less_safe(&place.from, &format!("{why}: this listener is not written, and another takes its connections, with other rules")),
                (_, false) => draft.stricter(&place.from, &format!("{why}: this listener is not written")),
                (_, true) => {
                    draft.stricter(&place.from, &format!("{why}: the listener of all addresses takes its connections, and they are refused"));
                    places.push(place);
                }
            }
            continue;
        }
        if places.iter().any(|it| it.address == own && !it.is_closed) {
            draft.less_safe(
                &place.from,
                "is bound already: what comes there gets the rules of the first section",
            );
            continue;
        }
        places.push(place);
    }
    share(&mut places, draft);
    // What its own frontend takes needs no rules of its own.
    let takers: Vec<(SocketAddr, usize)> =
        places.iter().filter(|it| !it.is_single()).map(|it| (it.address, it.section)).collect();
    places.retain(|it| {
        it.is_closed || !it.is_single() || !takers.contains(&(it.listener, it.section))
    });
    places
}

/// Closes the addresses whose TLS is not that of the listener that takes their connections, and gives it their certificates.
fn share(places: &mut [Place], draft: &mut Draft) {
    for index in 0..places.len() {
        let place = &places[index];
        if !place.is_single() || place.is_closed {
            continue;
        }
        let (from, tls) = (place.from.clone(), place.tls.clone());
        let taker = places.iter().position(|it| it.address == place.listener && !it.is_closed);
        let taker = taker.expect("the listener is one of the places");
        let why = match (&tls, &mut places[taker].tls) {
            (None, None) => continue,
            (Some(own), Some(all)) if own.client == all.client => {
                for it in &own.certificates {
                    if !all.certificates.contains(it) {
                        draft.note(&from, "the listener of all addresses takes these connections, and of its certificates and these each client gets the one of the name that it asks for");
                        all.certificates.push(it.clone());
                    }
                }
                continue;
            }
            (Some(_), Some(_)) => {
                "the listener of all addresses takes these connections, and asks otherwise for clients' certificates: they are refused until this address has a port of its own"
            }
            _ => {
                "the listener of all addresses takes these connections, and only one of the two speaks TLS: they are refused until this address has a port of its own"
            }
        };
        draft.stricter(&from, why);
        places[index].is_closed = true;
    }
}
