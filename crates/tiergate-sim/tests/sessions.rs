//! Sessions under overload: who has begun comes to the end, and without Tiergate hardly anybody does.
//!
//! Source: WebQoS §6 (sessions of N requests, N = 2, 4, 8, 16); Cherkasova & Phaal (session-based
//! admission control).

use tiergate_sim::report::ClassReport;
use tiergate_sim::run;
use tiergate_sim::scenario::Scenario;

/// Requests a second that the server takes.
const CAPACITY: f64 = 1000.0;

/// Sessions of so many requests at so many times the capacity.
fn scenario(requests: u32, times: f64, think_ms: f64, sessions: bool, limit: &str) -> Scenario {
    let rate = times * CAPACITY / f64::from(requests);
    Scenario::parse(&format!(
        r#"
        about = "sessions"
        seconds = 60.0
        cuts_s = [5.0, 45.0]
        limit = {limit}
        sessions = {sessions}
        [[class]]
        name = "shop"
        [server]
        workers = 20
        wait = {{ kind = "exponential", mean_ms = 20.0 }}
        [[population]]
        class = "shop"
        arrivals = {{ kind = "sessions", rate = {rate}, requests = {requests}, think = {{ kind = "exponential", mean_ms = {think_ms} }} }}
        patience_ms = 5000.0
        "#
    ))
    .expect("a valid scenario")
}

/// What became of the sessions that began between the fifth second and the 45th.
fn outcome(scenario: &Scenario, seed: u64) -> ClassReport {
    run(scenario, seed).phases[1].classes[0].clone()
}

/// Answered requests a second in those 40 seconds.
fn goodput(outcome: &ClassReport) -> f64 {
    outcome.good as f64 / 40.0
}

#[test]
fn who_has_begun_comes_to_the_end() {
    for limit in ["\"adaptive\"", "{ fixed = 20 }"] {
        for think_ms in [0.0, 200.0, 1000.0] {
            for requests in [2, 4, 8, 16] {
                for seed in 1..4 {
                    let known = outcome(&scenario(requests, 3.0, think_ms, true, limit), seed);
                    let context =
                        format!("{limit}, think {think_ms} ms, N {requests}, seed {seed}");
                    let share = known.completed_share();
                    assert!(share >= 0.95, "{context}: {share} of those begun completed");
                    assert!(known.started > 1000, "{context}: {} began", known.started);
                    let goodput = goodput(&known);
                    assert!(goodput >= 0.95 * CAPACITY, "{context}: {goodput} a second");
                }
            }
        }
    }
}

/// The same without knowing sessions: whoever was answered over a connection goes on. Without a
/// gateway the longer they are, the fewer come to their end.
#[test]
fn unknown_sessions_go_on_by_their_connection() {
    let share = |requests, limit| {
        outcome(&scenario(requests, 3.0, 200.0, false, limit), 1).completed_share()
    };
    let with = [2, 4, 8, 16].map(|requests| share(requests, "\"adaptive\""));
    assert!(with.iter().all(|&share| share > 0.98), "{with:?}");
    let without = [2, 4, 8, 16].map(|requests| share(requests, "\"none\""));
    assert!(without.is_sorted_by(|a, b| a > b), "{without:?}");
    assert!(without[0] < 0.6 && without[3] < 0.08, "{without:?}");
}

/// A server that is not overloaded: nobody is refused, known or not.
#[test]
fn without_overload_everybody_completes() {
    for sessions in [false, true] {
        let outcome = outcome(&scenario(8, 0.8, 200.0, sessions, "\"adaptive\""), 1);
        assert_eq!(outcome.started, outcome.completed);
        assert_eq!(outcome.refused, 0);
    }
}

/// WebQoS's third experiment: premium sessions at a fixed rate, basic ones rising to three times the
/// capacity.
fn webqos(requests: u32, basic: f64) -> Scenario {
    let rate = |times: f64| times * CAPACITY / f64::from(requests);
    Scenario::parse(&format!(
        r#"
        about = "WebQoS, figure 14"
        seconds = 60.0
        cuts_s = [5.0, 45.0]
        limit = "adaptive"
        sessions = true
        [[class]]
        name = "premium"
        [[class]]
        name = "basic"
        [server]
        workers = 20
        wait = {{ kind = "exponential", mean_ms = 20.0 }}
        [[population]]
        class = "premium"
        arrivals = {{ kind = "sessions", rate = {}, requests = {requests}, think = {{ kind = "exponential", mean_ms = 50.0 }} }}
        patience_ms = 5000.0
        [[population]]
        class = "basic"
        arrivals = {{ kind = "sessions", rate = {}, requests = {requests}, think = {{ kind = "exponential", mean_ms = 50.0 }} }}
        patience_ms = 5000.0
        "#,
        rate(0.3),
        rate(basic)
    ))
    .expect("a valid scenario")
}

#[test]
fn premium_sessions_are_unharmed_while_admitted_basic_ones_complete() {
    for requests in [2, 4, 8, 16] {
        let classes = |basic| run(&webqos(requests, basic), 1).phases[1].classes.clone();
        let unloaded = classes(0.0)[0].session.mean_ms();
        for basic in [0.5, 1.0, 2.0, 3.0] {
            let [premium, basic_class] = classes(basic).try_into().expect("two classes");
            let context = format!("N {requests}, basic {basic}");
            let ratio = premium.session.mean_ms() / unloaded;
            assert!(ratio <= 1.2, "{context}: premium takes {ratio} of unloaded");
            assert_eq!(premium.refused + premium.left_waiting, 0, "{context}");
            assert!(premium.completed_share() == 1.0, "{context}");
            let share = basic_class.completed_share();
            assert!(share >= 0.95, "{context}: {share} of basic sessions completed");
            assert!(basic_class.completed > 500, "{context}: {} completed", basic_class.completed);
            println!("{context}: premium {ratio:.3} of unloaded, basic {share:.4}");
        }
    }
}
