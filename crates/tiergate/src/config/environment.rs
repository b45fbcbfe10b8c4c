//! `${NAME}` in the texts of a policy: what the environment has under that name; `${file:PATH}`: the line that a file has, a secret.
//!
//! Only in values, and before they are read, so that each is checked as if it had been written there. `$${` stands for `${`.

use super::place::Place;
use super::redaction::LEN_MIN;
use super::secret_place::written;
use crate::secrets::{self, NamedFile};
use toml::Spanned;
use toml::de::DeValue;

/// What is before the name of a file.
const FILE: &str = "file:";
/// Longest secret: more than any header or address may have.
const LEN_MAX: usize = 4096;

/// Where values come from.
#[derive(Clone, Copy)]
pub(super) struct Outside<'o> {
    /// The environment.
    pub(super) environment: &'o dyn Fn(&str) -> Option<String>,
    /// Whether files may be opened.
    pub(super) disk: bool,
}

/// Puts what is outside in the place of each `${…}`; reports what is not there.
pub(super) fn expand(value: &mut DeValue<'_>, place: &Place, outside: Outside<'_>) {
    let within =
        |it: &mut Spanned<DeValue<'_>>, place: Place| expand(it.get_mut(), &place, outside);
    match value {
        DeValue::String(text) if text.contains("${") => {
            let lookup = |name: &str| match name.strip_prefix(FILE) {
                Some(path) => of_file(path, place, outside.disk),
                None => of_environment(name, outside.environment),
            };
            match expanded(text, &lookup) {
                Ok(whole) => *text = whole.into(),
                Err(fault) => place.fault(fault),
            }
        }
        DeValue::Array(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                let at = element.span().start;
                within(element, place.element_at(index, at));
            }
        }
        DeValue::Table(table) => {
            for (key, value) in table.iter_mut() {
                let at = value.span().start;
                within(value, place.key_at(key.get_ref(), at));
            }
        }
        _ => {}
    }
}

/// # Errors
/// What to do about it.
pub(super) fn of_environment(
    name: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let is_name = !name.is_empty()
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
        && !name.starts_with(|it: char| it.is_ascii_digit());
    if !is_name {
        return Err(format!(
            "must have the name of an environment variable in ${{…}}, or file: and the name of a file, got {name:?}; write $${{ for ${{ itself"
        ));
    }
    environment(name).ok_or_else(|| {
        format!("the environment variable {name} is not set, or no UTF-8: set it where the gateway is started")
    })
}

/// The only line of a file, which from now on is a secret of the policy.
///
/// # Errors
/// What to do about it, never with its content.
fn of_file(path: &str, place: &Place, disk: bool) -> Result<String, String> {
    if path.is_empty() || path.contains('\0') {
        return Err("must have the name of a file in ${file:…}".to_owned());
    }
    let as_written = written(&place.key).ok_or(NO_SECRETS)?;
    if !disk {
        return Err("${file:…} can only be read where the policy is a file".to_owned());
    }
    let named = NamedFile { path: place.file(path), key: place.key.clone(), at: place.at };
    let shown = named.path.display();
    let mut warnings = Vec::new();
    let text = secrets::read(&named, &mut warnings)?;
    warnings.into_iter().for_each(|warning| place.warn(warning));
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.chars().any(char::is_control) {
        return Err(format!("{shown} must have one line of text"));
    }
    if line.trim() != line {
        return Err(format!("{shown} must have no space before or behind the secret"));
    }
    if !(LEN_MIN..=LEN_MAX).contains(&line.len()) {
        return Err(format!(
            "{shown} must have a secret of {LEN_MIN} to {LEN_MAX} bytes, and has {}; for what is no secret, use ${{NAME}}",
            line.len()
        ));
    }
    let name = format!("${{{FILE}{path}}}");
    let as_written = as_written.of(line);
    place.hide(line, &name);
    // As it stands in the text, which `check` repeats.
    place.hide(&as_written, &name);
    place.reads(named.path);
    Ok(as_written)
}

/// Said where a secret would be shown.
const NO_SECRETS: &str = "must not be made of a file's content, which would be shown: ${file:…} is for what rules compare, `audience` and `issuer` of [token], the path of a health check and the command of workers; use ${NAME}";

/// # Errors
/// What to do about it.
pub(super) fn expanded(
    text: &str,
    lookup: &dyn Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            whole.push_str(before);
            whole.push_str("${");
            rest = &from[2..];
            continue;
        }
        whole.push_str(before);
        let Some((name, after)) = from[2..].split_once('}') else {
            return Err("must close each ${ with }; write $${ for ${ itself".to_owned());
        };
        whole.push_str(&lookup(name)?);
        rest = after;
    }
    Ok(whole + rest)
}

#[cfg(test)]
mod tests {
    use super::super::load::parse_from;
    use super::*;
    use tiergate_core::names::Names;

    fn of(name: &str) -> Option<String> {
        let known = [("PORT", "8081"), ("HOST", "app.internal"), ("EMPTY", "")];
        known.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn names_stand_for_what_the_environment_has() {
        let text = |text: &str| expanded(text, &|name| of_environment(name, &of));
        assert_eq!(text("${HOST}:${PORT}"), Ok("app.internal:8081".to_owned()));
        assert_eq!(text("a${EMPTY}b"), Ok("ab".to_owned()));
        assert_eq!(text("$${HOST} costs $5"), Ok("${HOST} costs $5".to_owned()));
        for (wrong, said) in [
            ("${HOST", "must close each ${ with }; write $${ for ${ itself"),
            (
                "${}",
                "must have the name of an environment variable in ${…}, or file: and the name of a file, got \"\"; write $${ for ${ itself",
            ),
            (
                "${A B}",
                "must have the name of an environment variable in ${…}, or file: and the name of a file, got \"A B\"; write $${ for ${ itself",
            ),
            (
                "${NOBODY}",
                "the environment variable NOBODY is not set, or no UTF-8: set it where the gateway is started",
            ),
        ] {
            assert_eq!(text(wrong), Err(said.to_owned()));
        }
    }

    #[test]
    fn faults_are_where_the_text_is() {
        let policy = |text: &str| {
            parse_from(
                text,
                "p.toml",
                &mut Names::default(),
                Outside { environment: &of, disk: false },
            )
        };
        let text = "[origin]\nservers = [\"${HOST}:${PORT}\"]\n[[class]]\nname = \"a\"\n";
        let read = policy(text).expect("it is right");
        assert_eq!(read.origin.servers.len(), 1);
        let wrong = text.replace("${PORT}", "${NOBODY}").replace("\"a\"", "\"${PORT}x\"");
        let said = policy(&wrong).expect_err("one is not set").to_string();
        assert!(
            said.starts_with("p.toml:2:12: origin.servers[1]: the environment variable NOBODY"),
            "{said}"
        );
        // What is put in is checked as if it stood there.
        let wrong = text.replace("${PORT}", "${EMPTY}");
        assert!(
            policy(&wrong)
                .expect_err("no port")
                .to_string()
                .starts_with("p.toml:2:12: origin.servers[1]: must be")
        );
    }
}
