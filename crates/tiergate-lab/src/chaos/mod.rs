//! `make chaos`: the built gateway under random faults, beside clients that must be served.
//!
//! A seed gives the schedule of faults; when a process stops or a packet arrives is the machine's to say,
//! so two runs of one seed are alike, not equal. Everything is bounded and ends by itself.

mod act;
mod ask;
mod body;
mod crowd;
mod fault;
mod hostile;
mod judge;
mod log;
mod metrics;
mod origin;
mod policy;
mod premium;
mod quiet;
mod samples;
mod schedule;
mod secure;
mod show;
mod timeline;
mod windows;
mod world;

pub(crate) use origin::Settings as OriginSettings;
pub(crate) use origin::run as run_origin;

use act::Stage;
use anyhow::{Context, Result, bail};
use crowd::Crowd;
use judge::{Evidence, Verdict};
use metrics::Metrics;
use premium::Premium;
use samples::Sample;
use schedule::Phase;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tiergate_draw::{Paint, Tone};
use timeline::Timeline;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use world::World;

/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(5);
/// Between two samples.
const SAMPLE: Duration = Duration::from_millis(500);
/// The access log is moved when it is larger.
const LOG_BYTES_MAX: u64 = 8 << 20;
/// Clients of a run at full load, and how long it lasts; its second half counts. After an idle pause
/// the adaptive limit looks above and below for some seconds: that is not capacity lost.
const LOAD_CLIENTS: usize = 60;
const LOAD: Duration = Duration::from_secs(12);
/// How long faults may take to end beyond their time: a server that starts again.
const END_PATIENCE: Duration = Duration::from_secs(15);
/// Lines of the timeline shown around a failure, and the seconds before and after it.
const SHOWN: (usize, f64, f64) = (40, 4.0, 2.0);

/// Command line of `tiergate-lab chaos`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Length of the run
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Seed of the schedule of faults [default: a random one, which is printed]
    #[arg(long)]
    seed: Option<u64>,
    /// The gateway's program [default: `tiergate` beside this one]
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Where the timeline and the programs' logs go
    #[arg(long, default_value = "target/chaos")]
    out: PathBuf,
}

/// Runs it, prints the summary and the verdicts; an error if any verdict is bad.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let gateway = crate::gateway_program(settings.gateway.as_deref())?;
    anyhow::ensure!(
        (0.1..=1440.0).contains(&settings.minutes),
        "--minutes must be between 0.1 and 1440"
    );
    let seed = settings.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let phases = schedule::draw(seed, Duration::from_secs_f64(settings.minutes * 60.0));
    std::fs::create_dir_all(&settings.out).context("cannot make the directory for logs")?;
    let timeline = Arc::new(Timeline::create(&settings.out.join(format!("timeline-{seed}.log")))?);
    let world = World::start(&gateway, &settings.out).await?;
    let [disk, clock, tls] = world.means();
    println!(
        "\n  seed {seed}, {} phases with {} faults; timeline: {}",
        phases.len(),
        phases.iter().map(|phase| phase.events.len()).sum::<usize>(),
        timeline.path().display(),
    );
    println!("  full disk: {disk}\n  clock steps: {clock}\n  TLS: {tls}\n");
    let run = Run::new(world, timeline, seed);
    let evidence = run.through(&phases).await?;
    let paint = Paint::stdout();
    println!("{}", show::summary(&evidence, paint));
    let verdicts = evidence.verdicts();
    print!("{}", show::verdicts(&verdicts, paint));
    run.conclude(&verdicts, &settings, paint)
}

/// A run in progress.
struct Run {
    stage: Arc<Stage>,
    premium: Arc<Premium>,
    samples: Mutex<Vec<Sample>>,
    /// What happens now, for the lines of progress.
    phase: Mutex<String>,
    seed: u64,
}

impl Run {
    fn new(world: World, timeline: Arc<Timeline>, seed: u64) -> Self {
        let crowd = Crowd::new(Arc::clone(&timeline));
        let (happened, reloads) = Default::default();
        let stage = Arc::new(Stage { world, timeline, crowd, happened, reloads });
        let (premium, samples, phase) = Default::default();
        Self { stage, premium, samples, phase, seed }
    }

    /// Everything, from the start to the end of the gateway, or to its death.
    async fn through(&self, phases: &[Phase]) -> Result<Evidence> {
        let mut evidence = Evidence::default();
        let died = tokio::select! {
            result = self.phases(phases, &mut evidence) => result.map(|()| None)?,
            died = self.watch() => Some(died),
        };
        let stage = &self.stage;
        if died.is_none() {
            evidence.end = Some(stage.world.end_gateway().await);
        }
        evidence.died = died;
        evidence.samples = self.samples.lock().expect("no code panics with it").clone();
        evidence.done = self.premium.take();
        evidence.happened = stage.happened.lock().expect("no code panics with it").clone();
        evidence.reloads = stage.reloads.lock().expect("no code panics with it").clone();
        evidence.crowd_answers = stage.crowd.answered.load(Ordering::Relaxed);
        evidence.crowd_mixed = stage.crowd.mixed.load(Ordering::Relaxed);
        evidence.lines = stage.world.log.lines();
        evidence.program_log =
            std::fs::read_to_string(&stage.world.program_log).unwrap_or_default();
        Ok(evidence)
    }

