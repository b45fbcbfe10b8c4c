//! The class of a connection, as far as it is known at accept.

use crate::config::meant::Listener;
use crate::shared::Shared;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use tiergate_core::classify::{Known, Scratch};
use tiergate_core::names::ClassId;
use tiergate_core::request::RequestView;

thread_local! {
    /// What classification remembers of a connection while it looks at it.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The class that the requests of a connection have by what is known of it before it has sent anything; `None`: that does
/// not decide. `local` says where it connected to.
pub(crate) fn class_at_accept(
    local: impl FnOnce() -> Option<IpAddr>,
    from: SocketAddr,
    dscp: u8,
    listener: &Listener,
    shared: &Shared,
) -> Option<ClassId> {
    let config = shared.config.load();
    let trusted = config.policy.trusted.iter().any(|net| net.contains(&from.ip().to_canonical()));
    let place = config.policy.listener_at(listener.address);
    // Whose requests a trusted peer sends is not known yet.
    let (view, known) = if trusted || listener.proxy_protocol {
        (RequestView { listener: place, ..RequestView::EMPTY }, Known::Listener)
    } else {
        let local = local()?;
        let view =
            RequestView { client: from.ip(), listener: place, local, dscp, ..RequestView::EMPTY };
        (view, Known::Addresses)
    };
    let classifier = &config.policy.classifier;
    SCRATCH.with_borrow_mut(|scratch| classifier.class_at_accept(&view, known, scratch))
}
