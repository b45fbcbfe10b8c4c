//! The compiled programs, and loading them.

use crate::fault::{Fault, io_error};
use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, PrintLevel};

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
    let object = object.ok_or(Fault::NotBuilt)?;
    // What it prints is in the error, too, or for those who write programs.
    libbpf_rs::set_print(
        std::env::var_os("TIERGATE_KERNEL_DEBUG")
            .map(|_| (PrintLevel::Info, (|_, text| eprint!("{text}")) as libbpf_rs::PrintCallback)),
    );
    let fault = |error| Fault::Load(io_error(error));
    let mut builder = ObjectBuilder::default();
    let opened = builder.name(name).map_err(fault)?.open_memory(object).map_err(fault)?;
    opened.load().map_err(fault)
}

/// A map of a loaded object, by its name.
pub(crate) fn map(object: &Object, name: &'static str) -> Result<MapHandle, Fault> {
    let found = object.maps().find(|map| map.name() == name).expect("the program declares it");
    MapHandle::try_from(&found).map_err(|error| Fault::Map { map: name, error: io_error(error) })
}
