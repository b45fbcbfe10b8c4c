//! Who clients are, which sessions run, and who goes first under overload, as written.

use super::error::{Faults, Place};
use super::read::{At, OneOrMany, Read, read_at, table, unknown, wrong};
use super::values::{Address, File, ShutText, Time};

table! {
    /// How sessions are known again: by the application's cookie or by a signed one of our own.
    struct Session {
        /// Name of the application's cookie, such as "JSESSIONID". Case matters.
        cookie: String,
        /// Whether Tiergate sets a cookie of its own, "tiergate_session". Default false.
        own: bool,
        /// File of the secrets that sign our own cookie, one a line, the one in force first; the same
        /// for all gateways of a site. Without it, sessions end with the process.
        secret_file: File,
        /// Without a request for so long, a session is over. Default "30m".
        idle: Time,
        /// After so long, a session is over in any case. Default "12h".
        lifetime: Time,
        /// Sessions that are kept; one more, and the one idle longest must go. Default 100000.
        #[schemars(range(min = 1, max = 10_000_000))]
        sessions_max: u64,
        /// Requests of one session at once that go before others. Default 32.
        #[schemars(range(min = 1, max = 1000))]
        at_once_max: u64,
    }
}

table! {
    /// Refuses the least important requests under overload, as many as it asks for, and closes their
    /// connections: first those without `importance`, of the lesser class, of the shorter connection.
    struct Shedding {
        /// The delay that the queue may stand for; beyond it, requests are shed. Default "100ms".
        delay: Time,
        /// How connections are closed: "close", with an answer (the default), or "reset", without.
        close: ShutText,
    }
}

table! {
    /// Countries and autonomous systems of addresses.
    struct Geo {
        /// MaxMind databases (`.mmdb`): one, or several, of which the first that knows has the word.
        #[schemars(required)]
        database: OneOrMany<File>,
    }
}

table! {
    /// A table of keys.
    struct Key {
        /// Its name in messages.
        #[schemars(required)]
        name: String,
        /// The header that carries the key. Default "x-api-key".
        header: String,
        /// File with a line "name:key" or "name:sha256:hash" for each key.
        #[schemars(required)]
        secret_file: File,
    }
}

table! {
    /// Signed tokens.
    struct Token {
        /// The header that carries the token. Default "authorization", behind "Bearer".
        header: String,
        /// File with a secret of at least 32 bytes a line, as text or as "base64:…".
        #[schemars(required)]
        secret_file: File,
        /// What `iss` must be. By default anything.
        issuer: String,
        /// What `aud` must be or contain. By default anything.
        audience: String,
        /// By how much clocks may differ. Default "1m".
        leeway: Time,
    }
}

table! {
    /// Names of clients by forward-confirmed reverse DNS.
    struct Names {
        /// DNS servers. By default the system's.
        #[schemars(length(min = 1, max = 8))]
        servers: Vec<At<Address>>,
        /// Longest time of a look-up with all its questions. Default "2s".
        timeout: Time,
        /// Addresses whose names are remembered. Default 65536.
        #[schemars(range(min = 64, max = 16_777_216))]
        entries_max: u64,
        /// Look-ups at once. Default 64.
        #[schemars(range(min = 1, max = 1024))]
        lookups_max: u64,
        /// Shortest time that an answer is believed, whatever it says. Default "1m".
        ttl_min: Time,
        /// Longest time that an answer is believed, whatever it says. Default "1h".
        ttl_max: Time,
    }
}
