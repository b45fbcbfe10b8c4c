//! What of nginx has no place in a policy: what is known to have no part in who is served is noted, all else makes the policy less safe.

use super::super::draft::Draft;
use super::grammar::Directive;
use super::inherited::GUARDS;
use super::listen::tls_notes;
use super::named::goes_on;

/// What is taken over, or listed where it is.
const TAKEN: [&str; 24] = [
    "map",
    "upstream",
    "server",
    "location",
    "listen",
    "server_name",
    "limit_req_zone",
    "limit_conn_zone",
    "limit_req",
    "limit_conn",
    "limit_req_status",
    "limit_conn_status",
    "limit_req_dry_run",
    "allow",
    "deny",
    "satisfy",
    "internal",
    "limit_except",
    "return",
    "if",
    "rewrite",
    "proxy_pass",
    "client_max_body_size",
    "ssl",
];

/// What needs no counterpart.
const UNIMPORTANT: [&str; 30] = [
    "sendfile",
    "tcp_nopush",
    "tcp_nodelay",
    "types_hash_max_size",
    "types_hash_bucket_size",
    "default_type",
    "types",
    "server_tokens",
    "server_names_hash_bucket_size",
    "server_names_hash_max_size",
    "access_log",
    "error_log",
    "log_format",
    "log_not_found",
    "log_subrequest",
    "client_body_temp_path",
    "proxy_temp_path",
    "fastcgi_temp_path",
    "uwsgi_temp_path",
    "scgi_temp_path",
    "variables_hash_max_size",
    "variables_hash_bucket_size",
    "map_hash_max_size",
    "map_hash_bucket_size",
    "root",
    "index",
    "http2",
    "http3",
    "proxy_headers_hash_max_size",
    "proxy_headers_hash_bucket_size",
];

/// Lists what is not taken over.
pub(super) fn left_out(it: &Directive, draft: &mut Draft) {
    let name = it.name.as_str();
    match harmless(it) {
        _ if is_settled(name) => {}
        _ if name.starts_with("ssl_") => tls_notes(it, draft),
        Some(why) => draft.note(&it.from, why),
        None if name == "try_files" && goes_on_at_path(it) => {
            draft.less_safe(&it.from, "no file is looked for, and no path is rewritten: the server gets every path as the client wrote it, and nginx asks it for this one alone; refuse by [[rule]]s what it must not get");
        }
        None => draft.less_safe(&it.from, why(name)),
    }
}

/// Lists what of a location is not taken over, also for the locations within, which inherit it; `is_internal`: all of them are closed to clients.
pub(super) fn left_out_of_location(it: &Directive, is_internal: bool, draft: &mut Draft) {
    let is_proxied = it.block.iter().any(|it| it.name == "proxy_pass");
    let is_served = !is_internal && serves(&it.block);
    for line in &it.block {
        match line.name.as_str() {
            // Listed where the requests go on.
            _ if goes_on(line).is_some() => {}
            // Listed as what refuses these requests.
            name if !is_proxied && handler(name).is_some() => {}
            "try_files" if !is_proxied => draft.note(&line.from, no_file(line)),
            _ if is_served => left_out(line, draft),
            name if !is_settled(name) && harmless(line).is_none() => {
                draft.note(&line.from, "everything is refused here: before you let it pass see whether this keeps clients out");
            }
            _ => {}
        }
    }
}

/// What is said of a `try_files` that goes on at no named location, where nothing is proxied.
pub(super) fn no_file(line: &Directive) -> &'static str {
    match goes_on_at_path(line) {
        true => {
            "no file is looked for, and no path is rewritten: what nginx has the server of another path answer is refused; let that server take each path (its own try_files or rewrite), and write a [[rule]] for these with its pool"
        }
        false => why("root"),
    }
}

/// Whether a `try_files` goes on as another path if it finds no file.
fn goes_on_at_path(line: &Directive) -> bool {
    line.arguments.last().is_some_and(|it| it.starts_with('/'))
}

