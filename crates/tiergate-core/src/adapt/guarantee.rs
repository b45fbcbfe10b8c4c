//! What a site is guaranteed, as a share of the server: U* = a R_max + b W_max.
//!
//! Source: Abdelzaher 5.1.

/// What a site can rely on: so many requests a second, and so many bytes a second of their answers, at full quality. Where it has more of
/// one and less of the other, what both take of the server counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarantee {
    /// Requests a second: more than 0.
    pub requests: f64,
    /// Bytes a second.
    pub bytes: f64,
}

/// What requests take of a server, in seconds of all that a sensor measures: of all processors, of the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A request of full quality, apart from its bytes.
    pub request: f64,
    /// A MiB of answers.
    pub mebibyte: f64,
    /// A refusal.
    pub refusal: f64,
}

impl Costs {
    const MEBIBYTE: f64 = (1 << 20) as f64;

    /// Share of the server that a guarantee takes, if all of it is used.
    pub fn share(&self, guarantee: &Guarantee) -> f64 {
        self.request * guarantee.requests + self.of_bytes(guarantee.bytes)
    }

    /// What so many bytes take.
    pub(crate) fn of_bytes(&self, bytes: f64) -> f64 {
        self.mebibyte * bytes / Self::MEBIBYTE
    }

    /// Checks what the control relies on.
    ///
    /// # Errors
    /// The first fault found, for a person.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_time = |it: f64| it.is_finite() && it >= 0.0;
        match [self.request, self.mebibyte, self.refusal].into_iter().all(is_time) {
            false => Err("a cost must be a time"),
            true if self.request + self.mebibyte == 0.0 => {
                Err("a request or a MiB must cost more than nothing")
            }
            true => Ok(()),
        }
    }
}

impl Guarantee {
    /// Checks what the control relies on.
    ///
    /// # Errors
    /// The first fault found, for a person.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.requests.is_finite() && self.requests > 0.0 {
            false => Err("requests must be more than 0"),
            true if !(self.bytes.is_finite() && self.bytes >= 0.0) => Err("bytes must be a number"),
            true => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guarantee_takes_what_its_requests_and_bytes_cost() {
        // The paper's server: 1.604 ms a request, 0.063 ms a KB; its second site: 100 requests of 32 KB a second.
        let costs = Costs { request: 1.604e-3, mebibyte: 0.063 * 1.024, refusal: 1.1e-3 };
        let site = Guarantee { requests: 100.0, bytes: 100.0 * 32_000.0 };
        let share = costs.share(&site);
        assert!((share - (0.1604 + 0.063 * 3.2 * 1.024 / 1.048_576)).abs() < 1e-9, "{share}");
        assert!(costs.check().is_ok() && site.check().is_ok());
        assert!(Costs { refusal: f64::NAN, ..costs }.check().is_err());
        assert!(Costs { request: 0.0, mebibyte: 0.0, refusal: 1.0 }.check().is_err());
        assert!(Guarantee { requests: 0.0, ..site }.check().is_err());
        assert!(Guarantee { bytes: -1.0, ..site }.check().is_err());
    }
}
