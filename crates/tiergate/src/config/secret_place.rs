//! Where a policy may have a secret of a file (`${file:…}`): in what is compared with what clients send, or sent to servers, and is repeated
//! only in texts from which secrets are taken out; and how it is written there, so that each of its characters stands for itself.

/// How a secret is written in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// As it is.
    Plain,
    /// In a pattern, of which `*`, `?` and `\` are not meant.
    Pattern,
    /// In a regular expression.
    Regex,
}

/// How a secret is written in the value of a key, such as `rule[2].header.x-key`; `None`: it may not stand there, since names and files are shown in
/// logs and metrics, and answers to everyone.
pub(super) fn written(key: &str) -> Option<Written> {
    let mut steps = key.split('.').map(|step| step.split('[').next().unwrap_or_default());
    let mut next = || steps.next().unwrap_or_default();
    match [next(), next(), next()] {
        ["rule", "header" | "cookie" | "query" | "path" | "subject" | "certificate", _] => {
            Some(Written::Pattern)
        }
        ["rule", "path_regex", ""] => Some(Written::Regex),
        ["token", "audience" | "issuer", ""]
        | ["origin" | "pool", "health", "path"]
        | ["origin" | "pool", "workers", "command"] => Some(Written::Plain),
        _ => None,
    }
}

impl Written {
    /// The secret as it is written.
    pub(super) fn of(self, secret: &str) -> String {
        let special = match self {
            Written::Plain => return secret.to_owned(),
            Written::Pattern => "*?\\",
            Written::Regex => "\\.+*?()|[]{}^$#&-~",
        };
        let mut text = String::with_capacity(secret.len());
        for letter in secret.chars() {
            match letter {
                // Under (?x) a space stands for nothing.
                ' ' if self == Written::Regex => text.push_str("\\x20"),
                letter => {
                    text.extend(special.contains(letter).then_some('\\'));
                    text.push(letter);
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiergate_core::classify::PathRegex;
    use tiergate_core::classify::pattern::Pattern;

    #[test]
    fn secrets_stand_where_they_are_not_shown() {
        for (key, expected) in [
            ("rule[2].header.x-key", Some(Written::Pattern)),
            ("rule[2].header.\"a.b\"[3]", Some(Written::Pattern)),
            ("rule[1].path", Some(Written::Pattern)),
            ("rule[1].path_regex[2]", Some(Written::Regex)),
            ("token.issuer", Some(Written::Plain)),
            ("pool[2].health.path", Some(Written::Plain)),
            ("origin.workers.command[3]", Some(Written::Plain)),
            ("access_log.path", None),
            ("refusal.page_html", None),
            ("origin.servers[1]", None),
            ("class[1].name", None),
            ("rule[1].refuse.redirect", None),
            ("rule[1].name", None),
            ("", None),
        ] {
            assert_eq!(written(key), expected, "{key}");
        }
    }

    #[test]
    fn each_letter_stands_for_itself() {
        let secret = "/a*b?c\\d.e+f(g)[h]{2}^$|# &-~";
        let written = Written::Pattern.of(secret);
        assert_eq!(Pattern::value(&written), Ok(Pattern::Exact(secret.as_bytes().into())));
        let written = format!("(?x)^{}$", Written::Regex.of(secret));
        let regex = PathRegex::parse(&written).expect("a regular expression");
        assert!(regex.matches(secret.as_bytes()), "{written}");
        assert!(!regex.matches(b"/aXb?c\\d.e+f(g)[h]{2}^$|# &-~"), "{written}");
        assert_eq!(Written::Plain.of(secret), secret);
    }
}
