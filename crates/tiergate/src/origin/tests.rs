use super::*;

#[test]
fn a_server_keeps_its_counts_over_a_reload() {
    let settings = |servers: &str| {
        let text = format!("[origin]\nservers = [{servers}]\n");
        crate::config::parse(&text, "policy").expect("a policy").origin
    };
    let counters = Counters::new(1);
    let before =
        Origin::new(settings("\"10.0.0.1:1\", \"10.0.0.2:1\""), None, &counters).expect("few");
    before.servers[1].counters.connects.add(7);
    let servers = settings("\"10.0.0.2:1\", \"10.0.0.3:1\"");
    let after = Origin::new(servers, Some(&before), &counters).expect("few");
    assert_eq!(after.servers[0].counters.connects.total(), 7);
    assert_eq!(after.servers[1].counters.connects.total(), 0);
    // Also when it had gone for a while.
    let gone = Origin::new(settings("\"10.0.0.3:1\""), Some(&after), &counters).expect("few");
    let back = Origin::new(settings("\"10.0.0.2:1\""), Some(&gone), &counters).expect("few");
    assert_eq!(back.servers[0].counters.connects.total(), 7);
}

#[test]
fn what_lasts_is_outstanding_and_no_work() {
    let settings = crate::config::parse("[origin]\nservers = [\"10.0.0.1:1\"]\n", "policy")
        .expect("a policy")
        .origin;
    let origin = Arc::new(Origin::new(settings, None, &Counters::new(1)).expect("few"));
    let is_idle = || matches!(origin.work(), Work::Idle { .. });
    assert!(is_idle());
    let mut stream = Place::pick(&origin).expect("it is usable");
    assert!(!is_idle());
    stream.lasts();
    stream.lasts();
    assert!(is_idle());
    assert_eq!(origin.states()[0].outstanding, 1);
    let other = Place::pick(&origin).expect("it is usable");
    assert!(!is_idle(), "a request beside it");
    drop(stream);
    assert!(!is_idle());
    drop(other);
    assert!(is_idle());
}

/// A listener that takes a connection, and a port that none has.
fn up_and_down() -> (std::net::TcpListener, [SocketAddr; 2]) {
    let [up, down] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("free"));
    let addresses = [&up, &down].map(|it| it.local_addr().expect("bound"));
    drop(down);
    (up, addresses)
}

#[tokio::test]
async fn the_address_that_takes_connections_is_kept_to() {
    let (_listener, [up, down]) = up_and_down();
    let settings = crate::config::parse("[origin]\nservers = [\"app.test:80\"]\n", "policy")
        .expect("a policy")
        .origin;
    let origin = Origin::new(settings, None, &Counters::new(1)).expect("few");
    let server = &origin.servers[0];
    server.resolved.store(Arc::new(vec![down, up]));
    server.connect(Duration::from_secs(1), || None).await.expect("one of them takes it");
    assert_eq!(**server.resolved.load(), [up, down]);
}

#[test]
fn a_name_with_several_addresses_becomes_several_servers_that_keep_their_counts() {
    let settings = crate::config::parse("[origin]\nservers = [\"app.test:80\"]\n", "policy")
        .expect("a policy")
        .origin;
    let counters = Counters::new(1);
    let origin = Origin::new(settings, None, &counters).expect("few");
    let found = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|it| it.parse().expect("an address")).collect();
        origin.known.names().found(&origin.settings.servers[0], addresses);
        origin.renewed(&counters).expect("few")
    };
    let two = found(&["10.0.0.1:80", "10.0.0.2:80"]);
    let names = |origin: &Origin| origin.servers.iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(names(&two), ["10.0.0.1:80", "10.0.0.2:80"]);
    assert_eq!(two.named(1), &Server::Tcp("app.test".into(), 80), "as checks call it");
    two.servers[1].counters.connects.add(7);
    let moved = found(&["10.0.0.3:80", "10.0.0.2:80"]);
    assert_eq!(names(&moved), ["10.0.0.2:80", "10.0.0.3:80"]);
    assert_eq!(moved.servers[0].counters.connects.total(), 7);
}
