//! What a line of a proxy does to requests. Known lines have no effect on who is served, or one that is taken over; of all others the
//! policy says that it may be less safe.

use super::grammar::Line;

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It decides nothing about who is served, or is read elsewhere.
    Nothing,
    /// It serves otherwise, and as many; with what there is instead.
    Otherwise(&'static str),
    /// Who is served may depend on it; with what to do.
    Opens(&'static str),
    Refuses,
    Redirects,
    /// Requests are exempt from the refusals behind it, of the same ruleset.
    Exempts,
    /// It chooses the backend.
    Routes,
    Tracks,
    Ranks,
}

const UNKNOWN: &str =
    "is not known here: see whether it keeps clients out, and write a [[rule]] with refuse if so";
const CHANGES: &str = "requests are not changed, neither for the origin nor for the conditions of the lines behind it: let the origin do it, and see that it gets nothing from clients that this line replaces";

/// What a line of a frontend, backend or `listen` does.
pub(super) fn effect(line: &Line) -> Effect {
    use Effect::*;
    match line.word(0) {
        "acl"
        | "bind"
        | "server"
        | "server-template"
        | "default-server"
        | "default_backend"
        | "timeout"
        | "maxconn"
        | "stick-table"
        | "disabled"
        | "enabled"
        | "log"
        | "log-format"
        | "log-format-sd"
        | "log-tag"
        | "error-log-format"
        | "unique-id-format"
        | "unique-id-header"
        | "capture"
        | "declare"
        | "description"
        | "id"
        | "email-alert"
        | "backlog"
        | "retries"
        | "retry-on"
        | "clitcpka-cnt"
        | "clitcpka-idle"
        | "clitcpka-intvl"
        | "srvtcpka-cnt"
        | "srvtcpka-idle"
        | "srvtcpka-intvl"
        | "hash-type"
        | "http-check"
        | "tcp-check"
        | "external-check"
        | "http-send-name-header"
        | "load-server-state-from-file"
        | "server-state-file-name"
        | "max-keep-alive-queue"
        | "source"
        | "no" => Nothing,
        "mode" if line.word(1) == "http" => Nothing,
        "mode" => Otherwise("all is HTTP here, and nothing else is passed on"),
        "option" => option(line.word(1)),
        "use_backend" => Routes,
        "redirect" => Redirects,
        "block" => Refuses,
        "http-request" => http_request(line.word(1)),
        "tcp-request" => tcp_request(line),
        "http-response" | "http-after-response" => http_response(line.word(1)),
        "stats" | "monitor-uri" | "monitor" => Opens(
            "HAProxy answers it itself, and here the origin gets it: refuse its path, and see [admin] for status and metrics",
        ),
        "compression" => Otherwise("nothing is compressed here: let the origin do it"),
        "errorfile" | "errorfiles" | "errorloc" | "errorloc302" | "errorloc303" | "http-error" => {
            Otherwise("refusals have a page: refusal.page, and page in a rule's refuse")
        }
        "balance" if line.word(1) == "leastconn" => Nothing,
        "balance" => Otherwise(
            "a request goes to the server with the fewest in progress: leave it out, or bind flows to pools by weight",
        ),
        "cookie" | "stick" | "persist" | "force-persist" | "ignore-persist" => Otherwise(
            "no stickiness to servers: each request goes to the server with the fewest in progress; keep sessions where all servers find them",
        ),
        "http-reuse" | "fullconn" => Otherwise(
            "requests go to the server with the fewest in progress, over kept connections: leave it out",
        ),
        _ => Opens(UNKNOWN),
    }
}

fn option(name: &str) -> Effect {
    match name {
        "httplog"
        | "httpslog"
        | "tcplog"
        | "dontlognull"
        | "dontlog-normal"
        | "logasap"
        | "log-health-checks"
        | "log-separate-errors"
        | "contstats"
        | "socket-stats"
        | "forwardfor"
        | "originalto"
        | "http-server-close"
        | "http-keep-alive"
        | "httpclose"
        | "forceclose"
        | "http-pretend-keepalive"
        | "http-no-delay"
        | "http-ignore-probes"
        | "http-buffer-request"
        | "http-use-htx"
        | "redispatch"
        | "abortonclose"
        | "allbackups"
        | "persist"
        | "prefer-last-server"
        | "independent-streams"
        | "nolinger"
        | "splice-auto"
        | "splice-request"
        | "splice-response"
        | "srvtcpka"
        | "clitcpka"
        | "tcpka"
        | "tcp-smart-accept"
        | "tcp-smart-connect"
        | "idle-close-on-response"
        | "accept-invalid-http-request"
        | "accept-invalid-http-response"
        | "disable-h2-upgrade"
        | "h1-case-adjust-bogus-client"
        | "h1-case-adjust-bogus-server"
        | "httpchk"
        | "tcp-check"
        | "ssl-hello-chk"
        | "external-check"
        | "mysql-check"
        | "pgsql-check"
        | "redis-check"
        | "smtpchk"
        | "ldap-check"
        | "spop-check" => Effect::Nothing,
        _ => Effect::Opens(UNKNOWN),
    }
}

/// An action's name, without its arguments.
fn bare(action: &str) -> &str {
    action.split('(').next().unwrap_or_default()
}

/// What an action does that has no effect on who is served: logs, marks, counters, and variables, which no rule asks.
fn is_harmless(action: &str) -> bool {
    matches!(
        bare(action),
        "set-log-level"
            | "set-nice"
            | "set-tos"
            | "set-mark"
            | "set-fc-tos"
            | "set-fc-mark"
            | "set-bc-tos"
            | "set-bc-mark"
            | "capture"
            | "disable-l7-retry"
            | "do-resolve"
            | "early-hint"
            | "sc-add-gpc"
            | "sc-inc-gpc"
            | "sc-inc-gpc0"
            | "sc-inc-gpc1"
            | "sc-set-gpt"
            | "sc-set-gpt0"
            | "set-var"
            | "set-var-fmt"
            | "unset-var"
            | "set-timeout"
            | "set-src-port"
            | "strict-mode"
            | "wait-for-body"
            | "wait-for-handshake"
            | "add-acl"
            | "del-acl"
            | "set-map"
            | "del-map"
    )
}

fn http_request(action: &str) -> Effect {
    match bare(action) {
        "deny" | "tarpit" | "return" | "reject" | "silent-drop" | "auth" => Effect::Refuses,
        "redirect" => Effect::Redirects,
        "allow" => Effect::Exempts,
        "track-sc0" | "track-sc1" | "track-sc2" | "track-sc" => Effect::Tracks,
        "set-priority-class" => Effect::Ranks,
        "set-priority-offset" => Effect::Otherwise(
            "write deadline in the rule: what has waited longest within a class is served first",
        ),
        "cache-use" => Effect::Otherwise("no cache: stored = { max_age = … } in a rule"),
        "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value"
        | "set-path" | "set-pathq" | "set-query" | "set-uri" | "set-method" | "set-src"
        | "set-dst" | "set-dst-port" | "replace-path" | "replace-pathq" | "replace-uri"
        | "normalize-uri" => Effect::Opens(CHANGES),
        it if is_harmless(it) => Effect::Nothing,
        _ => Effect::Opens(UNKNOWN),
    }
}

fn tcp_request(line: &Line) -> Effect {
    match (line.word(1), bare(line.word(2))) {
        ("inspect-delay", _) => Effect::Nothing,
        ("connection" | "session" | "content", "accept") => Effect::Exempts,
        ("connection" | "session" | "content", "reject" | "silent-drop") => Effect::Refuses,
        (_, "track-sc0" | "track-sc1" | "track-sc2" | "track-sc") => Effect::Tracks,
        (_, "set-priority-class" | "set-priority-offset") => {
            Effect::Otherwise("write class or deadline in a rule")
        }
        (_, "set-src" | "set-dst" | "set-dst-port") => Effect::Opens(CHANGES),
        (_, it) if is_harmless(it) => Effect::Nothing,
        // What is not known may refuse.
        _ if line.words.iter().any(|it| it == "reject") => Effect::Refuses,
        _ => Effect::Opens(UNKNOWN),
    }
}

fn http_response(action: &str) -> Effect {
    match bare(action) {
        "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value"
        | "set-status" | "cache-store" | "allow" => {
            Effect::Otherwise("answers are passed on as they are: set headers in the origin")
        }
        it if is_harmless(it) => Effect::Nothing,
        _ => Effect::Opens("answers are not refused here: let the origin do it"),
    }
}

/// Lines of `global` that have no effect on who is served.
pub(super) fn is_harmless_globally(line: &Line) -> bool {
    let word = line.word(0);
    matches!(
        word,
        "daemon"
            | "user"
            | "group"
            | "uid"
            | "gid"
            | "chroot"
            | "pidfile"
            | "nbthread"
            | "nbproc"
            | "thread-groups"
            | "thread-group"
            | "log"
            | "log-send-hostname"
            | "log-tag"
            | "stats"
            | "maxconn"
            | "master-worker"
            | "mworker-max-reloads"
            | "cpu-map"
            | "ulimit-n"
            | "ca-base"
            | "crt-base"
            | "description"
            | "node"
            | "localpeer"
            | "setenv"
            | "presetenv"
            | "unsetenv"
            | "resetenv"
            | "hard-stop-after"
            | "grace"
            | "close-spread-time"
            | "spread-checks"
            | "max-spread-checks"
            | "quiet"
            | "zero-warning"
            | "debug"
            | "noepoll"
            | "nopoll"
            | "nosplice"
            | "noreuseport"
            | "nogetaddrinfo"
            | "set-dumpable"
            | "unix-bind"
            | "server-state-base"
            | "server-state-file"
            | "external-check"
            | "insecure-fork-wanted"
            | "insecure-setuid-wanted"
            | "ssl-server-verify"
            | "ssl-default-server-options"
            | "ssl-default-server-ciphers"
            | "ssl-default-server-ciphersuites"
            | "ssl-dh-param-file"
            | "busy-polling"
            | "numa-cpu-mapping"
            | "expose-experimental-directives"
            | "strict-limits"
            | "h1-case-adjust"
            | "h1-case-adjust-file"
    ) || word.starts_with("tune.")
}
