//! What must hold for the tapes of a game.

use super::framing::{self, Framing, Message, Read};
use super::world::{Exchange, Report, Tape, TapeEnd, Tapes, shown};
use std::collections::HashMap;

/// A request as its client made it.
#[derive(Debug)]
struct Asked {
    /// Its client, and its number there; over HTTP/2 nobody orders the streams.
    client: usize,
    number: usize,
    ordered: bool,
    id: Option<String>,
    method: String,
    /// As an origin gets it.
    target: String,
    body: Vec<u8>,
    whole: bool,
    upgrades: bool,
    /// Names of fields that may not go on.
    hops: Vec<String>,
    /// What came at the origin: connection and place there.
    copies: Vec<(usize, usize)>,
}

/// An answer as the origin gave it.
#[derive(Debug)]
struct Given {
    message: Message,
    /// Interim answers in front of it.
    interims: usize,
    /// Of which request, if one could be told.
    asked: Option<usize>,
    /// It ended properly.
    ended: bool,
    /// What the origin sent behind it: over an upgraded connection, all that follows is of another protocol.
    rest: Vec<u8>,
}

/// Checks everything.
pub(crate) fn check(tapes: &Tapes) -> Report {
    let mut asked = Vec::new();
    for (client, tape) in tapes.clients.iter().enumerate() {
        ask(&mut asked, client, tape);
    }
    for (stream, exchange) in tapes.exchanges.iter().enumerate() {
        asked.push(ask_http2(stream, exchange));
    }
    let mut report = Report::default();
    let mut given = HashMap::new();
    for (origin, tape) in tapes.origins.iter().enumerate() {
        at_origin(tapes, origin, tape, &mut asked, &mut given, &mut report);
    }
    check_copies(tapes, &asked);
    for (client, tape) in tapes.clients.iter().enumerate() {
        at_client(client, tape, &asked, &given, &mut report);
    }
    for (stream, exchange) in tapes.exchanges.iter().enumerate() {
        at_stream(stream, exchange, &asked, &given, &mut report);
    }
    report
}

/// How many requests clients have sent, be they good or not.
pub(crate) fn requests_sent(tapes: &Tapes) -> usize {
    let mut asked = Vec::new();
    for (client, tape) in tapes.clients.iter().enumerate() {
        ask(&mut asked, client, tape);
    }
    // One each may follow that is malformed.
    asked.len() + tapes.clients.len() + tapes.exchanges.len()
}

/// The requests that a client over HTTP/1.1 has made. After a change of protocol what follows may look like
/// more; those do not come to the origin as requests.
fn ask(asked: &mut Vec<Asked>, client: usize, tape: &Tape) {
    let mut at = 0;
    for number in 0.. {
        let Read::Message(message) = framing::request(&tape.sent[at..]) else { return };
        at += message.len;
        let whole = message.whole;
        let ends = !whole || message.is_broken();
        asked.push(Asked {
            client,
            number,
            ordered: true,
            id: message.values("x-end").first().map(|id| (*id).to_owned()),
            method: message.first[0].clone(),
            target: origin_form(&message.first[1], &message.first[0]),
            whole,
            upgrades: message.has("connection", "upgrade") && !message.values("upgrade").is_empty(),
            hops: hops(&message),
            copies: Vec::new(),
            body: message.body,
        });
        if ends {
            return;
        }
    }
}

fn ask_http2(stream: usize, exchange: &Exchange) -> Asked {
    Asked {
        client: usize::MAX,
        number: stream,
        ordered: false,
        id: Some(exchange.id.clone()),
        method: exchange.method.clone(),
        target: exchange.target.clone(),
        body: exchange.body.clone(),
        whole: exchange.whole,
        upgrades: false,
        hops: Vec::new(),
        copies: Vec::new(),
    }
}

/// A target as an origin gets it (RFC 9112 §3.2.1).
fn origin_form(target: &str, method: &str) -> String {
    let lower = target.to_ascii_lowercase();
    let Some(rest) = ["http://", "https://"].iter().find_map(|scheme| lower.strip_prefix(scheme))
    else {
        return target.to_owned();
    };
    let rest = &target[target.len() - rest.len()..];
    match rest.find(['/', '?']) {
        Some(at) if rest[at..].starts_with('?') => format!("/{}", &rest[at..]),
        Some(at) => rest[at..].to_owned(),
        None if method == "OPTIONS" => "*".to_owned(),
        None => "/".to_owned(),
    }
}

