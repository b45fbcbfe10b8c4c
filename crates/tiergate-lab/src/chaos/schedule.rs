//! The schedule of troubles: drawn from a seed before the run begins.
//!
//! The run is divided into phases, each with nearly every kind of trouble in a random order, several at a
//! time, and a quiet pause at its end. Troubles of origin servers come one after the other, with time for
//! the gateway to find out in between: with all servers in trouble all the time there is nothing to judge.

use super::origin::MODES;
use super::trouble::{Event, SERVERS, Trouble};
use fastrand::Rng;
use std::time::Duration;

/// Length of a phase's troubles, if there is time for several phases.
const TROUBLED: Duration = Duration::from_secs(36);
/// What a phase has in addition: the pause.
pub(super) const PAUSE: Duration = Duration::from_secs(10);
/// What a run needs before and after its phases: start, warm-up, the runs at full load.
pub(super) const AROUND: Duration = Duration::from_secs(24);
/// How long a trouble lasts.
const LASTING_MS: std::ops::Range<u64> = 1500..7000;
/// Between two troubles of origin servers.
const SERVER_GAP: Duration = Duration::from_millis(2500);
/// The shortest phase of troubles.
const TROUBLED_MIN: Duration = Duration::from_secs(12);

/// The troubles of one phase, in the order of their beginnings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Phase {
    pub(super) troubled: Duration,
    pub(super) events: Vec<Event>,
}

/// Draws the phases of a run of that length. The same arguments give the same phases.
pub(super) fn draw(seed: u64, lasting: Duration) -> Vec<Phase> {
    let mut random = Rng::with_seed(seed);
    let rest = lasting.saturating_sub(AROUND).max(TROUBLED_MIN + PAUSE);
    let count = (rest.as_secs_f64() / (TROUBLED + PAUSE).as_secs_f64()).round().max(1.0);
    let troubled = (rest.div_f64(count)).saturating_sub(PAUSE).max(TROUBLED_MIN);
    (0..count as usize).map(|_| phase(&mut random, troubled)).collect()
}

fn phase(random: &mut Rng, troubled: Duration) -> Phase {
    let mut events = Vec::new();
    for trouble in others(random) {
        let lasting = Duration::from_millis(random.u64(LASTING_MS));
        let latest = (troubled - lasting).as_millis() as u64;
        let at = Duration::from_millis(random.u64(0..=latest));
        events.push(Event { at, lasting, trouble, seed: random.u64(..) });
    }
    events.extend(of_servers(random, troubled));
    events.sort_by_key(|event| event.at);
    Phase { troubled, events }
}

/// Every kind but those of origin servers, in any order.
fn others(random: &mut Rng) -> Vec<Trouble> {
    let steps = [-86_400, -3_600, -30, 30, 3_600, 86_400];
    let mut troubles = vec![
        Trouble::Burst { clients: random.usize(60..=120) },
        Trouble::Burst { clients: random.usize(60..=120) },
        Trouble::OriginFaults { clients: random.usize(8..=16) },
        Trouble::SlowHeads { clients: random.usize(10..=30) },
        Trouble::SlowBodies { clients: random.usize(10..=30) },
        Trouble::SlowReaders { clients: random.usize(5..=20) },
        Trouble::Leavers { clients: random.usize(10..=30) },
        Trouble::Malformed { clients: random.usize(5..=15) },
        Trouble::IdleConnections { connections: random.usize(450..=700) },
        Trouble::TinyWindows { clients: random.usize(2..=6) },
        Trouble::ResetFlood { clients: random.usize(2..=6) },
        Trouble::Reloads { count: random.usize(4..=8) },
        Trouble::LogReopened { count: random.usize(1..=3) },
        Trouble::Signals { count: random.usize(2..=5) },
        Trouble::FullDisk,
        Trouble::ClockStep { seconds: steps[random.usize(..steps.len())] },
        Trouble::GatewayPaused { millis: random.u64(200..=900) },
        Trouble::FewDescriptors { spare: random.u64(0..=8) },
    ];
    random.shuffle(&mut troubles);
    troubles
}

/// Troubles of servers, one after the other, as many as there is time for: two of single servers, one of
/// all.
fn of_servers(random: &mut Rng, troubled: Duration) -> Vec<Event> {
    let say = MODES[random.usize(..MODES.len())];
    let mut troubles = vec![
        Trouble::ServerKilled { server: random.usize(..SERVERS) },
        Trouble::ServerStopped { server: random.usize(..SERVERS) },
        Trouble::ServerWrong { server: random.usize(..SERVERS), say },
    ];
    troubles.remove(random.usize(..troubles.len()));
    troubles.push(Trouble::AllServersOut { killed: random.bool() });
    random.shuffle(&mut troubles);
    let mut events = Vec::new();
    let mut at = Duration::from_millis(random.u64(0..2000));
    for trouble in troubles {
        let lasting = Duration::from_millis(random.u64(2000..5000));
        let seed = random.u64(..);
        if at + lasting > troubled {
            break;
        }
        events.push(Event { at, lasting, trouble, seed });
        at += lasting + SERVER_GAP;
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const MINUTES: [f64; 5] = [0.1, 1.0, 1.3, 5.0, 60.0];

    #[test]
    fn a_seed_gives_one_schedule() {
        let lasting = Duration::from_secs(300);
        assert_eq!(draw(7, lasting), draw(7, lasting));
        assert_ne!(draw(7, lasting), draw(8, lasting));
    }

    #[test]
    fn troubles_end_within_their_phase_and_the_run_within_its_time() {
        for minutes in MINUTES {
            let lasting = Duration::from_secs_f64(minutes * 60.0);
            for seed in 0..50 {
                let phases = draw(seed, lasting);
                let total: Duration = phases.iter().map(|phase| phase.troubled + PAUSE).sum();
                let least = TROUBLED_MIN + PAUSE + AROUND;
                let most = lasting.max(least) + Duration::from_secs(1);
                assert!(total + AROUND <= most, "{total:?} of {lasting:?}");
                for phase in &phases {
                    assert!(phase.events.iter().all(|it| it.at + it.lasting <= phase.troubled));
                    assert!(phase.events.is_sorted_by_key(|event| event.at));
                }
            }
        }
    }

    #[test]
    fn all_kinds_but_one_come_in_every_phase_that_has_the_time() {
        for phase in draw(3, Duration::from_secs(300)) {
            let kinds: BTreeSet<_> = phase.events.iter().map(|it| it.trouble.kind()).collect();
            assert_eq!(kinds.len(), 20, "{kinds:?}");
        }
    }

    #[test]
    fn troubles_of_servers_do_not_overlap() {
        for seed in 0..50 {
            for phase in draw(seed, Duration::from_secs(300)) {
                let mut until = Duration::ZERO;
                for event in phase.events.iter().filter(|it| !it.trouble.servers().is_empty()) {
                    assert!(event.at >= until, "{event:?}");
                    until = event.at + event.lasting + SERVER_GAP;
                }
            }
        }
    }
}
