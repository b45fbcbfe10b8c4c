//! What of nginx has no place in a policy.

/// Why a directive is not taken over, and what to do instead.
pub(super) fn why(directive: &str) -> &'static str {
    match directive {
        "proxy_set_header" => {
            "the origin gets Host and X-Forwarded-For, -Proto, -Host as they are: see [forwarding]; set other headers in the origin"
        }
        "add_header" | "expires" | "more_set_headers" => {
            "answers are passed on as they are: set headers in the origin"
        }
        "root" | "alias" | "try_files" | "index" | "autoindex" => {
            "Tiergate serves no files: keep nginx behind it for these, as [origin] or a [[pool]]"
        }
        "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" | "grpc_pass" | "memcached_pass"
        | "fastcgi_param" | "uwsgi_param" => {
            "Tiergate speaks HTTP to servers: keep nginx behind it, or let the application speak HTTP"
        }
        "if" | "set" | "rewrite" | "rewrite_log" | "break" => {
            "rules have conditions, and paths are not rewritten: write a [[rule]], or do it in the origin"
        }
        "gzip" | "gzip_types" | "gzip_vary" | "gzip_proxied" | "gzip_comp_level"
        | "gzip_min_length" | "brotli" | "brotli_types" => {
            "nothing is compressed here: let the origin do it"
        }
        "proxy_cache"
        | "proxy_cache_path"
        | "proxy_cache_valid"
        | "proxy_cache_use_stale"
        | "proxy_cache_key" => {
            "no cache: stored = { max_age = … } in a rule serves copies under overload only"
        }
        "auth_basic_user_file" | "auth_request_set" => {
            "clients are recognised by [[key]] and [token]; passwords are for the origin"
        }
        "error_page" | "proxy_intercept_errors" => {
            "refusals have a page: refusal.page; errors of the origin are passed on"
        }
        "proxy_next_upstream" | "proxy_next_upstream_tries" | "proxy_next_upstream_timeout" => {
            "requests are retried where that is safe: origin.retry_budget"
        }
        "proxy_buffering"
        | "proxy_request_buffering"
        | "proxy_buffers"
        | "proxy_buffer_size"
        | "proxy_busy_buffers_size"
        | "client_body_buffer_size" => {
            "bodies are buffered for slow clients: see [forwarding] and limits.buffers_max"
        }
        "proxy_http_version" => {
            "servers are spoken to by HTTP/1.1 with kept connections: leave it out"
        }
        "real_ip_header" | "set_real_ip_from" | "real_ip_recursive" => {
            "write the proxies' addresses into `trusted`"
        }
        "geo" | "split_clients" => "write client = […] in rules, or pools by weight",
        "proxy_read_timeout"
        | "proxy_send_timeout"
        | "proxy_connect_timeout"
        | "keepalive_timeout"
        | "client_body_timeout"
        | "client_header_timeout"
        | "send_timeout" => "[timeouts] holds for all requests: write the longest there",
        _ => {
            "has no counterpart: see whether it keeps clients out; if not leave it out, else keep nginx behind for it, or write a [[rule]] with refuse"
        }
    }
}
