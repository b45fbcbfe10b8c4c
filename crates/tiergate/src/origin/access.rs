//! Tells the gate which servers may get requests, where each has a limit of its own and the gate chooses.

use crate::shared::Shared;
use std::time::Duration;

/// So often it is told. A request that goes to a server which was left out meanwhile goes on to another.
const EVERY: Duration = Duration::from_millis(100);
/// How often it is looked whether there is anything to tell.
const IDLE: Duration = Duration::from_secs(1);

/// Tells it, for as long as the runtime lives. One task of the process.
pub async fn follow(shared: &Shared) {
    loop {
        let pools = shared.config.load().pools.clone();
        let mut is_any = false;
        for (pool, origin) in pools.with_ids().filter(|(_, it)| it.settings.slots_per_server) {
            shared.door.set_access(pool, &origin.access());
            is_any = true;
        }
        tokio::time::sleep(if is_any { EVERY } else { IDLE }).await;
    }
}
