//! The options of `bind`, `server` and `default-server`: words, some of which have a value. A name or a value that reads like an option is none.
//!
//! Source: HAProxy's configuration manual, §5 "Bind and server options"; written anew.

use super::grammar::Line;

/// Options of `bind` with a value.
const OF_BIND: [&str; 45] = [
    "accept-netscaler-cip",
    "alpn",
    "backlog",
    "ca-file",
    "ca-ignore-err",
    "ca-sign-file",
    "ca-sign-pass",
    "ca-verify-file",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "crl-file",
    "crt",
    "crt-ignore-err",
    "crt-list",
    "curves",
    "ecdhe",
    "expose-fd",
    "gid",
    "group",
    "id",
    "interface",
    "level",
    "maxconn",
    "mode",
    "mss",
    "name",
    "namespace",
    "nice",
    "npn",
    "process",
    "proto",
    "quic-cc-algo",
    "quic-socket",
    "severity-output",
    "shards",
    "sigalgs",
    "ssl-max-ver",
    "ssl-min-ver",
    "tcp-ut",
    "thread",
    "tls-ticket-keys",
    "uid",
    "user",
    "verify",
];

/// Options of servers with a value.
const OF_SERVER: [&str; 69] = [
    "addr",
    "agent-addr",
    "agent-inter",
    "agent-port",
    "agent-send",
    "alpn",
    "ca-file",
    "check-alpn",
    "check-proto",
    "check-sni",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "cookie",
    "crl-file",
    "crt",
    "curves",
    "downinter",
    "error-limit",
    "fall",
    "fastinter",
    "guid",
    "hash-key",
    "id",
    "idle-ping",
    "init-addr",
    "init-state",
    "inter",
    "interface",
    "log-bufsize",
    "log-proto",
    "max-reuse",
    "maxconn",
    "maxqueue",
    "minconn",
    "namespace",
    "npn",
    "observe",
    "on-error",
    "on-marked-down",
    "on-marked-up",
    "pool-conn-name",
    "pool-low-conn",
    "pool-max-conn",
    "pool-purge-delay",
    "port",
    "proto",
    "proxy-v2-options",
    "redir",
    "resolve-net",
    "resolve-opts",
    "resolve-prefer",
    "resolvers",
    "rise",
    "shard",
    "sigalgs",
    "slowstart",
    "sni",
    "socks4",
    "source",
    "ssl-max-ver",
    "ssl-min-ver",
    "tcp-ut",
    "usesrc",
    "track",
    "verify",
    "verifyhost",
    "weight",
    "ws",
];

/// Options in the order of their line; of two of a name the last counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Options<'l> {
    /// With their values, which are empty where an option has none.
    pub(super) list: Vec<(&'l str, &'l str)>,
}

impl<'l> Options<'l> {
    /// Those of `bind`, behind the address.
    pub(super) fn of_bind(line: &'l Line) -> Self {
        Options::read(line, 2, |it| OF_BIND.contains(&it))
    }

    /// Those of `server` and `server-template`, behind the address, or of `default-server`.
    pub(super) fn of_server(line: &'l Line) -> Self {
        let first = match line.word(0) {
            "server" => 3,
            "server-template" => 4,
            _ => 1,
        };
        Options::read(line, first, |it| OF_SERVER.contains(&it))
    }

    fn read(line: &'l Line, first: usize, has_value: impl Fn(&str) -> bool) -> Self {
        let mut words = line.words.iter().skip(first).map(String::as_str);
        let mut list = Vec::new();
        while let Some(word) = words.next() {
            let value = if has_value(word) { words.next().unwrap_or_default() } else { "" };
            list.push((word, value));
        }
        Options { list }
    }

    /// These, and behind them others, which count where both say something.
    pub(super) fn with(&self, others: Options<'l>) -> Self {
        Options { list: self.list.iter().copied().chain(others.list).collect() }
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.list.iter().any(|(it, _)| *it == word)
    }

    /// Whether the first is said, and none of the others behind it.
    pub(super) fn is_on(&self, word: &str, off: &[&str]) -> bool {
        let last = self.list.iter().rfind(|(it, _)| *it == word || off.contains(it));
        last.is_some_and(|(it, _)| *it == word)
    }

    pub(super) fn value(&self, word: &str) -> Option<&'l str> {
        self.values(word).last()
    }

    /// All values of an option.
    pub(super) fn values(&self, word: &str) -> impl Iterator<Item = &'l str> {
        self.list.iter().filter(move |(it, _)| *it == word).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::draft::From;
    use super::*;

    #[test]
    fn names_and_values_are_no_options() {
        let line = |text: &str| Line {
            words: text.split(' ').map(str::to_owned).collect(),
            from: From::default(),
        };
        let server = line("server backup 10.0.0.1:80 cookie backup maxconn 3 maxconn 5 check");
        let options = Options::of_server(&server);
        assert!(!options.has("backup") && options.has("check"));
        assert_eq!(options.value("maxconn"), Some("5"));
        let bind = line("bind :80 name ssl crt a crt b");
        let options = Options::of_bind(&bind);
        assert!(!options.has("ssl"));
        assert_eq!(options.values("crt").collect::<Vec<_>>(), ["a", "b"]);
        let defaults = line("default-server disabled");
        let server = line("server s a:1 enabled");
        let both = Options::of_server(&defaults).with(Options::of_server(&server));
        assert!(both.has("disabled") && !both.is_on("disabled", &["enabled"]));
    }
}
