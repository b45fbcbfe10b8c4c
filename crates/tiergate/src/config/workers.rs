//! `workers` of the origin and of a pool: the processes that serve it, and what they have of the processors.

use super::error::Spot;
use super::kind::{Choice, Scalar, list};
use super::place::{At, Place, wrong};
use super::section::{Definitions, Kind, section, table};
use super::server::Server;
use super::show;
use super::values::{FLAG, TEXT, TIME, time_up_to, whole};
use super::workers_values::{IO, NICE, QUOTA, REALTIME};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::Duration;
use tiergate_core::workers::{Io, Mechanism, Reservation, Scheduling, Shares};
use toml::de::DeValue;

/// Most processes of a pool: as many as it may have servers.
const COUNT_MAX: u64 = 64;
/// Most words of a command.
const WORDS_MAX: usize = 256;
/// Longest time between SIGTERM and SIGKILL, in seconds.
const STOP_MAX_SECONDS: u64 = 3600;

section! {
    /// The processes that serve a pool, and their share of processors and disk. Either the gateway starts them (`command`), or they are those of a control
    /// group or of a systemd unit.
    pub(super) struct WorkersKeys {
        /// Program and arguments that start a worker, without a shell. `{n}` stands for the worker's number, from 1, `{port}` for the port of
        /// its server, `{address}` for the server's address. The gateway starts workers with its own rights, restarts those that end, and ends them
        /// when it ends itself.
        command: Vec<String> = list(TEXT, WORDS_MAX, "words")
            .or_else("must name a program")
            .plain()
            .or_none("the gateway starts none");
        /// Number of workers that are started. With several servers: one for each, in their order, or one for all.
        count: Option<u32> = whole(1..=COUNT_MAX).optional("one for each server");
        /// When a started worker is ready. `"connect"`: when its server accepts a connection. `"alive"`: at once.
        /// Why: a worker that accepts connections can serve them; which of several at one server does, a connection does not tell.
        ready: Option<Ready> = Choice(&READY).optional("`\"connect\"`; `\"alive\"` if several workers have one server");
        /// How long a worker may take to end after SIGTERM; then it is killed, with its children. When a reload removes a worker, the gateway first
        /// waits for as long at most until the requests at its server have ended.
        /// Why: nearly every request has ended by then.
        stop_max: Option<Duration> = time_up_to(STOP_MAX_SECONDS).optional("`\"10s\"`");
        /// Control group whose processes serve the pool, instead of `command`: its path below `/sys/fs/cgroup`, without the name of a controller.
        cgroup: Option<String> = TEXT.optional("none");
        /// Systemd unit whose processes serve the pool, instead of `command`, such as `"apache2.service"`.
        unit: Option<String> = TEXT.optional("none");
        /// Nice value. Lower values get a larger part of a busy processor: 10 gets about a tenth of what 0 gets.
        nice: Option<i8> = NICE.optional("unchanged");
        /// Scheduling class. `"idle"`: only when no other process wants the processor (SCHED_IDLE). `"fifo:10"`: before all ordinary processes, with a
        /// real-time priority of 1 to 99 (SCHED_FIFO). `{ slice, period, extra }`: a guaranteed part of a processor for the first thread of each worker
        /// (SCHED_DEADLINE).
        scheduling: Option<At<Scheduling>> = SchedulingKind.placed().optional("unchanged");
        /// I/O priority: `"idle"`, `"best-effort:0"` to `"best-effort:7"`, or `"realtime:0"` to `"realtime:7"`; lower numbers have precedence.
        io: Option<Io> = IO.optional("unchanged: it follows the nice value");
        /// Processor weight of the workers' control group, relative to other groups, whose default is 100.
        cpu_weight: Option<u32> = whole(1..=10_000).optional("unchanged");
        /// Upper bound on the processor time of the workers' control group; `"100%"` is one processor.
        cpu_quota: Option<f64> = QUOTA.optional("unchanged");
    }
}

section! {
    /// A guaranteed part of a processor, for each worker.
    pub(super) struct CpuReservationKeys {
        /// Processor time that a worker is guaranteed in each period.
        slice: Option<Duration> = TIME.required("write slice = \"20ms\"");
        /// Length of a period.
        /// Why: a worker waits for the processor for at most a period; shorter periods cost more switches.
        period: Duration = PERIOD.or("100ms");
        /// Whether a worker may also use processor time that is not reserved, or that others reserved and do not use. Otherwise `slice` is its upper bound, too.
        extra: bool = FLAG.or(true);
    }
}

const PERIOD: Scalar<Duration, (Duration, Duration)> =
    Scalar { bounds: (Reservation::PERIODS[0], Reservation::PERIODS[1]), ..TIME };

const READY: [(&str, Ready); 2] = [("connect", Ready::Connect), ("alive", Ready::Alive)];

/// When a worker that was started is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Its server accepts a connection.
    Connect,
    /// It lives.
    Alive,
}

