//! Reloads under load that reorder, rename, add and remove classes and rules: classes that stay get what
//! they get without, sessions stay what they are, and what was counted and learned is there.
//!
//! Two gateways under the same load at the same time, one of which is reloaded all the while, so that
//! whatever the machine does, it does to both.

use crate::support::client::Client;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::Origin;
use crate::work::{Clients, Seen, count, origin};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The classes that stay, and what a request of each of its two rules costs, in units of the origin's.
const STAYING: [(&str, [u32; 2]); 3] = [("a", [2, 4]), ("b", [5, 7]), ("c", [3, 3])];
/// Clients without a session and sessions, of each class that stays.
const CLIENTS: usize = 14;
const SESSIONS: usize = 2;
/// Clients whose class comes and goes.
const GUESTS: usize = 4;
/// Requests of the classes that stay that each gateway serves meanwhile.
const COUNTED: u64 = 6_000;
/// Between two reloads: a few requests.
const RELOAD_EVERY: Duration = Duration::from_millis(20);

/// The tables of the policy after so many reloads; `keys`: of the classes that stay.
fn tables(policy: &str, keys: [&str; 3], reloads: usize) -> String {
    let guests = guests(reloads);
    let others = [guests.as_deref(), Some("rest")].into_iter().flatten().map(|name| (name, ""));
    let mut classes: Vec<(&str, &str)> =
        STAYING.iter().zip(keys).map(|((name, _), keys)| (*name, keys)).chain(others).collect();
    classes.rotate_left(reloads % 3);
    let mut rules: Vec<String> = Vec::new();
    for (place, (class, costs)) in STAYING.iter().enumerate() {
        for (kind, times) in costs.iter().enumerate() {
            let path = format!("path = \"/{place}/{times}/{kind}/*\"\nclass = \"{class}\"\n");
            // Each has a name at every second reload.
            let named = (reloads + rules.len()).is_multiple_of(2);
            rules.push(
                path + &if named { format!("name = \"{class}-{kind}\"\n") } else { "".into() },
            );
        }
    }
    rules.extend(guests.iter().map(|guests| format!("path = \"/3/*\"\nclass = \"{guests}\"\n")));
    for number in 0..reloads % 4 {
        rules.push(format!("path = \"/unused/{reloads}/{number}\"\nclass = \"rest\"\n"));
    }
    let count = rules.len();
    rules.rotate_right(reloads % count);

    let mut text = format!("[scheduling]\npolicy = \"{policy}\"\n[session]\ncookie = \"SID\"\n");
    text += "[access_log]\npath = \"access.json\"\n";
    let deadline = 60 + reloads % 2;
    for (name, keys) in classes {
        let _ = writeln!(text, "[[class]]\nname = \"{name}\"\ndeadline = \"{deadline}s\"\n{keys}");
    }
    rules.iter().fold(text, |text, rule| text + "[[rule]]\n" + rule)
}

/// The class of the guests: renamed by each reload, or gone, and then they get the default class.
fn guests(reloads: usize) -> Option<String> {
    (reloads % 4 != 3).then(|| format!("guests-{}", reloads % 3))
}

/// A gateway in front of an origin of its own, under load.
struct Side {
    _origin: Origin,
    seen: Arc<Seen>,
    gateway: Gateway,
    policy: &'static str,
    keys: [&'static str; 3],
    /// By class, and then the guests.
    clients: [Vec<Clients>; 4],
}

impl Side {
    fn start(policy: &'static str, keys: [&'static str; 3]) -> Self {
        let (origin, seen) = origin();
        let gateway = Gateway::start(&written(&origin, tables(policy, keys, 0)));
        let clients = [0, 1, 2].map(|place| {
            let (class, costs) = STAYING[place];
            let target =
                |who: &str| [0, 1].map(|kind| format!("/{place}/{}/{kind}/{who}", costs[kind]));
            let start = |count, who: &str, lines: &str| {
                let targets = target(who);
                Clients::asking(gateway.address, count, &targets.each_ref().map(|it| &**it), lines)
            };
            let session = |number| {
                let name = format!("session-{class}-{number}");
                start(1, &name, &format!("Cookie: SID={name}\r\n"))
            };
            (0..SESSIONS).map(session).chain([start(CLIENTS, "client", "")]).collect()
        });
        let guests = Clients::asking(gateway.address, GUESTS, &["/3/4"], "");
        let [a, b, c] = clients;
        let clients = [a, b, c, vec![guests]];
        Side { _origin: origin, seen, gateway, policy, keys, clients }
    }

    fn reload(&self, reloads: usize) {
        let policy = written(&self._origin, tables(self.policy, self.keys, reloads));
        self.gateway.write_policy(&policy.text(&[self.gateway.address], self.gateway.admin));
        let (status, text) = self.gateway.reload();
        assert_eq!(status, 200, "{text}");
    }

    fn metrics(&self) -> String {
        Client::connect(self.gateway.admin).get_local("/metrics").text()
    }

