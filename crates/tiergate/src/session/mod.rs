//! Sessions: which requests belong to one that was admitted before.
//!
//! | cookie | a request belongs to a running session if |
//! |---|---|
//! | the application's | its value is in the table: an answer set it, or a request that carried it was admitted and answered well |
//! | our own | it is signed by a secret of ours, for this host, and neither idle nor old for too long |
//!
//! The table of [`tiergate_core::admit::session`] also counts sessions, whichever cookie names them.
//!
//! | state | who reads | who writes | lock |
//! |---|---|---|---|
//! | the table | each request of a policy with `[session]`, at its head, its answer, its end; a scrape | the same | `table`, shortly; never with the gate's, never across an await |

pub mod set_cookie;
pub mod settings;
pub mod token;

use crate::clock;
use set_cookie::Change;
pub use settings::COOKIE;
use settings::{Recognised, Session};
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tiergate_core::admit::session::{Bounds, SessionAccount, Sessions};
use tiergate_core::class::ClassId;
use tiergate_core::request::{Field, RequestView};
use token::Token;

/// Our own cookie is made anew when this share of the idle time has passed since it was made: seldom
/// enough for caches and connections, and a session is never taken for idle much too early.
const RENEWED_AFTER: u32 = 8;

/// The sessions of a process.
#[derive(Debug)]
pub struct Desk {
    table: Mutex<Sessions>,
    /// Keys are hashes that nobody outside can compute.
    hasher: RandomState,
}

/// What a scrape shows.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Sessions in the table.
    pub running: usize,
    /// What was counted, by class id; nothing of those beyond the end.
    pub classes: Vec<SessionAccount>,
}

impl Desk {
    /// No session yet.
    pub fn new(settings: Option<&Session>) -> Self {
        let table = Mutex::new(Sessions::new(bounds(settings)));
        Desk { table, hasher: RandomState::new() }
    }

    /// Puts another policy in force.
    pub fn reconfigure(&self, settings: Option<&Session>) {
        self.table().reconfigure(bounds(settings));
    }

    /// What was counted so far.
    pub fn readings(&self) -> Readings {
        let mut table = self.table();
        table.sweep(clock::now());
        Readings { running: table.len(), classes: table.account().to_vec() }
    }

    fn table(&self) -> MutexGuard<'_, Sessions> {
        self.table.lock().expect("no code panics while it holds the table")
    }

    fn key(&self, name: &[u8]) -> u64 {
        // Zero stands for none.
        self.hasher.hash_one(name) | 1
    }
}

/// The bounds; without `[session]` there is nothing to be kept.
fn bounds(settings: Option<&Session>) -> Bounds {
    let none =
        Bounds { idle: Duration::ZERO, lifetime: Duration::ZERO, sessions_max: 0, at_once_max: 0 };
    settings.map_or(none, |settings| settings.bounds)
}

/// A request's part in a session. Dropped, the request is over.
#[derive(Debug)]
pub struct Visit {
    desk: Arc<Desk>,
    class: ClassId,
    /// What names the session; 0: nothing yet.
    key: AtomicU64,
    /// Whether it is counted among the session's requests at once.
    member: AtomicBool,
    running: bool,
    own: Option<Own>,
}

/// What our own cookie needs for its renewal.
#[derive(Debug)]
struct Own {
    /// The session so far; `None`: it would begin now.
    token: Option<Token>,
    host: Box<[u8]>,
    secure: bool,
    now: u32,
}

impl Visit {
    /// Looks at the cookies of a request. `secure`: it came by TLS.
    pub fn open(
        desk: &Arc<Desk>,
        settings: &Session,
        view: &RequestView<'_>,
        class: ClassId,
        secure: bool,
    ) -> Visit {
        let mut visit = Visit {
            desk: desk.clone(),
            class,
            key: AtomicU64::new(0),
            member: AtomicBool::new(false),
            running: false,
            own: None,
        };
        match &settings.recognised {
            Recognised::Application(name) => {
                let value = view.cookie(name.as_bytes()).filter(|value| !value.is_empty());
                if let Some(value) = value {
                    let key = desk.key(value);
                    visit.key = key.into();
                    visit.running = desk.table().arrive(clock::now(), key);
                }
            }
            Recognised::Own(secrets) => {
                let now = unix_now();
                let Bounds { idle, lifetime, .. } = settings.bounds;
                let read = |text| Token::read(text, secrets, view.host, now, idle, lifetime);
                let token = view.cookie(COOKIE.as_bytes()).and_then(read);
                if let Some(token) = token {
                    let key = desk.key(&token.name);
                    let age = Duration::from_secs(u64::from(now.saturating_sub(token.begun)));
                    visit.key = key.into();
                    visit.running = desk.table().resume(clock::now(), key, age, class);
                }
                visit.own = Some(Own { token, host: view.host.into(), secure, now });
            }
        }
        visit.member = visit.running.into();
        visit
    }

    /// Whether the request belongs to a session that runs, and goes before those that begin one.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// The request was refused.
    pub fn refused(&self) {
        let key = self.running.then(|| self.key.load(Ordering::Relaxed));
        self.desk.table().refused(key, self.class);
    }

    /// The head of the origin's final answer is there. Gives the value of a `Set-Cookie` to be added.
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
                // What a shared cache or a former answer's copy gets would be many clients' cookie.
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
                        self.count(self.desk.key(&token.name), true);
                        token
                    }),
                }?;
                let mut line = format!("{COOKIE}={}", token.write(secrets, &own.host));
                let secure = if own.secure { "; Secure" } else { "" };
                let _ = write!(line, "; Path=/; HttpOnly; SameSite=Lax{secure}");
                Some(line)
            }
            // A reload lies between; the visit ends as it is.
            (Recognised::Own(_), None) => None,
        }
    }

    /// What the application's answer says of its own cookie.
    fn follow(&self, change: Change<'_>, well: bool) {
        let former = self.key.load(Ordering::Relaxed);
        match change {
            Change::Ended => {
                if self.running {
                    self.desk.table().end(former);
                }
            }
            Change::Set(value) => {
                let key = self.desk.key(value);
                if self.running && self.desk.table().rename(former, key) {
                    self.key.store(key, Ordering::Relaxed);
                }
                self.count(key, well);
            }
            Change::None if former != 0 => self.count(former, well),
            Change::None => {}
        }
    }

    fn count(&self, key: u64, well: bool) {
        if self.desk.table().answered(clock::now(), key, self.class, well) {
            self.key.store(key, Ordering::Relaxed);
            self.member.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.member.load(Ordering::Relaxed) {
            self.desk.table().leave(self.key.load(Ordering::Relaxed));
        }
    }
}

/// UNIX time in seconds, until 2106.
fn unix_now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
