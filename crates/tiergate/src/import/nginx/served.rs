//! What a location does with the requests that are its own: a server, another location by `try_files`, or none.

use super::super::draft::listed;
use super::access::Serving;
use super::grammar::Directive;
use super::inherited::Inherited;
use super::location::path_of;
use super::named::{goes_on, is_named};
use super::reasons::{handler, left_out, left_out_of_location};
use super::server::{Condition, Here, and};

impl Here<'_> {
    /// What a location does with the requests that no other one takes.
    pub(super) fn own(
        &mut self,
        it: &Directive,
        conditions: &[Condition],
        inherited: &Inherited<'_>,
    ) {
        if let Some(line) = inherited.internal {
            self.refuse(conditions, &line.from);
            return self.keep_pools(&it.block);
        }
        let mut conditions = conditions.to_vec();
        let Some(others) = self.rewritten(&it.block, &mut conditions) else {
            return self.keep_pools(&it.block);
        };
        if !self.tried(it, &conditions, inherited) {
            match it.block.iter().rfind(|it| it.name == "proxy_pass") {
                Some(target) => self.serve(it, target, &conditions, inherited),
                None => self.unserved(it, &conditions),
            }
        }
        self.otherwise(&others);
    }

    /// Serves requests as the named location at which the `try_files` of a server or location goes on. Whether there is such a `try_files`.
    ///
    /// Source: `ngx_http_try_files_handler` comes after the limits and the access of its own location, and `ngx_http_named_location` has those of the named one
    /// follow; of limits only the first counts.
    pub(super) fn tried(
        &mut self,
        it: &Directive,
        conditions: &[Condition],
        inherited: &Inherited<'_>,
    ) -> bool {
        let line = it.block.iter().rfind(|it| it.name == "try_files");
        let Some((line, name)) = line.and_then(|it| Some((it, goes_on(it)?))) else {
            return false;
        };
        // From one with a name to another there may be no end.
        let named = self.named.iter_mut().find(|it| it.location.argument(0) == name);
        let Some(named) = named.filter(|_| !is_named(it)) else {
            self.refuse(conditions, &line.from);
            self.draft.stricter(&line.from, "goes on at no location of this server, or from a named one at another: refused until you write [[rule]]s for it");
            return true;
        };
        named.is_used = true;
        let location = named.location;
        let both = inherited.and_then(&named.inherited);
        let has_except = it.block.iter().any(|it| it.name == "limit_except");
        match both.filter(|_| !has_except) {
            Some(both) => {
                let is_file = |it: &String| {
                    ["$uri", "$document_uri", "$request_filename"]
                        .iter()
                        .any(|own| it.contains(own))
                };
                if line.arguments[..line.arguments.len() - 1].iter().all(is_file) {
                    self.draft.note(&line.from, "no file is looked for: what nginx has as a file is asked of the server, too; let it serve the files, or keep nginx behind for them");
                } else {
                    self.draft.less_safe(&line.from, "no file is looked for: where there is one, as during maintenance, nginx answers with that, and here the server is asked");
                }
                left_out_of_location(location, false, self.draft);
                self.own(location, conditions, &both);
            }
            None => {
                self.refuse(conditions, &line.from);
                self.draft.stricter(&line.from, "this location and the one where it goes on ask for different things of clients: refused until you write [[rule]]s that ask for both");
                self.keep_pools(&location.block);
            }
        }
        true
    }

    /// Refuses the requests of a location that has no server of them.
    fn unserved(&mut self, it: &Directive, conditions: &[Condition]) {
        self.refuse(conditions, &it.from);
        match it.block.iter().rev().find_map(|line| Some((line, handler(&line.name)?))) {
            Some((line, why)) => {
                self.draft.stricter(&line.from, &format!("{why}; refused until you write a [[rule]] for it"));
            }
            None => self.draft.stricter(&it.from, "nothing is proxied here: Tiergate serves no files; name the server that does, as its pool"),
        }
    }

    /// The rules of a location with a server.
    fn serve(
        &mut self,
        it: &Directive,
        target: &Directive,
        conditions: &[Condition],
        inherited: &Inherited<'_>,
    ) {
        let serving = Serving {
            pools: self.pools(target, Some(path_of(it))),
            policed: self.police(inherited),
            resource: None,
            location: it,
            target,
        };
        let resource = self.resource(inherited, &serving.pools);
        let serving = Serving { resource, ..serving };
        let Some(except) = it.block.iter().rfind(|it| it.name == "limit_except") else {
            return self.access(conditions, inherited, &serving);
        };
        let mut methods: Vec<_> =
            except.arguments.iter().map(|it| it.to_ascii_uppercase()).collect();
        if methods.iter().any(|it| it == "GET") {
            methods.push("HEAD".to_owned());
        }
        let named = ("method".to_owned(), listed(&methods), except.from.clone());
        let Some(named) = and(conditions, named) else {
            self.refuse(conditions, &except.from);
            return self.draft.stricter(&except.from, "methods are asked for in two ways: everything is refused here until you write a [[rule]] with the methods that both let pass");
        };
        self.access(&named, inherited, &serving);
        let answers = |it: &&Directive| it.name == "proxy_pass" || handler(&it.name).is_some();
        if let Some(line) = except.block.iter().find(answers) {
            self.refuse(conditions, &line.from);
            self.draft.stricter(&line.from, "other methods have a server or a program of their own: refused until you write a [[rule]] with these methods and their pool");
            return self.keep_pools(&except.block);
        }
        for line in &except.block {
            left_out(line, self.draft);
        }
        self.access(conditions, &inherited.within(&except.block), &serving);
    }
}
