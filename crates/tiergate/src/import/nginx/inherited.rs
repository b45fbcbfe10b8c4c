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
}

/// Directives that let pass only requests with a password, or with the consent of another server.
pub(super) const GUARDS: [&str; 4] = ["auth_basic", "auth_request", "auth_jwt", "auth_oidc"];
