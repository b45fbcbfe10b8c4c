//! How a rule is called in warnings.

use crate::config::meant::PolicyRule;

pub(super) fn name(rule: &PolicyRule) -> String {
    format!("rule {} ({})", rule.label(), rule.place())
}
