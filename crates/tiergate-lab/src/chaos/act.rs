//! Carries out faults.

use super::crowd::Crowd;
use super::fault::{Event, Fault, SERVERS};
use super::hostile::{answers, http2, idle, leave, malformed, slow};
use super::metrics::{self, Metrics};
use super::origin::Say;
use super::policy;
use super::samples;
use super::timeline::Timeline;
use super::windows::Happened;
use super::world::World;
use anyhow::Result;
use fastrand::Rng;
use rustix::process::{Resource, Signal};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// How long a reload may take.
const RELOAD_PATIENCE: Duration = Duration::from_secs(3);
/// How long libfaketime may take to notice.
const CLOCK_NOTICED: Duration = Duration::from_millis(1300);

/// What faults need, and what they leave behind.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) timeline: Arc<Timeline>,
    pub(super) crowd: Arc<Crowd>,
    pub(super) happened: Mutex<Vec<Happened>>,
    pub(super) reloads: Mutex<Reloads>,
}

/// What became of reloads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reloads {
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    /// Those that ended in another way than they should.
    pub(super) wrong: Vec<String>,
}

impl Stage {
    /// Carries out a fault from its beginning to its end.
    pub(super) async fn carry_out(&self, event: Event) -> Result<()> {
        let fault = event.fault;
        self.timeline.note(&format!("begins: {fault}, for {:.1} s", event.lasting.as_secs_f64()));
        let place = {
            let mut happened = self.happened.lock().expect("no code panics with it");
            let from = self.timeline.now();
            happened.push(Happened { fault, from, to: f64::INFINITY });
            happened.len() - 1
        };
        let until = Instant::now() + event.lasting;
        let random = Rng::with_seed(event.seed);
        if !self.clients(fault, random.clone(), until).await {
            self.other(fault, random, until).await?;
        }
        self.happened.lock().expect("no code panics with it")[place].to = self.timeline.now();
        self.timeline.note(&format!("ends:   {fault}"));
        Ok(())
    }

    /// Faults now.
    pub(super) fn now(&self) -> Vec<Fault> {
        let happened = self.happened.lock().expect("no code panics with it");
        happened.iter().filter(|it| it.to.is_infinite()).map(|it| it.fault).collect()
    }

    /// Faults that clients make; `false`: it is another.
    async fn clients(&self, fault: Fault, mut random: Rng, until: Instant) -> bool {
        let to = self.world.places.listen;
        let ways = &self.world.ways;
        let mut tasks = JoinSet::new();
        let mut each = |clients: usize, start: &mut dyn FnMut(&mut JoinSet<()>, Rng)| {
            (0..clients).for_each(|_| start(&mut tasks, random.fork()));
        };
        match fault {
            Fault::Burst { clients } => each(clients, &mut |tasks, random| {
                tasks.spawn(Arc::clone(&self.crowd).ask(ways[0].clone(), random, true));
            }),
            Fault::FaultyAnswers { clients } => each(clients, &mut |tasks, mut random| {
                let way = ways[random.usize(..ways.len())].clone();
                tasks.spawn(answers::ask(way, random, Arc::clone(&self.crowd)));
            }),
            Fault::SlowHeads { clients } => each(clients, &mut |tasks, random| {
                tasks.spawn(slow::heads(to, random));
            }),
            Fault::SlowBodies { clients } => each(clients, &mut |tasks, random| {
                tasks.spawn(slow::bodies(to, random));
            }),
            Fault::SlowReaders { clients } => each(clients, &mut |tasks, random| {
                tasks.spawn(slow::readers(to, random));
            }),
            Fault::Leavers { clients } => each(clients, &mut |tasks, random| {
                tasks.spawn(leave::leave(to, random));
            }),
            Fault::Malformed { clients } => each(clients, &mut |tasks, mut random| {
                let to = ways[random.usize(..ways.len())].address;
                tasks.spawn(malformed::send(to, random));
            }),
            Fault::TinyWindows { clients } => each(clients, &mut |tasks, random| {
                tasks.spawn(http2::tiny_windows(to, random));
            }),
            Fault::ResetFlood { clients } => each(clients, &mut |tasks, random| {
                tasks.spawn(http2::reset_flood(to, random));
            }),
            Fault::IdleConnections { connections } => each(4, &mut |tasks, random| {
                tasks.spawn(idle::hold(to, connections / 4, random));
            }),
            _ => return false,
        }
        sleep_until(until).await;
        tasks.shutdown().await;
        true
    }

