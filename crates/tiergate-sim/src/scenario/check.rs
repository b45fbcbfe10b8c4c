//! Whether a scenario for a policy file makes sense.

use super::{Gateway, Scenario};
use crate::asked::{Asked, clients};
use crate::client::{Arrivals, Population, Profile};
use crate::fault::{Fault, Source, Step};
use crate::server::Shape;

/// Longest run, in seconds: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;
/// Most gateways before one server.
const GATEWAYS_MAX: usize = 64;
/// Most users of a closed population.
const USERS_MAX: u32 = 1_000_000;

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
        let whole = Part { source, way: Vec::new(), classes };
        for key in ["limit", "right", "class", "sessions", "shed_aim_ms"] {
            let absent = !source.has(&[key.into()]);
            whole.must(key, absent, "comes from the policy file: leave it out")?;
        }
        let seconds = self.seconds;
        let lasts = (seconds > 0.0 || replays && seconds == 0.0) && seconds <= SECONDS_MAX;
        let expected = format!("must be more than 0 and at most {SECONDS_MAX}, got {seconds}");
        whole.must("seconds", lasts, expected)?;
        let mut before = 0.0;
        for (place, &cut) in self.cuts_s.iter().enumerate() {
            let between = cut > before && (cut < seconds || seconds == 0.0);
            let expected = format!("must be after {before} and before the end, got {cut}");
            whole.part("cuts_s", place).must("", between, expected)?;
            before = cut;
        }
        let some = !self.population.is_empty() || replays;
        whole.must("population", some, "is missing: nothing sends requests; add [[population]]")?;
        for (place, population) in self.population.iter().enumerate() {
            whole.part("population", place).population(population)?;
        }
        Part { way: vec!["server".into()], ..whole.clone() }.server(&self.server)?;
        let most = format!("must be {GATEWAYS_MAX} at most");
        whole.must("gateway", self.gateway.len() <= GATEWAYS_MAX, most)?;
        for (place, gateway) in self.gateway.iter().enumerate() {
            whole.part("gateway", place).gateway(gateway)?;
        }
        let phases = self.cuts_s.len() + 1;
        for (place, expected) in self.expect.iter().enumerate() {
            let part = whole.part("expect", place);
            let most = format!("must be less than {phases}, the phases that `cuts_s` makes");
            part.must("phase", expected.phase < phases, most)?;
            expected.class.as_ref().map_or(Ok(()), |class| part.class(class))?;
        }
        Ok(())
    }
}

/// A part of the scenario, by the way to it.
#[derive(Clone)]
struct Part<'c> {
    source: Source<'c>,
    way: Vec<Step<'c>>,
    /// Those of the policy.
    classes: &'c [&'c str],
}

