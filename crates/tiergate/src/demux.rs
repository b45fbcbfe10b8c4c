//! Has the kernel pick the thread of a connection, by a program of its classic packet filter.
//!
//! The option is in no crate that we use (rustix, socket2), so this system call is made here, and only here (docs/adr/0011).

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use tiergate_core::demux::{Instruction, LEN_MAX};

/// Gives the sockets that listen with this one a program that picks one of them for each connection, instead of the one that they have. No right is needed.
///
/// Those that listen later get it too, also of other processes, until it is taken away.
///
/// # Errors
/// The error of the system call: `EINVAL` if the program is not valid or the socket does not share its port, `ENOMEM` if it is longer than `net.core.optmem_max` allows,
/// `ENOPROTOOPT` before Linux 4.6.
#[expect(unsafe_code, reason = "no safe crate has the option")]
pub fn attach(listener: &impl AsFd, program: &[Instruction]) -> io::Result<()> {
    let instruction = |it: &Instruction| {
        let Instruction { code, jt, jf, k } = *it;
        libc::sock_filter { code, jt, jf, k }
    };
    let mut instructions: Vec<libc::sock_filter> = program.iter().map(instruction).collect();
    let len = u16::try_from(instructions.len()).ok().filter(|len| usize::from(*len) <= LEN_MAX);
    let len = len.ok_or(io::ErrorKind::InvalidInput)?;
    let whole = libc::sock_fprog { len, filter: instructions.as_mut_ptr() };
    let size = size_of_val(&whole) as libc::socklen_t;
    let descriptor = listener.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `listener` is borrowed. The system reads the `size` bytes of `whole` and the `len` instructions that it points to,
    // all of which live until the call returns, and copies them.
    let result = unsafe {
        libc::setsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const whole).cast(),
            size,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the program away from the sockets that listen with this one, also one that another process gave them: the kernel spreads connections in its own way. Does nothing before Linux 5.3.
#[expect(unsafe_code, reason = "no safe crate has the option")]
pub fn detach(listener: &impl AsFd) {
    let value: libc::c_int = 0;
    let descriptor = listener.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `listener` is borrowed, and the system only reads the bytes of `value`, which lives until the call returns.
    unsafe {
        libc::setsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_DETACH_REUSEPORT_BPF,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipnet::IpNet;
    use socket2::{Domain, Socket, Type};
    use std::net::{IpAddr, SocketAddr, TcpListener};
    use std::time::{Duration, Instant};
    use tiergate_core::classify::rule::Rule;
    use tiergate_core::classify::{Classifier, Condition, Matcher, Span};
    use tiergate_core::demux::{Demux, Sockets, program};
    use tiergate_core::names::ClassId;
    use tiergate_core::request::Part;

    fn has_v6() -> bool {
        TcpListener::bind("[::1]:0").is_ok()
    }

    /// So many sockets that listen at a port of all addresses.
    fn listening(count: usize) -> Vec<TcpListener> {
        let (mut port, has_v6) = (0, has_v6());
        let mut bind = || {
            let domain = if has_v6 { Domain::IPV6 } else { Domain::IPV4 };
            let socket = Socket::new(domain, Type::STREAM, None).expect("a socket");
            if has_v6 {
                socket.set_only_v6(false).expect("both");
            }
            socket.set_reuse_port(true).expect("shared");
            let address = match has_v6 {
                true => SocketAddr::from(([0u16; 8], port)),
                false => SocketAddr::from(([0u8; 4], port)),
            };
            socket.bind(&address.into()).expect("a port");
            socket.listen(16).expect("it listens");
            socket.set_nonblocking(true).expect("set");
            let listener: TcpListener = socket.into();
            port = listener.local_addr().expect("bound").port();
            listener
        };
        (0..count).map(|_| bind()).collect()
    }

    /// Which socket gets a connection.
    fn place(sockets: &[TcpListener], from: &str, to: &str, dscp: u32) -> usize {
        let [from, to]: [IpAddr; 2] = [from, to].map(|it| it.parse().expect("an address"));
        let port = sockets[0].local_addr().expect("bound").port();
        let client = Socket::new(Domain::for_address((to, port).into()), Type::STREAM, None);
        let client = client.expect("a socket");
        match to {
            IpAddr::V4(_) => client.set_tos_v4(dscp << 2).expect("set"),
            IpAddr::V6(_) => client.set_tclass_v6(dscp << 2).expect("set"),
        }
        client.bind(&SocketAddr::from((from, 0)).into()).expect("an address of this machine");
        client.connect(&SocketAddr::from((to, port)).into()).expect("somebody listens");
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            let found = sockets.iter().position(|socket| socket.accept().is_ok());
            if let Some(found) = found {
                return found;
            }
            std::thread::yield_now();
        }
        panic!("no socket gets the connection");
    }

    fn rule(class: u16, conditions: Vec<Condition>) -> Rule {
        Rule { conditions, class: Some(ClassId(class)), ..Rule::default() }
    }

    fn network(part: Part, network: &str) -> Condition {
        Condition::new(part, [Matcher::Network(network.parse().expect("a network"))])
    }

    fn demux(rules: &[Rule], trusted: &[IpNet]) -> Vec<Instruction> {
        let classifier = Classifier::compile(rules, ClassId(99)).expect("rules");
        let others = Sockets { first: 0, count: 1 };
        let demux = Demux { listener: 0, is_proxied: false, trusted, others };
        program(&classifier, demux, |class| match class.0 {
            4 => Some(Sockets { first: 4, count: 2 }),
            of @ 1..=3 => Some(Sockets { first: of.into(), count: 1 }),
            _ => None,
        })
    }

    #[test]
    fn the_kernel_takes_all_that_rules_ask_for() {
        let sockets = listening(6);
        let dscp = Condition::new(Part::Dscp, [Matcher::Range(Span { first: 46, last: 50 })]);
        let rules = [
            rule(1, vec![network(Part::Client, "127.0.0.2/31"), dscp.clone()]),
            rule(2, vec![network(Part::Client, "127.0.0.2/32")]),
            rule(3, vec![network(Part::Client, "::1/128"), dscp]),
            rule(4, vec![network(Part::Destination, "127.9.0.0/16")]),
        ];
        let trusted = ["127.0.0.7/32".parse().expect("a network")];
        attach(&sockets[0], &demux(&rules, &trusted)).expect("no right is needed");
        let to = |from, to, dscp| place(&sockets, from, to, dscp);
        for _ in 0..5 {
            assert_eq!(to("127.0.0.2", "127.0.0.1", 46), 1);
            assert_eq!(to("127.0.0.3", "127.0.0.1", 50), 1);
            assert_eq!([to("127.0.0.2", "127.0.0.1", 51), to("127.0.0.2", "127.0.0.1", 0)], [2, 2]);
            if has_v6() {
                assert_eq!([to("::1", "::1", 48), to("::1", "::1", 45)], [3, 0]);
            }
            assert!([4, 5].contains(&to("127.0.0.9", "127.9.0.1", 0)));
            assert_eq!([to("127.0.0.9", "127.0.0.1", 0), to("127.0.0.7", "127.9.0.1", 0)], [0, 0]);
        }
        detach(&sockets[0]);
        let spread = (0..60).filter(|_| to("127.0.0.9", "127.0.0.1", 0) > 0).count();
        assert!(spread > 20, "{spread} of 60: as the kernel does it");
    }

    #[test]
    fn the_longest_program_is_taken_too() {
        let sockets = listening(2);
        let of = |place: u32| {
            let [one, other] = [place / 256, place % 256];
            // Of numbers with the first bit set, which take the kernel more.
            let v4 = network(Part::Client, &format!("192.{one}.{other}.7/32"));
            let word = place + 0x8000;
            let v6 = format!("fd00:{word:x}:fff0:1:ffff:1:f000:{word:x}/128");
            let v6 = network(Part::Client, &v6);
            [rule(1, vec![v4]), rule(1, vec![v6])]
        };
        let mut rules: Vec<Rule> = vec![rule(1, vec![network(Part::Client, "127.0.0.2/32")])];
        rules.extend((0..1000).flat_map(of));
        let program = demux(&rules, &[]);
        assert!(program.len() > LEN_MAX - 100, "{}", program.len());
        attach(&sockets[0], &program).expect("it is short enough");
        for (from, wanted) in [("127.0.0.2", 1), ("127.0.0.3", 0), ("127.0.0.2", 1)] {
            assert_eq!(place(&sockets, from, "127.0.0.1", 0), wanted);
        }
    }
}