    async fn other(&self, fault: Fault, mut random: Rng, until: Instant) -> Result<()> {
        let world = &self.world;
        match fault {
            Fault::ServerKilled { server } => {
                world.kill_server(server);
                sleep_until(until).await;
                world.start_server(server).await?;
            }
            Fault::ServerStopped { server } => {
                world.signal_server(server, Signal::STOP);
                sleep_until(until).await;
                world.signal_server(server, Signal::CONT);
            }
            Fault::ServerWrong { server, say } => {
                world.tell_server(server, say).await?;
                sleep_until(until).await;
                world.tell_server(server, Say::Ok).await?;
            }
            Fault::AllServersOut { killed: true } => {
                (0..SERVERS).for_each(|server| world.kill_server(server));
                sleep_until(until).await;
                for server in 0..SERVERS {
                    world.start_server(server).await?;
                }
            }
            Fault::AllServersOut { killed: false } => {
                (0..SERVERS).for_each(|server| world.signal_server(server, Signal::STOP));
                sleep_until(until).await;
                (0..SERVERS).for_each(|server| world.signal_server(server, Signal::CONT));
            }
            Fault::Reloads { count } => self.reloads(count, &mut random, until).await?,
            Fault::LogReopened { count } => {
                spread(count, until, || world.rotate_log()).await;
            }
            Fault::Signals { count } => {
                spread(count, until, || world.signal(Signal::WINCH)).await;
            }
            Fault::FullDisk => {
                world.fill_disk(true)?;
                sleep_until(until).await;
                world.fill_disk(false)?;
            }
            Fault::ClockStep { seconds } => self.clock(seconds, until).await?,
            Fault::GatewayPaused { millis } => {
                world.signal(Signal::STOP);
                sleep(Duration::from_millis(millis)).await;
                world.signal(Signal::CONT);
            }
            Fault::FewDescriptors { spare } => {
                let _no_reload = world.descriptors.lock().await;
                let used = samples::of(world.pid).map_or(0, |(_, descriptors)| descriptors);
                let former = world.limit(Resource::Nofile, Some(used + spare))?;
                sleep_until(until).await;
                world.limit(Resource::Nofile, former)?;
            }
            _ => unreachable!("clients make the others"),
        }
        Ok(())
    }

    async fn clock(&self, seconds: i64, until: Instant) -> Result<()> {
        if !self.world.set_clock(seconds)? {
            self.timeline.note("clock step left out: libfaketime is not installed");
            return Ok(());
        }
        sleep_until(until.max(Instant::now() + CLOCK_NOTICED)).await;
        if let Ok(metrics) = Metrics::fetch(self.world.places.admin).await {
            let uptime = metrics.sum("uptime_seconds");
            self.timeline.note(&format!("the gateway says that it has run for {uptime:.0} s"));
        }
        self.world.set_clock(0)?;
        Ok(())
    }

    async fn reloads(&self, count: usize, random: &mut Rng, until: Instant) -> Result<()> {
        let places = &self.world.places;
        let between = until.saturating_duration_since(Instant::now()) / (count as u32 + 1);
        for _ in 0..count {
            if random.u8(..3) == 0 {
                let (text, why) = policy::bad(places, random);
                self.reload(&text, Some(why), random.bool()).await?;
                self.world.write_policy(&policy::usual(places))?;
            } else {
                let text = policy::good(places, random);
                self.reload(&text, None, random.bool()).await?;
            }
            sleep(between).await;
        }
        self.reload(&policy::usual(places), None, false).await
    }

    /// Reloads a policy, by signal or by request; `mistake`: what is wrong with it.
    async fn reload(&self, text: &str, mistake: Option<&str>, by_signal: bool) -> Result<()> {
        let _descriptors = self.world.descriptors.lock().await;
        let admin = self.world.places.admin;
        self.world.write_policy(text)?;
        let result = if mistake.is_some() { "failed" } else { "ok" };
        let how = if by_signal { "SIGHUP" } else { "POST /reload" };
        let what = format!("{how}, {}", mistake.unwrap_or("a good policy"));
        self.timeline.note(&format!("reload: {what}"));
        let as_expected = if by_signal {
            let label = format!("result=\"{result}\"");
            let count = async || {
                let metrics = Metrics::fetch(admin).await.ok()?;
                Some(metrics.sum_where("reloads_total", &label))
            };
            let before = count().await;
            self.world.signal(Signal::HUP);
            let begun = Instant::now();
            loop {
                sleep(Duration::from_millis(50)).await;
                let now = count().await;
                if before.zip(now).is_some_and(|(before, now)| now > before) {
                    break true;
                }
                if begun.elapsed() > RELOAD_PATIENCE {
                    break false;
                }
            }
        } else {
            let status = metrics::reload(admin).await.unwrap_or(0);
            status == if mistake.is_some() { 422 } else { 200 }
        };
        let mut reloads = self.reloads.lock().expect("no code panics with it");
        match (as_expected, mistake) {
            (true, None) => reloads.accepted += 1,
            (true, Some(_)) => reloads.rejected += 1,
            (false, _) => {
                self.timeline.note(&format!("WRONG: reload ({what}) did not end as it should"));
                reloads.wrong.push(what);
            }
        }
        Ok(())
    }
}

/// Does something so many times until a moment.
async fn spread(count: usize, until: Instant, mut act: impl FnMut()) {
    let between = until.saturating_duration_since(Instant::now()) / count.max(1) as u32;
    for _ in 0..count {
        act();
        sleep(between).await;
    }
}
