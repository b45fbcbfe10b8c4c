//! `line` of `[access_log]`: a line as an operator writes it, text with variables.
//!
//! `$remote_addr [$time_local] "$request" $status $class` has the variables of nginx that mean something here, and Tiergate's own;
//! those of HAProxy (`%ci [%trg] %ST`) are the same under other names. How they are written, the access log says.

use super::error::instead;

/// Longest pattern.
const LEN_MAX: usize = 4_096;

/// A line's parts, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub(crate) parts: Vec<Part>,
    pub(crate) escape: Escape,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(Box<str>),
    Variable(Variable),
}

/// How values are escaped, and what stands for one that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// As Apache and nginx; `-`.
    Text,
    /// For the inside of a JSON string; nothing, or for numbers `0`.
    Json,
}

/// A variable. Several names may stand for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    Client,
    User,
    TimeLocal,
    TimeIso,
    TimeMillis,
    Unix,
    Request,
    Method,
    Path,
    Protocol,
    Host,
    Status,
    SentBytes,
    BodyBytes,
    ReceivedBytes,
    DurationSeconds,
    DurationMillis,
    QueueSeconds,
    QueueMillis,
    FirstByteSeconds,
    FirstByteMillis,
    CpuSeconds,
    Server,
    Pool,
    Class,
    Resource,
    Level,
    Rule,
    RuleName,
    Verdict,
    Reason,
    Policer,
    End,
    Cause,
    Slots,
    StoredInsteadOf,
    UserAgent,
    Referer,
    RequestId,
    ClientRequestId,
    Traceparent,
    RefusalsLeftOut,
    BadLeftOut,
}

/// Their names with what stands before them: nginx's and our own, then HAProxy's.
const NAMES: &[(&str, Variable)] = {
    use Variable as V;
    &[
        ("$remote_addr", V::Client),
        ("$remote_user", V::User),
        ("$time_local", V::TimeLocal),
        ("$time_iso8601", V::TimeIso),
        ("$time", V::TimeMillis),
        ("$msec", V::Unix),
        ("$request", V::Request),
        ("$request_method", V::Method),
        ("$uri", V::Path),
        ("$server_protocol", V::Protocol),
        ("$host", V::Host),
        ("$http_host", V::Host),
        ("$status", V::Status),
        ("$bytes_sent", V::SentBytes),
        ("$body_bytes_sent", V::BodyBytes),
        ("$request_length", V::ReceivedBytes),
        ("$request_time", V::DurationSeconds),
        ("$queue_time", V::QueueSeconds),
        ("$upstream_header_time", V::FirstByteSeconds),
        ("$gateway_cpu_time", V::CpuSeconds),
        ("$upstream_addr", V::Server),
        ("$pool", V::Pool),
        ("$class", V::Class),
        ("$resource", V::Resource),
        ("$level", V::Level),
        ("$rule", V::Rule),
        ("$rule_name", V::RuleName),
        ("$verdict", V::Verdict),
        ("$reason", V::Reason),
        ("$policer", V::Policer),
        ("$end", V::End),
        ("$cause", V::Cause),
        ("$slots", V::Slots),
        ("$stored_instead_of", V::StoredInsteadOf),
        ("$http_user_agent", V::UserAgent),
        ("$http_referer", V::Referer),
        ("$request_id", V::RequestId),
        ("$http_x_request_id", V::RequestId),
        ("$client_request_id", V::ClientRequestId),
        ("$http_traceparent", V::Traceparent),
        ("$refusals_left_out", V::RefusalsLeftOut),
        ("$bad_left_out", V::BadLeftOut),
        ("%ci", V::Client),
        ("%trg", V::TimeLocal),
        ("%r", V::Request),
        ("%HM", V::Method),
        ("%HP", V::Path),
        ("%HV", V::Protocol),
        ("%ST", V::Status),
        ("%B", V::SentBytes),
        ("%U", V::ReceivedBytes),
        ("%Ta", V::DurationMillis),
        ("%Tw", V::QueueMillis),
        ("%Tr", V::FirstByteMillis),
        ("%s", V::Server),
        ("%b", V::Pool),
        ("%ID", V::RequestId),
    ]
};

