//! A policy's word on a request that is only told.

use crate::config::meant::Policy;
use crate::request::facts::is_idempotent;
use tiergate_core::classify::path::{Buffers, normalise};
use tiergate_core::classify::{Match, Scratch};
use tiergate_core::gate::Arrival;
use tiergate_core::request::RequestView;
use tiergate_sim::asked::{Described, Known, Sorted};

/// Classifies requests as the gateway does, by the same compiled rules.
#[derive(Debug)]
pub struct Sorter<'p> {
    policy: &'p Policy,
    scratch: Scratch,
    paths: Buffers,
    claims: Vec<u8>,
}

impl<'p> Sorter<'p> {
    /// By that policy.
    pub fn new(policy: &'p Policy) -> Self {
        Sorter {
            policy,
            scratch: Scratch::default(),
            paths: Buffers::default(),
            claims: Vec::new(),
        }
    }

    /// What the policy says of a request. Keys and tokens among its fields are checked, unless a
    /// subject is told; names are not looked up.
    ///
    /// # Errors
    /// When it came by a listener that is not there.
    pub fn sort(&mut self, told: &Described<'_>) -> Result<Sorted, String> {
        let Known { sni, client_name, country, asn, certificate, subject, dscp, .. } = told.known;
        let listener = self.policy.listener_called(&told.known.listener)?;
        let place = self.policy.geo.of(told.client);
        let client_name = client_name.to_ascii_lowercase();
        self.claims.clear();
        // One that the gateway answers with an error is counted as refused.
        let (path, accepted) = match normalise(told.path, self.policy.paths, &mut self.paths) {
            Ok(paths) => (paths.judged, true),
            Err(unclear) => (unclear.judged, false),
        };
        let subject = match subject.is_empty() {
            true => self.policy.credentials.subject(told.fields, &mut self.claims, |_| {}),
            false => subject.as_bytes(),
        };
        #[allow(clippy::needless_update, reason = "a new part need not be told here at once")]
        let view = RequestView {
            method: told.method,
            host: told.host,
            path,
            query: told.query,
            fields: told.fields,
            client: told.client,
            listener,
            local: self.policy.listeners[usize::from(listener)].address.ip(),
            sni: sni.as_bytes(),
            client_name: client_name.as_bytes(),
            country: match country.to_ascii_uppercase().as_bytes() {
                [one, two] => [*one, *two],
                _ => place.country,
            },
            asn: if *asn == 0 { place.asn } else { *asn },
            certificate: certificate.as_bytes(),
            subject,
            dscp: dscp.unwrap_or(RequestView::DSCP_UNKNOWN),
            ..RequestView::EMPTY
        };
        let found = self.policy.classifier.classify(&view, &mut self.scratch);
        Ok(Sorted {
            arrival: self.arrival(&found, told),
            refused: found.refuse || !accepted,
            repeatable: is_idempotent(told.method),
        })
    }

    /// The request as it arrives at the gate, but for what a connection or a session adds: that is the
    /// simulator's.
    fn arrival(&self, found: &Match, told: &Described<'_>) -> Arrival {
        // A head of HTTP/1.1, near enough.
        let fields = told.fields.iter().map(|field| field.name.len() + field.value.len() + 4);
        let bytes = told.method.len() + told.path.len() + told.query.len() + 16;
        let arrival = Arrival::matched(
            found,
            self.policy.plan.rule_ids(),
            (bytes + fields.sum::<usize>()) as u32,
        );
        let importance = arrival.importance.filter(|_| self.policy.plan.shedding.is_some());
        Arrival { importance, ..arrival }
    }
}
