//! `return`, `if` and `rewrite`: what is answered without a server, and the conditions of what goes on.

use super::super::draft::quoted;
use super::asked::{Asked, asked};
use super::expression::path_expression;
use super::grammar::Directive;
use super::reasons::{left_out, why};
use super::server::{Condition, Here, and};

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
                        if others.is_some() {
                            conditions.pop();
                            self.refuse(conditions, &it.from);
                        }
                        return None;
                    };
                    self.refuse(&own, &it.from);
                }
                "rewrite" => self.draft.less_safe(&it.from, why("rewrite")),
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
        let answer = it.block.iter().find(|it| it.name == "return" || redirects(it));
        let Some(answer) = answer else {
            self.draft.note(&it.from, why("if"));
            for line in &it.block {
                match line.name.as_str() {
                    "rewrite" => self.draft.less_safe(&line.from, why("rewrite")),
                    _ => left_out(line, self.draft),
                }
            }
            return Some(());
        };
        let is_guard = code_and_text(answer).0.starts_with(['4', '5']);
        let Some(Asked { is_refused, condition: (key, value), less_safe }) =
            asked(&it.arguments, is_guard)
        else {
            return self.unasked(it, answer, conditions, others);
        };
        let own = and(conditions, (key, value, it.from.clone()));
        match own {
            Some(own) if is_refused => self.refused(answer, &own),
            // What is not so goes on; one such condition is enough to keep.
            Some(own) if others.is_none() => {
                *conditions = own;
                *others = Some(answer);
            }
            _ => return self.unasked(it, answer, conditions, others),
        }
        if let Some(why) = less_safe {
            self.draft.less_safe(&it.from, why);
        }
        Some(())
    }

    /// `if` with a condition that rules do not have. `None` if everything is refused because of it.
    fn unasked<'d>(
        &mut self,
        it: &'d Directive,
        answer: &'d Directive,
        conditions: &mut Vec<Condition>,
        others: &Option<&'d Directive>,
    ) -> Option<()> {
        let is_secured = ["scheme", "https", "server_port"];
        let is_kept =
            it.arguments.iter().all(|it| is_secured.iter().all(|word| !it.contains(word)));
        if is_kept && (answer.name == "rewrite" || is_redirect(answer)) {
            self.draft.less_safe(&it.from, "rules have conditions, but none for this: what nginx redirects is let pass; if that is to a login, let the origin send there, or write a [[rule]]");
            return Some(());
        }
        if others.is_some() {
            conditions.pop();
        }
        self.refuse(conditions, &answer.from);
        self.draft.stricter(&it.from, "rules have conditions, but none for this: everything is refused here until you write a [[rule]] for what it refuses");
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
