//! Rules of one listener at the server's addresses, for whatever polices SYNs.

use super::{Network, SERVER, SERVER_OTHER, SERVER_V6};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, PolicerId, Settings, Share};
use tiergate_core::early::bucket::Wanted;
use tiergate_core::early::{Early, Entry};
use tiergate_core::names::ClassId;
use tiergate_kernel::{Service, Switches};

pub(crate) const PORT: u16 = 80;
pub(crate) const POLICER: PolicerId = PolicerId(3);
pub(crate) const POLICE: Switches = Switches { police: true, block: false, block_all: false };

/// A bucket with shares of classes: class, parts of 10,000, burst.
pub(crate) fn wanted(rate: u32, burst: u32, shares: &[(u16, u16, u32)]) -> Wanted {
    let share = |(class, parts, burst): &(u16, u16, u32)| Share {
        class: ClassId(*class),
        parts: *parts,
        burst: *burst,
    };
    let settings = Settings {
        name: String::new(),
        key: None,
        rate: Rate::per_second(rate.max(1)),
        burst,
        per: Per::Rule,
        shares: shares.iter().map(share).collect(),
        inbound: None,
        announce: false,
    };
    Wanted::of(&settings, Rate::per_second(rate)).expect("the kernel can")
}

pub(crate) fn entry(network: &str, bucket: Option<u16>, partition: Option<u8>) -> Entry {
    let network = network.parse().expect("a network");
    Entry { network, bucket, partition, may_be_spared: false, is_trusted: false }
}

pub(crate) fn early(entries: Vec<Entry>) -> Early {
    Early { policers: vec![POLICER], listeners: vec![entries], ..Early::default() }
}

/// The listener's addresses.
pub(crate) fn addresses() -> Vec<Service> {
    let all = [SERVER.into(), SERVER_V6.parse().expect("an address"), SERVER_OTHER.into()];
    let service = |it: IpAddr| Service { listener: 0, local: SocketAddr::new(it, PORT) };
    all.into_iter().map(service).collect()
}

pub(crate) fn connects(network: &Network, to: &str, patience: Duration) -> bool {
    let to = SocketAddr::new(to.parse().expect("an address"), PORT);
    network.on_client(|| TcpStream::connect_timeout(&to, patience).is_ok())
}
