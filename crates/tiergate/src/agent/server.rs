//! What is answered to gateways.

use super::board::Board;
use crate::admin::{AdminTokens, guard};
use crate::clock;
use crate::seldom::Seldom;
use crate::sensors::remote::PATH;
use crate::side_http::{self, Answer, Crowd, JSON, Known, plain, respond};
use arc_swap::ArcSwap;
use http::header::{ALLOW, CONNECTION, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, StatusCode};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is logged at most that somebody had no token.
const COMPLAINT: Duration = Duration::from_secs(60);

/// Who may read.
#[derive(Debug)]
pub(crate) struct Access {
    /// The tokens, one of which a request must present; none: everybody who can connect may read.
    pub(crate) tokens: ArcSwap<AdminTokens>,
    /// Whether only this machine can connect.
    pub(crate) is_local: bool,
    pub(crate) complaint: Seldom,
}

/// Answers until dropped.
///
/// # Errors
/// If the socket cannot be used with the runtime.
pub(crate) async fn serve(
    listener: TcpListener,
    board: Arc<Board>,
    access: Arc<Access>,
) -> io::Result<()> {
    side_http::serve(listener, "the agent", Crowd::Strangers, move |request, peer| {
        let answer = answer(&board, &access, &request, peer);
        async move { answer }
    })
    .await
}

fn answer<B>(board: &Board, access: &Access, request: &Request<B>, peer: SocketAddr) -> Answer {
    if access.is_local && !guard::host_is_local(request) {
        let text = "this listener answers to localhost and to addresses only\n";
        return plain(StatusCode::MISDIRECTED_REQUEST, text);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "allowed: GET, HEAD\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match request.uri().path() {
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        PATH => {
            let tokens = access.tokens.load();
            if !tokens.is_empty() && !tokens.allow_bearer(request.headers()) {
                if access.complaint.is_due(clock::now(), COMPLAINT) {
                    tracing::warn!("{peer} asked for the readings without the right token");
                }
                let text = "send the agent's token: `Authorization: Bearer …`\n";
                let mut answer = plain(StatusCode::UNAUTHORIZED, text);
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                // It has no business here, and others may wait for its place.
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                return answer;
            }
            let text = serde_json::to_vec(&board.answer(Instant::now()));
            let mut answer =
                respond(StatusCode::OK, JSON, text.expect("plain data with text keys"));
            answer.extensions_mut().insert(Known);
            answer
        }
        _ => plain(StatusCode::NOT_FOUND, "nothing here; see /readings\n"),
    }
}
