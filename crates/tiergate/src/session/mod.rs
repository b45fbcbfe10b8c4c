//! Sessions: whether a request belongs to one that was admitted before.
//!
//! | cookie | a request belongs to a running session if |
//! |---|---|
//! | the application's | its value is in the table: a response set it, or a request that carried it succeeded |
//! | our own | it is signed by one of the secrets, for this host, and within the idle time and lifetime |
//!
//! The table of [`tiergate_core::admit::session`] also counts sessions, whichever cookie names them.
//!
//! | state | read by | written by | lock |
//! |---|---|---|---|
//! | the table | requests under a policy with `[session]`, at head, response and end; a scrape | the same | `sessions`, shortly; never with the gate's, never across an await |

pub mod set_cookie;
pub mod settings;
pub mod token;

use crate::clock;
use cookie::{Cookie, SameSite};
use set_cookie::Change;
use settings::{Recognised, Session};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tiergate_core::admit::session::{Bounds, SessionAccount, Sessions};
use tiergate_core::class::ClassId;
use tiergate_core::request::{Field, RequestView};
use token::Token;

/// Name of our own cookie.
pub const COOKIE: &str = "tiergate_session";

/// Our own cookie is renewed when this part of the idle time (1/8) has passed: rarely enough for caches,
/// often enough that a session is not taken for idle much too early.
const RENEWED_AFTER: u32 = 8;

/// The sessions of a process.
#[derive(Debug)]
pub struct SessionTable {
    sessions: Mutex<Sessions>,
    /// Keys are hashes under a secret seed.
    hasher: RandomState,
}

/// Counts for a scrape.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Sessions in the table.
    pub running: usize,
    /// What was counted, by class id; nothing of those beyond the end.
    pub classes: Vec<SessionAccount>,
}

impl SessionTable {
    /// No session yet.
    pub fn new(settings: Option<&Session>) -> Self {
        let sessions = Mutex::new(Sessions::new(bounds(settings)));
        SessionTable { sessions, hasher: RandomState::new() }
    }

    /// Puts another policy in force.
    pub fn reconfigure(&self, settings: Option<&Session>) {
        self.lock().reconfigure(bounds(settings));
    }

    /// The counts so far.
    pub fn readings(&self) -> Readings {
        let mut table = self.lock();
        table.sweep(clock::now());
        Readings { running: table.len(), classes: table.account().to_vec() }
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().expect("no code panics while it holds the table")
    }

    fn client(&self, address: IpAddr) -> u64 {
        match address.to_canonical() {
            IpAddr::V4(address) => self.hasher.hash_one(address),
            IpAddr::V6(address) => self.hasher.hash_one(address.to_bits() >> 64),
        }
    }

    fn key(&self, name: &[u8]) -> u64 {
        // Zero stands for none.
        self.hasher.hash_one(name) | 1
    }
}

/// The bounds; without `[session]` nothing is kept.
fn bounds(settings: Option<&Session>) -> Bounds {
    let none =
        Bounds { idle: Duration::ZERO, lifetime: Duration::ZERO, sessions_max: 0, at_once_max: 0 };
    settings.map_or(none, |settings| settings.bounds)
}

/// A request's membership in a session; dropping it ends the request.
#[derive(Debug)]
pub struct SessionGuard {
    table: Arc<SessionTable>,
    class: ClassId,
    /// A hash of its client: an IPv4 address, or an IPv6 network of a customer's size.
    client: u64,
    /// The key of the session; 0: none yet.
    key: AtomicU64,
    /// Whether it counts among the session's concurrent requests.
    member: AtomicBool,
    running: bool,
    own: Option<Own>,
}

/// What the renewal of our own cookie needs.
#[derive(Debug)]
struct Own {
    /// The session's token; `None`: a session would begin now.
    token: Option<Token>,
    host: Box<[u8]>,
    secure: bool,
    now: u32,
}

