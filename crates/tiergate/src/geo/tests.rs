//! With small databases, written by the tests themselves.

use super::*;
use mmdb::{country, database, system, v4};
use std::path::PathBuf;
use tempfile::TempDir;

#[path = "../../tests/support/mmdb.rs"]
mod mmdb;

fn file(folder: &TempDir, name: &str, content: &[u8]) -> NamedFile {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    NamedFile { path, key: "geo.database".into(), at: 0 }
}

fn of(geo: &Geo, address: &str) -> (String, u32) {
    let place = geo.of(address.parse().unwrap());
    let letters = place.country.into_iter().filter(|letter| *letter != 0);
    (letters.map(char::from).collect(), place.asn)
}

#[test]
fn country_and_system_come_from_whichever_database_has_them() {
    let folder = TempDir::new().unwrap();
    let countries = [
        (v4(192, 0, 2, 0), 24, country("DE")),
        (v4(198, 51, 100, 0), 25, country("se")),
        (v4(203, 0, 113, 0), 24, country("long")),
    ];
    // In a tree of IPv6, IPv4 lies at ::/96.
    let six = u128::from("2001:db8::".parse::<std::net::Ipv6Addr>().unwrap());
    let systems = [(v4(192, 0, 2, 0), 96 + 25, system(64_500)), (six, 32, system(4_200_000_001))];
    let mut faults = Faults::new();
    let files = [
        file(&folder, "country.mmdb", &database(4, &countries)),
        file(&folder, "asn.mmdb", &database(6, &systems)),
    ];
    let geo = Geo::load(&files, &mut faults);
    assert_eq!(faults, []);
    assert_eq!(of(&geo, "192.0.2.1"), ("DE".into(), 64_500));
    assert_eq!(of(&geo, "::ffff:192.0.2.1"), ("DE".into(), 64_500));
    assert_eq!(of(&geo, "192.0.2.200"), ("DE".into(), 0));
    assert_eq!(of(&geo, "198.51.100.1"), ("SE".into(), 0));
    assert_eq!(of(&geo, "198.51.100.129"), (String::new(), 0));
    assert_eq!(of(&geo, "203.0.113.1"), (String::new(), 0), "no country has such a code");
    assert_eq!(of(&geo, "2001:db8::1"), (String::new(), 4_200_000_001));
    assert_eq!(of(&geo, "2001:db9::1"), (String::new(), 0));
    assert_eq!(format!("{geo:?}"), "[\"Test\", \"Test\"]");
}

#[test]
fn what_is_no_database_is_told() {
    let folder = TempDir::new().unwrap();
    let whole = database(4, &[(v4(192, 0, 2, 0), 24, country("DE"))]);
    let mut torn = whole.clone();
    // A node that leads behind the end.
    torn[..3].copy_from_slice(&[0xff; 3]);
    let none = NamedFile { path: folder.path().join("none"), ..NamedFile::default() };
    let files = [
        none,
        file(&folder, "empty", b""),
        file(&folder, "text", b"no database"),
        file(&folder, "cut", &whole[whole.len() / 2..]),
        file(&folder, "torn", &torn),
        file(&folder, "good", &whole),
    ];
    let mut faults = Faults::new();
    let good = Geo::load(&files, &mut faults);
    let told: Vec<&str> =
        faults.iter().map(|(file, _)| file.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(told, ["none", "empty", "text", "cut", "torn"]);
    assert!(faults[0].1.contains("cannot be read"), "{faults:?}");
    assert!(faults[2].1.contains("is no MaxMind database"), "{faults:?}");
    assert!(!good.is_empty());
}
