//! Who is connected to a listener: when it is full, those make room who have shown no token, where strangers reach it, and else those
//! who have been silent for longest.

use super::course::Course;
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
    course: Arc<Course>,
    /// Dropped, it ends the connection.
    _end: oneshot::Sender<()>,
    id: u64,
}

/// A connection's place, until dropped.
#[derive(Debug)]
pub(super) struct Seat {
    guests: Guests,
    course: Arc<Course>,
    id: u64,
}

/// A connection's place, and what resolves when it has to go.
pub(super) type Admitted = (Seat, oneshot::Receiver<()>);

impl Guests {
    /// A place for a connection of that address, among at most `max`. The oldest stranger goes if
    /// there is none: of the same address if that has too many. `None`: all have shown a token.
    pub(super) fn admit(&self, peer: IpAddr, max: usize) -> Option<Admitted> {
        let peer = peer.to_canonical();
        let mut list = self.lock();
        let guests = &mut list.all;
        let of_peer = guests.iter().filter(|it| it.peer == peer).count();
        let is_crowded = of_peer >= OF_PEER_MAX;
        if is_crowded || guests.len() >= max {
            let goes = |it: &Guest| !it.is_known && (!is_crowded || it.peer == peer);
            let place = guests.iter().position(goes)?;
            guests.remove(place);
        }
        Some(self.seat(&mut list, peer))
    }

    /// The same where no strangers come. Who has been silent for longest goes, whatever its address; only where none is silent, the one
    /// that has waited longest for its answer.
    pub(super) fn admit_any(&self, peer: IpAddr, max: usize) -> Admitted {
        let mut list = self.lock();
        if list.all.len() >= max {
            let ranks = list.all.iter().map(|it| it.course.rank()).enumerate();
            let first = ranks.min_by_key(|(_, rank)| *rank);
            let (place, _) = first.expect("a listener has places");
            list.all.remove(place);
        }
        self.seat(&mut list, peer)
    }

    fn seat(&self, list: &mut List, peer: IpAddr) -> Admitted {
        let id = list.next;
        list.next += 1;
        let (_end, ended) = oneshot::channel();
        let course = Arc::new(Course::new());
        list.all.push(Guest { peer, is_known: false, course: course.clone(), _end, id });
        (Seat { guests: self.clone(), course, id }, ended)
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The connection's course.
    pub(super) fn course(&self) -> &Arc<Course> {
        &self.course
    }

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

    fn has_gone((_, ended): &mut Admitted) -> bool {
        ended.try_recv().is_err_and(|it| it == oneshot::error::TryRecvError::Closed)
    }

    /// All of one address, as by a tunnel.
    #[test]
    fn the_longest_silent_makes_room_and_one_that_is_served_only_where_all_are() {
        let guests = Guests::default();
        let mut seats: Vec<_> = (0..4).map(|_| guests.admit_any(peer(1), 4)).collect();
        let gone =
            |seats: &mut [Admitted]| -> Vec<bool> { seats.iter_mut().map(has_gone).collect() };
        let answering: Vec<_> = [0, 2].map(|it: usize| seats[it].0.course().begins()).into();
        seats.push(guests.admit_any(peer(1), 4));
        assert_eq!(gone(&mut seats), [false, true, false, false, false]);
        seats.push(guests.admit_any(peer(1), 4));
        assert_eq!(gone(&mut seats), [false, true, false, true, false, false]);
        let all: Vec<_> = [4, 5].map(|it: usize| seats[it].0.course().begins()).into();
        seats.push(guests.admit_any(peer(1), 4));
        assert_eq!(gone(&mut seats), [true, true, false, true, false, false, false]);
        drop((answering, all));
        assert_eq!(guests.lock().all.len(), 4);
    }

    #[test]
    fn the_oldest_that_has_shown_no_token_makes_room() {
        let guests = Guests::default();
        let mut seats: Vec<_> =
            (0..4).map(|it| guests.admit(peer(it), 4).expect("there is room")).collect();
        seats[0].0.is_known();
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
