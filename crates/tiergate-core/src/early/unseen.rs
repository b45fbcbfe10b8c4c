//! First requests that the kernel refuses by their head: the gate never sees them, and controllers of rates have to know that they were asked for.
//!
//! A rate rises only if it is asked for. Of connections the kernel lets in as many as the rate says, and the gate sees enough of what is asked for. But one whose request is then refused by its head
//! has taken a token at its first packet, of the policer of all requests, too. Without these, that policer's controller sees a rate that is not used, and leaves it as low as it is.
//! Which class such a request is of is not known: policers of classes are not told.
//!
//! Source: ours.

use crate::names::PolicerId;
use std::collections::HashMap;

/// How many the kernel has counted until now.
#[derive(Clone, Debug, Default)]
pub struct Unseen {
    before: HashMap<PolicerId, u64>,
}

impl Unseen {
    /// How many there were since the last time, by the policer that was asked for a token. `refused`: what the kernel has counted of each policer by heads; one that counts from zero again has a lower number, and one that is
    /// not there, as while its rule is not in force, may go on with the former one.
    /// `site`: the policer of all requests; `at_first_packets`: those of which connections take a token there. O(policers).
    pub fn since(
        &mut self,
        refused: &[(PolicerId, u64)],
        site: Option<PolicerId>,
        at_first_packets: &[PolicerId],
    ) -> Vec<(PolicerId, u64)> {
        let site = site.filter(|id| at_first_packets.contains(id));
        let (mut news, mut of_others) = (Vec::new(), 0);
        for (id, now) in refused {
            let before = self.before.get(id).copied().unwrap_or(0);
            let count = now.checked_sub(before).unwrap_or(*now);
            news.push((*id, count));
            of_others += if site == Some(*id) { 0 } else { count };
        }
        self.before.extend(refused.iter().copied());
        news.extend(site.map(|id| (id, of_others)));
        news.retain(|(_, count)| *count > 0);
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CGI: PolicerId = PolicerId(0);
    const IMAGES: PolicerId = PolicerId(1);
    const ALL: PolicerId = PolicerId(2);

    #[test]
    fn its_own_policer_is_told_once_and_that_of_all_if_connections_take_its_tokens() {
        let mut unseen = Unseen::default();
        let first = unseen.since(&[(CGI, 50), (IMAGES, 0)], Some(ALL), &[ALL]);
        assert_eq!(first, [(CGI, 50), (ALL, 50)]);
        let again = unseen.since(&[(CGI, 50), (IMAGES, 0)], Some(ALL), &[ALL]);
        assert!(again.is_empty(), "{again:?}");
        let both = unseen.since(&[(CGI, 60), (IMAGES, 5)], Some(ALL), &[ALL]);
        assert_eq!(both, [(CGI, 10), (IMAGES, 5), (ALL, 15)]);
        // The gateway alone polices all requests, or nothing does.
        assert_eq!(unseen.since(&[(CGI, 61), (IMAGES, 5)], Some(ALL), &[CGI]), [(CGI, 1)]);
        assert_eq!(unseen.since(&[(CGI, 62), (IMAGES, 5)], None, &[ALL]), [(CGI, 1)]);
    }

    #[test]
    fn a_policer_that_counts_anew_begins_at_zero_and_that_of_all_is_told_once() {
        let mut unseen = Unseen::default();
        unseen.since(&[(CGI, 50)], None, &[]);
        assert_eq!(unseen.since(&[(CGI, 7)], None, &[]), [(CGI, 7)]);
        // A program that is switched off for a fault goes on counting where it was.
        assert!(unseen.since(&[], None, &[]).is_empty());
        assert!(unseen.since(&[(CGI, 7)], None, &[]).is_empty(), "told once");
        assert_eq!(unseen.since(&[(CGI, 8)], None, &[]), [(CGI, 1)]);
        // A rule may have the policer of all.
        assert_eq!(unseen.since(&[(CGI, 8), (ALL, 3)], Some(ALL), &[ALL]), [(ALL, 3)]);
    }
}
