//! What is said of policy files that are wrong, word for word; and that nothing makes the parser panic.

use proptest::prelude::*;
use tiergate::config::parse;

/// What most cases build on: two lines without a fault.
const GOOD: &str = "[origin]
servers = [\"127.0.0.1:8081\"]
";

fn faults(text: &str) -> String {
    match parse(text, "policy.toml") {
        Ok(_) => "no fault".to_owned(),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn each_fault_is_told_with_place_key_found_and_expected() {
    let table: &[(&str, &str)] = &[
        (
            "[[class]]\nname = \"a\"\nmode = \"observ\"",
            "policy.toml:5:8: class[1].mode: unknown word \"observ\", did you mean `observe`?",
        ),
        (
            "[[rule]]\npath = \"/a\"\nrefuse = true\nmode = \"off\"",
            "policy.toml:6:8: rule[1].mode: unknown word \"off\", expected one of `enforce`, `observe`",
        ),
        (
            "[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\nmode = \"observe\"\n[[rule]]\npath = \"/a\"\nclass = \"b\"\nmode = \"enforce\"",
            "policy.toml:11:8: rule[1].mode: contradicts class \"b\", which is observed: remove one of them",
        ),
        (
            "[[site]]\nname = \"s\"\nmode = \"observe\"\n[[class]]\nname = \"a\"\nmode = \"enforce\"",
            "policy.toml:8:8: class[1].mode: contradicts mode = \"observe\" of site \"s\": remove one of them",
        ),
        (
            "[kernel]\nbegin = \"0%\"",
            "policy.toml:3:1: kernel.interfaces: is missing; write interfaces = [\"eth0\"]\npolicy.toml:4:9: kernel.begin: must be more than 0%: with none refused there is no overload",
        ),
        (
            "[kernel]\ninterfaces = \"eth0\"\nblock = \"all\"",
            "policy.toml:5:9: kernel.block: needs [refusal.block], which says when a client is blocked",
        ),
        (
            "[kernel]\ninterfaces = \"eth0\"\npolice = false\nrequests = \"reset\"",
            "policy.toml:6:12: kernel.requests: needs police = true",
        ),
        (
            "[kernel]\ninterfaces = \"eth0\"\nlet_in = \"0s\"",
            "policy.toml:5:10: kernel.let_in: must be more than 0",
        ),
        (
            "[shedding]\nmode = true",
            "policy.toml:4:8: shedding.mode: must be a text in quotes, got true",
        ),
        (
            "[[pool]]\nname = \"reports\"\nservers = [\"a:1\"]\n[[rule]]\npath = \"/x\"\npool = \"raports\"",
            "policy.toml:8:8: rule[1].pool: no pool is called \"raports\", did you mean `reports`?",
        ),
        (
            "[[pool]]\nname = \"reports\"\nservers = [\"a:1\"]\n[[class]]\nname = \"a\"\npool = \"x\"",
            "policy.toml:8:8: class[1].pool: no pool is called \"x\", expected one of `default`, `reports`",
        ),
        (
            "[[pool]]\nname = \"canary\"\nservers = [\"a:1\"]\n[[rule]]\npath = \"/x\"\npool = { default = 95, canari = 5 }",
            "policy.toml:8:24: rule[1].pool.canari: no pool is called \"canari\", did you mean `canary`?",
        ),
        (
            "[[class]]\nname = \"a\"\npool = { default = 0 }",
            "policy.toml:5:8: class[1].pool: must have a weight of more than 0",
        ),
        (
            "[[class]]\nname = \"a\"\npool = {}",
            "policy.toml:5:8: class[1].pool: must name 1 to 16 pools, got 0",
        ),
        (
            "[[class]]\nname = \"a\"\npool = { default = -1 }",
            "policy.toml:5:10: class[1].pool.default: must be a whole number, 0 or more, got -1",
        ),
        (
            "[[class]]\nname = \"a\"\npool = [\"default\"]",
            "policy.toml:5:8: class[1].pool: must be a pool, or pools with weights: { stable = 95, canary = 5 }, got a list",
        ),
        (
            "[[pool]]\nname = \"r\"\nservers = [\"a:1\"]\n[[pool]]\nname = \"r\"\nservers = [\"a:2\"]",
            "policy.toml:7:8: pool[2].name: another pool is called \"r\" already",
        ),
        (
            "[[pool]]\nname = \"default\"\nservers = [\"a:1\"]",
            "policy.toml:4:8: pool[1].name: must not be \"default\", which is the pool that [origin] describes",
        ),
        (
            "[[pool]]\nname = \"r\"",
            "policy.toml:3:1: pool[1].servers: is missing; write servers = [\"host:port\"]",
        ),
        (
            "[[pool]]\nname = \"r\"\nservers = []",
            "policy.toml:5:11: pool[1].servers: must name at least one server",
        ),
        (
            "[[pool]]\nname = \"r\"\nservers = [\"a:1\"]\nhealth = true",
            "policy.toml:6:10: pool[1].health: must be a table, or false, got true",
        ),
        (
            "[[pool]]\nname = \"q\"\nservers = [\"a:1\"]\nfallback = \"r\"\n\
             [[pool]]\nname = \"r\"\nservers = [\"a:1\"]\nfallback = \"q\"",
            "policy.toml:10:12: pool[2].fallback: leads back to the pool itself: r → q → r",
        ),
        (
            "[[pool]]\nname = \"q\"\nservers = [\"a:1\"]\nfallback = \"q\"",
            "policy.toml:6:12: pool[1].fallback: leads back to the pool itself: q → q",
        ),
        (
            "[[rule]]\npath = \"/x\"\nrefuse = true\npool = \"default\"",
            "policy.toml:6:8: rule[1].pool: has no effect on requests that are refused; leave it out",
        ),
        (
            "[origin.workers]\nnice = 10",
            "policy.toml:3:1: origin.workers.command: is missing; write command = [\"program\", \"argument\"], or cgroup = \"/path\", or unit = \"name.service\"",
        ),
        (
            "[origin.workers]\ncommand = []",
            "policy.toml:4:11: origin.workers.command: must name a program",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\nunit = \"a.service\"",
            "policy.toml:5:8: origin.workers.unit: contradicts command: remove one of them",
        ),
        (
            "[origin.workers]\nunit = \"a.service\"\ncount = 2",
            "policy.toml:5:9: origin.workers.count: has no effect without command",
        ),
        (
            "[origin.workers]\nunit = \"apache2\"",
            "policy.toml:4:8: origin.workers.unit: must be the name of a systemd unit such as \"apache2.service\", got \"apache2\"",
        ),
        (
            "[origin.workers]\ncgroup = \"/a/../b\"",
            "policy.toml:4:10: origin.workers.cgroup: must be the path of a group such as \"/system.slice/app.service\", got \"/a/../b\"",
        ),
        (
            "[origin.workers]\nunit = \"a.service\"\nscheduling = { slice = \"1ms\" }",
            "policy.toml:5:14: origin.workers.scheduling: must know how many processes there are, so a slice needs command; write \"fifo:10\", or a cpu_weight",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\nnice = 20",
            "policy.toml:5:8: origin.workers.nice: must be a whole number from -20 to 19, got 20",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\nscheduling = \"fifo:0\"",
            "policy.toml:5:14: origin.workers.scheduling: must be \"idle\", \"fifo:1\" to \"fifo:99\", or { slice, period, extra }, got \"fifo:0\"",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\nscheduling = { slice = \"20ms\", period = \"10ms\" }",
            "policy.toml:5:24: origin.workers.scheduling.slice: must be at most period, \"10ms\", got \"20ms\"",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\nscheduling = { slice = \"0.05ms\" }",
            "policy.toml:5:24: origin.workers.scheduling.slice: must be at least \"0.1ms\", got \"0.05ms\"",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\nscheduling = \"fifo:5\"\nnice = 3",
            "policy.toml:6:8: origin.workers.nice: has no effect where scheduling = \"fifo:5\"",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\nscheduling = \"fifo:5\"\ncpu_quota = \"50%\"",
            "policy.toml:6:13: origin.workers.cpu_quota: counts for ordinary processes only, not with that scheduling",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\nio = \"best-effort:8\"",
            "policy.toml:5:6: origin.workers.io: must be \"idle\", or \"best-effort:\" or \"realtime:\" and a number from 0 to 7, got \"best-effort:8\"",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\ncpu_quota = \"0.5%\"",
            "policy.toml:5:13: origin.workers.cpu_quota: must be a part of the processors from \"1%\" to \"100000%\", got \"0.5%\"",
        ),
        (
            "[[pool]]\nname = \"p\"\nservers = [\"a:1\", \"b:1\"]\n[pool.workers]\ncommand = [\"a\"]\ncount = 3",
            "policy.toml:8:9: pool[1].workers.count: must be 1, or 2: one for each server, got 3",
        ),
        (
            "[origin.workers]\ncommand = [\"a\"]\ncount = 2\nready = \"connect\"",
            "policy.toml:6:9: origin.workers.ready: cannot tell which of several workers of one server accepts: write \"alive\"",
        ),
        (
            "[[pool]]\nname = \"p\"\nservers = [\"unix:/a\"]\n[pool.workers]\ncommand = [\"a\", \"{port}\"]",
            "policy.toml:7:11: pool[1].workers.command: has {port}, and a server of the pool is a UNIX socket; write {address}",
        ),
        (
            "[session]",
            "policy.toml:3:1: session: must have either `cookie`, the name of the application's cookie, or `own = true`",
        ),
        (
            "[session]\nown = true\ncookie = \"a\"",
            "policy.toml:3:1: session: must have either `cookie`, the name of the application's cookie, or `own = true`",
        ),
        (
            "[session]\ncookie = \"a b\"",
            "policy.toml:4:10: session.cookie: must be the name of a cookie, got \"a b\"",
        ),
        (
            "[session]\ncookie = \"a\"\nsecret_file = \"file\"",
            "policy.toml:5:15: session.secret_file: has no effect without `own = true`",
        ),
        (
            "[forwarding]\nspool_request = \"1MiB\"",
            "policy.toml:4:17: forwarding.spool_request: has no effect without `spool_directory`",
        ),
        (
            "[forwarding]\nspool_directory = \"/tmp\"\nspool_request = 0",
            "policy.toml:5:17: forwarding.spool_request: must be at least 1KiB, got 0B",
        ),
        (
            "[forwarding]\nspool_directory = true",
            "policy.toml:4:19: forwarding.spool_directory: must be the name of a file, got true",
        ),
        (
            "[session]\nown = true\nidle = \"13h\"",
            "policy.toml:5:8: session.idle: must be at most lifetime, \"12h\", got \"13h\"",
        ),
        (
            "[session]\nown = true\nat_once_max = 0",
            "policy.toml:5:15: session.at_once_max: must be at least 1, got 0",
        ),
        ("[shedding]\ndelay = \"0s\"", "policy.toml:4:9: shedding.delay: must be more than 0"),
        (
            "[shedding]\ndelay = 5",
            "policy.toml:4:9: shedding.delay: must be a time such as \"250ms\", \"2s\" or \"1m\", got 5",
        ),
        (
            "[shedding]\nclose = \"keep\"",
            "policy.toml:4:9: shedding.close: unknown word \"keep\", expected one of `close`, `reset`",
        ),
        (
            "[shedding]\naim = \"1s\"",
            "policy.toml:4:1: shedding.aim: unknown key, expected one of `close`, `delay`, `mode`",
        ),
        (
            "[[class]]\nname = \"a\"\nqueu = 5",
            "policy.toml:5:1: class[1].queu: unknown key, did you mean `queue`?",
        ),
        (
            "[[class]]\nname = \"a\"\nzzz = 0",
            "policy.toml:5:1: class[1].zzz: unknown key, expected one of `adaptation`, `background`, `codel`, `deadline`, `dscp`, `fair`, `flow`, `late`, `learn_patience`, `minimum`, `mode`, `name`, `order`, `police`, `pool`, `preemptible`, `queue_bytes`, `queue`, `refuse_at`, `reserve`, `resource`, `service_target`, `share`, `site`, `socket_priority`, `streams`, `transmit`, `weight`, `when_full`",
        ),
        (
            "[[class]]\nname = \"a\"\nminimum = 10",
            "policy.toml:5:11: class[1].minimum: must be a share from \"0%\" to \"100%\", got 10",
        ),
        (
            "[[class]]\nname = \"a\"\nminimum = \"110%\"",
            "policy.toml:5:11: class[1].minimum: must be a share from \"0%\" to \"100%\", got \"110%\"",
        ),
        (
            "[[class]]\nname = \"a\"\nminimum = \"60%\"\n[[class]]\nname = \"b\"\nminimum = \"50%\"",
            "policy.toml:8:11: class[2].minimum: the minimums add up to 110.0%, more than 100%",
        ),
        (
            "[[class]]\nname = \"a\"\n[[class]]\nname = \"a\"",
            "policy.toml:6:8: class[2].name: another class is called \"a\" already",
        ),
        (
            "[[class]]\ndeadline = \"2s\"",
            "policy.toml:3:1: class[1].name: is missing; write name = \"…\"",
        ),
        (
            "[[class]]\nname = \"a b\"",
            "policy.toml:4:8: class[1].name: must be 1 to 64 letters, digits, `-`, `_` or `.`, got \"a b\"",
        ),
        (
            "[[class]]\nname = \"a\"\ndeadline = 2",
            "policy.toml:5:12: class[1].deadline: must be a time such as \"250ms\", \"2s\" or \"1m\", got 2",
        ),
        (
            "[[class]]\nname = \"a\"\ndeadline = \"2 sec\"",
            "policy.toml:5:12: class[1].deadline: must be a time such as \"250ms\", \"2s\" or \"1m\", got \"2 sec\"",
        ),
        (
            "[[class]]\nname = \"a\"\ndeadline = \"0s\"",
            "policy.toml:5:12: class[1].deadline: must be more than 0",
        ),
        (
            "[[class]]\nname = \"a\"\ndeadline = \"48h\"",
            "policy.toml:5:12: class[1].deadline: must be at most \"24h\", got \"48h\"",
        ),
        (
            "[[class]]\nname = \"a\"\nqueue = 9999999",
            "policy.toml:5:9: class[1].queue: must be at most 1000000, got 9999999",
        ),
        (
            "[[class]]\nname = \"a\"\nqueue = -1",
            "policy.toml:5:9: class[1].queue: must be a whole number, 0 or more, got -1",
        ),
        (
            "[[class]]\nname = \"checkout\"\n[[rule]]\npath = \"/cart/*\"\nclass = \"chekout\"",
            "policy.toml:7:9: rule[1].class: no class is called \"chekout\", did you mean `checkout`?",
        ),
        (
            "[[rule]]\npath = \"/cart/*\"\nclass = \"zzz\"",
            "policy.toml:5:9: rule[1].class: no class is called \"zzz\", expected one of `default`",
        ),
        (
            "[[rule]]\npath = \"/cart/*\"",
            "policy.toml:3:1: rule[1].class: is missing; write class = \"…\", or refuse = true",
        ),
        (
            "[[class]]\nname = \"a\"\nrefuse_at = [{ backlog = \"b\", waiting = 5 }]",
            "policy.toml:5:26: class[1].refuse_at[1].backlog: no class is called \"b\", expected one of `a`",
        ),
        (
            "[[class]]\nname = \"a\"\nrefuse_at = [{ backlog = \"total\", waiting = 5, until = 6 }]",
            "policy.toml:5:56: class[1].refuse_at[1].until: must be at most 5, got 6",
        ),
        (
            "[[class]]\nname = \"a\"\nrefuse_at = [{}]",
            "policy.toml:5:14: class[1].refuse_at[1].backlog: is missing; write backlog = \"total\", \"own\", or a class\n\
             policy.toml:5:14: class[1].refuse_at[1].waiting: is missing; write waiting = 100",
        ),
        (
            "[[rule]]\npolice = \"pages\"\n[[policer]]\nname = \"page\"\nrate = \"1/s\"",
            "policy.toml:4:10: rule[1].police: no policer is called \"pages\", did you mean `page`?",
        ),
        (
            "[[rule]]\npolice = { rate = \"60\" }",
            "policy.toml:4:19: rule[1].police.rate: must be a rate such as \"60/s\", \"10/m\" or \"10 per minute\", got \"60\"",
        ),
        (
            "[[rule]]\npolice = { rate = \"0/s\" }",
            "policy.toml:4:19: rule[1].police.rate: must be more than 0, got \"0/s\"",
        ),
        (
            "[[rule]]\npolice = { burst = 0 }",
            "policy.toml:4:10: rule[1].police.rate: is missing; write rate = \"60/s\"\n\
             policy.toml:4:20: rule[1].police.burst: must be at least 1, got 0",
        ),
        (
            "[[rule]]\npolice = 60\nrefuse = true",
            "policy.toml:4:10: rule[1].police: must be a policer's name, or { rate = \"60/s\", burst = 20 }, or false, got 60",
        ),
        (
            "[[rule]]\npolice = { rate = \"1/s\" }\nrefuse = true",
            "policy.toml:4:10: rule[1].police: has no effect on requests that are refused; leave it out",
        ),
        (
            "[[policer]]\nname = \"p\"\nrate = \"9/s\"\nper = \"client\"",
            "policy.toml:6:7: policer[1].per: unknown word \"client\", expected one of `flow`, `rule`",
        ),
        (
            "[[policer]]\nname = \"p\"\nrate = \"9/s\"\nflows_max = 9",
            "policy.toml:6:13: policer[1].flows_max: needs per = \"flow\"; leave it out",
        ),
        (
            "[[policer]]\nname = \"p\"\nrate = \"9/s\"\nper = \"flow\"\nshare = [{ class = \"default\", share = \"5%\" }]",
            "policy.toml:7:9: policer[1].share: has no effect where each flow has a bucket of its own; leave it out",
        ),
        (
            "[[policer]]\nname = \"p\"\nrate = \"9/s\"\n[[policer.share]]\nclass = \"a\"\nshare = \"60%\"\n[[policer.share]]\nclass = \"b\"\nshare = \"50%\"\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"",
            "policy.toml:11:9: policer[1].share[2].share: the shares add up to 110%, more than 100%",
        ),
        (
            "[[policer]]\nname = \"p\"\nrate = \"9/s\"\n[[policer.share]]\nclass = \"default\"\nshare = \"1%\"\n[[policer.share]]\nclass = \"default\"\nshare = \"1%\"",
            "policy.toml:10:9: policer[1].share[2].class: \"default\" has a share already",
        ),
        (
            "[[policer]]\nname = \"p\"\nrate = \"9/s\"\n[[policer]]\nname = \"p\"\nrate = \"9/s\"",
            "policy.toml:7:8: policer[2].name: another policer is called \"p\" already",
        ),
        (
            "[[rule]]\npath = \"cart\"\nrefuse = true",
            "policy.toml:4:8: rule[1].path: must begin with `/` or `*`, got \"cart\"",
        ),
        (
            "[[rule]]\npath = \"/a//b\"\nrefuse = true",
            "policy.toml:4:8: rule[1].path: can never match, because paths are normalised first: `//` never occurs, write `/`, got \"/a//b\"",
        ),
        (
            "[[rule]]\npath = []\nrefuse = true",
            "policy.toml:4:8: rule[1].path: must not be empty, or nothing ever matches",
        ),
        (
            "[[rule]]\npath = [\"/a\", 7]\nrefuse = true",
            "policy.toml:4:15: rule[1].path[2]: must be a path such as \"/cart/*\", got 7",
        ),
        (
            "[[rule]]\nhost = \"*\"\nrefuse = true",
            "policy.toml:4:8: rule[1].host: may have `*` only at its beginning and followed by a dot: `*.example.com`, got \"*\"",
        ),
        (
            "[[rule]]\nhost = \"http://a.com/\"\nrefuse = true",
            "policy.toml:4:8: rule[1].host: has ':', which no host has; leave out scheme, port and path, got \"http://a.com/\"",
        ),
        (
            "[[rule]]\nmethod = \"post\"\nrefuse = true",
            "policy.toml:4:10: rule[1].method: must be \"POST\", because case matters in methods, got \"post\"",
        ),
        (
            "[[rule]]\nclient = \"10.0.0.0/33\"\nrefuse = true",
            "policy.toml:4:10: rule[1].client: must be an address or a network such as \"10.0.0.0/8\", got \"10.0.0.0/33\"",
        ),
        (
            "[[rule]]\nheader.accept = 5\nrefuse = true",
            "policy.toml:4:8: rule[1].header.accept: must be a pattern, a list of patterns, or true for \"present\", got 5",
        ),
        (
            "[[rule]]\nheader.Host = \"a\"\nrefuse = true",
            "policy.toml:4:8: rule[1].header.Host: is no header of HTTP/2 and HTTP/3, so that their requests would pass this rule by; write host = \"…\" in the rule",
        ),
        (
            "[[rule]]\nheader.\"a b\" = true\nrefuse = true",
            "policy.toml:4:8: rule[1].header.\"a b\": must be the name of a header, got \"a b\"",
        ),
        (
            "[[rule]]\ncookie = \"session\"\nrefuse = true",
            "policy.toml:4:10: rule[1].cookie: must be a table of names, got \"session\"",
        ),
        (
            "[[rule]]\nrefuse = true\ndeadline = \"1s\"",
            "policy.toml:5:12: rule[1].deadline: has no effect on requests that are refused; leave it out",
        ),
        (
            "[[rule]]\nimportance = 3\ndeadline = \"1s\"",
            "policy.toml:5:12: rule[1].deadline: needs `class`, because both come from one rule",
        ),
        (
            "[[rule]]\nimportance = 256",
            "policy.toml:4:14: rule[1].importance: must be at most 255, got 256",
        ),
        (
            "[[rule]]\nresource = \"disk\"",
            "policy.toml:4:12: rule[1].resource: no resource is called \"disk\"; there is no resource",
        ),
        (
            "[[sensor]]\nname = \"cpu\"\nmeasure = \"cpus\"",
            "policy.toml:5:11: sensor[1].measure: unknown word \"cpus\", did you mean `cpu`?",
        ),
        (
            "[[sensor]]\nname = \"cpu\"\nmeasure = \"cpu\"\ndevice = \"sda\"",
            "policy.toml:6:10: sensor[1].device: says nothing about this measure; leave it out",
        ),
        (
            "[[sensor]]\nname = \"cpu\"\nmeasure = \"cpu\"\ncgroup = \"../escape\"",
            "policy.toml:6:10: sensor[1].cgroup: must be the path of a control group, such as \"/system.slice/apache2.service\"",
        ),
        (
            "[[sensor]]\nname = \"net\"\nmeasure = \"network\"",
            "policy.toml:3:1: sensor[1].interface: is missing; write interface = \"eth0\"",
        ),
        (
            "[[sensor]]\nname = \"backlog\"\nmeasure = \"cpu\"",
            "policy.toml:4:8: sensor[1].name: \"backlog\" is the gateway's own; choose another name",
        ),
        (
            "[[sensor]]\nname = \"a\"\nmeasure = \"orca\"\nmetric = \"cpu\"",
            "policy.toml:6:10: sensor[1].metric: must be a metric such as \"application_utilization\" or \"named_metrics.queue\", got \"cpu\"",
        ),
        (
            "[[sensor]]\nname = \"a\"\nmeasure = \"orca\"",
            "policy.toml:3:1: sensor[1].metric: is missing; write metric = \"application_utilization\" or another one",
        ),
        (
            "[[sensor]]\nname = \"a\"\nmeasure = \"orca\"\nmetric = \"eps\"\npool = \"b\"",
            "policy.toml:7:8: sensor[1].pool: no pool is called \"b\", expected one of `default`",
        ),
        (
            "[[sensor]]\nname = \"a\"\nmeasure = \"orca\"\nmetric = \"eps\"\nquantity = \"level\"",
            "policy.toml:7:12: sensor[1].quantity: eps is a rate; leave quantity out",
        ),
        (
            "[[sensor]]\nname = \"a\"\nmeasure = \"agent\"",
            "policy.toml:3:1: sensor[1].agent: is missing; write agent = \"http://10.0.0.5:9180\"",
        ),
        (
            "[[sensor]]\nname = \"a\"\nmeasure = \"agent\"\nagent = \"https://b:1\"",
            "policy.toml:6:9: sensor[1].agent: must be an address such as \"http://10.0.0.5:9180\", got \"https://b:1\"",
        ),
        (
            "[[sensor]]\nname = \"a\"\nmeasure = \"agent\"\nagent = \"http://b:1\"\nmetric = \"eps\"",
            "policy.toml:7:10: sensor[1].metric: says nothing about this measure; leave it out",
        ),
        (
            "[[sensor]]\nname = \"a\"\nmeasure = \"agent\"\nagent = \"http://b:1\"\nquantity = \"rate\"\n[[policer]]\nname = \"a\"\nrate = \"50/s\"\ncontrol = { sensor = \"a\" }",
            "policy.toml:11:22: policer[1].control.sensor: \"a\" measures neither a share nor a queue; name another sensor",
        ),
        (
            "[[policer]]\nname = \"a\"\nrate = \"5/s\"\ncontrol = { sensor = \"cpu\" }",
            "policy.toml:6:22: policer[1].control.sensor: no sensor is called \"cpu\", expected one of `backlog`",
        ),
        (
            "[[policer]]\nname = \"a\"\nrate = \"5/s\"\ncontrol = { sensor = \"backlog\", min = \"6/s\" }",
            "policy.toml:6:39: policer[1].control.min: must be at most the rate",
        ),
        (
            "[[policer]]\nname = \"a\"\nrate = \"50/s\"\ncontrol = { sensor = \"backlog\", reference = \"90%\" }",
            "policy.toml:6:45: policer[1].control.reference: must be a length such as 100: \"backlog\" is a queue",
        ),
        (
            "[[policer]]\nname = \"a\"\nrate = \"50/s\"\nper = \"flow\"\ncontrol = { sensor = \"backlog\" }",
            "policy.toml:7:11: policer[1].control: needs per = \"rule\"; leave it out",
        ),
        (
            "[[rule]]\nscore = 8.5001",
            "policy.toml:4:9: rule[1].score: must be a number from 0 to 1000 with at most three decimals, got 8.5001",
        ),
        (
            "[[rule]]\nflow = \"ip\"",
            "policy.toml:4:8: rule[1].flow: must be \"client\", \"client/24\", \"client/24/56\", \"cookie:NAME\", \"header:NAME\" or \"subject\", got \"ip\"",
        ),
        (
            "[[class]]\nname = \"a\"\nflow = \"client/33\"",
            "policy.toml:5:8: class[1].flow: must name at most 32 bits, got \"client/33\"",
        ),
        (
            "[[rule]]\nextension = \".cgi\"\nrefuse = true",
            "policy.toml:4:13: rule[1].extension: must be without the dot, \"cgi\", got \".cgi\"",
        ),
        (
            "[[rule]]\npath_regex = \"^/(\"\nrefuse = true",
            "policy.toml:4:14: rule[1].path_regex: must be a regular expression: unclosed group, got \"^/(\"",
        ),
        (
            "[[rule]]\npath_regex = '(a{1000}){1000}'\nrefuse = true",
            "policy.toml:4:14: rule[1].path_regex: needs too many states; repeat less often, got \"(a{1000}){1000}\"",
        ),
        (
            "[[rule]]\nquery = \"a=b\"\nrefuse = true",
            "policy.toml:4:9: rule[1].query: must be a table of names, got \"a=b\"",
        ),
        (
            "[[rule]]\ncontent_type = \"text/html; charset=utf-8\"\nrefuse = true",
            "policy.toml:4:16: rule[1].content_type: must be without parameters, because they are ignored, got \"text/html; charset=utf-8\"",
        ),
        (
            "[[rule]]\ncontent_length = \"2MiB..1MiB\"\nrefuse = true",
            "policy.toml:4:18: rule[1].content_length: must begin below its end, got \"2MiB..1MiB\"",
        ),
        (
            "[[rule]]\nprefetch = false\nrefuse = true",
            "policy.toml:4:12: rule[1].prefetch: must be true; leave it out for requests of either kind",
        ),
        (
            "[[rule]]\nurgency = [0, 8]\nrefuse = true",
            "policy.toml:4:15: rule[1].urgency[2]: must be at most 7, got 8",
        ),
        (
            "[[rule]]\ndscp = \"EF\"\nrefuse = true",
            "policy.toml:4:8: rule[1].dscp: must be a code point from 0 to 63, or a range such as \"8..15\", got \"EF\"",
        ),
        (
            "[[rule]]\nlistener = \"main\"\nrefuse = true",
            "policy.toml:4:12: rule[1].listener: no listener is called \"main\" or has that address, expected one of `127.0.0.1:8080`",
        ),
        (
            "[[rule]]\ndomain = \"*.edu\"\nrefuse = true",
            "policy.toml:4:10: rule[1].domain: must be a name without `*`; all names below it are meant too, got \"*.edu\"",
        ),
        (
            "[[rule]]\ncountry = \"de\"\nrefuse = true",
            "policy.toml:4:11: rule[1].country: must be in capitals, got \"de\"",
        ),
        (
            "[[rule]]\nasn = -1\nrefuse = true",
            "policy.toml:4:7: rule[1].asn: must be a number such as 64500, or a range such as \"64500..64510\", got -1",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:80\"\nname = \"a b\"",
            "policy.toml:5:8: listener[1].name: must be 1 to 64 letters, digits, `-`, `_` or `.`, got \"a b\"",
        ),
        (
            "[score.client]\n\"129.93.\" = 2\n\"a:80\" = 3",
            "policy.toml:4:1: score.client.\"129.93.\": must be a host, a domain, an address or a network such as \"10.0.0.0/8\", got \"129.93.\"\npolicy.toml:5:1: score.client.\"a:80\": has ':', which no host has; leave out scheme, port and path, got \"a:80\"",
        ),
        (
            "[score.client]\n\"unl.edu\" = 2\n\"UNL.edu.\" = 3",
            "policy.toml:5:1: score.client.\"UNL.edu.\": means the same as \"unl.edu\"",
        ),
        (
            "[score.path]\nimages = 2",
            "policy.toml:4:1: score.path.images: must begin with `/`, got \"images\"",
        ),
        (
            "[[score.band]]\nfrom = 8\nclass = \"hihg\"\n[[score.band]]\nclass = \"default\"",
            "policy.toml:5:9: score.band[1].class: no class is called \"hihg\", expected one of `default`\npolicy.toml:6:1: score.band[2].from: is missing; write from = 8",
        ),
        (
            "[[rule]]\nrefuse = \"yes\"",
            "policy.toml:4:10: rule[1].refuse: must be true, a status such as 404, or a table such as { redirect = \"https://example.org/\" }, got \"yes\"",
        ),
        (
            "[rule]\nrefuse = true",
            "policy.toml:3:1: rule: must be a list (write [[rule]] in double brackets), got a table",
        ),
        (
            "[[listener]]\naddress = \"localhost\"",
            "policy.toml:4:11: listener[1].address: must be an address and port such as \"0.0.0.0:80\" or \"[::]:443\", got \"localhost\"",
        ),
        (
            "[[listener]]\nhttp2 = true",
            "policy.toml:3:1: listener[1].address: is missing; write address = \"0.0.0.0:80\"",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:80\"\n[[listener]]\naddress = \"0.0.0.0:80\"",
            "policy.toml:6:11: listener[2].address: another listener has 0.0.0.0:80 already",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:80\"\nproxy_protocol = true",
            "policy.toml:5:18: listener[1].proxy_protocol: needs `trusted` to name the proxies, or every connection is closed",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:443\"\ntls = { certificate = \"a.pem\" }",
            "policy.toml:5:7: listener[1].tls.key: is missing; name the PEM file of the private key",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:443\"\ntls = {}",
            "policy.toml:5:7: listener[1].tls.certificate: is missing; name the PEM file of the certificate and its chain\npolicy.toml:5:7: listener[1].tls.key: is missing; name the PEM file of the private key",
        ),
        (
            "[refusal]\nconnection = \"kep\"",
            "policy.toml:4:14: refusal.connection: unknown word \"kep\", did you mean `keep`?",
        ),
        (
            "[refusal]\nretry_after = \"2m\"\nretry_after_max = \"1m\"",
            "policy.toml:5:19: refusal.retry_after_max: must be at least retry_after, \"2m\", got \"1m\"",
        ),
        ("[refusal]\nretry_after = \"2m\"", "no fault"),
        (
            "[refusal]\nblock = { for = \"25h\", after = 0 }",
            "policy.toml:4:17: refusal.block.for: must be at most \"24h\", got \"25h\"\n\
             policy.toml:4:32: refusal.block.after: must be at least 1, got 0",
        ),
        (
            "[refusal]\nblock = { within = \"0.5ms\", lasting = \"1s\" }",
            "policy.toml:4:20: refusal.block.within: must be at least \"1ms\"\n\
             policy.toml:4:29: refusal.block.lasting: unknown key, expected one of `after`, `flows_max`, `for`, `within`",
        ),
        (
            "[[rule]]\npolice = { rate = \"60/s\", announce = 1 }",
            "policy.toml:4:38: rule[1].police.announce: must be true or false, got 1",
        ),
        (
            "[refusal]\nreason_header = \"X Reason\"",
            "policy.toml:4:17: refusal.reason_header: must be the name of a header, got \"X Reason\"",
        ),
        (
            "[limits]\nrequest_head_max = \"16kib\"",
            "policy.toml:4:20: limits.request_head_max: must be a size such as \"16KiB\" or \"1GiB\", or a number of bytes, got \"16kib\"",
        ),
        (
            "[limits]\nrequest_head_max = 10",
            "policy.toml:4:20: limits.request_head_max: must be at least 1KiB, got 10B",
        ),
        (
            "[limits]\ntarget_len_max = \"64KiB\"",
            "policy.toml:4:18: limits.target_len_max: must be at most request_head_max, 32KiB, got 64KiB",
        ),
        (
            "[limits]\nfields_max = 0",
            "policy.toml:4:14: limits.fields_max: must be at least 1, got 0",
        ),
        (
            "[limits]\nfields_max = 129",
            "policy.toml:4:14: limits.fields_max: must be at most 128, got 129",
        ),
        (
            "[timeouts]\nidle = 60s",
            "policy.toml:4:8: idle: must be a value as TOML has it, a text in plain quotes, got `60s`",
        ),
        (
            "[[listener]]\naddress = 127.0.0.1:80",
            "policy.toml:4:16: address: must be a value as TOML has it, a text in plain quotes, got `127.0.0.1:80`",
        ),
        (
            "[[class]]\nname = \"a\"\norder = \"lifo\"",
            "policy.toml:5:9: class[1].order: unknown word \"lifo\", did you mean `adaptive-lifo`?",
        ),
        (
            "[limits]\nFields_max = 1",
            "policy.toml:4:1: limits.Fields_max: unknown key, did you mean `fields_max`?",
        ),
        (
            "[[pool]]\nname = \"p\"\nservers = [\"a:1\"]\nprotocol = \"http2\"",
            "policy.toml:6:12: pool[1].protocol: unknown word \"http2\", expected one of `auto`, `h2`, `http1`",
        ),
        (
            "[[rule]]\nhost = \".a.com\"\nrefuse = true",
            "policy.toml:4:8: rule[1].host: must not begin with a dot; write `*.a.com` for all hosts below it, got \".a.com\"",
        ),
        (
            "[[rule]]\nmethod = \"GET|POST\"\nrefuse = true",
            "policy.toml:4:10: rule[1].method: must be one method, or a list of them, [\"GET\", \"POST\"], got \"GET|POST\"",
        ),
        (
            "[[rule]]\nextension = \"jpg,png\"\nrefuse = true",
            "policy.toml:4:13: rule[1].extension: must be one extension, or a list of them, [\"jpg\", \"png\"], got \"jpg,png\"",
        ),
        (
            "[[rule]]\npolice = \"10/s\"",
            "policy.toml:4:10: rule[1].police: must be the name of a policer, or of a rate { rate = \"10/s\" }, got \"10/s\"",
        ),
        (
            "[[pool]]\nname = \"p\"\nservers = [\"256.1.1.1:80\"]",
            "policy.toml:5:12: pool[1].servers[1]: must have an address of four decimal numbers from 0 to 255, or a name, got \"256.1.1.1:80\"",
        ),
        (
            "[[limits]]\nfields_max = 1",
            "policy.toml:3:1: limits: must be a table (write [limits] in single brackets), got a list",
        ),
        ("[limit]\nfields_max = 1", "policy.toml:3:2: limit: unknown key, did you mean `limits`?"),
        (
            "[timeouts]\nrequest_heat = \"1s\"",
            "policy.toml:4:1: timeouts.request_heat: unknown key, did you mean `request_head`?",
        ),
        (
            "[access_log]\nformat = \"xml\"",
            "policy.toml:4:10: access_log.format: unknown word \"xml\", expected one of `combined`, `common`, `extended`, `json`",
        ),
        (
            "[access_log]\nline = \"$remote_adr\"",
            "policy.toml:4:8: access_log.line: has the unknown variable `$remote_adr`, did you mean `$remote_addr`?, got \"$remote_adr\"",
        ),
        (
            "[access_log]\nrefused_one_in = 0",
            "policy.toml:4:18: access_log.refused_one_in: must be at least 1, got 0",
        ),
        (
            "[request_id]\nheader = \"Host\"",
            "policy.toml:4:10: request_id.header: must be a header without another meaning, got \"Host\"",
        ),
        (
            "[tracing]\nservice = \"a\"",
            "policy.toml:3:1: tracing.endpoint: is missing; write endpoint = \"http://127.0.0.1:4318/v1/traces\"",
        ),
        (
            "[tracing]\nendpoint = \"https://a\"",
            "policy.toml:4:12: tracing.endpoint: must begin with http://: run a collector beside the gateway, which sends them on by TLS, got \"https://a\"",
        ),
        (
            "[tracing]\nendpoint = \"a:4317\"",
            "policy.toml:4:12: tracing.endpoint: must be the address of a collector such as \"http://127.0.0.1:4318/v1/traces\", got \"a:4317\"",
        ),
        ("[forwarding]\nvia = 1", "policy.toml:4:7: forwarding.via: must be true or false, got 1"),
        (
            "[origin.health]\npath = \"health z\"",
            "policy.toml:4:8: origin.health.path: must begin with `/` and have neither spaces nor controls, got \"health z\"",
        ),
        (
            "[origin.health]\ninterval = \"1s\"",
            "policy.toml:3:1: origin.health.path: is missing; write path = \"/\"",
        ),
        (
            "[[class]]\nname = \"ä\"\nnaem = \"b\"\nqueue = \"many\"",
            "policy.toml:4:8: class[1].name: must be 1 to 64 letters, digits, `-`, `_` or `.`, got \"ä\"\npolicy.toml:5:1: class[1].naem: unknown key, did you mean `name`?\npolicy.toml:6:9: class[1].queue: must be a whole number, 0 or more, got \"many\"",
        ),
        (
            "slots = 64\nshared = true",
            "policy.toml:4:10: origin.shared: has no effect with slots = 64: write slots = \"adaptive\", or divide the slots among the gateways and remove this",
        ),
        (
            "[[pool]]\nname = \"r\"\nservers = [\"a:1\"]\nslots = 5\nshared = true",
            "policy.toml:7:10: pool[1].shared: has no effect with slots = 5: write slots = \"adaptive\", or divide the slots among the gateways and remove this",
        ),
        (
            "[[class]]\nname = \"a\"\ndscp = \"af44\"",
            "policy.toml:5:8: class[1].dscp: must be a code point such as \"af41\", \"ef\", \"cs1\" or \"le\", or a number from 0 to 63, got \"af44\"",
        ),
        (
            "[[class]]\nname = \"a\"\ndscp = 64",
            "policy.toml:5:8: class[1].dscp: must be a code point such as \"af41\", \"ef\", \"cs1\" or \"le\", or a number from 0 to 63, got 64",
        ),
        (
            "[[class]]\nname = \"a\"\nservice_target = {}",
            "policy.toml:5:18: class[1].service_target: must have one of p50, p90, p95, p99: write { p99 = \"200ms\" }",
        ),
        (
            "[[class]]\nname = \"a\"\nservice_target = { p50 = \"10ms\", p99 = \"1s\" }",
            "policy.toml:5:40: class[1].service_target.p99: must be the only quantile: remove it, or p50",
        ),
        (
            "[[class]]\nname = \"a\"\nservice_target = { p99 = \"20h\" }",
            "policy.toml:5:26: class[1].service_target.p99: must be at most \"10m\", got \"20h\"",
        ),
        (
            "[[class]]\nname = \"a\"\nservice_target = { p75 = \"1s\" }",
            "policy.toml:5:18: class[1].service_target: must have one of p50, p90, p95, p99: write { p99 = \"200ms\" }\n\
             policy.toml:5:20: class[1].service_target.p75: unknown key, expected one of `p50`, `p90`, `p95`, `p99`",
        ),
        (
            "[[pool]]\nname = \"r\"\nservers = [\"a:1\"]\nslots = 5\n[[class]]\nname = \"a\"\npool = \"r\"\nservice_target = { p99 = \"1s\" }",
            "policy.toml:10:18: class[1].service_target: has no effect with slots = 5 in the class's pool: write slots = \"adaptive\" there, or remove this",
        ),
        (
            "[[rule]]\npath = \"/a\"\nstored = \"5m\"",
            "policy.toml:5:10: rule[1].stored: must be { max_age = \"5m\" }, or false, got \"5m\"",
        ),
        (
            "[[rule]]\npath = \"/a\"\nstored = {}",
            "policy.toml:5:10: rule[1].stored.max_age: is missing; write max_age = \"5m\", how old an answer may be",
        ),
        (
            "[[rule]]\npath = \"/a\"\nrefuse = true\nstored = { max_age = \"5m\" }",
            "policy.toml:6:10: rule[1].stored: has no effect on requests that are refused; leave it out",
        ),
        (
            "[[adaptation]]\nname = \"a\"\nsensor = \"cpu\"\nlevel = [{}, {}]",
            "policy.toml:5:10: adaptation[1].sensor: no sensor is called \"cpu\", expected one of `backlog`",
        ),
        (
            "[[adaptation]]\nname = \"a\"\nsensor = \"backlog\"\nlevel = [{}]",
            "policy.toml:6:9: adaptation[1].level: one level leaves nothing to choose: it needs another, or refuse = true",
        ),
        (
            "[[adaptation]]\nname = \"a\"\nsensor = \"backlog\"\nlevel = [{ tree = \"/../etc\" }, {}]",
            "policy.toml:6:19: adaptation[1].level[1].tree: must be names of letters, digits and . _ ~ - with / before each, at most 256 bytes, got \"/../etc\"",
        ),
        (
            "[forwarding]\npath = \"as_received\"\n[[adaptation]]\nname = \"a\"\nsensor = \"backlog\"\nlevel = [{ tree = \"/low\" }, {}]",
            "policy.toml:8:19: adaptation[1].level[1].tree: needs paths in normal form: forwarding.path must not be \"as_received\"",
        ),
        (
            "[[adaptation]]\nname = \"a\"\nsensor = \"backlog\"\nlevel = [{}, {}]\ncost.request = \"1ms\"",
            "policy.toml:7:1: adaptation[1].cost: costs are shares of what a sensor measures, and a queue's length is none",
        ),
        (
            "[[adaptation]]\nname = \"a\"\nsensor = \"backlog\"\nlevel = [{}, {}]\ncost = { request = 2 }",
            "policy.toml:7:20: adaptation[1].cost.request: must be a time such as \"1.6ms\" or \"40us\", got 2",
        ),
        (
            "[[site]]\nname = \"s\"\nguarantee = { requests = \"10/s\", bandwidth = \"1Mb/s\" }",
            "policy.toml:5:46: site[1].guarantee.bandwidth: must be a bandwidth such as \"27Mbit/s\" or \"3MiB/s\", got \"1Mb/s\"",
        ),
        (
            "[[site]]\nname = \"s\"\nguarantee.requests = \"10/s\"",
            "policy.toml:5:1: site[1].guarantee: nothing keeps it: no class of the site has an adaptation with cost = { … }",
        ),
        (
            "[[sensor]]\nname = \"cpu\"\nmeasure = \"cpu\"\n[[adaptation]]\nname = \"a\"\nsensor = \"cpu\"\nreference = \"58%\"\nrefuse = true\nlevel = [{}, {}]\ncost = { request = \"1.604ms\", mebibyte = \"64.5ms\" }\n\
             [[site]]\nname = \"s\"\nguarantee = { requests = \"100/s\", bandwidth = \"27Mbit/s\" }\n[[site]]\nname = \"t\"\nguarantee = { requests = \"200/s\", bandwidth = \"27Mbit/s\" }\n\
             [[class]]\nname = \"a\"\nsite = \"s\"\nadaptation = \"a\"\n[[class]]\nname = \"b\"\nsite = \"t\"\nadaptation = \"a\"",
            "policy.toml:18:13: site[2].guarantee: is too much: with it, 89.6% of what sensor cpu measures is guaranteed, 31.65% more than adaptation a's reference, 58%; 80/s and 10.8Mbit/s would fit",
        ),
        // A tenth and two tenths are more than three tenths, in binary fractions. A rule without a class is of any.
        (
            "[[sensor]]\nname = \"cpu\"\nmeasure = \"cpu\"\n[[adaptation]]\nname = \"a\"\nsensor = \"cpu\"\nreference = \"30%\"\nrefuse = true\nlevel = [{}, {}]\ncost = { request = \"1ms\" }\n\
             [[site]]\nname = \"s\"\nguarantee.requests = \"100/s\"\n[[site]]\nname = \"t\"\nguarantee.requests = \"200/s\"\n[[site]]\nname = \"u\"\nguarantee.requests = \"10000/s\"\n\
             [[class]]\nname = \"a\"\nsite = \"s\"\nadaptation = \"a\"\n[[class]]\nname = \"b\"\nsite = \"t\"\n[[class]]\nname = \"c\"\nsite = \"u\"\nadaptation = \"a\"\n[[rule]]\npath = \"/b\"\nadaptation = \"a\"",
            "policy.toml:21:1: site[3].guarantee: is too much: with it, 1030% of what sensor cpu measures is guaranteed, 1000% more than adaptation a's reference, 30%; nothing of it fits",
        ),
        (
            "[[sensor]]\nname = \"cpu\"\nmeasure = \"cpu\"\n[[adaptation]]\nname = \"a\"\nsensor = \"cpu\"\nreference = \"30%\"\nlevel = [{}, {}]\ncost = { request = \"0ms\", mebibyte = \"84ms\" }\n\
             [[site]]\nname = \"s\"\nguarantee.requests = \"100/s\"\n[[class]]\nname = \"a\"\nadaptation = \"a\"",
            "policy.toml:14:1: site[1].guarantee: is of nothing: requests cost only their bytes in adaptation a; write bandwidth = \"…\"",
        ),
        (
            "[[sensor]]\nname = \"cpu\"\nmeasure = \"cpu\"\n[[adaptation]]\nname = \"a\"\nsensor = \"cpu\"\nreference = \"30%\"\nlevel = [{}, {}]\ncost = { request = \"1ms\" }\n\
             [[site]]\nname = \"s\"\nguarantee.requests = \"100/s\"\n[[class]]\nname = \"a\"\nadaptation = \"a\"",
            "policy.toml:14:1: site[1].guarantee: cannot be kept without refuse = true in adaptation a: nothing would keep the others from using all",
        ),
        (
            "[[adaptation]]\nname = \"a\"\nsensor = \"backlog\"\nalso = [{ sensor = \"backlog\" }]\nlevel = [{}, {}]",
            "policy.toml:6:8: adaptation[1].also: also must name other sensors",
        ),
        (
            "[[class]]\nname = \"a\"\nadaptation = \"pages\"",
            "policy.toml:5:14: class[1].adaptation: no adaptation is called \"pages\"; there is no adaptation",
        ),
        (
            "[[rule]]\npath = \"/x\"\nrefuse = true\nadaptation = false",
            "policy.toml:6:14: rule[1].adaptation: has no effect on requests that are refused; leave it out",
        ),
        (
            "[[class]]\nname = \"a\"\nbackground = true\n[[class]]\nname = \"b\"",
            "policy.toml:6:1: class[2]: must come before the background class \"a\": move it up",
        ),
        (
            "[[class]]\nname = \"a\"\nbackground = true",
            "policy.toml:5:14: class[1].background: at least one class must not be in the background",
        ),
        (
            "[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\nbackground = true\nminimum = \"5%\"",
            "policy.toml:8:11: class[2].minimum: a background class is sure of nothing: leave it out",
        ),
        (
            "[[class]]\nname = \"a\"\ntransmit = { slice = \"1ms\" }",
            "policy.toml:5:12: class[1].transmit: must know what the link carries: write [link] and below it capacity = 100_000_000, for 100 Mbit/s; an estimate will not do",
        ),
        (
            "[link]\ncapacity = 1_000_000\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\nbackground = true\ntransmit = { slice = \"1ms\" }",
            "policy.toml:10:12: class[2].transmit: a background class has only what is idle of the link: leave it out",
        ),
        (
            "[link]\ncapacity = 1_000_000\n[[class]]\nname = \"a\"\ntransmit = { slice = \"60ms\" }\n[[class]]\nname = \"b\"\ntransmit = { slice = \"5ms\", period = \"10ms\" }",
            "policy.toml:10:22: class[2].transmit.slice: the slices add up to 110.0% of the link: 40% was left for this one, which takes 50%",
        ),
        (
            "[link]\ncapacity = 1_000_000\n[[class]]\nname = \"a\"\ntransmit = { slice = \"60ms\", period = \"50ms\" }",
            "policy.toml:7:22: class[1].transmit.slice: must be at most period, \"50ms\", got \"60ms\"",
        ),
        (
            "[link]\ncapacity = 1_000_000\n[[class]]\nname = \"a\"\ntransmit = { extra = false }",
            "policy.toml:7:12: class[1].transmit.slice: is missing; without extra = true nothing of it would ever be sent; write slice = \"2ms\"",
        ),
        (
            "[link]",
            "policy.toml:3:1: link.capacity: is missing; write capacity = 100_000_000, for 100 Mbit/s, or interface = \"eth0\", or estimate = true",
        ),
        (
            "[link]\ncapacity = 1_000_000\ninterface = \"eth0\"",
            "policy.toml:5:13: link.interface: cannot be together with capacity; leave one of them out",
        ),
        (
            "[link]\ninterface = \"../eth0\"",
            "policy.toml:4:13: link.interface: must be the name of a network interface such as \"eth0\": 1 to 15 letters, digits, `.`, `_`, `-`, `@` and `+`, and no `-` before all, got \"../eth0\"",
        ),
        (
            "[link]\nmark = true\n[[class]]\nname = \"a\"\ntransmit = { slice = \"1ms\" }",
            "policy.toml:7:12: class[1].transmit: must know what the link carries: write [link] and below it capacity = 100_000_000, for 100 Mbit/s; an estimate will not do",
        ),
        (
            "[[class]]\nname = \"a\"\nsocket_priority = 7",
            "policy.toml:5:19: class[1].socket_priority: must be at most 6, got 7",
        ),
        ("[link]\ncapacity = 5", "policy.toml:4:12: link.capacity: must be at least 100000, got 5"),
        ("key = ", "policy.toml:3:7: key: string values must be quoted, expected literal string"),
        ("[origin]", "policy.toml:3:2: `origin` stands here a second time; leave one out"),
        (
            "[[class]]\nname = \"a\"\nname = \"b\"",
            "policy.toml:5:1: `name` stands here a second time; leave one out",
        ),
    ];
    let mut wrong = String::new();
    for (text, expected) in table {
        let text = format!("{GOOD}{text}");
        let found = faults(&text);
        if found != *expected {
            wrong += &format!("--- of\n{text}\nexpected {expected}\n   found {found}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn faults_of_the_origin_are_told() {
    let table = [
        ("", "policy.toml:1:1: origin: is missing; write [origin] with servers = [\"host:port\"]"),
        (
            "[origin]",
            "policy.toml:1:1: origin.servers: is missing; write servers = [\"host:port\"]",
        ),
        ("origin = 1", "policy.toml:1:10: origin: must be a table, got 1"),
        (
            "[origin]\nservers = []",
            "policy.toml:2:11: origin.servers: must name at least one server",
        ),
        (
            "[origin]\nservers = \"a:1\"",
            "policy.toml:2:11: origin.servers: must be a list, got \"a:1\"",
        ),
        (
            "[origin]\nservers = [\"a:1\", \"a:1\"]",
            "policy.toml:2:19: origin.servers[2]: duplicate: a:1",
        ),
        (
            "[origin]\nservers = [\"a\"]",
            "policy.toml:2:12: origin.servers[1]: must be a server such as \"127.0.0.1:8080\", \
             \"http://app.internal:8080\" or \"unix:/run/app.sock\", got \"a\"",
        ),
        (
            "[origin]\nservers = [\"https://a\"]",
            "policy.toml:2:12: origin.servers[1]: must not be https; write \"host:port\" \
             and tls = true beside `servers`, got \"https://a\"",
        ),
        (
            "[origin]\nservers = [\"a:1\"]\ntls = 1",
            "policy.toml:3:7: origin.tls: must be true, false or a table, got 1",
        ),
        (
            "[origin]\nservers = [\"a:1\"]\ntls = { server_name = \"a:1\" }",
            "policy.toml:3:23: origin.tls.server_name: must be a host name or an address, without a port, got \"a:1\"",
        ),
        (
            "[origin]\nservers = [\"a:1\"]\ntls = { key = \"k\" }",
            "policy.toml:3:7: origin.tls.certificate: is missing; name the PEM file of the certificate and its chain",
        ),
        (
            "[origin]\nservers = [\"a:1\"]\ntls = { ca = \"c\", verify = false }",
            "policy.toml:3:14: origin.tls.ca: has no effect with verify = false; leave one of them out",
        ),
        (
            "[origin]\nservers = [\"unix:/a\"]\ntls = true",
            "policy.toml:2:12: origin.servers[1]: is a UNIX socket, to which there is no TLS; leave `tls` out, or name a host and a port",
        ),
        (
            "[origin]\nservers = [\"a:1\"]\nprotocol = \"auto\"",
            "policy.toml:3:12: origin.protocol: \"auto\" needs `tls`, in whose handshake servers choose; without it write \"http1\" or \"h2\"",
        ),
        (
            "[origin]\nservers = [\"a:1\"]\nprotocol = \"http2\"",
            "policy.toml:3:12: origin.protocol: unknown word \"http2\", expected one of `auto`, `h2`, `http1`",
        ),
        (
            "[origin]\nservers = [1]",
            "policy.toml:2:12: origin.servers[1]: must be a server such as \"127.0.0.1:8080\" or { address = \
             \"127.0.0.1:8080\", slots = 4 }, got 1",
        ),
        (
            "[origin]\nservers = [\"a:1\", { slots = 4 }]",
            "policy.toml:2:19: origin.servers[2].address: is missing; write address = \"host:port\"",
        ),
        (
            "[origin]\nservers = [{ address = \"a:1\", slots = 0 }]",
            "policy.toml:2:39: origin.servers[1].slots: must be at least 1, got 0",
        ),
        (
            "[origin]\nservers = [{ address = \"a:1\", slots = \"adaptive\" }]",
            "policy.toml:2:39: origin.servers[1].slots: must be a whole number, 0 or more, got \"adaptive\"",
        ),
        (
            "[origin]\nservers = [{ address = \"a:1\", maxconn = 4 }]",
            "policy.toml:2:31: origin.servers[1].maxconn: unknown key, expected one of `address`, `slots`",
        ),
        (
            "[origin]\nservers = [\"a:1\", { address = \"http://a:1\", slots = 4 }]",
            "policy.toml:2:19: origin.servers[2]: duplicate: a:1",
        ),
        (
            "[origin]\nservers = [\"a:1\", { address = \"b:1\", slots = 4 }]\nslots = 20",
            "policy.toml:3:9: origin.slots: is the limit of all servers together, but origin.servers[2] has slots of \
             its own: write slots_per_server = true for 20 at each of the others, or remove this",
        ),
        (
            "[origin]\nservers = [{ address = \"b:1\", slots = 4 }]\nslots = 20\nslots_per_server = true",
            "policy.toml:3:9: origin.slots: has no effect, since every server has slots of its own: remove it",
        ),
        (
            "[origin]\nservers = [\"a:1\", { address = \"b:1\", slots = 4 }]\nslots_per_server = false",
            "policy.toml:3:20: origin.slots_per_server: must not be false, since origin.servers[2] has slots of its \
             own: remove it",
        ),
        (
            "[origin]\nservers = [{ address = \"b:1\", slots = 4 }]\nshared = true",
            "policy.toml:3:10: origin.shared: has no effect, since every server has slots of its own: divide them \
             among the gateways and remove this",
        ),
        (
            "[origin]\nservers = [\"a:1\"]\n[[pool]]\nname = \"p\"\nslots = 9\n\
             servers = [\"c:1\", { address = \"b:1\", slots = 4 }]",
            "policy.toml:5:9: pool[1].slots: is the limit of all servers together, but pool[1].servers[2] has slots of \
             its own: write slots_per_server = true for 9 at each of the others, or remove this",
        ),
        (
            "[origin]\nservers = [{ address = \"b:1\", slots = 4 }]\n[[class]]\nname = \"a\"\n\
             service_target = { p99 = \"1s\" }",
            "policy.toml:5:18: class[1].service_target: has no effect where every server of the class's pool has \
             slots of its own: remove those, or this",
        ),
        (
            "[origin]\nservers = [\"a:1\"]\nslots = \"auto\"",
            "policy.toml:3:9: origin.slots: must be \"adaptive\" or a number of requests, got \"auto\"",
        ),
        (
            "[origin]\nservers = [\"a:1\"]\nslots = 0",
            "policy.toml:3:9: origin.slots: must be at least 1, got 0",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(faults(text), expected, "\n--- of\n{text}");
    }
}

#[test]
fn many_faults_are_counted_but_not_all_told() {
    let text = format!("{GOOD}{}", "[[rule]]\npath = \"x\"\nclass = \"default\"\n".repeat(150));
    let told = faults(&text);
    assert_eq!(told.lines().count(), 101);
    assert!(told.ends_with("policy.toml: and 50 more faults"), "{told}");
}

/// Every key once, so that mutations reach everything.
const FULL: &str = r#"
admin = false
flow = "client/24/56"
default_class = "browse"
threads = 2
trusted = ["10.0.0.0/8", "::1"]
[[listener]]
address = "0.0.0.0:80"
proxy_protocol = true
http2 = false
share_port = true
tls = { certificates = [{ certificate = "a.pem", key = "/k/a.key" }] }
[origin]
servers = ["http://10.0.0.5:8080", { address = "unix:/run/app.sock", slots = 4 }]
slots = 64
failures_max = 5
retry_after = "2s"
retry_budget = "50%"
retry_budget_min = 3
slots_per_server = true
on_cancel = "abort"
idle_connections_max = 8
health = { path = "/healthz", interval = "5s", timeout = "500ms", fall = 2, rise = 1 }
[[class]]
name = "checkout"
deadline = "1.5s"
minimum = "12.5%"
queue = 7
[[class]]
name = "browse"
flow = "client/24"
[[rule]]
path = ["/cart/*", "/pay?"]
host = "*.example.com"
method = ["GET", "POST"]
client = "192.0.2.0/24"
header.x-kind = ["a*", "b"]
header.accept = true
cookie.session = "*7"
class = "checkout"
deadline = "90ms"
[[rule]]
extension = ["cgi", "php"]
path_regex = '^/v[0-9]+/'
query.q = ["*a*", "b"]
content_type = "application/*"
content_length = ["1MiB..", "..64KiB"]
prefetch = true
urgency = [0, "5..7"]
listener = "0.0.0.0:80"
destination = "192.0.2.1"
sni = "*.example.com"
domain = "unl.edu"
country = "DE"
asn = [64500, "AS64510..AS64520"]
certificate = "CN=*"
subject = true
dscp = "8..15"
importance = 200
score = 9.5
flow = "cookie:session"
[[rule]]
refuse = true
[score]
client_factor = 0.7
path_factor = 0.3
client."unl.edu" = 8.5
client."10.0.0.0/8" = 2
path."/images/" = 4
band = [{ from = 8, class = "checkout" }]
[refusal]
connection = "close"
retry_after = "3s"
retry_after_max = "1m"
block = { after = 5, within = "20s", for = "7s", flows_max = 1000 }
reason_header = "X-Reason"
page_html = "busy.html"
[shedding]
delay = "250ms"
close = "reset"
[limits]
request_head_max = "16KiB"
target_len_max = 4096
request_body_max = "1GiB"
[timeouts]
idle = "10s"
[access_log]
path = "log/access.json"
format = "combined"
[forwarding]
path = "decoded"
via = false
"#;

#[test]
fn gateways_share_the_limit_of_the_pools_that_say_so() {
    use tiergate_core::control::{Bounds, Slots};

    let text = |shared: &str| {
        format!(
            "[[listener]]\naddress = \"0.0.0.0:80\"\n[origin]\nservers = [\"a:1\"]\n{shared}\n\
             [[pool]]\nname = \"inherits\"\nservers = [\"b:1\"]\n\
             [[pool]]\nname = \"does\"\nservers = [\"c:1\"]\nshared = true\n\
             [[pool]]\nname = \"does-not\"\nservers = [\"d:1\"]\nshared = false\n\
             [[pool]]\nname = \"fixed\"\nservers = [\"e:1\"]\nslots = 5\n"
        )
    };
    let slots = |key: &str| {
        let policy = parse(&text(key), "policy.toml").unwrap();
        let pools = policy.plan.pools.iter().map(|pool| pool.slots.clone());
        std::iter::once(policy.plan.slots.clone()).chain(pools).collect::<Vec<_>>()
    };
    let (adaptive, shared) = (Slots::Adaptive(Bounds::default()), Slots::Shared(Bounds::default()));
    let [of, fixed] = [&shared, &Slots::Fixed(5)];
    assert_eq!(slots("shared = true"), [of, of, of, &adaptive, fixed].map(Clone::clone));
    // What other gateways' requests need, too.
    let resource = "shared = true\n[[resource]]\nname = \"db\"\nslots = \"adaptive\"";
    let policy = parse(&text(resource), "policy.toml").unwrap();
    assert_eq!(policy.plan.resources[0].slots, shared);
    for without in ["", "shared = false"] {
        assert_eq!(slots(without), [&adaptive, &adaptive, of, &adaptive, fixed].map(Clone::clone));
    }
}

#[test]
fn servers_with_slots_of_their_own_give_each_server_a_limit() {
    use tiergate_core::control::{Bounds, Slots};

    let own = "servers = [\"a:1\", { address = \"b:1\", slots = 4 }, { address = \"c:1\" }]";
    let all = "servers = [{ address = \"b:1\", slots = 4 }, { address = \"c:1\", slots = 7 }]";
    let text =
        |origin: &str, pool: &str| format!("[origin]\n{origin}\n[[pool]]\nname = \"p\"\n{pool}\n");
    let (plain, each) = ("servers = [\"a:1\"]", "servers = [\"a:1\"]\nslots_per_server = true");
    let adaptive = Slots::Adaptive(Bounds::default());
    let shared = Slots::Shared(Bounds::default());
    for (origin, pool, expected) in [
        (plain, own, [(&adaptive, false), (&adaptive, true)]),
        // What a server says is of that server: a pool does not inherit it.
        (own, plain, [(&adaptive, true), (&adaptive, false)]),
        (
            all,
            "servers = [\"a:1\"]\nslots = 9",
            [(&Slots::Fixed(11), true), (&Slots::Fixed(9), false)],
        ),
        (each, &format!("{own}\nslots = 9"), [(&adaptive, true), (&Slots::Fixed(9), true)]),
        (
            &format!("{plain}\nslots_per_server = false"),
            own,
            [(&adaptive, false), (&adaptive, true)],
        ),
        (&format!("{own}\nshared = true"), all, [(&shared, true), (&Slots::Fixed(11), true)]),
    ] {
        let policy = parse(&text(origin, pool), "policy.toml").unwrap();
        let plan = &policy.plan;
        let found = [
            (&plan.slots, plan.slots_per_server),
            (&plan.pools[0].slots, plan.pools[0].slots_per_server),
        ];
        assert_eq!(found, expected, "{origin}\n{pool}");
        for it in std::iter::once(&policy.origin).chain(&policy.pools) {
            let slots = it.servers.iter().map(|server| (server.to_string(), it.slots_of(server)));
            for (server, slots) in slots {
                let expected = match server.as_str() {
                    "b:1" => Some(4),
                    "c:1" if it.servers.len() == 2 => Some(7),
                    _ => None,
                };
                assert_eq!(slots, expected, "{server}");
            }
        }
    }
}

#[test]
fn every_key_reaches_what_it_means() {
    use std::time::Duration;
    use tiergate::config::meant::*;
    use tiergate_core::class::{Class, ClassId};
    use tiergate_core::classify::path::Handling;
    use tiergate_core::control::Slots;

    let policy = parse(FULL, "/etc/tiergate/policy.toml").unwrap();
    assert_eq!(policy.admin, None);
    assert_eq!(policy.classifier.default_class(), ClassId(1));
    assert_eq!(policy.threads, 2);
    assert_eq!(policy.trusted[1], "::1/128".parse().unwrap());
    let tls =
        Tls { certificates: vec![("/etc/tiergate/a.pem".into(), "/k/a.key".into())], client: None };
    let listener = Listener {
        name: None,
        address: "0.0.0.0:80".parse().unwrap(),
        tls: Some(tls),
        proxy_protocol: true,
        http2: false,
        http3: false,
        only_v6: false,
        share_port: true,
    };
    assert_eq!(policy.listeners, [listener]);
    let origin = Origin {
        slots_per_server: true,
        tls: None,
        protocol: OriginProtocol::Http1,
        http2_connections_max: 4,
        ping_interval: Duration::from_secs(360),
        server_slots: vec![(Server::Unix("/run/app.sock".into()), 4)],
        servers: vec![
            Server::Tcp("10.0.0.5".to_owned(), 8080),
            Server::Unix("/run/app.sock".into()),
        ],
        health: Some(HealthCheck {
            path: "/healthz".to_owned(),
            interval: Duration::from_secs(5),
            timeout: Duration::from_millis(500),
            fall: 2,
            rise: 1,
        }),
        failures_max: 5,
        retry_after: Duration::from_secs(2),
        restart_max: Duration::from_secs(2),
        retries: tiergate_core::origin::retries::Allowance { share: 0.5, floor: 3 },
        on_cancel: tiergate_core::origin::OnCancel::Abort,
        idle_connections_max: 8,
    };
    assert_eq!(policy.origin, origin);
    assert_eq!(policy.plan.slots, Slots::Fixed(64));
    let checkout = Class {
        name: "checkout".to_owned(),
        deadline: Duration::from_millis(1500),
        minimum: 0.125,
        queue_len_max: 7,
        ..Class::named("")
    };
    assert_eq!(policy.plan.classes, [checkout, Class::named("browse")]);
    assert_eq!(
        (policy.plan.rules.len(), policy.rules.len(), policy.classifier.rules_len()),
        (3, 3, 3)
    );
    let rule = &policy.rules[0];
    assert_eq!(FULL.lines().nth(rule.line - 1), Some("[[rule]]"));
    assert_eq!(rule.rule.conditions.len(), 7);
    assert_eq!(rule.rule.class, Some(ClassId(0)));
    assert_eq!(rule.rule.deadline, Some(Duration::from_millis(90)));
    let rule = &policy.rules[1].rule;
    assert_eq!(rule.conditions.len(), 16);
    assert_eq!(rule.importance, Some(200));
    assert_eq!(rule.score.map(|score| score.to_string()).as_deref(), Some("9.5"));
    assert_eq!(rule.flow.as_ref().map(ToString::to_string).as_deref(), Some("cookie:session"));
    assert!(policy.rules[2].rule.refuse);
    let score = policy.score.as_ref().unwrap();
    let factors = [score.client_factor, score.path_factor].map(|factor| factor.to_string());
    assert_eq!(factors, ["0.7", "0.3"]);
    assert_eq!((score.clients.len(), score.paths.len(), score.bands.len()), (2, 1, 1));
    let refusal = Refusal {
        connection: RefusalConnection::Close,
        retry_after: Duration::from_secs(3),
        retry_after_max: Duration::from_secs(60),
        reason_header: Some("X-Reason".to_owned()),
        page_html: None,
    };
    assert_eq!(policy.refusal, refusal);
    assert_eq!(policy.plan.shedding, Some(Duration::from_millis(250)));
    assert_eq!(policy.shed, RefusalConnection::Reset);
    let block = tiergate_core::admit::block::Settings {
        after: 5,
        within: Duration::from_secs(20),
        lasting: Duration::from_secs(7),
        flows_max: 1000,
    };
    assert_eq!(policy.plan.block, Some(block));
    assert_eq!(policy.refusal_page, Some("/etc/tiergate/busy.html".into()));
    assert_eq!(policy.limits.request_head_max, 16 << 10);
    assert_eq!(policy.limits.target_len_max, 4096);
    assert_eq!(policy.limits.request_body_max, 1 << 30);
    assert_eq!(policy.limits.fields_max, 100);
    assert_eq!(policy.timeouts.idle, Duration::from_secs(10));
    assert_eq!(policy.timeouts.drain, Duration::from_secs(30));
    let log = AccessLog {
        path: Some("/etc/tiergate/log/access.json".into()),
        format: LogFormat::Combined,
        line: None,
        refused_one_in: 1,
        bad_per_second: 20,
    };
    assert_eq!(policy.access_log, Some(log));
    assert_eq!(policy.forwarding, Forwarding { x_forwarded: true, forwarded: false, via: false });
    assert_eq!(policy.paths, Handling::Decoded);
    let known = "path = \"normalized\"";
    let faults =
        parse(&format!("[origin]\nservers = [\"a:1\"]\n[forwarding]\n{known}\n"), "p.toml");
    assert_eq!(
        faults.unwrap_err().to_string(),
        "p.toml:4:8: forwarding.path: unknown word \"normalized\", did you mean `normalised`?"
    );
}

#[test]
fn an_origin_alone_is_the_policy_without_a_file() {
    use tiergate::config::meant::Policy;
    let file = parse(GOOD, "").unwrap();
    let without = Policy::for_origin("http://127.0.0.1:8081", None, None).unwrap();
    assert_eq!(format!("{file:?}"), format!("{without:?}"));
    assert_eq!(
        Policy::for_origin("127.0.0.1", None, None).unwrap_err(),
        "must be a server such as \"127.0.0.1:8080\", \"http://app.internal:8080\" or \
         \"unix:/run/app.sock\", got \"127.0.0.1\""
    );
}

#[test]
fn files_are_read_and_their_faults_named() {
    use tiergate::config::{ConfigError, load};
    let directory = std::env::temp_dir().join(format!("tiergate-policy-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let policy = directory.join("policy.toml");
    std::fs::write(&policy, format!("{GOOD}[refusal]\npage_html = \"busy.html\"")).unwrap();
    let fault = load(&policy).expect_err("it is not there").to_string();
    assert!(
        fault.contains("policy.toml:4:13: refusal.page_html: ")
            && fault.contains("busy.html: cannot be read"),
        "{fault}"
    );
    std::fs::write(directory.join("busy.html"), "<h1>Busy</h1>").unwrap();
    assert_eq!(load(&policy).unwrap().refusal.page_html.as_deref(), Some("<h1>Busy</h1>"));
    std::fs::write(directory.join("busy.html"), "x".repeat((256 << 10) + 1)).unwrap();
    let fault = load(&policy).expect_err("it is too long").to_string();
    assert!(fault.contains("must have at most 262144 bytes"), "{fault}");
    std::fs::write(&policy, "[origin").unwrap();
    assert!(matches!(load(&policy), Err(ConfigError::Faults(_))));
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Beyond the bounds on names there is one line for each kind, at the first name that finds no room.
#[test]
fn names_beyond_their_bounds_are_told_once_and_with_what_to_do() {
    use tiergate::config::parse_with;
    use tiergate_core::names::Names;
    use tiergate_core::plan::{Plan, Spec};
    let mut names = Names::default();
    for number in 0..4090 {
        names.classes.intern(&number.to_string()).expect("there is room");
        names.sites.intern(&number.to_string()).expect("there is room");
    }
    (0..65_535).for_each(|number| drop(names.policers.intern(&number.to_string())));
    let tables = |kind: &str, more: &str| -> String {
        (0..40).map(|it| format!("[[{kind}]]\nname = \"new-{it}\"\n{more}\n")).collect()
    };
    let (classes, sites) = (tables("class", "site = \"new-0\""), tables("site", ""));
    let policers = tables("policer", "rate = \"1/s\"");
    let text = format!("{GOOD}{sites}{classes}{policers}");
    let told = parse_with(&text, "policy.toml", &mut names).unwrap_err().to_string();
    let what = |name: &str, kind: &str| {
        format!(
            "no room for {name:?}: a process has ids for {kind}, counting all that were named since the \
             start; use former names, or restart to forget them"
        )
    };
    assert_eq!(
        told,
        format!(
            "policy.toml:22:8: site[7].name: {}\npolicy.toml:142:8: class[7].name: {}\n\
             policy.toml:244:8: policer[1].name: {}",
            what("new-6", "4096 sites"),
            what("new-6", "4096 classes"),
            what("new-0", "65535 policers")
        )
    );
    let mut names = Names::default();
    let rules = (0..1 << 20).map(|number| number.to_string().into()).collect();
    Plan::build(Spec { rules, ..Spec::protective() }, &mut names).expect("there is room");
    let text = format!("{GOOD}[[rule]]\npath = \"/x\"\nrefuse = true\n");
    let told = parse_with(&text, "policy.toml", &mut names).unwrap_err().to_string();
    assert_eq!(
        told,
        "policy.toml:3:1: rule: no room for a rule without a name: a process has ids for 1048576 rules, \
         counting those of this policy and all that were named since the start; use former names, or \
         restart to forget them"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_text_makes_the_parser_panic(
        start in 0usize..FULL.len(),
        len in 0usize..30,
        text in "[\\[\\]={}\"'.#\n a-z0-9_*/%\\\\é-]{0,20}",
    ) {
        let mut policy = FULL.to_owned();
        policy.replace_range(start..(start + len).min(FULL.len()), &text);
        if let Err(errors) = parse(&policy, "policy.toml") {
            prop_assert!(!errors.faults.is_empty());
            for fault in &errors.faults {
                prop_assert!(fault.line >= 1 && fault.line <= policy.lines().count().max(1) + 1);
            }
        }
    }

    #[test]
    fn no_noise_makes_the_parser_panic(text in "\\PC{0,200}") {
        let _ = parse(&text, "policy.toml");
    }
}

#[test]
fn what_is_observed_as_a_whole_is_in_force_nowhere() {
    let with_top = |top: &str, tables: &str| faults(&format!("{top}\n{GOOD}{tables}"));
    assert_eq!(
        with_top(
            "default_class = \"b\"",
            "[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\nmode = \"observe\""
        ),
        "policy.toml:1:17: default_class: must be a class that is in force, and \"b\" is only observed: name another, or leave it out for the last class that is in force"
    );
    let observe = "mode = \"observe\"";
    for (table, place) in [
        ("[[class]]\nname = \"a\"", "6:8: class[1]"),
        ("[[site]]\nname = \"a\"", "6:8: site[1]"),
        ("[[rule]]\nrefuse = true", "6:8: rule[1]"),
        ("[[policer]]\nname = \"a\"", "6:8: policer[1]"),
    ] {
        let rate = if table.contains("policer") { "\nrate = \"1/s\"" } else { "" };
        let text = format!("{table}\nmode = \"enforce\"{rate}");
        assert_eq!(
            with_top(observe, &text),
            format!(
                "policy.toml:{place}.mode: contradicts mode = \"observe\" of the policy: remove one of them"
            )
        );
        assert_eq!(with_top("mode = \"enforce\"", &text), "no fault");
    }
}
