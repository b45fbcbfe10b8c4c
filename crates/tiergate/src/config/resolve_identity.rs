//! Who clients are, as written and as meant.

use super::defaults;
use super::error::Place;
use super::meant::{
    ClientAuthority, ClientCertificate, Identity, KeyTable, NamedFile, Names, PolicyRule, Token,
    Wanted,
};
use super::raw;
use super::read::{At, OneOrMany};
use super::resolve::{Resolver, at_most};
use super::show;
use super::values::{ClientText, File, is_token};
use tiergate_core::classify::score::{ScoreClient, ScoreTables};
use tiergate_core::request::Part;

impl Resolver<'_> {
    /// All that the policy says of who clients are, beyond their certificates.
    pub(super) fn identity(
        &mut self,
        names: raw::Names,
        keys: Option<At<Vec<At<raw::Key>>>>,
        token: Option<At<raw::Token>>,
        geo: Option<At<raw::Geo>>,
    ) -> Identity {
        Identity {
            names: self.names(names),
            keys: keys.map_or_else(Vec::new, |keys| self.keys(keys)),
            token: token.and_then(|token| self.token(token)),
            geo: geo.map_or_else(Vec::new, |geo| self.geo(geo)),
        }
    }

    fn keys(&mut self, At { value: raw, place }: At<Vec<At<raw::Key>>>) -> Vec<KeyTable> {
        at_most(&place, raw.len(), defaults::KEY_TABLES_MAX, "tables", self.faults);
        let mut tables: Vec<KeyTable> = Vec::new();
        for At { value: raw, place } in raw {
            let name_place = raw.name.as_ref().map(|name| name.place.clone());
            let name = self.need(raw.name, &place, "name", "write name = \"…\"");
            if let Some((name, place)) = name.as_ref().zip(name_place)
                && tables.iter().any(|table| table.name == *name)
            {
                self.faults.add(&place, format!("another table is called {name:?} already"));
            }
            let header = self.header(raw.header, defaults::KEY_HEADER);
            let how = "name a file with name:key lines";
            let file = self.secret_file(raw.secret_file, &place, how);
            tables.extend(name.zip(file).map(|(name, file)| KeyTable { name, header, file }));
        }
        tables
    }

    fn token(&mut self, At { value: raw, place }: At<raw::Token>) -> Option<Token> {
        let how = "name a file with a secret a line";
        let file = self.secret_file(raw.secret_file, &place, how);
        Some(Token {
            header: self.header(raw.header, defaults::TOKEN_HEADER),
            issuer: raw.issuer.map(|issuer| issuer.value),
            audience: raw.audience.map(|audience| audience.value),
            leeway: self.time(raw.leeway, defaults::TOKEN_LEEWAY),
            file: file?,
        })
    }

    fn geo(&mut self, At { value: raw, place }: At<raw::Geo>) -> Vec<NamedFile> {
        let how = "name a MaxMind database, \"….mmdb\"";
        let list = raw.database.as_ref().map(|database| database.place.clone());
        let Some((database, list)) = self.need(raw.database, &place, "database", how).zip(list)
        else {
            return Vec::new();
        };
        let files = match database {
            OneOrMany::One(file) => vec![At { value: file, place: list.clone() }],
            OneOrMany::Many(files) => files,
        };
        at_most(&list, files.len(), defaults::GEO_DATABASES_MAX, "databases", self.faults);
        files.into_iter().map(|file| self.named_file(file)).collect()
    }

    /// The name of a header, lower case.
    fn header(&mut self, raw: Option<At<String>>, default: &str) -> String {
        let Some(At { value, place }) = raw else {
            return default.to_owned();
        };
        if !is_token(&value) {
            self.faults.add(&place, format!("must be the name of a header, got {value:?}"));
        }
        value.to_ascii_lowercase()
    }

    fn secret_file(
        &mut self,
        raw: Option<At<File>>,
        table: &Place,
        how: &str,
    ) -> Option<NamedFile> {
        let place = raw.as_ref().map(|file| file.place.clone());
        let file = self.need(raw, table, "secret_file", how)?;
        Some(self.named_file(At { value: file, place: place.expect("it is there") }))
    }

    /// A file, with where the policy names it.
    pub(super) fn named_file(&self, At { value, place }: At<File>) -> NamedFile {
        NamedFile { path: self.file(value), key: place.key, at: place.span.start }
    }

    /// Who vouches for the clients of a listener.
    pub(super) fn client_authority(
        &mut self,
        ca: Option<At<File>>,
        revoked: Option<At<OneOrMany<File>>>,
        client: Option<At<ClientText>>,
    ) -> Option<ClientAuthority> {
        let Some(ca) = ca else {
            let revoked = revoked.map(|revoked| revoked.place);
            for place in client.map(|client| client.place).into_iter().chain(revoked) {
                let message = "needs client_ca, the PEM file of the authorities that sign clients";
                self.faults.add(&place, message);
            }
            return None;
        };
        let revoked = revoked.map_or_else(Vec::new, |At { value, place }| {
            let files = value.into_vec();
            at_most(&place, files.len(), defaults::CLIENT_CRLS_MAX, "files", self.faults);
            files.into_iter().map(|file| self.file(file)).collect()
        });
        let certificate = client.map_or(ClientCertificate::Optional, |client| client.value.0);
        Some(ClientAuthority { ca: self.file(ca.value), revoked, certificate })
    }

    fn names(&mut self, raw: raw::Names) -> Names {
        let d = defaults::NAMES;
        let servers = raw.servers.map_or_else(Vec::new, |servers| {
            // A server that cannot be read is left out of the list, and has been told of.
            if servers.value.is_empty() && !self.faults.in_list(&servers.place) {
                let message = "must not be empty; leave it out for the system's servers";
                self.faults.add(&servers.place, message);
            }
            let (len, max) = (servers.value.len(), defaults::NAME_SERVERS_MAX);
            at_most(&servers.place, len, max, "servers", self.faults);
            servers.value.into_iter().map(|server| server.value.0).collect()
        });
        let timeout = raw.timeout.as_ref().map(|timeout| timeout.place.clone());
        let least = raw.ttl_min.as_ref().or(raw.ttl_max.as_ref()).map(|ttl| ttl.place.clone());
        let names = Names {
            servers,
            timeout: self.time(raw.timeout, d.timeout),
            entries_max: self.number(raw.entries_max, d.entries_max as u64, 64..=1 << 24) as usize,
            lookups_max: self.number(raw.lookups_max, d.lookups_max as u64, 1..=1024) as usize,
            ttl_min: self.time(raw.ttl_min, d.ttl_min),
            ttl_max: self.time(raw.ttl_max, d.ttl_max),
        };
        let longest = defaults::NAMES_TIMEOUT_MAX;
        if let Some(place) = timeout.filter(|_| names.timeout > longest) {
            let [most, got] = [longest, names.timeout].map(show::time);
            self.faults.add(&place, format!("must be at most \"{most}\", got \"{got}\""));
        }
        if let Some(place) = least.filter(|_| names.ttl_min > names.ttl_max) {
            let [min, max] = [names.ttl_min, names.ttl_max].map(show::time);
            let message = format!("ttl_min, \"{min}\", must be at most ttl_max, \"{max}\"");
            self.faults.add(&place, message);
        }
        names
    }
}

/// What the rules ask for that costs something to find out.
///
/// Names are asked for by a `domain` condition and by a score table with domains.
pub(super) fn wanted(rules: &[PolicyRule], score: Option<&ScoreTables>) -> Wanted {
    let asks = |part: Part| {
        rules.iter().flat_map(|rule| &rule.rule.conditions).any(|one| *one.part() == part)
    };
    let of_score = |tables: &ScoreTables| {
        tables.clients.iter().any(|(client, _)| matches!(client, ScoreClient::Name(_)))
    };
    Wanted { names: asks(Part::ClientName) || score.is_some_and(of_score), dscp: asks(Part::Dscp) }
}
