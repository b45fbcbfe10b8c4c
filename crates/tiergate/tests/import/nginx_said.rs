//! What of an nginx.conf is not taken over is said: listed where it stands, refused, or named as LESS SAFE.

use super::nginx_refusals::{Ask, LESS, STRICTER, get, is_refused, lists, nginx, server, under};
use super::of_nginx;
use std::fs;
use std::path::Path;
use tiergate::cli::import::{System, import};

const OTHER: &str = "Not taken over";

#[test]
fn what_locations_within_inherit_is_said() {
    for line in [
        "set_real_ip_from 127.0.0.0/8;",
        "real_ip_header X-Client;",
        "proxy_set_header X-User \"\";",
        "auth_ldap x;",
        "modsecurity on;",
        "access_by_lua_file /x.lua;",
    ] {
        let said = line.trim_end_matches(';').replace('"', "");
        for end in ["", "return 404;", "fastcgi_pass a:9;"] {
            let made = server(&format!(
                "location /api/ {{ {line} {end} location /api/v1/ {{ proxy_pass http://a:1; }} }}"
            ));
            lists(&made, LESS, said.trim());
        }
        // Where nothing is let pass nothing is less safe.
        for refused in ["return 404;", "internal; location /api/v1/ { proxy_pass http://a:1; }"] {
            let made = server(&format!("location /api/ {{ {line} {refused} }}"));
            assert_eq!(made.less_safe, 0, "{}", made.policy);
        }
    }
    let made =
        server("location /api/ { deny 192.0.2.1; location /api/v1/ { proxy_pass http://a:1; } }");
    is_refused(&made, get("GET /api/v1/x"), true);
}

#[test]
fn what_answers_instead_of_a_server_is_said() {
    for (line, why) in [
        ("fastcgi_pass a:9", "Tiergate speaks HTTP to servers"),
        ("grpc_pass grpc://a:9", "Tiergate speaks HTTP to servers"),
        ("stub_status", "/metrics of the admin listener"),
        ("js_content x", "a program within nginx answers here"),
        ("content_by_lua_block { x = 1 }", "a program within nginx answers here"),
    ] {
        let end = if line.ends_with('}') { "" } else { ";" };
        let made = server(&format!("location /p {{ {line}{end} }}"));
        let name = line.split(' ').next().expect("a name");
        lists(&made, STRICTER, name);
        lists(&made, STRICTER, why);
        is_refused(&made, get("GET /p"), true);
    }
}

#[test]
fn what_maps_choose_otherwise_is_said() {
    let made = |variable: &str| {
        nginx(&format!(
            "map {variable} $to {{ default http://a:1; 1 http://b:1; }} server {{ listen 80; location / {{ proxy_pass $to; }} location /x {{ proxy_pass http://c:1; }} }}"
        ))
    };
    let said = "rules decode parameters, see all of a name, and compare its case";
    lists(&made("$arg_x"), OTHER, said);
    assert!(!made("$host").policy.contains(said));
}

#[test]
fn what_other_methods_have_of_their_own_is_said() {
    let except = |line: &str| {
        server(&format!(
            "location /p {{ limit_except GET {{ {line} }} proxy_pass http://127.0.0.1:17003; }}"
        ))
    };
    for line in
        ["proxy_pass http://127.0.0.1:17004;", "perl x;", "js_content x;", "uwsgi_pass a:9;"]
    {
        let made = except(line);
        is_refused(&made, get("POST /p"), true);
        is_refused(&made, get("GET /p"), false);
        lists(&made, STRICTER, line.trim_end_matches(';'));
    }
    for line in ["auth_ldap x;", "auth_pam x;", "modsecurity on;"] {
        lists(&except(line), LESS, line.trim_end_matches(';'));
    }
    let made = except("deny 192.0.2.1;");
    is_refused(&made, get("POST /p"), true);
    assert_eq!(made.less_safe, 0, "{}", made.policy);
}

/// The policy of a file in a folder with these.
fn of_files(files: &[(&str, &[u8])], first: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("our own folder");
        fs::write(&path, text).expect("our own folder");
    }
    let file = folder.path().join(Path::new(first));
    import(&System::Nginx { file }).map_err(|fault| fault.to_string())
}

