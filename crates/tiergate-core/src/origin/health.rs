//! How well one server is, judged by what requests and checks found.
//!
//! A request that finds a server unreachable says something about the server. A request whose answer does
//! not come, breaks off, is malformed or an error (5xx) may itself be the cause: a header field that is too long for the
//! application, an upload that it cuts, a fault in one page. A client that sends three of these must not take the site down, so such
//! failures count against a server only where its peers do better: when so many in a row are all but
//! impossible ([`CHANCE`]) at the rate at which the peers fail ([`Record::chance`]). In a row are those that were sent after the
//! failure before was known: the requests of one burst have one cause.
//!
//! A server that answers errors is also quicker than its peers. Without this, it has the fewest requests outstanding and
//! gets nearly all of them.

use crate::time::Moment;
use std::time::Duration;

/// Failures in a row that happen by chance less often than this are the server's own.
const CHANCE: f64 = 1e-6;

/// After this time a request counts half as much in the rate at which a server fails.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// How often the rate is faded.
const FADE_INTERVAL: Duration = Duration::from_secs(1);

/// See [`Health::is_usable`].
const TRY_DELAY: u32 = 10;
/// A server that refuses connections, or is silent, may be well again soon for this many times as long as a request waits for it.
const RESTARTS: u32 = 5;

/// How an active check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The server answered that it is well.
    Passed,
    /// It answered that it is not, or could not be connected to.
    Failed,
    /// It refused the connection: nobody listens, for now or for good.
    Refused,
    /// It was connected to, and did not answer in time. It may have stopped for a moment.
    Silent,
}

/// How servers are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthRules {
    /// Failures in a row, of requests, after which a server is left out. 0: requests leave none out.
    pub failures_max: u32,
    /// How long until one request tries it again, and the longest pause between two active checks of a server that is left out.
    pub retry_after: Duration,
    /// How long a request that no other server can take waits for one that refuses connections. Requests do so in the
    /// first five times as long of an outage; one that lasts for longer is not taken for a restart.
    pub restart_max: Duration,
    /// Active checks: failures in a row that take a server out; `None` if there are none.
    pub fall: Option<u32>,
    /// Active checks: successes in a row that bring it back.
    pub rise: u32,
}

/// What a request learnt about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It answered, and not with an error of its own.
    Alive,
    /// It answered that it has failed or cannot serve the request (500, 502, 503, 504).
    Erred,
    /// No connection to it could be opened.
    Unreachable,
    /// The same, and that was known at once: nobody listens, for now or for good.
    Refused,
    /// It did not answer, not to the end, or not in time; its answer was malformed.
    Broken,
    /// Nothing: the client left first, or the gateway itself was at fault.
    Nothing,
}

impl Finding {
    /// What a response's status says of its server. Other errors are the request's own: a method that it does not implement (501),
    /// a version of HTTP (505).
    pub fn of_status(status: u16) -> Finding {
        match status {
            500 | 502..=504 => Finding::Erred,
            _ => Finding::Alive,
        }
    }
}

/// Why a server is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// So many connects in a row failed.
    Unreachable(u32),
    /// So many requests in a row failed or were answered with an error, and not at its peers.
    Broken(u32),
    /// Active checks failed.
    Checks(u32),
    /// It is about to end.
    Ending,
}

/// What has become of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It gets no more requests, except to try it.
    LeftOut(Cause),
    /// It gets requests again.
    Back,
}

/// Requests that got an answer and that failed, the recent ones more than the older ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    requests: f64,
    failures: f64,
    at: Moment,
}

impl Record {
    fn count(&mut self, now: Moment, failed: bool) {
        if now.since(self.at) >= FADE_INTERVAL {
            *self = self.faded(now);
        }
        self.requests += 1.0;
        self.failures += if failed { 1.0 } else { 0.0 };
    }

    fn faded(self, now: Moment) -> Self {
        let at = self.at.max(now);
        let kept = 0.5_f64.powf(at.since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64());
        Record { requests: self.requests * kept, failures: self.failures * kept, at }
    }

    /// Both records as one.
    pub(super) fn and(self, other: Self, now: Moment) -> Self {
        let (one, other) = (self.faded(now), other.faded(now));
        Record {
            requests: one.requests + other.requests,
            failures: one.failures + other.failures,
            at: one.at.max(other.at),
        }
    }

    /// How probable so many failures in a row are at the rate of this record. Without any record they are
    /// certain (Laplace's rule: one failure is added, so that few requests prove little).
    fn chance(self, in_a_row: u32) -> f64 {
        let rate = (self.failures + 1.0) / (self.requests + 1.0);
        rate.powf(f64::from(in_a_row))
    }
}

