//! Policies from texts and files.

use super::environment::{self, Outside};
use super::error::{ConfigError, Errors};
use super::meant::Measure;
use super::merge::{Step, document, place_of};
use super::place::{File, Place};
use super::policy::{Policy, Root};
use super::read_files::{Read, is_read};
use super::refusal::PAGE_LEN_MAX;
use super::section::{Kind, table};
use super::sides::policy;
use super::source::Sources;
use super::sources::{self, INCLUDE, report};
use super::text::{FILE_LEN_MAX, read_all, read_text};
use crate::admin::AdminTokens;
use crate::geo::Geo;
use crate::interface::capacity;
use crate::secrets::{BearerToken, Faults, NamedFile};
use crate::session::settings::Recognised;
use crate::session::token::Secrets;
use crate::tokens::Credentials;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiergate_core::names::Names;
use toml::de::DeValue;

/// The name of standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Reads a policy from its text. `file_name` is used in messages, and its directory is where relative
/// file names begin. Nothing is opened: certificates are checked where TLS is set up, and
/// [`Refusal::page_html`](super::Refusal::page_html) stays empty.
///
/// The names of its classes, sites, policers and rules are interned in names of its own.
///
/// # Errors
/// Every fault of the text. Never panics, whatever the text.
pub fn parse(text: &str, file_name: &str) -> Result<Policy, Errors> {
    parse_with(text, file_name, &mut Names::default())
}

/// The same as [`parse`], of a process that knows `names`. After an error there may be more of them, unless
/// within [`Names::attempt`].
///
/// # Errors
/// As [`parse`].
pub fn parse_with(text: &str, file_name: &str, names: &mut Names) -> Result<Policy, Errors> {
    let environment = |name: &str| std::env::var(name).ok();
    parse_from(text, file_name, names, Outside { environment: &environment, disk: false })
}

/// The same, with what is outside given.
pub(super) fn parse_from(
    text: &str,
    file_name: &str,
    names: &mut Names,
    outside: Outside<'_>,
) -> Result<Policy, Errors> {
    let sources = match outside.disk {
        true => sources::read(file_name, text, outside.environment),
        false => Sources::of(file_name, text),
    };
    let file = File::of(&sources);
    let document = document(&sources, &file);
    report(&sources, &file);
    if !file.is_sound() {
        return Err(file.errors(file_name));
    }
    let mut root = DeValue::Table(document);
    let place = Place::of(&file, String::new(), 0).of_value(&root);
    environment::expand(&mut root, &place, outside);
    if !file.is_sound() {
        return Err(file.errors(file_name));
    }
    let raw = table::<Root>().read(&root, &place);
    drop(root);
    if raw.as_ref().is_some_and(|raw| !outside.disk && !raw.include.is_empty()) {
        place.fault_at(INCLUDE, "can only be read where the policy is a file");
    }
    let policy = raw.and_then(|raw| policy(raw, &place, file_name, names));
    let policy = policy.filter(|_| file.is_sound()).ok_or_else(|| file.errors(file_name));
    let mut policy = policy?;
    (policy.warnings, policy.redaction) = {
        let (mut warnings, redaction) = file.remarks();
        warnings.append(&mut policy.warnings);
        (warnings, redaction)
    };
    if outside.disk {
        policy.sources = Arc::new(sources);
    }
    if let Some(whole) = &mut policy.observed {
        whole.redaction = policy.redaction.clone();
        whole.sources = policy.sources.clone();
    }
    Ok(policy)
}

/// Reads a policy file, or by `-` standard input, the files that it includes, and the page, the secrets and the databases that it names; what the interface carries that it names; sees to it
/// that files can be made in the directory that it names for spooled bodies.
///
/// # Errors
/// When a file cannot be read or is too large, or the policy has faults.
pub fn load(path: &Path) -> Result<Policy, ConfigError> {
    load_with(path, &mut Names::default())
}

