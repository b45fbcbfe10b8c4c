//! A slot whose client has left is in use until the server is done with it.

use tiergate_core::origin::OnCancel;
use tiergate_sim::run_trial;
use tiergate_sim::scenario::Scenario;

/// Clients that ask for a second of work and leave at once, beside others.
const LEAVING: &str = r#"
seconds = 30.0
cuts_s = [5.0]
limit = { fixed = 16 }

[[class]]
name = "premium"

[[class]]
name = "basic"

[server]
workers = 16
wait = { kind = "exponential", mean_ms = 50.0 }
slow = [{ class = "basic", from_s = 0.0, to_s = 30.0, times = 20.0 }]

[[population]]
class = "premium"
arrivals = { kind = "poisson", rate = 20.0 }

[[population]]
class = "basic"
arrivals = { kind = "poisson", rate = 60.0 }
patience_ms = 10.0
"#;

#[test]
fn clients_that_leave_do_not_slow_down_those_that_stay() {
    let scenario = Scenario::parse(LEAVING).expect("a valid scenario");
    let median = |on_cancel| {
        let mut trial = scenario.trial();
        trial.on_cancel = on_cancel;
        let report = run_trial(&trial, scenario.front(), 3, &mut |_| {});
        report.phases[1].classes[0].total.quantile_ms(0.5)
    };
    let (kept, freed) = (median(OnCancel::Learn), median(OnCancel::Abort));
    assert!(kept < 150.0 && freed > 5.0 * kept, "{kept} ms, {freed} ms with slots freed at once");
}
