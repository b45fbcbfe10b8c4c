//! What an ACL asks of hosts, header fields, cookies and parameters.

use super::super::draft::{literal, quoted};
use super::between::{Between, Bound, Term};

/// How values are compared: `beg` of `hdr_beg` or `-m beg`, and `-i`.
pub(super) struct Way<'w> {
    pub(super) by: Option<&'w str>,
    pub(super) caseless: bool,
}

impl Way<'_> {
    /// What is asked of the values, if case counts as it does in rules.
    fn by(&self, values: &[String]) -> Result<&str, String> {
        let has_letters = |it: &String| it.chars().any(char::is_alphabetic);
        if self.caseless && values.iter().any(has_letters) && self.by != Some("found") {
            return Err("-i: patterns of this kind regard the case".to_owned());
        }
        match values.iter().any(String::is_empty) {
            true => Err("an empty value".to_owned()),
            false => Ok(self.by.unwrap_or("str")),
        }
    }
}

/// A text as a pattern, as TOML without its quotes.
fn bare(text: &str) -> String {
    let toml = quoted(&literal(text));
    toml[1..toml.len() - 1].to_owned()
}

/// A value as a pattern that is matched this way.
fn pattern(text: &str, by: &str) -> Result<String, String> {
    let text = bare(text);
    Ok(match by {
        "str" => format!("\"{text}\""),
        "beg" => format!("\"{text}*\""),
        "end" => format!("\"**{text}\""),
        "sub" => format!("\"**{text}*\""),
        _ => return Err(format!("{by}: write a pattern with * and ? by hand")),
    })
}

fn patterns(values: &[String], by: &str) -> Result<Vec<String>, String> {
    values.iter().map(|it| pattern(it, by)).collect()
}

/// A host as `host` and `sni` take it, which know neither ports, nor case, nor a dot at the end.
pub(super) fn host(key: &str, values: &[String], by: &str) -> Result<Between, String> {
    let (mut wide, mut narrow) = (Vec::new(), Vec::new());
    let mut is_exact = true;
    for text in values {
        let text = text.to_ascii_lowercase();
        let is_name = |it: &str| !it.is_empty() && !it.contains(['*', ':', '/', '?']);
        match by {
            "str" => {
                let name = match text.rsplit_once(':') {
                    Some((name, port)) if port.chars().all(|it| it.is_ascii_digit()) => name,
                    _ => &text,
                };
                if !is_name(name) {
                    return Err("no host is called so".to_owned());
                }
                wide.push(quoted(name));
                match name == text {
                    true => narrow.push(quoted(name)),
                    false => is_exact = false,
                }
            }
            "end" if text.starts_with('.') && is_name(&text) => {
                wide.push(quoted(&format!("*{text}")));
                narrow.push(quoted(&format!("*{text}")));
            }
            // Also in the midst of a name, or of a label.
            "dom" | "end" => {
                let name = text.trim_matches('.');
                if !is_name(name) || by == "end" && name != text {
                    return Err(format!("{by}: not of {key}"));
                }
                narrow.extend([quoted(name), quoted(&format!("*.{name}"))]);
                is_exact = false;
            }
            _ => return Err(format!("{by}: not of {key}")),
        }
    }
    let anywhere = matches!(by, "dom" | "end") && !is_exact;
    let wide = if anywhere { Bound::Always(true) } else { Bound::wide(key, wide) };
    let why = (!is_exact).then(|| format!("{by}: not of {key} alone, which has no port"));
    let open = "rules compare hosts without port, case and final dot, so this holds of example.com:8080, too";
    Ok(Between { wide, narrow: Bound::narrow(key, narrow), why, open: Some(open) })
}

/// Fields that rules see only if a `trusted` peer has sent them.
fn is_hidden(field: &str) -> bool {
    ["x-forwarded-", "x-tiergate-"].iter().any(|it| field.starts_with(it))
        || matches!(field, "forwarded" | "x-real-ip" | "tiergate-level")
}

/// Fields that concern the connection: HAProxy hides some of them.
const OF_THE_CONNECTION: [&str; 9] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "content-length",
];

