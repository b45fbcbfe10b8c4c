//! A request's body, read before the request asks for its slot: a client that is slow to send it holds
//! memory or a file of ours, and nothing of the origin's.

use super::facts::RequestFacts;
use super::fault::{Fault, TOO_LARGE, TOO_SLOW};
use super::limits::allowance;
use super::spool::Spool;
use crate::budget::Allowance;
use crate::client::seam::Client;
use crate::config::meant::Policy;
use crate::shared::{Config, Shared};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tiergate_wire::http1::Framing;

/// Whether a body that is not there yet is to be gathered.
///
/// Not so one that is known to be longer than what is gathered or spooled, of a client that waits to be told
/// whether it is wanted: it is not told before the request has its slot, and sends nothing that is refused.
pub(super) fn is_wanted(policy: &Policy, body: Framing, expects: bool) -> bool {
    let spooled = policy.spooling.as_ref().map_or(0, |spooling| spooling.request_max);
    let bound = spooled.max(policy.buffering.request_max as u64);
    let may_be_long = match body {
        Framing::Length(len) => len > bound,
        Framing::Chunked => false,
        Framing::None | Framing::UntilClose => return false,
    };
    bound > 0 && !(may_be_long && expects)
}

/// Reads the request's body: whole, or as much as there is memory for, which is nothing where there is none for its head. Where the
/// policy wants it, the rest of one that is not whole is spooled.
///
/// # Errors
/// What to answer, or the client's leaving.
pub(super) async fn gather<C: Client>(
    client: &mut C,
    shared: &Arc<Shared>,
    config: &Arc<Config>,
    facts: &RequestFacts,
) -> Result<(), Fault> {
    client.gathers(true);
    let gathered = read(client, shared, config, facts).await;
    client.gathers(false);
    gathered
}

async fn read<C: Client>(
    client: &mut C,
    shared: &Arc<Shared>,
    config: &Arc<Config>,
    facts: &RequestFacts,
) -> Result<(), Fault> {
    let policy = &config.policy;
    let bound = policy.buffering.request_max;
    let body_max = policy.limits.request_body_max;
    let most = match facts.body {
        Framing::Length(len) => usize::try_from(len).map_or(bound, |len| len.min(bound)),
        _ => bound,
    };
    let allowance = Allowance { own_max: usize::MAX, ..allowance(shared, policy) };
    if facts.expects {
        client.invite_body(facts, &policy.timeouts).await.map_err(Fault::Client)?;
    }
    // Of a connection's many heads, each counts while neither a queue nor a slot bounds them.
    let head_memory = client.head_memory();
    let head = allowance.take(0, head_memory);
    if head.is_none() && head_memory > 0 {
        Spool::has_no_memory(shared, policy);
        return Ok(());
    }
    loop {
        let gathered = client.gather(facts, most, &allowance)?;
        if body_max > 0 && gathered.len as u64 > body_max {
            return Err(TOO_LARGE);
        }
        if gathered.whole {
            return Ok(());
        }
        if !gathered.more || gathered.len >= bound {
            break;
        }
        client.timer().arm(policy.timeouts.request_body);
        poll_fn(|context| match client.poll_gather(context) {
            Poll::Ready(read) => Poll::Ready(read.map_err(Fault::Client)),
            Poll::Pending if client.timer().poll_expired(context) => Poll::Ready(Err(TOO_SLOW)),
            Poll::Pending => Poll::Pending,
        })
        .await?;
    }
    if facts.body.is_empty() {
        // Its end is still to come, and nothing else.
        return Ok(());
    }
    match Spool::new(shared, config) {
        Some(spool) => fill(client, shared, policy, facts, spool).await,
        None => Ok(()),
    }
}

/// Spools the body: whole, or as much as there is room for.
async fn fill<C: Client>(
    client: &mut C,
    shared: &Shared,
    policy: &Policy,
    facts: &RequestFacts,
    spool: Box<Spool>,
) -> Result<(), Fault> {
    let patience = policy.timeouts.request_body;
    client.spool(spool, facts, policy.limits.request_body_max);
    client.timer().arm(patience);
    poll_fn(|context| match client.poll_spool(patience, context) {
        Poll::Pending if client.timer().poll_expired(context) => {
            Poll::Ready(Err(match client.awaits_body() {
                true => TOO_SLOW,
                false => Spool::too_slow(shared),
            }))
        }
        polled => polled,
    })
    .await
}
