//! Tests of the figures.

use super::*;
use crate::load::counts::Counts;
use crate::load::figures::StepFigures;

fn step(sent: u64, ok: u64, refused: u64, p99_ms: f64) -> StepFigures {
    let figures = Figures {
        counts: Counts { sent, ok, refused, ..Counts::default() },
        attempts: sent * 2,
        bytes: ok * 1000,
        p99_ms: Some(p99_ms).filter(|_| ok > 0),
        ..Figures::default()
    };
    let received_in_it = ok * 1100;
    StepFigures { rate: 0.0, seconds: 2.0, answered_in_it: ok, received_in_it, figures }
}

/// Two phases of two seconds; premium is answered throughout, basic a quarter of the time.
fn report() -> RunFigures {
    let second =
        |sent, ok| Second { counts: Counts { sent, ok, ..Counts::default() }, ..Second::default() };
    let population = |name: &str, steps: Vec<StepFigures>, series| PopulationFigures {
        name: name.into(),
        overall: Figures {
            counts: Counts {
                sent: steps.iter().map(|s| s.figures.counts.sent).sum(),
                ..Counts::default()
            },
            ..Figures::default()
        },
        steps,
        sessions_by_step: vec![
            SessionFigures {
                begun: 10,
                started: 8,
                completed: 5,
                completed_in_it: 4,
                mean_ms: Some(100.0),
                ..Default::default()
            },
            SessionFigures {
                begun: 10,
                started: 10,
                completed: 10,
                completed_in_it: 8,
                mean_ms: Some(40.0),
                ..Default::default()
            },
        ],
        series,
    };
    let premium = population(
        "premium",
        vec![step(100, 100, 0, 50.0), step(100, 100, 0, 150.0)],
        [8.0, 2.0, 4.0, 6.0].map(|ms| Second { p50_ms: Some(ms), ..second(50, 50) }).to_vec(),
    );
    let basic = population(
        "basic",
        vec![step(400, 0, 100, 0.0), step(400, 200, 100, 300.0)],
        vec![second(200, 0), second(200, 0), second(200, 0), second(200, 200)],
    );
    RunFigures {
        populations: vec![premium, basic],
        lateness_p99_ms: 1.0,
        cpu: 0.1,
        cpu_peak: 0.1,
        void: None,
    }
}

fn value(toml: &str) -> Option<f64> {
    let phase = |name: &str| Phase { name: name.into(), seconds: 2.0 };
    let phases = [phase("calm"), phase("storm")];
    let report = report();
    let run = Observed {
        report: &report,
        phases: &phases,
        capacity: 200.0,
        served: Some((400, 100)),
        kernel_refused: Some(250),
        front_cpu_s: 0.01,
        waits: &[Waits {
            name: "basic".into(),
            phases: vec![(Some(10.0), 300), (Some(50.0), 100)],
        }],
        busy: &[0.5, 0.7, 1.0],
        front_busy: &[0.1, 0.3, 0.4],
        flood_sent: &[0.0, 2.0, 300.0, 500.0],
        flood_arrived: &[0.0, 2.0, 200.0, 300.0],
    };
    let taken: Taken = toml::from_str(&format!("name = 'x'\n{toml}")).unwrap();
    taken.value(&run)
}

#[test]
fn the_origin_is_busy_by_the_seconds_of_a_phase() {
    assert_eq!(value("what = 'origin_busy'\nphases = ['calm']"), Some(0.6));
    // It lasts for two seconds, and the second was not seen.
    assert_eq!(value("what = 'origin_busy'\nphases = ['storm']"), Some(1.0));
}

#[test]
fn a_flood_is_told_by_what_left_and_what_arrived() {
    assert_eq!(value("what = 'flood_sent'\nphases = ['storm']"), Some(400.0));
    assert_eq!(value("what = 'flood_arrived'\nphases = ['storm']"), Some(250.0));
    assert_eq!(value("what = 'flood_sent'\nphases = ['calm']"), Some(1.0));
}

#[test]
fn how_a_target_is_reached_is_told_of_several_phases() {
    let target = "target = { value = 0.6, within = 0.1 }\nphases = ['calm', 'storm']";
    let overshoot = value(&format!("what = 'overshoot'\n{target}")).unwrap();
    assert!((overshoot - (2.2 / 3.0 - 0.6) / 0.6).abs() < 1e-9, "{overshoot}");
    assert_eq!(value(&format!("what = 'settling'\n{target}")), Some(3.0), "never");
    assert_eq!(value("what = 'settling'"), None, "there is no target");
}

