//! What an ACL asks, between two conditions of rules: one that holds whenever HAProxy's does, and one that holds only when it does.
//!
//! A refusal takes the wide one, an exemption the narrow one; what is not known to mean the same in both is as wide or as narrow as can
//! be, so that a refusal refuses all and an exemption exempts nothing.

use super::between::{Between, Bound, Term};
use super::path;
use super::texts::{self, Way};
use crate::config::server::short_address;
use std::net::Ipv4Addr;

/// Most bytes of a word: longer texts are cut in a policy.
const VALUE_LEN_MAX: usize = 400;

/// What an ACL asks.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// Something of the request.
    Request(Between),
    /// Whether it came by TLS.
    Tls,
    /// Whether a client asks for more than a number in the time of a table.
    Rate(Rate),
    /// Something of the load, so that it holds of some requests only; with the reason why no rule asks for it.
    Load(String),
}

/// A client's rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) number: u64,
    /// The counter that follows the client: `0` of `sc0`; empty: its address.
    pub(super) counter: String,
    /// The table, if it is named.
    pub(super) table: String,
}

/// How the criteria begin that depend on the load, or on chance.
const LOAD: [&str; 14] = [
    "sc_",
    "sc0_",
    "sc1_",
    "sc2_",
    "src_",
    "fe_",
    "be_",
    "srv_",
    "nbsrv",
    "queue",
    "avg_queue",
    "connslots",
    "rand",
    "table_",
];

/// What `acl NAME …` asks.
pub(super) fn acl(words: &[String]) -> Asked {
    let Some((criterion, rest)) = words.split_first() else {
        return Asked::Request(Between::unknown("an ACL must ask something"));
    };
    let why = |why: &str| format!("{criterion}: {why}");
    if let Some(asked) = rate(criterion, rest) {
        return Asked::Rate(asked);
    }
    if LOAD.iter().any(|it| criterion.starts_with(it)) && !criterion.starts_with("src_port") {
        return Asked::Load(why("no condition of rules asks for it"));
    }
    let unknown = |text: &str| Asked::Request(Between::unknown(why(text)));
    let Some((name, arguments)) = taken_apart(criterion) else {
        return unknown("no condition of rules converts what it asks for");
    };
    let (mut flags, mut values) = (Way { by: None, caseless: false }, rest);
    while let Some((first, further)) = values.split_first() {
        match first.as_str() {
            "-i" => (flags.caseless, values) = (true, further),
            "-m" => match further.split_first() {
                Some((by, further)) => (flags.by, values) = (Some(by.as_str()), further),
                None => return unknown("must say how behind -m"),
            },
            "--" => {
                values = further;
                break;
            }
            it if it.starts_with('-') => {
                return unknown(&format!("{it}: write the values into the rule"));
            }
            _ => break,
        }
    }
    if words.iter().any(|it| it.chars().any(char::is_control) || it.len() > VALUE_LEN_MAX) {
        return unknown("a text that no rule can have");
    }
    if name == "ssl_fc" && rest.is_empty() && arguments.is_empty() {
        return Asked::Tls;
    }
    Asked::Request(
        request(name, &arguments, &flags, values)
            .unwrap_or_else(|text| Between::unknown(why(&text))),
    )
}

/// A criterion's name and arguments; `None` if it is not known to be just these.
fn taken_apart(criterion: &str) -> Option<(&str, Vec<&str>)> {
    let (name, arguments) = match criterion.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')?),
        None => (criterion, ""),
    };
    let is_plain = !name.contains(',') && !arguments.contains(['(', ')', '"', '\'', '\\']);
    let list = arguments.split(',').map(str::trim).filter(|_| !arguments.is_empty());
    is_plain.then(|| (name.strip_prefix("req.").unwrap_or(name), list.collect()))
}

