//! Fail points at which an operation waits until they are set to `off`.
//!
//! `data`: `nss` restricts it to a collection, `shouldCheckForInterrupt` lets a kill end the operation there,
//! `shouldContinueOnInterrupt` lets a kill end the wait only. Without either it waits on, as MongoDB does,
//! but not longer than its client and its server are there.

use super::FailPoint;
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::{RawArray, RawDocument, RawValue};
use std::time::Duration;

/// Between two looks at the fail point.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Copy)]
struct Wait {
    checks_for_interrupt: bool,
    continues_on_interrupt: bool,
}

impl Wait {
    /// `None`: another collection is meant.
    fn read(data: RawDocument<'_>, namespace: Option<&str>) -> Option<Self> {
        let is_on = |name| data.get(name).and_then(RawValue::as_bool).unwrap_or(false);
        let wanted = data.get("nss").and_then(RawValue::as_str).filter(|wanted| !wanted.is_empty());
        wanted.is_none_or(|wanted| Some(wanted) == namespace).then(|| Wait {
            checks_for_interrupt: is_on("shouldCheckForInterrupt"),
            continues_on_interrupt: is_on("shouldContinueOnInterrupt"),
        })
    }
}

/// Waits while the fail point is set and means this namespace. `killed` tells of ends that the interrupt
/// switch does not know.
///
/// # Errors
/// That of the interrupt switch, if the data wants that.
pub async fn wait_while_set<N: Node>(
    context: &CommandContext<'_, N>,
    point: FailPoint,
    namespace: Option<&str>,
    killed: impl Fn() -> bool,
) -> CommandResult {
    let Some(wait) = context.server.failpoints.enter(point, |data| Wait::read(data, namespace)) else {
        return Ok(());
    };
    context.operation.set_fail_point(Some(point.name()));
    let waited = wait_on(context, point, wait, killed).await;
    context.operation.set_fail_point(None);
    waited
}

/// `waitAfterCommandFinishesExecution`: the command is done. Its data restricts it to a collection by `ns`
/// and to commands by `commands`.
pub(crate) async fn wait_at_end<N: Node>(context: &CommandContext<'_, N>) {
    let point = FailPoint::WaitAfterCommandFinishesExecution;
    let meant = |data: RawDocument<'_>| {
        let on = data.get("ns").and_then(RawValue::as_str).filter(|wanted| !wanted.is_empty());
        let names = data.get("commands").and_then(RawValue::as_array).unwrap_or(RawArray::EMPTY);
        let named = names.is_empty() || names.iter().any(|name| name.as_str() == Some(context.command.name));
        let is_here =
            |wanted: &str| Some(wanted) == context.operation.with_namespace(str::to_owned).as_deref();
        (named && on.is_none_or(is_here)).then_some(())
    };
    // Whoever tests with this could not end it otherwise.
    let ends_it = matches!(context.command.name, "configureFailPoint" | "waitForFailPoint");
    if ends_it || context.server.failpoints.enter(point, meant).is_none() {
        return;
    }
    context.operation.set_fail_point(Some(point.name()));
    let wait = Wait { checks_for_interrupt: false, continues_on_interrupt: true };
    // It waits only: an interrupt ends the wait.
    let _ = wait_on(context, point, wait, || false).await;
    context.operation.set_fail_point(None);
}

async fn wait_on<N: Node>(
    context: &CommandContext<'_, N>,
    point: FailPoint,
    wait: Wait,
    killed: impl Fn() -> bool,
) -> CommandResult {
    let server = context.server;
    while server.failpoints.is_set(point) {
        server.sleep_until(ambient::now() + PAUSE).await;
        let interrupted = context.interrupt().check();
        if wait.continues_on_interrupt {
            if interrupted.is_err() || killed() {
                break;
            }
        } else if wait.checks_for_interrupt {
            interrupted?;
            if killed() {
                break;
            }
        } else if server.is_shutting_down() || context.client.link.is_gone() {
            break;
        }
    }
    Ok(())
}