/// Names that `Connection` says end here, without those that it may not name.
fn hops(message: &Message) -> Vec<String> {
    let members = message.values("connection").join(",").to_ascii_lowercase();
    let kept =
        ["", "close", "keep-alive", "upgrade", "te", "host", "content-length", "transfer-encoding"];
    let named = members.split(',').map(|name| name.trim_matches([' ', '\t']));
    named.filter(|name| !kept.contains(name)).map(str::to_owned).collect()
}

/// What came over a connection to the origin, and what was answered.
fn at_origin(
    tapes: &Tapes,
    origin: usize,
    tape: &Tape,
    asked: &mut [Asked],
    given: &mut HashMap<String, Given>,
    report: &mut Report,
) {
    let (mut at, mut answered) = (0, 0);
    let mut may_follow = true;
    for place in 0.. {
        let rest = &tape.received[at..];
        let message = match framing::request(rest) {
            Read::Nothing => return,
            // The gateway writes a head at once; the origin may have left in the middle of it.
            Read::Head => {
                assert!(may_follow, "a request on a connection that could take none: {tape:#?}");
                return;
            }
            Read::Message(message) => message,
            Read::Bad(why) => panic!("{why} in a request at the origin: {}", shown(rest)),
        };
        let shown = String::from_utf8_lossy(&rest[..message.len.min(rest.len())]).into_owned();
        assert!(!message.is_broken(), "broken chunks at the origin: {shown}");
        assert!(may_follow, "a request on a connection that could take none: {shown}\n{tape:?}");
        if let Some((received, sent)) = tape.junk_at {
            // An answer that lacked bytes has taken them from it.
            let is_junk = answered == sent;
            assert!(at < received || !is_junk, "behind what nobody had asked for: {shown}");
        }
        check_request_fields(&message);
        report.forwarded += 1;
        report.reused += usize::from(place > 0);
        let known = find(asked, &message, tapes.noise);
        if known.is_none() && !tapes.noise {
            panic!("no client has asked for this: {shown}\n{asked:#?}");
        }
        if let Some(known) = known {
            same_request(&asked[known], &message, &shown);
            asked[known].copies.push((origin, place));
        }
        at += message.len;
        let (len, kept) = answer(&tape.sent[answered..], &message.first[0], known, given, report);
        answered += len;
        if !message.whole {
            let rest = &tape.received[at..];
            assert!(rest.is_empty(), "bytes behind a request that was cut");
            return;
        }
        if kept == Kept::Switched {
            return;
        }
        may_follow = kept == Kept::Yes;
    }
}

/// Finds who has asked for it.
fn find(asked: &[Asked], message: &Message, noise: bool) -> Option<usize> {
    let ids = message.values("x-end");
    let id = ids.first().copied();
    let fits = |it: &Asked| {
        it.id.as_deref() == id
            && it.method == message.first[0]
            && it.target == message.first[1]
            && (noise || it.body.starts_with(&message.body))
    };
    // One that did not come yet, first.
    let fresh = asked.iter().position(|it| it.copies.is_empty() && fits(it));
    fresh.or_else(|| asked.iter().position(fits))
}

fn same_request(asked: &Asked, message: &Message, shown: &str) {
    if message.whole {
        assert!(asked.whole, "a request that its client never finished is whole: {shown}");
        assert_eq!(asked.body.len(), message.body.len(), "the body of {shown}");
    }
    for name in &asked.hops {
        assert!(message.values(name).is_empty(), "{name} ends at the gateway: {shown}");
    }
}

/// What no request at the origin may say.
fn check_request_fields(message: &Message) {
    let fields = &message.fields;
    for (name, value) in fields {
        let forbidden = match name.as_str() {
            "keep-alive" | "proxy-connection" | "proxy-authorization" | "proxy" | "x-real-ip" => {
                true
            }
            "connection" => {
                let members = value.split(',').map(|member| member.trim().to_ascii_lowercase());
                !members.into_iter().all(|member| member == "upgrade" || member == "te")
            }
            "te" => value != "trailers",
            "x-forwarded-for" => value != "192.0.2.1",
            name => name.replace('_', "-").starts_with("x-tiergate-"),
        };
        assert!(!forbidden, "`{name}: {value}` at the origin: {fields:?}");
    }
    assert_eq!(message.values("host").len(), 1, "one host: {fields:?}");
    assert_eq!(message.first[2], "HTTP/1.1");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Another request may follow.
    Yes,
    No,
    /// What follows is another protocol.
    Switched,
}

