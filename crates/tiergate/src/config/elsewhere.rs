//! Keys that stand in the wrong table: those of the top level after a table, which TOML takes for the table's, and those of tables that are easily
//! confused.

/// Keys of the top level that are no tables.
const PLAIN: [&str; 10] = [
    "mode",
    "include",
    "police",
    "default_class",
    "flow",
    "admin",
    "admin_names",
    "admin_token_file",
    "threads",
    "trusted",
];

/// Tables of the top level whose keys are taken for each other's.
const TABLES: [(&str, &[&str]); 2] = [("limits", &LIMITS), ("timeouts", &TIMEOUTS)];

/// Those of `[limits]` and of `[timeouts]`; a test compares them with the tables.
pub(super) const LIMITS: [&str; 14] = [
    "request_head_max",
    "target_len_max",
    "fields_max",
    "response_head_max",
    "request_body_max",
    "connections_max",
    "http2_streams_max",
    "tunnels_max",
    "buffers_max",
    "spool_max",
    "stored_max",
    "stored_body_max",
    "client_rate_min",
    "slow_slots_max",
];
pub(super) const TIMEOUTS: [&str; 12] = [
    "request_head",
    "request_body",
    "idle",
    "handshake",
    "connect",
    "response_head",
    "response_body",
    "write",
    "origin_idle",
    "tunnel_idle",
    "lame_duck",
    "drain",
];

/// Where a key belongs that a table does not know, for a message. `is_top`: the table is all of a policy.
pub(super) fn home(key: &str, is_top: bool) -> Option<String> {
    if !is_top && PLAIN.contains(&key) {
        return Some(format!(
            "; `{key}` is one of the top level: write it before the first [table]"
        ));
    }
    let (name, _) = TABLES.iter().find(|(_, keys)| keys.contains(&key))?;
    Some(format!("; `{key}` is one of [{name}]"))
}
