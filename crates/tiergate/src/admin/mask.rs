//! The policy's text without its secrets.

use crate::userinfo;
use toml_edit::visit_mut::VisitMut;
use toml_edit::{DocumentMut, Formatted, Item, KeyMut};

/// What replaces a secret.
const MASK: &str = "(masked)";

/// Words that make a key's values secret when they are part of it.
const SECRET_PARTS: [&str; 7] =
    ["secret", "password", "passwd", "token", "api-key", "apikey", "credential"];
/// Keys whose values, and all values below them, are secret: a value that a rule compares with a client's
/// credentials is one.
const SECRET_KEYS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];

/// The text with every secret string replaced; comments and layout stay. Text that is not TOML is
/// withheld altogether.
pub(super) fn masked(text: &str) -> String {
    let Ok(mut document) = text.parse::<DocumentMut>() else {
        return "# withheld: the text is not valid TOML\n".to_owned();
    };
    Masker::default().visit_document_mut(&mut document);
    let text = document.to_string();
    text.split_inclusive('\n').map(mask_comment).collect()
}

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('_', "-");
    SECRET_KEYS.contains(&key.as_str()) || SECRET_PARTS.iter().any(|part| key.contains(part))
}

/// Replaces secret strings.
#[derive(Default)]
struct Masker {
    /// A key above is secret.
    secret: bool,
}

impl VisitMut for Masker {
    fn visit_table_like_kv_mut(&mut self, key: KeyMut<'_>, item: &mut Item) {
        let outer = self.secret;
        self.secret |= is_secret(key.get());
        self.visit_item_mut(item);
        self.secret = outer;
    }

    // Strings only: numbers and times set bounds, and are no secrets.
    fn visit_string_mut(&mut self, text: &mut Formatted<String>) {
        if self.secret || userinfo::has_password(text.value()) {
            let decor = text.decor().clone();
            *text = Formatted::new(MASK.to_owned());
            *text.decor_mut() = decor;
        }
    }
}

/// A setting that was commented out is still a setting.
fn mask_comment(line: &str) -> String {
    let Some((before, comment)) = line.split_once('#') else {
        return line.to_owned();
    };
    let Some((key, _)) = comment.split_once('=') else {
        return line.to_owned();
    };
    let own_line = before.trim().is_empty();
    let parts = key.split(['.', ' ', '"', '\'', '{']);
    let secret = parts.into_iter().any(is_secret);
    if own_line && secret { format!("{before}#{key}= {MASK}\n") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
# The shop's policy.
[origin]
servers = ["http://user:hush@10.0.0.5:8080", "10.0.0.6:8080"]  # two
# password = "hush"

[[rule]]
cookie.session = "hush"
header.authorization = 'Bearer hush'
header.x-api-key = ["hush", "hush"]
header = { X-Auth-Token = """
hush""", sec-purpose = "prefetch" }
class = "checkout"

[rule.cookie.deep]
name = "hush"

[limits]
tokens_max = 5
"#;

    #[test]
    fn secrets_go_and_everything_else_stays() {
        let text = POLICY.replace("header = {", "headers = {");
        let shown = masked(&text);
        assert!(!shown.contains("hush"), "{shown}");
        for kept in [
            "# The shop's policy.",
            "\"10.0.0.6:8080\"]  # two",
            "sec-purpose = \"prefetch\"",
            "class = \"checkout\"",
            "tokens_max = 5",
            "cookie.session = \"(masked)\"",
            "[rule.cookie.deep]",
        ] {
            assert!(shown.contains(kept), "{kept} is missing in\n{shown}");
        }
    }

    #[test]
    fn a_text_without_secrets_is_shown_as_it_is() {
        let text = "[[class]]\nname = \"a\"   # odd   spacing\n\n\n[origin]\nservers=['b:1']\n";
        assert_eq!(masked(text), text);
        assert_eq!(masked(""), "");
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        assert!(!masked("password = 'hush").contains("hush"));
    }
}
