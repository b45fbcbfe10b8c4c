//! Whether a scenario for a policy file makes sense.

use super::Scenario;
use crate::asked::{Asked, clients};
use crate::client::{Arrivals, Population, Profile};
use crate::fault::{Fault, Source, Step};

/// Longest run, in seconds: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;
/// Most users of a closed population.
const USERS_MAX: u32 = 1_000_000;

type Way<'w> = Vec<Step<'w>>;

impl Scenario {
    /// Checks a scenario for a policy of these classes. `replays`: a log says what else comes, and how
    /// long it lasts if the scenario does not.
    ///
    /// # Errors
    /// The first fault, at its line.
    pub fn check_for_policy(
        &self,
        source: Source<'_>,
        classes: &[&str],
        replays: bool,
    ) -> Result<(), Fault> {
        for key in ["limit", "class", "sessions", "shed_aim_ms"] {
            let way = [key.into()];
            if source.has(&way) {
                return Err(source.fault(&way, "comes from the policy file: leave it out"));
            }
        }
        let check = Check { source, classes };
        let lasts = if replays { 0.0..=SECONDS_MAX } else { f64::MIN_POSITIVE..=SECONDS_MAX };
        let way = || vec!["seconds".into()];
        check.that(lasts.contains(&self.seconds), way, || {
            format!("must be more than 0 and at most {SECONDS_MAX}, got {}", self.seconds)
        })?;
        let mut before = 0.0;
        for (place, &cut) in self.cuts_s.iter().enumerate() {
            check.that(
                cut > before && (cut < self.seconds || self.seconds == 0.0),
                || vec!["cuts_s".into(), place.into()],
                || format!("must lie behind {before} and before the end, got {cut}"),
            )?;
            before = cut;
        }
        check.that(
            !self.population.is_empty() || replays,
            || vec!["population".into()],
            || "is missing: nobody sends requests; add [[population]]".to_owned(),
        )?;
        for (place, population) in self.population.iter().enumerate() {
            check.population(&vec!["population".into(), place.into()], population)?;
        }
        check.server(self)?;
        self.check_expected(&check)
    }

    fn check_expected(&self, check: &Check<'_>) -> Result<(), Fault> {
        for (place, expected) in self.expect.iter().enumerate() {
            let at = |key: &'static str| vec!["expect".into(), place.into(), key.into()];
            let phases = self.cuts_s.len() + 1;
            check.that(
                expected.phase < phases,
                || at("phase"),
                || format!("must be less than {phases}, the number of phases that `cuts_s` makes"),
            )?;
            if let Some(class) = &expected.class {
                check.class(class, || at("class"))?;
            }
        }
        Ok(())
    }
}

struct Check<'c> {
    source: Source<'c>,
    classes: &'c [&'c str],
}