#[test]
fn files_are_included_from_the_folder_of_nginx_conf() {
    let shop: &[u8] = b"server { listen 80; include snippets/deny-*.conf; include none/*.conf; location / { proxy_pass http://a:1; } }";
    let deny: (&str, &[u8]) = ("e/snippets/deny-x.conf", b"deny 192.0.2.7;");
    let policy = of_files(&[deny, ("e/sites-enabled/shop", shop)], "e/sites-enabled/shop");
    let policy = policy.expect("it maps");
    assert!(policy.contains("client = \"192.0.2.7\""), "{policy}");
    let less = policy.split("# LESS SAFE").nth(1).expect("a heading");
    assert!(less.contains("include none/*.conf: no file of this name is here"), "{policy}");
    assert!(!policy.contains("include snippets"), "{policy}");
    // Not beyond the folder of nginx.conf.
    let policy = of_files(
        &[
            ("snippets/deny-x.conf", b"deny 192.0.2.7;"),
            ("e/nginx.conf", b""),
            ("e/sites-enabled/shop", shop),
        ],
        "e/sites-enabled/shop",
    )
    .expect("it maps");
    assert!(!policy.contains("192.0.2.7") && policy.contains("include snippets"), "{policy}");
    // nginx finds none in an empty folder either; one that is not here may have been elsewhere.
    let whole: &[u8] = b"events {} http { include conf.d/*.conf; include gone/*.conf; server { listen 80; location / { proxy_pass http://a:1; } } }";
    let policy = of_files(&[("nginx.conf", whole), ("conf.d/x", b"")], "nginx.conf");
    let policy = policy.expect("it maps");
    assert!(!policy.contains("include conf.d"), "{policy}");
    assert!(policy.contains("include gone/*.conf: no file"), "{policy}");
    let fault = of_files(&[("x", b"include none.conf;")], "x").expect_err("it is not there");
    assert!(fault.contains("from the folder of nginx.conf"), "{fault}");
    // What is not here may stand anywhere.
    for text in [
        "map $http_a $m { include no-such/*.conf; } server { listen 80; location / { proxy_pass http://a:1; } }",
        "upstream u { server a:1; include no-such/*.conf; } server { listen 80; location / { proxy_pass http://u; } }",
        "server { listen 80; location / { include no-such/*.conf; proxy_pass http://a:1; } }",
        "server { listen 80; location / { limit_except GET { include no-such/*.conf; } proxy_pass http://a:1; } }",
        "server { listen 80; location / { if ($x) { include no-such/*.conf; } proxy_pass http://a:1; } }",
        "server { listen 80; location / { if ($http_x) { include no-such/*.conf; return 403; } proxy_pass http://a:1; } }",
    ] {
        let policy = of_files(&[("f", text.as_bytes())], "f").expect("it maps");
        let less = policy.split("# LESS SAFE").nth(1).unwrap_or_default();
        assert!(less.contains("include no-such/*.conf: no file"), "{text}\n{policy}");
    }
}

#[test]
fn bytes_of_other_encodings_are_taken_in_comments_alone() {
    let text: &[u8] =
        b"# caf\xe9\nserver { listen 80; location / { proxy_pass http://a:1; } } # \xff";
    assert!(of_files(&[("f", text)], "f").is_ok());
    let text: &[u8] = b"# x\nserver { listen 80; location /caf\xe9 { proxy_pass http://a:1; } }";
    let fault = of_files(&[("f", text)], "f").expect_err("no path of rules");
    assert!(fault.contains("f:2: must be UTF-8"), "{fault}");
}

