//! Two calls of the kernel: how a thread is scheduled, and its place at the disk. No safe crate has them (docs/adr/0042), and
//! `chrt` of util-linux 2.38 cannot set what `extra` means.

use std::io;
use tiergate_core::workers::{Class, Io, Reservation, Scheduling};

/// Schedules a thread so, by its id.
///
/// # Errors
/// The kernel's: `EPERM` without the right, `EBUSY` where reservations have no room left.
#[expect(unsafe_code, reason = "no safe crate has the function")]
pub(super) fn schedule(thread: u32, class: Class) -> io::Result<()> {
    let mut wanted = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    match class {
        Class::Ordinary { nice } => wanted.sched_nice = i32::from(nice),
        Class::Other(Scheduling::Idle) => wanted.sched_policy = libc::SCHED_IDLE as u32,
        Class::Other(Scheduling::Fifo(priority)) => {
            wanted.sched_policy = libc::SCHED_FIFO as u32;
            wanted.sched_priority = u32::from(priority);
        }
        Class::Other(Scheduling::Deadline(Reservation { slice, period, extra })) => {
            wanted.sched_policy = libc::SCHED_DEADLINE as u32;
            wanted.sched_runtime = nanos(slice);
            wanted.sched_period = nanos(period);
            wanted.sched_deadline = wanted.sched_period;
            // A thread with a reservation can start no others unless they begin without one.
            wanted.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
            if extra {
                wanted.sched_flags |= libc::SCHED_FLAG_RECLAIM as u64;
            }
        }
    }
    // SAFETY: the kernel reads `size` bytes of the structure, which lives until the call returns, and writes none of them.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_setattr, thread as libc::pid_t, &raw const wanted, 0u32)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// `IOPRIO_WHO_PROCESS` of linux/ioprio.h: a thread, by its id.
const WHO_THREAD: libc::c_int = 1;
/// The class is above so many bits, the level below.
const CLASS_SHIFT: u32 = 13;

/// Gives a thread its place at the disk; `None`: the one by its nice value.
///
/// # Errors
/// The kernel's: `EPERM` without the right.
#[expect(unsafe_code, reason = "no safe crate has the function")]
pub(super) fn place_at_disk(thread: u32, io: Option<Io>) -> io::Result<()> {
    let (class, level) = match io {
        None => (0u32, 0),
        Some(Io::Realtime(level)) => (1, level),
        Some(Io::BestEffort(level)) => (2, level),
        Some(Io::Idle) => (3, 0),
    };
    let wanted = (class << CLASS_SHIFT | u32::from(level)) as libc::c_int;
    // SAFETY: the call takes three numbers and no memory.
    let done =
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_THREAD, thread as libc::c_int, wanted) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
