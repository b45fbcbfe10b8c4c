//! `return`, `if` and `rewrite`: what is answered without a server, and the conditions of what goes on.

use super::super::draft::{listed, literal, quoted};
use super::grammar::Directive;
use super::http::key_of;
use super::reasons::why;
use super::server::{Condition, Here};

impl Here<'_> {
    /// `return`, `if` and `rewrite`, in order, with what further conditions the requests have that go on, and the answer to all others.
    /// `None` if none goes on.
    pub(super) fn rewritten<'d>(
        &mut self,
        list: &'d [Directive],
        conditions: &mut Vec<Condition>,
    ) -> Option<Option<&'d Directive>> {
        let mut others = None;
        for it in list {
            match it.name.as_str() {
                "return" => {
                    self.refused(it, conditions);
                    if let Some(answer) = others {
                        conditions.pop();
                        self.refused(answer, conditions);
                    }
                    return None;
                }
                "rewrite" if redirects(it) => {
                    self.draft.stricter(&it.from, "redirects to addresses made of the request: refused until the origin sends them");
                    let mut own = conditions.clone();
                    let is_whole = [
                        "^", "^/", ".*", "^.*", "^.*$", "(.*)", "^(.*)", "^(.*)$", "^/(.*)",
                        "^/(.*)$",
                    ]
                    .contains(&it.argument(0));
                    if !is_whole && own.iter().all(|it| it.0 != "path_regex") {
                        own.push((
                            "path_regex".to_owned(),
                            quoted(it.argument(0)),
                            it.from.clone(),
                        ));
                    }
                    self.refuse(&own, &it.from);
                    if own.len() == conditions.len() {
                        if others.is_some() {
                            conditions.pop();
                            self.refuse(conditions, &it.from);
                        }
                        return None;
                    }
                }
                "rewrite" => self.draft.note(&it.from, why("rewrite")),
                "if" => self.when(it, conditions, &mut others)?,
                _ => {}
            }
        }
        Some(others)
    }

    /// `if`. `None` if everything is refused because of it.
    fn when<'d>(
        &mut self,
        it: &'d Directive,
        conditions: &mut Vec<Condition>,
        others: &mut Option<&'d Directive>,
    ) -> Option<()> {
        let text = it.arguments.join(" ");
        let answer = it.block.iter().find(|it| it.name == "return" || redirects(it));
        let Some(answer) = answer else {
            self.draft.note(&it.from, why("if"));
            return Some(());
        };
        let is_kept = ["scheme", "https", "server_port"].iter().all(|it| !text.contains(it));
        if is_kept && (answer.name == "rewrite" || is_redirect(answer)) {
            self.draft.note(&it.from, why("if"));
            return Some(());
        }
        let condition = asked(&text).filter(|(_, key, _)| conditions.iter().all(|it| it.0 != *key));
        match condition {
            Some((true, key, value)) => {
                let mut own = conditions.clone();
                own.push((key, value, it.from.clone()));
                self.refused(answer, &own);
            }
            // What is not so goes on; one such condition is enough to keep.
            Some((false, key, value)) if others.is_none() => {
                conditions.push((key, value, it.from.clone()));
                *others = Some(answer);
            }
            _ => {
                if others.is_some() {
                    conditions.pop();
                }
                self.refuse(conditions, &answer.from);
                self.draft.stricter(&it.from, "rules have conditions, but none for this: everything is refused here until you write a [[rule]] for what it refuses");
                return None;
            }
        }
        Some(())
    }

    /// `return`.
    pub(super) fn refused(&mut self, it: &Directive, conditions: &[Condition]) {
        let mut rule = self.rule(conditions);
        let (code, text) = code_and_text(it);
        match code {
            "403" | "404" | "410" | "451" | "429" | "503" => rule.key("refuse", code, &it.from),
            "301" | "302" | "303" | "307" | "308" if !text.contains('$') => {
                rule.key(
                    "refuse",
                    format!("{{ status = {code}, redirect = {} }}", quoted(text)),
                    &it.from,
                );
            }
            "301" | "302" | "303" | "307" | "308" => {
                rule.key("refuse", 404, &it.from);
                self.draft.stricter(
                    &it.from,
                    "redirects to addresses made of the request: refused until the origin sends them, or a redirect to a fixed address stands there",
                );
            }
            "444" => {
                rule.key("refuse", 403, &it.from);
                self.draft.note(&it.from, "closes without an answer: it is refused by 403; refusal.connection = \"reset\" closes all refused connections");
            }
            _ => {
                rule.key("refuse", 404, &it.from);
                self.draft.stricter(&it.from, "Tiergate answers by no other status than 403, 404, 410, 451, 429, 503 and redirects: let the origin answer; until then 404");
            }
        }
        self.servers.rules.push(rule);
    }
}

fn code_and_text(it: &Directive) -> (&str, &str) {
    match it.arguments.len() {
        1 if it.argument(0).contains("://") => ("302", it.argument(0)),
        _ => (it.argument(0), it.argument(1)),
    }
}

fn is_redirect(it: &Directive) -> bool {
    it.name == "return" && code_and_text(it).0.starts_with('3')
}

/// Whether a `rewrite` ends in a redirect.
fn redirects(it: &Directive) -> bool {
    let to = it.argument(1);
    let flag = matches!(it.argument(2), "permanent" | "redirect");
    it.name == "rewrite"
        && (flag
            || to.starts_with("http://")
            || to.starts_with("https://")
            || to.starts_with("$scheme"))
}

/// The condition of an `if`, if a rule can have it: whether it holds for what is answered or for all else, its key and value.
fn asked(text: &str) -> Option<(bool, String, String)> {
    let text = text.strip_prefix('(')?.strip_suffix(')')?.trim();
    let mut words = text.splitn(3, ' ');
    let (variable, operator, value) = (words.next()?, words.next()?, words.next()?.trim());
    if (variable, operator, value) == ("$ssl_client_verify", "!=", "SUCCESS") {
        return Some((false, "certificate".to_owned(), "true".to_owned()));
    }
    let key = key_of(variable)?;
    let is_text = !value.contains('$') && !value.is_empty();
    match operator {
        "=" if is_text => Some((true, key, quoted(&literal(value)))),
        "!=" if is_text => Some((false, key, quoted(&literal(value)))),
        "~" | "~*" if key == "path" => {
            let flags = if operator == "~*" { "(?i)" } else { "" };
            Some((true, "path_regex".to_owned(), quoted(&format!("{flags}{value}"))))
        }
        "!~" if key == "method" => {
            let list = value.strip_prefix("^(")?.strip_suffix(")$")?;
            let names: Vec<&str> = list.split('|').collect();
            let are_names = names.iter().all(|it| it.bytes().all(|it| it.is_ascii_uppercase()));
            are_names.then(|| (false, key, listed(&names)))
        }
        _ => None,
    }
}
