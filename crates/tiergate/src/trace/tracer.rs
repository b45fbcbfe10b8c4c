//! The queue of spans, and the thread that sends them.

use super::collector;
use crate::clock;
use crate::config::meant::Tracing;
use crate::seldom::Seldom;
use crate::side_http::Addresses;
use crate::tally::Tally;
use opentelemetry_proto::tonic::trace::v1::Span;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Requests whose spans are sent at once, at most.
const BATCH_LEN_MAX: usize = 512;
/// How often it is tried whether a full queue has room at the end.
const RETRY: Duration = Duration::from_millis(10);
/// How often the log says that spans are dropped.
const COMPLAINT: Duration = Duration::from_secs(60);

/// What became of spans.
#[derive(Debug, Default)]
pub struct TraceCounters {
    /// The collector has taken them.
    pub exported: Tally,
    /// There was no room in the queue.
    pub dropped_queue: Tally,
    /// The collector did not take them, or did not say so.
    pub dropped_collector: Tally,
}

/// The queue of spans, on their way to a collector. Dropped, what waits is sent on for as long as the collector may take for an answer; the rest is dropped, and counted.
#[derive(Debug)]
pub struct Tracer {
    /// What it goes by.
    pub settings: Tracing,
    queue: SyncSender<Message>,
    counters: Arc<TraceCounters>,
    ended: Arc<OnceLock<Instant>>,
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.ended.set(Instant::now());
    }
}

/// What the thread is sent.
#[derive(Debug)]
enum Message {
    /// The spans of a request.
    Spans(Vec<Span>),
    /// Send what has come; answered when that has been tried.
    Flush(SyncSender<()>),
}

impl Tracer {
    /// Begins to send.
    ///
    /// # Errors
    /// There can be no further thread, or no further descriptor.
    pub fn start(settings: Tracing, counters: Arc<TraceCounters>) -> io::Result<Self> {
        let (queue, messages) = sync_channel(settings.queue_len_max);
        let ended = Arc::new(OnceLock::new());
        let sending = Sending {
            settings: settings.clone(),
            collector: Addresses::of(&settings.collector.authority),
            counters: counters.clone(),
            complaint: Seldom::default(),
            ended: ended.clone(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("traces".to_owned());
        thread.spawn(move || sending.run(&runtime, &messages))?;
        Ok(Tracer { settings, queue, counters, ended })
    }

    /// Has the spans of a request sent. Never blocks: if there is no room, they are dropped and counted.
    pub(crate) fn send(&self, spans: Vec<Span>) {
        if let Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) =
            self.queue.try_send(Message::Spans(spans))
            && let Message::Spans(spans) = message
        {
            self.counters.dropped_queue.add(spans.len() as u64);
        }
    }

    /// Sends what waits, for at most so long; at the end.
    pub fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let (done, sent) = sync_channel(1);
        let mut flush = Message::Flush(done);
        // The queue may be full: then there is most to be sent.
        while let Err(TrySendError::Full(again)) = self.queue.try_send(flush) {
            if left().is_zero() {
                return;
            }
            thread::sleep(RETRY.min(left()));
            flush = again;
        }
        let _ = sent.recv_timeout(left());
    }
}

/// The thread's own.
struct Sending {
    settings: Tracing,
    collector: Addresses,
    counters: Arc<TraceCounters>,
    complaint: Seldom,
    /// Since when nothing more comes.
    ended: Arc<OnceLock<Instant>>,
}

impl Sending {
    fn run(self, runtime: &tokio::runtime::Runtime, messages: &Receiver<Message>) {
        loop {
            let mut batch = Vec::new();
            let mut flushed = None;
            let ends = collect(messages, self.settings.interval, &mut batch, &mut flushed);
            let count = batch.len() as u64;
            if self.ended.get().is_some_and(|at| at.elapsed() > self.settings.timeout) {
                self.counters.dropped_collector.add(count + rest(messages));
                return;
            }
            if count > 0 {
                self.send(runtime, batch, count);
            }
            drop(flushed);
            if ends {
                return;
            }
        }
    }

    fn send(&self, runtime: &tokio::runtime::Runtime, batch: Vec<Span>, count: u64) {
        let sent = collector::export(&self.settings, &self.collector, batch);
        match runtime.block_on(sent) {
            Ok(rejected) => {
                let rejected = rejected.min(count);
                self.counters.exported.add(count - rejected);
                self.counters.dropped_collector.add(rejected);
                if rejected > 0 {
                    self.complain(&format!("it rejects {rejected} of {count}"));
                }
            }
            Err(fault) => {
                self.counters.dropped_collector.add(count);
                self.complain(&format!("{fault:#}"));
            }
        }
    }

    fn complain(&self, why: &str) {
        if self.complaint.is_due(clock::now(), COMPLAINT) {
            let counters = &self.counters;
            let dropped = counters.dropped_collector.total() + counters.dropped_queue.total();
            tracing::warn!(
                collector = self.collector.authority(),
                dropped,
                "spans are dropped, the collector does not take them: {why}"
            );
        }
    }
}

/// How many spans are left.
fn rest(messages: &Receiver<Message>) -> u64 {
    let spans = |message| match message {
        Message::Spans(spans) => spans.len() as u64,
        Message::Flush(_) => 0,
    };
    messages.try_iter().map(spans).sum()
}

/// Waits for spans, and then for more, as long as `interval` at most. Says whether none will come any more.
fn collect(
    messages: &Receiver<Message>,
    interval: Duration,
    batch: &mut Vec<Span>,
    flushed: &mut Option<SyncSender<()>>,
) -> bool {
    let Ok(first) = messages.recv() else { return true };
    let until = Instant::now() + interval;
    let mut next = Ok(first);
    for _ in 0..BATCH_LEN_MAX {
        match next {
            Ok(Message::Spans(mut spans)) => batch.append(&mut spans),
            Ok(Message::Flush(done)) => {
                *flushed = Some(done);
                return false;
            }
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
        next = messages.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
    match next {
        Ok(Message::Spans(mut spans)) => batch.append(&mut spans),
        Ok(Message::Flush(done)) => *flushed = Some(done),
        Err(_) => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::meant::Collector;
    use std::net::TcpListener;
    use tiergate_core::trace::{Continues, Sampling};

    #[test]
    fn what_waits_for_a_collector_that_is_silent_does_not_outlive_its_tracer_for_long() {
        // It takes connections, and says nothing.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let authority = silent.local_addr().expect("bound").to_string();
        let settings = Tracing {
            collector: Collector { authority, path: "/v1/traces".into() },
            service: "tiergate".into(),
            sampling: Sampling { share: 1.0, continues: Continues::Trusted },
            queue_len_max: 100_000,
            interval: Duration::from_millis(1),
            timeout: Duration::from_millis(200),
        };
        let counters = Arc::new(TraceCounters::default());
        let tracer = Tracer::start(settings, counters.clone()).expect("a thread");
        // Two hundred batches, each of which is waited for as long as the collector may take: 40 s.
        let count = 200 * BATCH_LEN_MAX as u64;
        for _ in 0..count {
            tracer.send(vec![Span::default()]);
        }
        drop(tracer);
        let lost = || counters.dropped_collector.total() + counters.dropped_queue.total();
        let until = Instant::now() + Duration::from_secs(15);
        while lost() < count {
            assert!(Instant::now() < until, "{} of {count} are accounted for", lost());
            thread::sleep(RETRY);
        }
        assert_eq!((lost(), counters.exported.total()), (count, 0));
    }
}
