//! A timer that is exact to some microseconds, where the system lets one be made: the runtime's are exact to a millisecond, in which a
//! link of 100 Mb/s carries eight packets.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;

/// One alarm; made and used on a thread with a runtime.
///
/// The runtime watches the timer as the end of a pipe: it is readable when the time has come, and what is read says how often it has.
pub(super) struct Alarm(Option<Receiver>);

impl Alarm {
    pub(super) fn new() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(io::Error::from);
        Alarm(timer.and_then(Receiver::from_owned_fd_unchecked).ok())
    }

    /// Sleeps for so long; with the runtime's timer if it has none of its own.
    pub(super) async fn sleep(&mut self, time: Duration) {
        if self.sleep_exactly(time).await.is_err() {
            self.0 = None;
            tokio::time::sleep(time).await;
        }
    }

    async fn sleep_exactly(&mut self, time: Duration) -> io::Result<()> {
        let timer = self.0.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A time of zero would disarm it.
        let time = time.max(Duration::from_nanos(1));
        let value =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let once = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
        loop {
            timer.readable().await?;
            match timer.try_read(&mut [0; 8]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                read => return read.map(|_| ()),
            }
        }
    }
}