    async fn phases(&self, phases: &[Phase], evidence: &mut Evidence) -> Result<()> {
        let stage = &self.stage;
        self.enter("warm-up");
        evidence.capacity[0] = Some(self.full_load().await);
        evidence.readings.push(self.settle("before").await);
        for (number, phase) in phases.iter().enumerate() {
            let name = format!("phase {}", number + 1);
            self.enter(&name);
            self.faults(phase, number).await?;
            self.enter("pause");
            let mut reading = self.settle(&name).await;
            if judge::compares_memory(number + 1, phases.len()) {
                reading.memory_used = quiet::memory_used(&stage.world).await;
                let used = judge::mib(reading.memory_used.unwrap_or_default());
                stage.timeline.note(&format!("unused memory given back: {used}"));
            }
            evidence.readings.push(reading);
        }
        self.enter("full load");
        evidence.capacity[1] = Some(self.full_load().await);
        evidence.readings.push(self.settle("end").await);
        Ok(())
    }

    async fn faults(&self, phase: &Phase, number: usize) -> Result<()> {
        let stage = &self.stage;
        for event in &phase.events {
            let (at, lasting) = (event.at.as_secs_f64(), event.lasting.as_secs_f64());
            stage.timeline.note(&show::planned(at, event.fault, lasting));
        }
        let seed = self.seed.wrapping_add(number as u64);
        let running = self.premium.start(&stage.world.ways, &stage.timeline, seed);
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for event in phase.events.iter().copied() {
            let stage = Arc::clone(stage);
            tasks.spawn(async move {
                sleep_until(begun + event.at).await;
                stage.carry_out(event).await.with_context(|| event.fault.to_string())
            });
        }
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        };
        let patience = phase.active + END_PATIENCE;
        tokio::time::timeout(patience, all).await.context("a fault does not end")??;
        sleep_until(begun + phase.active).await;
        running.finish().await;
        Ok(())
    }

    /// Answers a second with as many clients as keep the origin busy.
    async fn full_load(&self) -> f64 {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut tasks = JoinSet::new();
        let crowd = &self.stage.crowd;
        for _ in 0..LOAD_CLIENTS {
            let way = self.stage.world.ways[0].clone();
            tasks.spawn(Arc::clone(crowd).ask(way, random.fork(), false));
        }
        sleep(LOAD / 2).await;
        let answered = || crowd.answered.load(Ordering::Relaxed);
        let (before, begun) = (answered(), Instant::now());
        sleep(LOAD / 2).await;
        let rate = (answered() - before) as f64 / begun.elapsed().as_secs_f64();
        tasks.shutdown().await;
        self.stage.timeline.note(&format!("full load: {rate:.0} answers/s"));
        rate
    }

    async fn settle(&self, name: &str) -> quiet::Reading {
        let timeline = &self.stage.timeline;
        let reading = quiet::settle(&self.stage.world, name, || timeline.now()).await;
        timeline.note(&format!(
            "at rest ({name}): {}, {} descriptors, {} requests; still moving: {:?}",
            judge::mib(reading.memory),
            reading.descriptors,
            reading.metrics.sum("http_requests_total"),
            reading.stuck
        ));
        reading
    }

    /// Samples, follows the log and shows progress, until the gateway ends: why it did.
    async fn watch(&self) -> String {
        let stage = &self.stage;
        let mut shown = Instant::now();
        loop {
            sleep(SAMPLE).await;
            if let Some(why) = stage.world.gateway_ended() {
                stage.timeline.note(&format!("THE GATEWAY ENDED: {why}"));
                return why;
            }
            stage.world.log.read();
            if stage.world.log.len() > LOG_BYTES_MAX && !stage.world.disk_is_full() {
                stage.world.rotate_log();
            }
            let Some((memory, descriptors)) = samples::of(stage.world.pid) else { continue };
            let metrics = Metrics::fetch(stage.world.places.admin).await.unwrap_or_default();
            let of = |name| metrics.sum(name) as u64;
            let sample = Sample {
                at: stage.timeline.now(),
                memory,
                descriptors,
                connections: of("connections_active"),
                slots: of("slots"),
                waiting: of("requests_waiting"),
                buffered: of("buffered_bytes"),
            };
            stage.timeline.note(&format!(
                "sample: {}, {descriptors} descriptors, {} connections, {} slots, {} waiting",
                judge::mib(memory),
                sample.connections,
                sample.slots,
                sample.waiting
            ));
            self.samples.lock().expect("no code panics with it").push(sample);
            if shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                let phase = self.phase.lock().expect("no code panics with it").clone();
                println!("{}", show::progress(stage, &self.premium, &phase, &sample));
            }
        }
    }

    fn enter(&self, phase: &str) {
        self.stage.timeline.note(&format!("--- {phase}"));
        phase.clone_into(&mut self.phase.lock().expect("no code panics with it"));
    }

    /// What a person needs to look into failures, and the error for the shell.
    fn conclude(&self, verdicts: &[Verdict], settings: &Settings, paint: Paint) -> Result<()> {
        let failed: Vec<&Verdict> = verdicts.iter().filter(|it| !it.passed).collect();
        let timeline = &self.stage.timeline;
        if failed.is_empty() {
            let line = format!("all {} verdicts are good (seed {})", verdicts.len(), self.seed);
            println!("\n  {}\n", paint.tone(Tone::Good, &line));
            return Ok(());
        }
        for verdict in &failed {
            let Some(at) = verdict.at else { continue };
            println!("\n  {}, first at {at:.1} s:", paint.tone(Tone::Bad, verdict.name));
            let (lines, before, after) = SHOWN;
            for line in timeline.between(at - before, at + after, lines) {
                println!("  {line}");
            }
        }
        println!("\n  timeline: {}", timeline.path().display());
        println!("  the gateway's log: {}", self.stage.world.program_log.display());
        println!("  again: make chaos MINUTES={} SEED={}\n", settings.minutes, self.seed);
        bail!("{} of {} verdicts are bad (seed {})", failed.len(), verdicts.len(), self.seed);
    }
}
