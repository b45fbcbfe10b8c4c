//! Tokens that hold, and every way in which one may not.

use super::*;
use crate::secrets::NamedFile;
use aws_lc_rs::hmac::{self, HMAC_SHA256, Key};
use data_encoding::BASE64;
use proptest::prelude::*;
use std::time::Duration;

const SECRET: &str = "a secret of at least thirty-two bytes";
const OTHER: &str = "another secret, which is as long as that";

fn sign_with(secret: &str, header: &str, content: &str) -> String {
    let signed = format!(
        "{}.{}",
        BASE64URL_NOPAD.encode(header.as_bytes()),
        BASE64URL_NOPAD.encode(content.as_bytes())
    );
    let tag = hmac::sign(&Key::new(HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
}

fn sign(content: &str) -> String {
    sign_with(SECRET, r#"{"alg":"HS256","typ":"JWT"}"#, content)
}

fn verifier(issuer: Option<&str>, audience: Option<&str>) -> Verifier {
    Verifier {
        settings: Token {
            header: "authorization".into(),
            secrets: None,
            public_keys: None,
            jwks: None,
            algorithms: Vec::new(),
            issuer: issuer.map(Into::into),
            audience: audience.map(Into::into),
            leeway: Duration::from_secs(10),
        },
        keys: Keyring::of_secrets(&[SECRET.as_bytes(), OTHER.as_bytes()]),
    }
}

fn subject_at(verifier: &Verifier, token: &str, now: f64) -> Result<String, Proof> {
    let mut claims = Vec::new();
    let range = verifier.subject(token.as_bytes(), now, &mut claims)?;
    Ok(String::from_utf8(claims[range].to_vec()).unwrap())
}

fn subject(token: &str) -> Result<String, Proof> {
    subject_at(&verifier(None, None), token, 1000.0)
}

#[test]
fn the_example_of_the_standard_holds() {
    // RFC 7515 appendix A.1; it has no `sub`, so nobody is named, but the signature is good.
    let key = BASE64URL_NOPAD
        .decode(
            b"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
        )
        .unwrap();
    let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let mut verifier = verifier(None, None);
    verifier.keys = Keyring::of_secrets(&[&key]);
    let mut claims = Vec::new();
    assert!(
        verifier.content(token.as_bytes(), &mut claims).unwrap().starts_with(b"{\"iss\":\"joe\"")
    );
    assert_eq!(subject_at(&verifier, token, 1000.0), Err(Proof::Rejected));
}

#[test]
fn a_good_token_names_its_subject_by_any_secret() {
    let content = r#"{"sub":"alice","exp":2000,"admin":true}"#;
    assert_eq!(subject(&sign(content)).unwrap(), "alice");
    assert_eq!(subject(&sign_with(OTHER, r#"{"alg":"HS256"}"#, content)).unwrap(), "alice");
    let escaped = r#"{"exp":2000.5,"sub":"al\u0069ce \"é"}"#;
    assert_eq!(subject(&sign(escaped)).unwrap(), "alice \"é");
}

#[test]
fn times_are_kept_with_leeway() {
    let at = |content: &str, now| subject_at(&verifier(None, None), &sign(content), now);
    let content = r#"{"sub":"a","exp":2000,"nbf":1000}"#;
    assert_eq!(at(content, 989.0), Err(Proof::Untimely));
    assert!(at(content, 990.0).is_ok());
    assert!(at(content, 2009.0).is_ok());
    assert_eq!(at(content, 2010.0), Err(Proof::Untimely));
    assert_eq!(at(r#"{"sub":"a"}"#, 0.0), Err(Proof::Rejected), "no token is for ever");
    assert_eq!(at(r#"{"sub":"a","exp":"2000"}"#, 0.0), Err(Proof::Rejected));
}

#[test]
fn issuer_and_audience_are_ours_to_say() {
    let verifier = verifier(Some("us"), Some("shop"));
    let says = |more: &str| {
        subject_at(&verifier, &sign(&format!(r#"{{"sub":"a","exp":2000{more}}}"#)), 0.0).is_ok()
    };
    assert!(says(r#","iss":"us","aud":"shop""#));
    assert!(says(r#","iss":"us","aud":["bank","shop"]"#));
    for wrong in [
        "",
        r#","iss":"us""#,
        r#","aud":"shop""#,
        r#","iss":"them","aud":"shop""#,
        r#","iss":"us","aud":"bank""#,
        r#","iss":"us","aud":["bank"]"#,
        r#","iss":"us","aud":[]"#,
        r#","iss":["us"],"aud":"shop""#,
        r#","iss":"us","aud":"shop","aud":"bank""#,
    ] {
        assert!(!says(wrong), "{wrong}");
    }
}

#[test]
fn what_is_not_signed_by_us_names_nobody() {
    let content = r#"{"sub":"alice","exp":2000}"#;
    let good = sign(content);
    let (signed, _) = good.rsplit_once('.').unwrap();
    let (header, _) = signed.split_once('.').unwrap();
    let none = BASE64URL_NOPAD.encode(br#"{"alg":"none"}"#);
    let body = BASE64URL_NOPAD.encode(content.as_bytes());
    let hs256 = r#"{"alg":"HS256"}"#;
    for wrong in [
        String::new(),
        ".".into(),
        "..".into(),
        "...".into(),
        signed.to_owned(),
        format!("{signed}."),
        format!("{none}.{body}."),
        format!("{good}."),
        format!("{good}A"),
        format!("{good}="),
        format!(" {good}"),
        format!("{header}.{}", good.split_once('.').unwrap().1.replacen("c", "d", 1)),
        sign_with("a secret of somebody else, quite long", hs256, content),
        sign_with(SECRET, r#"{"alg":"none"}"#, content),
        sign_with(SECRET, r#"{"alg":"RS256"}"#, content),
        sign_with(SECRET, r#"{"alg":"hs256"}"#, content),
        sign_with(SECRET, r#"{"typ":"JWT"}"#, content),
        sign_with(SECRET, r#"{"alg":"HS256","alg":"none"}"#, content),
        sign_with(SECRET, r#"{"alg":"HS256","crit":["exp"]}"#, content),
        sign_with(SECRET, r#"{"alg":"HS256","crit":null}"#, content),
        sign_with(SECRET, "[]", content),
        sign(r#"{"sub":"","exp":2000}"#),
        sign(r#"{"sub":"a\u0000","exp":2000}"#),
        sign(r#"{"sub":7,"exp":2000}"#),
        sign(r#"{"sub":"a","sub":"b","exp":2000}"#),
        sign(&format!(r#"{{"sub":"{}","exp":2000}}"#, "x".repeat(257))),
        sign(&format!(r#"{{"sub":"a","exp":2000,"x":"{}"}}"#, "x".repeat(TOKEN_LEN_MAX))),
        sign("null"),
        sign(""),
    ] {
        assert_eq!(subject(&wrong), Err(Proof::Rejected), "{wrong}");
    }
}

#[test]
fn secrets_are_read_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets");
    let load = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let settings = Token {
            header: "authorization".into(),
            secrets: Some(NamedFile { path: path.clone(), ..NamedFile::default() }),
            public_keys: None,
            jwks: None,
            algorithms: Vec::new(),
            issuer: None,
            audience: None,
            leeway: Duration::ZERO,
        };
        let mut faults = Faults::new();
        let verifier = Verifier::load(&settings, &mut Vec::new(), &mut faults);
        faults.pop().map_or(Ok(verifier), |(_, fault)| Err(fault))
    };
    let base64 = BASE64.encode(OTHER.as_bytes());
    let both = load(&format!("# new\n{SECRET}\n# old\nbase64:{base64}\n")).unwrap();
    let content = r#"{"sub":"alice","exp":2000}"#;
    for secret in [SECRET, OTHER] {
        let token = sign_with(secret, r#"{"alg":"HS256"}"#, content);
        assert_eq!(subject_at(&both, &token, 0.0).unwrap(), "alice");
    }
    assert_eq!(format!("{both:?}"), "Verifier(2 keys, authorization)");
    for (text, expected) in [
        ("", "secrets must have 1 to 16 secrets"),
        ("SECRET", "secrets:1: the secret must have at least 32 bytes"),
        ("\nbase64:SECRET!", "secrets:2: must be base64"),
        (
            "-----BEGIN PUBLIC KEY-----\nSECRETSECRETSECRETSECRETSECRETSECRET\n-----END PUBLIC KEY-----\n",
            "secrets is a PEM file: name it as token.public_key_file",
        ),
    ] {
        let fault = load(text).unwrap_err();
        assert!(fault.contains(expected) && !fault.contains("SECRET"), "{fault}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever is changed in a good token, it names nobody else.
    #[test]
    fn no_change_makes_another_subject(place in 0usize..200, letter in "[A-Za-z0-9_.=-]") {
        let mut token = sign(r#"{"sub":"alice","exp":2000}"#);
        let place = place % token.len();
        token.replace_range(place..=place, &letter);
        if let Ok(subject) = subject(&token) {
            prop_assert_eq!(subject, "alice");
        }
    }

    #[test]
    fn no_noise_makes_it_panic(token in "[ -~]{0,200}", more in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(subject(&token).is_err());
        let mut claims = Vec::new();
        prop_assert!(verifier(None, None).subject(&more, 0.0, &mut claims).is_err());
    }
}
