//! The compiled programs, and loading them.

use crate::fault::{Fault, io_error};
use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel};
use std::os::fd::AsFd;

/// Programs as the build has compiled them, where libbpf can read its words.
#[cfg_attr(not(programs), allow(dead_code))]
#[repr(C, align(8))]
pub(crate) struct Compiled<const N: usize>(pub(crate) [u8; N]);

macro_rules! compiled {
    ($name:literal) => {{
        #[cfg(programs)]
        {
            static OBJECT: $crate::object::Compiled<
                { include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")).len() },
            > = $crate::object::Compiled(*include_bytes!(concat!(
                env!("OUT_DIR"),
                "/",
                $name,
                ".bpf.o"
            )));
            Some(&OBJECT.0[..])
        }
        #[cfg(not(programs))]
        None::<&[u8]>
    }};
}
pub(crate) use compiled;

/// Loads the programs of an object: the kernel verifies each. Some milliseconds.
///
/// # Errors
/// The build has none, or what the kernel says.
pub(crate) fn load(name: &str, object: Option<&[u8]>) -> Result<Object, Fault> {
    open(name, object)?.load().map_err(|error| Fault::Load(io_error(error)))
}

/// Loads them anew beside those of an object, whose maps they share, but for one of another size, which is empty.
///
/// # Errors
/// As of [`load`].
pub(crate) fn load_beside(
    name: &str,
    object: Option<&[u8]>,
    other: &Object,
    own: &'static str,
    entries: u32,
) -> Result<Object, Fault> {
    let fault = |error| Fault::Load(io_error(error));
    let mut opened = open(name, object)?;
    for mut map in opened.maps_mut() {
        if map.name() == own {
            map.set_max_entries(entries).map_err(fault)?;
        } else if let Some(shared) = other.maps().find(|it| it.name() == map.name()) {
            map.reuse_fd(shared.as_fd()).map_err(fault)?;
        }
    }
    opened.load().map_err(fault)
}

fn open(name: &str, object: Option<&[u8]>) -> Result<OpenObject, Fault> {
    let object = object.ok_or(Fault::NotBuilt)?;
    // What it prints is in the error, too, or for those who write programs.
    libbpf_rs::set_print(
        std::env::var_os("TIERGATE_KERNEL_DEBUG")
            .map(|_| (PrintLevel::Info, (|_, text| eprint!("{text}")) as libbpf_rs::PrintCallback)),
    );
    let fault = |error| Fault::Load(io_error(error));
    ObjectBuilder::default().name(name).map_err(fault)?.open_memory(object).map_err(fault)
}

/// A map of a loaded object, by its name.
pub(crate) fn map(object: &Object, name: &'static str) -> Result<MapHandle, Fault> {
    let found = object.maps().find(|map| map.name() == name).expect("the program declares it");
    MapHandle::try_from(&found).map_err(|error| Fault::Map { map: name, error: io_error(error) })
}
