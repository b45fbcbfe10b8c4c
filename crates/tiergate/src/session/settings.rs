//! What the policy says of sessions.

use super::token::Secrets;
use crate::secrets::NamedFile;
use tiergate_core::admit::session::Bounds;

/// How sessions are known again.
#[derive(Clone, Debug)]
pub struct Session {
    /// By which cookie.
    pub recognised: Recognised,
    /// How long they last, how many there may be.
    pub bounds: Bounds,
    /// The file that [`Recognised::Own`]'s secrets are read from by [`crate::config::load`]; `None`: they are
    /// this process's own.
    pub secret_file: Option<NamedFile>,
}

/// The cookie that names a session.
#[derive(Clone, Debug)]
pub enum Recognised {
    /// The application's, by its name.
    Application(String),
    /// Our own, signed by these.
    Own(Secrets),
}
