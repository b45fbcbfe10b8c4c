//! The DSCP of a client's packets, from the SYN of its connection.
//!
//! The kernel saves the SYN of each connection if the listener asks for it, and returns it once. The
//! options are in no crate that we use (rustix, socket2), so these two system calls are made here, and
//! only here (docs/adr/0011).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Longest SYN that is read: the IP and TCP headers with all of their options have at most 120 bytes
/// (IPv6: 100); a longer one, with extension headers, is ignored.
const SYN_LEN_MAX: usize = 256;

/// Asks the kernel to save, or not to save, the SYNs of new connections.
///
/// # Errors
/// The error of the system call.
#[expect(unsafe_code, reason = "no safe crate has the option")]
pub fn keep(listener: &impl AsFd, keep: bool) -> io::Result<()> {
    let value = libc::c_int::from(keep);
    let len = size_of_val(&value) as libc::socklen_t;
    let descriptor = listener.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `listener` is borrowed, and the system only reads the `len`
    // bytes of `value`, which lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_SAVE_SYN,
            (&raw const value).cast(),
            len,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The DSCP of a connection's SYN; `None` if none was saved (the listener did not ask, or the kernel sent
/// a SYN cookie) or it has been read already. One system call.
#[expect(unsafe_code, reason = "no safe crate has the option")]
pub fn dscp_of(stream: &impl AsFd) -> Option<u8> {
    let mut syn = [0_u8; SYN_LEN_MAX];
    let mut len = SYN_LEN_MAX as libc::socklen_t;
    let descriptor = stream.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `stream` is borrowed. The system writes at most `len` bytes
    // to `syn`, which has so many, and the number of them to `len`; both live until the call returns.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_SAVED_SYN,
            syn.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    let syn = syn.get(..usize::try_from(len).ok()?)?;
    (result == 0).then(|| dscp(syn))?
}

/// The DSCP in the IP header at the start of `packet`: 0 to 63; `None` if the header is incomplete.
///
/// Source: RFC 2474 §3; RFC 791 §3.1 and RFC 8200 §3 for the headers.
pub fn dscp(packet: &[u8]) -> Option<u8> {
    const V4_LEN_MIN: usize = 20;
    const V6_LEN: usize = 40;
    let [first, second, ..] = *packet else {
        return None;
    };
    let traffic_class = match first >> 4 {
        4 => {
            let len = usize::from(first & 0x0f) * 4;
            (len >= V4_LEN_MIN && packet.len() >= len).then_some(second)?
        }
        6 => (packet.len() >= V6_LEN).then_some(first << 4 | second >> 4)?,
        _ => return None,
    };
    // The lower two bits are ECN (RFC 3168).
    Some(traffic_class >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn code_points_of_both_versions() {
        let mut v4 = [0; 40];
        (v4[0], v4[1]) = (0x45, 46 << 2 | 3);
        assert_eq!(dscp(&v4), Some(46));
        assert_eq!(dscp(&v4[..20]), Some(46));
        assert_eq!(dscp(&v4[..19]), None);
        v4[0] = 0x46;
        assert_eq!(dscp(&v4[..23]), None, "options are part of the header");
        v4[0] = 0x44;
        assert_eq!(dscp(&v4), None, "shorter than a header can be");

        let mut v6 = [0; 60];
        // Traffic class 0xb9, flow label 0xfffff.
        (v6[0], v6[1], v6[2], v6[3]) = (0x6b, 0x9f, 0xff, 0xff);
        assert_eq!(dscp(&v6), Some(46));
        assert_eq!(dscp(&v6[..39]), None);
        assert_eq!(dscp(&[0; 60]), None);
        assert_eq!(dscp(&[0x45]), None);
        assert_eq!(dscp(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_code_point_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(dscp(&bytes).is_none_or(|dscp| dscp < 64));
        }
    }
}