/// Whether requests get to a server from here, or from somewhere within.
fn serves(list: &[Directive]) -> bool {
    list.iter().any(|it| it.name == "proxy_pass" || goes_on(it).is_some() || serves(&it.block))
}

/// What to do about a directive that has requests answered by something else than a server that speaks HTTP; `None` if it does not.
pub(super) fn handler(name: &str) -> Option<&'static str> {
    Some(match name {
        "proxy_pass" => return None,
        "stub_status" => "figures of nginx: Tiergate's are at /metrics of the admin listener",
        "perl"
        | "js_content"
        | "content_by_lua"
        | "content_by_lua_file"
        | "content_by_lua_block" => {
            "a program within nginx answers here: keep nginx behind it, or let a server answer"
        }
        _ if name.ends_with("_pass") => SPEAKS_HTTP,
        _ => return None,
    })
}

const SPEAKS_HTTP: &str =
    "Tiergate speaks HTTP to servers: keep nginx behind it, or let the application speak HTTP";

/// Whether it is taken over, or needs no counterpart.
fn is_settled(name: &str) -> bool {
    TAKEN.contains(&name) || UNIMPORTANT.contains(&name) || GUARDS.contains(&name)
}

/// What to do about a directive that has no part in who is served; `None` if it may have one.
fn harmless(it: &Directive) -> Option<&'static str> {
    let name = it.name.as_str();
    let is = |beginnings: &[&str]| beginnings.iter().any(|it| name.starts_with(it));
    Some(match name {
        "proxy_set_header" => {
            let field = it.argument(0).to_ascii_lowercase();
            let own = ["host", "connection", "upgrade", "te", "accept-encoding", "x-real-ip"];
            if !own.contains(&field.as_str()) && !field.starts_with("x-forwarded-") {
                return None;
            }
            "the origin gets Host and X-Forwarded-For, -Proto, -Host as they are: see [forwarding]; set other headers in the origin"
        }
        "error_page" => {
            let refusal = |it: &String| {
                matches!(it.as_str(), "401" | "402" | "403" | "407")
                    || it.len() == 3 && it.starts_with('3')
            };
            // With a page of its own the status stays.
            let is_page = it.arguments.iter().all(|it| !it.starts_with(['=', '@']))
                && it.arguments.last().is_some_and(|it| it.starts_with('/'));
            if it.arguments.iter().any(refusal) && !is_page {
                return None;
            }
            "refusals have a page: refusal.page; errors of the origin are passed on"
        }
        "proxy_intercept_errors" | "recursive_error_pages" => {
            "refusals have a page: refusal.page; errors of the origin are passed on"
        }
        "add_header"
        | "add_trailer"
        | "expires"
        | "more_set_headers"
        | "etag"
        | "if_modified_since"
        | "proxy_hide_header"
        | "proxy_pass_header"
        | "proxy_ignore_headers"
        | "proxy_redirect"
        | "server_name_in_redirect"
        | "port_in_redirect"
        | "absolute_redirect"
        | "chunked_transfer_encoding" => {
            "answers are passed on as they are: set headers in the origin"
        }
        "alias" | "autoindex" => {
            "Tiergate serves no files: keep nginx behind it for these, as [origin] or a [[pool]]"
        }
        "auth_basic_user_file" | "auth_request_set" => {
            "clients are recognised by [[key]] and [token]; passwords are for the origin"
        }
        "set" | "break" | "rewrite_log" | "uninitialized_variable_warn" => {
            "rules have conditions, and paths are not rewritten: write a [[rule]], or do it in the origin"
        }
        "geo" | "split_clients" => "write client = […] in rules, or pools by weight",
        "proxy_http_version" | "proxy_socket_keepalive" | "proxy_bind" => {
            "servers are spoken to by HTTP/1.1 with kept connections: leave it out"
        }
        "proxy_read_timeout"
        | "proxy_send_timeout"
        | "proxy_connect_timeout"
        | "keepalive_timeout"
        | "client_body_timeout"
        | "client_header_timeout"
        | "send_timeout" => "[timeouts] holds for all requests: write the longest there",
        "keepalive_requests"
        | "keepalive_time"
        | "keepalive_disable"
        | "resolver"
        | "resolver_timeout"
        | "max_ranges"
        | "reset_timedout_connection"
        | "output_buffers"
        | "postpone_output"
        | "send_lowat"
        | "read_ahead"
        | "directio"
        | "limit_rate"
        | "limit_rate_after"
        | "connection_pool_size"
        | "request_pool_size"
        | "client_header_buffer_size"
        | "large_client_header_buffers"
        | "limit_req_log_level"
        | "limit_conn_log_level"
        | "limit_conn_dry_run"
        | "msie_padding"
        | "msie_refresh" => "[limits] and [timeouts] have bounds of their own: leave it out",
        "proxy_request_buffering"
        | "client_body_buffer_size"
        | "proxy_max_temp_file_size"
        | "client_body_in_file_only"
        | "client_body_in_single_buffer" => {
            "bodies are buffered for slow clients: see [forwarding] and limits.buffers_max"
        }
        _ if is(&["proxy_next_upstream"]) => {
            "requests are retried where that is safe: origin.retry_budget"
        }
        _ if is(&["proxy_buffer", "proxy_busy_buffers", "proxy_temp_file"]) => {
            "bodies are buffered for slow clients: see [forwarding] and limits.buffers_max"
        }
        _ if is(&["gzip", "brotli", "charset", "sub_filter"]) => {
            "nothing is compressed here: let the origin do it"
        }
        _ if is(&["proxy_cache", "proxy_no_cache", "proxy_store", "open_file_cache"]) => {
            "no cache: stored = { max_age = … } in a rule serves copies under overload only"
        }
        _ if is(&["proxy_ssl_"]) => "write tls into [origin] or the pool",
        _ if is(&["fastcgi_", "uwsgi_", "scgi_", "grpc_", "memcached_"]) => SPEAKS_HTTP,
        _ if is(&[
            "proxy_cookie_",
            "http2_",
            "http3_",
            "quic_",
            "aio",
            "lingering_",
            "proxy_ignore_client",
        ]) =>
        {
            "has no counterpart: leave it out"
        }
        _ => return None,
    })
}

