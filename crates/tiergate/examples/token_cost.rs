//! What a signed token costs by algorithm, here and by the whole of the crate jsonwebtoken, in one run:
//! `cargo run --release --example token_cost`.

use jsonwebtoken::{Algorithm, DecodingKey, Validation, crypto, decode};
use serde::Deserialize;
use serde_json::Value;
use std::hint::black_box;
use std::time::Instant;
use tiergate::secrets::{Faults, NamedFile};
use tiergate::tokens::Credentials;
use tiergate::tokens::settings::Token;
use tiergate_core::request::Field;

/// What `decode` is asked for.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    #[serde(rename = "exp")]
    _exp: f64,
}

/// Nanoseconds a call, the least of five rounds.
fn measure(rounds: u32, mut action: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        (0..rounds).for_each(|_| action());
        start.elapsed().as_nanos() as f64 / f64::from(rounds)
    };
    (0..5).map(round).fold(f64::MAX, f64::min)
}

fn main() -> anyhow::Result<()> {
    let fixtures: Value =
        serde_json::from_str(include_str!("../tests/fixtures/tokens/tokens.json"))?;
    let text = |place: &str| fixtures.pointer(place).and_then(Value::as_str).expect("a text");
    let pem = |name: &str| text(&format!("/pem/{name}")).as_bytes();
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text)?;
        anyhow::Ok(Some(NamedFile { path, ..NamedFile::default() }))
    };
    let settings = Token {
        header: "authorization".into(),
        secrets: file("secrets", text("/secret"))?,
        public_keys: None,
        jwks: file("jwks", &fixtures["jwks"]["all"].to_string())?,
        algorithms: Vec::new(),
        issuer: Some("us".into()),
        audience: Some("shop".into()),
        leeway: std::time::Duration::ZERO,
    };
    let mut faults = Faults::new();
    let credentials = Credentials::load(&[], Some(&settings), &mut Vec::new(), &mut faults);
    assert!(faults.is_empty(), "{faults:?}");
    println!(
        "{:8} {:>9} {:>19} {:>19}",
        "ns", "here", "decode of the crate", "its signature alone"
    );
    for (name, algorithm, key, rounds) in [
        ("HS256", Algorithm::HS256, DecodingKey::from_secret(text("/secret").as_bytes())?, 50_000),
        ("HS512", Algorithm::HS512, DecodingKey::from_secret(text("/secret").as_bytes())?, 50_000),
        ("RS256", Algorithm::RS256, DecodingKey::from_rsa_pem(pem("rsa"))?, 5_000),
        ("PS256", Algorithm::PS256, DecodingKey::from_rsa_pem(pem("rsa"))?, 5_000),
        ("ES256", Algorithm::ES256, DecodingKey::from_ec_pem(pem("p256"))?, 2_000),
        ("ES384", Algorithm::ES384, DecodingKey::from_ec_pem(pem("p384"))?, 1_000),
        ("EdDSA", Algorithm::EdDSA, DecodingKey::from_ed_pem(pem("ed"))?, 2_000),
    ] {
        let token = text(&format!("/good/{name}"));
        let value = format!("Bearer {token}");
        let fields = [Field { name: b"Authorization", value: value.as_bytes() }];
        let mut claims = Vec::new();
        let here = measure(rounds, || {
            assert_eq!(credentials.subject(black_box(&fields), &mut claims, |_| {}), b"alice");
        });
        let mut validation = Validation::new(algorithm);
        validation.set_audience(&["shop"]);
        validation.set_issuer(&["us"]);
        let whole = measure(rounds, || {
            let decoded = decode::<Claims>(black_box(token), &key, &validation);
            assert_eq!(decoded.expect("it is good").claims.sub, "alice");
        });
        let (signed, signature) = token.rsplit_once('.').expect("three parts");
        let alone = measure(rounds, || {
            let holds = crypto::verify(black_box(signature), signed.as_bytes(), &key, algorithm);
            assert!(holds.expect("a signature"));
        });
        println!("{name:8} {here:9.0} {whole:19.0} {alone:19.0}");
    }
    Ok(())
}
