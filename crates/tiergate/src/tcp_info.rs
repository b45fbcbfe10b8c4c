//! What the kernel knows of a TCP connection: how much of what was written the peer has acknowledged.
//!
//! `TCP_INFO` is in no crate that we use (rustix, socket2), so this system call is made here, and only here
//! (docs/adr/0011).

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of `tcp_info` up to and with `tcpi_bytes_acked`; the kernel has more to tell, which is cut off.
const LEN: usize = ACKED + size_of::<u64>();
const ACKED: usize = offset_of!(libc::tcp_info, tcpi_bytes_acked);

/// Bytes that the peer's system has acknowledged since the connection began; `None`: the kernel does not tell
/// (before Linux 4.1), or it is no TCP connection. One system call.
#[expect(unsafe_code, reason = "no safe crate has the option")]
pub fn acknowledged(stream: &impl AsFd) -> Option<u64> {
    let mut info = [0_u8; LEN];
    let mut len = LEN as libc::socklen_t;
    let descriptor = stream.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `stream` is borrowed. The system writes at most `len` bytes
    // to `info`, which has so many, and the number of them to `len`; both live until the call returns.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    let is_told = result == 0 && len as usize == LEN;
    let acked = info[ACKED..].try_into().expect("a `u64` is the last in it");
    is_told.then_some(u64::from_ne_bytes(acked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Duration;

    #[test]
    fn what_the_peer_has_received_is_acknowledged_and_what_it_has_no_room_for_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        let before = acknowledged(&ours).expect("a connection");
        ours.write_all(&[0; 1000]).unwrap();
        theirs.read_exact(&mut [0; 1000]).unwrap();
        let mut waits = 0;
        while acknowledged(&ours).unwrap() != before + 1000 {
            waits += 1;
            assert!(waits < 1000, "never acknowledged");
            std::thread::sleep(Duration::from_millis(10));
        }
        ours.set_nonblocking(true).unwrap();
        let mut sent = before + 1000;
        while let Ok(count) = ours.write(&[0; 1 << 16]) {
            sent += count as u64;
        }
        assert!(acknowledged(&ours).unwrap() < sent);
        assert_eq!(acknowledged(&UdpSocket::bind("127.0.0.1:0").unwrap()), None);
    }
}
