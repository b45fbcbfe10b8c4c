//! The servers of every pool.

use super::Origin;
use super::transport::Transport;
use crate::config::meant::{self, Policy};
use crate::observe::counters::Counters;
use crate::tls::TlsError;
use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;
use tiergate_core::fault::Fault;
use tiergate_core::names::{Id, PoolId};

/// Why a policy's servers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OriginFault {
    /// There are too many.
    #[error("{0}")]
    Servers(#[from] Fault),
    /// A file that TLS needs.
    #[error("{error}")]
    Tls {
        /// The pool's place in the policy: 0 is the default one.
        index: usize,
        /// What is wrong with it.
        error: TlsError,
    },
}

/// The servers of every pool of a policy.
#[derive(Debug)]
pub struct Pools {
    /// By the pool's id; `None`: the policy does not have it.
    origins: Vec<Option<ArcSwap<Origin>>>,
}

impl Pools {
    /// Those of the policy; what earlier policies learnt about a pool's servers, `former` knows. If none has changed,
    /// they are the same objects, so that their counts and checks go on.
    ///
    /// # Errors
    /// As [`Origin::new`]; and a file that TLS needs.
    pub fn new(
        policy: &Policy,
        former: Option<&Arc<Pools>>,
        counters: &Counters,
    ) -> Result<Arc<Self>, OriginFault> {
        let settings = std::iter::once(&policy.origin).chain(&policy.pools);
        let named = policy.plan.pool_ids().iter().zip(settings);
        let mut origins: Vec<Option<ArcSwap<Origin>>> = Vec::new();
        for (index, (id, settings)) in named.enumerate() {
            origins.resize_with(origins.len().max(id.index() + 1), || None);
            let former = former.and_then(|former| former.get(*id));
            let name = if *id == PoolId::DEFAULT { None } else { policy.plan.pool_name(*id) };
            let origin = pool(settings, policy, (index, name), former.as_deref(), counters)?;
            origins[id.index()] = Some(ArcSwap::new(origin));
        }
        let kept = former.filter(|former| {
            let same = |(one, other): (&Option<ArcSwap<Origin>>, &Option<ArcSwap<Origin>>)| match (
                one, other,
            ) {
                (Some(one), Some(other)) => Arc::ptr_eq(&one.load(), &other.load()),
                (one, other) => one.is_none() && other.is_none(),
            };
            former.origins.len() == origins.len() && former.origins.iter().zip(&origins).all(same)
        });
        Ok(kept.cloned().unwrap_or_else(|| Arc::new(Pools { origins })))
    }

    /// The servers of a pool that the policy has.
    pub fn of(&self, pool: PoolId) -> Guard<Arc<Origin>> {
        self.get(pool).expect("the policy has the pools of its requests")
    }

    /// The same; `None`: the policy does not have the pool.
    pub fn get(&self, pool: PoolId) -> Option<Guard<Arc<Origin>>> {
        Some(self.origins.get(pool.index())?.as_ref()?.load())
    }

    /// The pools that have no server left of those that they had.
    pub fn moved_from(&self, former: &Pools) -> impl Iterator<Item = PoolId> {
        let both = former.origins.iter().zip(&self.origins).enumerate();
        both.filter_map(|(index, pair)| {
            let (Some(former), Some(origin)) = pair else { return None };
            is_moved(&former.load(), &origin.load()).then(|| PoolId::at(index))
        })
    }

    /// The servers of each pool.
    pub fn iter(&self) -> impl Iterator<Item = Arc<Origin>> {
        self.origins.iter().flatten().map(ArcSwap::load_full)
    }

    /// The same, with the ids of the pools.
    pub fn with_ids(&self) -> impl Iterator<Item = (PoolId, Arc<Origin>)> {
        let all = self.origins.iter().enumerate();
        all.filter_map(|(index, origin)| Some((PoolId::at(index), origin.as_ref()?.load_full())))
    }

    /// Looks up the names of servers, as far as it is time, and puts other servers in force where they stand for others.
    /// Returns the pools where that is so, and whether none of their servers has stayed.
    pub async fn resolve(&self, counters: &Counters) -> Vec<(PoolId, bool)> {
        let mut changed = Vec::new();
        for (index, slot) in self.origins.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let origin = slot.load_full();
            if !origin.resolve().await {
                continue;
            }
            match origin.renewed(counters) {
                Ok(renewed) => {
                    let names = renewed.servers.iter().map(|it| it.name).collect::<Vec<_>>();
                    tracing::info!(pool = %origin.pool, "origin servers by their names: {}", names.join(", "));
                    changed.push((PoolId::at(index), is_moved(&origin, &renewed)));
                    slot.store(Arc::new(renewed));
                }
                Err(fault) => tracing::error!("the servers that names stood for stay: {fault}"),
            }
        }
        changed
    }
}

/// Whether no server has stayed.
fn is_moved(former: &Origin, origin: &Origin) -> bool {
    let stays = |server| former.servers.iter().any(|it| Arc::ptr_eq(it, server));
    !origin.servers.iter().any(stays)
}

/// The servers of one pool; the same object if nothing has changed.
fn pool(
    settings: &meant::Origin,
    policy: &Policy,
    (index, name): (usize, Option<&str>),
    former: Option<&Arc<Origin>>,
    counters: &Counters,
) -> Result<Arc<Origin>, OriginFault> {
    let pool = name.unwrap_or_default().to_owned();
    let known = former.and_then(|it| Some((&it.settings, it.transport.as_ref()?)));
    let transport = match Transport::new(settings, &policy.limits, known, &counters.origin_tls) {
        Ok(transport) => transport,
        Err(error) => return Err(OriginFault::Tls { index, error }),
    };
    let same = |former: &&Arc<Origin>| {
        let transports = (former.transport.as_ref(), transport.as_ref());
        former.settings == *settings
            && transports.0.map(Arc::as_ptr) == transports.1.map(Arc::as_ptr)
    };
    match former.filter(same) {
        Some(former) => Ok(former.clone()),
        None => {
            let former = former.map(|former| &**former);
            let origin = Origin::new(settings.clone(), former, counters)?;
            Ok(Arc::new(Origin { pool, transport, ..origin }))
        }
    }
}
