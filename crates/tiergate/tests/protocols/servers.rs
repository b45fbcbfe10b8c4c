//! Real servers behind the gateway: what clients get is what they would have got without it.

use crate::side::{Answer, Client, Side};
use crate::support::echo::fill;
use crate::support::servers::{self, Server};
use crate::world::{build, server};
use http::{HeaderMap, HeaderName, HeaderValue, Request};

over_both! {
    nginx_answers_as_it_does_without_the_gateway
    apache_answers_as_it_does_without_the_gateway
    python_answers_as_it_does_without_the_gateway
    node_answers_as_it_does_without_the_gateway
}

/// What a browser sends besides.
const BROWSER: [(&str, &str); 12] = [
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("accept-language", "de,en-US;q=0.7,en;q=0.3"),
    ("accept-encoding", "gzip, deflate"),
    ("referer", "https://example.test/a?b=c&d=%20e"),
    ("dnt", "1"),
    ("upgrade-insecure-requests", "1"),
    ("sec-fetch-dest", "document"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-site", "same-origin"),
    ("priority", "u=0, i"),
    ("cookie", "session=abc; theme=\"dark\"; empty=; long=0123456789abcdef0123456789abcdef"),
];

/// A method, a path, and one more field.
type Asked = (&'static str, &'static str, Option<(&'static str, String)>);

async fn ask(client: Client, side: Side, (method, path, more): &Asked) -> Answer {
    let mut request = Request::builder().method(*method).uri(format!("http://example.test{path}"));
    let more = more.iter().map(|(name, value)| (*name, value.as_str()));
    for (name, value) in BROWSER.into_iter().chain(more) {
        request = request.header(name, value);
    }
    let mut request = request.body(()).unwrap();
    side.take_trailers(&mut request);
    let has_body = *method == "POST";
    let mut exchange = client.begin(request, has_body).await;
    if has_body {
        exchange.send("hello");
        exchange.finish();
    }
    exchange.answer().await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// Fields without those that concern one connection only, and the time.
fn essence(fields: &HeaderMap) -> Vec<(&HeaderName, &HeaderValue)> {
    let ours = ["connection", "keep-alive", "date", "via", "transfer-encoding"];
    let mut fields: Vec<_> =
        fields.iter().filter(|(name, _)| !ours.contains(&name.as_str())).collect();
    fields.sort_by_key(|(name, value)| (name.as_str(), value.as_bytes()));
    fields
}

/// Sends the same requests to the server and through the gateway, and compares all that is not the
/// connection's own.
async fn compare(side: Side, origin: &Server, requests: &[Asked]) -> Vec<Answer> {
    let world = build(|policy| policy.origin.servers = vec![server(origin.address)]).await;
    let mut answers = Vec::new();
    for request in requests {
        let direct = Client::at(origin.address, Side::Http1).await;
        let there = ask(direct, Side::Http1, request).await;
        let here = ask(Client::connect(&world, side).await, side, request).await;
        assert_eq!(here.status, there.status, "{request:?}");
        assert_eq!(essence(&here.fields), essence(&there.fields), "{request:?}");
        assert!(here.body == there.body, "{request:?}");
        assert_eq!(here.trailers, there.trailers, "{request:?}");
        answers.push(here);
    }
    world.until_all_is_given_back().await;
    answers
}

/// Requests that any server of files understands.
async fn for_files(origin: &Server) -> Vec<Asked> {
    fill(origin);
    let head = ask(
        Client::at(origin.address, Side::Http1).await,
        Side::Http1,
        &("HEAD", "/data.bin", None),
    );
    let tag = head.await.fields.get("etag").map(|tag| tag.to_str().unwrap().to_owned());
    let with = |name, value: &str| ("GET", "/data.bin", Some((name, value.to_owned())));
    vec![
        ("GET", "/", None),
        ("GET", "/index.html?a=1&b=%2F", None),
        ("GET", "/text.txt", None),
        ("GET", "/data.bin", None),
        with("range", "bytes=100-199"),
        with("range", "bytes=-1"),
        with("range", "bytes=999999-"),
        with("if-none-match", &tag.unwrap_or_else(|| "\"none\"".into())),
        with("if-modified-since", "Fri, 01 Jan 2038 00:00:00 GMT"),
        ("GET", "/empty", None),
        ("GET", "/missing", None),
        ("GET", "/%7Euser/a%3bb", None),
        ("HEAD", "/data.bin", None),
        ("HEAD", "/missing", None),
        ("DELETE", "/data.bin", None),
        ("POST", "/data.bin", Some(("content-length", "5".into()))),
        ("GET", "/data.bin", None),
    ]
}

#[track_caller]
fn assert_compared(answers: &[Answer], expected: &[u16]) {
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    for status in expected {
        assert!(statuses.contains(status), "{status} was not compared: {statuses:?}");
    }
}

async fn nginx_answers_as_it_does_without_the_gateway(side: Side) {
    let Some(origin) = servers::nginx() else { return };
    let mut requests = for_files(&origin).await;
    requests.push(("GET", "/seen?x=%20y", Some(("x-one", "1".into()))));
    requests.extend([("GET", "/nothing", None), ("GET", "/moved", None)]);
    let answers = compare(side, &origin, &requests).await;
    assert_compared(&answers, &[200, 204, 206, 302, 304, 404, 405, 416]);
    let zipped = answers.iter().find(|answer| answer.fields.contains_key("content-encoding"));
    assert!(zipped.is_some_and(|answer| answer.body.starts_with(&[0x1f, 0x8b])), "gzip passes");
    let seen = requests.iter().position(|(_, path, _)| path.starts_with("/seen")).expect("above");
    assert_eq!(answers[seen].fields.get_all("set-cookie").iter().count(), 2);
}

async fn apache_answers_as_it_does_without_the_gateway(side: Side) {
    let Some(origin) = servers::apache() else { return };
    let mut requests = for_files(&origin).await;
    requests.extend([("OPTIONS", "/", None), ("GET", "/moved", None)]);
    let answers = compare(side, &origin, &requests).await;
    assert_compared(&answers, &[200, 206, 302, 304, 404, 405, 416]);
}

async fn python_answers_as_it_does_without_the_gateway(side: Side) {
    let Some(origin) = servers::python() else { return };
    let answers = compare(side, &origin, &for_files(&origin).await).await;
    assert_compared(&answers, &[200, 304, 404, 501]);
    assert!(answers.iter().any(|answer| answer.body.len() == 10_000));
}

async fn node_answers_as_it_does_without_the_gateway(side: Side) {
    let Some(origin) = servers::node() else { return };
    let requests = ["/trailers", "/nothing", "/a?b", "/trailers"].map(|path| ("GET", path, None));
    let answers = compare(side, &origin, &requests).await;
    assert_eq!(answers[0].text(), "first second");
    assert_eq!(answers[0].trailers["x-sum"], "abc");
    assert_eq!(answers[0].fields.get_all("set-cookie").iter().count(), 2);
}
