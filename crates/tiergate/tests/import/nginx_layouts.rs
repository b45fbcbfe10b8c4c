//! Usual layouts of nginx's configuration, and the policies that are made of them, side by side: whatever nginx refuses the policy refuses, and what it serves
//! gets to the same server, or is refused where the policy says so.

use super::{Backends, await_listening, of_nginx, run_nginx};
use crate::support::PATIENCE;
use crate::support::client::Client;
use crate::support::gateway::Port;
use crate::support::process::{Process, program};
use socket2::{Domain, Socket, Type};
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};

const NGINX: &str = r#"
events {}
http {
    map $http_x_beta $backend { default http://app; 1 http://10.0.0.21:8080; }
    map $http_x_tenant$http_x_region $several { acmeeu 10.0.0.21:8080; default 10.0.0.11:8080; }
    upstream App { server 10.0.0.11:8080; }
    server {
        listen 0.0.0.0:8080 default_server;
        server_name shop;
        root /nowhere;
        location / { try_files $uri @app; }
        location @app { deny 127.0.0.3; proxy_pass http://app; }
        location /closed/ { deny 127.0.0.4; try_files $uri @app; }
        location /open/ { deny 127.0.0.4; try_files $uri @open; }
        location @open { proxy_pass http://APP; }
        location /map { proxy_pass $backend; }
        location /several { proxy_pass http://$several; }
        location /except { limit_except GET { proxy_pass http://10.0.0.21:8080; } proxy_pass http://app; }
        location /ifs {
            if ($http_x_a != 1) { return 403; }
            if ($http_x_b != 2) { return 410; }
            if ($http_x_c) { return 404; }
            proxy_pass http://app;
        }
        location /outer/ { deny 127.0.0.3; location /outer/in/ { proxy_pass http://app; } }
    }
    server {
        listen 0.0.0.0:8080;
        server_name www old gone;
        if ($host = www) { return 301 https://shop/; }
        if ($host != old) { return 410; }
        return 404;
    }
    server {
        listen 0.0.0.0:8080;
        server_name main other;
        if ($host != main) { return 301 http://main/; }
        location / { proxy_pass http://10.0.0.31:8080; }
    }
    server {
        listen 0.0.0.0:8080;
        server_name files;
        root /nowhere;
        try_files $uri/index.html $uri @app;
        location @app { proxy_pass http://10.0.0.31:8080; }
    }
}
"#;

/// What the policy does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// As nginx does.
    Same,
    /// Both refuse it, each in its way.
    Closed,
    /// It refuses what nginx serves.
    Refused,
}
use Expected::{Closed, Refused, Same};

/// Client, host, request, fields.
type Asked = (&'static str, &'static str, &'static str, &'static str);

const REQUESTS: &[(Asked, Expected)] = &[
    (("127.0.0.1", "shop", "GET /", ""), Same),
    (("127.0.0.3", "shop", "GET /", ""), Same),
    (("127.0.0.1", "shop", "POST /orders", ""), Same),
    (("127.0.0.1", "shop", "GET /open/x", ""), Same),
    (("127.0.0.4", "shop", "GET /open/x", ""), Same),
    // Both locations ask for something else of clients.
    (("127.0.0.1", "shop", "GET /closed/x", ""), Refused),
    (("127.0.0.3", "shop", "GET /closed/x", ""), Closed),
    (("127.0.0.4", "shop", "GET /closed/x", ""), Closed),
    (("127.0.0.1", "shop", "GET /map", ""), Same),
    (("127.0.0.1", "shop", "GET /map", "X-Beta: 1"), Same),
    (("127.0.0.1", "shop", "GET /several", ""), Refused),
    (("127.0.0.1", "shop", "GET /several", "X-Tenant: acme\r\nX-Region: eu"), Refused),
    (("127.0.0.1", "shop", "GET /except", ""), Same),
    (("127.0.0.1", "shop", "HEAD /except", ""), Same),
    (("127.0.0.1", "shop", "POST /except", ""), Refused),
    (("127.0.0.1", "shop", "GET /ifs", ""), Same),
    (("127.0.0.1", "shop", "GET /ifs", "X-A: 1"), Same),
    (("127.0.0.1", "shop", "GET /ifs", "X-B: 2"), Same),
    (("127.0.0.1", "shop", "GET /ifs", "X-A: 1\r\nX-B: 2"), Same),
    (("127.0.0.1", "shop", "GET /ifs", "X-A: 1\r\nX-B: 2\r\nX-C: 3"), Same),
    (("127.0.0.1", "shop", "GET /outer/in/x", ""), Same),
    (("127.0.0.3", "shop", "GET /outer/in/x", ""), Same),
    (("127.0.0.1", "www", "GET /", ""), Same),
    (("127.0.0.1", "old", "GET /", ""), Same),
    (("127.0.0.1", "gone", "GET /", ""), Same),
    (("127.0.0.1", "main", "GET /", ""), Same),
    (("127.0.0.1", "other", "GET /", ""), Same),
    (("127.0.0.1", "files", "GET /a/b", ""), Same),
];

/// Status, and the server that answered.
fn ask(address: SocketAddr, (client, host, request, fields): Asked) -> (u16, String) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let client: IpAddr = client.parse().expect("an address");
    socket.bind(&SocketAddr::new(client, 0).into()).expect("loopback");
    socket.connect(&address.into()).expect("it listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let mut client = Client { stream, buffer: Vec::new() };
    let fields = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
    client.send(format!(
        "{request} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n{fields}Connection: close\r\n\r\n"
    ));
    let answer = client.try_answer(request.starts_with("HEAD")).expect("an answer");
    let server = answer.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-backend"));
    (answer.status, server.map(|(_, value)| value.clone()).unwrap_or_default())
}

#[test]
fn usual_layouts_of_nginx_are_served_as_nginx_does_or_refused() {
    let Some(nginx) = program("nginx") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let backends = Backends::start();
    let (peer, port) = (Port::reserve(), Port::reserve());
    let text = backends.put_into(NGINX, peer.address);
    let mut command = run_nginx(&nginx, folder.path(), &text);
    let mut running =
        Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    await_listening(&mut running, peer.address);
    let made = of_nginx(&backends.put_into(NGINX, port.address)).expect("it maps");
    let path = folder.path().join("policy.toml");
    fs::write(&path, format!("admin = false\n{}", made.policy)).expect("our own folder");
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    gateway.arg("run").arg(&path).stdin(Stdio::null()).stderr(Stdio::null());
    let mut gateway = Process::start(&mut gateway);
    await_listening(&mut gateway, port.address);
    for (asked, expected) in REQUESTS {
        let (by_peer, by_us) = (ask(peer.address, *asked), ask(port.address, *asked));
        match expected {
            Same => assert_eq!(by_us, by_peer, "{asked:?}\n{}", made.policy),
            Closed => assert_eq!((by_peer.0, by_us.0), (403, 404), "{asked:?}\n{}", made.policy),
            Refused => {
                assert_eq!((by_peer.0, by_us.0), (200, 404), "{asked:?}\n{}", made.policy);
            }
        }
    }
}
