//! Any bytes as forwarding fields, one a line: a stranger is never believed, and nobody but the
//! nearest proxies decides.
#![no_main]

use ipnet::IpNet;
use std::net::IpAddr;
use tiergate_wire::forwarded::client_address;
use tiergate_core::request::Field;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let name: &[u8] = match bytes.first() {
        Some(b'x') => b"X-Forwarded-For",
        _ => b"Forwarded",
    };
    let fields: Vec<Field<'_>> = bytes
        .split(|&b| b == b'\n')
        .map(|value| Field { name, value })
        .collect();
    let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().expect("a network")];
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");

    let stranger = address("192.0.2.1");
    assert_eq!(client_address(stranger, &fields, &trusted), stranger);

    // What a client writes further left cannot change what a proxy appended.
    let appended: &[u8] = match name {
        b"Forwarded" => b"for=192.0.2.7",
        _ => b"192.0.2.7",
    };
    let mut fields = fields;
    fields.push(Field {
        name,
        value: appended,
    });
    let client = client_address(address("10.0.0.1"), &fields, &trusted);
    assert_eq!(client, address("192.0.2.7"));

    fields.pop();
    client_address(address("10.0.0.1"), &fields, &trusted);
});
