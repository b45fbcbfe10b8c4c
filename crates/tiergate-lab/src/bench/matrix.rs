//! What is measured: one row for each way in which clients use a proxy.

/// How clients speak to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// HTTP/1.1, connections kept: wrk.
    Plain,
    /// HTTP/1.1, a connection for each request: wrk with `Connection: close`.
    Close,
    /// HTTP/1.1 over TLS, connections kept: h2load.
    TlsHttp1,
    /// HTTP/2 over TLS, one stream at a time on each connection, so that it compares: h2load.
    TlsHttp2,
}

impl Tool {
    /// Whether it speaks TLS.
    pub(super) fn tls(self) -> bool {
        matches!(self, Self::TlsHttp1 | Self::TlsHttp2)
    }
}

/// A row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// What `ONLY=` calls it.
    pub(super) name: &'static str,
    /// Connections open at once.
    pub(super) connections: u32,
    /// Bytes of an answer; 0 for refusals, which the proxy answers itself.
    pub(super) bytes: u32,
    /// How clients speak.
    pub(super) tool: Tool,
    /// Whether `QUICK=1` measures it too.
    pub(super) quick: bool,
}

impl Row {
    /// What clients ask for.
    pub(super) fn path(&self) -> String {
        match self.bytes {
            0 => REFUSED_PATH.into(),
            bytes => format!("/bytes/{bytes}"),
        }
    }

    /// Whether every answer must be a refusal rather than a 200.
    pub(super) fn refusal(&self) -> bool {
        self.bytes == 0
    }
}

/// What every proxy is configured to refuse.
pub(super) const REFUSED_PATH: &str = "/refused";

const K1: u32 = 1 << 10;
const K64: u32 = 64 << 10;

const fn row(name: &'static str, tool: Tool, connections: u32, bytes: u32, quick: bool) -> Row {
    Row { name, connections, bytes, tool, quick }
}

/// All rows.
pub(super) const ROWS: [Row; 14] = [
    row("plain-64-1k", Tool::Plain, 64, K1, true),
    row("plain-512-1k", Tool::Plain, 512, K1, true),
    row("plain-64-64k", Tool::Plain, 64, K64, true),
    row("plain-512-64k", Tool::Plain, 512, K64, false),
    row("close-64-1k", Tool::Close, 64, K1, true),
    row("close-512-1k", Tool::Close, 512, K1, false),
    row("close-64-64k", Tool::Close, 64, K64, false),
    row("close-512-64k", Tool::Close, 512, K64, false),
    row("tls-h1-64-1k", Tool::TlsHttp1, 64, K1, true),
    row("tls-h1-64-64k", Tool::TlsHttp1, 64, K64, false),
    row("tls-h2-64-1k", Tool::TlsHttp2, 64, K1, true),
    row("tls-h2-64-64k", Tool::TlsHttp2, 64, K64, false),
    row("refuse-64", Tool::Plain, 64, 0, true),
    row("refuse-512", Tool::Plain, 512, 0, false),
];

/// The rows that are asked for: those whose name contains `only`, otherwise all, or the quick ones.
pub(super) fn chosen(only: Option<&str>, quick: bool) -> Vec<Row> {
    let wanted = |row: &&Row| match only {
        Some(only) => only.split(',').any(|part| row.name.contains(part)),
        None => row.quick || !quick,
    };
    ROWS.iter().filter(wanted).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_combination_that_is_promised_is_there() {
        for connections in [64, 512] {
            for bytes in [K1, K64] {
                for tool in [Tool::Plain, Tool::Close] {
                    assert!(
                        ROWS.iter().any(|row| (row.connections, row.bytes, row.tool)
                            == (connections, bytes, tool))
                    );
                }
            }
        }
        for tool in [Tool::TlsHttp1, Tool::TlsHttp2] {
            assert!(ROWS.iter().any(|row| row.tool == tool && row.quick));
        }
        assert!(ROWS.iter().any(|row| row.refusal() && row.tool == Tool::Plain && row.quick));
        assert_eq!(ROWS.iter().map(|row| row.name).collect::<HashSet<_>>().len(), ROWS.len());
    }

    #[test]
    fn rows_are_chosen_by_name() {
        assert_eq!(chosen(Some("plain-64-1k"), true).len(), 1);
        assert_eq!(chosen(Some("tls"), false).len(), 4);
        assert_eq!(chosen(Some("refuse-64,close-64-1k"), false).len(), 2);
        assert_eq!(chosen(Some("nothing"), false).len(), 0);
        assert_eq!(chosen(None, false).len(), ROWS.len());
        // Three proxies, two rounds of a second, and a second to warm up: within a minute.
        assert!(chosen(None, true).len() <= 7);
    }
}
