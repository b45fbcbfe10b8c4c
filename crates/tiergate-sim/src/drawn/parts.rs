//! What scenarios are composed of, and what each family composes.

use super::chance::one_of;
use fastrand::Rng;

/// Which scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// To tune laws on.
    Open,
    /// To judge laws on.
    HeldOut,
}

/// What bounds a server's throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Workers, and nothing else.
    Workers,
    /// Cores that all requests share, and nothing else.
    Cores,
    /// Workers that compute and wait, and cores.
    Both,
    /// Cores, with waits that are many times longer than what is computed.
    Io,
    /// Contention and coherence (Gunther's law).
    Contention,
    /// Cores, and a number of requests above which each makes all slower.
    Thrash,
    /// Workers, and a dependency with few connections that the last class needs.
    Few,
}

/// What happens, or is not as in a textbook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// Capacity falls, and may come back.
    Down,
    /// Capacity grows some time after the load is there, as by autoscaling.
    Up,
    /// The server is slow until it is warm.
    WarmUp,
    /// Nothing makes progress now and then.
    Pauses,
    /// CPU time is bounded in each tenth of a second.
    Quota,
    /// The work of all requests goes up and down together.
    Drift,
    /// Some workers are slower than the others.
    Slower,
    /// What the last class asks for takes longer for a while.
    SlowPart,
    /// 429 beyond a number of requests.
    Pushback,
    /// Errors that come late.
    SlowErrors,
    /// Clients of the last class that leave soon, most while they are in service.
    Leaving,
    /// Clients that take their answers slowly.
    SlowClients,
    /// Callers that do not pass the gateway.
    Callers,
    /// Several gateways.
    Gateways,
}

/// How the load of the less important classes comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// At one rate.
    Steady,
    /// High and low in turn.
    Bursts,
    /// From low to high.
    Ramp,
    /// Low, and several times as high for some seconds.
    Flash,
    /// Users who wait for their answers.
    Users,
    /// Clients that try again.
    Retries,
}

impl Event {
    /// What happens to the server's capacity.
    pub const OF_CAPACITY: [Event; 7] = [
        Event::Down,
        Event::Up,
        Event::WarmUp,
        Event::Pauses,
        Event::Quota,
        Event::Drift,
        Event::Slower,
    ];
    /// What happens to some of the requests.
    pub const OF_REQUESTS: [Event; 7] = [
        Event::SlowPart,
        Event::Pushback,
        Event::SlowErrors,
        Event::Leaving,
        Event::SlowClients,
        Event::Callers,
        Event::Gateways,
    ];

    /// Whether it makes sense, and is what it says, at such a server.
    fn suits(self, kind: Kind) -> bool {
        match self {
            Event::Quota => matches!(kind, Kind::Cores | Kind::Both | Kind::Io),
            Event::Slower => matches!(kind, Kind::Workers | Kind::Both | Kind::Few),
            // Requests that only wait for their clients would count as contending.
            Event::SlowClients => !matches!(kind, Kind::Contention | Kind::Thrash),
            _ => true,
        }
    }
}

impl Family {
    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Open => "open",
            Family::HeldOut => "held-out",
        }
    }

    /// Of the two, what is this one's.
    pub(super) fn of<T>(self, open: T, held_out: T) -> T {
        match self {
            Family::Open => open,
            Family::HeldOut => held_out,
        }
    }
}

/// What a scenario is composed of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Composition {
    /// The server.
    pub kind: Kind,
    /// At most two, in order.
    pub events: Vec<Event>,
    /// The load.
    pub load: Load,
    /// Classes that pass the gateway.
    pub classes: usize,
}

impl Composition {
    /// Its parts, in words.
    pub fn parts(&self) -> Vec<String> {
        let mut parts = vec![format!("server: {:?}", self.kind)];
        parts.extend(self.events.iter().map(|event| format!("event: {event:?}")));
        parts.push(format!("load: {:?}", self.load));
        parts
    }
}

/// Draws what a scenario of the family is composed of.
pub(super) fn compose(family: Family, rng: &mut Rng) -> Composition {
    let kinds = [
        Kind::Workers,
        Kind::Cores,
        Kind::Both,
        Kind::Io,
        Kind::Contention,
        Kind::Thrash,
        Kind::Few,
    ];
    let open = [Load::Steady, Load::Bursts, Load::Ramp];
    let held_out = [Load::Steady, Load::Flash, Load::Users, Load::Retries];
    loop {
        let kind = one_of(rng, family.of(&kinds[..6], &kinds));
        let mut events = match family {
            Family::Open => open_events(rng),
            Family::HeldOut => {
                vec![one_of(rng, &Event::OF_CAPACITY), one_of(rng, &Event::OF_REQUESTS)]
            }
        };
        events.sort_unstable();
        let load = one_of(rng, family.of(&open[..], &held_out));
        let classes = family.of(2, 2 + rng.usize(0..2));
        if events.iter().all(|event| event.suits(kind)) {
            return Composition { kind, events, load, classes };
        }
    }
}

/// None, one, or two of one sort.
fn open_events(rng: &mut Rng) -> Vec<Event> {
    let sort = if rng.bool() { Event::OF_CAPACITY } else { Event::OF_REQUESTS };
    let (first, second) = (one_of(rng, &sort), one_of(rng, &sort));
    match rng.u32(0..8) {
        0 => vec![],
        1..=3 => vec![first],
        _ if first == second => vec![first],
        _ => vec![first, second],
    }
}
