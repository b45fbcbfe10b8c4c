//! What is said of scheduling that is wrong, word for word; and what right values mean.

use std::time::Duration;
use tiergate::config::meant::Policy;
use tiergate::config::parse;
use tiergate_core::class::{Codel, Late, Order, WhenFull};
use tiergate_core::schedule::{Costing, Policy as Between, SiteId};

fn read(text: &str) -> Result<Policy, String> {
    let text = format!("[origin]\nservers = [\"a:1\"]\n{text}");
    parse(&text, "p.toml").map_err(|errors| errors.to_string())
}

#[test]
fn each_fault_is_told_with_place_key_found_and_expected() {
    let two = "[[site]]\nname = \"x\"\n[[site]]\nname = \"y\"\n";
    let table: &[(&str, &str)] = &[
        (
            "[scheduling]\npolicy = \"strikt\"",
            "p.toml:4:10: scheduling.policy: unknown word \"strikt\", did you mean `strict`?",
        ),
        (
            "[scheduling]\ncost = \"time\"",
            "p.toml:4:8: scheduling.cost: unknown word \"time\", expected one of `bytes`, `requests`, `seconds`",
        ),
        (
            "[scheduling]\nageing = 2",
            "p.toml:4:10: scheduling.ageing: has no effect without policy = \"score\"; leave it out",
        ),
        (
            "[scheduling]\npolicy = \"score\"\nageing = -1",
            "p.toml:5:10: scheduling.ageing: must be a number from 0 to 1000 with at most three decimals, got -1",
        ),
        ("[scheduling]\nqueue = 0", "p.toml:4:9: scheduling.queue: must be at least 1, got 0"),
        (
            "[[site]]\nname = \"x\"\nageing = 2",
            "p.toml:5:10: site[1].ageing: has no effect without policy = \"score\"; leave it out",
        ),
        ("[[site]]\nweight = 2", "p.toml:3:1: site[1].name: is missing; write name = \"…\""),
        (
            "[[site]]\nname = \"a b\"",
            "p.toml:4:8: site[1].name: must be 1 to 64 letters, digits, `-`, `_` or `.`, got \"a b\"",
        ),
        (
            "[[site]]\nname = \"x\"\n[[site]]\nname = \"x\"",
            "p.toml:6:8: site[2].name: another site is called \"x\" already",
        ),
        (
            "[[site]]\nname = \"x\"\nshare = \"60%\"\n[[site]]\nname = \"y\"\nshare = \"60%\"",
            "p.toml:8:9: site[2].share: the shares add up to 120.0%, more than 100%",
        ),
        (
            "[[site]]\nname = \"x\"\nminimum = \"60%\"\n[[site]]\nname = \"y\"\nminimum = \"60%\"",
            "p.toml:8:11: site[2].minimum: the minimums add up to 120.0%, more than 100%",
        ),
        (
            "[[class]]\nname = \"a\"\nshare = \"60%\"\n[[class]]\nname = \"b\"\nshare = \"50%\"\n[[class]]\nname = \"c\"\nshare = \"50%\"",
            "p.toml:8:9: class[2].share: the shares add up to 110.0%, more than 100%",
        ),
        (
            "[[class]]\nname = \"a\"\nshare = \"20%\"\nreserve = \"30%\"",
            "p.toml:6:11: class[1].reserve: must be at most share, \"20%\", got \"30%\"",
        ),
        (
            "[[class]]\nname = \"a\"\nreserve = \"30%\"",
            "p.toml:5:11: class[1].reserve: is a part of `share`; write share = \"…\" too",
        ),
        (
            "[scheduling]\npolicy = \"fixed\"\n[[class]]\nname = \"a\"",
            "p.toml:5:1: class[1].share: is missing; where capacity is fixed, nothing without a share is ever served; write share = \"10%\"",
        ),
        (
            "[scheduling]\nbetween_sites = \"fixed\"\n[[site]]\nname = \"x\"\nshare = \"0%\"\n[[site]]\nname = \"y\"\nshare = \"9%\"",
            "p.toml:7:9: site[1].share: where capacity is fixed, nothing without a share is ever served; write share = \"10%\"",
        ),
        (
            "[[class]]\nname = \"a\"\nweight = 0",
            "p.toml:5:10: class[1].weight: must be more than 0, or nothing of it is ever served",
        ),
        (
            "[[class]]\nname = \"a\"\nsite = \"x\"",
            "p.toml:5:8: class[1].site: no site is called \"x\", expected one of `default`",
        ),
        (
            "[[site]]\nname = \"shop\"\n[[class]]\nname = \"a\"\nsite = \"shup\"",
            "p.toml:7:8: class[1].site: no site is called \"shup\", did you mean `shop`?",
        ),
        (
            "[[class]]\nname = \"a\"\norder = \"lifo\"",
            "p.toml:5:9: class[1].order: unknown word \"lifo\", did you mean `adaptive-lifo`?",
        ),
        (
            "[[class]]\nname = \"a\"\nwhen_full = \"drop\"",
            "p.toml:5:13: class[1].when_full: unknown word \"drop\", did you mean `drop-least`?",
        ),
        (
            "[[class]]\nname = \"a\"\nlate = true",
            "p.toml:5:8: class[1].late: must be a text in quotes, got true",
        ),
        (
            "[[class]]\nname = \"a\"\ncodel = { target = \"1s\", interval = \"1s\" }",
            "p.toml:5:37: class[1].codel.interval: must be more than target, \"1s\", got \"1s\"",
        ),
        (
            "[[class]]\nname = \"a\"\nqueue_bytes = \"much\"",
            "p.toml:5:15: class[1].queue_bytes: must be a size such as \"16KiB\" or \"1GiB\", or a number of bytes, got \"much\"",
        ),
        ("[[rule]]\nslots = 0", "p.toml:4:9: rule[1].slots: must be at least 1, got 0"),
        (
            "[[rule]]\nslots = 2\nrefuse = true",
            "p.toml:4:9: rule[1].slots: has no effect on requests that are refused; leave it out",
        ),
        (
            "[[rule]]\ndeadline_header = \"X Budget\"",
            "p.toml:4:19: rule[1].deadline_header: must be the name of a header, got \"X Budget\"",
        ),
    ];
    for (text, expected) in table {
        let told = read(text).map(|_| "no fault").unwrap_err();
        assert_eq!(told, *expected, "of\n{text}");
    }
    let told = read(&format!("{two}[[class]]\nname = \"a\"")).map(|_| "no fault").unwrap_err();
    assert_eq!(told, "p.toml:7:1: class[1].site: is missing; write site = \"x\"");
}

