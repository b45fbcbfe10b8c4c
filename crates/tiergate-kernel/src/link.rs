//! Attaching programs by links, which end with the process.
//!
//! libbpf-rs attaches XDP without a choice of the way, and tcx not at all; so the call of libbpf below both is made here, and only here (docs/adr/0045).

use crate::counts::Way;
use crate::fault::Fault;
use crate::interface::{has_ethernet_header, interface_index};
use crate::occupant;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A program at an interface. Dropped, it is there no more; so when the process ends, however it does.
#[derive(Debug)]
pub(crate) struct Link {
    descriptor: OwnedFd,
    /// Which way it is attached.
    pub(crate) way: Way,
    /// The number of the interface: another one may get its name.
    pub(crate) interface: i32,
}

impl Link {
    /// Whether it is at its interface still: it is not where that is gone, though another may have its name and number, or where somebody has taken the program away.
    fn is_attached(&self) -> bool {
        let path = format!("/proc/self/fdinfo/{}", self.descriptor.as_raw_fd());
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().all(|line| line != "ifindex:\t0")
    }
}

/// Where a program is.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<(String, Link)>);

impl Links {
    /// Puts the program at an interface, unless it is there.
    pub(crate) fn attach(
        &mut self,
        interface: &str,
        attach: impl FnOnce() -> Result<Link, Fault>,
    ) -> Result<Way, Fault> {
        if let Some((_, link)) = self.0.iter().find(|(name, _)| name == interface) {
            return Ok(link.way);
        }
        let link = attach()?;
        let way = link.way;
        self.0.push((interface.to_owned(), link));
        Ok(way)
    }

    /// Puts another program in its place everywhere, between one packet and the next where the driver can do that. Where it cannot be put, none is left: the former one would go on with what nobody writes any more.
    pub(crate) fn replace(&mut self, program: BorrowedFd<'_>) {
        self.0.retain(|(_, link)| update(&link.descriptor, program).is_ok());
    }

    /// Takes it away from all but these, and forgets interfaces that are gone.
    pub(crate) fn keep_at(&mut self, interfaces: &[String]) {
        let is_there = |name: &str, link: &Link| {
            interface_index(name).is_ok_and(|it| it == link.interface) && link.is_attached()
        };
        self.0.retain(|(name, link)| interfaces.contains(name) && is_there(name, link));
    }

    /// Where it is, and which way.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = (&str, Way)> {
        self.0.iter().map(|(name, link)| (&**name, link.way))
    }
}

/// Attaches a program of XDP: native, or generic where the driver knows no other way, or none with the interface's settings. Any other fault is returned: it may pass, and generic would stay for good.
pub(crate) fn attach_xdp(program: BorrowedFd<'_>, interface: &str) -> Result<Link, Fault> {
    let index = ethernet_index(interface)?;
    let attach = |flags| create(program, index, libbpf_sys::BPF_XDP, flags);
    let (way, link) = match attach(libbpf_sys::XDP_FLAGS_DRV_MODE) {
        Ok(link) => (Way::Native, Ok(link)),
        Err(error) if is_native_impossible(&error) => {
            (Way::Generic, attach(libbpf_sys::XDP_FLAGS_SKB_MODE))
        }
        Err(error) => (Way::Native, Err(error)),
    };
    let fault = |error: io::Error| match is_taken(&error) {
        true => {
            Fault::Taken { interface: interface.to_owned(), occupant: occupant::at(index, program) }
        }
        false => Fault::Attach { interface: interface.to_owned(), error },
    };
    Ok(Link { descriptor: link.map_err(fault)?, way, interface: index })
}

/// Whether another program is there: EBUSY, or EEXIST where it is there the other way.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(16 | 17))
}

/// Whether the driver has no native way: EINVAL or EOPNOTSUPP, as drivers have it; or, as veth has it, none with this MTU (ERANGE) or with fewer queues than the other end has (ENOSPC).
fn is_native_impossible(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(22 | 28 | 34 | 95))
}

/// The number of an interface at which a program can read packets: otherwise it would be there, and pass all of them.
fn ethernet_index(interface: &str) -> Result<i32, Fault> {
    let index = interface_index(interface)?;
    if has_ethernet_header(index) {
        return Ok(index);
    }
    let error = io::Error::other(
        "its packets have no Ethernet header, which programs read; nftables can police SYNs there",
    );
    Err(Fault::Attach { interface: interface.to_owned(), error })
}

/// Attaches a program to the ingress of an interface (tcx).
pub(crate) fn attach_ingress(program: BorrowedFd<'_>, interface: &str) -> Result<Link, Fault> {
    let index = ethernet_index(interface)?;
    let link = create(program, index, libbpf_sys::BPF_TCX_INGRESS, 0);
    let fault = |error| Fault::Attach { interface: interface.to_owned(), error };
    Ok(Link { descriptor: link.map_err(fault)?, way: Way::Ingress, interface: index })
}

/// Has a program look up the listening sockets of this thread's network namespace. It ends with what is returned.
pub(crate) fn attach_lookup(program: BorrowedFd<'_>) -> Result<OwnedFd, Fault> {
    let fault = |error| Fault::Attach { interface: "this network namespace".to_owned(), error };
    let namespace = File::open("/proc/thread-self/ns/net").map_err(fault)?;
    create(program, namespace.as_raw_fd(), libbpf_sys::BPF_SK_LOOKUP, 0).map_err(fault)
}

/// `target`: the number of an interface, or a descriptor of a namespace, by what is attached.
#[allow(unsafe_code)]
fn create(program: BorrowedFd<'_>, target: i32, attach: u32, flags: u32) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags,
        ..Default::default()
    };
    // SAFETY: `program` is open while it is borrowed, and the call only reads `options`, which lives until it returns.
    let result = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), target, attach, &raw const options)
    };
    match result {
        // SAFETY: the descriptor is new, and of nobody else.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(result) }),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

#[allow(unsafe_code)]
fn update(link: &OwnedFd, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both are open while they are borrowed, and without options nothing else is read.
    let result = unsafe {
        libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
    };
    match result {
        0.. => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn where_a_program_cannot_be_replaced_none_is_left() {
        let no_link = || File::open("/dev/null").expect("it is there").into();
        let mut links = Links::default();
        let one = Link { descriptor: no_link(), way: Way::Native, interface: 1 };
        links.attach("lo", || Ok(one)).expect("it does not look");
        let program: OwnedFd = no_link();
        links.replace(program.as_fd());
        assert_eq!(links.interfaces().count(), 0);
    }

    #[test]
    fn only_a_driver_without_a_native_way_makes_it_generic() {
        let generic = |code| is_native_impossible(&io::Error::from_raw_os_error(code));
        let known = [libc::EINVAL, libc::EOPNOTSUPP, libc::ERANGE, libc::ENOSPC];
        assert!(known.into_iter().all(generic));
        let others = [libc::EBUSY, libc::EEXIST, libc::ENOMEM, libc::EPERM, libc::ENODEV];
        assert!(!others.into_iter().any(generic));
        assert!(!is_native_impossible(&io::Error::other("of no number")));
    }
}
