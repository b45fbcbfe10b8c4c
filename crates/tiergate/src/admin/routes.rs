//! What is answered to which path.

use super::context::{Context, unready};
use super::incident::{Incident, Sources};
use super::live::Watchers;
use super::status::Status;
use super::trail::ConfigTrail;
use super::{guard, mask, page, settings};
use crate::observe::history::History;
use crate::observe::hour::Hour;
use crate::observe::metrics::{Format, Readings, process};
use crate::observe::refusals;
use crate::side_http::{Answer, HTML, HangUp, JSON, plain, respond};
use http::header::{ACCEPT, ALLOW, CONTENT_SECURITY_POLICY, REFERRER_POLICY, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;

/// Bytes of a request's body that needs none; a form's empty body is let pass.
const BODY_LEN_MAX: u64 = 1024;
/// Longest time that a body is waited for.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that a reload is waited for; it goes on by itself.
const RELOAD_PATIENCE: Duration = Duration::from_secs(60);

const TOML: &str = "application/toml; charset=utf-8";

/// The admin's own state.
pub(super) struct Admin {
    context: Arc<Context>,
    past: Mutex<Past>,
    watchers: Watchers,
    /// One reload at a time.
    reloading: Arc<Semaphore>,
    /// Whether only this machine can connect.
    local: bool,
}

/// What was sampled so far.
#[derive(Debug, Default)]
struct Past {
    history: History,
    hour: Hour,
    trail: ConfigTrail,
    /// Reloads that had worked when the configuration was looked at last; `None`: it was not yet.
    reloads: Option<u64>,
}

impl Admin {
    pub(super) fn new(context: Arc<Context>, local: bool) -> Self {
        Admin {
            context,
            past: Mutex::default(),
            watchers: Watchers::default(),
            reloading: Arc::new(Semaphore::new(1)),
            local,
        }
    }

    /// Takes the second's sample.
    pub(super) fn sample(&self) {
        let context = &self.context;
        let (snapshot, servers, now) =
            ((context.snapshot)(), (context.origin)(), SystemTime::now());
        let sent_bytes = context.counters.sum(|it| &it.sent_bytes);
        let mut past = self.past();
        past.history.sample(&snapshot, process::cpu(), sent_bytes);
        past.hour.sample(now, &snapshot, &servers, &context.refusals);
        // Its text is copied only when it is another one.
        let reloads = context.counters.reloads_ok.total();
        if past.reloads.replace(reloads) != Some(reloads) {
            let config = (context.config)();
            if past.trail.follow(&config) {
                let what = format!("configuration {} in force", config.generation);
                past.hour.events.push(now, what, false);
            }
        }
    }

    /// Sends those who watch what has changed.
    pub(super) fn refresh(&self) {
        if !self.watchers.is_empty() {
            let (status, incident) = self.whole();
            self.watchers.send(page::parts(&status, &incident));
        }
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Status {
        Status::read(&self.context, &self.past().history)
    }

    fn incident(&self) -> Incident {
        self.sources(|sources| sources.incident())
    }

    fn sources<R>(&self, read: impl FnOnce(&Sources<'_>) -> R) -> R {
        let past = self.past();
        let Past { history, hour, trail, .. } = &*past;
        read(&Sources { context: &self.context, history, hour, trail })
    }

    fn whole(&self) -> (Status, Incident) {
        (self.status(), self.incident())
    }
}

/// Answers one request.
pub(super) async fn answer(admin: &Admin, request: Request<Incoming>) -> Answer {
    let names = (admin.context.names)();
    if (admin.local || !names.is_empty()) && !guard::host_is_ours(&request, &names) {
        let text =
            "this listener answers to addresses, localhost and the names in admin_names only\n";
        return plain(StatusCode::MISDIRECTED_REQUEST, text);
    }
    if request.uri().path() == "/settings" {
        match *request.method() {
            Method::PATCH => return change(admin, request).await,
            Method::DELETE => return undo(admin, request.headers()),
            Method::GET | Method::HEAD => {}
            _ => return not_allowed("GET, HEAD, PATCH, DELETE"),
        }
    }
    if request.body().size_hint().lower() > BODY_LEN_MAX {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "no request here needs a body\n");
    }
    match (request.uri().path(), request.method()) {
        ("/reload", &Method::POST) => match may_not_reload(admin, &request) {
            Some(answer) => answer,
            None => reload(admin).await,
        },
        ("/reload", _) => not_allowed("POST"),
        (path, &Method::GET | &Method::HEAD) => show(admin, path, &request),
        (path, _) if page::ENDPOINTS.iter().any(|(known, _)| *known == path) => {
            not_allowed("GET, HEAD")
        }
        _ => not_found(),
    }
}

fn show<B>(admin: &Admin, path: &str, request: &Request<B>) -> Answer {
    let context = &admin.context;
    match path {
        "/" => {
            let (status, incident) = admin.whole();
            html(page::page(&status, &incident))
        }
        "/incident" => json(&admin.incident()),
        // It would hold a place of those who watch, of which there are few.
        "/live" if guard::is_of_another_page(request.headers()) => {
            plain(StatusCode::FORBIDDEN, "a page from elsewhere may not watch\n")
        }
        "/live" if request.method() == Method::GET => {
            let hang_up = request.extensions().get::<HangUp>().cloned().unwrap_or_default();
            let (status, incident) = admin.whole();
            admin.watchers.watch(hang_up, page::parts(&status, &incident))
        }
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        "/readyz" => match unready((context.phase)(), &(context.origin)()) {
            None => plain(StatusCode::OK, "ready\n"),
            Some(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        },
        "/metrics" => {
            let accept = request.headers().get(ACCEPT);
            let accept = accept.and_then(|accept| accept.to_str().ok()).unwrap_or_default();
            let format = Format::accepted(accept);
            let snapshot = (context.snapshot)();
            let buffers = admin.sources(|sources| sources.buffers(&snapshot));
            let readings = Readings {
                snapshot,
                buffers,
                in_force: (context.in_force)(),
                sessions: (context.sessions)(),
                sensors: (context.sensors)(),
                servers: (context.origin)(),
                workers: (context.workers)(),
                counters: &context.counters,
                refusals: &context.refusals,
                version: context.version,
            };
            respond(StatusCode::OK, format.content_type(), readings.encode(format))
        }
        "/status" => json(&admin.status()),
        "/config" => config(context),
        "/settings" => json(&admin.status().adjustments),
        "/refusals" => json(&serde_json::json!({
            "recent": context.refusals.recent(limit(request.uri().query())),
            "skipped": context.refusals.skipped(),
        })),
        _ => not_found(),
    }
}

fn config(context: &Context) -> Answer {
    let config = (context.config)();
    let path = match &config.path {
        Some(path) => path.display().to_string(),
        None => "no file: made from the command line".to_owned(),
    };
    let generation = config.generation;
    let text = format!(
        "# In force: {path} (generation {generation}); secrets are masked.\n{}",
        config.sources.joined(mask::masked)
    );
    respond(StatusCode::OK, TOML, text)
}

/// Why a request may not change settings; `None`: it may.
fn forbidden(admin: &Admin, headers: &HeaderMap) -> Option<Answer> {
    if !guard::is_meant(headers) {
        let text = format!("a web page may not change settings: send `{}: 1`\n", guard::INTENT);
        return Some(plain(StatusCode::FORBIDDEN, text));
    }
    let tokens = (admin.context.tokens)();
    if tokens.is_empty() {
        let text = "settings cannot be changed here: the policy has no admin_token_file\n";
        return Some(plain(StatusCode::FORBIDDEN, text));
    }
    if tokens.allow_bearer(headers) { None } else { Some(unauthorised()) }
}

/// Why a request may not reload; `None`: it may. Where others than this machine can connect, it needs a token if the policy has any, and else an
/// address or a name of the policy's as `Host`: a page whose name is made to resolve to this listener is of its origin, and could send whatever it likes.
fn may_not_reload<B>(admin: &Admin, request: &Request<B>) -> Option<Answer> {
    let headers = request.headers();
    if !guard::is_meant(headers) {
        let text = format!("a web page may not reload: send `{}: 1`\n", guard::INTENT);
        return Some(plain(StatusCode::FORBIDDEN, text));
    }
    let tokens = (admin.context.tokens)();
    if admin.local || tokens.allow_bearer(headers) {
        return None;
    }
    if !tokens.is_empty() {
        return Some(unauthorised());
    }
    let text = "name this listener by its address or as in admin_names, or send a token of admin_token_file\n";
    (!guard::host_is_ours(request, &(admin.context.names)()))
        .then(|| plain(StatusCode::MISDIRECTED_REQUEST, text))
}

fn unauthorised() -> Answer {
    let text = "send one of the tokens of admin_token_file: `Authorization: Bearer …`\n";
    let mut answer = plain(StatusCode::UNAUTHORIZED, text);
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

async fn change(admin: &Admin, request: Request<Incoming>) -> Answer {
    if let Some(answer) = forbidden(admin, request.headers()) {
        return answer;
    }
    let body = Limited::new(request.into_body(), settings::BODY_LEN_MAX).collect();
    let body = match tokio::time::timeout(BODY_PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => {
            let text =
                format!("the body must be whole, and {} bytes at most\n", settings::BODY_LEN_MAX);
            return plain(StatusCode::PAYLOAD_TOO_LARGE, text);
        }
        Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the body did not come in time\n"),
    };
    let wanted = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(fault) => {
            return plain(StatusCode::BAD_REQUEST, format!("the body is no JSON: {fault}\n"));
        }
    };
    match (admin.context.change)(&wanted) {
        Ok(count) => {
            tracing::info!("{count} settings changed on the admin listener: {wanted}");
            json(&admin.status().adjustments)
        }
        Err(fault) => plain(StatusCode::UNPROCESSABLE_ENTITY, line(fault)),
    }
}

fn undo(admin: &Admin, headers: &HeaderMap) -> Answer {
    if let Some(answer) = forbidden(admin, headers) {
        return answer;
    }
    let count = (admin.context.undo)();
    tracing::info!("{count} changes of settings undone on the admin listener");
    plain(StatusCode::OK, format!("{count} undone\n"))
}

async fn reload(admin: &Admin) -> Answer {
    let Ok(turn) = Arc::clone(&admin.reloading).try_acquire_owned() else {
        return plain(StatusCode::CONFLICT, "a reload is under way\n");
    };
    let reload = (admin.context.reload)();
    // A task of its own: a client that leaves must not stop a reload half way.
    let task = tokio::spawn(async move {
        let result = reload.await;
        drop(turn);
        result
    });
    match tokio::time::timeout(RELOAD_PATIENCE, task).await {
        Ok(Ok(Ok(text))) => plain(StatusCode::OK, line(text)),
        Ok(Ok(Err(fault))) => plain(StatusCode::UNPROCESSABLE_ENTITY, line(fault)),
        Ok(Err(_)) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the reload failed unexpectedly\n"),
        Err(_) => plain(StatusCode::GATEWAY_TIMEOUT, "the reload is still under way\n"),
    }
}

fn line(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// `limit=N` of a query; all if there is none that can be read.
fn limit(query: Option<&str>) -> usize {
    let mut pairs = query.unwrap_or_default().split('&');
    let limit = pairs.find_map(|pair| pair.strip_prefix("limit="));
    limit.and_then(|limit| limit.parse().ok()).unwrap_or(refusals::CAPACITY)
}

fn not_found() -> Answer {
    plain(StatusCode::NOT_FOUND, "nothing here; see /\n")
}

fn not_allowed(allowed: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, format!("allowed: {allowed}\n"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn json(value: &impl serde::Serialize) -> Answer {
    let text = serde_json::to_vec_pretty(value).expect("plain data with text keys");
    respond(StatusCode::OK, JSON, text)
}

fn html(text: String) -> Answer {
    let mut answer = respond(StatusCode::OK, HTML, text);
    let policy = HeaderValue::from_str(&page::CONTENT_SECURITY_POLICY).expect("plain text");
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    answer.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}
