//! The PROXY protocol, versions 1 and 2: a trusted load balancer passes on the client's address.
//!
//! Source: <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, §2. Written
//! here rather than taken from a crate, so that everything the specification calls invalid is refused,
//! checksums are verified, and the length is bounded.

use crate::http1::{Malformed, Parsed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Bytes of a version 1 header, its CRLF included. Source: §2.1.
pub const V1_LEN_MAX: usize = 107;
/// Bytes of a version 2 header. The format allows 65,551; senders use a few hundred, and a client
/// certificate's names fit with room to spare.
pub const V2_LEN_MAX: usize = 4096;

const V1_PREFIX: &[u8] = b"PROXY ";
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_FIXED_LEN: usize = 16;
const TLV_CRC32C: u8 = 0x03;

/// A whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of it, to be skipped.
    pub len: usize,
    /// Whose connection it is.
    pub client: Client,
}

/// Whose connection it is that a header begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The sender's own: a health check.
    Sender,
    /// That of a client of which the sender does not say who it is.
    Unknown,
    /// That of a client.
    Known(Addresses),
}

/// The two ends of the proxied connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The client.
    pub client: SocketAddr,
    /// What the client connected to.
    pub destination: SocketAddr,
}

/// Parses the header at the start of `bytes`. Never wants more than [`V2_LEN_MAX`] bytes.
///
/// # Errors
/// Anything but a valid header of either version, as soon as it is seen.
pub fn parse(bytes: &[u8]) -> Result<Parsed<Header>, Malformed> {
    let begins_with = |known: &[u8]| {
        let len = known.len().min(bytes.len());
        known[..len] == bytes[..len]
    };
    if begins_with(V2_SIGNATURE) {
        parse_v2(bytes)
    } else if begins_with(V1_PREFIX) {
        parse_v1(bytes)
    } else {
        Malformed::because("connection does not begin with a PROXY header")
    }
}

fn parse_v1(bytes: &[u8]) -> Result<Parsed<Header>, Malformed> {
    let window = &bytes[..bytes.len().min(V1_LEN_MAX)];
    let line = match memchr::memchr2(b'\r', b'\n', window) {
        Some(end) => match &window[end..] {
            [b'\r', b'\n', ..] => &window[..end],
            [b'\r'] if bytes.len() < V1_LEN_MAX => return Ok(Parsed::Partial),
            _ => return Malformed::because("PROXY line does not end in CRLF"),
        },
        None if bytes.len() < V1_LEN_MAX => return Ok(Parsed::Partial),
        None => return Malformed::because("PROXY line is too long"),
    };
    if line.len() < V1_PREFIX.len() {
        return Malformed::because("PROXY line is malformed");
    }
    let words = &line[V1_PREFIX.len()..];
    let client = if words == b"UNKNOWN" || words.starts_with(b"UNKNOWN ") {
        Client::Unknown
    } else {
        Client::Known(v1_addresses(words).ok_or(Malformed { why: "PROXY line is malformed" })?)
    };
    Ok(Parsed::Complete(Header { len: line.len() + 2, client }))
}

fn v1_addresses(words: &[u8]) -> Option<Addresses> {
    let mut words = std::str::from_utf8(words).ok()?.split(' ');
    let parse_ip: fn(&str) -> Option<IpAddr> = match words.next()? {
        "TCP4" => |text| Ipv4Addr::from_str(text).ok().map(IpAddr::V4),
        "TCP6" => |text| Ipv6Addr::from_str(text).ok().map(IpAddr::V6),
        _ => return None,
    };
    let client = parse_ip(words.next()?)?;
    let destination = parse_ip(words.next()?)?;
    let addresses = Addresses {
        client: SocketAddr::new(client, v1_port(words.next()?)?),
        destination: SocketAddr::new(destination, v1_port(words.next()?)?),
    };
    words.next().is_none().then_some(addresses)
}

/// A port in decimal without sign or leading zeros.
fn v1_port(text: &str) -> Option<u16> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    canonical.then(|| text.parse().ok())?
}

