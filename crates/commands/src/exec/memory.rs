//! Waiting for memory before an operation begins that may come to hold much.

use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use query::error::code;
use query::memory::MemoryPool;
use std::sync::Arc;
use std::time::Duration;

/// So long an operation waits for others to give memory back.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits while all memory for sorts, groups and joins is lent, of all users or of this one.
///
/// # Errors
/// `ExceededMemoryLimit` (146) when nothing came back in time; the reason for the operation's end.
pub(crate) async fn await_memory(context: &CommandContext<'_>) -> CommandResult {
    let (all, own) = (&context.server.host.memory_pool, context.client.memory_pool());
    let full = || match &own {
        _ if !all.has_room() => Some((all, "all")),
        Some(own) if !own.has_room() => Some((own, "this user's")),
        _ => None,
    };
    if full().is_none() {
        return Ok(());
    }
    let began = ambient::now();
    loop {
        let now = ambient::now();
        context.server.sleep(context.interrupt(), now + LOOK_EVERY).await?;
        let Some((pool, whose)) = full() else { return Ok(()) };
        if now.saturating_duration_since(began) >= PATIENCE {
            return Err(used_up(pool, whose));
        }
    }
}

fn used_up(pool: &Arc<MemoryPool>, whose: &str) -> CommandError {
    pool.count_refused();
    let message = format!(
        "the memory of {whose} sorts, groups and joins is in use ({} bytes of {}): try again later",
        pool.figures().used,
        pool.most()
    );
    CommandError::new(code::EXCEEDED_MEMORY_LIMIT, message)
}
