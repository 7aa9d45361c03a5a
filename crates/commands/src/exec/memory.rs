//! Waiting for memory before an operation begins that may come to hold much.

use crate::error::{CommandError, CommandResult};
use crate::server::ServiceContext;
use dispatch::interrupt::Interrupt;
use query::error::code;
use std::time::Duration;

/// So long an operation waits for others to give memory back.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits while all memory for sorts, groups and joins is lent.
///
/// # Errors
/// `ExceededMemoryLimit` (146) when nothing came back in time; the reason for the operation's end.
pub(crate) async fn await_memory(server: &ServiceContext, interrupt: &Interrupt) -> CommandResult {
    let pool = &server.host.memory_pool;
    if pool.has_room() {
        return Ok(());
    }
    let began = ambient::now();
    loop {
        let now = ambient::now();
        server.sleep(interrupt, now + LOOK_EVERY).await?;
        if pool.has_room() {
            return Ok(());
        }
        if now.saturating_duration_since(began) >= PATIENCE {
            pool.count_refused();
            let message = format!(
                "the memory of all sorts, groups and joins is in use ({} bytes of {}): try again later",
                pool.figures().used,
                pool.most()
            );
            return Err(CommandError::new(code::EXCEEDED_MEMORY_LIMIT, message));
        }
    }
}