/// What to do about a directive that may have a part in who is served.
pub(super) fn why(directive: &str) -> &'static str {
    match directive {
        "rewrite" => {
            "paths are not rewritten: rules and the origin see the client's, and what nginx refuses by the new one is let pass; write [[rule]]s for it, or let the origin rewrite"
        }
        "if" => {
            "rules have conditions, and none for this: write a [[rule]], or do it in the origin"
        }
        "proxy_set_header" => {
            "the origin gets this field as the client sends it: let it believe in none that it has not set itself, or keep nginx behind for it"
        }
        "error_page" => {
            "answers of the origin are passed on, and refusals have a page: if this is the way to a login, let the origin send it"
        }
        "real_ip_header" | "set_real_ip_from" | "real_ip_recursive" => {
            "write the proxies' addresses into `trusted`: until then allow, deny and limits are by the addresses of proxies"
        }
        "try_files" => {
            "no file is looked for: what nginx refuses because there is none goes to the server"
        }
        "include" => {
            "no file of this name is here, and what stands in it is not taken over: import nginx.conf itself, with all of its files beside it"
        }
        "root" => {
            "Tiergate serves no files: keep nginx behind it for these, as [origin] or a [[pool]]"
        }
        _ => {
            "has no counterpart, and may keep clients out: see whether it does; if not leave it out, else keep nginx behind for it, or write a [[rule]] with refuse"
        }
    }
}