impl<'c> Part<'c> {
    /// An entry of a list of it.
    fn part(&self, list: &'c str, place: usize) -> Part<'c> {
        Part { way: [&self.way[..], &[list.into(), place.into()]].concat(), ..self.clone() }
    }

    /// The value of a key of it; of no key: the part itself.
    fn must(&self, key: &str, holds: bool, expected: impl Into<String>) -> Result<(), Fault> {
        if holds {
            return Ok(());
        }
        let mut way: Vec<Step<'_>> = self.way.clone();
        way.extend((!key.is_empty()).then_some(Step::Key(key)));
        Err(self.source.fault(&way, expected))
    }

    fn class(&self, name: &str) -> Result<(), Fault> {
        let classes = self.classes.join(", ");
        let expected = format!("must be a class of the policy ({classes}), got {name:?}");
        self.must("class", self.classes.contains(&name), expected)
    }

    fn population(&self, it: &Population) -> Result<(), Fault> {
        let example = "request = [{ path = \"/\" }]";
        let expected = format!("must be left out: the policy classifies requests; write {example}");
        self.must("class", it.class.is_empty(), expected)?;
        let expected = format!("is missing: say what is requested, such as {example}");
        self.must("request", !it.request.is_empty(), expected)?;
        for (place, asked) in it.request.iter().enumerate() {
            self.part("request", place).request(asked)?;
        }
        let sum: f64 = it.request.iter().map(|asked| asked.weight).sum();
        self.must("request", sum > 0.0, "must have a weight above 0")?;
        clients(&it.clients)
            .or_else(|fault| self.must("clients", false, fault).map(|()| vec![]))?;
        for (key, ms) in [("patience_ms", it.patience_ms), ("retry_after_ms", it.retry_after_ms)] {
            self.must(key, ms > 0.0, format!("must be more than 0, got {ms}"))?;
        }
        let expected = format!("must be after from_s = {}, got {}", it.from_s, it.to_s);
        self.must("to_s", it.from_s >= 0.0 && it.to_s > it.from_s, expected)?;
        let known = &it.known;
        let dscp = known.dscp.is_none_or(|dscp| dscp < 64);
        self.must("known", dscp, "dscp must be less than 64")?;
        let letters = known.country.bytes().filter(u8::is_ascii_alphabetic).count();
        let country = matches!((known.country.len(), letters), (0, 0) | (2, 2));
        let expected = format!("country must be two letters such as DE, got {:?}", known.country);
        self.must("known", country, expected)?;
        let arrivals = [&self.way[..], &["arrivals".into()]].concat();
        Part { way: arrivals, ..self.clone() }.arrivals(&it.arrivals)
    }

    fn request(&self, asked: &Asked) -> Result<(), Fault> {
        let token = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        let expected = format!("must begin with `/` and have no blanks, got {:?}", asked.path);
        self.must("path", asked.path.starts_with('/') && token(&asked.path), expected)?;
        let expected = format!("must be a method such as GET, got {:?}", asked.method);
        self.must("method", token(&asked.method), expected)?;
        for (key, number) in [("weight", asked.weight), ("times", asked.times)] {
            let expected = format!("must be from 0 to 1000000, got {number}");
            self.must(key, (0.0..=1e6).contains(&number), expected)?;
        }
        Ok(())
    }

    fn arrivals(&self, arrivals: &Arrivals) -> Result<(), Fault> {
        match arrivals {
            Arrivals::Closed { users, .. } => {
                let expected = format!("must be 1 to {USERS_MAX}, got {users}");
                self.must("users", (1..=USERS_MAX).contains(users), expected)?;
            }
            Arrivals::Sessions { requests, .. } => {
                self.must("requests", *requests > 0, "must be 1 or more")?;
            }
            _ => {}
        }
        let (rates, ascending) = match arrivals.rate() {
            Some(Profile::Flat(flat)) => (vec![*flat], true),
            Some(Profile::Points { points, .. }) => {
                let ascending = points.windows(2).all(|pair| pair[0][0] < pair[1][0]);
                (points.iter().map(|[_, rate]| *rate).collect(), ascending)
            }
            Some(Profile::File { .. }) | None => return Ok(()),
        };
        let bounded = rates.iter().all(|rate| (0.0..=1e7).contains(rate));
        let some = rates.iter().any(|rate| *rate > 0.0);
        let expected = "must be rates from 0 to 10000000/s, of which one is above 0";
        self.must("rate", bounded && some, expected)?;
        self.must("rate", ascending, "must have its points [second, rate] in order of time")
    }

    fn server(&self, server: &Shape) -> Result<(), Fault> {
        let of_all = self.classes.iter().all(|class| server.of.iter().any(|of| of.class == *class));
        let works = of_all || server.wait.mean() > 0.0 || server.cpu.mean() > 0.0;
        let example = "wait = { kind = \"exponential\", mean_ms = 20 }";
        self.must("", works, format!("must say how long requests take, such as {example}"))?;
        self.must("workers", server.workers != Some(0), "must be 1 or more")?;
        let cores = server.cores.is_none_or(|cores| cores > 0.0);
        self.must("cores", cores, "must be more than 0")?;
        let mut before = -1.0;
        for (place, step) in server.step.iter().enumerate() {
            let later = step.at_s > before;
            self.part("step", place).must("at_s", later, "must be in order of time")?;
            before = step.at_s;
        }
        for (place, fault) in server.fault.iter().enumerate() {
            let part = self.part("fault", place);
            fault.class.as_ref().map_or(Ok(()), |class| part.class(class))?;
            let expected = format!("must be 0 or more, got {}", fault.after_ms);
            part.must("after_ms", fault.after_ms >= 0.0, expected)?;
        }
        for (place, slow) in server.slow.iter().enumerate() {
            self.part("slow", place).class(&slow.class)?;
        }
        for (place, of) in server.of.iter().enumerate() {
            self.part("of", place).class(&of.class)?;
        }
        for (place, resource) in server.resource.iter().enumerate() {
            let part = self.part("resource", place);
            resource.classes.iter().try_for_each(|class| part.class(class))?;
            part.must("classes", !resource.classes.is_empty(), "must name one or more")?;
            part.must("size", resource.size > 0, "must be 1 or more")?;
        }
        self.must("pushback", server.pushback != Some(0), "must be 1 or more")?;
        let numbers = [
            ("late_ms", server.late_ms),
            ("dead_s", server.dead_s),
            ("contention", server.contention),
            ("coherence", server.coherence),
        ];
        for (key, number) in numbers {
            self.must(key, number >= 0.0, format!("must be 0 or more, got {number}"))?;
        }
        let is_ever_late = server.dead_s == 0.0 || server.late_ms > 0.0;
        self.must("dead_s", is_ever_late, "needs late_ms: after which answers it is dead")?;
        let quota = server.quota.is_none_or(|it| it.every_s >= 0.001 && it.cpu_s > 0.0);
        self.must("quota", quota, "must have every_s of 0.001 or more, and cpu_s above 0")?;
        let drift = server.drift.is_none_or(|it| it.sd >= 0.0 && it.over_s > 0.0);
        self.must("drift", drift, "must have sd of 0 or more, and over_s above 0")?;
        let slower =
            server.slower.is_none_or(|it| (0.0..=1.0).contains(&it.share) && it.times > 0.0);
        self.must("slower", slower, "must have share of 0 to 1, and times above 0")?;
        let pause = server
            .pause
            .is_none_or(|it| it.every_s >= 0.001 && (0.0..it.every_s).contains(&it.for_s));
        self.must("pause", pause, "must have every_s of 0.001 or more, and for_s below it")
    }

    fn gateway(&self, it: &Gateway) -> Result<(), Fault> {
        let expected = format!("must be more than 0, got {}", it.weight);
        self.must("weight", it.weight > 0.0 && it.weight.is_finite(), expected)?;
        let expected = format!("must be after from_s = {}, got {}", it.from_s, it.to_s);
        self.must("to_s", it.from_s >= 0.0 && it.to_s > it.from_s, expected)?;
        let expected = format!("must be from 0 to {SECONDS_MAX}, got {}", it.clock_s);
        self.must("clock_s", (0.0..=SECONDS_MAX).contains(&it.clock_s), expected)?;
        let is_some = it.slots_start != Some(0);
        self.must("slots_start", is_some, "must be 1 or more")
    }
}
