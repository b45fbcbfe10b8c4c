//! An answer that has its turn and cannot use it.

use super::*;
use std::task::Waker;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::transmit::{Carried, Sending};

/// A client's connection that is open, or shut by its protocol, or gone; what it has sent and may send; and when it was to ask for room.
struct Connection(Poll<Result<(), Gone>>, Sending, Vec<bool>);

impl Carrier for Connection {
    fn with_carried<T>(&mut self, then: impl FnOnce(&mut Carried, &Sending) -> T) -> Option<T> {
        Some(then(&mut Carried::default(), &self.1))
    }

    fn asks_for_room(&mut self, does: bool) {
        self.2.push(does);
    }

    fn poll_open(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.0
    }
}

const ROOM: Sending = Sending {
    sent: 0,
    packets: 0,
    unsent: 0,
    in_flight: 0,
    window: 1 << 20,
    packets_in_flight: 0,
    packets_max: 1000,
    packet: 1448,
};

/// However an answer makes no use of its turn, it waits for none any more: else no other class of the background would have one.
#[tokio::test]
async fn who_was_called_and_cannot_send_stands_in_nobodys_way() {
    let background = Class { background: true, ..Class::named("batch") };
    let classes = [ClassId(0), ClassId(1)];
    let client = SocketAddr::from(([127, 0, 0, 1], 1));
    let turn = |id| Turn::new(id, Some(&background), client, Heads::of(false, false));
    let mut context = Context::from_waker(Waker::noop());
    let shut = Sending { window: 0, in_flight: 1, ..ROOM };
    let hindered = [
        (Poll::Ready(Err(Gone)), ROOM, Err(Gone)),
        (Poll::Pending, ROOM, Ok(Take::NoRoom)),
        (Poll::Ready(Ok(())), shut, Ok(Take::NoRoom)),
    ];
    for (is_open, sending, expected) in hindered {
        let link = Link::default();
        let senders = classes.map(|class| Sender::of(class, &background));
        // A packet takes 6 ms.
        link.set(clock::now(), Some((Capacity::Said(2_000_000), senders.to_vec())), None);
        let mut open = Connection(Poll::Ready(Ok(())), ROOM, vec![]);
        let mut first = turn(classes[0]);
        let mut takes = |turn: &mut Turn, client: &mut Connection| {
            link.poll_take(turn, 1400, client, &mut context)
        };
        while takes(&mut first, &mut open) != Ok(Take::TooEarly) {}
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!turns::call_next(classes[0]));
        assert_eq!(takes(&mut first, &mut Connection(is_open, sending, vec![])), expected);
        let mut other = turn(classes[1]);
        assert!(matches!(takes(&mut other, &mut open), Ok(Take::Bytes(_))), "{is_open:?}");
    }
}

#[tokio::test]
async fn a_peer_without_room_is_asked_for_it_and_gets_nothing() {
    let background = Class { background: true, ..Class::named("batch") };
    let client = SocketAddr::from(([127, 0, 0, 1], 1));
    let heads = Heads::of(false, false);
    let mut turn = Turn::new(ClassId(0), Some(&background), client, heads);
    let link = Link::default();
    let sender = Sender::of(ClassId(0), &background);
    link.set(clock::now(), Some((Capacity::Said(100_000_000), vec![sender])), None);
    let mut context = Context::from_waker(Waker::noop());
    let mut peer = Connection(Poll::Ready(Ok(())), Sending { window: 0, ..ROOM }, vec![]);
    let began = clock::now();
    let is_long = || clock::now().since(began) >= Duration::from_secs(2);
    while peer.2.is_empty() {
        assert!(clock::now().since(began) < Duration::from_secs(20), "never asked");
        assert_eq!(link.poll_take(&mut turn, 1400, &mut peer, &mut context), Ok(Take::NoRoom));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(is_long(), "a client may pause");
    peer.1 = ROOM;
    while link.poll_take(&mut turn, 1400, &mut peer, &mut context) == Ok(Take::NoRoom) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(peer.2, [true, false]);
}
