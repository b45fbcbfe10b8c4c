//! A line that takes time: what enters one end leaves the other after a fixed delay, in both directions.
//!
//! Kernels without netem have none. Each end is a TAP device in a namespace, and a thread for each direction carries the
//! frames. How fast the line is, a shaper at its ends says: a frame waits for its turn there, and is then on its way.

use super::network::in_namespace;
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
    /// Makes the devices, each in a namespace and with a name there, and carries what they send. `delay` is that of one
    /// direction.
    ///
    /// # Errors
    /// A device cannot be made: no root, or no `/dev/net/tun`.
    pub(super) fn make(ends: [(&str, &str); 2], delay: Duration) -> Result<Self> {
        let [one, other] = ends.map(|(namespace, name)| device(namespace, name).map(Arc::new));
        let (one, other) = (one?, other?);
        let mut line = Self { ends: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for (from, to) in [(&one, &other), (&other, &one)] {
            let (from, to, ends) = (from.clone(), to.clone(), line.ends.clone());
            let carries = move || carry(&from, &to, delay, &ends);
            let thread = std::thread::Builder::new().name("delay line".into()).spawn(carries)?;
            line.threads.push(thread);
        }
        Ok(line)
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

/// A TAP device with that name in that namespace. It goes when the last that has it open is gone.
fn device(namespace: &str, name: &str) -> Result<SyncDevice> {
    let device = DeviceBuilder::new()
        .layer(Layer::L2)
        .enable(false)
        .build_sync()
        .context("cannot make a TAP device for a link with a delay")?;
    device.set_nonblocking(true)?;
    in_namespace(&device.name()?, namespace, name)?;
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

#[cfg(test)]
mod tests {
    use super::super::network::{Links, Network};
    use std::process::{Command, Output};
    use std::time::Duration;

    const DELAY: Duration = Duration::from_millis(20);
    const SENT: usize = 200;
    /// Sends numbered datagrams to an echo at the other end, all at once; prints how many came back in order, and the shortest time in
    /// microseconds.
    const ASKS: &str = r#"
import socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sock.settimeout(5)
sock.sendto(b"first", ("10.77.0.1", 9000)); sock.recv(100)
sent = []
for n in range(int(sys.argv[1])):
    sent.append(time.monotonic()); sock.sendto(str(n).encode(), ("10.77.0.1", 9000))
times = []
for n in range(len(sent)):
    if sock.recv(100) == str(n).encode(): times.append(time.monotonic() - sent[n])
print(len(times), int(min(times) * 1e6))
"#;
    const ECHOES: &str = r#"
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sock.bind(("10.77.0.1", 9000)); sock.settimeout(5)
print("ready", flush=True)
for n in range(int(sys.argv[1]) + 1): data, peer = sock.recvfrom(100); sock.sendto(data, peer)
"#;

    fn python(namespace: &str, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{namespace}"));
        command.args(["--", "python3", "-c", script, &SENT.to_string()]);
        command
    }

    /// How many datagrams came back in order, and the shortest time.
    fn round_trips(links: &Links) -> (usize, Duration) {
        let network = Network::make(links).unwrap();
        let mut echo = python(&network.gateway, ECHOES);
        let mut echo = echo.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(echo.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let Output { stdout, stderr, .. } = python(&network.clients, ASKS).output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert!(echo.wait().unwrap().success(), "{stderr}");
        let mut words = stdout.split_whitespace().map(|it| it.parse::<u64>().expect(&stderr));
        (words.next().unwrap() as usize, Duration::from_micros(words.next().unwrap()))
    }

    #[test]
    fn a_frame_takes_the_delay_in_each_direction_and_none_is_lost_or_overtaken() {
        let (near, far) = (Links::default(), Links { delay: DELAY, ..Links::default() });
        let ((all_near, short), (all_far, long)) = (round_trips(&near), round_trips(&far));
        assert_eq!((all_near, all_far), (SENT, SENT));
        assert!(long >= 2 * DELAY && long >= short + DELAY, "{short:?}, {long:?}");
    }
}
