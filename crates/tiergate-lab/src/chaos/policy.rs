//! The gateway's policies: one that is in force, others to reload, and some that must be rejected.

use super::fault::SERVERS;
use fastrand::Rng;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What the policies have in common.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) listen: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) servers: [SocketAddr; SERVERS],
    pub(super) log: PathBuf,
    /// The listener with TLS: its address, certificate and key.
    pub(super) secure: Option<(SocketAddr, [PathBuf; 2])>,
}

/// Client connections that the gateway accepts.
pub(super) const CONNECTIONS_MAX: usize = 400;
/// Its bound on memory for slow clients.
pub(super) const BUFFERS_MAX: usize = 4 << 20;
/// How long a premium request may wait for a slot, in seconds.
const PREMIUM_DEADLINE_S: u64 = 4;

/// The policy at the start.
pub(super) fn usual(places: &Places) -> String {
    written(places, ["premium", "basic"], false)
}

/// Another good policy.
pub(super) fn good(places: &Places, random: &mut Rng) -> String {
    let names = [["premium", "basic"], ["gold", "basic"], ["premium", "economy"]];
    written(places, names[random.usize(..names.len())], random.bool())
}

/// A policy with an error, and what is wrong with it.
pub(super) fn bad(places: &Places, random: &mut Rng) -> (String, &'static str) {
    let good = usual(places);
    let (from, to, why) = [
        ("[origin]", "[origin", "a syntax error"),
        ("connections_max", "connection_max", "an unknown key"),
        ("class = \"basic\"", "class = \"bronze\"", "an unknown class"),
        ("deadline = \"1s\"", "deadline = \"soon\"", "a wrong value"),
        ("[access_log]", "[geo]\ndatabase = \"missing.mmdb\"\n[access_log]", "a missing file"),
        ("failures_max = 3", "servers = []", "a duplicate key"),
    ][random.usize(..6)];
    let bad = good.replacen(from, to, 1);
    debug_assert_ne!(bad, good, "{why}");
    (bad, why)
}

fn written(places: &Places, [premium, basic]: [&str; 2], reordered: bool) -> String {
    let Places { listen, admin, servers, log, secure } = places;
    let servers = servers.map(|server| format!("{:?}", server.to_string())).join(", ");
    let log = Path::display(log).to_string();
    let secure = secure.as_ref().map_or(String::new(), |(address, [certificate, key])| {
        format!(
            "[[listener]]\naddress = \"{address}\"\n\
             tls = {{ certificate = {certificate:?}, key = {key:?} }}\n\n"
        )
    });
    let rule = |path: &str, class: &str| {
        format!("[[rule]]\nname = \"{path}\"\npath = \"/{path}/*\"\nclass = \"{class}\"\n\n")
    };
    let mut rules = [rule("premium", premium), rule("basic", basic)];
    let mut more = String::new();
    if reordered {
        rules.reverse();
        more = rule("bulk", "bulk");
        more += "[[class]]\nname = \"bulk\"\ndeadline = \"200ms\"\n";
    }
    format!(
        "admin = \"{admin}\"\nthreads = 2\n\n\
         [[listener]]\naddress = \"{listen}\"\n\n{secure}\
         [origin]\nfailures_max = 3\nservers = [{servers}]\n\n\
         [origin.health]\npath = \"/health\"\ninterval = \"400ms\"\ntimeout = \"800ms\"\n\
         fall = 2\nrise = 2\n\n\
         [limits]\nconnections_max = {CONNECTIONS_MAX}\nbuffers_max = {BUFFERS_MAX}\n\
         request_head_max = \"8KiB\"\ntarget_len_max = \"2KiB\"\nrequest_body_max = \"4MiB\"\n\
         http2_streams_max = 50\n\n\
         [timeouts]\nrequest_head = \"3s\"\nrequest_body = \"3s\"\nidle = \"20s\"\n\
         connect = \"1s\"\nresponse_head = \"2s\"\nresponse_body = \"2s\"\nwrite = \"3s\"\n\
         origin_idle = \"2s\"\ndrain = \"5s\"\n\n\
         [access_log]\npath = {log:?}\nbad_per_second = 0\n\n\
         [[class]]\nname = \"{premium}\"\ndeadline = \"{PREMIUM_DEADLINE_S}s\"\n\n\
         [[class]]\nname = \"{basic}\"\ndeadline = \"1s\"\nminimum = \"10%\"\n\n\
         {}{}{more}",
        rules[0], rules[1],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        let address = "127.0.0.1:1".parse().unwrap();
        let log = PathBuf::from("/tmp/log");
        let secure = Some((address, ["/tmp/certificate", "/tmp/key"].map(PathBuf::from)));
        Places { listen: address, admin: address, servers: [address; SERVERS], log, secure }
    }

    #[test]
    fn policies_are_toml() {
        let mut random = Rng::with_seed(1);
        for _ in 0..50 {
            let text = good(&places(), &mut random);
            toml::from_str::<toml::Table>(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
        }
    }

    #[test]
    fn every_bad_policy_differs_from_the_good_one() {
        let mut random = Rng::with_seed(1);
        for _ in 0..50 {
            let (text, why) = bad(&places(), &mut random);
            assert_ne!(text, usual(&places()), "{why}");
        }
    }
}
