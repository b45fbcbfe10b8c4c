//! Where a rule or a class sends its requests.

use super::PoolId;

/// One pool, or several by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// To this pool.
    Pool(PoolId),
    /// By the split at this place of the plan's ([`crate::plan::Spec::splits`]).
    Split(u16),
}

impl Default for Route {
    fn default() -> Self {
        Route::Pool(PoolId::DEFAULT)
    }
}

impl From<PoolId> for Route {
    fn from(pool: PoolId) -> Self {
        Route::Pool(pool)
    }
}
