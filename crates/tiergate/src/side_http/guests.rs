//! Who is connected to a listener that strangers reach: when it is full, those who have shown no token make room.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Connections of one address.
pub(super) const OF_PEER_MAX: usize = 8;

/// The connections that are open, the oldest first. The listener writes it, and each connection at its end and at its first answer that a
/// token was shown for.
#[derive(Clone, Debug, Default)]
pub(super) struct Guests(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    all: Vec<Guest>,
    /// The next one's id. None is given twice: one that has to go may still be there when the next has come.
    next: u64,
}

#[derive(Debug)]
struct Guest {
    peer: IpAddr,
    /// Whether it has shown a token.
    is_known: bool,
    /// Dropped, it ends the connection.
    _end: oneshot::Sender<()>,
    id: u64,
}

/// A connection's place, until dropped.
#[derive(Debug)]
pub(super) struct Seat {
    guests: Guests,
    id: u64,
}

impl Guests {
    /// A place for a connection of that address, among at most `max`, and what resolves when it has to go. The oldest stranger goes if
    /// there is none: of the same address if that has too many. `None`: all have shown a token.
    pub(super) fn admit(&self, peer: IpAddr, max: usize) -> Option<(Seat, oneshot::Receiver<()>)> {
        let peer = peer.to_canonical();
        let mut list = self.lock();
        let List { all: guests, next } = &mut *list;
        let of_peer = guests.iter().filter(|it| it.peer == peer).count();
        let is_crowded = of_peer >= OF_PEER_MAX;
        if is_crowded || guests.len() >= max {
            let goes = |it: &Guest| !it.is_known && (!is_crowded || it.peer == peer);
            let place = guests.iter().position(goes)?;
            guests.remove(place);
        }
        let id = *next;
        *next += 1;
        let (_end, ended) = oneshot::channel();
        guests.push(Guest { peer, is_known: false, _end, id });
        Some((Seat { guests: self.clone(), id }, ended))
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The connection has shown a token.
    pub(super) fn is_known(&self) {
        let mut guests = self.guests.lock();
        if let Some(guest) = guests.all.iter_mut().find(|it| it.id == self.id) {
            guest.is_known = true;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.guests.lock().all.retain(|it| it.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn the_oldest_that_has_shown_no_token_makes_room() {
        let guests = Guests::default();
        let mut seats: Vec<_> =
            (0..4).map(|it| guests.admit(peer(it), 4).expect("there is room")).collect();
        seats[0].0.is_known();
        let has_gone = |(_, ended): &mut (Seat, oneshot::Receiver<()>)| {
            ended.try_recv().is_err_and(|it| it == oneshot::error::TryRecvError::Closed)
        };
        let fifth = guests.admit(peer(9), 4).expect("a stranger goes");
        let gone: Vec<_> = seats.iter_mut().map(has_gone).collect();
        assert_eq!(gone, [false, true, false, false]);
        fifth.0.is_known();
        seats[2].0.is_known();
        seats[3].0.is_known();
        assert!(guests.admit(peer(9), 4).is_none(), "all are known");
        drop(fifth);
        assert!(guests.admit(peer(9), 4).is_some());
    }

    #[test]
    fn an_address_has_its_share_and_crowds_itself_out_only() {
        let guests = Guests::default();
        let mut other = guests.admit(peer(1), 64).expect("there is room");
        let seats: Vec<_> = (0..2 * OF_PEER_MAX).map(|_| guests.admit(peer(2), 64)).collect();
        assert!(seats.iter().all(Option::is_some));
        assert_eq!(guests.lock().all.len(), 1 + OF_PEER_MAX);
        assert!(other.1.try_recv().is_err_and(|it| it == oneshot::error::TryRecvError::Empty));
        let mapped = "::ffff:127.0.0.2".parse().expect("an address");
        let last = guests.admit(mapped, 64);
        assert!(last.is_some());
        assert_eq!(guests.lock().all.len(), 1 + OF_PEER_MAX, "the same address");
        drop(seats);
        assert_eq!(guests.lock().all.len(), 2, "those that had to go take no one with them");
    }
}
