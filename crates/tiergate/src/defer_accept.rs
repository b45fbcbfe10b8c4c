//! Listeners that accept connections with their first data only.
//!
//! The option is in no crate that we use (rustix, socket2), so this system call is made here, and only here (docs/adr/0011).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// How long a connection without data is kept back, in seconds; it is accepted then.
static SECONDS: libc::c_int = 2;

/// Has connections be accepted with their first data, or after some seconds: so that one whose first request the kernel refuses is never seen.
///
/// # Errors
/// The error of the system call.
#[expect(unsafe_code, reason = "no safe crate has the option")]
pub fn set(listener: &impl AsFd) -> io::Result<()> {
    let len = size_of_val(&SECONDS) as libc::socklen_t;
    let descriptor = listener.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `listener` is borrowed, and the system only reads the `len` bytes of a constant.
    let result = unsafe {
        libc::setsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const SECONDS).cast(),
            len,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
