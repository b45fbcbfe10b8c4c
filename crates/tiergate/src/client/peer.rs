//! The other end of a client's connection.

use super::alt_svc::AltSvc;
use super::history::ConnectionHistory;
use crate::connections::Standing;
use crate::shared::Config;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tiergate_core::request::{Field, RequestView};
use tiergate_wire::forwarded::client_address;
use tiergate_wire::http1::PeerText;

/// The other end of a client's connection.
#[derive(Debug)]
pub struct Peer {
    /// The client, by the socket or the PROXY protocol.
    pub address: SocketAddr,
    /// The same, as text.
    pub text: PeerText,
    /// Where it connected to.
    pub local: SocketAddr,
    /// Whether by TLS.
    pub secure: bool,
    /// The listener's address, as the policy gives it.
    pub listener: SocketAddr,
    /// The server name that the client asked for in its TLS handshake.
    pub sni: Option<Arc<str>>,
    /// The name in its verified certificate.
    pub certificate: Option<Arc<str>>,
    /// Whether it has one, with or without a name in it.
    pub has_certificate: bool,
    /// Whether the connection is passed on for a client that is not known: then nothing that it says of others
    /// is believed, although `address` is that of a trusted peer.
    pub is_stranger: bool,
    /// The code point of its packets, or [`RequestView::DSCP_UNKNOWN`].
    pub dscp: u8,
    /// Whether its packets are IPv6, even if a proxy named an IPv4 client.
    pub by_v6: bool,
    /// What the connection has brought so far.
    pub history: ConnectionHistory,
    /// How important its requests make the connection, where connections are bounded.
    pub standing: Option<Standing>,
    /// The HTTP/3 of its listener, where it came by TCP and there is any.
    pub alt_svc: Option<Arc<AltSvc>>,
}

impl Peer {
    /// A peer of which nothing is known but its connection: over TCP from `address` to `local`, accepted
    /// by the listener at `listener`.
    pub fn new(address: SocketAddr, local: SocketAddr, listener: SocketAddr, secure: bool) -> Self {
        Peer {
            address,
            text: PeerText::new(address.ip()),
            local,
            secure,
            listener,
            sni: None,
            certificate: None,
            has_certificate: false,
            is_stranger: false,
            dscp: RequestView::DSCP_UNKNOWN,
            by_v6: address.ip().to_canonical().is_ipv6(),
            history: ConnectionHistory::default(),
            standing: None,
            alt_svc: None,
        }
    }

    /// The code point of a client's packets: that of the connection, unless the peer speaks for another.
    pub fn dscp_of(&self, client: IpAddr) -> u8 {
        match client.to_canonical() == self.address.ip().to_canonical() {
            true => self.dscp,
            false => RequestView::DSCP_UNKNOWN,
        }
    }

    /// Whether the policy trusts what the peer says of its clients.
    pub fn is_trusted(&self, config: &Config) -> bool {
        let address = self.address.ip().to_canonical();
        !self.is_stranger && config.policy.trusted.iter().any(|net| net.contains(&address))
    }

    /// The client of a request with these fields: the peer, or whom a trusted peer names.
    pub fn client(&self, config: &Config, fields: &[Field<'_>]) -> IpAddr {
        let trusted = if self.is_stranger { &[] } else { &config.policy.trusted[..] };
        client_address(self.address.ip(), fields, trusted)
    }
}
