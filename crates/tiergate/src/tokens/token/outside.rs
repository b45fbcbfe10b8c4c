//! Tokens and keys that python's pyjwt and cryptography made, good ones and hostile ones. Made by
//! `tests/fixtures/tokens/make.py`.

use super::*;
use crate::secrets::NamedFile;
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;

/// Seconds of UNIX time: between what has expired and what has not.
const NOW: f64 = 1.8e9;

struct Fixtures(Value);

impl Fixtures {
    fn read() -> Fixtures {
        let text = include_str!("../../../tests/fixtures/tokens/tokens.json");
        Fixtures(serde_json::from_str(text).unwrap())
    }

    fn text(&self, place: &str) -> &str {
        self.0.pointer(place).and_then(Value::as_str).unwrap_or_else(|| panic!("no {place}"))
    }

    fn pem(&self, names: &[&str]) -> String {
        names.iter().map(|name| self.text(&format!("/pem/{name}"))).collect()
    }

    fn set(&self, name: &str) -> String {
        self.0["jwks"][name].to_string()
    }

    fn tokens(&self, kind: &str) -> impl Iterator<Item = (&str, &str)> {
        let tokens = self.0[kind].as_object().unwrap().iter();
        tokens.map(|(name, token)| (name.as_str(), token.as_str().unwrap()))
    }
}

/// What a policy's keys are.
#[derive(Default)]
struct Files<'t> {
    secrets: Option<&'t str>,
    pem: Option<&'t str>,
    jwks: Option<&'t str>,
    algorithms: &'t [Algorithm],
}

impl Files<'_> {
    fn load(&self) -> (Result<Verifier, String>, Vec<String>) {
        let folder = TempDir::new().unwrap();
        let named = |name: &str, text: Option<&str>| {
            let path = folder.path().join(name);
            std::fs::write(&path, text?).unwrap();
            Some(NamedFile { path, ..NamedFile::default() })
        };
        let settings = Token {
            header: "authorization".into(),
            secrets: named("secrets", self.secrets),
            public_keys: named("keys.pem", self.pem),
            jwks: named("jwks.json", self.jwks),
            algorithms: self.algorithms.to_vec(),
            issuer: Some("us".into()),
            audience: Some("shop".into()),
            leeway: Duration::ZERO,
        };
        let (mut warnings, mut faults) = (Vec::new(), Faults::new());
        let verifier = Verifier::load(&settings, &mut warnings, &mut faults);
        // World-readable in the tests' folder, which is not what they are about.
        warnings.retain(|warning| !warning.contains("world-readable"));
        (faults.pop().map_or(Ok(verifier), |(_, fault)| Err(fault)), warnings)
    }

    fn verifier(&self) -> Verifier {
        self.load().0.unwrap()
    }
}

fn subject(verifier: &Verifier, token: &str) -> Result<String, Proof> {
    let mut claims = Vec::new();
    let range = verifier.subject(token.as_bytes(), NOW, &mut claims)?;
    Ok(String::from_utf8(claims[range].to_vec()).unwrap())
}

const ALL: [&str; 4] = ["ed", "p384", "p256", "rsa"];

#[test]
fn every_algorithm_holds_by_pem_and_by_jwks() {
    let fixtures = Fixtures::read();
    let (pem, jwks) = (fixtures.pem(&ALL), fixtures.set("all"));
    let secrets = Some(fixtures.text("/secret"));
    let by_pem = Files { secrets, pem: Some(&pem), ..Files::default() }.verifier();
    let by_jwks = Files { secrets, jwks: Some(&jwks), ..Files::default() }.verifier();
    for verifier in [by_pem, by_jwks] {
        let mut seen = 0;
        for (name, token) in fixtures.tokens("good").chain(fixtures.tokens("without_kid")) {
            assert_eq!(subject(&verifier, token).as_deref(), Ok("alice"), "{name}");
            seen += 1;
            // One letter of the signature.
            let (signed, signature) = token.rsplit_once('.').unwrap();
            let letter = if signature.starts_with('A') { "B" } else { "A" };
            let changed = format!("{signed}.{letter}{}", &signature[1..]);
            assert_eq!(subject(&verifier, &changed), Err(Proof::Rejected), "{name}");
        }
        assert_eq!(seen, 14);
        let expired = fixtures.text("/expired");
        assert_eq!(subject(&verifier, expired), Err(Proof::Untimely));
    }
    let pkcs1 = fixtures.pem(&["pkcs1"]);
    let verifier = Files { pem: Some(&pkcs1), ..Files::default() }.verifier();
    assert!(subject(&verifier, fixtures.text("/good/PS512")).is_ok());
}

