//! What is in force of a policy of which parts are observed: the policy as if those were not written.
//!
//! Names that the rest gives to what is not there are left out with it: of a rule or class the policer or the
//! adaptation, of a policer the share of a class, of a score the band, of a class the backlog at which it is refused.
//!
//! An adaptation says where the files are as well, so one with trees, or with a pool for full quality, stays: it gives every answer full
//! quality from there, and its trees stay closed.

use super::adaptation::AdaptationKeys;
use super::class::TriggerKeys;
use super::denial::Refuse;
use super::inbound::ControlKeys;
use super::let_through::let_through;
use super::mode::Mode;
use super::observed_parts::ObservedParts;
use super::place::{At, Place};
use super::policer::Police;
use super::policy::Root;
use std::collections::HashSet;

/// What is left of a policy.
pub(super) struct InForce {
    pub(super) root: Root,
    /// The places of its rules among those of the whole.
    pub(super) rules: Vec<usize>,
}

impl ObservedParts {
    /// Takes out what is observed. `place`: that of the policy.
    pub(super) fn without(&self, mut root: Root, place: &Place) -> InForce {
        root.class.retain(|it| !is_in(&it.value.name, |name| self.has_class(name)));
        root.site.retain(|it| !is_in(&it.value.name, |name| self.has_site(name)));
        root.policer.retain(|it| !is_in(&it.value.name, |name| self.has_policer(name)));
        let adaptations = self.take_adaptations(&mut root.adaptation);
        root.shedding = root.shedding.filter(|it| !it.mode.is_observe());
        self.take_police(&mut root.police);
        for At { value: class, .. } in &mut root.class {
            self.take_police(&mut class.police);
            class.adaptation = class.adaptation.take().filter(|name| adaptations.contains(name));
            class.refuse_at.retain_mut(|it| self.has_backlog(&mut it.value));
        }
        for At { value: policer, .. } in &mut root.policer {
            take_control(&mut policer.control);
            policer.share.retain(|it| !is_in(&it.value.class, |name| self.has_class(name)));
        }
        if let Some(score) = &mut root.score {
            score.band.retain(|it| !is_in(&it.value.class, |name| self.has_class(name)));
        }
        for At { value: lane, .. } in &mut root.lane {
            lane.classes.retain(|class| !self.has_class(&class.value));
        }
        root.lane.retain(|lane| !lane.value.classes.is_empty());
        // It may be of observed sites alone, and says nothing where nothing is scored.
        root.scheduling.place.forget("ageing");
        let mut rules = Vec::new();
        let mut kept = Vec::new();
        for (index, mut rule) in std::mem::take(&mut root.rule).into_iter().enumerate() {
            let is_refused = matches!(rule.value.refuse, Some(Refuse::Yes(_)));
            if self.has_rule(&rule.value) || self.all && is_refused {
                continue;
            }
            self.take_police(&mut rule.value.police);
            let is_left =
                |name: &Option<String>| name.as_ref().is_none_or(|it| adaptations.contains(it));
            rule.value.adaptation = rule.value.adaptation.take().filter(is_left);
            kept.push(rule);
            rules.push(index);
        }
        root.rule = kept;
        if self.all {
            let_through(&mut root, place);
        }
        InForce { root, rules }
    }

    /// Takes away what adaptations that are observed decide; returns the names of those that are left.
    fn take_adaptations(&self, all: &mut Vec<At<AdaptationKeys>>) -> HashSet<String> {
        for At { value: it, .. } in
            all.iter_mut().filter(|it| self.all || it.value.mode.is_observe())
        {
            (it.mode, it.cost) = (Mode::Observe, None);
        }
        let leads = |it: &AdaptationKeys| {
            let mut levels = it.level.iter().map(|it| &it.value);
            it.level.last().is_some_and(|it| it.value.pool.is_some())
                || levels.any(|it| it.tree.is_some())
        };
        all.retain(|it| !it.value.mode.is_observe() || leads(&it.value));
        all.iter().filter_map(|it| it.value.name.clone()).collect()
    }

    /// Takes away a policer that is observed, or its control.
    fn take_police(&self, police: &mut Option<At<Police>>) {
        let is_observed = match police.as_mut().map(|it| &mut it.value) {
            Some(Police::Named(name)) => self.has_policer(name),
            Some(Police::Own(own)) => {
                take_control(&mut own.control);
                own.mode.is_observe()
            }
            Some(Police::None) | None => false,
        };
        if is_observed {
            *police = None;
        }
    }

