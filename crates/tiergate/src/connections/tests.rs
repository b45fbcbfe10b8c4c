use super::connection::{Connection, Entered};
use super::place::EVICTED;
use super::table::{Connections, LOOK, client};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tiergate_core::admit::connections::{BRIEF, Bounds, Newcomer};

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn bounds(max: usize, levels: u8) -> Bounds {
    Bounds { max, levels }
}

fn enter(table: &Arc<Connections>, from: &str) -> Connection {
    table.enter_now(address(from), usize::MAX, None).expect("there is room")
}

fn evicted(connections: &[Connection]) -> Vec<usize> {
    let told = |it: &Connection| it.place.state.load(Ordering::Relaxed) == EVICTED;
    connections.iter().enumerate().filter_map(|(at, it)| told(it).then_some(at)).collect()
}

fn leaving(table: &Connections) -> usize {
    table.totals.leaving.load(Ordering::Relaxed)
}

/// Makes them idle since moments in the given order.
fn idle_in_order(connections: &[Connection], order: &[u64]) {
    for (connection, &since) in connections.iter().zip(order) {
        connection.place.state.store(since, Ordering::Relaxed);
    }
}

#[test]
fn room_is_made_by_the_client_with_most_and_there_by_the_one_idle_longest() {
    let table = Arc::new(Connections::default());
    let of = ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.3"];
    let open: Vec<_> = of.iter().map(|text| enter(&table, text)).collect();
    idle_in_order(&open, &[1, 30, 20, 40, 60, 50]);
    assert_eq!((table.evict(1, 0), evicted(&open)), (1, vec![2]));
    // Two with two each: the one idle longest of all.
    assert_eq!((table.evict(1, 0), evicted(&open)), (1, vec![1, 2]));
    drop(open);
    assert_eq!((table.open(), leaving(&table), table.known()), (0, 0, 0));
    assert!(table.table().is_empty());
}

#[test]
fn several_at_once_are_those_that_one_after_the_other_would_be() {
    let table = Arc::new(Connections::default());
    let of = ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.3"];
    let open: Vec<_> = of.iter().map(|text| enter(&table, text)).collect();
    idle_in_order(&open, &[1, 30, 20, 40, 60, 50]);
    assert_eq!((table.evict(3, 0), evicted(&open)), (3, vec![1, 2, 5]));
}

#[test]
fn one_that_opens_many_takes_nothing_from_those_that_have_few() {
    // Moments count from the first that is asked for.
    crate::clock::now();
    let table = Arc::new(Connections::default());
    let (few, many, new) = ("192.0.2.1", "192.0.2.2", "192.0.2.3");
    let modest = [enter(&table, few)];
    let greedy: Vec<_> = (0..3).map(|_| enter(&table, many)).collect();
    greedy.iter().for_each(Connection::busy);
    idle_in_order(&modest, &[1 << 59]);
    let look = |from: &str| {
        let client = client(address(from));
        let newcomer = Newcomer::Connection { client, held: table.held(client), level: None };
        table.look(1, newcomer, 0).told
    };
    assert_eq!(look(many), 0);
    // Nor does one that has none, unless it has been idle for long.
    assert_eq!(look(new), 0);
    // What is not whole makes room, for whom it may be.
    greedy[0].has_begun();
    greedy[2].idle();
    assert_eq!((look(new), evicted(&greedy)), (1, vec![2]));
    assert_eq!((look(many), evicted(&greedy)), (1, vec![0, 2]));
    idle_in_order(&modest, &[1]);
    std::thread::sleep(2 * BRIEF);
    crate::clock::now();
    assert_eq!(look(many), 0);
    assert_eq!(look(new), 1);
}

#[test]
fn a_connection_with_a_request_makes_no_room() {
    let table = Arc::new(Connections::default());
    let open: Vec<_> = (0..3).map(|_| enter(&table, "::1")).collect();
    open[0].busy();
    assert_eq!(table.evict(9, 0), 2);
    // A request that came at the last moment is served.
    open[1].busy();
    assert_eq!((evicted(&open), leaving(&table)), (vec![2], 1));
    open[1].idle();
    assert_eq!((table.evict(9, 0), evicted(&open)), (1, vec![1, 2]));
}

