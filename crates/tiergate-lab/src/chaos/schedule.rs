//! The schedule of faults: drawn from a seed before the run begins.
//!
//! The run is divided into phases, each with nearly every kind of fault in a random order, several at a
//! time, and a quiet pause at its end. Faults of origin servers come one after the other, with time for
//! the gateway to find out in between: with all servers out all the time there is nothing to judge.

use super::fault::{Event, Fault, SERVERS};
use super::origin::MODES;
use fastrand::Rng;
use std::time::Duration;

/// Length of a phase's faults, if there is time for several phases.
const ACTIVE: Duration = Duration::from_secs(36);
/// What a phase has in addition: the pause.
pub(super) const PAUSE: Duration = Duration::from_secs(10);
/// What a run needs before and after its phases: start, warm-up, the runs at full load.
pub(super) const AROUND: Duration = Duration::from_secs(24);
/// How long a fault lasts.
const LASTING_MS: std::ops::Range<u64> = 1500..7000;
/// How long one server is out of order: long enough to see what is lost once the gateway knows it.
const SERVER_MS: std::ops::Range<u64> = 5000..9000;
/// How long all of them are.
const ALL_SERVERS_MS: std::ops::Range<u64> = 2000..5000;
/// Between two faults of origin servers.
const SERVER_GAP: Duration = Duration::from_millis(2500);
/// The shortest phase of faults.
const ACTIVE_MIN: Duration = Duration::from_secs(12);

/// The faults of one phase, in the order of their beginnings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Phase {
    pub(super) active: Duration,
    pub(super) events: Vec<Event>,
}

/// Draws the phases of a run of that length. The same arguments give the same phases.
pub(super) fn draw(seed: u64, lasting: Duration) -> Vec<Phase> {
    let mut random = Rng::with_seed(seed);
    let rest = lasting.saturating_sub(AROUND).max(ACTIVE_MIN + PAUSE);
    let count = (rest.as_secs_f64() / (ACTIVE + PAUSE).as_secs_f64()).round().max(1.0);
    let active = (rest.div_f64(count)).saturating_sub(PAUSE).max(ACTIVE_MIN);
    (0..count as usize).map(|_| phase(&mut random, active)).collect()
}

fn phase(random: &mut Rng, active: Duration) -> Phase {
    let mut events = Vec::new();
    for fault in others(random) {
        let lasting = Duration::from_millis(random.u64(LASTING_MS));
        let latest = (active - lasting).as_millis() as u64;
        let at = Duration::from_millis(random.u64(0..=latest));
        events.push(Event { at, lasting, fault, seed: random.u64(..) });
    }
    events.extend(of_servers(random, active));
    events.sort_by_key(|event| event.at);
    Phase { active, events }
}

/// Every kind but those of origin servers, in any order.
fn others(random: &mut Rng) -> Vec<Fault> {
    let steps = [-86_400, -3_600, -30, 30, 3_600, 86_400];
    let mut faults = vec![
        Fault::Burst { clients: random.usize(60..=120) },
        Fault::Burst { clients: random.usize(60..=120) },
        Fault::FaultyAnswers { clients: random.usize(8..=16) },
        Fault::SlowHeads { clients: random.usize(10..=30) },
        Fault::SlowBodies { clients: random.usize(10..=30) },
        Fault::SlowReaders { clients: random.usize(5..=20) },
        Fault::Leavers { clients: random.usize(10..=30) },
        Fault::Malformed { clients: random.usize(5..=15) },
        Fault::IdleConnections { connections: random.usize(450..=700) },
        Fault::TinyWindows { clients: random.usize(2..=6) },
        Fault::ResetFlood { clients: random.usize(2..=6) },
        Fault::Reloads { count: random.usize(4..=8) },
        Fault::LogReopened { count: random.usize(1..=3) },
        Fault::Signals { count: random.usize(2..=5) },
        Fault::FullDisk,
        Fault::ClockStep { seconds: steps[random.usize(..steps.len())] },
        Fault::GatewayPaused { millis: random.u64(200..=900) },
        Fault::FewDescriptors { spare: random.u64(0..=8) },
    ];
    random.shuffle(&mut faults);
    faults
}

/// Faults of servers, one after the other, as many as there is time for: two of single servers, one of
/// all.
fn of_servers(random: &mut Rng, active: Duration) -> Vec<Event> {
    let say = MODES[random.usize(..MODES.len())];
    let mut faults = vec![
        Fault::ServerKilled { server: random.usize(..SERVERS) },
        Fault::ServerStopped { server: random.usize(..SERVERS) },
        Fault::ServerWrong { server: random.usize(..SERVERS), say },
    ];
    faults.remove(random.usize(..faults.len()));
    faults.push(Fault::AllServersOut { killed: random.bool() });
    random.shuffle(&mut faults);
    let mut events = Vec::new();
    let mut at = Duration::from_millis(random.u64(0..2000));
    for fault in faults {
        let all = fault.servers().len() == SERVERS;
        let lasting = random.u64(if all { ALL_SERVERS_MS } else { SERVER_MS });
        let lasting = Duration::from_millis(lasting);
        let seed = random.u64(..);
        if at + lasting > active {
            break;
        }
        events.push(Event { at, lasting, fault, seed });
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
    fn faults_end_within_their_phase_and_the_run_within_its_time() {
        for minutes in MINUTES {
            let lasting = Duration::from_secs_f64(minutes * 60.0);
            for seed in 0..50 {
                let phases = draw(seed, lasting);
                let total: Duration = phases.iter().map(|phase| phase.active + PAUSE).sum();
                let least = ACTIVE_MIN + PAUSE + AROUND;
                let most = lasting.max(least) + Duration::from_secs(1);
                assert!(total + AROUND <= most, "{total:?} of {lasting:?}");
                for phase in &phases {
                    assert!(phase.events.iter().all(|it| it.at + it.lasting <= phase.active));
                    assert!(phase.events.is_sorted_by_key(|event| event.at));
                }
            }
        }
    }

    #[test]
    fn all_kinds_but_one_come_in_every_phase_that_has_the_time() {
        for phase in draw(3, Duration::from_secs(300)) {
            let kinds: BTreeSet<_> = phase.events.iter().map(|it| it.fault.kind()).collect();
            assert_eq!(kinds.len(), 20, "{kinds:?}");
        }
    }

    #[test]
    fn faults_of_servers_do_not_overlap() {
        for seed in 0..50 {
            for phase in draw(seed, Duration::from_secs(300)) {
                let mut until = Duration::ZERO;
                for event in phase.events.iter().filter(|it| !it.fault.servers().is_empty()) {
                    assert!(event.at >= until, "{event:?}");
                    until = event.at + event.lasting + SERVER_GAP;
                }
            }
        }
    }
}
