//! What an ACL asks, as conditions of rules.

use super::super::draft::{literal, quoted};

/// A condition that a rule can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) key: String,
    /// As TOML; one is enough.
    pub(super) values: Vec<String>,
}

/// What an ACL asks.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// Something of the request.
    Term(Term),
    /// Whether a client asks for more than this number in the time of the table.
    Rate(u64),
    /// Always the same.
    Always(bool),
    /// Whether it came by TLS.
    Tls,
    /// Something that no rule can ask.
    Unknown,
}

/// What `acl NAME …` asks.
pub(super) fn acl(words: &[String]) -> Result<Asked, String> {
    let (criterion, mut rest) = words.split_first().ok_or("must ask something")?;
    let (mut caseless, mut way) = (false, None);
    while let Some((first, further)) = rest.split_first() {
        match first.as_str() {
            "-i" => (caseless, rest) = (true, further),
            "-m" => {
                let (kind, further) = further.split_first().ok_or("must say how behind -m")?;
                (way, rest) = (Some(kind.clone()), further);
            }
            "--" => {
                rest = further;
                break;
            }
            it if it.starts_with('-') && it.len() == 2 => {
                return Err(format!("{it}: write the values into the rule"));
            }
            _ => break,
        }
    }
    let (name, argument) = match criterion.split_once('(') {
        Some((name, rest)) => (name, rest.trim_end_matches(')')),
        None => (criterion.as_str(), ""),
    };
    let name = name.strip_prefix("req.").unwrap_or(name);
    if matches!(name, "sc_http_req_rate" | "sc0_http_req_rate" | "src_http_req_rate") {
        return match rest {
            [gt, number] if gt == "gt" => {
                number.parse().map(Asked::Rate).map_err(|_| "must be a number".to_owned())
            }
            _ => Err("only `gt` and a number".to_owned()),
        };
    }
    let (base, suffix) = ["_beg", "_end", "_sub", "_dir", "_dom", "_reg"]
        .iter()
        .find_map(|it| Some((name.strip_suffix(it)?, &it[1..])))
        .unwrap_or((name, "str"));
    let way = way.as_deref().unwrap_or(suffix);
    let first = argument.split(',').next().unwrap_or_default().to_ascii_lowercase();
    let key = match (base, first.as_str()) {
        ("ssl_fc", _) => return Ok(Asked::Tls),
        ("always_true", _) => return Ok(Asked::Always(true)),
        ("always_false", _) => return Ok(Asked::Always(false)),
        ("path", _) => "path".to_owned(),
        // The beginning of the URL is that of the path; the rest has the query, too.
        ("url", _)
            if way == "beg" && rest.iter().all(|it| it.starts_with('/') && !it.contains('?')) =>
        {
            "path".to_owned()
        }
        ("url", _) => {
            return Err(format!(
                "{criterion}: the URL has the query, and rules see path and parameters one by one"
            ));
        }
        ("hdr" | "fhdr", "host") => "host".to_owned(),
        ("hdr" | "fhdr", name) if !name.is_empty() => format!("header.{}", quoted(name)),
        ("cook", _) => format!("cookie.{}", quoted(argument)),
        ("urlp" | "url_param", _) => format!("query.{}", quoted(argument)),
        ("method", _) => "method".to_owned(),
        ("src", _) => "client".to_owned(),
        ("dst", _) => "destination".to_owned(),
        ("ssl_fc_sni", _) => "sni".to_owned(),
        _ => return Err(format!("{criterion}: no condition of rules asks for it")),
    };
    if way == "found" {
        return match key.contains('.') {
            true => Ok(Asked::Term(Term { key, values: vec!["true".to_owned()] })),
            false => Err("-m found: only of headers, cookies and parameters".to_owned()),
        };
    }
    if rest.is_empty() {
        return Err("must have values".to_owned());
    }
    if key == "path" && (caseless || way == "reg") {
        let flags = if caseless { "(?i)" } else { "" };
        let one = |text: &String| match way {
            "reg" => Ok(quoted(&format!("{flags}{text}"))),
            "beg" => Ok(quoted(&format!("{flags}^{}", regex(text)))),
            "end" => Ok(quoted(&format!("{flags}{}$", regex(text)))),
            "sub" => Ok(quoted(&format!("{flags}{}", regex(text)))),
            "str" => Ok(quoted(&format!("{flags}^{}$", regex(text)))),
            _ => Err(format!("{way} without regard to case")),
        };
        let values = rest.iter().map(one).collect::<Result<_, _>>()?;
        return Ok(Asked::Term(Term { key: "path_regex".to_owned(), values }));
    }
    if caseless && !matches!(key.as_str(), "host" | "sni" | "client" | "destination") {
        return Err("-i: patterns of this kind regard the case".to_owned());
    }
    let mut values = Vec::new();
    for text in rest {
        let text = text.as_str();
        match (key.as_str(), way) {
            ("client" | "destination" | "method", "str" | "ip") => values.push(quoted(text)),
            ("host" | "sni", "str") => values.push(quoted(&text.to_ascii_lowercase())),
            ("host" | "sni", "end") if text.starts_with('.') => {
                values.push(quoted(&format!("*{text}")))
            }
            ("host" | "sni", "dom") => values.extend([quoted(text), quoted(&format!("*.{text}"))]),
            ("host" | "sni" | "client" | "destination" | "method", _) => {
                return Err(format!("{way}: not of {key}"));
            }
            (_, "str" | "beg" | "end") if base == "hdr" => values.extend(of_list(text, way)),
            (_, "str") => values.push(quoted(&literal(text))),
            (_, "beg") => values.push(quoted(&format!("{}*", literal(text)))),
            (_, "end") => values.push(quoted(&format!("**{}", literal(text)))),
            (_, "sub") => values.push(quoted(&format!("**{}*", literal(text)))),
            ("path", "dir") => {
                let text = literal(text.trim_matches('/'));
                values.extend([quoted(&format!("**/{text}/*")), quoted(&format!("**/{text}"))]);
            }
            _ => return Err(format!("{way}: write a pattern with * and ? by hand")),
        }
    }
    Ok(Asked::Term(Term { key, values }))
}

/// The patterns of a text in a list: `hdr` asks each of a field's values between commas, and rules ask all of it at once.
fn of_list(text: &str, way: &str) -> Vec<String> {
    let text = literal(text);
    let (begins, ends) = (["", "**,", "**, "], ["", ",*"]);
    let patterns: Vec<String> = match way {
        "beg" => begins.iter().map(|it| format!("{it}{text}*")).collect(),
        "end" => ends.iter().map(|it| format!("**{text}{it}")).collect(),
        _ => {
            begins.iter().flat_map(|begin| ends.map(|end| format!("{begin}{text}{end}"))).collect()
        }
    };
    patterns.iter().map(|it| quoted(it)).collect()
}

/// A text as a regular expression that means it.
pub(super) fn regex(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if !letter.is_alphanumeric()
            && letter != '/'
            && letter != '_'
            && letter != '-'
            && letter.is_ascii()
        {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