/// Of 16 connections two are kept for what is above the least important.
#[test]
fn the_least_important_leave_what_is_kept_and_come_back_as_others_go() {
    let (table, bounds) = (Arc::new(Connections::default()), bounds(16, 2));
    let open: Vec<_> = (0..16).map(|at| enter(&table, &format!("192.0.2.{at}"))).collect();
    open.iter().for_each(Connection::busy);
    let brings = |at: usize, level| open[at].standing().brings(level, true, bounds);
    assert!((0..14).all(|at| brings(at, 1) == (true, 0)));
    assert_eq!((brings(14, 1), table.known()), ((false, 0), 14));
    assert_eq!((brings(14, 0), brings(15, 0), table.known()), ((true, 0), (true, 0), 16));
    // One that has brought a request asks nobody again; one that becomes more important neither.
    assert_eq!((brings(3, 1), brings(2, 0), table.known()), ((true, 0), (true, 0), 16));
    // It may not sink where there is no room for its like, unless something more important goes on beside it.
    assert_eq!(brings(2, 1), (false, 0));
    assert_eq!(open[2].standing().brings(1, false, bounds), (true, 0));
    // An idle one makes room, and is not counted any more.
    std::thread::sleep(2 * LOOK);
    crate::clock::now();
    open[5].idle();
    assert_eq!(
        (brings(14, 0), brings(2, 1)),
        ((true, 0), (false, 0)),
        "it has not been idle for long"
    );
    idle_in_order(&open[5..6], &[1]);
    std::thread::sleep(Duration::from_secs(1) + 2 * LOOK);
    crate::clock::now();
    assert_eq!((brings(2, 1), evicted(&open), table.known()), ((true, 1), vec![5], 15));
    // It had a request after all.
    open[5].busy();
    assert_eq!(table.known(), 16);
    drop(open);
    assert_eq!((table.open(), leaving(&table), table.known()), (0, 0, 0));
}

/// Where only the important are left, what is kept is restored by those that can go.
#[test]
fn an_important_request_has_a_less_important_connection_make_room_for_the_next() {
    let (table, bounds) = (Arc::new(Connections::default()), bounds(16, 2));
    let open: Vec<_> = (0..15).map(|at| enter(&table, &format!("192.0.2.{at}"))).collect();
    open.iter().for_each(Connection::busy);
    let brings = |at: usize, level| open[at].standing().brings(level, true, bounds);
    assert!((0..14).all(|at| brings(at, 1).0));
    open[3].idle();
    assert_eq!((brings(14, 0), evicted(&open), table.known()), ((true, 1), vec![3], 14));
}

#[test]
fn a_client_is_an_address_or_a_network_of_version_6() {
    for (one, other, same) in [
        ("192.0.2.1", "::ffff:192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("2001:db8::1", "2001:db8::ffff:1", true),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
    ] {
        assert_eq!(client(address(one)) == client(address(other)), same, "{one} {other}");
    }
    let table = Arc::new(Connections::default());
    let mut open = enter(&table, "192.0.2.1");
    open.belongs_to(address("192.0.2.9"));
    assert_eq!(table.table().keys().collect::<Vec<_>>(), [&address("192.0.2.9")]);
}

#[tokio::test]
async fn newcomers_get_in_as_soon_as_an_idle_connection_has_left() {
    let table = Arc::new(Connections::default());
    let idle = enter(&table, "192.0.2.1");
    let other = enter(&table, "192.0.2.1");
    other.busy();
    let leaves = async {
        assert_eq!(idle.unless_evicted(std::future::pending::<()>()).await, None);
        drop(idle);
    };
    let comes = table.enter(address("192.0.2.2"), bounds(2, 1), || None);
    let ((), Entered { connection, evicted }) = tokio::join!(leaves, comes);
    assert_eq!((evicted, table.open()), (1, 2));
    let connection = connection.expect("there was room for it");
    connection.busy();
    // None can make room for anybody: it waits.
    let comes = table.enter(address("192.0.2.2"), bounds(2, 1), || None);
    assert!(tokio::time::timeout(5 * LOOK, comes).await.is_err());
    // One could, but not for a client that has more: those behind it need not wait.
    drop(other);
    let modest = enter(&table, "192.0.2.3");
    let Entered { connection, evicted } =
        table.enter(address("192.0.2.2"), bounds(2, 1), || None).await;
    assert!(connection.is_none() && evicted == 0);
    drop(modest);
}

#[tokio::test]
async fn what_an_address_decides_is_asked_only_at_the_bound_and_counts_there() {
    let table = Arc::new(Connections::default());
    let unasked = || panic!("there is room");
    let enter = |from| table.enter(address(from), bounds(2, 2), unasked);
    let basic = enter("192.0.2.1").await.connection.expect("there is room");
    assert!(basic.standing().brings(1, true, bounds(2, 2)).0);
    let other = enter("192.0.2.9").await.connection.expect("there is room");
    other.busy();
    // Its client has a connection, and the other was idle for no time: only its level lets it in.
    let leaves = async {
        assert_eq!(basic.unless_evicted(std::future::pending::<()>()).await, None);
        drop(basic);
    };
    let comes = table.enter(address("192.0.2.9"), bounds(2, 2), || Some(0));
    let ((), entered) = tokio::join!(leaves, comes);
    assert_eq!((entered.evicted, entered.connection.is_some()), (1, true));
}

#[tokio::test]
async fn of_several_listeners_that_ask_at_once_one_gets_the_last_place() {
    let table = Arc::new(Connections::default());
    let first = enter(&table, "192.0.2.1");
    let come = |from| table.enter(address(from), bounds(1, 1), || None);
    let together = async { tokio::join!(come("192.0.2.2"), come("192.0.2.3")) };
    let mut together = pin!(together);
    let nobody_yet = tokio::time::timeout(LOOK / 2, together.as_mut()).await;
    assert!(nobody_yet.is_err());
    drop(first);
    let both = tokio::time::timeout(4 * LOOK, together).await;
    assert!(both.is_err(), "two are open");
}