impl Pattern {
    /// Reads one.
    ///
    /// # Errors
    /// Which variable is not known, or what else is wrong, and what may be written.
    pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
        if text.is_empty() || text.len() > LEN_MAX || text.contains(['\n', '\r', '\0']) {
            return Err(format!("must be one line of 1 to {LEN_MAX} bytes"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '%']) {
            push_text(&mut parts, &rest[..at]);
            let (sign, behind) = rest[at..].split_at(1);
            if let Some(after) = behind.strip_prefix(sign) {
                push_text(&mut parts, sign);
                rest = after;
                continue;
            }
            let (name, after) = if sign == "$" { dollar(behind)? } else { percent(behind)? };
            parts.push(Part::Variable(Variable::of(sign, name)?));
            rest = after;
        }
        push_text(&mut parts, rest);
        let escape = if text.starts_with('{') { Escape::Json } else { Escape::Text };
        Ok(Pattern { parts, escape })
    }
}

impl Variable {
    /// The one of that name, behind `$` or `%`.
    ///
    /// # Errors
    /// There is none: why, or which is like it.
    fn of(sign: &str, name: &str) -> Result<Variable, String> {
        let whole = format!("{sign}{name}");
        if let Some((_, variable)) = NAMES.iter().find(|(name, _)| *name == whole) {
            return Ok(*variable);
        }
        if matches!(name, "args" | "query_string" | "request_uri" | "HQ" | "HU") {
            return Err(format!("has `{whole}`: queries are never logged; `$uri` is without"));
        }
        if name.starts_with("http_") {
            let known = NAMES.iter().map(|(name, _)| *name).filter(|it| it.starts_with("$http_"));
            let known = known.collect::<Vec<_>>().join("`, `");
            return Err(format!("has `{whole}`: of the header fields only `{known}` are logged"));
        }
        let known = NAMES.iter().map(|(name, _)| *name).filter(|it| it.starts_with(sign));
        Err(format!("has the unknown variable `{whole}`{}", instead(&whole, known)))
    }
}

/// Adjacent texts are one part.
fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(before)) => *before = format!("{before}{text}").into(),
        _ => parts.push(Part::Text(text.into())),
    }
}

/// The name behind `$`, also in braces, and what follows.
fn dollar(text: &str) -> Result<(&str, &str), String> {
    if let Some(inside) = text.strip_prefix('{') {
        return inside.split_once('}').ok_or_else(|| "has `${` without `}`".to_owned());
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let (name, after) = text.split_at(end.unwrap_or(text.len()));
    match name {
        "" => Err("has `$` without a name: `$$` is the sign itself".to_owned()),
        _ => Ok((name, after)),
    }
}

/// The same behind `%`, where names are letters only.
fn percent(text: &str) -> Result<(&str, &str), String> {
    if text.starts_with(['{', '[']) {
        let why = "has `%{` or `%[`: flags and expressions of HAProxy are not known here, write quotes as such, and variables by their names";
        return Err(why.to_owned());
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphabetic());
    // HAProxy's names follow each other without a space: the longest that is known.
    let letters = &text[..end.unwrap_or(text.len())];
    let known = (1..=letters.len()).rev().find(|&len| Variable::of("%", &letters[..len]).is_ok());
    match known {
        _ if letters.is_empty() => {
            Err("has `%` without a name: `%%` is the sign itself".to_owned())
        }
        Some(len) => Ok(text.split_at(len)),
        None => Ok((letters, &text[letters.len()..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let why = |pattern: &str| Pattern::parse(pattern).expect_err("wrong");
        assert_eq!(
            why("$remote_adr"),
            "has the unknown variable `$remote_adr`, did you mean `$remote_addr`?"
        );
        assert!(why("$args").starts_with("has `$args`: queries are never logged"));
        assert!(why("$http_cookie").starts_with("has `$http_cookie`: of the header"));
        assert!(why("%[src]").contains("expressions of HAProxy"));
        assert_eq!(why("${class"), "has `${` without `}`");
        assert_eq!(why("50 % of"), "has `%` without a name: `%%` is the sign itself");
        assert_eq!(why("a\nb"), "must be one line of 1 to 4096 bytes");
    }
}
