//! What `server` and `location` inherit from the levels around them.

use super::grammar::Directive;

/// What inner levels inherit if they say nothing of their own.
#[derive(Clone, Default)]
pub(super) struct Inherited<'d> {
    pub(super) limit_req: Vec<&'d Directive>,
    pub(super) limit_conn: Vec<&'d Directive>,
    pub(super) access: Vec<&'d Directive>,
    /// What asks for a password or another's consent: each kind for itself.
    pub(super) guards: Vec<&'d Directive>,
    /// What has it serve nginx's own requests only.
    pub(super) internal: Option<&'d Directive>,
    /// Whether addresses that are allowed are not asked.
    pub(super) satisfy_any: bool,
    pub(super) status: Option<&'d Directive>,
    pub(super) dry_run: bool,
}

impl<'d> Inherited<'d> {
    pub(super) fn within(&self, list: &'d [Directive]) -> Self {
        let of = |names: &[&str], outer: &[&'d Directive]| -> Vec<&'d Directive> {
            let own: Vec<_> = list.iter().filter(|it| names.contains(&it.name.as_str())).collect();
            if own.is_empty() { outer.to_vec() } else { own }
        };
        let last = |name: &str| list.iter().rfind(|it| it.name == name);
        let mut guards = self.guards.clone();
        for it in list.iter().filter(|it| GUARDS.contains(&it.name.as_str())) {
            guards.retain(|before| before.name != it.name);
            guards.extend((it.argument(0) != "off").then_some(it));
        }
        Inherited {
            guards,
            internal: last("internal").or(self.internal),
            satisfy_any: last("satisfy").map_or(self.satisfy_any, |it| it.argument(0) == "any"),
            limit_req: of(&["limit_req"], &self.limit_req),
            limit_conn: of(&["limit_conn"], &self.limit_conn),
            access: of(&["allow", "deny"], &self.access),
            status: last("limit_req_status").or(self.status),
            dry_run: last("limit_req_dry_run").map_or(self.dry_run, |it| it.argument(0) == "on"),
        }
    }

    /// What holds for requests of one location that go on at another one: what both ask of clients, and the limits of the first that has some.
    /// `None` if both ask, and not for the same.
    pub(super) fn and_then(&self, next: &Self) -> Option<Self> {
        let asks = |it: &Self| !(it.access.is_empty() && it.guards.is_empty());
        let is_same = are_same(&self.access, &next.access)
            && are_same(&self.guards, &next.guards)
            && self.satisfy_any == next.satisfy_any;
        let asking = match (asks(self), asks(next)) {
            _ if is_same => next,
            (_, false) => self,
            (false, true) => next,
            (true, true) => return None,
        };
        let limiting = if self.limit_req.is_empty() { next } else { self };
        let bounding = if self.limit_conn.is_empty() { next } else { self };
        Some(Inherited {
            limit_req: limiting.limit_req.clone(),
            limit_conn: bounding.limit_conn.clone(),
            access: asking.access.clone(),
            guards: asking.guards.clone(),
            internal: None,
            satisfy_any: asking.satisfy_any,
            status: limiting.status,
            dry_run: limiting.dry_run,
        })
    }
}

/// Whether these are the same lines.
fn are_same(some: &[&Directive], others: &[&Directive]) -> bool {
    some.len() == others.len()
        && some.iter().zip(others).all(|(it, other)| std::ptr::eq(*it, *other))
}

/// Directives that let pass only requests with a password, or with the consent of another server.
pub(super) const GUARDS: [&str; 4] = ["auth_basic", "auth_request", "auth_jwt", "auth_oidc"];
