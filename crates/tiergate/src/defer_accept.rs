//! Listeners that accept connections with their first data only.
//!
//! The option is in no crate that we use (rustix, socket2), so this system call is made here, and only here (docs/adr/0011).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// How long a connection without data is kept back, in seconds; it is accepted then.
const SECONDS: libc::c_int = 2;

/// Has connections be accepted with their first data, or after some seconds: so that one whose first request the kernel refuses is never seen. Or, if that is not `wanted`, as they come, whatever was
/// set before: sockets that are passed on to a successor keep what they have.
///
/// # Errors
/// The error of the system call.
#[expect(unsafe_code, reason = "no safe crate has the option")]
pub fn set(listener: &impl AsFd, wanted: bool) -> io::Result<()> {
    let seconds = if wanted { SECONDS } else { 0 };
    let len = size_of_val(&seconds) as libc::socklen_t;
    let descriptor = listener.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `listener` is borrowed, and the system only reads the `len` bytes of a value that lives until it returns.
    let result = unsafe {
        libc::setsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            len,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    /// Whether a connection that sends nothing is accepted within some time.
    fn accepts(listener: &TcpListener, within: Duration) -> bool {
        let _silent =
            TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let until = Instant::now() + within;
        loop {
            match listener.accept() {
                Ok(_) => return true,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn it_is_taken_back_from_a_socket_that_had_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("set");
        set(&listener, true).expect("the system has it");
        // As a successor gets it.
        let inherited = listener.try_clone().expect("a descriptor");
        assert!(!accepts(&inherited, Duration::from_millis(300)), "it waits for data");
        set(&inherited, false).expect("the system has it");
        assert!(accepts(&inherited, Duration::from_secs(10)), "at once");
    }
}
