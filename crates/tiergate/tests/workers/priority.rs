//! WebQoS §4.5: the workers of premium requests have a higher priority at the processor.

use crate::house::{Askers, command, of_pool, pids, processor, used};
use crate::support::gateway::{Gateway, Policy, Port};
use crate::support::process::program;
use crate::support::{eventually, eventually_is};

/// What premium's worker used of a processor while both had work, for each of basic's.
fn ratio(premium: &str, basic: &str) -> Option<(f64, u64, u64)> {
    program("taskset")?;
    // Both on one processor, or nothing would compete.
    let command = command(&["taskset", "-c", &processor()])?;
    let ports = [Port::reserve(), Port::reserve()];
    let pool = |name: &str, port: &Port, keys: &str| {
        let address = port.address;
        format!(
            "[[pool]]\nname = \"{name}\"\nservers = [\"{address}\"]\nslots = 2\nrestart_max = \"20s\"\n\
             [pool.workers]\n{command}\n{keys}\n[[rule]]\npath = \"/{name}/**\"\npool = \"{name}\"\n"
        )
    };
    let tables = pool("premium", &ports[0], premium) + &pool("basic", &ports[1], basic);
    let class = "[[class]]\nname = \"default\"\ndeadline = \"600s\"\nlearn_patience = false\n";
    let gateway = Gateway::start(&Policy {
        tables: class.to_owned() + &tables,
        ..Policy::of(&[ports[0].address.to_string()])
    });
    for place in 0..2 {
        eventually_is("the workers are ready", 1, || of_pool(&gateway, place, "ready"));
    }
    let of = [0, 1].map(|place| pids(&gateway, place)[0]);
    let askers =
        ["/premium/burn", "/basic/burn"].map(|path| Askers::start(gateway.address, 2, path));
    let seen = || (of.map(used), askers.each_ref().map(Askers::answered));
    eventually("both are at work", || seen().1.iter().all(|count| *count > 0));
    let before = seen();
    eventually("they have used the processor for a while", || {
        let now = of.map(used);
        now[0] - before.0[0] + now[1] - before.0[1] > 150
    });
    let after = seen();
    let [premium, basic] = [0, 1].map(|place| (after.0[place] - before.0[place]) as f64);
    let answers = [0, 1].map(|place| after.1[place] - before.1[place]);
    assert_eq!(askers.map(Askers::stop), [0, 0], "no request is lost");
    Some((premium / basic.max(1.0), answers[0], answers[1]))
}

#[test]
fn premium_s_worker_has_most_of_a_processor_that_both_want() {
    let Some((ratio, premium, basic)) = ratio("", "nice = 10") else { return };
    println!("nice 0 : 10 — {ratio:.1} : 1 of the processor, {premium} : {basic} answers");
    // 9.3 : 1 by the kernel's weights, less what premium's waits for its clients, which want the same processors.
    assert!(ratio > 2.5 && premium > 2 * basic, "{ratio} {premium} {basic}");
}

#[test]
fn without_priorities_both_have_as_much() {
    // Other programs on the same processor can favour one of them for a while.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let Some((ratio, premium, basic)) = ratio("", "") else { return };
        println!("nice 0 : 0 — {ratio:.1} : 1 of the processor, {premium} : {basic} answers");
        if ratio > 0.5 && ratio < 2.0 {
            return;
        }
        seen.push((ratio, premium, basic));
    }
    panic!("{seen:?}");
}
