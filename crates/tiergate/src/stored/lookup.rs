//! A request's part in the store: what it may get from there, bring there, or make go.

use super::context::Context;
use super::copy::{Copy, Refresh};
use super::store::{Key, Store};
use crate::clock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tiergate_core::admit::connections::Level;
use tiergate_core::names::PoolId;
use tiergate_core::request::RequestView;
use tiergate_core::stored::{Asked, Role, is_usable, role};
use tiergate_core::time::Moment;
use tiergate_wire::http1::RequestHead;

/// A copy that is no older is not replaced: making one costs a copy of the body.
const RECENT: Duration = Duration::from_secs(1);

/// What a request has of the store that may get a copy, or bring one.
#[derive(Debug)]
pub(crate) struct StoredRequest {
    pub(super) store: Arc<Store>,
    pub(super) key: Key,
    pub(super) asked: Asked,
    pub(super) context: Context,
    pub(super) age_max: Duration,
    /// Before anything was sent: what has changed since then may be missing in the answer.
    pub(super) epoch: u32,
    copy: Option<Arc<Copy>>,
    /// The target's epoch when the copy was found.
    found: u32,
    refresh: Option<Refresh>,
}

/// A request as far as copies go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'r> {
    /// The head as it goes to the origin.
    pub(crate) head: &'r RequestHead<'r>,
    /// What rules see of it.
    pub(crate) view: &'r RequestView<'r>,
    /// By TLS.
    pub(crate) secure: bool,
    /// Whether its peer's word about its clients is trusted.
    pub(crate) trusted: bool,
    /// Its client says who it is by other means than fields whose names tell.
    pub(crate) identified: bool,
    /// The pool that gives the best answer.
    pub(crate) pool: PoolId,
    /// The importance of the request's class, 0 the most; `None`: it gets no answer that is kept, because that is of less quality.
    pub(crate) brings: Option<Level>,
}

impl StoredRequest {
    /// That of a request whose rule lets copies be `age_max` old. Also says what the copy that is there may be served instead of, and
    /// until when. `None`: the store does not concern it.
    pub(crate) fn of(
        store: &Arc<Store>,
        target: &Target<'_>,
        age_max: Duration,
    ) -> Option<(Self, Role, Moment)> {
        let Target { head, view, .. } = *target;
        if head.host.is_empty() || !head.body.is_empty() {
            return None;
        }
        let asked = Asked::of(head.method, view.fields, target.identified)?;
        let context = Context::of(target.secure, target.pool, target.trusted, view.fields)?;
        let key = key(head);
        let found = store.epoch(&key);
        let copy = store.find(&key, &context, view.fields);
        let (mut role_of, mut refresh, mut until) = (Role::None, None, Moment::ZERO);
        if let Some(copy) = &copy {
            let now = clock::now();
            let held = copy.held(now, age_max);
            role_of = role(&asked, &held, || {
                let begin = |importance| Refresh::begin(&copy.mark, importance);
                refresh = target.brings.and_then(begin);
                refresh.is_some()
            });
            until = now + held.left();
        }
        let epoch = found;
        let store = store.clone();
        let own =
            StoredRequest { store, key, asked, context, age_max, epoch, copy, found, refresh };
        Some((own, role_of, until))
    }

    /// The request has its slot, and is about to be sent.
    pub(crate) fn begins(&mut self) {
        self.epoch = self.store.epoch(&self.key);
    }

    /// Whether the copy that was found when the request came may be served now: it is not too old, and its target has not changed.
    pub(crate) fn has_copy(&self) -> bool {
        self.copy.as_ref().is_some_and(|copy| {
            is_usable(&self.asked, &copy.held(clock::now(), self.age_max))
                && !copy.gone.load(Ordering::Relaxed)
                && self.store.epoch(&self.key) == self.found
        })
    }

    /// The copy that was found when the request came. The request brings no other one.
    pub(crate) fn into_copy(self) -> Option<Arc<Copy>> {
        self.copy
    }

    /// The request is not the one any more that brings a new copy, if it was.
    pub(crate) fn take_refresh(&mut self) -> Option<Refresh> {
        self.refresh.take()
    }

    /// Whether an answer of this status changes anything in the store.
    pub(crate) fn is_wanted(&self, status: u16) -> bool {
        matches!(status, 404 | 410) || status == 200 && !self.has_recent()
    }

    /// Whether it is this pool that gives the best answer.
    pub(crate) fn is_of(&self, pool: PoolId) -> bool {
        self.context.pool == pool
    }

    /// What it brings is not kept: what is there is young.
    fn has_recent(&self) -> bool {
        let recent = RECENT.min(self.age_max / 2);
        self.copy.as_ref().is_some_and(|copy| clock::now().since(copy.at) < recent)
    }
}

/// A request that changes its target if it succeeds (RFC 9111 §4.4). Dropped before that is known, it counts as having succeeded: its client
/// may have left.
#[derive(Debug)]
pub(crate) struct Change {
    store: Arc<Store>,
    key: Key,
    has_failed: bool,
}

impl Change {
    /// Of a request with this head, which goes to the origin. `None`: no copy can be of its target.
    pub(crate) fn of(store: &Arc<Store>, head: &RequestHead<'_>) -> Option<Self> {
        let new = || Change { store: store.clone(), key: key(head), has_failed: false };
        (!head.host.is_empty()).then(new)
    }

    /// The request got its final answer.
    pub(crate) fn answered(mut self, status: u16) {
        self.has_failed = !Change::is_made(status);
    }

    /// Whether a request with an answer of this status has changed its target.
    pub(crate) fn is_made(status: u16) -> bool {
        (200..400).contains(&status)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if !self.has_failed {
            self.store.change(&self.key);
        }
    }
}

fn key(head: &RequestHead<'_>) -> Key {
    let query = head.query;
    let mut key = Vec::with_capacity(head.host.len() + head.path.len() + query.len() + 2);
    key.extend(head.host.iter().map(u8::to_ascii_lowercase));
    key.push(0);
    key.extend_from_slice(head.path);
    if head.has_query {
        key.push(b'?');
        key.extend_from_slice(query);
    }
    key.into()
}
