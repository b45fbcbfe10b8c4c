//! One stream: a request and its answer.

use super::forward::{self, Forwarded, Journey};
use super::intake::Intake;
use super::payload::Payload;
use super::request::{self, Decision, Facts};
use super::tally::Tally;
use crate::account::{self, Record, Told};
use crate::budget::Allowance;
use crate::buffers;
use crate::clock;
use crate::config::meant::RefusalConnection;
use crate::decide::{self, Entry, Peer};
use crate::deliver::allowance;
use crate::http1::FieldTable;
use crate::link::Fault;
use crate::observe::counters::Protocol;
use crate::respond::{self, Advice, Format, Template};
use crate::shared::{Config, Shared};
use h2::server::SendResponse;
use h2::{Reason as Code, RecvStream};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use tiergate_core::gate::{Arrival, Refused};
use tiergate_core::outcome::End;
use tiergate_core::request::Field;

/// How a stream came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was answered, or we gave it up.
    ByUs,
    /// The client reset it, or the connection ended.
    ByClient,
}

/// Serves one stream.
pub(super) async fn run(
    request: Request<RecvStream>,
    respond: SendResponse<Payload>,
    peer: Arc<Peer>,
    shared: Arc<Shared>,
    tally: Arc<Tally>,
) {
    let ended = serve(request, respond, &peer, &shared, &tally).await;
    tally.end(ended == Ended::ByClient);
}

async fn serve(
    request: Request<RecvStream>,
    mut respond: SendResponse<Payload>,
    peer: &Peer,
    shared: &Shared,
    tally: &Tally,
) -> Ended {
    let mut config = shared.config.load_full();
    let (parts, body) = request.into_parts();
    let ends = body.is_end_stream();
    let mut intake = Intake::new(body);
    let mut record = Record::new(clock::recent());
    let mut gathered = false;
    let decision = loop {
        let decision = poll_fn(|context| {
            let ready = gathered || intake.poll_whole(context);
            let len = intake.len();
            let parts = &parts;
            Poll::Ready(request::decide(shared, &config, peer, parts, (ends, ready, len), context))
        })
        .await;
        let Decision::Gather(facts) = decision else { break decision };
        if let Err(fault) = gather(shared, &config, &facts, &mut intake, &mut respond).await {
            record.received_bytes = intake.len() as u64;
            let request = Asked { shared, config: &config, parts: &parts, facts: &facts };
            return request.give_up(&mut respond, fault, record);
        }
        gathered = true;
        // It may have taken long: what is in force now decides.
        config = shared.config.load_full();
    };
    match decision {
        Decision::Gather(_) => unreachable!("the loop above ends with a decision"),
        Decision::Bad(error) => {
            shared.tally().bad_request(error.status);
            let head_only = parts.method == http::Method::HEAD;
            send_error(&mut respond, error.status, error.why, head_only);
            Ended::ByUs
        }
        Decision::Refuse(facts, refused, format) => {
            let request = Asked { shared, config: &config, parts: &parts, facts: &facts };
            request.refuse(&mut respond, &refused, format, record, (tally, peer));
            Ended::ByUs
        }
        Decision::Go { facts, head, entry, format } => {
            let request = Asked { shared, config: &config, parts: &parts, facts: &facts };
            let allowance = allowance(shared, &config.policy);
            let goes_on = !facts.body.is_empty() && !intake.body.is_end_stream();
            let parked = goes_on.then(|| tally.parking.park(&allowance));
            let held = match entry {
                Entry::Now(held) => held,
                Entry::Later(waiting) => {
                    let gone = |context: &mut Context<'_>| respond.poll_reset(context).map(|_| ());
                    let settled = waiting.wait(&facts.arrival, gone).await;
                    match settled {
                        Some(Ok(held)) => held,
                        Some(Err(refused)) => {
                            buffers::keep_text(head);
                            record.waited = Some(clock::now().since(record.arrived));
                            let connection = (tally, peer);
                            request.refuse(&mut respond, &refused, format, record, connection);
                            return Ended::ByUs;
                        }
                        None => {
                            buffers::keep_text(head);
                            record.waited = Some(clock::now().since(record.arrived));
                            record.end = Some(End::Cancelled);
                            request.account(&record);
                            return Ended::ByClient;
                        }
                    }
                }
            };
            record.waited = Some(held.waited());
            record.received_bytes = head.len() as u64;
            let intake = (intake, parked);
            let journey = Journey::new(&config, &facts, record, held, intake, allowance, respond);
            let (forwarded, record) = forward::forward(journey, &head).await;
            buffers::keep_text(head);
            let ended = match forwarded {
                Forwarded::Ended(ended) => ended,
                Forwarded::Preempted(mut respond) => {
                    let refused = shared.door.broken_off(&facts.arrival);
                    let format = facts.may_be_broken_off.unwrap_or(format);
                    request.refuse(&mut respond, &refused, format, record, (tally, peer));
                    return Ended::ByUs;
                }
            };
            if matches!(record.end, Some(End::Served | End::Error)) {
                peer.standing.answer();
            }
            request.account(&record);
            ended
        }
    }
}

