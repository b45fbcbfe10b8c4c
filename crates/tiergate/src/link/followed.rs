//! The interface whose capacity is that of the link: read when the kernel says that a queue has changed, and again and again, so that the
//! link follows a shaper that somebody changes.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | the last reading, and what is wrong | its task | `/status`, metrics |

use super::notices::Notices;
use crate::interface::capacity::{self, Capacity, Source};
use crate::interface::name::InterfaceName;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often it is read at least: two programs are started each time.
const EVERY: Duration = Duration::from_secs(5);
/// How long it is not read after a queue has changed: shapers are made by several commands.
const SETTLES: Duration = Duration::from_millis(50);
/// How long it is not read again after that: some change again and again.
const SELDOM: Duration = Duration::from_millis(500);
/// How often it is read at once where it has changed and cannot be read: shapers are replaced by several commands.
const TRIES: u32 = 5;

/// What the link carries where the policy does not say it, for `/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCapacity {
    /// The interface that says so. Absent: it is estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The capacity in force.
    pub bits_per_second: u64,
    /// What said so.
    pub from: Source,
    /// Why it cannot be read now; the last reading holds. Absent: it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Readings that failed since the policy was read.
    pub failures: u64,
}

/// An interface that the link's capacity follows.
#[derive(Debug)]
pub struct FollowedInterface {
    name: InterfaceName,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    capacity: Capacity,
    fault: Option<String>,
    failures: u64,
}

/// What an interface says of what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// That may be another amount now: it is being read.
    Changes,
    /// It is what it was, or cannot be read.
    AsBefore,
    /// So many bits a second.
    Carries(u64),
}

/// What a reading is to be logged as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// Nothing.
    None,
    /// It cannot be read any more.
    Failed,
    /// It can be read again, or is another one.
    Changed,
}

impl FollowedInterface {
    /// An interface of which this was read.
    pub fn new(name: InterfaceName, capacity: Capacity) -> Self {
        FollowedInterface { name, state: Mutex::new(State { capacity, fault: None, failures: 0 }) }
    }

    /// Reads it again and again, for as long as this is polled, and says what it carries.
    pub(crate) async fn follow(self: Arc<Self>, says: impl Fn(&Arc<Self>, Said)) {
        let notices = Notices::subscribe()
            .inspect_err(|error| tracing::warn!("link: the kernel does not say when queues change ({error}); a changed shaper is noticed within {EVERY:?}"))
            .ok();
        // It may have changed since the policy was read, and told nobody.
        let (mut has_changed, mut tries) = (false, 0);
        loop {
            if has_changed {
                // What is sent until it is read would wait before a link that has become slower.
                if tries == 0 {
                    says(&self, Said::Changes);
                }
                tokio::time::sleep(SETTLES).await;
            }
            // Before it is read: a change during that is told again.
            notices.iter().for_each(Notices::clear);
            let name = self.name.clone();
            // It waits for programs.
            let read = tokio::task::spawn_blocking(move || capacity::read(&name)).await;
            let read = match read {
                Ok(read) => read.map_err(|fault| fault.to_string()),
                Err(panicked) => Err(panicked.to_string()),
            };
            tries = if has_changed && read.is_err() { tries + 1 } else { 0 };
            if (1..TRIES).contains(&tries) {
                continue;
            }
            tries = 0;
            let news = self.state().took(read);
            let State { capacity, fault, .. } = self.state().clone();
            let (interface, bits) = (&self.name, capacity.bits);
            match news {
                News::None => {}
                News::Failed => {
                    let fault = fault.unwrap_or_default();
                    tracing::warn!(
                        "link: {fault}; it is read again, and {bits} bit/s hold meanwhile"
                    );
                }
                News::Changed => {
                    tracing::info!(
                        "link: {interface} carries {bits} bit/s, by {}",
                        capacity.from.words()
                    );
                }
            }
            // Parts of the link begin anew with each capacity.
            says(&self, if news == News::Changed { Said::Carries(bits) } else { Said::AsBefore });
            let mut is_seldom = std::pin::pin!(tokio::time::sleep(SELDOM));
            has_changed = match &notices {
                Some(notices) if has_changed => tokio::select! {
                    () = notices.changed(self.name.as_str()) => {
                        says(&self, Said::Changes);
                        is_seldom.await;
                        true
                    }
                    () = &mut is_seldom => false,
                },
                _ => false,
            };
            if !has_changed {
                has_changed = self.has_changed_or_is_due(notices.as_ref()).await;
            }
        }
    }

    /// Waits until a queue of it has changed, or it is time to look again all the same; whether it has changed.
    async fn has_changed_or_is_due(&self, notices: Option<&Notices>) -> bool {
        let due = tokio::time::sleep(EVERY);
        let Some(notices) = notices else {
            due.await;
            return false;
        };
        tokio::select! {
            () = notices.changed(self.name.as_str()) => true,
            () = due => false,
        }
    }

    /// What is known of it.
    pub(super) fn status(&self) -> LinkCapacity {
        let State { capacity, fault, failures } = self.state().clone();
        LinkCapacity {
            interface: Some(self.name.to_string()),
            bits_per_second: capacity.bits,
            from: capacity.from,
            fault,
            failures,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// It was read, or could not be; what there is to say, once.
    fn took(&mut self, read: Result<Capacity, String>) -> News {
        match read {
            Ok(capacity) => {
                let was_silent = self.fault.take().is_some();
                let is_new = std::mem::replace(&mut self.capacity, capacity) != capacity;
                if was_silent || is_new { News::Changed } else { News::None }
            }
            Err(fault) => {
                self.failures += 1;
                let has_begun = self.fault.replace(fault).is_none();
                if has_begun { News::Failed } else { News::None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reading_holds_and_what_is_wrong_is_said_once() {
        let of = |bits| Capacity { bits, from: Source::Htb };
        let name = InterfaceName::parse("eth0").expect("a name");
        let followed = FollowedInterface::new(name, of(98));
        let took =
            |read: Result<u64, &str>| followed.state().took(read.map(of).map_err(str::to_owned));
        assert_eq!(
            [took(Ok(98)), took(Ok(49)), took(Ok(49))],
            [News::None, News::Changed, News::None]
        );
        assert_eq!([took(Err("gone")), took(Err("still gone"))], [News::Failed, News::None]);
        let status = followed.status();
        assert_eq!((status.bits_per_second, status.failures), (49, 2));
        assert_eq!(status.fault.as_deref(), Some("still gone"));
        assert_eq!(took(Ok(49)), News::Changed, "it is back");
        assert_eq!(followed.status().fault, None);
    }
}