/// What is asked of the request.
///
/// # Errors
/// Why no rule can ask it.
fn request(
    name: &str,
    arguments: &[&str],
    flags: &Way<'_>,
    values: &[String],
) -> Result<Between, String> {
    let no_rule = || Err("no condition of rules asks for it".to_owned());
    if flags.by.is_none() && arguments.is_empty() && values.is_empty() {
        match name {
            "always_true" => return Ok(Between::always(true)),
            "always_false" => return Ok(Between::always(false)),
            _ => {}
        }
    }
    let (base, suffix) = ["_beg", "_end", "_sub", "_dir", "_dom", "_reg"]
        .iter()
        .find_map(|it| Some((name.strip_suffix(it)?, Some(&it[1..]))))
        .unwrap_or((name, None));
    let by = flags.by.or(suffix);
    if values.is_empty() && by != Some("found") {
        return Err("must have values".to_owned());
    }
    match (base, arguments) {
        ("src" | "dst", []) if by.is_none_or(|it| it == "ip") => {
            let key = if base == "src" { "client" } else { "destination" };
            let networks = values.iter().map(|it| with_prefix(it));
            let networks: Vec<String> = networks.collect::<Result<_, _>>()?;
            let mapped: Vec<String> = networks.iter().filter_map(|it| mapped(it)).collect();
            let all: Vec<String> = networks.into_iter().chain(mapped).collect();
            Ok(Between::exact(Term::quoted(key, &all)))
        }
        ("method", []) if by.is_none_or(|it| it == "str") => method(values, flags.caseless),
        // A path of `*` is none to HAProxy.
        ("path", []) if by == Some("found") => Ok(Between::exact(Term::quoted("path", &["/*"]))),
        ("ssl_fc_sni", []) if by == Some("found") => no_rule(),
        ("path", []) => path::asked(values, by.unwrap_or("str"), flags.caseless),
        // Another form of the target begins otherwise, and the rest of the URL has the query.
        ("url", [])
            if by == Some("beg")
                && values.iter().all(|it| it.starts_with('/') && !it.contains('?')) =>
        {
            let asked = path::asked(values, "beg", flags.caseless)?;
            let why = Some("a target may be a whole URL".to_owned());
            Ok(Between { narrow: Bound::Always(false), why, ..asked })
        }
        ("url", _) => {
            Err("the URL has the query, and rules see path and parameters one by one".to_owned())
        }
        ("ssl_fc_sni", []) => texts::host("sni", values, by.unwrap_or("str")),
        ("hdr" | "fhdr", [host, occurrence @ ..])
            if host.eq_ignore_ascii_case("host") && occurrence.len() < 2 && by != Some("found") =>
        {
            texts::host("host", values, by.unwrap_or("str"))
        }
        ("hdr" | "fhdr", [field, occurrence @ ..]) if occurrence.len() < 2 => {
            let asked = texts::header(field, values, base == "fhdr", &Way { by, ..*flags })?;
            Ok(match occurrence {
                [] => asked,
                _ => Between {
                    narrow: Bound::Always(false),
                    why: Some(format!("{name}: rules ask any of a header's values")),
                    ..asked
                },
            })
        }
        ("cook", [cookie]) => texts::cookie(cookie, values, &Way { by, ..*flags }),
        ("urlp" | "url_param", [parameter]) => {
            texts::parameter(parameter, values, &Way { by, ..*flags })
        }
        _ => no_rule(),
    }
}