#[test]
fn hostile_tokens_name_nobody() {
    let fixtures = Fixtures::read();
    let (pem, jwks) = (fixtures.pem(&ALL), fixtures.set("all"));
    let secrets = Some(fixtures.text("/secret"));
    let by_pem = Files { secrets, pem: Some(&pem), ..Files::default() }.verifier();
    let by_jwks = Files { secrets, jwks: Some(&jwks), ..Files::default() }.verifier();
    for (name, token) in fixtures.tokens("hostile") {
        assert_eq!(subject(&by_jwks, token), Err(Proof::Rejected), "{name}");
        // Keys in PEM have no names, so a token may call them as it likes, in one text.
        if !name.contains("kid") || name.contains("twice") || name.contains("list") {
            assert_eq!(subject(&by_pem, token), Err(Proof::Rejected), "{name}");
        }
    }
    let good = fixtures.text("/good/RS256");
    let (header, rest) = good.split_once('.').unwrap();
    for huge in [
        format!("{}.{rest}", "A".repeat(TOKEN_LEN_MAX)),
        format!("{}.{rest}", "A".repeat(HEADER_LEN_MAX + 4)),
        format!("{header}.{rest}{}", "A".repeat(2000)),
        format!("{header}.{}.{}", "A".repeat(1 << 20), "A".repeat(342)),
    ] {
        assert_eq!(subject(&by_jwks, &huge), Err(Proof::Rejected));
    }
}

#[test]
fn a_key_is_for_what_it_says() {
    let fixtures = Fixtures::read();
    let only = fixtures.set("rsa for RS256");
    let verifier = Files { jwks: Some(&only), ..Files::default() }.verifier();
    for (name, token) in fixtures.tokens("good") {
        assert_eq!(subject(&verifier, token).is_ok(), name == "RS256", "{name}");
    }
    // The same by the policy, for keys that do not say it.
    let pem = fixtures.pem(&ALL);
    let algorithms = &[Algorithm::PS384, Algorithm::ES256];
    let files = Files { pem: Some(&pem), algorithms, ..Files::default() };
    let verifier = files.verifier();
    for (name, token) in fixtures.tokens("good") {
        let allowed = ["PS384", "ES256"].contains(&name);
        assert_eq!(subject(&verifier, token).is_ok(), allowed, "{name}");
    }
    let (secret, long) = ("s".repeat(47), "s".repeat(48));
    let files = |secrets| Files {
        secrets: Some(secrets),
        algorithms: &[Algorithm::HS384],
        ..Files::default()
    };
    let fault = files(&secret).load().0.unwrap_err();
    assert!(fault.ends_with("has no key for token.algorithms"), "{fault}");
    assert_eq!(files(&long).verifier().keys.len(), 1);
}

#[test]
fn sets_without_a_key_that_verifies_are_refused() {
    let fixtures = Fixtures::read();
    let token = fixtures.text("/good/RS256");
    for (name, why) in [
        ("empty", None),
        ("use enc", Some("its use is not `sig`")),
        ("alg RSA-OAEP", Some("its alg is not known")),
        ("alg ES256 of an RSA key", Some("its alg is not for keys of its kind")),
        ("alg HS256 of an RSA key", Some("its alg is not for keys of its kind")),
        ("key_ops encrypt", Some("its key_ops have no `verify`")),
        ("small", Some("an RSA key must have 2048 to 8192 bits")),
        ("P-521", Some("must be of P-256 or P-384")),
        ("secp256k1", Some("it is no key of RSA")),
        ("off the curve", Some("its x and y are no point of its curve")),
        ("not known", Some("it is no key of RSA")),
        ("a short secret", Some("its k has fewer than 32 bytes")),
    ] {
        let set = fixtures.set(name);
        let (loaded, warnings) = Files { jwks: Some(&set), ..Files::default() }.load();
        let fault = loaded.expect_err(name);
        let said = match why {
            None => "jwks.json has no key that can verify tokens, and none at all",
            Some(_) => "jwks.json has no key that can verify tokens: keys[1]: ",
        };
        assert!(fault.contains(said) && fault.contains(why.unwrap_or_default()), "{fault}");
        assert_eq!(warnings.len(), usize::from(why.is_some()), "{name}: {warnings:?}");
        let expected = why.is_none_or(|why| warnings[0].contains(why));
        assert!(expected && !warnings.concat().contains("AQAB"), "{name}: {warnings:?}");
    }
    let set = fixtures.set("use enc beside a good one");
    let (loaded, warnings) = Files { jwks: Some(&set), ..Files::default() }.load();
    assert!(subject(&loaded.unwrap(), token).is_ok());
    assert!(warnings[0].contains("keys[1] is left out"), "{warnings:?}");
    let set = fixtures.set("a secret");
    let verifier = Files { jwks: Some(&set), ..Files::default() }.verifier();
    assert!(subject(&verifier, fixtures.text("/hs_with_kid")).is_ok());
    assert!(subject(&verifier, fixtures.text("/good/HS512")).is_err(), "it is for HS256");
}