    /// Ends the load; how many answers the clients of each class got, and the guests.
    fn stop(&mut self) -> [u64; 4] {
        // All at once: what waits in a class that is gone is served when no other waits.
        let threads = std::mem::take(&mut self.clients).map(|clients| {
            thread::spawn(move || clients.into_iter().map(Clients::stop).collect::<Vec<_>>())
        });
        threads.map(|thread| {
            let answers = thread.join().expect("no client panics");
            assert!(answers.iter().all(|[_, refused]| *refused == 0), "{answers:?}");
            answers.iter().map(|[served, _]| served).sum()
        })
    }
}

fn written(origin: &Origin, tables: String) -> Policy {
    Policy {
        servers: vec![origin.server()],
        top: "default_class = \"rest\"".into(),
        origin: "slots = 8".into(),
        tables,
        ..Policy::default()
    }
}

/// What a page of metrics counts, by series: counters, and all of a histogram.
fn counters(page: &str) -> BTreeMap<&str, f64> {
    let mut counts = false;
    let mut found = BTreeMap::new();
    for line in page.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(family) => counts = family.ends_with(" counter") || family.ends_with(" histogram"),
            None if line.starts_with('#') || !counts => {}
            None => {
                let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
                found.insert(series, value.parse().expect("a number"));
            }
        }
    }
    found
}

/// The counter of each class.
fn by_class(page: &str, name: &str) -> BTreeMap<String, u64> {
    let prefix = format!("tiergate_{name}{{class=\"");
    let series = counters(page).into_iter().filter_map(|(series, value)| {
        let class = series.strip_prefix(&prefix)?.split('"').next()?;
        Some((class.to_owned(), value as u64))
    });
    series.fold(BTreeMap::new(), |mut sums, (class, value)| {
        *sums.entry(class).or_default() += value;
        sums
    })
}

/// The most that each series ever was.
#[derive(Default)]
struct Counted(BTreeMap<String, f64>);

impl Counted {
    /// No counter falls, and none is gone but those of rules that are.
    fn check(&mut self, page: &str, reloads: usize) {
        let now = counters(page);
        for (series, was) in &self.0 {
            let gone = series.starts_with("tiergate_rule_hits_total");
            match now.get(&**series) {
                Some(now) => assert!(now >= was, "{series}: {was}, then {now}, {reloads} reloads"),
                None => assert!(gone, "{series} is gone after {reloads} reloads"),
            }
        }
        // A rule without a name is shown by its number, which others have before and after.
        let numbered = |series: &str| {
            series
                .strip_prefix("tiergate_rule_hits_total{rule=\"")
                .is_some_and(|rule| rule.as_bytes()[0].is_ascii_digit())
        };
        let kept = now.into_iter().filter(|(series, _)| !numbered(series));
        self.0.extend(kept.map(|(series, value)| (series.to_owned(), value)));
    }
}

/// Each request of a session was of its class, and waited less than those without one.
fn check_sessions(side: &Side, lines: u64) {
    let path = side.gateway.policy_path.with_file_name("access.json");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    eventually("the log is written", || read().lines().count() as u64 == lines);
    // By class: how long requests waited and how many, with and without a session.
    let mut waits: BTreeMap<String, [(f64, u32); 2]> = BTreeMap::new();
    for line in read().lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        let (class, who) = (text("class"), text("target").rsplit('/').next().unwrap_or_default());
        if let Some(session) = who.strip_prefix("session-") {
            assert!(session.starts_with(&format!("{class}-")), "{line}");
        }
        let sums = waits.entry(class.to_owned()).or_default();
        let sum = &mut sums[usize::from(!who.starts_with("session-"))];
        *sum = (sum.0 + line["queue_seconds"].as_f64().unwrap_or_default(), sum.1 + 1);
    }
    for (class, _) in STAYING {
        let [running, new] = waits[class].map(|(sum, count)| sum / f64::from(count));
        println!(
            "class {class}: waits of {:.1} ms in sessions, {:.1} ms without",
            running * 1e3,
            new * 1e3
        );
        assert!(running * 2.0 < new, "class {class}: {running} s in sessions, {new} s without");
    }
    let page = side.metrics();
    let started = by_class(&page, "sessions_started_total");
    for (class, _) in STAYING {
        assert_eq!(started[class], SESSIONS as u64, "no session began twice: {started:?}");
    }
    assert_eq!(started.values().sum::<u64>(), (3 * SESSIONS) as u64);
    let ended: u64 = by_class(&page, "sessions_ended_total").values().sum();
    assert_eq!(ended, 0, "no session ended");
    let running = format!("\ntiergate_sessions_running {}\n", 3 * SESSIONS);
    assert!(page.contains(&running), "{page}");
}

/// The parts of the work of the classes that stay since `before`.
fn parts(seen: &Seen, before: [u64; 4]) -> [f64; 3] {
    let now = seen.worked();
    let worked = [0, 1, 2].map(|place| (now[place] - before[place]) as f64);
    worked.map(|work| work / worked.iter().sum::<f64>())
}

