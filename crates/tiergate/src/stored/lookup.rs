//! A request's part in the store: what it may get from there, bring there, or make go.

use super::context::Context;
use super::copy::{Copy, Refresh};
use super::store::{Key, Store};
use crate::clock;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::names::PoolId;
use tiergate_core::request::RequestView;
use tiergate_core::stored::{Asked, Role, is_unsafe, is_usable, role};
use tiergate_wire::http1::RequestHead;

/// A copy that is no older is not replaced: making one costs a copy of the body.
const RECENT: Duration = Duration::from_secs(1);

/// A request's part in the store.
#[derive(Debug)]
pub(crate) struct StoredRequest {
    pub(super) store: Arc<Store>,
    pub(super) key: Key,
    /// `None`: it changes its target, if it succeeds.
    pub(super) reads: Option<Reads>,
}

/// What a request has of the store that may get a copy, or bring one.
#[derive(Debug)]
pub(super) struct Reads {
    pub(super) asked: Asked,
    pub(super) context: Context,
    pub(super) age_max: Duration,
    /// Before anything was sent.
    pub(super) epoch: u32,
    copy: Option<Arc<Copy>>,
    _refresh: Option<Refresh>,
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
    /// The pool that gives the best answer.
    pub(crate) pool: PoolId,
}

impl StoredRequest {
    /// That of a request whose rule lets copies be `age_max` old; zero: none are served. Also says what the copy that is there may
    /// be served instead of. `None`: the store does not concern it.
    pub(crate) fn of(
        store: &Arc<Store>,
        target: &Target<'_>,
        age_max: Duration,
    ) -> Option<(Self, Role)> {
        let Target { head, view, .. } = *target;
        if head.host.is_empty() {
            return None;
        }
        if is_unsafe(head.method) {
            let (store, key) = (store.clone(), key(head));
            return Some((StoredRequest { store, key, reads: None }, Role::None));
        }
        if age_max.is_zero() || !head.body.is_empty() {
            return None;
        }
        let identified = !view.certificate.is_empty() || !view.subject.is_empty();
        let asked = Asked::of(head.method, view.fields, identified)?;
        let context = Context::of(target.secure, target.pool, target.trusted, view.fields)?;
        let key = key(head);
        let epoch = store.epoch(&key);
        let copy = store.find(&key, &context, view.fields);
        let (mut role_of, mut refresh) = (Role::None, None);
        if let Some(copy) = &copy {
            let held = copy.held(clock::now(), age_max);
            role_of = role(&asked, &held, || {
                refresh = Refresh::begin(copy);
                refresh.is_some()
            });
        }
        let reads = Reads { asked, context, age_max, epoch, copy, _refresh: refresh };
        Some((StoredRequest { store: store.clone(), key, reads: Some(reads) }, role_of))
    }

    /// The copy that was found when the request came.
    pub(crate) fn copy(&self) -> Option<&Arc<Copy>> {
        self.reads.as_ref()?.copy.as_ref()
    }

    /// The same, if it may be served now.
    pub(crate) fn usable_copy(&self) -> Option<&Arc<Copy>> {
        let reads = self.reads.as_ref()?;
        let copy = reads.copy.as_ref()?;
        is_usable(&reads.asked, &copy.held(clock::now(), reads.age_max)).then_some(copy)
    }

    /// Whether an answer of this status changes anything in the store.
    pub(crate) fn is_wanted(&self, status: u16) -> bool {
        let is_read = matches!(status, 200 | 404 | 410);
        is_read && self.reads.as_ref().is_some_and(|it| !it.has_recent() || status != 200)
    }

    /// Whether it is this pool that gives the best answer.
    pub(crate) fn is_of(&self, pool: PoolId) -> bool {
        self.reads.as_ref().is_some_and(|it| it.context.pool == pool)
    }

    /// The request got its final answer: if it changes its target and has succeeded (RFC 9111 §4.4), copies of that go.
    pub(crate) fn answered(&self, status: u16) {
        if self.reads.is_none() && (200..400).contains(&status) {
            self.store.drop_copies(&self.key);
        }
    }
}

impl Reads {
    /// What it brings is not kept: what is there is young.
    pub(super) fn has_recent(&self) -> bool {
        let recent = RECENT.min(self.age_max / 2);
        self.copy.as_ref().is_some_and(|copy| clock::now().since(copy.at) < recent)
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