/// Reads the answer to one request; how long it is, and whether another request may follow.
fn answer(
    sent: &[u8],
    method: &str,
    asked: Option<usize>,
    given: &mut HashMap<String, Given>,
    _report: &mut Report,
) -> (usize, Kept) {
    let (mut at, mut interims) = (0, 0);
    loop {
        let Read::Message(message) = framing::response(&sent[at..], method) else {
            return (at, Kept::No);
        };
        at += message.len;
        if (100..200).contains(&message.status()) && message.status() != 101 {
            interims += 1;
            // It cannot have a body, and an origin that thinks so is not to be trusted with more.
            if framed_wrongly(&message) {
                return (at, Kept::No);
            }
            continue;
        }
        let switched = message.status() == 101;
        let keeps = message.whole && message.keeps() && !framed_wrongly(&message);
        let id = message.values("x-id").first().map(|id| (*id).to_owned());
        if let Some(id) = id {
            let ended = message.whole;
            let rest = sent[at..].to_vec();
            given.entry(id).or_insert(Given { message, interims, asked, ended, rest });
        }
        return match (switched, keeps) {
            (true, _) => (at, Kept::Switched),
            (false, true) => (at, Kept::Yes),
            (false, false) => (at, Kept::No),
        };
    }
}

/// It announces a body where there can be none.
fn framed_wrongly(message: &Message) -> bool {
    let bodiless = message.status() < 200 || message.status() == 204;
    let length =
        message.values("content-length").iter().any(|len| !len.trim_matches('0').is_empty());
    bodiless && (length || !message.values("transfer-encoding").is_empty())
}

