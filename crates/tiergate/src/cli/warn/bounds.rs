//! Warnings of bounds that are never reached, because another is below them, and of settings that nothing asks for.

use super::naming::name;
use crate::config::meant::{ClientCertificate, Policy, PolicyRule, Tls};
use crate::config::show;
use std::time::Duration;
use tiergate_core::admit::trigger::Backlogs;
use tiergate_core::class::{Class, Late};
use tiergate_core::classify::flow::Flow;
use tiergate_core::request::Part;

/// What is said of them.
pub(super) fn bounds(policy: &Policy) -> Vec<String> {
    let mut warnings = Vec::new();
    let limits = &policy.limits;
    let bytes = |bytes: usize| show::bytes(bytes as u64);
    let buffering = policy.buffering;
    for (key, own) in
        [("buffer_request", buffering.request_max), ("buffer_response", buffering.response_max)]
    {
        // 0 switches buffers off.
        if limits.buffers_max > 0 && own > limits.buffers_max {
            warnings.push(format!(
                "forwarding.{key}, {}, is more than limits.buffers_max, {}, which is for all requests together: the first slow client takes it all",
                bytes(own),
                bytes(limits.buffers_max)
            ));
        }
    }
    if let Some(spooling) = &policy.spooling
        && spooling.request_max > limits.spool_max as u64
    {
        warnings.push(format!(
            "forwarding.spool_request, {}, is more than limits.spool_max, {}, which is for all requests together: the first long upload takes it all",
            show::bytes(spooling.request_max),
            bytes(limits.spool_max)
        ));
    }
    if policy.wanted.copies && limits.stored_body_max > limits.stored_max {
        warnings.push(format!(
            "limits.stored_body_max, {}, is never reached: all copies together have limits.stored_max, {}",
            bytes(limits.stored_body_max),
            bytes(limits.stored_max)
        ));
    }
    let waiting_max = policy.plan.queue_len_max;
    for class in &policy.plan.classes {
        if class.queue_len_max > waiting_max && class.queue_len_max != Class::QUEUE_LEN_MAX_DEFAULT
        {
            warnings.push(format!(
                "class {}: its queue of {} is never full: scheduling.queue lets {waiting_max} of all classes wait",
                class.name, class.queue_len_max
            ));
        }
    }
    warnings.extend(policy.plan.classes.iter().flat_map(|class| idle_refusals(class, policy)));
    warnings.extend(policy.rules.iter().filter_map(|rule| useless_deadline(rule, policy)));
    warnings.extend(idle_proofs(policy));
    warnings
}

/// What is to refuse requests of a class, and comes too late for it.
fn idle_refusals(class: &Class, policy: &Policy) -> Vec<String> {
    let (name, plan) = (&class.name, &policy.plan);
    let mut warnings = Vec::new();
    let of_rules = policy.rules.iter().filter_map(|it| it.rule.deadline);
    let deadline = of_rules.fold(class.deadline, Duration::max);
    // Late ones wait until twice their deadline.
    let longest = if class.late == Late::Refuse { deadline } else { deadline * 2 };
    if let Some(codel) = class.codel
        && codel.target >= longest
    {
        warnings.push(format!(
            "class {name}: codel has no effect: its target, {}, is not below {}, after which no request waits",
            show::time(codel.target),
            show::time(longest)
        ));
    }
    for trigger in &class.refuse_at {
        let queue = |class: &Class| u64::from(class.queue_len_max);
        let sum: u64 = match &trigger.of {
            Backlogs::All => plan.classes.iter().map(queue).sum(),
            Backlogs::Of(ids) => ids.iter().filter_map(|id| plan.class(*id)).map(queue).sum(),
        };
        let most = sum.min(u64::from(plan.queue_len_max));
        if u64::from(trigger.waiting) > most {
            warnings.push(format!(
                "class {name}: refuse_at = {} is never reached: at most {most} wait in that backlog",
                trigger.waiting
            ));
        }
    }
    warnings
}

/// A rule that says how long requests wait that never do.
fn useless_deadline(rule: &PolicyRule, policy: &Policy) -> Option<String> {
    rule.rule.deadline?;
    let class = policy.plan.class(rule.rule.class?)?;
    (class.queue_len_max == 0).then(|| {
        format!(
            "{}: its deadline has no effect: requests of class {} never wait, by queue = 0",
            name(rule),
            class.name
        )
    })
}

/// What clients prove, and nothing asks for: who takes that for protection is mistaken.
fn idle_proofs(policy: &Policy) -> Vec<String> {
    let mut warnings = Vec::new();
    let conditions = || policy.rules.iter().flat_map(|rule| &rule.rule.conditions);
    let of_rules = policy.rules.iter().filter_map(|rule| rule.rule.flow.as_ref());
    let flows =
        |flow: Flow| policy.classifier.flows().chain(of_rules.clone()).any(|it| *it == flow);
    let asks = |part: Part| conditions().any(|one| *one.part() == part);
    let identity = &policy.identity;
    let has_subjects = identity.token.is_some() || !identity.keys.is_empty();
    if has_subjects && !asks(Part::Subject) && !flows(Flow::Subject) {
        let key = if identity.token.is_some() { "[token]" } else { "[[key]]" };
        warnings.push(format!(
            "{key} has no effect: requests without a valid one are served as well, and no rule asks for `subject`, nor is it a flow; write rules that do"
        ));
    }
    let is_optional = |tls: &Tls| {
        let client = tls.client.as_ref();
        client.is_some_and(|it| it.certificate == ClientCertificate::Optional)
    };
    let listener = policy.listeners.iter().find(|it| it.tls.as_ref().is_some_and(is_optional));
    if let Some(listener) = listener
        && !asks(Part::Certificate)
    {
        warnings.push(format!(
            "listener {}: tls.client_ca has no effect: clients without a certificate are served as well, and no rule asks for `certificate`; write client = \"required\", or rules that do",
            listener.shown()
        ));
    }
    warnings
}