impl<'c> Check<'c> {
    fn that<'w>(
        &self,
        holds: bool,
        way: impl FnOnce() -> Way<'w>,
        message: impl FnOnce() -> String,
    ) -> Result<(), Fault> {
        match holds {
            true => Ok(()),
            false => Err(self.source.fault(&way(), message())),
        }
    }

    fn class<'w>(&self, name: &str, way: impl FnOnce() -> Way<'w>) -> Result<(), Fault> {
        self.that(self.classes.contains(&name), way, || {
            format!("must be a class of the policy ({}), got {name:?}", self.classes.join(", "))
        })
    }

    fn population(&self, way: &Way<'c>, it: &Population) -> Result<(), Fault> {
        let at = |key: &'static str| [&way[..], &[key.into()]].concat();
        self.that(it.class.is_empty(), || at("class"), || {
            "must be left out: the policy classifies requests; write request = [{ path = \"/\" }]"
                .to_owned()
        })?;
        self.that(
            !it.request.is_empty(),
            || at("request"),
            || "is missing: say what is asked for, such as request = [{ path = \"/\" }]".to_owned(),
        )?;
        for (place, asked) in it.request.iter().enumerate() {
            self.request(&[&way[..], &["request".into(), place.into()]].concat(), asked)?;
        }
        let sum: f64 = it.request.iter().map(|asked| asked.weight).sum();
        self.that(sum > 0.0, || at("request"), || "must have a weight above 0".to_owned())?;
        clients(&it.clients).map_err(|fault| self.source.fault(&at("clients"), fault))?;
        let positive = |number: f64| number > 0.0;
        let times = [("patience_ms", it.patience_ms), ("retry_after_ms", it.retry_after_ms)];
        for (key, ms) in times {
            self.that(positive(ms), || at(key), || format!("must be more than 0, got {ms}"))?;
        }
        self.that(
            it.from_s >= 0.0 && it.to_s > it.from_s,
            || at("to_s"),
            || format!("must lie behind from_s = {}, got {}", it.from_s, it.to_s),
        )?;
        let known = &it.known;
        self.that(
            known.dscp.is_none_or(|dscp| dscp < 64),
            || at("known"),
            || "dscp must be less than 64".to_owned(),
        )?;
        let letters =
            known.country.len() == 2 && known.country.bytes().all(|b| b.is_ascii_alphabetic());
        self.that(
            known.country.is_empty() || letters,
            || at("known"),
            || format!("country must be two letters such as DE, got {:?}", known.country),
        )?;
        self.arrivals(&at("arrivals"), &it.arrivals)
    }

    fn request(&self, way: &[Step<'_>], asked: &Asked) -> Result<(), Fault> {
        let at = |key: &'static str| [way, &[key.into()]].concat();
        let token = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        self.that(
            asked.path.starts_with('/') && token(&asked.path),
            || at("path"),
            || format!("must begin with `/` and have no blanks, got {:?}", asked.path),
        )?;
        self.that(
            token(&asked.method),
            || at("method"),
            || format!("must be a method such as GET, got {:?}", asked.method),
        )?;
        for (key, number) in [("weight", asked.weight), ("times", asked.times)] {
            self.that(
                (0.0..=1e6).contains(&number),
                || at(key),
                || format!("must be from 0 to 1000000, got {number}"),
            )?;
        }
        Ok(())
    }

    fn arrivals(&self, way: &[Step<'_>], arrivals: &Arrivals) -> Result<(), Fault> {
        let at = |key: &'static str| [way, &[key.into()]].concat();
        match arrivals {
            Arrivals::Closed { users, .. } => {
                self.that(
                    (1..=USERS_MAX).contains(users),
                    || at("users"),
                    || format!("must be 1 to {USERS_MAX}, got {users}"),
                )?;
            }
            Arrivals::Sessions { requests, .. } => {
                self.that(*requests > 0, || at("requests"), || "must be 1 or more".to_owned())?;
            }
            _ => {}
        }
        let rate = |rate: &f64| (0.0..=1e7).contains(rate);
        let wrong = || "must be rates from 0 to 10000000/s, of which one is above 0".to_owned();
        match arrivals.rate() {
            Some(Profile::Flat(flat)) => self.that(rate(flat) && *flat > 0.0, || at("rate"), wrong),
            Some(Profile::Points { points, .. }) => {
                let rates = points.iter().all(|[_, it]| rate(it));
                let some = points.iter().any(|[_, it]| *it > 0.0);
                self.that(rates && some, || at("rate"), wrong)?;
                let ascending = points.windows(2).all(|pair| pair[0][0] < pair[1][0]);
                self.that(
                    ascending,
                    || at("rate"),
                    || "must have its points [second, rate] in order of time".to_owned(),
                )
            }
            Some(Profile::File { .. }) | None => Ok(()),
        }
    }

    fn server(&self, scenario: &Scenario) -> Result<(), Fault> {
        let server = &scenario.server;
        let at = |key: &'static str| vec!["server".into(), key.into()];
        let works = server.wait.mean() > 0.0 || server.cpu.mean() > 0.0;
        self.that(works, || vec!["server".into()], || {
            "must say how long requests take, such as wait = { kind = \"exponential\", mean_ms = 20 }"
                .to_owned()
        })?;
        self.that(server.workers != Some(0), || at("workers"), || "must be 1 or more".to_owned())?;
        self.that(
            server.cores.is_none_or(|cores| cores > 0.0),
            || at("cores"),
            || "must be more than 0".to_owned(),
        )?;
        let mut before = -1.0;
        for (place, step) in server.step.iter().enumerate() {
            let at = || vec!["server".into(), "step".into(), place.into(), "at_s".into()];
            self.that(step.at_s > before, at, || "must be in order of time".to_owned())?;
            before = step.at_s;
        }
        for (place, slow) in server.slow.iter().enumerate() {
            let at = || vec!["server".into(), "slow".into(), place.into(), "class".into()];
            self.class(&slow.class, at)?;
        }
        Ok(())
    }
}