/// The values of a header field; `full`: not split at commas.
pub(super) fn header(
    field: &str,
    values: &[String],
    full: bool,
    way: &Way<'_>,
) -> Result<Between, String> {
    let asked = seen(field, values, full, way)?;
    if !OF_THE_CONNECTION.iter().any(|it| it.eq_ignore_ascii_case(field)) {
        return Ok(asked);
    }
    let why = Some("HAProxy may not see a field that concerns the connection".to_owned());
    Ok(Between { narrow: Bound::Always(false), why, ..asked })
}

/// The same for a field that both see.
fn seen(field: &str, values: &[String], full: bool, way: &Way<'_>) -> Result<Between, String> {
    let field = field.to_ascii_lowercase();
    // The client's own field is not always the host that the origin gets.
    if field.is_empty() || field == "cookie" || field == "host" {
        return Err("no condition of rules asks for it".to_owned());
    }
    if is_hidden(&field) {
        return Err("rules see this field only if a `trusted` peer has sent it".to_owned());
    }
    let key = format!("header.{}", quoted(&field));
    let by = way.by(values)?;
    if by == "found" {
        return Ok(Between::exact(Term::new(key, vec!["true".to_owned()])));
    }
    // Without its commas, nothing of a list is within a value but not within one of the list.
    let is_whole = |it: &&String| !it.contains(',') && it.trim().len() == it.len();
    if full || by == "sub" && values.iter().all(|it| is_whole(&it)) {
        return Ok(Between::exact(Term::new(key, patterns(values, by)?)));
    }
    let (begins, ends): (&[&str], &[&str]) = match by {
        "str" => (&["", "**,", "** ", "**\\t"], &["", ",*", " *", "\\t*"]),
        "beg" => (&["", "**,", "** ", "**\\t"], &["*"]),
        "end" => (&["**"], &["", ",*", " *", "\\t*"]),
        "sub" => (&["**"], &["*"]),
        _ => return Err(format!("{by}: write a pattern with * and ? by hand")),
    };
    let within = |it: &String| {
        let text = bare(it);
        begins.iter().flat_map(move |begin| {
            let text = text.clone();
            ends.iter().map(move |end| format!("\"{begin}{text}{end}\""))
        })
    };
    let wide = values.iter().flat_map(within).collect();
    let whole: Vec<String> = values.iter().filter(is_whole).cloned().collect();
    let narrow = patterns(&whole, by)?;
    let why = Some("a list in a header is one value here, with any white space".to_owned());
    Ok(Between {
        wide: Bound::wide(&key, wide),
        narrow: Bound::narrow(&key, narrow),
        why,
        open: None,
    })
}

/// The values of a cookie. HAProxy ends them at commas, too, and not within quotes.
pub(super) fn cookie(name: &str, values: &[String], way: &Way<'_>) -> Result<Between, String> {
    let by = way.by(values)?;
    if name.is_empty() || values.iter().any(|it| it.contains([';', ',', '"'])) {
        return Err("HAProxy reads cookies otherwise".to_owned());
    }
    let (within, narrow) = match by {
        "found" => (vec![format!("\"**{}*\"", bare(name))], vec!["true".to_owned()]),
        "str" | "beg" => {
            let within = |it: &String| format!("\"**{}*=*{}*\"", bare(name), bare(it));
            (values.iter().map(within).collect(), patterns(values, by)?)
        }
        _ => return Err(format!("{by}: HAProxy reads cookies otherwise")),
    };
    Ok(Between {
        wide: Bound::wide("header.\"cookie\"", within),
        narrow: Bound::narrow(&format!("cookie.{}", quoted(name)), narrow),
        why: Some(
            "HAProxy ends cookies at commas, too, so all that have these texts count".to_owned(),
        ),
        open: Some("of quotes in cookies HAProxy thinks otherwise"),
    })
}

/// The values of a parameter of the query. HAProxy separates them at `;`, too, and decodes nothing.
pub(super) fn parameter(name: &str, values: &[String], way: &Way<'_>) -> Result<Between, String> {
    let by = way.by(values)?;
    if name.is_empty() {
        return Err("no condition of rules asks for it".to_owned());
    }
    let narrow = match by {
        "found" => vec!["true".to_owned()],
        _ => patterns(values, by)?,
    };
    Ok(Between {
        wide: Bound::Always(true),
        narrow: Bound::narrow(&format!("query.{}", quoted(name)), narrow),
        why: Some("HAProxy ends parameters at `;`, too".to_owned()),
        open: Some("rules decode parameters, and see all of a name"),
    })
}