/// What is known of one server.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    pub(super) outstanding: u32,
    /// Connects in a row that failed; since when it has refused them, if it has refused the last.
    unreachable: u32,
    refused_since: Option<Moment>,
    /// Requests in a row that failed otherwise, each sent after the failure before was known: when that of the last was.
    broken: u32,
    broken_at: Moment,
    /// When the first of them was known to have failed.
    broken_since: Moment,
    pub(super) record: Record,
    checks_failed: u32,
    checks_passed: u32,
    /// Set while it is left out because of requests: why, and when the next request tries it.
    left_out: Option<(Cause, Moment)>,
    /// Left out by active checks.
    sick: bool,
    /// The last of them that failed was refused.
    refuses_checks: bool,
    /// Since when active checks have got no answer; `None`: the last one told more.
    silent_since: Option<Moment>,
    /// It is about to end, and had better get no more requests.
    pub(super) is_ending: bool,
}

impl Health {
    /// Why it is left out, if it is.
    pub(super) fn cause(&self, rules: &HealthRules) -> Option<Cause> {
        match self.is_sick(rules) {
            true => Some(Cause::Checks(self.checks_failed)),
            false if self.is_ending => Some(Cause::Ending),
            false => self.left_out.map(|(cause, _)| cause),
        }
    }

    fn is_sick(&self, rules: &HealthRules) -> bool {
        // What checks said holds as long as there are checks.
        self.sick && rules.fall.is_some()
    }

    /// Whether a request may be sent to it: it is well, or due to be tried. Not while a try may still be under way: tries
    /// that hang would hold one slot after the other, and requests wait for these that could go elsewhere. What else is
    /// under way there, such as a long response, delays the next try by [`TRY_DELAY`] times the usual at most.
    pub(super) fn is_usable(&self, now: Moment, rules: &HealthRules) -> bool {
        let due = |(cause, at): (Cause, Moment)| {
            let delay =
                if self.outstanding > 0 { rules.retry_after * TRY_DELAY } else { Duration::ZERO };
            at + delay <= now && self.is_for_requests_to_try(cause, rules)
        };
        !self.is_sick(rules) && !self.is_ending && self.left_out.is_none_or(due)
    }

    /// Whether it takes a request to find out if it is well again. Checks find out whether it can be connected
    /// to; that requests fail there, they did not see, but while they fail, too, no request is spent on it.
    fn is_for_requests_to_try(&self, cause: Cause, rules: &HealthRules) -> bool {
        rules.fall.is_none() || matches!(cause, Cause::Broken(_)) && self.checks_passed > 0
    }

    /// How long until its next active check, if that is `interval` for one that is well. One that is left out is checked as
    /// often as requests would try it.
    pub(super) fn check_pause(&self, rules: &HealthRules, interval: Duration) -> Duration {
        if self.cause(rules).is_some() { interval.min(rules.retry_after) } else { interval }
    }

    /// Whether it may get requests where no other server is usable: connecting to it works, or may soon; to checks it has just
    /// been silent; it is about to end and has not.
    pub(super) fn is_last_resort(&self, now: Moment, rules: &HealthRules) -> bool {
        let broken = matches!(self.left_out, Some((Cause::Broken(_), _)));
        match self.is_sick(rules) {
            true => {
                self.silent_since.is_some_and(|since| is_lately(now, since, rules))
                    || self.may_restart(now, rules)
            }
            false => {
                let is_left_by_will = self.is_ending && self.left_out.is_none();
                broken || is_left_by_will || self.may_restart(now, rules)
            }
        }
    }

    /// Whether it has refused connections for so short a time that it may be restarting.
    pub(super) fn may_restart(&self, now: Moment, rules: &HealthRules) -> bool {
        let since = self.refused_since.filter(|_| !self.is_sick(rules) || self.refuses_checks);
        since.is_some_and(|since| is_lately(now, since, rules))
    }

    /// Whether it has refused the last connection.
    pub(super) fn refuses(&self) -> bool {
        self.refused_since.is_some()
    }

    /// A request is sent to it. If it is left out, the request is the try; the next is due only if it says
    /// nothing.
    pub(super) fn send(&mut self, now: Moment, rules: &HealthRules) {
        self.outstanding += 1;
        if let Some((_, at)) = &mut self.left_out {
            *at = now + rules.retry_after;
        }
    }

