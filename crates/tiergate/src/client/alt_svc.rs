//! `Alt-Svc` (RFC 7838): how a client that came by TCP learns that the listener serves HTTP/3, too.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | serves | the thread that opens and closes the listener's UDP sockets | each answer over HTTP/1.1 and HTTP/2 |

use std::sync::atomic::{AtomicBool, Ordering};

/// How long a client may remember it, in seconds: an hour. When HTTP/3 is taken away, or UDP is blocked on the way, such a
/// client tries UDP first, and falls back to TCP when nothing answers.
const REMEMBER_S: u32 = 3600;

/// That a listener serves HTTP/3, too, while it does.
#[derive(Debug)]
pub struct AltSvc {
    value: String,
    serves: AtomicBool,
}

impl AltSvc {
    /// Of a listener with this port. It does not serve yet.
    pub fn new(port: u16) -> Self {
        let value = format!("h3=\":{port}\"; ma={REMEMBER_S}");
        AltSvc { value, serves: AtomicBool::new(false) }
    }

    /// Whether the UDP sockets are open and take connections, from now on.
    pub fn set(&self, serves: bool) {
        self.serves.store(serves, Ordering::Relaxed);
    }

    /// The field's value, while HTTP/3 is served.
    pub fn value(&self) -> Option<&str> {
        self.serves.load(Ordering::Relaxed).then_some(&self.value)
    }
}
