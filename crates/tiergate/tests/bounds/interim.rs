//! After an interim answer the origin has the time for a head again, and no other.

use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::Origin;
use crate::support::process::program;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn a_pause_after_an_interim_answer_has_the_time_of_a_head() {
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            connection.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            sleep(Duration::from_millis(request.target[1..].parse().unwrap_or(0)));
            connection.ok("final");
        }
    });
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = "[timeouts]\nresponse_head = \"2s\"\nresponse_body = \"300ms\"\n\
        write = \"300ms\"\nrequest_body = \"300ms\"\nidle = \"300ms\"\n"
        .into();
    let gateway = Gateway::start(&policy);
    let curl = program("curl");
    // Longer than any other time; longer than its own.
    for (pause, status) in [(1000, 200), (4000, 504)] {
        let mut client = gateway.client();
        client.send(format!("GET /{pause} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(client.answer().status, 103);
        assert_eq!(client.answer().status, status, "after {pause} ms");
        let Some(curl) = &curl else { continue };
        let url = format!("http://{}/{pause}", gateway.address);
        let output = Command::new(curl)
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--http2-prior-knowledge", &url])
            .output()
            .expect("found before");
        assert_eq!(String::from_utf8_lossy(&output.stdout), status.to_string(), "after {pause} ms");
    }
}
