//! The parts of a request that few policies ask for, beside its path, host, method, client and fields.

use super::head;
use super::names::Names;
use super::networks::Networks;
use super::numbers::Numbers;
use super::regexes::{RegexCache, Regexes};
use super::rule::Number;
use super::search::Search;
use super::texts::{Hosts, Texts};
use crate::request::RequestView;

/// What is asked for of the further parts.
#[derive(Clone, Debug)]
pub(super) struct Further {
    pub extensions: Names<u32>,
    pub regexes: Regexes,
    pub parameters: Option<Names<Texts>>,
    pub destinations: Option<Networks>,
    pub sni: Hosts,
    pub domains: Hosts,
    pub certificates: Texts,
    pub subjects: Texts,
    /// Numbers that do not come from fields, as far as any rule asks for them.
    pub numbers: Vec<(Number, Numbers)>,
}

/// What looking at them keeps between requests.
#[derive(Clone, Debug, Default)]
pub(super) struct FurtherScratch {
    decoded: Vec<u8>,
    regexes: Option<RegexCache>,
}

impl Further {
    /// Tells the search every fact about these parts.
    pub(super) fn find(
        &self,
        view: &RequestView<'_>,
        scratch: &mut FurtherScratch,
        search: &mut Search<'_>,
    ) {
        if let Some(extension) = head::extension(view.path)
            && let Some(fact) = self.extensions.find(extension)
        {
            search.hold(*fact);
        }
        self.regexes.find(view.path, &mut scratch.regexes, |fact| search.hold(fact));
        if let Some(parameters) = self.parameters.as_ref().filter(|_| !view.query.is_empty()) {
            head::parameters(view.query, &mut scratch.decoded, |name, value| {
                if let Some(values) = parameters.find(name) {
                    values.find(value, |fact| search.hold(fact));
                }
            });
        }
        if let Some(destinations) = &self.destinations {
            destinations.find(view.local, |fact| search.hold(fact));
        }
        for (hosts, name) in [(&self.sni, view.sni), (&self.domains, view.client_name)] {
            if !name.is_empty() {
                hosts.find(name, |fact| search.hold(fact));
            }
        }
        for (texts, text) in
            [(&self.certificates, view.certificate), (&self.subjects, view.subject)]
        {
            if !text.is_empty() {
                texts.find(text, |fact| search.hold(fact));
            }
        }
        for (number, spans) in &self.numbers {
            if let Some(number) = number.of(view) {
                spans.find(number, |fact| search.hold(fact));
            }
        }
    }
}