#[test]
fn shares_are_of_what_was_asked_for() {
    assert_eq!(value("what = 'answered'"), Some(0.4));
    assert_eq!(value("what = 'answered'\nclients = ['premium']"), Some(1.0));
    assert_eq!(value("what = 'answered'\nclients = ['basic']\nphases = ['storm']"), Some(0.5));
    assert_eq!(value("what = 'refused'\nclients = ['basic']"), Some(0.25));
    assert_eq!(value("what = 'failed'\nclients = ['basic']"), Some(0.75));
    assert_eq!(value("what = 'attempts'"), Some(2.0));
    assert_eq!(value("what = 'wasted'"), Some(0.25));
    assert_eq!(value("what = 'kernel_refused'"), Some(0.25));
    assert_eq!(value("what = 'front_cpu'"), Some(10.0));
    assert_eq!(value("what = 'queue_wait'\nclients = ['basic']"), Some(20.0));
    assert_eq!(value("what = 'queue_wait'\nphases = ['storm']"), Some(50.0));
    assert_eq!(value("what = 'queue_wait'\nclients = ['premium']"), None);
}

#[test]
fn rates_are_over_the_phases_and_goodput_of_their_capacity() {
    assert_eq!(value("what = 'rate'"), Some(100.0));
    assert_eq!(value("what = 'megabits'\nphases = ['storm']"), Some(1.2));
    let received = value("what = 'received'\nphases = ['storm']").unwrap();
    assert!((received - 300.0 * 1100.0 * 8.0 / 1e6 / 2.0).abs() < 1e-9, "{received}");
    assert_eq!(value("what = 'front_busy'\nphases = ['calm']"), Some(0.2));
    assert_eq!(value("what = 'goodput'\nphases = ['storm']"), Some(0.75));
    assert_eq!(value("what = 'goodput'\nphases = ['storm']\ncapacity = 0.5"), Some(1.5));
}

#[test]
fn latencies_count_by_their_answers_and_nobody_answered_has_none() {
    assert_eq!(value("what = 'p99'\nclients = ['premium']"), Some(100.0));
    assert_eq!(value("what = 'p99'\nphases = ['storm']"), Some(250.0));
    assert_eq!(value("what = 'p99'\nclients = ['basic']\nphases = ['calm']"), None);
}

#[test]
fn the_worst_second_is_one_of_the_phases() {
    let of = |phases: &str| value(&format!("what = 'worst_p50'\nclients = ['premium']\n{phases}"));
    assert_eq!(of("phases = ['calm']"), Some(8.0));
    assert_eq!(of("phases = ['storm']"), Some(6.0));
    assert_eq!(of("phases = ['storm']\nover = ['calm']"), Some(0.75));
    assert_eq!(value("what = 'worst_p50'\nclients = ['basic']"), None);
}

#[test]
fn sessions_have_their_own_figures() {
    assert_eq!(value("what = 'completed'"), Some(0.75));
    assert_eq!(value("what = 'kept'\nphases = ['calm']"), Some(0.625));
    assert_eq!(value("what = 'session_rate'\nphases = ['storm']"), Some(8.0));
    assert_eq!(value("what = 'session_rate'"), Some(6.0), "by when they ended");
    assert_eq!(value("what = 'session_mean'\nclients = ['premium']"), Some(60.0));
}

#[test]
fn a_measure_may_be_a_multiple_of_itself_in_other_phases() {
    let text = "what = 'p99'\nclients = ['premium']\nphases = ['storm']\nover = ['calm']";
    assert_eq!(value(text), Some(3.0));
    assert_eq!(value("what = 'p99'\nclients = ['basic']\nover = ['calm']"), None);
    let text = "what = 'rate'\nclients = ['premium']\nphases = ['storm']";
    assert_eq!(value(&format!("{text}\nover_clients = ['basic']")), Some(0.5));
}

#[test]
fn a_measure_may_be_a_part_of_what_others_leave() {
    let text = "what = 'received'\nclients = ['basic']\nphases = ['storm']";
    assert_eq!(value(text), Some(0.88));
    // The others get 0.44 Mb/s.
    let part = value(&format!("{text}\nleft_of = 2.2")).expect("they leave some");
    assert!((part - 0.5).abs() < 1e-9, "{part}");
    assert_eq!(value(&format!("{text}\nleft_of = 0.4")), None, "they leave nothing");
}

#[test]
fn recovery_is_two_good_seconds_or_the_time_until_the_end() {
    assert_eq!(value("what = 'recovery'\nclients = ['premium']\nphases = ['storm']"), Some(0.0));
    assert_eq!(value("what = 'recovery'\nclients = ['basic']\nphases = ['storm']"), Some(2.0));
}
