//! `return`, `if` and `rewrite`: what is answered without a server, and the conditions of what goes on.

use super::super::draft::quoted;
use super::asked::{Asked, asked};
use super::expression::path_expression;
use super::grammar::Directive;
use super::reasons::{left_out, why};
use super::server::{Condition, Here, and};

/// Requests that an `if` lets not go on: the conditions before it, and what answers those that do not have its own.
pub(super) struct Other<'d> {
    conditions: Vec<Condition>,
    answer: &'d Directive,
}

/// Why a condition cannot be asked for.
const UNKNOWN: &str = "rules have conditions, but none for this";
const SECOND: &str = "a rule has one condition of a kind, and another one of this kind holds here";

impl Here<'_> {
    /// `return`, `if` and `rewrite`, in order, with what further conditions the requests have that go on, and what answers all others.
    /// `None` if none goes on.
    pub(super) fn rewritten<'d>(
        &mut self,
        list: &'d [Directive],
        conditions: &mut Vec<Condition>,
    ) -> Option<Vec<Other<'d>>> {
        let mut others = Vec::new();
        for (index, it) in list.iter().enumerate() {
            match it.name.as_str() {
                "return" => {
                    self.refused(it, conditions);
                    self.otherwise(&others);
                    return None;
                }
                "rewrite" if redirects(it) => {
                    self.draft.stricter(&it.from, "redirects to addresses made of the request: refused until the origin sends them");
                    let is_whole = [
                        "^", "^/", ".*", "^.*", "^.*$", "(.*)", "^(.*)", "^(.*)$", "^/(.*)",
                        "^/(.*)$",
                    ]
                    .contains(&it.argument(0));
                    let holds = path_expression(it.argument(0), false).filter(|_| !is_whole);
                    let own = holds.and_then(|text| {
                        and(conditions, ("path_regex".to_owned(), quoted(&text), it.from.clone()))
                    });
                    let Some(own) = own else {
                        self.refuse(conditions, &it.from);
                        self.otherwise(&others);
                        return None;
                    };
                    self.refuse(&own, &it.from);
                }
                "rewrite" => self.draft.less_safe(&it.from, why("rewrite")),
                "if" => {
                    let ends = list[index + 1..].iter().any(|it| it.name == "return");
                    self.when(it, ends, conditions, &mut others)?;
                }
                _ => {}
            }
        }
        Some(others)
    }

    /// Answers the requests that do not go on: the last `if` first, to which only those come that the others let go on.
    pub(super) fn otherwise(&mut self, others: &[Other<'_>]) {
        for it in others.iter().rev() {
            self.refused(it.answer, &it.conditions);
        }
    }

    /// `if`; `ends`: all that goes on is answered by a `return`. `None` if everything is refused because of it.
    fn when<'d>(
        &mut self,
        it: &'d Directive,
        ends: bool,
        conditions: &mut Vec<Condition>,
        others: &mut Vec<Other<'d>>,
    ) -> Option<()> {
        let answer = it.block.iter().find(|it| it.name == "return" || redirects(it));
        let Some(answer) = answer else {
            self.unanswered(it);
            return Some(());
        };
        for line in it.block.iter().filter(|it| it.name == "include") {
            left_out(line, self.draft);
        }
        let is_guard = code_and_text(answer).0.starts_with(['4', '5']);
        let Some(Asked { is_refused, condition: (key, value), less_safe }) =
            asked(&it.arguments, is_guard)
        else {
            return self.unasked(it, answer, (UNKNOWN, ends), conditions, others);
        };
        let condition = (key, value, it.from.clone());
        let hosts = conditions.iter().position(|it| it.0 == "host" && condition.0 == "host");
        let own = match hosts {
            None => and(conditions, condition),
            Some(at) if has(&conditions[at].1, &condition.1) => {
                let mut own = conditions.clone();
                own[at] = condition;
                Some(own)
            }
            // No request here has this host.
            Some(_) if is_refused => return Some(()),
            Some(_) => {
                self.refused(answer, conditions);
                self.otherwise(others);
                return None;
            }
        };
        let Some(own) = own else {
            return self.unasked(it, answer, (SECOND, ends), conditions, others);
        };
        if is_refused {
            self.refused(answer, &own);
        } else {
            // What is not so goes on.
            let conditions = std::mem::replace(conditions, own);
            others.push(Other { conditions, answer });
        }
        if let Some(why) = less_safe.filter(|_| !ends) {
            self.draft.less_safe(&it.from, why);
        }
        Some(())
    }

    /// `if` that answers nothing.
    fn unanswered(&mut self, it: &Directive) {
        self.draft.note(&it.from, why("if"));
        for line in &it.block {
            match line.name.as_str() {
                "rewrite" => self.draft.less_safe(&line.from, why("rewrite")),
                "proxy_pass" => self.draft.less_safe(&line.from, "these requests go to the server of all others here: write a [[rule]] with their condition and pool"),
                _ => left_out(line, self.draft),
            }
        }
    }

    /// `if` with a condition that rules cannot have, and why, and whether all that goes on is answered by a `return`. `None` if everything is refused because of it.
    fn unasked(
        &mut self,
        it: &Directive,
        answer: &Directive,
        (why, ends): (&str, bool),
        conditions: &[Condition],
        others: &[Other<'_>],
    ) -> Option<()> {
        let is_secured = ["scheme", "https", "server_port"];
        let is_kept =
            it.arguments.iter().all(|it| is_secured.iter().all(|word| !it.contains(word)));
        if is_kept && (answer.name == "rewrite" || is_redirect(answer)) {
            if ends {
                self.draft.stricter(&it.from, &format!("{why}: what nginx redirects gets the answer of all else here; let the origin send there, or write a [[rule]]"));
            } else {
                self.draft.less_safe(&it.from, &format!("{why}: what nginx redirects is let pass; if that is to a login, let the origin send there, or write a [[rule]]"));
            }
            return Some(());
        }
        self.refuse(conditions, &answer.from);
        self.otherwise(others);
        self.draft.stricter(
            &it.from,
            &format!(
                "{why}: everything is refused here until you write a [[rule]] for what it refuses"
            ),
        );
        None
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

/// Whether a host, as TOML, is one of others.
fn has(hosts: &str, host: &str) -> bool {
    let texts = |value: &str| -> Vec<String> {
        let one = serde_json::from_str(value).map(|one: String| vec![one]);
        one.or_else(|_| serde_json::from_str(value)).unwrap_or_default()
    };
    let host = texts(host).pop().unwrap_or_default();
    let is_in = |it: &String| {
        *it == host || it.strip_prefix('*').is_some_and(|below| host.ends_with(below))
    };
    texts(hosts).iter().any(is_in)
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
