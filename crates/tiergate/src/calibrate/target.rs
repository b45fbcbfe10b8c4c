//! What is asked for: addresses from the command line.

use anyhow::{Context, Result, bail, ensure};
use http::Uri;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// A resource of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The origin's name and port, as they go into `Host`.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) path: String,
    /// Where the origin is.
    pub(crate) address: SocketAddr,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// Reads addresses: URLs of one origin; after the first, paths will do.
///
/// # Errors
/// What is wrong with one of them, or that its name is unknown.
pub(crate) async fn targets(texts: &[String]) -> Result<Vec<Target>> {
    let mut found: Vec<Target> = Vec::new();
    for text in texts {
        let target = match (found.first(), text.starts_with('/')) {
            (Some(first), true) => {
                let path = text.parse::<Uri>().with_context(|| format!("{text}: no path"))?;
                Target { path: path.to_string(), ..first.clone() }
            }
            (None, true) => {
                bail!("{text}: give a whole address first, such as http://127.0.0.1:8081{text}")
            }
            (first, false) => {
                let (authority, path) = parts(text)?;
                match first {
                    Some(first) => {
                        let is_same = first.authority == authority;
                        ensure!(
                            is_same,
                            "{text}: one origin at a time; the first is {}",
                            first.authority
                        );
                        Target { path, ..first.clone() }
                    }
                    None => Target { address: address(&authority).await?, authority, path },
                }
            }
        };
        ensure!(!found.contains(&target), "{text}: duplicate");
        found.push(target);
    }
    Ok(found)
}

/// Authority, and path with query.
fn parts(text: &str) -> Result<(String, String)> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = whole.parse().with_context(|| format!("{text}: not an address"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => bail!(
            "{text}: https is not supported; give the plain HTTP address of the origin itself, behind whatever ends TLS"
        ),
        _ => bail!("{text}: must be an address such as http://127.0.0.1:8081/path"),
    }
    let authority = uri.authority().with_context(|| format!("{text}: names no host"))?;
    ensure!(!authority.as_str().contains('@'), "{text}: give credentials with --header instead");
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    // http://host?query has no path; a request must.
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((authority.to_string(), path))
}

async fn address(authority: &str) -> Result<SocketAddr> {
    let parsed: http::uri::Authority = authority.parse()?;
    let host = parsed.host().trim_start_matches('[').trim_end_matches(']');
    // A port beyond 65535 is none to the parser; the default would be another server.
    let rest = authority.strip_prefix(parsed.host()).unwrap_or_default();
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().with_context(|| format!("{authority}: not a port: {port}"))?,
        None => 80,
    };
    let mut found = tokio::net::lookup_host((host, port))
        .await
        .with_context(|| format!("{host}: no such host"))?;
    let mut found = found.next().with_context(|| format!("{host}: has no address"))?;
    // As systems read it; who listens there is only found at the address itself.
    match found.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => found.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => found.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Ok(found)
}

/// Whether an address is of this machine, as far as its network says.
pub(crate) fn is_here(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    // No packet is sent: connecting a datagram socket only chooses the address to send from.
    let from = || {
        let any = if ip.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect((ip, address.port())).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    ip.is_loopback() || ip.is_unspecified() || from() == Some(ip)
}

/// Whether an address is loopback, link-local, or of a private network (RFC 1918, RFC 4193).
pub(crate) fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()
        }
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
                || ip.is_unspecified()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<Target>, String> {
        let texts: Vec<String> = texts.iter().map(|it| (*it).to_owned()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(targets(&texts)).map_err(|it| format!("{it:#}"))
    }

    #[test]
    fn addresses_are_of_one_origin() {
        let found = read(&["http://127.0.0.1:8081/a?b=c", "/d", "127.0.0.1:8081/e"]);
        let found = found.expect("all are addresses");
        let paths: Vec<&str> = found.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["/a?b=c", "/d", "/e"]);
        assert!(found.iter().all(|it| it.address == ([127, 0, 0, 1], 8081).into()));
        let here = read(&["http://0.0.0.0:8081?b=c", "http://0.0.0.0:8081"]).expect("addresses");
        assert_eq!((here[0].path.as_str(), here[1].path.as_str()), ("/?b=c", "/"));
        assert_eq!(here[0].address, ([127, 0, 0, 1], 8081).into());
        let plain = read(&["[::1]"]).expect("an address");
        assert_eq!((plain[0].to_string().as_str(), plain[0].address.port()), ("http://[::1]/", 80));
    }

    #[test]
    fn what_cannot_be_asked_for_is_said() {
        for (texts, why) in [
            (&["https://127.0.0.1/"][..], "https is not supported"),
            (&["ftp://127.0.0.1/"], "must be an address"),
            (&["/a"], "a whole address first"),
            (&["127.0.0.1:1", "127.0.0.1:2"], "one origin at a time"),
            (&["127.0.0.1:1/a", "/a"], "duplicate"),
            (&["http://user:secret@127.0.0.1/"], "--header"),
            (&["http://no-such-host.invalid/"], "no such host"),
            (&["http://127.0.0.1:99999/"], "not a port: 99999"),
        ] {
            let fault = read(texts).expect_err(why);
            assert!(fault.contains(why), "{texts:?}: {fault}");
        }
    }

    #[test]
    fn what_is_private_may_be_loaded_without_asking() {
        let is = |text: &str| is_private(text.parse().expect("an address"));
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "::1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(is(private), "{private}");
        }
        for public in ["93.184.216.34", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"] {
            assert!(!is(public), "{public}");
        }
        assert!(is_here(([127, 0, 0, 1], 80).into()));
        assert!(!is_here(([203, 0, 113, 9], 80).into()));
    }
}
