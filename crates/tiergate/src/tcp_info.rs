//! What the kernel knows of a TCP connection: how much of what was written the peer has acknowledged, and how long the way there and back takes.
//!
//! `TCP_INFO` is in no crate that we use (rustix, socket2), so this system call is made here, and only here
//! (docs/adr/0011).

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use tiergate_core::transmit::Sending;

/// Bytes of `tcp_info` up to and with `tcpi_bytes_acked`; the kernel has more to tell, which is cut off.
const LEN: usize = ACKED + size_of::<u64>();
const ACKED: usize = offset_of!(libc::tcp_info, tcpi_bytes_acked);
/// The same up to and with `tcpi_snd_wnd`.
const LEN_OF_ALL: usize = ROOM + size_of::<u32>();
const ROOM: usize = offset_of!(libc::tcp_info, tcpi_snd_wnd);
const RETRANSMITTED: usize = offset_of!(libc::tcp_info, tcpi_bytes_retrans);
/// The state of a connection that is over, as Linux numbers them (`include/net/tcp_states.h`).
const TCP_CLOSE: u8 = 7;

/// Bytes that the peer's system has acknowledged since the connection began; `None`: the kernel does not tell
/// (before Linux 4.1), or it is no TCP connection. One system call.
pub fn acknowledged(stream: &impl AsFd) -> Option<u64> {
    Some(u64_at(&read::<LEN>(stream)?, ACKED))
}

/// Bytes that were written and have not been sent; `None`: the kernel does not tell (before Linux 5.4), or it is no TCP connection. One system call.
pub fn unsent(stream: &impl AsFd) -> Option<u32> {
    Some(u32_at(&read::<LEN_OF_ALL>(stream)?, offset_of!(libc::tcp_info, tcpi_notsent_bytes)))
}

/// Bytes that each packet to the peer carries at most; `None`: the kernel does not tell, or it is no TCP connection. One system call.
pub fn segment(stream: &impl AsFd) -> Option<u32> {
    Some(u32_at(&read::<LEN>(stream)?, offset_of!(libc::tcp_info, tcpi_snd_mss)))
}

/// What a connection has sent, and what it may send now; `None`: the kernel does not tell (before Linux 5.4), it is no TCP connection, or it is over. One system call.
pub fn sending(stream: &impl AsFd) -> Option<Sending> {
    let info = read::<LEN_OF_ALL>(stream)?;
    if info[offset_of!(libc::tcp_info, tcpi_state)] == TCP_CLOSE {
        return None;
    }
    let sent = u64_at(&info, offset_of!(libc::tcp_info, tcpi_bytes_sent));
    let at = |at| u32_at(&info, at);
    let once = sent.saturating_sub(u64_at(&info, RETRANSMITTED));
    // As the kernel counts them where it looks whether it may send more.
    let gone =
        at(offset_of!(libc::tcp_info, tcpi_sacked)) + at(offset_of!(libc::tcp_info, tcpi_lost));
    let sent_and_resent =
        at(offset_of!(libc::tcp_info, tcpi_unacked)) + at(offset_of!(libc::tcp_info, tcpi_retrans));
    Some(Sending {
        sent,
        packets: at(offset_of!(libc::tcp_info, tcpi_segs_out)),
        unsent: at(offset_of!(libc::tcp_info, tcpi_notsent_bytes)).into(),
        in_flight: once.saturating_sub(u64_at(&info, ACKED)),
        window: at(ROOM).into(),
        packets_in_flight: sent_and_resent.saturating_sub(gone),
        packets_max: at(offset_of!(libc::tcp_info, tcpi_snd_cwnd)),
        packet: at(offset_of!(libc::tcp_info, tcpi_snd_mss)).into(),
    })
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were written.
    pub written: u64,
    /// Of them those that the peer's system has acknowledged.
    pub acknowledged: u64,
    /// The shortest time that the way there and back has taken, of the last five minutes.
    pub way: Duration,
    /// Whether something that was written has not been sent because more than that may not be on its way, or the peer has no room for it.
    pub is_bounded: bool,
}

/// How far a connection is; `None`: the kernel does not tell (before Linux 5.4), it is no TCP connection, it is over, or its way is not known yet. One system call.
pub fn progress(stream: &impl AsFd) -> Option<Progress> {
    let info = read::<LEN_OF_ALL>(stream)?;
    let sent = u64_at(&info, offset_of!(libc::tcp_info, tcpi_bytes_sent));
    let unsent = u32_at(&info, offset_of!(libc::tcp_info, tcpi_notsent_bytes));
    let way = u32_at(&info, offset_of!(libc::tcp_info, tcpi_min_rtt));
    let is_closed = info[offset_of!(libc::tcp_info, tcpi_state)] == TCP_CLOSE;
    if is_closed || way == u32::MAX {
        return None;
    }
    let unacknowledged = u32_at(&info, offset_of!(libc::tcp_info, tcpi_unacked));
    let packets_max = u32_at(&info, offset_of!(libc::tcp_info, tcpi_snd_cwnd));
    let sent = sent.saturating_sub(u64_at(&info, RETRANSMITTED));
    let acknowledged = u64_at(&info, ACKED);
    let room = u64::from(u32_at(&info, ROOM));
    let packet = u64::from(u32_at(&info, offset_of!(libc::tcp_info, tcpi_snd_mss)));
    let is_full =
        unacknowledged >= packets_max || sent.saturating_sub(acknowledged) + packet > room;
    Some(Progress {
        written: sent + u64::from(unsent),
        acknowledged,
        way: Duration::from_micros(way.into()),
        is_bounded: unsent > 0 && is_full,
    })
}

fn u64_at(info: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(info[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(info: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"))
}

/// The first so many bytes of `tcp_info`, if the kernel has as many.
#[expect(unsafe_code, reason = "no safe crate has the option")]
fn read<const LEN: usize>(stream: &impl AsFd) -> Option<[u8; LEN]> {
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
    (result == 0 && len as usize == LEN).then_some(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn what_the_peer_has_received_is_acknowledged_and_what_it_has_no_room_for_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        let before = acknowledged(&ours).expect("a connection");
        ours.write_all(&[0; 1000]).unwrap();
        theirs.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(progress(&ours).map(|it| it.written), Some(1000));
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
        let far = progress(&ours).expect("a connection");
        assert_eq!(far.written, sent - before);
        assert!(far.acknowledged - before < far.written && far.way < Duration::from_secs(1));
        assert!(far.is_bounded, "the peer has no room");
        let far = sending(&ours).expect("a connection");
        assert_eq!((far.sent + far.unsent, far.room(1 << 16)), (sent - before, 0));
        assert!(u64::from(far.packets) >= far.sent / far.packet);
        drop(theirs);
        waits = 0;
        while progress(&ours).is_some() {
            waits += 1;
            assert!(waits < 1000, "it is reset, as not all was read");
            std::thread::sleep(Duration::from_millis(10));
        }
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!((acknowledged(&other), progress(&other)), (None, None));
        assert_eq!(sending(&other), None);
    }
}
