//! Answers of ours as HTTP/2 has them.

use super::payload::Payload;
use crate::client::streams::answer;
use crate::trace::ids::ToldId;
use h2::server::SendResponse;
use http::StatusCode;
use http::header::HeaderMap;
use std::sync::Arc;

/// Answers with an error of ours; `why` says what was wrong, without repeating what the client sent.
pub(super) fn send_error(
    respond: &mut SendResponse<Payload>,
    status: u16,
    why: &str,
    id: Option<ToldId<'_>>,
    head_only: bool,
) {
    let (headers, body) = answer::error(status, why, id);
    send(respond, status, headers, body.into(), head_only);
}

/// Answers a call by gRPC with an error of ours.
pub(super) fn send_call_error(
    respond: &mut SendResponse<Payload>,
    status: u16,
    why: &str,
    id: Option<ToldId<'_>>,
) {
    send(respond, 200, answer::call_error(status, why, id), "".into(), false);
}

/// Sends an answer of ours. What fails here fails because the stream is gone: there is no client to
/// tell.
pub(super) fn send(
    respond: &mut SendResponse<Payload>,
    status: u16,
    headers: HeaderMap,
    body: Arc<str>,
    head_only: bool,
) {
    let status = StatusCode::from_u16(status).expect("ours are statuses");
    let ends = head_only || body.is_empty();
    if let Ok(mut sending) = respond.send_response(answer::response(status, headers), ends)
        && !ends
    {
        let _ = sending.send_data(Payload::Text(body, 0), true);
    }
}
