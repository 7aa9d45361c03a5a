//! `killCursors`: closes cursors of one collection.
//!
//! Source: MongoDB manual, "killCursors" (database command).

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::node::Node;
use access::{AccessTarget, Action};
use document::{DocumentBuilder, RawValue};

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        api_version_1: true,
        ..Command::diagnostic_walk("killCursors", "Closes cursors of a collection.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let fields = &mut context.fields;
    let given = fields.array("cursors")?.ok_or_else(|| fields.missing("cursors"))?;
    fields.finish()?;
    let mut ids = Vec::new();
    for value in given.iter() {
        match value {
            RawValue::Int64(id) => ids.push(id),
            other => return Err(fields.wrong_type("cursors", other.kind(), &["long"])),
        }
    }
    let namespace = format!("{database}.{name}");
    let cursors = &context.server.cursors;
    let (mut killed, mut missing) = (Vec::new(), Vec::new());
    let may_any = context.may(AccessTarget::Collection(database, name), Action::KillAnyCursor);
    let is_foreign = |id: &i64| {
        let found = cursors.namespace(*id).filter(|(of, _)| *of == namespace);
        found.is_some_and(|(_, owner)| !context.owns(owner.as_ref()))
    };
    if !may_any && ids.iter().any(is_foreign) {
        let message = format!("not authorized to kill cursor on {namespace}");
        return Err(CommandError::new(code::UNAUTHORIZED, message));
    }
    for id in ids {
        let is_ours = cursors.namespace(id).is_some_and(|(of, _)| of == namespace);
        if is_ours && cursors.kill(id) { killed.push(id) } else { missing.push(id) }
    }
    let lists: [(&str, &[i64]); 4] = [
        ("cursorsKilled", &killed),
        ("cursorsNotFound", &missing),
        ("cursorsAlive", &[]),
        ("cursorsUnknown", &[]),
    ];
    for (field, ids) in lists {
        let mut list = reply.start_array(field);
        for id in ids {
            list.push(*id);
        }
    }
    Ok(())
}
