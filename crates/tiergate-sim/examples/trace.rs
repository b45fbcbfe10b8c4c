use tiergate_sim::compare::*;
use tiergate_sim::scenario::LimitKind;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let s = subjects().into_iter().find(|s| s.name == a[1]).unwrap();
    let sit = Situation::ALL.into_iter().find(|x| format!("{x:?}").to_lowercase() == a[2]).unwrap();
    let seed: u64 = a[3].parse().unwrap();
    let best = best_fixed(
        &scaled(
            &s,
            if a[2] == "up" {
                2.0
            } else if a[2] == "down" {
                0.5
            } else {
                1.0
            },
        ),
        seed,
    );
    println!("{best:?}");
    println!("{:?}", judge(&s, sit, LimitKind::Adaptive, seed, &best));
    let sc = scenario_of(&s, sit, LimitKind::Adaptive);
    let r = tiergate_sim::run(&sc, seed);
    for (t, n) in r.slots {
        println!("{t:8.3} {n}");
    }
}