#[test]
fn shares_of_two_sites_are_added_up_apart() {
    let site = |name: &str| {
        format!(
            "[[class]]\nname = \"{name}\"\nsite = \"{name}\"\nshare = \"80%\"\nreserve = \"10%\"\n"
        )
    };
    let text =
        "[scheduling]\npolicy = \"shared\"\n[[site]]\nname = \"x\"\n[[site]]\nname = \"y\"\n";
    read(&format!("{text}{}{}", site("x"), site("y"))).unwrap();
    read("[scheduling]\npolicy = \"fixed\"").unwrap();
}

#[test]
fn every_key_means_what_it_says() {
    let policy = read(
        "[scheduling]\npolicy = \"score\"\nageing = 2.5\ncost = \"bytes\"\nbetween_sites = \"shared\"\nqueue = 70\n\
         [[site]]\nname = \"x\"\nweight = 2\nminimum = \"5%\"\nshare = \"40%\"\nreserve = \"4%\"\n\
         [[site]]\nname = \"y\"\npolicy = \"deadline\"\n\
         [[class]]\nname = \"a\"\nsite = \"y\"\nweight = 0.5\nshare = \"30%\"\nreserve = \"3%\"\n\
         order = \"adaptive-lifo\"\nfair = false\ncodel = {}\nwhen_full = \"drop-oldest\"\n\
         late = \"last\"\nqueue_bytes = \"1MiB\"\npreemptible = true\nstreams = 5\n\
         [[class]]\nname = \"b\"\nsite = \"x\"\n[[rule]]\nslots = 7\n",
    )
    .unwrap();
    let plan = &policy.plan;
    assert_eq!(plan.rank(plan.least_important()), Some(plan.classes.len() - 1));
    assert_eq!((plan.cost, plan.between_sites), (Costing::Bytes, Between::Shared));
    let [x, y] = &plan.sites[..] else { panic!("two sites: {:?}", plan.sites) };
    assert_eq!((x.policy, y.policy), (Between::Score { ageing: 2.5 }, Between::Deadline));
    assert_eq!((x.weight, x.minimum, x.share, x.reserve), (2.0, 0.05, 0.4, 0.04));
    let [a, b] = &plan.classes[..] else { panic!("two classes") };
    assert_eq!((a.site, b.site), (SiteId(1), SiteId(0)));
    assert_eq!((a.weight, a.share, a.reserve), (0.5, 0.3, 0.03));
    // Where the policy compares requests, classes offer them by the same order.
    assert_eq!((a.order, b.order), (Order::AdaptiveLifo, Order::Score));
    assert_eq!((a.fair, b.fair), (false, true));
    let codel = Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
    assert_eq!((a.codel, b.codel), (Some(codel), None));
    assert_eq!((a.when_full, a.late), (WhenFull::DropOldest, Late::Last));
    assert_eq!((a.queue_bytes_max, a.preemptible, a.streams_max), (1 << 20, true, 5));
    assert_eq!(plan.queue_len_max, 70);
    assert_eq!(policy.rules[0].rule.slots, Some(7));
}