impl SessionGuard {
    /// Reads the cookies of a request. `secure`: it came by TLS.
    pub fn open(
        table: &Arc<SessionTable>,
        settings: &Session,
        view: &RequestView<'_>,
        class: ClassId,
        secure: bool,
    ) -> SessionGuard {
        let mut guard = SessionGuard {
            table: table.clone(),
            class,
            client: table.client(view.client),
            key: AtomicU64::new(0),
            member: AtomicBool::new(false),
            running: false,
            own: None,
        };
        match &settings.recognised {
            Recognised::Application(name) => {
                let value = view.cookie(name.as_bytes()).filter(|value| !value.is_empty());
                if let Some(value) = value {
                    let key = table.key(value);
                    guard.key = key.into();
                    guard.running = table.lock().arrive(clock::now(), key);
                }
            }
            Recognised::Own(secrets) => {
                let now = unix_now();
                let Bounds { idle, lifetime, .. } = settings.bounds;
                let read = |text| Token::read(text, secrets, view.host, now, idle, lifetime);
                let token = view.cookie(COOKIE.as_bytes()).and_then(read);
                if let Some(token) = token {
                    let key = table.key(&token.name);
                    let age = Duration::from_secs(u64::from(now.saturating_sub(token.begun)));
                    guard.key = key.into();
                    guard.running =
                        table.lock().resume(clock::now(), key, guard.client, age, class);
                }
                guard.own = Some(Own { token, host: view.host.into(), secure, now });
            }
        }
        guard.member = guard.running.into();
        guard
    }

    /// Whether the request belongs to a running session, which has priority over new ones.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// The request was refused.
    pub fn refused(&self) {
        let key = self.running.then(|| self.key.load(Ordering::Relaxed));
        self.table.lock().refused(key, self.class);
    }

    /// Takes in the head of the final response. Returns the value of a `Set-Cookie` to be added.
    pub fn answered(
        &self,
        settings: &Session,
        status: u16,
        fields: &[Field<'_>],
    ) -> Option<String> {
        let well = (200..400).contains(&status);
        match (&settings.recognised, &self.own) {
            (Recognised::Application(name), _) => {
                self.follow(set_cookie::change(fields, name.as_bytes(), SystemTime::now()), well);
                None
            }
            (Recognised::Own(secrets), Some(own)) => {
                // A cookie in a shared cache would be given to many clients.
                let may_set = status != 304 && !set_cookie::is_shared(fields);
                let token = match own.token {
                    Some(token) => {
                        self.count(self.key.load(Ordering::Relaxed), well);
                        let idle = settings.bounds.idle.as_secs() as u32;
                        let due = own.now.saturating_sub(token.made) >= idle / RENEWED_AFTER;
                        (due && may_set).then_some(Token { made: own.now, ..token })
                    }
                    None => (well && may_set).then(|| {
                        let token = Token::new(own.now);
                        self.count(self.table.key(&token.name), true);
                        token
                    }),
                }?;
                let cookie = Cookie::build((COOKIE, token.write(secrets, &own.host)))
                    .path("/")
                    .http_only(true)
                    .same_site(SameSite::Lax)
                    .secure(own.secure);
                Some(cookie.build().to_string())
            }
            // A reload came in between: nothing is counted.
            (Recognised::Own(_), None) => None,
        }
    }

    /// Follows what the response does to the application's cookie.
    fn follow(&self, change: Change<'_>, well: bool) {
        let former = self.key.load(Ordering::Relaxed);
        match change {
            Change::Ended => {
                if self.running {
                    self.table.lock().end(former);
                }
            }
            Change::Set(value) => {
                let key = self.table.key(value);
                if self.running && self.table.lock().rename(former, key) {
                    self.key.store(key, Ordering::Relaxed);
                }
                self.count(key, well);
            }
            Change::None if former != 0 => self.count(former, well),
            Change::None => {}
        }
    }

    fn count(&self, key: u64, well: bool) {
        if self.table.lock().answered(clock::now(), key, self.client, self.class, well) {
            self.key.store(key, Ordering::Relaxed);
            self.member.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if self.member.load(Ordering::Relaxed) {
            self.table.lock().leave(self.key.load(Ordering::Relaxed));
        }
    }
}

/// UNIX time in seconds, until 2106.
fn unix_now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