/// Reads the request's body before it asks for its slot; the client is told if it waits for that.
async fn gather(
    shared: &Shared,
    config: &Config,
    facts: &Facts,
    intake: &mut Intake,
    respond: &mut SendResponse<Payload>,
) -> Result<(), Fault> {
    if facts.expects && intake.len() == 0 {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::CONTINUE;
        // It fails if the stream is gone, which reading tells.
        let _ = respond.send_informational(response);
    }
    let allowance = Allowance { own_max: usize::MAX, ..allowance(shared, &config.policy) };
    intake.gather(facts.body, &config.policy, &allowance).await
}

/// A request that was understood.
#[derive(Clone, Copy)]
struct Asked<'r> {
    shared: &'r Shared,
    config: &'r Config,
    parts: &'r Parts,
    facts: &'r Facts,
}

impl Asked<'_> {
    /// Answers with a refusal, as the policy has it. A blocked client loses the connection too, but
    /// for a trusted proxy's, which carries others.
    fn refuse(
        &self,
        respond: &mut SendResponse<Payload>,
        refused: &Refused,
        format: Format,
        mut record: Record,
        (tally, peer): (&Tally, &Peer),
    ) {
        record.reason = Some(refused.reason);
        record.policer = refused.policer.map(|(policer, _)| policer);
        if let Some(visit) = &self.facts.visit {
            visit.refused();
        }
        let connection = decide::connection_after(self.config, peer, refused.reason);
        if connection == RefusalConnection::Reset {
            // The client may repeat such a request, whatever its method (RFC 9113 §8.7).
            respond.send_reset(Code::REFUSED_STREAM);
        } else {
            let template = self.config.refusals.template(refused.reason, format);
            let told = Advice::of(&self.config.policy, refused);
            record.status = template.status;
            record.sent_bytes = send_refusal(respond, template, &told, self.facts.head_only);
        }
        self.account(&record);
        // A stream alone would be begun again at once.
        let to_go = decide::is_to_go(self.config, peer, refused.reason);
        if to_go || connection == RefusalConnection::Close {
            tally.close();
        }
    }

    /// Ends a request whose body could not be gathered: it never came to the gate.
    fn give_up(
        &self,
        respond: &mut SendResponse<Payload>,
        fault: Fault,
        mut record: Record,
    ) -> Ended {
        if let Fault::Client(_) = fault {
            record.end = Some(End::Cancelled);
            self.account(&record);
            return Ended::ByClient;
        }
        let (status, why) = fault.answer();
        self.shared.tally().bad_request(status);
        record.status = status;
        self.account(&record);
        send_error(respond, status, why, self.facts.head_only);
        Ended::ByUs
    }

    /// Counts the request, and logs it if there is a log.
    fn account(&self, record: &Record) {
        let Asked { shared, config, parts, facts } = *self;
        account::count(shared, Protocol::Http2, record);
        let logged = shared.log.load().is_some();
        if record.reason.is_none() && !logged {
            return;
        }
        let mut table = FieldTable::new();
        for (name, value) in &parts.headers {
            let field = Field { name: name.as_str().as_bytes(), value: value.as_bytes() };
            // What does not fit was not understood, and so is not here.
            let _ = table.push(field);
        }
        let authority = parts.uri.authority().map(|host| host.as_str().as_bytes());
        let told = Told {
            method: parts.method.as_str().as_bytes(),
            target: parts.uri.path_and_query().map_or(b"", |target| target.as_str().as_bytes()),
            host: authority.unwrap_or_default(),
            fields: table.fields(),
        };
        let (client, arrival): (IpAddr, &Arrival) = (facts.client, &facts.arrival);
        account::remember(shared, config, client, arrival, &told, record);
        if logged {
            account::log(shared, config, Protocol::Http2, client, arrival, &told, record);
        }
    }
}

/// Sends a refusal; returns the length of its body.
fn send_refusal(
    respond: &mut SendResponse<Payload>,
    template: &Template,
    told: &Advice<'_>,
    head_only: bool,
) -> u64 {
    let (fields, body) = template.parts(told);
    let len = body.len() as u64;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(template.status).expect("ours are statuses");
    *response.headers_mut() = fields;
    send(respond, response, body, head_only);
    len
}

/// Answers with an error of ours; `why` says what was wrong, without repeating what the client sent.
pub(super) fn send_error(
    respond: &mut SendResponse<Payload>,
    status: u16,
    why: &str,
    head_only: bool,
) {
    let body = format!("{status} {}: {why}\n", respond::phrase(status));
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).expect("ours are statuses");
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    send(respond, response, body.into(), head_only);
}

/// What fails here fails because the stream is gone: there is nobody to tell.
fn send(
    respond: &mut SendResponse<Payload>,
    response: Response<()>,
    body: Arc<str>,
    head_only: bool,
) {
    let ends = head_only || body.is_empty();
    if let Ok(mut sending) = respond.send_response(response, ends)
        && !ends
    {
        let _ = sending.send_data(Payload::Text(body, 0), true);
    }
}
