//! Interfaces by name.

use crate::fault::Fault;
use std::ffi::CString;

/// The number of an interface of this network namespace.
///
/// # Errors
/// There is none of that name.
pub(crate) fn interface_index(name: &str) -> Result<i32, Fault> {
    let missing = || Fault::NoInterface(name.to_owned());
    let path = CString::new(name).map_err(|_| missing())?;
    nix::net::if_::if_nametoindex(path.as_c_str()).map(|index| index as i32).map_err(|_| missing())
}