/// The workers of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// The pool's name; empty: it is the default pool.
    pub pool: String,
    /// Which processes they are.
    pub processes: Processes,
    /// What they have of processors and disk.
    pub shares: Shares,
    /// Line and column of the table's `scheduling`, or of the table, and its key: for what only the machine can refuse.
    pub place: Spot,
}

/// Which processes serve a pool.
#[derive(Clone, Debug, PartialEq)]
pub enum Processes {
    /// Those that the gateway starts.
    Started(Command),
    /// Those of a control group, by its path without the leading `/`.
    Group(PathBuf),
    /// Those of a systemd unit.
    Unit(String),
}

/// How workers are started.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Program and arguments, with places for numbers.
    words: Vec<String>,
    /// How many are started.
    pub count: u32,
    /// The servers of the pool.
    servers: Vec<Server>,
    /// When one is ready.
    pub ready: Ready,
    /// How long one that is to end may take.
    pub stop_max: Duration,
}

impl Command {
    /// The server of each worker.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().cycle().take(self.count as usize)
    }

    /// Whether each of several servers has a worker of its own.
    pub fn is_one_each(&self) -> bool {
        self.count > 1 && self.servers.len() == self.count as usize
    }

    /// Whether one worker has several servers.
    pub fn is_one_for_all(&self) -> bool {
        self.count == 1 && self.servers.len() > 1
    }

    /// Whether several workers have one server.
    pub fn is_shared(&self) -> bool {
        self.count > 1 && self.servers.len() == 1
    }

    /// All servers.
    pub fn servers_all(&self) -> &[Server] {
        &self.servers
    }

    /// Program and arguments of a worker of a server; `number` counts from 1.
    pub fn words(&self, number: u32, server: &Server) -> Vec<String> {
        let (address, number) = (server.to_string(), number.to_string());
        let port = match server {
            Server::Tcp(_, port) => port.to_string(),
            Server::Unix(_) => String::new(),
        };
        let word = |word: &String| {
            word.replace("{n}", &number).replace("{port}", &port).replace("{address}", &address)
        };
        self.words.iter().map(word).collect()
    }
}

impl Workers {
    /// What those that are started reserve of the processors, each.
    pub fn reservation(&self) -> Option<(u32, Reservation)> {
        match (&self.processes, self.shares.scheduling) {
            (Processes::Started(command), Some(Scheduling::Deadline(it))) => {
                Some((command.count, it))
            }
            _ => None,
        }
    }

    /// The pool's name, in words.
    pub fn pool_name(&self) -> &str {
        if self.pool.is_empty() { "default" } else { &self.pool }
    }

    /// For `tiergate check`.
    pub(crate) fn words(&self) -> String {
        let pool = self.pool_name();
        let which = match &self.processes {
            Processes::Started(command) => {
                let Command { words, count, stop_max, .. } = command;
                let (words, stop) = (words.join(" "), show::time(*stop_max));
                format!("{pool}: {count} started by `{words}`, killed {stop} after SIGTERM")
            }
            Processes::Group(path) => {
                format!("{pool}: the processes of control group /{}", path.display())
            }
            Processes::Unit(unit) => format!("{pool}: the processes of systemd unit {unit}"),
        };
        let asked = self.shares.asked().into_iter();
        let asked = asked.map(|(mechanism, asked)| match mechanism {
            Mechanism::Idle | Mechanism::Fifo | Mechanism::Deadline => {
                format!("; scheduling {asked}")
            }
            _ => format!("; {} {asked}", mechanism.name()),
        });
        which + &asked.collect::<String>()
    }
}

/// The workers of a pool with these servers; `None` after a fault.
pub(super) fn workers(
    At { value: raw, place }: At<WorkersKeys>,
    pool: &str,
    servers: &[Server],
) -> Option<Workers> {
    let shares = shares(&raw, &place);
    let named = place.key("scheduling");
    let at = named.spot();
    let processes = processes(raw, servers, &shares, &place)?;
    Some(Workers { pool: pool.to_owned(), processes, shares, place: at })
}

fn processes(
    raw: WorkersKeys,
    servers: &[Server],
    shares: &Shares,
    place: &Place,
) -> Option<Processes> {
    let given = ["command", "cgroup", "unit"].into_iter().filter(|key| place.has(key));
    match given.collect::<Vec<_>>()[..] {
        [] => {
            place.missing("command", "write command = [\"program\", \"argument\"], or cgroup = \"/path\", or unit = \"name.service\"");
            return None;
        }
        [_] => {}
        [first, second, ..] => {
            place.fault_at(second, format!("contradicts {first}: remove one of them"));
        }
    }
    if place.has("command") {
        return command(raw, servers, place).map(Processes::Started);
    }
    for key in ["count", "ready", "stop_max"] {
        if place.has(key) {
            place.fault_at(key, "has no effect without command");
        }
    }
    if let Some(Scheduling::Deadline(_)) = shares.scheduling {
        place.fault_at("scheduling", "must know how many processes there are, so a slice needs command; write \"fifo:10\", or a cpu_weight");
    }
    if let Some(unit) = raw.unit {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b":_.\\@-".contains(&byte);
        let is_name = unit.contains('.') && !unit.starts_with('-') && unit.bytes().all(is_letter);
        if !is_name {
            place.fault_at(
                "unit",
                format!(
                    "must be the name of a systemd unit such as \"apache2.service\", got {unit:?}"
                ),
            );
        }
        return Some(Processes::Unit(unit));
    }
    let path = raw.cgroup?;
    let below = path.trim_start_matches('/');
    let is_inside = !below.split('/').any(|part| matches!(part, "" | "." | ".."));
    if !path.starts_with('/') || !is_inside || path.contains('\0') {
        place.fault_at(
            "cgroup",
            format!(
                "must be the path of a group such as \"/system.slice/app.service\", got {path:?}"
            ),
        );
    }
    Some(Processes::Group(PathBuf::from(below)))
}

