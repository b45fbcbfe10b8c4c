//! A first policy, as text: the origin, a sensor of its bottleneck, two classes with rules to change.

use super::watch::Place;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use tiergate_core::calibrate::Bottleneck;

/// What the policy is made from.
pub(crate) struct Found<'a> {
    /// The origin, as it was written: name and port.
    pub(crate) authority: &'a str,
    pub(crate) address: SocketAddr,
    pub(crate) place: &'a Place,
    pub(crate) interface: Option<&'a str>,
    pub(crate) bottleneck: Bottleneck,
    /// What was measured, in lines.
    pub(crate) measured: &'a [String],
}

/// The text. Capacities are comments: the limit is adaptive, and what is true today need not be tomorrow.
pub(crate) fn text(found: &Found<'_>) -> String {
    let mut text =
        "# A first policy, written by `tiergate calibrate`. What it measured:\n#\n".to_owned();
    for line in found.measured {
        let _ = writeln!(text, "# {line}");
    }
    let server = server(found);
    // Not where the origin is: the gateway could not listen there, or would forward to itself.
    let port = if found.address.port() == 8080 { 8000 } else { 8080 };
    let _ = write!(
        text,
        "#\n\
         # None of it is a setting: the concurrency limit is adaptive, and follows the origin.\n\
         #\n\
         #   tiergate check FILE                                 this policy in words\n\
         #   tiergate explain FILE --request 'GET /checkout'     what a request gets, and why\n\
         #   tiergate run FILE --watch                           the gateway, on 127.0.0.1:{port}\n\
         \n\
         # Requests that no rule matches.\n\
         default_class = \"basic\"\n\
         \n\
         [[listener]]\n\
         address = \"127.0.0.1:{port}\"\n\
         \n\
         [origin]\n\
         servers = [\"{server}\"]\n"
    );
    text += &sensor(found);
    text += "\n# Most important first: under overload, what is not premium is refused first.\n\
        [[class]]\n\
        name = \"premium\"\n\
        \n\
        [[class]]\n\
        name = \"basic\"\n\
        minimum = \"10%\"                     # of the slots, so that it never starves\n\
        \n\
        # Examples, to be replaced by what matters here; the first rule that matches decides.\n\
        [[rule]]\n\
        path = \"/checkout/**\"\n\
        class = \"premium\"\n\
        \n\
        [[rule]]\n\
        path = \"/checkout\"\n\
        class = \"premium\"\n";
    text
}

/// With its port, which a URL may leave out.
fn server(found: &Found<'_>) -> String {
    let has_port = found.authority.parse().ok().and_then(|it: http::uri::Authority| it.port_u16());
    match has_port {
        Some(_) => found.authority.to_owned(),
        None => format!("{}:{}", found.authority, found.address.port()),
    }
}

/// A sensor of what was the bottleneck, as far as one of this machine can see it.
fn sensor(found: &Found<'_>) -> String {
    let place = found.place;
    let table = |name: &str, why: &str, keys: &str| {
        format!("\n# {why}\n[[sensor]]\nname = \"{name}\"\n{keys}")
    };
    let only = match (&place.cgroup, &place.pid_file) {
        (Some(group), _) => format!("cgroup = {}\n", quoted(&Path::new("/").join(group))),
        (None, Some(file)) if file.is_absolute() => format!("pid_file = {}\n", quoted(file)),
        _ => String::new(),
    };
    let cpu = format!("measure = \"cpu\"\n{only}");
    match found.bottleneck {
        Bottleneck::Processors | Bottleneck::Thread if place.is_here => {
            table("origin-cpu", "The origin's processors, which were the bottleneck.", &cpu)
        }
        Bottleneck::Memory if place.is_here => {
            table("paging", "Swapping: memory was the bottleneck.", "measure = \"paging\"\n")
        }
        Bottleneck::Disk if place.is_here => {
            let keys = "measure = \"io-pressure\"\n";
            table("io-pressure", "Waiting for disks, which were the bottleneck.", keys)
        }
        Bottleneck::Concurrency if place.is_loopback || place.listen_queue.is_some() => {
            let address = place.listen_queue.unwrap_or(found.address);
            let keys = format!("measure = \"listen-queue\"\naddress = \"{address}\"\n");
            let why = "Connections that the origin has not accepted: its workers, which were the bottleneck, are busy.";
            table("listen-queue", why, &keys)
        }
        Bottleneck::Link => {
            let interface = found.interface.unwrap_or("eth0");
            let capacity = place.link_capacity.map(|it| format!("# capacity = {it}\n"));
            format!(
                "\n# The link to the origin was the bottleneck. A sensor reads what an interface of the gateway's machine sends:\n\
                 # where the answers leave for the clients by the same link, this is it.\n\
                 # [[sensor]]\n# name = \"link\"\n# measure = \"network\"\n# interface = \"{interface}\"\n{}",
                capacity.unwrap_or_default()
            )
        }
        _ => String::new(),
    }
}

/// A path as a TOML string.
fn quoted(path: &Path) -> String {
    toml::Value::String(path.display().to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check;

    #[test]
    fn the_gateway_does_not_listen_where_the_origin_does() {
        let place = Place { is_here: true, is_loopback: true, ..Place::default() };
        let found = |port| Found {
            authority: "localhost",
            address: ([127, 0, 0, 1], port).into(),
            place: &place,
            interface: None,
            bottleneck: Bottleneck::Unmeasured,
            measured: &[],
        };
        assert!(text(&found(8080)).contains("address = \"127.0.0.1:8000\"\n"));
        assert!(text(&found(8000)).contains("address = \"127.0.0.1:8080\"\n"));
    }

    #[test]
    fn every_policy_is_valid_and_has_nothing_to_warn_of() {
        let here = Place { is_here: true, is_loopback: true, ..Place::default() };
        let group = Place { cgroup: Some("system.slice/a \"b\".service".into()), ..here.clone() };
        let file = Place { pid_file: Some("/run/apache2.pid".into()), ..here.clone() };
        let away = Place { link_capacity: Some(100_000_000), ..Place::default() };
        let all = [
            Bottleneck::Processors,
            Bottleneck::Thread,
            Bottleneck::Memory,
            Bottleneck::Disk,
            Bottleneck::Link,
            Bottleneck::Concurrency,
            Bottleneck::Unmeasured,
            Bottleneck::Generator,
        ];
        for place in [&here, &group, &file, &away] {
            for bottleneck in all {
                for authority in ["127.0.0.1:8081", "shop.internal", "[::1]:80"] {
                    let found = Found {
                        authority,
                        address: ([127, 0, 0, 1], 80).into(),
                        place,
                        interface: Some("eth0"),
                        bottleneck,
                        measured: &["capacity 412 answers/s".to_owned()],
                    };
                    let text = text(&found);
                    let policy = crate::config::parse(&text, "first.toml")
                        .unwrap_or_else(|fault| panic!("{fault}\n{text}"));
                    assert_eq!(check::warnings(&policy), [] as [&str; 0], "{text}");
                    let is_here = place.is_here && bottleneck != Bottleneck::Link;
                    let has_one = is_here
                        && !matches!(bottleneck, Bottleneck::Unmeasured | Bottleneck::Generator);
                    assert_eq!(policy.sensors.len(), usize::from(has_one), "{text}");
                    assert!(text.contains("# capacity 412 answers/s\n"));
                }
            }
        }
    }
}
