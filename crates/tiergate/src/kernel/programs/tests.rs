//! What becomes of the rules that the programs are given. What needs root's rights says so without them, and tests nothing.

use super::*;

#[test]
fn answers_are_whole_and_say_when_to_come_again() {
    for after in [1, 9, 60, 3600, u64::MAX] {
        let answer = String::from_utf8(answer(after)).expect("text");
        let value = answer.split_once("Retry-After:").expect("it has one").1;
        assert_eq!(value.lines().next().expect("its line").trim(), after.to_string());
        assert!(answer.len().is_multiple_of(4) && answer.len() <= 256, "{}", answer.len());
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("Content-Length: 0\r\n") && body.is_empty(), "{answer}");
    }
}

/// Needs root's rights; without them it says so and tests nothing.
#[test]
fn rules_that_cannot_be_written_leave_no_former_ones_in_force() {
    let policy = "[[listener]]\naddress = \"0.0.0.0:80\"\n[origin]\nservers = [\"127.0.0.1:1\"]\n\
         [[rule]]\nclient = \"10.0.0.0/8\"\npolice = { rate = \"1/s\", burst = 5 }\n\
         [kernel]\nmechanism = \"ebpf\"\ninterfaces = [\"nowhere\"]\n";
    let policy = crate::config::parse(policy, "policy.toml").expect("a policy");
    let settings = policy.kernel.clone().expect("it has them");
    let mut programs = Programs::default();
    let here = |count: u32| -> Vec<IpAddr> {
        (0..count).map(|it| IpAddr::from((0x0a00_0000 + it).to_be_bytes())).collect()
    };
    let put = |programs: &mut Programs, count| {
        programs.put_in_force(Orders {
            settings: &settings,
            policy: &policy,
            here: &here(count),
            is_overload: true,
            rate: &|_| None,
        })
    };
    match put(&mut programs, 2) {
        Err(Fault::NoInterface(_)) => {}
        other => return eprintln!("not tested: {other:?}"),
    }
    let is_on = |programs: &Programs| {
        programs.syn.as_ref().is_some_and(|it| it.switches() != Switches::default())
    };
    assert!(programs.has_rules(&settings) && is_on(&programs));
    assert!(!programs.can_police(), "it is at no interface");
    assert!(!programs.is_elsewhere(&policy, &here(2)) && programs.is_elsewhere(&policy, &here(3)));
    // More addresses than the kernel's map has places.
    let fault = put(&mut programs, 5000).expect_err("there is no room");
    assert!(matches!(fault, Fault::Map { .. }), "{fault}");
    assert!(!programs.has_rules(&settings) && !is_on(&programs));
    programs.switch(&settings, true).expect("nothing is done");
    assert!(!is_on(&programs), "not before the rules are there");
    assert!(matches!(put(&mut programs, 2), Err(Fault::NoInterface(_))));
    assert!(programs.has_rules(&settings) && is_on(&programs), "the next attempt");
}
