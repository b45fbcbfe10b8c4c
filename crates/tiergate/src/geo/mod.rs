//! Country and autonomous system of an address, from MaxMind databases (`.mmdb`).
//!
//! Databases are read into memory, because truncating a mapped file would kill the process; a reload
//! reads them again. Every database with `country.iso_code` or `autonomous_system_number` works:
//! GeoLite2, GeoIP2, DB-IP, IPinfo's in that form.

use crate::files::{self, Streams};
use crate::secrets::{Faults, NamedFile};
use maxminddb::{PathElement, Reader};
use std::fmt;
use std::io::Read;
use std::net::IpAddr;

/// Largest database: GeoIP2 City has 130 MB.
const FILE_LEN_MAX: u64 = 1 << 30;

/// The country and network of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// ISO 3166, upper case; zero: unknown.
    pub country: [u8; 2],
    /// The number of the autonomous system; 0: unknown.
    pub asn: u32,
}

/// The databases of a policy; the first one that has an entry decides.
#[derive(Default)]
pub struct Geo {
    databases: Vec<Database>,
}

struct Database {
    reader: Reader<Vec<u8>>,
    /// It has IPv4 only.
    only_v4: bool,
}

impl fmt::Debug for Geo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.databases.iter().map(|one| &one.reader.metadata().database_type);
        f.debug_list().entries(kinds).finish()
    }
}

impl Geo {
    /// Reads and checks the databases. `faults` gets all errors, and what to do about them.
    pub fn load(files: &[NamedFile], faults: &mut Faults) -> Self {
        Geo {
            databases: files.iter().filter_map(|it| it.check(Database::load(it), faults)).collect(),
        }
    }

    /// Whether there are no databases.
    pub fn is_empty(&self) -> bool {
        self.databases.is_empty()
    }

    /// The country and network of an address. At most 128 steps for each database, no allocation.
    pub fn of(&self, address: IpAddr) -> Place {
        let address = address.to_canonical();
        let mut place = Place::default();
        for database in &self.databases {
            if database.only_v4 && address.is_ipv6() {
                continue;
            }
            let Ok(found) = database.reader.lookup(address) else { continue };
            if !found.has_data() {
                continue;
            }
            if place.country == [0; 2]
                && let Ok(Some(code)) = found.decode_path::<&str>(&COUNTRY)
                && let Ok(code) = <[u8; 2]>::try_from(code.as_bytes())
            {
                place.country = code.map(|letter| letter.to_ascii_uppercase());
            }
            if place.asn == 0
                && let Ok(Some(number)) = found.decode_path::<u32>(&ASN)
            {
                place.asn = number;
            }
        }
        place
    }
}

const COUNTRY: [PathElement<'_>; 2] = [PathElement::Key("country"), PathElement::Key("iso_code")];
const ASN: [PathElement<'_>; 1] = [PathElement::Key("autonomous_system_number")];

impl Database {
    fn load(file: &NamedFile) -> Result<Self, String> {
        let shown = file.path.display();
        let unreadable = |cause| format!("{shown} cannot be read: {cause}");
        let about = std::fs::metadata(&file.path).map_err(unreadable)?;
        if about.len() > FILE_LEN_MAX {
            return Err(format!("{shown} must have at most {FILE_LEN_MAX} bytes"));
        }
        let mut content = Vec::new();
        let mut opened = files::open(&file.path, Streams::Refused).map_err(unreadable)?;
        opened.read_to_end(&mut content).map_err(unreadable)?;
        let broken = |cause| format!("{shown} is no MaxMind database, or broken: {cause}");
        let reader = Reader::from_source(content).map_err(broken)?;
        // A malformed tree or record is found now, not by a request.
        reader.verify().map_err(broken)?;
        let only_v4 = reader.metadata().ip_version == 4;
        Ok(Database { reader, only_v4 })
    }
}

#[cfg(test)]
mod tests;