fn reloads_change_nothing(policy: &'static str, keys: [&'static str; 3]) {
    let (quiet, mut reloaded) = (Side::start(policy, keys), Side::start(policy, keys));
    for side in [&quiet, &reloaded] {
        count(&side.seen, 500);
    }
    let begin = [&quiet, &reloaded].map(|side| side.seen.worked());
    let served = |side: &Side| side.seen.served()[..3].iter().sum::<u64>();
    let enough = [&quiet, &reloaded].map(|side| served(side) + COUNTED);
    let (mut counted, mut reloads) = (Counted::default(), 0);
    while served(&quiet) < enough[0] || served(&reloaded) < enough[1] {
        thread::sleep(RELOAD_EVERY);
        reloads += 1;
        reloaded.reload(reloads);
        counted.check(&reloaded.metrics(), reloads);
    }
    let without = parts(&quiet.seen, begin[0]);
    let with = parts(&reloaded.seen, begin[1]);
    println!("{policy}, {reloads} reloads: {with:.4?}, without {without:.4?}");
    for (with, without) in with.iter().zip(without) {
        let off = with / without - 1.0;
        println!("{:+.2} %", off * 100.0);
        assert!(off.abs() < 0.02, "{with} of the work with reloads, {without} without");
    }

    // To a policy without the guests' classes while some wait in them.
    reloads += 4 - reloads % 4;
    reloaded.reload(reloads);
    let waiting = || -> u64 {
        let status = reloaded.gateway.status();
        let classes = status["classes"].as_array().expect("a list").iter();
        let guests =
            classes.filter(|it| it["name"].as_str().is_some_and(|it| it.starts_with("guests")));
        guests.map(|it| it["waiting"].as_u64().expect("a number")).sum()
    };
    eventually("guests wait", || waiting() > 0);
    reloaded.reload(reloads + 3);
    assert!(waiting() > 0, "they are not lost");
    let answers = reloaded.stop();
    reloaded.gateway.assert_conserved();
    let page = reloaded.metrics();
    counted.check(&page, reloads);
    for name in ["requests_arrived_total", "requests_finished_total", "service_seconds_count"] {
        let mut counted = by_class(&page, name);
        for ((class, _), answers) in STAYING.iter().zip(answers) {
            assert_eq!(counted.remove(*class), Some(answers), "{name} of {class}");
        }
        assert_eq!(counted.len(), 4, "three classes that are gone and the default: {counted:?}");
        assert_eq!(counted.values().sum::<u64>(), answers[3], "{name}: {counted:?}");
    }
    let unmatched = by_class(&page, "requests_arrived_total")["rest"];
    assert_eq!(counters(&page)["tiergate_rule_unmatched_total"] as u64, unmatched);
    check_sessions(&reloaded, answers.iter().sum());
    drop(quiet);
}

#[test]
fn weights_hold_through_reloads() {
    reloads_change_nothing("weighted", ["weight = 3", "weight = 2", "weight = 1"]);
}

#[test]
fn shares_hold_through_reloads() {
    reloads_change_nothing("shared", ["share = \"50%\"", "share = \"30%\"", "share = \"20%\""]);
}

/// Requests that cost twenty times what others do are charged with that from the first one after a reload on:
/// if it had to be learned anew, as many as there are slots would be let in until one has ended.
#[test]
fn what_requests_cost_is_known_after_a_reload() {
    let (origin, seen) = origin();
    let policy = |reloads: usize| {
        let mut rules = ["0/3", "1/60"].map(|path| {
            let class = &path[..1];
            format!("[[rule]]\npath = \"/{path}/*\"\nclass = \"c{class}\"\n")
        });
        let mut classes = [("c0", 3), ("c1", 1), ("rest", 1)].map(|(name, weight)| {
            format!("[[class]]\nname = \"{name}\"\ndeadline = \"60s\"\nweight = {weight}\n")
        });
        rules.rotate_left(reloads % 2);
        classes.rotate_left(reloads % 3);
        let scheduling = "[scheduling]\npolicy = \"weighted\"\n";
        written(&origin, scheduling.to_owned() + &classes.concat() + &rules.concat())
    };
    let gateway = Gateway::start(&policy(0));
    let load =
        ["/0/3/", "/1/60/"].map(|target| Clients::asking(gateway.address, 16, &[target], ""));
    count(&seen, 1_000);
    // Without reloads and with them, in turns.
    let mut most = [0; 2];
    let mut reloads = 0;
    for turn in 0..6 {
        seen.most_from_now_on();
        for _ in 0..40 {
            if turn % 2 == 1 {
                reloads += 1;
                gateway.write_policy(&policy(reloads).text(&[gateway.address], gateway.admin));
                assert_eq!(gateway.reload().0, 200);
            }
            count(&seen, 20);
        }
        most[turn % 2] = most[turn % 2].max(seen.most()[1]);
    }
    println!("{reloads} reloads: at most {} costly requests at once, {} without", most[1], most[0]);
    assert!(
        most[0] <= 4,
        "a quarter of eight slots, and what ends at about the same time: {most:?}"
    );
    assert!(most[1] <= most[0] + 1, "{most:?}");
    load.into_iter().for_each(|it| assert_eq!(it.stop()[1], 0));
    gateway.assert_conserved();
}
