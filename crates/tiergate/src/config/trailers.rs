//! Which names no trailer of a request may have: those of headers that mean something to the policy.
//!
//! A trailer comes when everything has been decided. An origin that puts trailers among the headers would believe there what the gateway has
//! not looked at: a key that was not checked, a header that a rule refuses, an id that is not the request's.

use super::policy::Policy;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::rule::Rule;
use tiergate_wire::http1::TrailerNames;

impl Policy {
    /// The names of the headers that rules look at, that flows are counted by, that carry keys, tokens and deadlines, and
    /// the one that carries the request's id.
    pub(crate) fn trailers_left_out(&self) -> TrailerNames {
        let of_rules = self.rules.iter().flat_map(|it| of_rule(&it.rule));
        let of_flows = self.classifier.flows().filter_map(of_flow);
        let of_keys = self.identity.keys.iter().map(|it| &*it.header);
        let of_tokens = self.identity.token.iter().map(|it| &*it.header);
        let of_ids = self.request_id.iter().map(|it| &*it.text);
        of_rules.chain(of_flows).chain(of_keys).chain(of_tokens).chain(of_ids).collect()
    }
}

fn of_rule(rule: &Rule) -> impl Iterator<Item = &str> {
    let of_conditions = rule.conditions.iter().flat_map(|it| it.fields());
    let of_flow = rule.flow.iter().filter_map(of_flow);
    of_conditions.chain(of_flow).chain(rule.deadline_header.as_deref())
}

fn of_flow(flow: &Flow) -> Option<&str> {
    match flow {
        Flow::Header(name) => Some(name),
        Flow::Client { .. } | Flow::Cookie(_) | Flow::Subject => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn what_the_policy_reads_in_a_header_is_no_trailer() {
        let policy = parse(
            r#"
            flow = "header:x-tenant"
            [origin]
            servers = ["127.0.0.1:1"]
            [[class]]
            name = "a"
            flow = "header:X-Seat"
            [[rule]]
            header.X-Plan = "gold"
            class = "a"
            flow = "header:x-user"
            [[rule]]
            urgency = 0
            class = "a"
            deadline_header = "X-Deadline"
            [[key]]
            name = "partners"
            header = "X-Partner"
            secret_file = "keys"
            [token]
            header = "X-Token"
            secret_file = "secrets"
            [request_id]
            header = "X-Trace"
            "#,
            "p.toml",
        );
        let names = policy.expect("a good policy").trailers_left_out();
        for name in [
            "x-tenant",
            "x-seat",
            "x-plan",
            "X_Plan",
            "x-user",
            "priority",
            "x-deadline",
            "x-partner",
            "x-token",
            "x-trace",
        ] {
            assert!(names.contains(name.as_bytes()), "{name}");
        }
        for name in ["x-sum", "content-md5", "x-request-id", "x-api-key"] {
            assert!(!names.contains(name.as_bytes()), "{name}");
        }
        let policy =
            parse("[origin]\nservers = [\"127.0.0.1:1\"]", "p.toml").expect("a good policy");
        assert_eq!(policy.trailers_left_out(), TrailerNames::default());
    }
}
