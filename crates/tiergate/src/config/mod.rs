//! Configuration: as written (`raw`), as meant ([`meant`]), and what is wrong with it ([`error`]).
//!
//! TOML text → spanned values (`toml`) → `raw` (kinds and names of keys, by `read`) → [`meant`]
//! (`resolve`: bounds, references, defaults). Each step goes on after a mistake, so that a file's
//! mistakes are told all at once, but the next step begins only without any.

pub(crate) mod condition;
mod condition_values;
pub mod defaults;
pub mod error;
pub mod meant;
pub(crate) mod quantities;
mod raw;
mod raw_clients;
mod raw_refusal;
mod raw_scheduling;
mod read;
mod resolve;
mod resolve_classes;
mod resolve_identity;
mod resolve_policers;
mod resolve_refusal;
mod resolve_rules;
mod resolve_scheduling;
pub(crate) mod resolve_score;
mod resolve_session;
mod resolve_triggers;
mod rule_values;
mod scheduling_values;
mod schema;
pub(crate) mod show;
mod values;

pub use error::{ConfigError, Errors, Fault};
pub use schema::schema;

use crate::geo::Geo;
use crate::session::token::Secrets;
use crate::tokens::Credentials;
use error::{Faults, Lines, Place};
use meant::{
    Identity, Listener, NamedFile, Origin, Policy, ProxyProtocol, Recognised, Session, Wanted,
};
use read::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::Classifier;
use tiergate_core::plan::Plan;
use toml::de::{DeTable, DeValue};

/// Reads a policy from its text. `file_name` is used in messages, and its directory is where relative
/// file names begin. Nothing is opened: certificates are checked where TLS is set up, and
/// [`Refusal::page_html`](meant::Refusal::page_html) stays empty.
///
/// # Errors
/// Every fault of the text. Never panics, whatever the text.
pub fn parse(text: &str, file_name: &str) -> Result<Policy, Errors> {
    let lines = Lines::of(text);
    let mut faults = Faults::new();
    let (document, syntax) = DeTable::parse_recoverable(text);
    for fault in syntax {
        let span = fault.span().unwrap_or(0..0);
        faults.add(&Place { key: String::new(), span }, fault.message().trim());
    }
    if !faults.is_empty() {
        return Err(faults.into_errors(file_name, &lines));
    }
    let root = DeValue::Table(document.into_inner());
    let raw = raw::Root::read(&root, &Place::default(), &mut faults);
    let base = Path::new(file_name).parent().unwrap_or(Path::new(""));
    let policy = raw.and_then(|raw| resolve::policy(raw, base, &lines, &mut faults));
    match policy {
        Some(policy) if faults.is_empty() => Ok(policy),
        _ => Err(faults.into_errors(file_name, &lines)),
    }
}

/// Reads a policy file, and the page, the secrets and the databases that it names.
///
/// # Errors
/// When a file cannot be read or is too large, or the policy has faults.
pub fn load(path: &Path) -> Result<Policy, ConfigError> {
    let text = read_text(path, defaults::FILE_LEN_MAX)?;
    let mut policy = parse(&text, &path.to_string_lossy()).map_err(ConfigError::Faults)?;
    policy.text = text;
    let warnings = &mut policy.warnings;
    let credentials =
        Credentials::load(&policy.identity.keys, policy.identity.token.as_ref(), warnings);
    let secrets = load_secrets(policy.session.as_mut(), warnings);
    match (credentials, secrets, Geo::load(&policy.identity.geo)) {
        (Ok(credentials), Ok(()), Ok(geo)) => {
            policy.credentials = Arc::new(credentials);
            policy.geo = Arc::new(geo);
        }
        (credentials, secrets, geo) => {
            let wrong = [credentials.err(), secrets.err(), geo.err()];
            let wrong = wrong.into_iter().flatten().flatten().collect();
            return Err(ConfigError::Faults(at_files(path, &policy.text, wrong)));
        }
    }
    if let Some(page) = &policy.refusal_page {
        policy.refusal.page_html = Some(read_text(page, defaults::PAGE_LEN_MAX)?);
    }
    Ok(policy)
}

/// The secrets that sign our own session cookie, if a file has them.
fn load_secrets(
    session: Option<&mut Session>,
    warnings: &mut Vec<String>,
) -> Result<(), Vec<(NamedFile, String)>> {
    if let Some(session) = session
        && let Some(file) = &session.secret_file
    {
        let secrets = Secrets::load(file, warnings);
        session.recognised = Recognised::Own(secrets.map_err(|fault| vec![(file.clone(), fault)])?);
    }
    Ok(())
}

/// Faults of files that the policy names, at the lines that name them.
fn at_files(path: &Path, text: &str, wrong: Vec<(NamedFile, String)>) -> Errors {
    let mut faults = Faults::new();
    for (file, message) in wrong {
        faults.add(&Place { key: file.key, span: file.at..file.at }, message);
    }
    faults.into_errors(&path.to_string_lossy(), &Lines::of(text))
}

fn read_text(path: &Path, len_max: u64) -> Result<String, ConfigError> {
    use std::io::Read as _;
    let fault = |cause| ConfigError::Read(path.to_owned(), cause);
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(fault)?;
    // One byte more than allowed tells a file that is too long from one that just fits.
    file.take(len_max + 1).read_to_string(&mut text).map_err(fault)?;
    match text.len() as u64 > len_max {
        true => Err(ConfigError::TooLarge(PathBuf::from(path), len_max)),
        false => Ok(text),
    }
}

impl Policy {
    /// The policy without a file: one class, an adaptive limit, every default.
    ///
    /// # Errors
    /// When `origin` is no server's address; the message says what is expected.
    pub fn for_origin(
        origin: &str,
        listen: Option<SocketAddr>,
        admin: Option<SocketAddr>,
    ) -> Result<Policy, String> {
        let wrong = |fault: Option<String>| match fault {
            Some(fault) => format!("{fault}, got {origin:?}"),
            None => format!("must be a server such as \"http://127.0.0.1:8080\", got {origin:?}"),
        };
        let server = values::server(origin).map_err(wrong)?;
        let plan = Plan { classes: vec![Class::named(defaults::CLASS_NAME)], ..Plan::protective() };
        Ok(Policy {
            listeners: vec![Listener::plain(listen.unwrap_or(defaults::LISTEN))],
            origin: Origin {
                servers: vec![server],
                health: None,
                failures_max: defaults::FAILURES_MAX,
                retry_after: defaults::RETRY_AFTER,
                retries: defaults::RETRIES,
                idle_connections_max: defaults::IDLE_CONNECTIONS_MAX,
            },
            plan,
            classifier: Classifier::of_default(ClassId(0)),
            rules: Vec::new(),
            score: None,
            session: None,
            shed: defaults::SHED,
            refusal: defaults::REFUSAL,
            refusal_page: None,
            text: String::new(),
            trusted: Vec::new(),
            forwarding: defaults::FORWARDING,
            buffering: defaults::BUFFERING,
            admin: Some(admin.unwrap_or(defaults::ADMIN)),
            access_log: None,
            limits: defaults::LIMITS,
            timeouts: defaults::TIMEOUTS,
            identity: Identity::default(),
            credentials: Arc::default(),
            geo: Arc::default(),
            warnings: Vec::new(),
            wanted: Wanted::default(),
            threads: defaults::threads(),
        })
    }
}

impl Listener {
    /// A listener with every default.
    pub fn plain(address: SocketAddr) -> Self {
        Listener { address, name: None, tls: None, proxy_protocol: ProxyProtocol::Off, http2: true }
    }
}