#[test]
fn several_variables_are_no_field() {
    for variables in [
        "$http_a$http_b",
        "$http_x-$http_y",
        "$cookie_a$arg_b",
        "\"$http_a:$http_b\"",
        "${http_a}${http_b}",
        "$http_a.x",
    ] {
        let made = nginx(&format!(
            "map {variables} $m {{ a b:1; default a:1; }} map {variables} $key {{ a \"\"; default $binary_remote_addr; }}
             limit_req_zone $key zone=z:1m rate=1r/s;
             server {{ listen 80; location /m {{ proxy_pass http://$m; }}
               location /if {{ if ({variables} = x) {{ return 403; }} proxy_pass http://a:1; }}
               location / {{ limit_req zone=z; proxy_pass http://a:1; }} }}"
        ));
        is_refused(&made, get("GET /m"), true);
        is_refused(&made, get("GET /if"), true);
        lists(&made, LESS, "limit_req_zone $key");
        assert!(!made.policy.contains("header."), "{}", made.policy);
    }
    let made = server("if (${http_a} = x) { return 403; }");
    is_refused(&made, Ask { headers: &["a: x"], ..get("GET /") }, true);
    is_refused(&made, get("GET /"), false);
}

#[test]
fn servers_of_maps_are_taken_apart_as_those_of_proxy_pass() {
    let made = nginx(
        "map $http_x $m { default http://App; 1 http://b; 2 https://b/x/; 3 b; 4 http://unix:/s:/p; 5 https://c; }
         upstream app { server 10.0.0.1:80; } upstream B { server 10.0.0.2:80; }
         server { listen 80; location / { proxy_pass $m; } location /p { proxy_pass http://APP; } }",
    );
    assert_eq!(made.policy.matches("10.0.0.1:80\"]").count(), 1, "{}", made.policy);
    assert_eq!(made.policy.matches("10.0.0.2:80\"]").count(), 1, "{}", made.policy);
    for line in ["servers = [\"unix:/s\"]", "servers = [\"c:443\"]"] {
        assert!(made.policy.contains(line), "{}", made.policy);
    }
    lists(&made, LESS, "2 https://b/x/: TLS to servers");
    lists(&made, LESS, "2 https://b/x/: the path is not rewritten");
    lists(&made, LESS, "4 http://unix:/s:/p: the path is not rewritten");
    lists(&made, STRICTER, "3 b: names no server");
    is_refused(&made, Ask { headers: &["x: 3"], ..get("GET /") }, true);
    is_refused(&made, Ask { headers: &["x: 1"], ..get("GET /") }, false);
    let made = server(
        "location /s { proxy_pass https://secure.example.com; } location /t { proxy_pass http://secure.example.com; }
         location /u { proxy_pass https://secure.example.com:8443; }",
    );
    for server in ["secure.example.com:443", "secure.example.com:80", "secure.example.com:8443"] {
        assert!(made.policy.contains(&format!("servers = [\"{server}\"]")), "{}", made.policy);
    }
    lists(&made, LESS, "proxy_pass https://secure.example.com: TLS to servers");
}

/// A front controller: `try_files $uri $uri/ /index.php?$args`.
#[test]
fn try_files_that_goes_on_as_another_path_is_said() {
    let first = |request| Ask { listener: Some("0.0.0.0:80"), ..get(request) };
    let goes_on = "try_files $uri $uri/ /index.php?$args";
    let apart = nginx(&format!(
        "server {{ listen 80; location / {{ {goes_on}; }} location ~ \\.php$ {{ proxy_pass http://app:1; }} }}"
    ));
    is_refused(&apart, first("GET /"), true);
    is_refused(&apart, first("GET /index.php"), false);
    let note = "no file is looked for, and no path is rewritten: what nginx has the server of another path answer is refused";
    lists(&apart, OTHER, &format!("{goes_on}: {note}"));
    let whole = nginx(&format!(
        "server {{ listen 80; {goes_on}; location = /index.php {{ proxy_pass http://app:1; }} }}"
    ));
    lists(&whole, OTHER, &format!("{goes_on}: {note}"));
    let own = server(&format!("location / {{ {goes_on}; proxy_pass http://app:1; }}"));
    is_refused(&own, get("GET /x"), false);
    lists(
        &own,
        LESS,
        &format!(
            "{goes_on}: no file is looked for, and no path is rewritten: the server gets every path"
        ),
    );
}

#[test]
fn try_files_goes_on_at_a_named_location() {
    let made = |location: &str, named: &str| {
        nginx(&format!(
            "server {{ listen 80; location / {{ {location} }} location @app {{ {named} }} }}
             server {{ listen 81; location / {{ proxy_pass http://a:1; }} }}"
        ))
    };
    let first = |request| Ask { listener: Some("0.0.0.0:80"), ..get(request) };
    let usual = made("try_files $uri @app;", "proxy_pass http://app:1;");
    is_refused(&usual, first("GET /"), false);
    lists(&usual, OTHER, "try_files $uri @app: no file is looked for");
    assert_eq!(usual.less_safe, 0, "{}", usual.policy);
    let down = made("try_files /down.html @app;", "proxy_pass http://app:1; modsecurity on;");
    lists(&down, LESS, "try_files /down.html @app");
    lists(&down, LESS, "modsecurity on");
    for (location, named) in [
        ("deny all; try_files $uri @app;", "proxy_pass http://app:1;"),
        ("auth_basic x; try_files $uri @app;", "proxy_pass http://app:1;"),
        ("try_files $uri @app;", "deny 192.0.2.1; proxy_pass http://app:1;"),
        ("try_files $uri @app;", "return 403; proxy_pass http://app:1;"),
        ("return 403; try_files $uri @app;", "proxy_pass http://app:1;"),
        ("try_files $uri @app;", "try_files $uri @app;"),
        ("try_files $uri @other;", "proxy_pass http://app:1;"),
        ("limit_except GET { deny all; } try_files $uri @app;", "proxy_pass http://app:1;"),
    ] {
        is_refused(&made(location, named), first("GET /"), true);
    }
    // The bound of the location that the client asks for counts.
    let small = made("client_max_body_size 1k; try_files $uri @app;", "proxy_pass http://app:1;");
    lists(&small, LESS, "client_max_body_size 1k");
    let fault = of_nginx(
        "server { listen 80; error_page 404 = @app; location @app { proxy_pass http://a:1; } }",
    )
    .expect_err("nothing gets there")
    .to_string();
    assert!(fault.contains("location @app"), "{fault}");
}

#[test]
fn blocks_of_lua_are_skipped_and_said() {
    let made = server(
        "location /l {
           access_by_lua_block {
             -- don't let it pass }
             --[[ } ]] --[==[ ]] } ]==]
             local t = { a = \"}\\\"\", b = '}\\'', c = [[ } ]], d = [=[ ]] } ]=] }
             if t[1] then return ngx.exit(403) end
           }
           proxy_pass http://a:1;
         }",
    );
    lists(&made, LESS, "access_by_lua_block: has no counterpart, and may keep clients out");
    is_refused(&made, get("GET /l"), false);
    let fault =
        of_nginx("\naccess_by_lua_block { x = '}' ").expect_err("it has no end").to_string();
    assert!(fault.starts_with("nginx.conf:2: has a { that no } closes"), "{fault}");
}

#[test]
fn hosts_of_a_server_are_told_apart() {
    let made = nginx(
        "server { listen 80; server_name example.com www.example.com *.example.org;
           if ($host = www.example.com) { return 301 https://$host$request_uri; }
           if ($host = example.com) { return 301 https://$host$request_uri; }
           if ($http_x ~ odd) { return 301 /odd; }
           if ($cookie_session = \"\") { return 302 /login; }
           return 404; }
         server { listen 81; location / { proxy_pass http://a:1; } }",
    );
    assert_eq!(made.less_safe, 0, "{}", made.policy);
    let made = nginx(
        "server { listen 80; server_name a b *.c; if ($host = b) { return 410; } if ($host = d) { return 410; } if ($host != x.c) { return 403; }
           location / { proxy_pass http://a:1; } }",
    );
    for (host, refused) in [("a", true), ("b", true), ("x.c", false), ("y.c", true)] {
        is_refused(&made, Ask { host: Some(host), ..get("GET /") }, refused);
    }
}

#[test]
fn several_conditions_are_kept_or_said_to_be_of_one_kind() {
    let made = server("if ($http_x_a != 1) { return 403; } if ($http_x_b != 2) { return 410; }");
    for (headers, refused) in
        [(&[][..], true), (&["x-a: 1"], true), (&["x-b: 2"], true), (&["x-a: 1", "x-b: 2"], false)]
    {
        is_refused(&made, Ask { headers, ..get("GET /") }, refused);
    }
    let made = server("if ($http_x_a != 1) { return 403; } if ($http_x_a = 2) { return 410; }");
    lists(&made, STRICTER, "if ($http_x_a = 2): a rule has one condition of a kind");
    assert!(!under(&made, STRICTER).contains("none for this"), "{}", made.policy);
    let made = server(
        "location /d { if ($http_x = 1) { proxy_pass http://b:1; } proxy_pass http://a:1; }",
    );
    lists(&made, LESS, "proxy_pass http://b:1");
}
