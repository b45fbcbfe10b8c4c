//! A line that takes time: what enters one end leaves the other after a fixed delay, in both directions.
//!
//! Kernels without netem have none. Each end is a TAP device in a namespace, and a thread for each direction carries the
//! frames. How fast the line is, a shaper at its ends says: a frame waits for its turn there, and is then on its way.

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// The largest frame: 1,500 bytes behind a head of Ethernet with a VLAN.
const FRAME_MAX: usize = 1_518;
/// Frames on their way at most: a tenth of a second of a gigabit. Beyond, the device's own queue holds them.
const ON_WAY_MAX: usize = 8_192;
/// Frames that are taken before those on their way are looked at again.
const BATCH: usize = 64;
/// How soon a thread notices that the line is to end.
const IDLE: Duration = Duration::from_millis(100);

/// A line; dropped, it ends, and its devices are removed.
pub(super) struct DelayLine {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl DelayLine {
    /// Makes the devices of both ends, and carries what they send. `delay` is that of one direction. Returns the devices' names: the
    /// caller puts each into its namespace.
    ///
    /// # Errors
    /// A device cannot be made: no root, or no `/dev/net/tun`.
    pub(super) fn make(delay: Duration) -> Result<(Self, [String; 2])> {
        let (one, other) = (Arc::new(device()?), Arc::new(device()?));
        let names = [one.name()?, other.name()?];
        let mut line = Self { ends: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for (from, to) in [(&one, &other), (&other, &one)] {
            let (from, to, ends) = (from.clone(), to.clone(), line.ends.clone());
            let carries = move || carry(&from, &to, delay, &ends);
            let thread = std::thread::Builder::new().name("delay line".into()).spawn(carries)?;
            line.threads.push(thread);
        }
        Ok((line, names))
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A TAP device. It goes when the last that has it open is gone.
fn device() -> Result<SyncDevice> {
    let device = DeviceBuilder::new()
        .layer(Layer::L2)
        .enable(false)
        .build_sync()
        .context("cannot make a TAP device for a link with a delay")?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// Carries frames until the line ends.
fn carry(from: &SyncDevice, to: &SyncDevice, delay: Duration, ends: &AtomicBool) {
    let mut on_way: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut frame = [0; FRAME_MAX];
    while !ends.load(Ordering::Relaxed) {
        let mut now = Instant::now();
        while let Some((_, arrived)) = on_way.pop_front_if(|(due, _)| *due <= now) {
            // A device that is down loses what is sent to it, as a cable does.
            let _ = to.send(&arrived);
            now = Instant::now();
        }
        let next = on_way.front().map_or(IDLE, |(due, _)| *due - now);
        let interest = match on_way.len() < ON_WAY_MAX {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        let timeout = Timespec::try_from(next.min(IDLE)).expect("a tenth of a second fits");
        if poll(&mut [PollFd::new(from, interest)], Some(&timeout)).is_err() {
            continue;
        }
        for _ in 0..BATCH.min(ON_WAY_MAX - on_way.len()) {
            match from.recv(&mut frame) {
                Ok(length) => on_way.push_back((Instant::now() + delay, frame[..length].to_vec())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The device is down until its namespace is set up, and again when that is gone.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(1));
                    break;
                }
            }
        }
    }
}
