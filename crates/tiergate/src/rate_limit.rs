//! `RateLimit-Policy` and `RateLimit`: what a client has left of a policer that says so.
//!
//! ```text
//! RateLimit-Policy: "search";q=20;w=10
//! RateLimit: "search";r=3;t=9
//! ```
//!
//! `q` tokens are there after a pause, and have come again `w` seconds after none was left. `r` are
//! left; in `t` seconds all will have come again if none is taken meanwhile, or where none is left the
//! next. Seconds are rounded up, and left out where no token ever comes.
//!
//! An origin's own fields of these names go on beside ours, as further members of the same lists.
//!
//! Source: draft-ietf-httpapi-ratelimit-headers-11.

use crate::config::meant::Policy;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;
use tiergate_core::admit::policer::{PolicerId, Quota};
use tiergate_core::admit::retry::rounded_up;
use tiergate_wire::http1::put_decimal;

const POLICY: &str = "ratelimit-policy";
const STATE: &str = "ratelimit";

/// A policer, and what a request has left of it.
pub type RateLimitState = (PolicerId, Quota);

/// What a client is told of a policer.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit<'c> {
    name: &'c str,
    quota: Quota,
}

impl<'c> RateLimit<'c> {
    /// Of the policer, if the policy says that clients are told. The number is by this policy's plan.
    pub fn of(policy: &'c Policy, state: Option<&RateLimitState>) -> Option<Self> {
        let (id, quota) = state?;
        let policer = policy.plan.policer(*id)?;
        policer.announce.then_some(RateLimit { name: &policer.name, quota: *quota })
    }

    /// Seconds until a token comes, where none is left and one ever comes.
    pub fn seconds_to_wait(&self) -> Option<u64> {
        let wait = self.quota.until_more();
        (self.quota.remaining == 0 && wait < SECONDS_MAX).then(|| rounded_up(wait))
    }

    /// Appends the value of `RateLimit-Policy`.
    pub fn put_policy(&self, out: &mut Vec<u8>) {
        self.put(out, (b";q=", self.quota.most), (b";w=", self.quota.refill));
    }

    /// Appends the value of `RateLimit`.
    pub fn put_state(&self, out: &mut Vec<u8>) {
        self.put(out, (b";r=", self.quota.remaining), (b";t=", self.quota.until_more()));
    }

    /// Adds both fields.
    pub fn append_to(&self, fields: &mut HeaderMap) {
        for (name, put) in [
            (POLICY, Self::put_policy as fn(&Self, &mut Vec<u8>)),
            (STATE, Self::put_state as fn(&Self, &mut Vec<u8>)),
        ] {
            let mut value = Vec::new();
            put(self, &mut value);
            let value = HeaderValue::try_from(value).expect("names, digits and marks are ASCII");
            fields.append(HeaderName::from_static(name), value);
        }
    }

    fn put(&self, out: &mut Vec<u8>, count: (&[u8], u32), time: (&[u8], Duration)) {
        // Names of policers are letters, digits, `-`, `_` and `.`: nothing need be escaped.
        out.push(b'"');
        out.extend_from_slice(self.name.as_bytes());
        out.push(b'"');
        out.extend_from_slice(count.0);
        put_decimal(out, count.1.into());
        if time.1 < SECONDS_MAX {
            out.extend_from_slice(time.0);
            put_decimal(out, rounded_up(time.1));
        }
    }
}

/// Longest time that is told: a structured field's number has at most 15 digits, and beyond a
/// thousand years it is for ever.
const SECONDS_MAX: Duration = Duration::from_secs(1000 * 365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn told(quota: Quota) -> [String; 2] {
        let limit = RateLimit { name: "search", quota };
        let (mut policy, mut state) = (Vec::new(), Vec::new());
        limit.put_policy(&mut policy);
        limit.put_state(&mut state);
        [policy, state].map(|value| String::from_utf8(value).expect("ASCII"))
    }

    #[test]
    fn times_are_rounded_up_and_left_out_if_no_token_comes() {
        let quota = Quota {
            remaining: 3,
            wait: Duration::ZERO,
            most: 20,
            refill: Duration::from_millis(9100),
        };
        assert_eq!(told(quota), ["\"search\";q=20;w=10", "\"search\";r=3;t=8"]);
        let empty = Quota { remaining: 0, wait: Duration::from_millis(1), ..quota };
        assert_eq!(told(empty)[1], "\"search\";r=0;t=1");
        let never = Quota { wait: Duration::MAX, refill: Duration::MAX, ..empty };
        assert_eq!(told(never), ["\"search\";q=20", "\"search\";r=0"]);
    }
}
