//! How requests of running sessions are recognised, as the policy says it.

use super::token::Secrets;
use crate::named_file::NamedFile;
use tiergate_core::admit::session::Bounds;

/// Name of our own cookie.
pub const COOKIE: &str = "tiergate_session";

/// How requests of running sessions are recognised.
#[derive(Clone, Debug)]
pub struct Session {
    /// By which cookie.
    pub recognised: Recognised,
    /// How long they last, how many there may be.
    pub bounds: Bounds,
    /// The file that [`Recognised::Own`]'s secrets are read from; `None`: they are this process's own.
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