/// The same as [`load`], as [`parse_with`] is of [`parse`].
///
/// # Errors
/// As [`load`].
pub fn load_with(path: &Path, names: &mut Names) -> Result<Policy, ConfigError> {
    let text = match path == Path::new(STANDARD_INPUT) {
        true => read_all(std::io::stdin().lock(), path, FILE_LEN_MAX)?,
        false => read_text(path, FILE_LEN_MAX)?,
    };
    let file_name = path.to_string_lossy();
    let environment = |name: &str| std::env::var(name).ok();
    let outside = Outside { environment: &environment, disk: true };
    let mut policy = parse_from(&text, &file_name, names, outside).map_err(ConfigError::Faults)?;
    let (identity, warnings) = (&policy.identity, &mut policy.warnings);
    let (keys, token, mut faults) = (&identity.keys, identity.token.as_ref(), Faults::new());
    policy.credentials = Arc::new(Credentials::load(keys, token, warnings, &mut faults));
    policy.geo = Arc::new(Geo::load(&identity.geo, &mut faults));
    // The secrets that sign our own session cookie, if a file has them.
    if let Some(session) = &mut policy.session
        && let Some(file) = &session.secret_file
        && let Some(secrets) = file.check(Secrets::load(file, warnings), &mut faults)
    {
        session.recognised = Recognised::Own(secrets);
    }
    if let Some(file) = &policy.admin_token_file {
        let tokens = file.check(AdminTokens::load(file, warnings), &mut faults);
        policy.admin_tokens = tokens.unwrap_or_default();
    }
    for sensor in &mut policy.sensors {
        if let Measure::Agent(agent) = &mut sensor.measure
            && let Some(file) = &agent.token_file
        {
            agent.token = file.check(BearerToken::load(file, warnings), &mut faults);
        }
    }
    if let Some(interface) = &mut policy.link.interface {
        let read = capacity::read(&interface.name).map_err(|fault| fault.to_string());
        interface.capacity = interface.named.check(read, &mut faults);
    }
    if let Some(whole) = &mut policy.observed {
        whole.link = policy.link.clone();
    }
    // Several sensors may have one file.
    warnings.dedup();
    if let Some(spooling) = &policy.spooling {
        spooling.directory.check(spooling.check(), &mut faults);
    }
    // Many rules may have one page.
    let mut pages: HashMap<PathBuf, Arc<str>> = HashMap::new();
    for denial in policy.rules.iter_mut().filter_map(|rule| rule.denial.as_deref_mut()) {
        let Some(file) = &denial.page else { continue };
        if !pages.contains_key(&file.path) {
            let read = read_text(&file.path, PAGE_LEN_MAX).map_err(|fault| fault.to_string());
            let Some(page) = file.check(read, &mut faults) else { continue };
            pages.insert(file.path.clone(), page.into());
        }
        denial.page_html = pages.get(&file.path).cloned();
    }
    if !faults.is_empty() {
        return Err(ConfigError::Faults(at_files(path, &policy, faults)));
    }
    let wrong = |steps: [Step; 2], message: String| {
        let faults = vec![place_of(&policy.sources, &steps).fault(message)];
        ConfigError::Faults(Errors { file: file_name.clone().into_owned(), faults, more: 0 })
    };
    let log = policy.access_log.as_ref().and_then(|it| it.path.as_ref());
    if let Some((log, read)) = log.and_then(|log| Some((log, is_read(log, &policy)?))) {
        let what = match read {
            Read::Source => "is the policy",
            Read::Named => "is a file that the policy reads",
        };
        let message = format!("{} {what}; name another file", log.display());
        return Err(wrong([Step::Key("access_log"), Step::Key("path")], message));
    }
    if let Some(page) = &policy.refusal_page {
        let steps = [Step::Key("refusal"), Step::Key("page_html")];
        let read = read_text(page, PAGE_LEN_MAX);
        policy.refusal.page_html = Some(read.map_err(|fault| wrong(steps, fault.to_string()))?);
    }
    Ok(policy)
}

/// The policy's file and those that it includes, as they are now, right or wrong.
///
/// # Errors
/// When the first cannot be read.
pub(crate) fn sources(path: &Path) -> Result<Sources, ConfigError> {
    let text = read_text(path, FILE_LEN_MAX)?;
    Ok(sources::read(&path.to_string_lossy(), &text, &|name| std::env::var(name).ok()))
}

/// Faults of files that the policy names, at the lines that name them.
fn at_files(path: &Path, policy: &Policy, wrong: Faults) -> Errors {
    let name = path.to_string_lossy();
    let file = File::of(&policy.sources);
    for (NamedFile { key, at, .. }, message) in wrong {
        Place::of(&file, key, at).fault(policy.redaction.redacted(&message));
    }
    file.errors(&name)
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
        let admin = admin.map_or(String::new(), |it| format!("admin = \"{it}\"\n"));
        let listen = listen.map_or(String::new(), |it| format!("[[listener]]\naddress = \"{it}\""));
        let origin = serde_json::Value::from(origin);
        let text = format!("{admin}origin.servers = [{origin}]\n{listen}");
        parse(&text, "").map_err(|errors| errors.faults[0].message.clone())
    }
}