/// A network with its whole address and its mask as a prefix: `10.1/255.0.0.0` is `10.0.0.1/8`.
///
/// # Errors
/// Where the mask is no prefix, or the address is surely not the one that was meant.
fn with_prefix(text: &str) -> Result<String, String> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    let mask = match mask.map(|it| (it, it.parse::<Ipv4Addr>().map(u32::from))) {
        Some((_, Ok(mask))) if mask.leading_ones() + mask.trailing_zeros() >= 32 => {
            Some(mask.leading_ones().to_string())
        }
        Some((_, Ok(_))) => return Err("a mask that is no prefix".to_owned()),
        Some((mask, Err(_))) => Some(mask.to_owned()),
        None => None,
    };
    // HAProxy has `gethostbyname` read what is no whole address (`str2net`), and that `inet_aton`.
    let whole = short_address(address);
    if let (Some(whole), Some(mask)) = (whole, &mask) {
        let parts = address.split('.').count();
        if mask.parse() == Ok(parts * 8) {
            let meant = format!("{address}{}/{mask}", ".0".repeat(4 - parts));
            return Err(format!(
                "{text} is {whole}/{mask} to HAProxy: write {meant}, if that is meant, and import it again"
            ));
        }
    }
    let address = whole.map_or(address.to_owned(), |it| it.to_string());
    Ok(mask.map_or(address.clone(), |mask| format!("{address}/{mask}")))
}

/// The IPv4 addresses in an IPv6 network: for HAProxy each is one of `::ffff:0:0/96`, too.
fn mapped(text: &str) -> Option<String> {
    let network: ipnet::Ipv6Net =
        text.parse().ok().or_else(|| Some(text.parse::<std::net::Ipv6Addr>().ok()?.into()))?;
    let network = network.trunc();
    let all: ipnet::Ipv6Net = "::ffff:0:0/96".parse().expect("a network");
    match network.addr().to_ipv4_mapped() {
        _ if network.contains(&all) => Some("0.0.0.0/0".to_owned()),
        Some(address) if all.contains(&network) => {
            Some(format!("{address}/{}", network.prefix_len() - all.prefix_len()))
        }
        _ => None,
    }
}

/// Methods that HAProxy knows by number; others are texts.
const METHODS: [&str; 8] = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"];

fn method(values: &[String], caseless: bool) -> Result<Between, String> {
    match caseless && values.iter().any(|it| !METHODS.contains(&it.as_str())) {
        true => Err("-i: methods regard the case".to_owned()),
        false => Ok(Between::exact(Term::quoted("method", values))),
    }
}

/// `sc_http_req_rate(0) gt 5` and the like.
fn rate(criterion: &str, values: &[String]) -> Option<Rate> {
    let (name, arguments) = taken_apart(criterion)?;
    let argument = |index: usize| arguments.get(index).copied().unwrap_or_default().to_owned();
    let (counter, table) = match name {
        "sc_http_req_rate" => (argument(0), argument(1)),
        "sc0_http_req_rate" | "sc1_http_req_rate" | "sc2_http_req_rate" => {
            (name[2..3].to_owned(), argument(0))
        }
        "src_http_req_rate" => (String::new(), argument(0)),
        _ => return None,
    };
    match values {
        [gt, number] if gt == "gt" => Some(Rate { number: number.parse().ok()?, counter, table }),
        _ => None,
    }
}

/// What HAProxy knows without an ACL of the name.
pub(super) fn predefined(name: &str) -> Asked {
    let method = |names: &[&str]| Between::exact(Term::quoted("method", names));
    Asked::Request(match name {
        // Whatever comes to rules is HTTP, and whole.
        "TRUE" | "HTTP" | "WAIT_END" => Between::always(true),
        "FALSE" => Between::always(false),
        "METH_GET" => method(&["GET", "HEAD"]),
        "METH_HEAD" | "METH_POST" | "METH_PUT" | "METH_DELETE" | "METH_OPTIONS" | "METH_TRACE"
        | "METH_CONNECT" => method(&[&name[5..]]),
        "LOCALHOST" => Between::exact(Term::quoted("client", &["127.0.0.0/8", "::1"])),
        "HTTP_1.0" | "HTTP_1.1" | "HTTP_2.0" | "HTTP_CONTENT" | "HTTP_URL_ABS"
        | "HTTP_URL_SLASH" | "HTTP_URL_STAR" | "RDP_COOKIE" | "REQ_CONTENT" => {
            Between::unknown(format!("{name}: no condition of rules asks for it"))
        }
        _ => Between::unknown(format!("no ACL is called {name}")),
    })
}