    /// Takes observed classes out of a backlog; says whether something is left of it.
    fn has_backlog(&self, trigger: &mut TriggerKeys) -> bool {
        // Two words, whatever classes are called.
        let is_word = |name: &str| matches!(name, "own" | "total");
        trigger.backlog.retain(|name| is_word(&name.value) || !self.has_class(&name.value));
        !trigger.backlog.is_empty()
    }
}

fn is_in(name: &Option<String>, observed: impl Fn(&str) -> bool) -> bool {
    name.as_deref().is_some_and(observed)
}

fn take_control(control: &mut Option<At<ControlKeys>>) {
    *control = control.take().filter(|it| !it.value.mode.is_observe());
}

#[cfg(test)]
mod tests {
    use crate::config::meant::Policy;
    use crate::config::{class_name, parse, parse_with};
    use tiergate_core::admit::trigger::Backlogs;
    use tiergate_core::control::Slots;
    use tiergate_core::names::{Names, PoolId, Route};
    use tiergate_core::schedule::Policy as Scheduling;

    /// The policy in force, and the whole.
    fn both(text: &str) -> (Policy, Policy) {
        let text = format!("{text}\n[origin]\nservers = [\"a:1\"]\n");
        let mut policy = parse(&text, "p.toml").unwrap_or_else(|faults| panic!("{faults}"));
        let whole = policy.observed.take().expect("something is observed");
        (policy, *whole)
    }