fn command(raw: WorkersKeys, servers: &[Server], place: &Place) -> Option<Command> {
    let WorkersKeys { command: words, count, ready, stop_max, .. } = raw;
    let program = words.first()?;
    let key = place.key("command");
    if program.is_empty() || words.iter().any(|word| word.contains('\0')) {
        key.fault("must name a program, and have no zero bytes");
    }
    let has = |what: &str| words.iter().any(|word| word.contains(what));
    if has("{port}") && servers.iter().any(|server| matches!(server, Server::Unix(_))) {
        key.fault("has {port}, and a server of the pool is a UNIX socket; write {address}");
    }
    for word in words.iter().flat_map(|word| unknown(word)) {
        let known = "the words that stand for something are {n}, {port} and {address}";
        key.warn(format!("{}: {{{word}}} is passed on as it is; {known}", key.key));
    }
    let several = servers.len().max(1) as u32;
    let count = count.unwrap_or(several);
    if several > 1 && count > 1 && count != several {
        let message = format!("must be 1, or {several}: one for each server, got {count}");
        place.fault_at("count", message);
    }
    let is_shared = several == 1 && count > 1;
    if is_shared && ready == Some(Ready::Connect) {
        let message = "cannot tell which of several workers of one server accepts: write \"alive\"";
        place.fault_at("ready", message);
    }
    let usual = if is_shared { Ready::Alive } else { Ready::Connect };
    // A pool without servers is a fault, which has been reported.
    (!servers.is_empty()).then(|| Command {
        words,
        count,
        servers: servers.to_vec(),
        ready: ready.unwrap_or(usual),
        stop_max: stop_max.unwrap_or(Duration::from_secs(10)),
    })
}

/// The names in braces that stand for nothing.
fn unknown(word: &str) -> Vec<&str> {
    let names = word.split('{').skip(1).filter_map(|it| Some(it.split_once('}')?.0));
    let is_name = |it: &&str| {
        !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    names.filter(is_name).filter(|it| !matches!(*it, "n" | "port" | "address")).collect()
}

fn shares(raw: &WorkersKeys, place: &Place) -> Shares {
    let shares = Shares {
        nice: raw.nice,
        scheduling: raw.scheduling.as_ref().map(|it| it.value),
        io: raw.io,
        cpu_weight: raw.cpu_weight,
        cpu_quota: raw.cpu_quota,
    };
    let Some(scheduling) = shares.scheduling else { return shares };
    if shares.nice.is_some() {
        place.fault_at("nice", format!("has no effect where scheduling = \"{scheduling}\""));
    }
    if scheduling != Scheduling::Idle {
        for key in ["cpu_weight", "cpu_quota"] {
            if place.has(key) {
                place.fault_at(key, "counts for ordinary processes only, not with that scheduling");
            }
        }
    }
    shares
}

/// `"idle"`, `"fifo:10"`, or a table.
struct SchedulingKind;

impl Kind for SchedulingKind {
    type Value = Scheduling;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Scheduling> {
        match value {
            DeValue::Table(_) => {
                let raw = table::<CpuReservationKeys>().read(value, place)?;
                reservation(&raw, place).map(Scheduling::Deadline)
            }
            DeValue::String(_) => REALTIME.read(value, place),
            _ => wrong(value, place, "\"idle\", \"fifo:10\" or { slice, period, extra }"),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        json!({ "oneOf": [REALTIME.schema(definitions), table::<CpuReservationKeys>().schema(definitions)] })
    }
}

fn reservation(raw: &CpuReservationKeys, place: &Place) -> Option<Reservation> {
    let (slice, period) = (raw.slice?, raw.period);
    let [shown, most, least] = [slice, period, Reservation::SLICE_MIN].map(show::time);
    if slice > period {
        place.fault_at("slice", format!("must be at most period, \"{most}\", got \"{shown}\""));
        return None;
    }
    if slice < Reservation::SLICE_MIN {
        place.fault_at("slice", format!("must be at least \"{least}\", got \"{shown}\""));
        return None;
    }
    Some(Reservation { slice, period, extra: raw.extra })
}
