//! Which clients are on a list of the kernel's, which takes each away when its time is over: bounded, and of the longest known where there are too many.

use super::command::Command;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use tiergate_core::time::Moment;

/// A list for each version of IP, under names that end so.
#[derive(Debug)]
pub(crate) struct Listed {
    name: &'static str,
    most: usize,
    until: HashMap<IpAddr, Moment>,
    by_end: BTreeSet<(Moment, IpAddr)>,
}

impl Listed {
    /// An empty one, with at most so many clients.
    pub(crate) fn new(name: &'static str, most: usize) -> Self {
        Listed { name, most, until: HashMap::new(), by_end: BTreeSet::new() }
    }

    /// The name of the set of the client's version of IP.
    fn set(&self, client: IpAddr) -> String {
        set(self.name, client.is_ipv4())
    }

    /// What puts a client on it, or for another time, or takes it away at once. O(log clients).
    pub(crate) fn list(&mut self, now: Moment, client: IpAddr, lasting: Duration) -> Vec<Command> {
        let client = of_network(client);
        self.forget(client);
        self.forget_until(now);
        let mut commands = self.removal(client);
        if lasting.as_millis() == 0 {
            return commands;
        }
        while self.until.len() >= self.most {
            let Some((_, other)) = self.by_end.pop_first() else { break };
            self.until.remove(&other);
            commands.extend(self.removal(other));
        }
        let until = now + lasting;
        self.until.insert(client, until);
        self.by_end.insert((until, client));
        commands.push(Command::Element(self.set(client), client, Some(lasting)));
        commands
    }

    /// Who is on it, for how much longer.
    pub(crate) fn left(&self, now: Moment) -> Vec<(IpAddr, Duration)> {
        let there = self.by_end.iter().filter(|(until, _)| *until > now);
        there.map(|(until, client)| (*client, until.since(now))).collect()
    }

    /// What takes all away.
    pub(crate) fn clear(&mut self) -> Vec<Command> {
        self.until.clear();
        self.by_end.clear();
        [true, false].map(|is_v4| Command::FlushSet(set(self.name, is_v4))).into()
    }

    /// Takes an element away, whether it is there or its time was over just now: what is not there cannot be taken away, and what is there with another time cannot be added.
    fn removal(&self, client: IpAddr) -> Vec<Command> {
        let set = self.set(client);
        vec![Command::Element(set.clone(), client, None), Command::DeleteElement(set, client)]
    }

    fn forget(&mut self, client: IpAddr) {
        if let Some(until) = self.until.remove(&client) {
            self.by_end.remove(&(until, client));
        }
    }

    fn forget_until(&mut self, now: Moment) {
        while let Some((until, client)) = self.by_end.first().copied().filter(|it| it.0 <= now) {
            self.by_end.remove(&(until, client));
            self.until.remove(&client);
        }
    }
}

/// The set of a list.
fn set(name: &str, is_v4: bool) -> String {
    format!("{name}_{}", if is_v4 { "v4" } else { "v6" })
}

/// As clients are known: IPv6 by the /64.
fn of_network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    fn client(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    fn text(commands: &[Command]) -> Vec<String> {
        commands.iter().map(|it| it.in_table("t").to_string()).collect()
    }

    #[test]
    fn a_client_is_listed_by_its_network_and_anew() {
        let mut listed = Listed::new("blocked", 9);
        let v6 = "2001:db8:1:2:3:4:5:6".parse().expect("an address");
        let added = listed.list(Moment::ZERO, v6, MINUTE);
        let wanted = [
            "add element inet t blocked_v6 { 2001:db8:1:2:: }",
            "delete element inet t blocked_v6 { 2001:db8:1:2:: }",
            "add element inet t blocked_v6 { 2001:db8:1:2:: timeout 60000ms }",
        ];
        assert_eq!(text(&added), wanted);
        let mapped = "::ffff:10.0.0.1".parse().expect("an address");
        let removed = listed.list(Moment::ZERO, mapped, Duration::ZERO);
        let wanted = [
            "add element inet t blocked_v4 { 10.0.0.1 }",
            "delete element inet t blocked_v4 { 10.0.0.1 }",
        ];
        assert_eq!(text(&removed), wanted);
        let flush = ["flush set inet t blocked_v4", "flush set inet t blocked_v6"];
        assert_eq!(text(&listed.clear()), flush);
        assert!(listed.until.is_empty() && listed.by_end.is_empty());
    }

    #[test]
    fn of_too_many_the_one_that_ends_first_is_forgotten() {
        let mut listed = Listed::new("blocked", 3);
        let listing = |listed: &mut Listed, second: u64, number, lasting| {
            listed.list(Moment::from_millis(second * 1000), client(number), lasting)
        };
        listing(&mut listed, 0, 1, MINUTE * 3);
        listing(&mut listed, 0, 2, MINUTE);
        listing(&mut listed, 1, 3, MINUTE * 2);
        let fourth = text(&listing(&mut listed, 2, 4, MINUTE * 3));
        assert!(fourth.contains(&"delete element inet t blocked_v4 { 0.0.0.2 }".to_owned()));
        assert_eq!(listed.until.len(), 3);
        // The same again is one.
        listing(&mut listed, 3, 4, MINUTE);
        assert_eq!((listed.until.len(), listed.by_end.len()), (3, 3));
        let left = listed.left(Moment::from_millis(62_000));
        assert_eq!(
            left,
            [(client(4), SECOND), (client(3), 59 * SECOND), (client(1), 118 * SECOND)]
        );
        // What has ended by itself is not taken away.
        let late = text(&listing(&mut listed, 179, 5, MINUTE));
        assert_eq!(late.len(), 3, "{late:?}");
        assert_eq!(listed.until.len(), 2);
        for number in 0..1000 {
            listing(&mut listed, 180, number, MINUTE);
        }
        assert_eq!((listed.until.len(), listed.by_end.len()), (3, 3));
    }
}