    fn names(policy: &Policy) -> Vec<&str> {
        policy.plan.classes.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn where_all_is_in_force_there_is_one_policy() {
        let text = "mode = \"enforce\"\n[origin]\nservers = [\"a:1\"]\n[[class]]\nname = \"a\"\nmode = \"enforce\"\n";
        assert!(parse(text, "p.toml").expect("a policy").observed.is_none());
    }

    #[test]
    fn an_observed_class_is_gone_wherever_it_is_named() {
        let (policy, whole) = both(
            "score = { band = [{ from = 5, class = \"b\" }, { from = 1, class = \"a\" }] }\n\
             [[class]]\nname = \"a\"\nrefuse_at = [{ backlog = \"b\", waiting = 5 }, { backlog = [\"own\", \"b\"], waiting = 9 }]\n\
             [[class]]\nname = \"b\"\nmode = \"observe\"\n\
             [[policer]]\nname = \"p\"\nrate = \"1/s\"\nshare = [{ class = \"a\", share = \"40%\" }, { class = \"b\", share = \"60%\" }]\n\
             [[rule]]\npath = \"/b\"\nclass = \"b\"\npolice = \"p\"\n[[rule]]\npath = \"/a\"\nclass = \"a\"\npolice = \"p\"\n",
        );
        assert_eq!((names(&policy), names(&whole)), (vec!["a"], vec!["a", "b"]));
        let of_default =
            |it: &Policy| class_name(&it.plan, it.classifier.default_class()).to_owned();
        assert_eq!((of_default(&policy), of_default(&whole)), ("a".to_owned(), "b".to_owned()));
        let (triggers, own) = (&policy.plan.classes[0].refuse_at, policy.plan.class_ids()[0]);
        assert_eq!(triggers.len(), 1, "the backlog of b alone is none");
        assert_eq!((&triggers[0].of, triggers[0].waiting), (&Backlogs::Of(vec![own]), 9));
        assert_eq!(policy.plan.policers[0].shares.len(), 1);
        assert_eq!(policy.score.as_ref().map(|it| it.bands.len()), Some(1));
        assert_eq!(policy.rules.len(), 1);
        assert_eq!((policy.rules[0].number, policy.rules[0].label()), (2, "2".to_owned()));
        let label = policy.plan.rule(policy.plan.rule_ids()[0]).expect("its own");
        assert_eq!(label.number, 2, "numbers are those of the file");
    }

    #[test]
    fn words_of_backlogs_are_not_the_classes_that_are_called_so() {
        let (policy, _) = both(
            "[[class]]\nname = \"gold\"\nrefuse_at = [{ backlog = \"total\", waiting = 100 }]\n\
             [[class]]\nname = \"total\"\nmode = \"observe\"\n",
        );
        assert_eq!(policy.plan.classes[0].refuse_at[0].waiting, 100);
    }

    #[test]
    fn a_whole_policy_keeps_no_copies() {
        let (policy, whole) =
            both("mode = \"observe\"\n[[rule]]\npath = \"/*\"\nstored = { max_age = \"5m\" }\n");
        assert!(whole.rules[0].rule.stored.is_some() && policy.rules[0].rule.stored.is_none());
    }

    #[test]
    fn without_any_class_in_force_there_is_the_default_one() {
        let (policy, _) = both(
            "[[site]]\nname = \"s\"\nmode = \"observe\"\npolicy = \"fixed\"\n\
             [[class]]\nname = \"a\"\nshare = \"50%\"\n[[rule]]\npath = \"/a\"\nclass = \"a\"\n",
        );
        assert_eq!(names(&policy), ["default"]);
        assert_eq!(policy.plan.sites[0].name, "default");
        assert!(policy.rules.is_empty());
    }

    #[test]
    fn of_two_sites_one_is_in_force_alone() {
        let (policy, whole) = both(
            "[scheduling]\nbetween_sites = \"fixed\"\nageing = 2\n\
             [[site]]\nname = \"old\"\nshare = \"50%\"\n\
             [[site]]\nname = \"new\"\nshare = \"50%\"\nmode = \"observe\"\npolicy = \"score\"\n\
             [[class]]\nname = \"o\"\nsite = \"old\"\n[[class]]\nname = \"n\"\nsite = \"new\"\n",
        );
        assert_eq!((names(&policy), names(&whole)), (vec!["o"], vec!["o", "n"]));
        assert_eq!(policy.plan.sites.len(), 1);
        assert_eq!(whole.plan.between_sites, Scheduling::Fixed);
    }

    #[test]
    fn an_observed_adaptation_takes_the_guarantees_with_it_that_it_keeps() {
        let (policy, whole) = both(
            "sensor = [{ name = \"cpu\", measure = \"cpu\" }]\n\
             [[adaptation]]\nname = \"q\"\nmode = \"observe\"\nsensor = \"cpu\"\nrefuse = true\n\
             cost = { request = \"1ms\" }\nlevel = [{}, {}]\n\
             [[site]]\nname = \"s\"\nguarantee = { requests = \"100/s\" }\n\
             [[class]]\nname = \"a\"\nadaptation = \"q\"\n\
             [[rule]]\npath = \"/a\"\nadaptation = \"q\"\n[[rule]]\npath = \"/b\"\nadaptation = false\n",
        );
        assert!(policy.plan.adaptations.is_empty() && policy.plan.classes[0].adaptation.is_none());
        assert!(
            policy.rules[0].rule.adaptation.is_none() && policy.rules[1].rule.adaptation.is_some()
        );
        assert_eq!(whole.plan.adaptations[0].sites.len(), 1);
    }

    #[test]
    fn an_observed_adaptation_still_says_where_the_files_are() {
        let levels = "[{ tree = \"/low\", pool = \"low\" }, { tree = \"/full\" }]";
        let tables = |mode: &str| {
            format!(
                "pool = [{{ name = \"low\", servers = [\"b:1\"] }}]\n\
                 [[adaptation]]\nname = \"q\"\n{mode}sensor = \"backlog\"\nrefuse = true\nlevel = {levels}\n\
                 [[adaptation]]\nname = \"plain\"\n{mode}sensor = \"backlog\"\nlevel = [{{}}, {{}}]\n\
                 [[class]]\nname = \"a\"\nadaptation = \"q\"\n[[class]]\nname = \"b\"\nadaptation = \"plain\"\n\
                 [[rule]]\npath = \"/b\"\nadaptation = \"q\"\n[[rule]]\npath = \"/c\"\nadaptation = \"plain\"\nslots = 2\n"
            )
        };
        let all = "mode = \"observe\"\n".to_owned() + &tables("");
        for text in [tables("mode = \"observe\"\n"), all] {
            let (policy, whole) = both(&text);
            let [it] = &policy.plan.adaptations[..] else { panic!("the other leads nowhere") };
            assert!(!it.acts && whole.plan.adaptations.iter().all(|it| it.acts));
            assert_eq!(policy.plan.classes[0].adaptation, whole.plan.classes[0].adaptation);
            assert_eq!(policy.plan.classes[1].adaptation, None);
            let by_rule: Vec<_> = policy.rules.iter().map(|it| it.rule.adaptation).collect();
            assert_eq!(by_rule, [whole.rules[0].rule.adaptation, None]);
            assert!(policy.plan.is_in_tree(b"/low/a") && policy.plan.is_in_tree(b"/full"));
        }
    }

    #[test]
    fn what_only_observed_rules_ask_for_is_looked_up() {
        let (policy, _) =
            both("[[rule]]\nmode = \"observe\"\ndomain = \"example.com\"\nrefuse = true\n");
        assert!(policy.wanted.names && !policy.wanted.dscp);
    }

    #[test]
    fn a_rule_keeps_its_id_when_one_before_it_is_observed_no_more() {
        let mut known = Names::default();
        let mut ids = |mode: &str| {
            let text = format!(
                "[origin]\nservers = [\"a:1\"]\n[[rule]]\npath = \"/a\"\nmode = \"{mode}\"\nrefuse = true\n\
                 [[rule]]\npath = \"/a\"\npolice = {{ rate = \"1/s\" }}\n"
            );
            let policy = parse_with(&text, "p.toml", &mut known).expect("a policy");
            let policer = policy.plan.policer_ids()[0];
            (policy.plan.rule_ids().to_vec(), policer, policy.plan.policers[0].name.clone())
        };
        let (observed, enforced) = (ids("observe"), ids("enforce"));
        assert_eq!((observed.0.len(), enforced.0.len()), (1, 2));
        assert_eq!(observed.0[0], enforced.0[1], "two with the same conditions");
        assert_eq!((observed.1, &observed.2), (enforced.1, &"rule.2".to_owned()));
    }

    #[test]
    fn a_whole_policy_keeps_what_routes_and_nothing_that_refuses() {
        let (policy, whole) = both(
            "mode = \"observe\"\ndefault_class = \"b\"\nshedding = {}\nrefusal = { block = {} }\n\
             pool = [{ name = \"p\", servers = [{ address = \"b:1\", slots = 2 }, \"c:1\"], slots_per_server = true, slots = 3 }]\n\
             resource = [{ name = \"db\", slots = 1 }]\nscheduling = { policy = \"score\", ageing = 2, queue = 5 }\n\
             police = { rate = \"1/s\" }\n\
             [[class]]\nname = \"a\"\npool = \"p\"\ndscp = \"ef\"\nresource = \"db\"\nqueue = 0\n\
             [[class]]\nname = \"b\"\nservice_target = { p99 = \"1s\" }\n\
             [[rule]]\npath = \"/r\"\nclass = \"a\"\nrefuse = true\n\
             [[rule]]\npath = \"/p\"\nclass = \"b\"\npool = { p = 1, default = 1 }\nslots = 9\ndeadline = \"1s\"\nflow = \"subject\"\n",
        );
        let plan = &policy.plan;
        assert!(policy.is_all_observed && plan.shedding.is_none() && plan.block.is_none());
        assert!(
            plan.policers.is_empty() && plan.site_policer.is_none() && plan.resources.is_empty()
        );
        for pool in plan.pool_ids() {
            assert_eq!(plan.pool_slots(*pool), Some(&Slots::Fixed(1_000_000)));
            assert!(!policy.origin_of(*pool).expect("it is there").slots_per_server);
        }
        let class = &plan.classes[0];
        assert_eq!((class.name.as_str(), class.dscp), ("a", Some(46)));
        assert!(plan.classes[1].service_target.is_none());
        assert_ne!(class.pool, Route::Pool(PoolId::DEFAULT));
        let [rule] = &policy.rules[..] else { panic!("the other refuses") };
        assert_eq!((rule.number, rule.rule.slots, rule.rule.deadline), (2, None, None));
        assert!(matches!(rule.rule.pool, Some(Route::Split(_))) && rule.rule.flow.is_some());
        assert_eq!(whole.rules.len(), 2);
        let warned = |what: &str| policy.warnings.iter().filter(|it| it.contains(what)).count();
        assert_eq!(
            (warned("not protected"), warned("no limit of pool"), warned("shedding")),
            (1, 2, 1)
        );
    }
}
