use super::*;

fn all(text: &str) -> (Vec<String>, Counts) {
    let mut lines = Vec::new();
    let counts = read(text.as_bytes(), Took::Guess, &mut |line| {
        let Line { method, target, host, user_agent, referer, bytes, took_ns, .. } = line;
        lines.push(format!(
            "{} {method} {target} {host} {user_agent} {referer} {bytes} {took_ns:?}",
            line.address()
        ));
        true
    });
    (lines, counts.expect("a text can be read"))
}

const TIME: &str = "[17/May/2015:10:05:03 +0000]";

#[test]
fn the_formats_of_servers_are_read() {
    let text = format!(
        "192.0.2.1 - - {TIME} \"GET /a?b=c HTTP/1.0\" 200 17\n\
         192.0.2.1 - frank {TIME} \"GET /a HTTP/1.1\" 200 - \"http://x/\" \"Moz \\\"illa\\\" \\x41\"\n\
         \n\
         shop.example:443 2001:db8::1 - - {TIME} \"POST /b HTTP/2.0\" 201 5 \"-\" \"-\" 41500\n\
         192.0.2.1 - - {TIME} \"GET /a HTTP/1.1\" 200 17 \"-\" \"-\" 0.250\n\
         192.0.2.1 - - {TIME} \"GET /a HTTP/1.1\" 200 17 \"-\" \"-\" 300 1700\n\
         192.0.2.1 - - {TIME} \"GET /a HTTP/1.1\" 503 17 \"-\" \"-\" 300\n\
         192.0.2.1 - - {TIME} \"GET /a HTTP/1.1\" 200 17 \"-\" \"-\" \"-\" rt=0.003 uct=0.001\n\
         192.0.2.1 - - {TIME} \"GET http://shop.example:80/a HTTP/1.1\" 200 17\r\n"
    );
    let (lines, counts) = all(&text);
    assert_eq!(
        lines,
        [
            "192.0.2.1 GET /a?b=c    17 None",
            "192.0.2.1 GET /a  Moz \"illa\" A http://x/ 0 None",
            "2001:db8::1 POST /b shop.example   5 Some(41500000)",
            "192.0.2.1 GET /a    17 Some(250000000)",
            "192.0.2.1 GET /a    17 None",
            "192.0.2.1 GET /a    17 None",
            "192.0.2.1 GET /a    17 Some(3000000)",
            "192.0.2.1 GET /a shop.example   17 None",
        ]
    );
    assert_eq!(counts, Counts { lines: 8, used: 8, timed: 3, malformed: None });
}

#[test]
fn tiergate_s_own_formats_are_read() {
    let json = r#"{"time":"2026-11-20T18:23:51.042Z","client":"192.0.2.7","method":"GET","target":"/cart/7","protocol":"HTTP/1.1","host":"shop.example","status":200,"sent_bytes":5120,"received_bytes":0,"duration_seconds":0.041500,"queue_seconds":0.001500,"first_byte_seconds":0.038000,"class":"checkout","rule":2,"verdict":"queued","end":"served","server":"10.0.0.5:8080","slots":40,"user_agent":"curl/8.14.1","referer":"https://shop.example/"}"#;
    let refused = r#"{"time":"2026-11-20T18:23:51.042Z","client":"192.0.2.7","method":"GET","target":"/","status":503,"duration_seconds":2.0,"queue_seconds":2.0}"#;
    let combined = r#"192.0.2.7 - - [20/Nov/2026:18:23:51 +0000] "GET /cart/7 HTTP/1.1" 200 5120 "-" "curl/8.14.1" "checkout" 2 queued - 0.041500 0.001500 0.038000 "10.0.0.5:8080" 40 "shop.example" "-" "-""#;
    let (lines, counts) = all(&[json, refused, combined].join("\n"));
    assert_eq!(
        lines,
        [
            "192.0.2.7 GET /cart/7 shop.example curl/8.14.1 https://shop.example/ 5120 Some(40000000)",
            "192.0.2.7 GET /    0 None",
            "192.0.2.7 GET /cart/7 shop.example curl/8.14.1  5120 Some(40000000)",
        ]
    );
    assert_eq!(counts.timed, 2);
    assert_eq!(line(json, Took::Guess).unwrap().stamp.ns, 1_795_199_031_042_000_000);
}

#[test]
fn what_is_no_request_is_counted_and_left_out() {
    let good = format!("192.0.2.1 - - {TIME} \"GET / HTTP/1.1\" 200 17");
    let long = format!("192.0.2.1 - - {TIME} \"GET /{} HTTP/1.1\" 200 17", "x".repeat(70_000));
    let wrong = [
        "nonsense",
        "{\"time\":\"2026\"}",
        "{",
        "192.0.2.1 - - [yesterday] \"GET / HTTP/1.1\" 200 17",
        "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"\\x16\\x03\\x01\" 400 17",
        "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"-\" 408 0",
        "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET x HTTP/1.1\" 400 0",
        "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1",
        "- - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1",
        &long,
    ];
    let text = format!("{good}\n{}\n{good}", wrong.join("\n"));
    let (lines, counts) = all(&text);
    assert_eq!(lines.len(), 2);
    assert_eq!((counts.used, counts.left_out()), (2, wrong.len() as u64));
    assert_eq!(counts.malformed, Some((2, "it has no time in brackets".to_owned())));
}

#[test]
fn names_of_clients_have_addresses_of_their_own() {
    let of = |client: &str| {
        let text = format!("{client} - - {TIME} \"GET / HTTP/1.1\" 200 17");
        let line = line(&text, Took::Guess).unwrap();
        (line.address(), line.name().map(str::to_owned))
    };
    assert_ne!(of("one.example").0, of("two.example").0);
    assert_eq!(of("one.example").1.as_deref(), Some("one.example"));
    assert_eq!(of("192.0.2.1").1, None);
}

#[test]
fn the_number_behind_a_line_is_what_it_is_said_to_be() {
    let text = format!("192.0.2.1 - - {TIME} \"GET / HTTP/1.1\" 200 17 \"-\" \"-\" 300 25");
    let took = |unit| line(&text, unit).unwrap().took_ns;
    let took = [Took::Micros, Took::Millis, Took::Seconds, Took::Ignore, Took::Guess].map(took);
    assert_eq!(took, [Some(25_000), Some(25_000_000), Some(25_000_000_000), None, None]);
}