    /// A request that was sent at `sent` is done with it. `peers` says how the other servers of its origin did; `None`: it may not be
    /// left out for what a request may have caused, because too many others are out. It is told whether nothing else
    /// came of this one for as long as until one that is left out is tried again.
    pub(super) fn done(
        &mut self,
        now: Moment,
        rules: &HealthRules,
        sent: Moment,
        finding: Finding,
        peers: impl FnOnce(bool) -> Option<Record>,
    ) -> Option<Change> {
        self.outstanding -= 1;
        let max = if rules.failures_max == 0 { u32::MAX } else { rules.failures_max };
        let was_out = self.left_out.is_some();
        let cause = match finding {
            Finding::Nothing => return None,
            Finding::Alive => {
                (self.unreachable, self.refused_since, self.broken) = (0, None, 0);
                self.record.count(now, false);
                // What checks said of it holds, but for one thing: somebody listens again.
                let is_restarted = self.is_sick(rules) && self.refuses_checks;
                self.sick &= rules.fall.is_some() && !is_restarted;
                let was_out = self.left_out.take().is_some() || is_restarted;
                return was_out.then_some(Change::Back);
            }
            Finding::Unreachable | Finding::Refused => {
                let since =
                    (finding == Finding::Refused).then(|| self.refused_since.unwrap_or(now));
                self.refused_since = since;
                self.unreachable = self.unreachable.saturating_add(1);
                (self.unreachable >= max).then_some(Cause::Unreachable(self.unreachable))
            }
            Finding::Broken | Finding::Erred => {
                (self.unreachable, self.refused_since) = (0, None);
                if self.broken == 0 {
                    self.broken_since = now;
                }
                if self.broken == 0 || sent >= self.broken_at {
                    (self.broken, self.broken_at) = (self.broken.saturating_add(1), now);
                }
                self.record.count(now, true);
                // It can be connected to: that is no longer the cause.
                self.left_out =
                    self.left_out.filter(|(cause, _)| matches!(cause, Cause::Broken(_)));
                let unlikely = |peers: Record| peers.chance(self.broken) < CHANCE;
                let lasting = now.since(self.broken_since) >= rules.retry_after;
                (self.broken >= max && peers(lasting).is_some_and(unlikely))
                    .then_some(Cause::Broken(self.broken))
            }
        };
        if let Some(cause) = cause.or(self.left_out.map(|(cause, _)| cause)) {
            self.left_out = Some((cause, now + rules.retry_after));
        }
        match (was_out, self.left_out) {
            (false, Some((cause, _))) => {
                // Checks that passed before say nothing about what has failed since.
                self.checks_passed = 0;
                Some(Change::LeftOut(cause))
            }
            (true, None) => Some(Change::Back),
            _ => None,
        }
    }

    /// An active check has ended.
    pub(super) fn checked(
        &mut self,
        now: Moment,
        rules: &HealthRules,
        check: Check,
    ) -> Option<Change> {
        let fall = rules.fall?;
        match check {
            Check::Refused => self.refused_since = self.refused_since.or(Some(now)),
            // It may be back, and may go again before so many have passed.
            Check::Passed => {}
            Check::Failed | Check::Silent => self.refused_since = None,
        }
        if check != Check::Passed {
            self.refuses_checks = check == Check::Refused;
        }
        self.silent_since = (check == Check::Silent).then(|| self.silent_since.unwrap_or(now));
        if check == Check::Passed {
            self.checks_failed = 0;
            self.checks_passed = self.checks_passed.saturating_add(1);
            if self.checks_passed >= rules.rise {
                let was_out = std::mem::take(&mut self.sick) || self.left_out.is_some();
                self.left_out =
                    self.left_out.filter(|(cause, _)| self.is_for_requests_to_try(*cause, rules));
                if was_out && self.left_out.is_none() {
                    (self.unreachable, self.refused_since, self.broken) = (0, None, 0);
                    return Some(Change::Back);
                }
            }
        } else {
            self.checks_passed = 0;
            self.checks_failed = self.checks_failed.saturating_add(1);
            if !self.sick && self.checks_failed >= fall {
                self.sick = true;
                return Some(Change::LeftOut(Cause::Checks(self.checks_failed)));
            }
        }
        None
    }
}

/// Whether requests still wait for a server that has been away since.
fn is_lately(now: Moment, since: Moment, rules: &HealthRules) -> bool {
    now.since(since) < rules.restart_max.saturating_mul(RESTARTS)
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Unreachable(count) => write!(f, "{count} connects in a row failed"),
            Cause::Broken(count) => {
                write!(
                    f,
                    "{count} requests in a row failed or were answered with an error, and fewer at the other servers"
                )
            }
            Cause::Ending => f.write_str("it is being replaced, or about to end"),
            Cause::Checks(count) => write!(f, "{count} health checks in a row failed"),
        }
    }
}
