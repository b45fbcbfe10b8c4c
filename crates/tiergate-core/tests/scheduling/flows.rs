//! Flows in turn: inside a class, whoever sends more than others makes only itself wait.

use crate::measure::{ByWeight, Taking};
use crate::plans::{class, classes, dearest, millis, plan, script, sources};
use crate::script::{Script, Source};
use crate::state::{Req, State};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::class::{Class, Order};
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Costing, Policy};

fn random(seed: u64, cost: Costing) -> Script {
    let mut rng = Rng::with_seed(seed);
    let mut sources = sources(&mut rng, 5, |_, _| ());
    for source in &mut sources {
        // One rule a class: what is learned of one flow's requests is true of the others'.
        source.rule = Some(u32::from(source.class.as_bytes()[0] - b'a'));
    }
    for place in 0..sources.len() {
        let first = sources.iter().find(|other| other.rule == sources[place].rule);
        sources[place].service = first.expect("itself").service;
    }
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |_, class| class.fair = true);
        let policy = [Policy::Strict, Policy::Weighted][rng.usize(0..2)];
        Spec { cost, rules: crate::plans::rules(6), ..plan(rng, policy, classes) }
    };
    script(&mut rng, make, sources)
}

/// The flows of the plan's first class; those of the others are in other runs' first.
fn by_flow(state: &State) -> Vec<Taking> {
    let first = &state.plan.classes[0].name;
    let base = 100 * u64::from(first.as_bytes()[0] - b'a');
    let taking = |flow: u64| Taking {
        weight: 1.0,
        owns: Box::new(move |_: &State, req: &Req| req.class == 0 && req.flow == base + flow),
    };
    (0..5).map(taking).collect()
}

fn counts(seed: u64) {
    let mut watch = ByWeight::new(by_flow, |_, _| 1.0, 1.0, |_| 1.0);
    run(&random(seed, Costing::Requests), seed, &mut watch);
}

fn work(seed: u64) {
    let script = random(seed, Costing::Seconds);
    let largest = dearest(&script);
    let mut watch = ByWeight::new(
        by_flow,
        |state, req| req.work(state.now),
        largest,
        |slots| f64::from(slots) + 1.0,
    );
    run(&script, seed, &mut watch);
}

/// Flows of one rule, one of which costs ten times what the others do: an estimate by the rule is wrong for
/// each of them.
fn dear_flow(seed: u64) -> Script {
    let mut rng = Rng::with_seed(seed);
    let classes = vec![Class { fair: true, ..class("a") }];
    let plan = Spec {
        cost: Costing::Seconds,
        rules: crate::plans::rules(1),
        ..plan(&mut rng, Policy::Strict, classes)
    };
    let flow = |flow: u64| {
        let low = millis(if flow == 0 { 50 } else { 5 });
        Source { users: 10, rule: Some(0), service: (low, low * 2), ..Source::of("a", flow) }
    };
    let flows = rng.u64(2..=4);
    Script {
        sources: (0..flows).map(flow).collect(),
        arrivals: 400,
        ..script(&mut rng, |_| plan.clone(), Vec::new())
    }
}

fn work_of_a_dear_flow(seed: u64) {
    let script = Script { reloads: Vec::new(), ..dear_flow(seed) };
    let largest = dearest(&script);
    let times = |slots| f64::from(slots) + 1.0;
    let mut watch = ByWeight::new(by_flow, |state, req| req.work(state.now), largest, times);
    run(&script, seed, &mut watch);
}

/// The order inside a flow, whatever it is, stays.
fn order(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 3, |rng, source| source.score = (0, rng.u32(0..=5)));
    let order =
        [Order::Fifo, Order::AdaptiveLifo, Order::Deadline, Order::Score][seed as usize % 4];
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |rng, class| {
            class.fair = true;
            class.order = order;
            class.deadline = std::time::Duration::from_millis(rng.u64(5..5000));
        });
        plan(rng, Policy::Strict, classes)
    };
    run(&script(&mut rng, make, sources), seed, &mut ());
}

crate::property!(flows_take_turns, counts);
crate::property!(a_dear_flow_gets_fewer_turns, work_of_a_dear_flow);
crate::property!(equal_work_for_flows, work);
crate::property!(the_order_inside_a_flow_is_kept, order);
