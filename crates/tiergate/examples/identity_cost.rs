//! What it costs a request to have its client identified: `cargo run --release --example identity_cost`.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;
use tiergate::config::load;
use tiergate::reverse_dns::ReverseDns;
use tiergate_core::request::Field;
use tiergate_core::time::Moment;

#[path = "../tests/support/mmdb.rs"]
mod mmdb;

fn measure(what: &str, mut action: impl FnMut(u32)) {
    const ROUNDS: u32 = 200_000;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        (0..ROUNDS).for_each(&mut action);
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    println!("{what:50} {best:8.0} ns");
}

fn address(number: u32) -> IpAddr {
    let mut hasher = DefaultHasher::new();
    number.hash(&mut hasher);
    Ipv4Addr::from(hasher.finish() as u32).into()
}

fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let write = |name: &str, content: &[u8]| std::fs::write(folder.path().join(name), content);
    let keys: String = (0..100_000).map(|it| format!("n{it}:key-number-{it:010}\n")).collect();
    write("keys", keys.as_bytes())?;
    // The example of https://www.rfc-editor.org/rfc/rfc7515#appendix-A.1 has no subject; it costs the
    // same until that is missed.
    write("tokens", b"base64:AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ+EstJQLr/T+1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow==")?;
    let networks: Vec<_> = (0..100_000)
        .map(|it| (u128::from(it * 42_949_u32) & !0xfff, 20, mmdb::country("DE")))
        .collect();
    write("geo", &mmdb::database(4, &networks))?;
    write(
        "policy.toml",
        b"[origin]\nservers = [\"a:1\"]\n[geo]\ndatabase = \"geo\"\n[token]\nsecret_file = \"tokens\"\n\
          [[key]]\nname = \"k\"\nsecret_file = \"keys\"\n",
    )?;
    let policy = load(&folder.path().join("policy.toml"))?;
    let (credentials, mut claims) = (&policy.credentials, Vec::new());
    let fields = [Field { name: b"Host", value: b"a" }, Field { name: b"Accept", value: b"*/*" }];
    let mut subject = |more: Option<Field<'_>>| {
        let fields = [fields[0], fields[1], more.unwrap_or_default()];
        black_box(credentials.subject(black_box(&fields), &mut claims, |_| {}));
    };
    measure("keys and tokens, the request has none", |_| subject(None));
    let key = Field { name: b"X-Api-Key", value: b"key-number-0000054321" };
    measure("a key of 100,000", |_| subject(Some(key)));
    let key = Field { name: b"X-Api-Key", value: b"key-number-0000154321" };
    measure("an unknown key", |_| subject(Some(key)));
    let token = b"Bearer eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let token = Field { name: b"Authorization", value: token };
    measure("a token", |_| subject(Some(token)));
    let names = ReverseDns::new(policy.identity.names.clone(), Arc::default());
    let known = address(0);
    names.name_of(known, Moment::ZERO);
    measure("the name of a client that is remembered", |_| {
        black_box(names.name_of(black_box(known), Moment::from_millis(1)));
    });
    measure("the name of one that is not", |it| {
        black_box(names.name_of(black_box(address(it)), Moment::from_millis(1)));
    });
    measure("country of an address (100,000 networks)", |it| {
        black_box(policy.geo.of(black_box(address(it))));
    });
    Ok(())
}