fn parse_v2(bytes: &[u8]) -> Result<Parsed<Header>, Malformed> {
    let command = bytes.get(12);
    if command.is_some_and(|command| !matches!(command, 0x20 | 0x21)) {
        return Malformed::because("PROXY header of an unknown version or command");
    }
    let family = bytes.get(13);
    if family
        .is_some_and(|family| !matches!(family, 0x00 | 0x11 | 0x12 | 0x21 | 0x22 | 0x31 | 0x32))
    {
        return Malformed::because("PROXY header of an unknown address family");
    }
    let (Some(command), Some(family), Some(&[high, low])) =
        (command, family, bytes.get(14..16).and_then(<[u8]>::first_chunk))
    else {
        return Ok(Parsed::Partial);
    };
    let len = V2_FIXED_LEN + usize::from(u16::from_be_bytes([high, low]));
    if len > V2_LEN_MAX {
        return Malformed::because("PROXY header is too long");
    }
    let Some(header) = bytes.get(..len) else {
        return Ok(Parsed::Partial);
    };
    let client = match (command, family) {
        // LOCAL, and PROXY of an unspecified family: the rest is to be skipped unseen.
        (0x20, _) => Client::Sender,
        (_, 0x00) => Client::Unknown,
        _ => v2_addresses(*family, header)?.map_or(Client::Unknown, Client::Known),
    };
    Ok(Parsed::Complete(Header { len, client }))
}

/// The addresses of a header for a known family. Datagrams and UNIX sockets have none that tell
/// anything of a client; their headers are checked all the same.
fn v2_addresses(family: u8, header: &[u8]) -> Result<Option<Addresses>, Malformed> {
    const SHORT: Malformed = Malformed { why: "PROXY header is shorter than its addresses" };
    let body = &header[V2_FIXED_LEN..];
    let addresses_len = match family >> 4 {
        1 => 12,
        2 => 36,
        _ => 216,
    };
    let (addresses, tlvs) = body.split_at_checked(addresses_len).ok_or(SHORT)?;
    check_tlvs(header, tlvs)?;
    Ok(match family {
        0x11 => v2_pair::<4, Ipv4Addr>(addresses),
        0x21 => v2_pair::<16, Ipv6Addr>(addresses),
        _ => None,
    })
}

fn v2_pair<const N: usize, A: From<[u8; N]> + Into<IpAddr>>(bytes: &[u8]) -> Option<Addresses> {
    let (client, rest) = bytes.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (client_port, rest) = rest.split_first_chunk::<2>()?;
    let (destination_port, _) = rest.split_first_chunk::<2>()?;
    let end = |address: &[u8; N], port: &[u8; 2]| {
        SocketAddr::new(A::from(*address).into(), u16::from_be_bytes(*port))
    };
    Some(Addresses {
        client: end(client, client_port),
        destination: end(destination, destination_port),
    })
}

/// Walks the type-length-value list that ends `header`, and verifies the checksum if there is one.
fn check_tlvs(header: &[u8], mut tlvs: &[u8]) -> Result<(), Malformed> {
    while !tlvs.is_empty() {
        let at = header.len() - tlvs.len();
        let [kind, high, low, rest @ ..] = tlvs else {
            return Malformed::because("PROXY header ends within a TLV");
        };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((value, rest)) = rest.split_at_checked(len) else {
            return Malformed::because("PROXY header ends within a TLV");
        };
        if *kind == TLV_CRC32C {
            let expected: [u8; 4] =
                value.try_into().map_err(|_| Malformed { why: "PROXY checksum is malformed" })?;
            if crc32c_with_zeros(header, at + 3) != u32::from_be_bytes(expected) {
                return Malformed::because("PROXY checksum does not match");
            }
        }
        tlvs = rest;
    }
    Ok(())
}