/// A request comes to the origin once, but for one that may be sent again where a kept connection was closed
/// before an answer; and those of one client come in their order.
fn check_copies(tapes: &Tapes, asked: &[Asked]) {
    let came = |(origin, place): (usize, usize)| {
        let clock = tapes.origins[origin].came.get(place);
        clock.copied().unwrap_or(usize::MAX)
    };
    let mut last = HashMap::new();
    for it in asked {
        let mut copies = it.copies.clone();
        copies.sort_by_key(|&copy| came(copy));
        if copies.len() > 1 && !tapes.noise {
            assert!(copies.len() == 2, "sent more than twice: {it:?}");
            let (origin, place) = copies[0];
            let idempotent =
                matches!(&*it.method, "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "TRACE");
            assert!(idempotent && place > 0, "sent again: {it:?}\n{:?}", tapes.origins[origin]);
        }
        if let (true, Some(&first)) = (it.ordered, copies.first()) {
            let clock = came(first);
            let before = last.insert(it.client, (it.number, clock));
            let in_order =
                before.is_none_or(|(number, before)| number < it.number && before <= clock);
            assert!(in_order, "out of order: {it:?}");
        }
    }
}

/// What a client over HTTP/1.1 got.
fn at_client(
    client: usize,
    tape: &Tape,
    asked: &[Asked],
    given: &HashMap<String, Given>,
    report: &mut Report,
) {
    let mine: Vec<usize> =
        (0..asked.len()).filter(|&it| asked[it].ordered && asked[it].client == client).collect();
    let mut at = 0;
    let mut closes = false;
    for number in 0.. {
        let rest = &tape.received[at..];
        if rest.is_empty() {
            return;
        }
        let shown = || format!("{} of\n{}", shown(rest), shown(&tape.sent));
        assert!(!closes, "bytes behind the last answer: {}", shown());
        // The last may be to a request that could not be read.
        assert!(number <= mine.len(), "more answers than requests: {}", shown());
        let request = mine.get(number).copied();
        let method = request.map_or("GET", |request| &asked[request].method);
        let mut interims = 0;
        let message = loop {
            match framing::response(&tape.received[at..], method) {
                Read::Message(message)
                    if (100..200).contains(&message.status()) && message.status() != 101 =>
                {
                    interims += usize::from(!message.values("x-id").is_empty());
                    check_answer_fields(&message);
                    at += message.len;
                }
                Read::Message(message) => break message,
                Read::Bad(why) => panic!("{why} in an answer: {}", shown()),
                // Cut in its head: the client has left, or the gateway had to.
                Read::Head | Read::Nothing => return,
            }
        };
        assert!(!message.is_broken(), "broken chunks in an answer: {}", shown());
        check_answer_fields(&message);
        at += message.len;
        closes = !message.keeps() || !message.whole;
        let ended =
            message.whole || message.framing == Framing::Close && tape.end == TapeEnd::Closed;
        let id = message.values("x-id").first().map(|id| (*id).to_owned());
        let Some(id) = id else {
            assert!(message.status() >= 400, "no answer of the gateway's own: {}", shown());
            report.own += 1;
            closes |= request.is_none();
            // The gateway may have given up before it had the head, and then does not know a HEAD.
            if closes && method == "HEAD" && matches!(message.status(), 400..500) {
                return;
            }
            continue;
        };
        let Some(source) = given.get(&id) else { panic!("nobody has given this: {}", shown()) };
        let request = request.unwrap_or_else(|| panic!("an answer to nothing: {}", shown()));
        assert_eq!(source.asked, Some(request), "the answer to another request: {}", shown());
        assert!(interims <= source.interims, "more interim answers than given: {}", shown());
        assert_eq!(message.status(), source.message.status(), "{}", shown());
        if message.status() == 101 {
            assert!(asked[request].upgrades, "an upgrade unasked: {}", shown());
            let rest = &tape.received[at..];
            assert!(source.rest.starts_with(rest), "the other protocol's bytes: {}", shown());
            return;
        }
        let names: Vec<String> = message.fields.iter().map(|(name, _)| name.clone()).collect();
        no_hops(source, &names);
        same_answer(&message.body, ended, source, &shown);
        report.answered += usize::from(ended);
    }
}

/// The body of an answer, as far as it came, is the one that was given.
fn same_answer(body: &[u8], ended: bool, source: &Given, shown: &dyn Fn() -> String) {
    assert!(source.message.body.starts_with(body), "the body of {}", shown());
    if ended {
        let close = source.message.framing == Framing::Close;
        assert!(source.ended || close, "an answer that was cut looks whole: {}", shown());
        assert_eq!(source.message.body.len(), body.len(), "the body of {}", shown());
    }
}

/// What `Connection` names ends at the gateway.
fn no_hops(source: &Given, names: &[String]) {
    for hop in hops(&source.message) {
        assert!(!names.contains(&hop), "{hop} at a client: {:?}", source.message.fields);
    }
}

/// What no answer at a client may say.
fn check_answer_fields(message: &Message) {
    let fields = &message.fields;
    for (name, value) in fields {
        let forbidden = match name.as_str() {
            "keep-alive" | "proxy-connection" | "proxy-authenticate" => true,
            "connection" => {
                let members = value.split(',').map(|member| member.trim().to_ascii_lowercase());
                !members
                    .into_iter()
                    .all(|member| matches!(&*member, "close" | "keep-alive" | "upgrade"))
            }
            _ => false,
        };
        assert!(!forbidden, "`{name}: {value}` at a client: {fields:?}");
    }
}

/// What a client over HTTP/2 got for one request.
fn at_stream(
    stream: usize,
    exchange: &Exchange,
    asked: &[Asked],
    given: &HashMap<String, Given>,
    report: &mut Report,
) {
    let Some((status, id)) = &exchange.answer else { return };
    let shown = || format!("{exchange:?}");
    let Some(id) = id else {
        assert!(*status >= 400, "no answer of the gateway's own: {}", shown());
        report.own += 1;
        return;
    };
    let Some(source) = given.get(id) else { panic!("nobody has given this: {}", shown()) };
    let request = asked.iter().position(|it| !it.ordered && it.number == stream);
    assert_eq!(source.asked, request, "the answer to another request: {}", shown());
    assert_eq!(*status, source.message.status(), "{}", shown());
    no_hops(source, &exchange.answer_fields);
    same_answer(&exchange.answer_body, exchange.answer_whole, source, &shown);
    report.answered += usize::from(exchange.answer_whole);
}
