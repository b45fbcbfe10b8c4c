//! `allow`, `deny` and what asks for a password: which clients a location serves, and the rules that serve them.

use super::super::draft::{From, quoted};
use super::grammar::Directive;
use super::inherited::Inherited;
use super::server::{Condition, Here};

/// What a location does with requests that it admits.
pub(super) struct Serving<'d> {
    pub(super) pools: Vec<(Option<Condition>, Option<String>)>,
    pub(super) policed: Vec<(Option<Condition>, String, From)>,
    pub(super) resource: Option<(String, From)>,
    pub(super) location: &'d Directive,
    pub(super) target: &'d Directive,
}

impl Here<'_> {
    /// The rules of clients that may, and of those that may not.
    pub(super) fn access(
        &mut self,
        conditions: &[Condition],
        inherited: &Inherited<'_>,
        serving: &Serving<'_>,
    ) {
        for guard in &inherited.guards {
            self.draft.stricter(&guard.from, "clients are recognised by [[key]] and [token], and passwords are for the origin: refused until a rule lets pass what may");
        }
        let guard = inherited.guards.first();
        if let Some(guard) = guard.filter(|_| !inherited.satisfy_any) {
            return self.refuse(conditions, &guard.from);
        }
        // No listener is a UNIX socket.
        for line in inherited.access.iter().filter(|it| it.argument(0) != "unix:") {
            let who = line.argument(0);
            let client =
                (who != "all").then(|| ("client".to_owned(), quoted(who), line.from.clone()));
            if line.name == "allow" {
                self.admit(conditions, client, serving);
            } else {
                let mut rule = self.rule(conditions);
                match client {
                    Some((key, ..)) if rule.has(&key) => {}
                    Some((key, value, from)) => rule.key(&key, value, &from),
                    None => {}
                }
                rule.key("refuse", true, &line.from);
                self.servers.rules.push(rule);
            }
            if who == "all" {
                return;
            }
        }
        match guard {
            Some(guard) => self.refuse(conditions, &guard.from),
            None => self.admit(conditions, None, serving),
        }
    }

    /// The rules of clients that may.
    fn admit(
        &mut self,
        conditions: &[Condition],
        further: Option<Condition>,
        serving: &Serving<'_>,
    ) {
        for (condition, pool) in &serving.pools {
            for (exempt, police, from) in &serving.policed {
                let mut rule = self.rule(conditions);
                for (key, value, from) in further.iter().chain(condition).chain(exempt) {
                    if rule.has(key) {
                        self.refuse(conditions, from);
                        return self.draft.stricter(
                            from,
                            "two conditions of the same kind: refused until you write these rules by hand",
                        );
                    }
                    rule.key(key, value, from);
                }
                rule.key("class", "\"default\"", &serving.location.from);
                match pool {
                    Some(pool) => rule.key("pool", quoted(pool), &serving.target.from),
                    None => {
                        rule.key("refuse", 404, &serving.target.from);
                        self.servers.rules.push(rule);
                        break;
                    }
                }
                rule.key("police", police, from);
                match &serving.resource {
                    Some((name, from)) => rule.key("resource", quoted(name), from),
                    None if self.http.connection_zones.values().any(|all| *all) => {
                        rule.remark("resource", false, "no limit_conn of all requests here");
                    }
                    None => {}
                }
                self.servers.rules.push(rule);
            }
        }
    }
}
