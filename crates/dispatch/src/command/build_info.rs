//! `buildInfo`: what this server is. It presents itself as MongoDB 7.0, whose behaviour it has.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::{DocumentBuilder, MAX_DOCUMENT_SIZE};

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        aliases: &["buildinfo"],
        ..Command::diagnostic("buildInfo", "Tells version and build of the server.", Run::Now(run))
    }
}

/// The MongoDB version whose behaviour clients find here.
pub const MONGODB_VERSION: &str = "7.0.28";
/// The same as numbers; the last one is 0 for releases.
pub const MONGODB_VERSION_ARRAY: [i32; 4] = [7, 0, 28, 0];

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    write(reply);
    Ok(())
}

/// The version of what is stored, as MongoDB counts it.
pub const FEATURE_VERSION: &str = "7.0";

/// Appends the fields of `buildInfo`.
pub fn write(reply: &mut DocumentBuilder<'_>) {
    reply.append("version", MONGODB_VERSION).append("gitVersion", env!("CARGO_PKG_VERSION"));
    reply.start_array("modules").finish();
    reply.append("allocator", "system").append("javascriptEngine", "none").append("sysInfo", "deprecated");
    let mut numbers = reply.start_array("versionArray");
    for number in MONGODB_VERSION_ARRAY {
        numbers.push(number);
    }
    numbers.finish();
    let mut heddle = reply.start_document("heddle");
    heddle.append("version", env!("CARGO_PKG_VERSION")).append("license", env!("CARGO_PKG_LICENSE"));
    heddle.finish();
    let mut openssl = reply.start_document("openssl");
    openssl.append("running", "disabled").append("compiled", "disabled");
    openssl.finish();
    let mut build = reply.start_document("buildEnvironment");
    build.append("target_arch", std::env::consts::ARCH).append("target_os", std::env::consts::OS);
    build.finish();
    reply.append("bits", usize::BITS.cast_signed()).append("debug", cfg!(debug_assertions));
    reply.append("maxBsonObjectSize", MAX_DOCUMENT_SIZE as i32);
    let mut engines = reply.start_array("storageEngines");
    engines.push("rocksdb");
    engines.finish();
}
