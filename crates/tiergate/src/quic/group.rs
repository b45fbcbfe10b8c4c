//! The sockets of an address leave together: when one closes, the kernel gives its place to the last, and packets of that
//! one's connections go to a thread that does not know them.

use std::sync::Arc;
use tokio::sync::watch;

/// One of the sockets of an address.
#[derive(Clone, Debug)]
pub struct Group {
    /// While any of them has connections.
    alive: Option<Arc<watch::Sender<()>>>,
    ended: watch::Receiver<()>,
}

impl Group {
    /// One of them; the others are its clones.
    pub fn first() -> Self {
        let (alive, ended) = watch::channel(());
        Group { alive: Some(Arc::new(alive)), ended }
    }

    /// It has no connections any more, and gets no more. Returns when that holds for all, and they may close. Cancel safe.
    pub async fn leave(&mut self) {
        self.alive = None;
        while self.ended.changed().await.is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn none_may_close_before_all_have_left() {
        let may_close = |group: &mut Group| {
            pin!(group.leave()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        let mut first = Group::first();
        let (mut second, third) = (first.clone(), first.clone());
        assert!(!may_close(&mut first) && !may_close(&mut second));
        drop(third);
        assert!(may_close(&mut first) && may_close(&mut second));
    }
}