#[test]
fn files_of_another_kind_are_told_by_name_and_never_shown() {
    let fixtures = Fixtures::read();
    let mut private = fixtures.0["jwks"]["all"].clone();
    private["keys"][1]["d"] = json!("SECRET");
    let many = json!({ "keys": vec![&fixtures.0["jwks"]["all"]["keys"][0]; 65] });
    for (set, expected) in [
        ("SECRET", "jwks.json:1: must be a JSON Web Key Set: {\"keys\": […]}"),
        ("[]", "jwks.json:1: must be a JSON Web Key Set"),
        ("{\"keys\":\n\"SECRET\"}", "jwks.json:2: must be a JSON Web Key Set"),
        (&private.to_string(), "jwks.json: keys[2] is a private key"),
        (&many.to_string(), "jwks.json must have at most 64 keys, got 65"),
        (&" ".repeat((1 << 20) + 1), "jwks.json must have at most 1048576 bytes"),
    ] {
        let fault = Files { jwks: Some(set), ..Files::default() }.load().0.unwrap_err();
        assert!(fault.contains(expected) && !fault.contains("SECRET"), "{fault}");
    }
    let block = |label: &str| format!("\n-----BEGIN {label}-----\nSECRET\n-----END {label}-----\n");
    for (pem, expected) in [
        (String::new(), "keys.pem must have 1 to 16 public keys in PEM"),
        ("SECRET".to_owned(), "keys.pem must have 1 to 16 public keys"),
        (block("PRIVATE KEY"), "keys.pem:2: is a private key; keep the public one here"),
        (block("EC PRIVATE KEY"), "keys.pem:2: is a private key"),
        (block("CERTIFICATE"), "keys.pem:2: is a certificate; take the public key out of it"),
        (block("DH PARAMETERS"), "keys.pem:2: must be a PUBLIC KEY"),
        (block("PUBLIC KEY"), "keys.pem:2: must be a public key of RSA, P-256"),
        ("-----BEGIN PUBLIC KEY-----\nSECRET".to_owned(), "keys.pem:1: must be a public key of"),
        (fixtures.pem(&["rsa", "small"]), "keys.pem:10: an RSA key must have 2048"),
        (fixtures.pem(&["p521"]), "keys.pem:1: an elliptic curve key must be of P-256 or P-384"),
        (fixtures.pem(&["k256"]), "keys.pem:1: an elliptic curve key must be of P-256 or P-384"),
        (fixtures.pem(&["ed"; 17]), "keys.pem must have 1 to 16 public keys"),
    ] {
        let fault = Files { pem: Some(&pem), ..Files::default() }.load().0.unwrap_err();
        assert!(fault.contains(expected) && !fault.contains("SECRET"), "{fault}");
    }
}

#[test]
fn a_token_without_a_name_is_tried_with_few_keys() {
    let fixtures = Fixtures::read();
    let token = fixtures.text("/without_kid/RS256");
    let of = |others: usize| {
        let pem = [vec!["other"; others], vec!["rsa"]].concat();
        subject(&Files { pem: Some(&fixtures.pem(&pem)), ..Files::default() }.verifier(), token)
    };
    assert_eq!(of(3).as_deref(), Ok("alice"));
    assert_eq!(of(4), Err(Proof::Rejected));
}

#[test]
fn a_key_of_the_name_is_tried_before_those_without() {
    let fixtures = Fixtures::read();
    let (pem, jwks) = (fixtures.pem(&["other"; 5]), fixtures.set("all"));
    let (verifier, warnings) =
        Files { pem: Some(&pem), jwks: Some(&jwks), ..Files::default() }.load();
    let token = fixtures.text("/good/RS256");
    assert_eq!(subject(&verifier.unwrap(), token).as_deref(), Ok("alice"));
    assert!(
        warnings.iter().any(|it| it.contains("more than 4 public keys without a name")),
        "{warnings:?}"
    );
}

#[test]
fn a_key_set_among_the_secrets_is_none() {
    let fixtures = Fixtures::read();
    let set = fixtures.set("all");
    let fault = Files { secrets: Some(&set), ..Files::default() }.load().0.unwrap_err();
    assert!(fault.ends_with("secrets is JSON: name a key set as token.jwks_file"), "{fault}");
}

#[test]
fn a_public_key_among_the_secrets_is_none() {
    let fixtures = Fixtures::read();
    let pem = fixtures.pem(&["rsa"]);
    let fault = Files { secrets: Some(&pem), ..Files::default() }.load().0.unwrap_err();
    assert!(fault.ends_with("secrets is a PEM file: name it as token.public_key_file"), "{fault}");
}