/// CRC32c of `header` with the four bytes at `zeros_at` taken as zero. Bit by bit: a header has few
/// bytes, and few headers have a checksum.
fn crc32c_with_zeros(header: &[u8], zeros_at: usize) -> u32 {
    const POLYNOMIAL_REFLECTED: u32 = 0x82f6_3b78;
    let crc = header.iter().enumerate().fold(!0, |crc: u32, (at, &byte)| {
        let byte = if (zeros_at..zeros_at + 4).contains(&at) { 0 } else { byte };
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (POLYNOMIAL_REFLECTED & (crc & 1).wrapping_neg())
        })
    });
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(bytes: &[u8]) -> (usize, (String, String)) {
        for len in 0..bytes.len() {
            match parse(&bytes[..len]) {
                Ok(Parsed::Partial) => {}
                Ok(Parsed::Complete(header)) => assert!(header.len <= len),
                Err(error) => panic!("prefix of {len} bytes: {error}"),
            }
        }
        match parse(bytes) {
            Ok(Parsed::Complete(header)) => {
                let text = match header.client {
                    Client::Known(it) => (it.client.to_string(), it.destination.to_string()),
                    other => (format!("{other:?}"), String::new()),
                };
                (header.len, text)
            }
            other => panic!("{other:?}: {}", bytes.escape_ascii()),
        }
    }

    fn pair(client: &str, destination: &str) -> (String, String) {
        (client.into(), destination.into())
    }

    fn unknown() -> (String, String) {
        pair("Unknown", "")
    }

    #[test]
    fn version_1() {
        let line = b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n";
        let expected = pair("192.0.2.1:56324", "198.51.100.2:443");
        assert_eq!(complete(line), (line.len(), expected.clone()));
        let more = [line.as_slice(), b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(complete(&more), (line.len(), expected));
        assert_eq!(
            complete(b"PROXY TCP6 2001:db8::1 ::1 1 0\r\n").1,
            pair("[2001:db8::1]:1", "[::1]:0")
        );
        assert_eq!(complete(b"PROXY UNKNOWN\r\n"), (15, unknown()));
        let mut longest = b"PROXY UNKNOWN ".to_vec();
        longest.resize(V1_LEN_MAX - 2, b'x');
        longest.extend_from_slice(b"\r\n");
        assert_eq!(complete(&longest), (V1_LEN_MAX, unknown()));
        longest.insert(20, b'x');
        assert!(parse(&longest).is_err());
    }

    #[test]
    fn version_1_is_strict() {
        let bad: [&[u8]; 21] = [
            b"GET / HTTP/1.1\r\n",
            b"PROXY\r\n",
            b"PROXY \r\n",
            b"proxy UNKNOWN\r\n",
            b"PROXY UNKNOWNx\r\n",
            b"PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\rX",
            b"PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2 \r\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 -1 2\r\n",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n",
            b"PROXY TCP4 1.1.1.01 2.2.2.2 1 2\r\n",
            b"PROXY TCP4 1.1.1.256 2.2.2.2 1 2\r\n",
            b"PROXY TCP4 ::1 ::2 1 2\r\n",
            b"PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n",
            b"PROXY TCP6 fe80::1%eth0 ::2 1 2\r\n",
        ];
        for line in bad {
            assert!(parse(line).is_err(), "{}", line.escape_ascii());
        }
    }

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut header = V2_SIGNATURE.to_vec();
        header.extend_from_slice(&[command, family]);
        header.extend_from_slice(&(body.len() as u16).to_be_bytes());
        header.extend_from_slice(body);
        header
    }

    const TCP4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb];

    #[test]
    fn version_2() {
        let expected = pair("192.0.2.1:56324", "198.51.100.2:443");
        assert_eq!(complete(&v2(0x21, 0x11, &TCP4)), (28, expected.clone()));
        let with_tlvs = [&TCP4[..], &[0x04, 0, 2, 9, 9, 0x20, 0, 0]].concat();
        assert_eq!(complete(&v2(0x21, 0x11, &with_tlvs)), (36, expected));
        let mut tcp6 = [0; 36];
        (tcp6[15], tcp6[31], tcp6[33], tcp6[35]) = (1, 2, 3, 4);
        assert_eq!(complete(&v2(0x21, 0x21, &tcp6)).1, pair("[::1]:3", "[::2]:4"));
        assert_eq!(complete(&v2(0x20, 0x11, b"whatever")), (24, pair("Sender", "")));
        assert_eq!(complete(&v2(0x21, 0x00, b"whatever")), (24, unknown()));
        assert_eq!(complete(&v2(0x21, 0x31, &[0; 216])), (232, unknown()));
        assert_eq!(complete(&v2(0x21, 0x12, &TCP4)), (28, unknown()));
    }

    #[test]
    fn version_2_is_strict() {
        let bad = [
            v2(0x11, 0x11, &TCP4),
            v2(0x22, 0x11, &TCP4),
            v2(0x21, 0x10, &TCP4),
            v2(0x21, 0x41, &TCP4),
            v2(0x21, 0x11, &TCP4[..11]),
            v2(0x21, 0x21, &TCP4),
            v2(0x21, 0x31, &[0; 215]),
            v2(0x21, 0x11, &[&TCP4[..], &[1]].concat()),
            v2(0x21, 0x11, &[&TCP4[..], &[1, 0, 5, 0]].concat()),
            v2(0x21, 0x11, &[0; V2_LEN_MAX]),
        ];
        for header in bad {
            assert!(parse(&header).is_err(), "{}", header.escape_ascii());
        }
        let mut signature = v2(0x21, 0x11, &TCP4);
        signature[11] = b'X';
        assert!(parse(&signature[..12]).is_err());
    }

    #[test]
    fn checksum() {
        let zeroed = [&TCP4[..], &[TLV_CRC32C, 0, 4, 0, 0, 0, 0]].concat();
        let mut header = v2(0x21, 0x11, &zeroed);
        // The check value of CRC-32C (RFC 3720 appendix B.4 has more).
        assert_eq!(crc32c_with_zeros(b"123456789", 100), 0xe306_9283);
        let crc = crc32c_with_zeros(&header, header.len() - 4);
        let at = header.len() - 4;
        header[at..].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(complete(&header).0, header.len());
        header[17] ^= 1;
        assert!(parse(&header).is_err());
    }
}
