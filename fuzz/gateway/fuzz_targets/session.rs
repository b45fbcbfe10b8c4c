//! Any bytes as cookies of a request, or of an answer: nothing that was not signed is taken for a
//! token, and nothing makes the readers panic.
#![no_main]

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};
use tiergate::session::set_cookie::{change, is_shared};
use tiergate::session::token::{Secrets, TEXT_LEN, Token};
use tiergate_core::request::{Field, RequestView};

const NOW: u32 = 1_800_000_000;
const HOST: &[u8] = b"shop.example";
const HOUR: Duration = Duration::from_secs(3600);

static SECRETS: LazyLock<Secrets> = LazyLock::new(|| {
    Secrets::read("0123456789abcdef0123456789abcdef").expect("a good secret")
});
static TOKEN: LazyLock<String> = LazyLock::new(|| {
    let token = Token { begun: NOW, made: NOW, name: *b"hello world" };
    token.write(&SECRETS, HOST)
});

fn read(text: &[u8]) -> Option<Token> {
    Token::read(text, &SECRETS, HOST, NOW, HOUR, HOUR)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let fields: Vec<Field<'_>> = bytes
        .split(|&b| b == b'\n')
        .map(|value| Field { name: b"Cookie", value })
        .collect();
    let view = RequestView {
        method: b"GET",
        host: HOST,
        path: b"/",
        query: b"",
        fields: &fields,
        ..RequestView::EMPTY
    };
    if let Some(value) = view.cookie(b"tiergate_session") {
        assert!(read(value).is_none() || value == TOKEN.as_bytes(), "a forged token");
    }
    // A good token, altered where the input says.
    let mut text = TOKEN.clone().into_bytes();
    for (place, byte) in bytes.iter().take(TEXT_LEN).enumerate() {
        text[place] = text[place].wrapping_add(*byte);
    }
    assert!(read(&text).is_none() || text == TOKEN.as_bytes(), "an altered token");

    let lines: Vec<Field<'_>> = fields
        .iter()
        .flat_map(|field| {
            [b"Set-Cookie".as_slice(), b"Cache-Control"].map(|name| Field { name, ..*field })
        })
        .collect();
    change(&lines, b"SID", SystemTime::UNIX_EPOCH);
    is_shared(&lines);
});
