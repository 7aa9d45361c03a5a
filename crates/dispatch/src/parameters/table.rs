//! Every tunable of the server. Sorted by name within each part.

use super::definition::{Definition, Kind};
use super::listener_limits::check as check_listener_limits;
use super::service_executor::ExecutorChoice;

macro_rules! parameters {
    ($($identifier:ident $name:literal $kind:expr, $unit:literal, $access:ident($($at:literal)*),
        $meaning:literal;)*) => {
        /// The tunables by name; the discriminant is the row of [`DEFINITIONS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Parameter {
            $(#[doc = $meaning] $identifier,)*
        }

        /// The definition of every tunable.
        pub static DEFINITIONS: &[Definition] = &[
            $($access($name, $kind, $unit, [$($at),*], $meaning),)*
        ];

        /// Every tunable.
        pub const ALL: &[Parameter] = &[$(Parameter::$identifier,)*];
    };
}

/// A start option: `[flag, path in the YAML file]`.
const fn start(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    at: [&'static str; 2],
    meaning: &'static str,
) -> Definition {
    let [flag, yaml] = at;
    Definition {
        flag: if flag.is_empty() { None } else { Some(flag) },
        yaml: Some(yaml),
        is_server_parameter: false,
        ..fixed(name, kind, unit, [], meaning)
    }
}

/// A start option that `setParameter` changes as well: `[flag, path in the YAML file]`.
const fn both(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    at: [&'static str; 2],
    meaning: &'static str,
) -> Definition {
    Definition { is_server_parameter: true, changes_at_runtime: true, ..start(name, kind, unit, at, meaning) }
}

/// A server parameter that changes while the server runs.
const fn runtime(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    _: [&'static str; 0],
    meaning: &'static str,
) -> Definition {
    Definition {
        name,
        meaning,
        unit,
        kind,
        flag: None,
        yaml: None,
        is_server_parameter: true,
        changes_at_runtime: true,
    }
}

/// A server parameter that is fixed at the start.
const fn fixed(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    at: [&'static str; 0],
    meaning: &'static str,
) -> Definition {
    Definition { changes_at_runtime: false, ..runtime(name, kind, unit, at, meaning) }
}

const fn off() -> Kind {
    Kind::Boolean { default: false }
}

const fn on() -> Kind {
    Kind::Boolean { default: true }
}

const fn integer(default: i64, min: i64, max: i64) -> Kind {
    assert!(min <= default && default <= max, "the default lies within the range");
    Kind::Integer { default, min, max }
}

const fn text(default: &'static str) -> Kind {
    Kind::Text { default }
}

/// A length of time in hours.
fn check_hours(text: &str) -> Result<(), String> {
    match text.parse::<f64>() {
        Ok(hours) if hours.is_finite() && hours >= 0.0 => Ok(()),
        _ => Err(format!("expected a number of hours, 0 or more, found '{text}'")),
    }
}

/// Versions of TLS as MongoDB names them.
fn check_protocols(text: &str) -> Result<(), String> {
    const KNOWN: [&str; 5] = ["TLS1_0", "TLS1_1", "TLS1_2", "TLS1_3", "none"];
    let mut names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    match names.find(|name| !KNOWN.contains(name)) {
        Some(unknown) => Err(format!("Unrecognized disabledProtocols '{unknown}'")),
        None => Ok(()),
    }
}

/// A size of the cache as mongod takes it.
fn check_cache_size_gb(text: &str) -> Result<(), String> {
    match text.parse::<f64>() {
        Ok(gib) if (0.0..=10_000.0).contains(&gib) => Ok(()),
        _ => Err(format!("expected a number from 0 to 10000, found '{text}'")),
    }
}

const MIB: i64 = 1 << 20;
/// A day: longer times are slips of the keyboard.
const DAY_MS: i64 = 24 * 3600 * 1000;

parameters! {
    BindIp "net.bindIp" text("127.0.0.1"), "", start("bind_ip" "net.bindIp"),
        "Addresses or host names to listen on, separated by commas. Without authentication it is wise to \
        stay on this machine.";
    BindIpAll "net.bindIpAll" off(), "", start("bind_ip_all" "net.bindIpAll"),
        "Listens on every IPv4 address of the machine.";
    Compressors "net.compression.compressors" text("snappy,zstd,zlib"), "",
        start("networkMessageCompressors" "net.compression.compressors"),
        "Compressors offered to clients, in order of preference, separated by commas; `disabled` for none.";
    MaxConnections "maxIncomingConnections" integer(0, 0, 1_000_000), "connections",
        both("maxConns" "net.maxIncomingConnections"),
        "Connections beyond this number are refused. 0, and the limit in any case: as many as the process \
        may open descriptors, less a reserve of a twentieth (256 to 4,352) for files.";
    ListenerMaxConnections "net.listenerMaxIncomingConnections" Kind::Form { default: "",
        form: "`address=number` pairs, separated by commas", check: check_listener_limits }, "connections",
            start("listenerMaxConns" "net.listenerMaxIncomingConnections"),
        "Connections beyond this number are refused at single listeners, named as in net.bindIp (a Unix \
        socket by its path), so that those of others have their part of net.maxIncomingConnections.";
    Port "net.port" integer(27_017, 0, 65_535), "", start("port" "net.port"),
        "TCP port; 0 takes a free one and tells it in the log line \"Listening on\".";
    PriorityPort "net.priorityPort" integer(0, 0, 65_535), "", start("priorityPort" "net.priorityPort"),
        "A second TCP port, on the same addresses, whose connections are served by the diagnostic lane \
        whatever they ask and are never refused because of load; 0 for none.";
    ServiceExecutor "serviceExecutor" Kind::Form { default: "auto", form: "synchronous, adaptive, reactor, \
        coroutine, auto; or `address=name` pairs, separated by commas", check: ExecutorChoice::check }, "",
            both("serviceExecutor" "net.serviceExecutor"),
        "Thread model of new connections. `synchronous` is a thread per connection; `adaptive` an elastic \
        pool of threads; `reactor` an event loop per core and a pool for what takes long; `coroutine` the \
        same over one ring per core; `auto` is `coroutine`. Pairs set it for single listeners, named as in \
        net.bindIp (a Unix socket by its path); one name without an address is for all others.";
    TlsAllowWithoutCertificates "net.tls.allowConnectionsWithoutCertificates" off(), "",
            start("tlsAllowConnectionsWithoutCertificates" "net.tls.allowConnectionsWithoutCertificates"),
        "Clients need no certificate although net.tls.CAFile is given; one that they send is looked at.";
    TlsCaFile "net.tls.CAFile" text(""), "", start("tlsCAFile" "net.tls.CAFile"),
        "Authorities, in PEM: a client must have a certificate of one of them. Empty: clients are asked for \
        none.";
    TlsCrlFile "net.tls.CRLFile" text(""), "", start("tlsCRLFile" "net.tls.CRLFile"),
        "Revoked certificates of clients, in PEM; empty for none.";
    TlsCertificateKeyFile "net.tls.certificateKeyFile" text(""), "",
            start("tlsCertificateKeyFile" "net.tls.certificateKeyFile"),
        "The server's certificate, those between it and its authority, and its private key (not encrypted), \
        in PEM. rotateCertificates reads all files anew.";
    TlsClusterFile "net.tls.clusterFile" text(""), "", start("tlsClusterFile" "net.tls.clusterFile"),
        "The certificate that this member shows to the others of its set, and its key (not encrypted), in \
        PEM. Empty: that of net.tls.certificateKeyFile.";
    TlsDisabledProtocols "net.tls.disabledProtocols" Kind::Form { default: "",
        form: "TLS1_0, TLS1_1, TLS1_2, TLS1_3, none, separated by commas", check: check_protocols }, "",
            start("tlsDisabledProtocols" "net.tls.disabledProtocols"),
        "Versions of TLS that are not spoken; TLS1_0 and TLS1_1 never are.";
    TlsMode "net.tls.mode" Kind::Choice { default: "disabled",
        allowed: &["disabled", "allowTLS", "preferTLS", "requireTLS"] }, "",
            start("tlsMode" "net.tls.mode"),
        "Whether clients may (`allowTLS`, `preferTLS`) or must (`requireTLS`) speak TLS. A connection's \
        first bytes tell whether it does; on Unix sockets nobody does.";
    UnixSocketEnabled "net.unixDomainSocket.enabled" on(), "", start("" "net.unixDomainSocket.enabled"),
        "Listens on a Unix socket as well; the flag `--nounixsocket` turns it off.";
    UnixSocketPermissions "net.unixDomainSocket.filePermissions" integer(0o700, 0, 0o777), "file mode",
        start("filePermissions" "net.unixDomainSocket.filePermissions"),
        "Permissions of the socket file (448 is 0700: the owner only).";
    UnixSocketPrefix "net.unixDomainSocket.pathPrefix" text("/tmp"), "",
        start("unixSocketPrefix" "net.unixDomainSocket.pathPrefix"),
        "Directory of the socket file `mongodb-<port>.sock`.";
    PidFilePath "processManagement.pidFilePath" text(""), "",
        start("pidfilepath" "processManagement.pidFilePath"),
        "File to write the process id into; empty for none.";
    MemoryLimitMb "memoryLimitMB" integer(0, 0, 1 << 30), "MiB",
        both("memoryLimitMB" "processManagement.memoryLimitMB"),
        "Memory that the whole process may use: caches, memtables, cursors, sorts, groups, connections, \
        requests, replies. What takes its share from the memory takes it from this; near the limit caches \
        shrink, sorts and groups go to the disk sooner, then requests wait, and at last they are refused \
        with error 146. 0, and the most in any case: what the machine and its control groups allow. Less \
        than 256 counts as 256. While the server runs it cannot become less than twice what memtables of the \
        size that memtableSizeMB gives may take.";
    OplogSizeMb "replication.oplogSizeMB" integer(0, 0, 1 << 30), "MiB",
        start("oplogSize" "replication.oplogSizeMB"),
        "Size beyond which the oldest entries of a new oplog go; 0 takes a twentieth of the disk's free \
        room, and from 990 MiB to 50 GiB. An oplog that is there keeps its size, which replSetResizeOplog \
        changes.";
    ReplSetName "replication.replSetName" text(""), "", start("replSet" "replication.replSetName"),
        "Name of the replica set that this server is a member of; empty for none. A new set begins with \
        replSetInitiate.";
    Authorization "security.authorization" Kind::Choice { default: "disabled",
        allowed: &["disabled", "enabled"] }, "", start("" "security.authorization"),
        "`enabled` holds every request to the privileges of who is logged in; the flag `--auth` does so, \
        too. Without any user, who comes from this machine may make the first one.";
    ClusterAuthMode "security.clusterAuthMode" Kind::Choice { default: "keyFile",
        allowed: &["keyFile", "sendKeyFile", "sendX509", "x509"] }, "",
            start("clusterAuthMode" "security.clusterAuthMode"),
        "By what the members of a set know each other: the key of security.keyFile, or certificates with the \
        same organisation, unit and domain components (`x509`; net.tls.CAFile says whose). `sendKeyFile` and \
        `sendX509` show the one and believe both, to go over member by member.";
    EnableEncryption "security.enableEncryption" off(), "",
        start("enableEncryption" "security.enableEncryption"),
        "Encrypts what is written to the data directory, with a key from security.encryptionKeyFile or \
        security.encryptionKeyCommand. For a new directory, and from then on for each start with it: one \
        that holds data which are not encrypted is refused.";
    EncryptionCipherMode "security.encryptionCipherMode" Kind::Choice { default: "AES256-GCM",
        allowed: &["AES256-GCM"] }, "", start("encryptionCipherMode" "security.encryptionCipherMode"),
        "The cipher of security.enableEncryption; there is one.";
    EncryptionKeyCommand "security.encryptionKeyCommand" text(""), "",
        start("encryptionKeyCommand" "security.encryptionKeyCommand"),
        "A command of the shell that prints the key of security.enableEncryption on its standard output, as \
        security.encryptionKeyFile has it. It is run at each start.";
    EncryptionKeyFile "security.encryptionKeyFile" text(""), "",
        start("encryptionKeyFile" "security.encryptionKeyFile"),
        "File with the key of security.enableEncryption: 32 bytes in base64. Its owner alone may read it. \
        Without it the data cannot be read: keep a copy elsewhere.";
    KeyFile "security.keyFile" text(""), "", start("keyFile" "security.keyFile"),
        "File with the key by which the members of a set know each other: 6 to 1024 characters of base64, \
        white space aside, or a list of two while they change it. Its owner alone may read it. Turns \
        security.authorization on. Empty: members believe whoever reaches them.";
    TransitionToAuth "security.transitionToAuth" off(), "",
            start("transitionToAuth" "security.transitionToAuth"),
        "A member with security.keyFile or certificates logs in at others that want it to, and believes \
        those that do not; clients may log in, and nobody has to. While a set goes over to access control, \
        member by member.";
    RedactClientLogData "redactClientLogData" off(), "",
        both("redactClientLogData" "security.redactClientLogData"),
        "Values of clients' documents and commands are `###` in the log; names of fields, collections and \
        users stay. It is not about the audit log. Passwords and keys are in no line in any case.";
    DbPath "storage.dbPath" text("./heddle-data"), "", start("dbpath" "storage.dbPath"),
        "Directory of the data; created when missing.";
    DiskReserveMb "storage.diskReserveMB" integer(-1, -1, 1 << 20), "MiB",
        start("diskReserveMB" "storage.diskReserveMB"),
        "Room set aside on the data disk, and kept free beside it. With less, writes that grow are refused; \
        on a full disk it is given up for deletes, drops and compaction. -1 takes a hundredth of the disk, \
        within bounds; 0 none. Less than four times storage.rocksdb.memtableSizeMB helps little.";
    OplogMinRetention "storage.oplogMinRetentionHours" Kind::Form { default: "0",
        form: "hours, with a fraction or without", check: check_hours }, "h",
            start("oplogMinRetentionHours" "storage.oplogMinRetentionHours"),
        "Entries of the oplog that are younger stay, whatever its size; 0 for none.";
    CacheSizeMb "cacheSizeMB" integer(0, 0, 16 * MIB), "MiB",
        both("cacheSizeMB" "storage.rocksdb.cacheSizeMB"),
        "Memory for cached data, blocks and hot documents together; 0 takes \
        storage.wiredTiger.engineConfig.cacheSizeGB, or else half of the memory that the \
        process may use beyond 1 GiB, or a third beyond 256 MiB where that is more. What it may use is the \
        machine's memory, or less where a control group says so.";
    WiredTigerCacheSizeGb "storage.wiredTiger.engineConfig.cacheSizeGB" Kind::Form { default: "0",
        form: "GiB, with a fraction or without; 0 to 10000", check: check_cache_size_gb }, "GiB",
            start("wiredTigerCacheSizeGB" "storage.wiredTiger.engineConfig.cacheSizeGB"),
        "storage.rocksdb.cacheSizeMB under the name that mongod has for it; counts where that is 0.";
    DirtyTarget "dirtyTarget" integer(0, 0, 1 << 50), "% or bytes",
        both("dirtyTarget" "storage.rocksdb.dirtyTarget"),
        "With so many unflushed bytes, the largest memtable is flushed before it is full: up to 100 in \
        percent of the cache, or of sixteen memtables where these are more, and beyond in bytes, as \
        WiredTiger's eviction_dirty_target. 0: memtables are flushed when they are full or \
        storage.syncPeriodSecs old.";
    DirtyTrigger "dirtyTrigger" integer(0, 0, 1 << 50), "% or bytes",
        both("dirtyTrigger" "storage.rocksdb.dirtyTrigger"),
        "From so many unflushed bytes on commits are slowed, and from half as many more on they wait: in the \
        units of dirtyTarget, as WiredTiger's eviction_dirty_trigger. 0: only memtables that wait for \
        their flush count, three of them, or two with less than 4 GiB of memory.";
    BackgroundThreadsMin "backgroundThreadsMin" integer(0, 0, 256), "threads",
        both("backgroundThreadsMin" "storage.rocksdb.backgroundThreadsMin"),
        "Threads of flush and compaction while they are not behind; 0 is as many as at most.";
    BackgroundThreadsMax "backgroundThreadsMax" integer(0, 0, 256), "threads",
        both("backgroundThreadsMax" "storage.rocksdb.backgroundThreadsMax"),
        "Threads of flush and compaction; 0 takes one per core, and from 3 to 16.";
    LatencyTarget "latencyTargetMs" integer(5, 1, 60_000), "ms",
        both("latencyTargetMs" "storage.rocksdb.latencyTargetMs"),
        "When more than one in a hundred groups of commits, syncs that are waited for and reads takes \
        longer than this, work in the background gets less of the disk, as far as flush and compaction \
        are not behind.";
    SyncDelay "syncdelay" integer(60, 0, 9_000_000), "s",
        both("syncdelay" "storage.syncPeriodSecs"),
        "A write that is older than this is flushed, and is not replayed by a start: what the interval of \
        checkpoints is for MongoDB. 0 is no bound but journalSizeMB.";
    JournalSizeMb "journalSizeMB" integer(1_024, 16, 1 << 20), "MiB",
        both("journalSizeMB" "storage.rocksdb.journalSizeMB"),
        "What a start may have to replay of the journal; the oldest memtables are flushed when it is more. A \
        sixteenth of the file system at most.";
    RowCachePercent "rowCachePercent" integer(25, 0, 90), "%",
        both("rowCachePercent" "storage.rocksdb.rowCachePercent"),
        "Share of storage.rocksdb.cacheSizeMB for hot documents as they are, which answers reads by `_id` \
        and updates without a search in blocks; 0 keeps blocks only.";
    MemtableSizeMb "memtableSizeMB" integer(0, 0, 1 << 16), "MiB",
        both("memtableSizeMB" "storage.rocksdb.memtableSizeMB"),
        "Size at which a memtable is written to disk; 0 takes a thirty-second of \
        storage.rocksdb.cacheSizeMB, and from 64 to 256 MiB, but at most a sixty-fourth of the memory that \
        the process may use. While the server runs all memtables together, ten or fourteen of them, cannot \
        be given more than half of the memory.";
    BackgroundMbPerSecond "backgroundMBPerSecond" integer(0, 0, 1 << 20), "MiB/s",
        both("backgroundMBPerSecond" "storage.rocksdb.backgroundMBPerSecond"),
        "What flush and compaction may write to the disk at most, together; 0 takes 512. They get an eighth \
        of it while they are not behind, all of it before commits are slowed, and less while clients \
        wait longer than latencyTargetMs. Copies for members of a \
        replica set, on both sides, take what they leave of it: at most an eighth, and a sixteenth in any \
        case. What is read, the journal and the entries of an index being built are not held to it: those \
        entries come to the disk by flush and compaction.";
    EngineDefaults "storage.rocksdb.engineDefaults" off(), "",
        start("engineDefaults" "storage.rocksdb.engineDefaults"),
        "For comparisons only: the engine keeps the memtables, triggers, threads and rates that it comes \
        with, commits are not paced, and the engine slows and stops them itself, for seconds where the disk \
        is slow. `heddle bench article s4` shows it.";
    AuditDestination "auditLog.destination" Kind::Choice { default: "",
        allowed: &["", "console", "file", "syslog"] }, "",
            start("auditDestination" "auditLog.destination"),
        "Where the audit log goes: who did what, one line of JSON for each event. Empty for none; `syslog` \
        is refused.";
    AuditFilter "auditLog.filter" text(""), "", start("auditFilter" "auditLog.filter"),
        "A query document: only events that match it are in the audit log. Empty takes all.";
    AuditFormat "auditLog.format" Kind::Choice { default: "", allowed: &["", "JSON", "BSON"] }, "",
        start("auditFormat" "auditLog.format"),
        "Form of the audit log: JSON, also where nothing is said; `BSON` is refused.";
    AuditPath "auditLog.path" text(""), "", start("auditPath" "auditLog.path"),
        "File of the audit log, for its owner alone; it is appended to.";
    LogDestination "systemLog.destination" Kind::Choice { default: "", allowed: &["", "file"] }, "",
        start("" "systemLog.destination"),
        "`file` asks for systemLog.path; empty leaves the choice to systemLog.path.";
    LogAppend "systemLog.logAppend" off(), "", start("logappend" "systemLog.logAppend"),
        "Appends to an existing log file instead of moving it aside.";
    LogPath "systemLog.path" text(""), "", start("logpath" "systemLog.path"),
        "Log file; empty writes to standard output.";
    Quiet "quiet" off(), "", both("quiet" "systemLog.quiet"),
        "Leaves out log lines about connections that come and go.";
    LogLevel "logLevel" integer(0, 0, 5), "", both("" "systemLog.verbosity"),
        "Default verbosity of the log; `-v` to `-vvvvv` on the command line.";
    SlowMilliseconds "slowOpThresholdMs" integer(100, 0, i32::MAX as i64), "ms",
        both("slowms" "operationProfiling.slowOpThresholdMs"),
        "Commands that work for longer, without their waiting for a thread, are logged.";
    HonorSystemUmask "honorSystemUmask" off(), "", fixed(),
        "Files are made with the permissions that the process is started with. When it is off, nobody but \
        the owner reads what the server writes: data, backups, logs.";
    JournalCommitInterval "journalCommitInterval" integer(100, 1, 500), "ms",
        both("journalCommitInterval" "storage.journal.commitIntervalMs"),
        "An acknowledged write without `j: true` is on the disk after this time at the latest.";
    WiredTigerConfig "wiredTigerEngineRuntimeConfig" Kind::Form { default: "",
        form: "as WiredTiger's", check: super::wired_tiger::check }, "", runtime(),
        "Sets cacheSizeMB, dirtyTarget, dirtyTrigger, backgroundThreadsMin, backgroundThreadsMax, syncdelay \
        and journalSizeMB together, by WiredTiger's names and in its form: cache_size, \
        eviction_dirty_target, eviction_dirty_trigger, eviction=(threads_min,threads_max), \
        checkpoint=(wait,log_size).";
    AcceptApiVersion2 "acceptApiVersion2" off(), "", fixed(),
        "Accepts API version 2, which has commands that test clients.";
    AdaptiveIdleThreshold "adaptiveServiceExecutorIdlePctThreshold" integer(60, 0, 100), "%", runtime(),
        "`adaptive`: a thread that executes less than this share of its time ends, and a pool that does so \
        does not grow.";
    AdaptiveQueueLatency "adaptiveServiceExecutorMaxQueueLatencyMicros" integer(500, 1, DAY_MS * 1000), "µs",
        runtime(),
        "`adaptive`: how long the controller lets tasks wait before it counts them against the free \
        threads; at most the stuck thread time-out.";
    AdaptiveQueues "adaptiveServiceExecutorQueues" integer(0, 0, 1024), "queues", runtime(),
        "`adaptive`: task queues; 1 is the single locked queue of the published design, 0 one per core. \
        Counts when the model starts.";
    AdaptiveRecursionLimit "adaptiveServiceExecutorRecursionLimit" integer(8, 1, i32::MAX as i64),
        "requests", runtime(),
        "`adaptive`: requests of one connection that are executed in a row before it goes to the end of its \
        queue.";
    AdaptiveReservedThreads "adaptiveServiceExecutorReservedThreads" integer(-1, -1, 4096), "threads",
        runtime(),
        "`adaptive`: threads that stay, however little there is to do; -1 for half as many as cores.";
    AdaptiveRunTime "adaptiveServiceExecutorRunTimeMillis" integer(5_000, 1, DAY_MS), "ms", runtime(),
        "`adaptive`: the longest a thread waits for a task before it asks itself whether it is needed.";
    AdaptiveRunTimeJitter "adaptiveServiceExecutorRunTimeJitterMillis" integer(500, 0, DAY_MS), "ms",
        runtime(),
        "`adaptive`: how far the run times of threads differ, either way; at most the run time.";
    AdaptiveStuckTimeout "adaptiveServiceExecutorStuckThreadTimeoutMillis" integer(250, 1, DAY_MS), "ms",
        runtime(),
        "`adaptive`: when every thread has worked on one task for this long, another one is started.";
    AutomaticInitialSync "automaticInitialSync" on(), "", runtime(),
        "A member of a replica set whose data are older than the others' oplogs go back replaces them by a \
        copy of another member's. When it is off the member stays RECOVERING until it is on or the \
        directory is emptied. A member without data always copies.";
    CursorMonitorFrequency "clientCursorMonitorFrequencySecs" integer(4, 1, 86_400), "s", runtime(),
        "How often idle cursors and sessions are looked for.";
    CursorTimeout "cursorTimeoutMillis" integer(600_000, 1, i64::MAX), "ms", runtime(),
        "An idle cursor is closed after this time, unless it was opened with noCursorTimeout.";
    LocalhostAuthBypass "enableLocalhostAuthBypass" on(), "", fixed(),
        "With security.authorization, and as long as there is no user, connections from this machine may \
        make the first one, in `admin`, and begin a replica set.";
    EnableFlowControl "enableFlowControl" on(), "", runtime(),
        "In a replica set, writes wait on the primary when a majority of the members cannot keep up, those \
        of the connections that bring the most bytes first.";
    EnableTestCommands "enableTestCommands" off(), "", fixed(),
        "Allows commands that are meant for testing, such as configureFailPoint.";
    FlowControlTargetLag "flowControlTargetLagSeconds" integer(10, 1, i32::MAX as i64), "s", runtime(),
        "How far a majority of the members may be behind the primary in applying; from half of it on writes \
        wait.";
    GroupMemory "internalDocumentSourceGroupMaxMemoryBytes" integer(100 * MIB, 1, i64::MAX), "bytes",
        runtime(),
        "Memory that one $group stage may use.";
    SortMemory "internalQueryMaxBlockingSortMemoryUsageBytes" integer(100 * MIB, 0, i64::MAX), "bytes",
        runtime(),
        "Memory that one sort may use; beyond it, a query without allowDiskUse fails.";
    SessionTimeout "localLogicalSessionTimeoutMinutes" integer(30, 1, 1_000_000), "min", fixed(),
        "A session that nobody uses is forgotten after this time, and its cursors are closed.";
    SessionsMax "maxSessions" integer(1_000_000, 1, 1 << 30), "sessions", fixed(),
        "Sessions in use at most; new ones are refused beyond it.";
    ScramIterations "scramIterationCount" integer(10_000, 5_000, i32::MAX as i64), "rounds", runtime(),
        "How slow the hash of new passwords is for SCRAM-SHA-1. Passwords that are there keep theirs.";
    ScramSha256Iterations "scramSHA256IterationCount" integer(15_000, 5_000, i32::MAX as i64), "rounds",
        runtime(),
        "How slow the hash of new passwords is for SCRAM-SHA-256. Passwords that are there keep theirs.";
    AuditAuthorizationSuccess "auditAuthorizationSuccess" off(), "", runtime(),
        "Writes an audit event for each request that its user may make, too, and not only for those that are \
        refused; each then waits for its line.";
    MaxTimeMs "defaultMaxTimeMS" integer(0, 0, i32::MAX as i64), "ms", runtime(),
        "Time limit of reads that bring none; 0 for none.";
    SnapshotHistoryWindow "minSnapshotHistoryWindowInSeconds" integer(300, 0, i32::MAX as i64), "s",
        runtime(),
        "How far back a member of a replica set can be read with read concern `snapshot` and a time, at \
        least; versions of that time are kept.";
    NoTableScan "notablescan" off(), "", runtime(),
        "Refuses queries with a filter that no index serves, but in collections of the server's own.";
    OverloadProtection "overloadProtection" on(), "", runtime(),
        "Under overload, user commands of clients that said `backpressure` in their `hello` are refused at \
        once with error 462 and a hint when to try again.";
    OverloadTarget "overloadTargetMillis" integer(0, 0, 60_000), "ms", runtime(),
        "The queueing delay that is accepted for long; 0 finds it from the time that requests take when \
        they do not wait.";
    PriorityLane "priorityLane" on(), "", fixed(),
        "Connections begin on the diagnostic lane, an event loop of its own, and stay there as long as they \
        only monitor.";
    RequireApiVersion "requireApiVersion" off(), "", runtime(),
        "Refuses commands without the parameter apiVersion.";
    ShutdownTimeout "shutdownTimeoutMillisForSignaledShutdown" integer(15_000, 0, 3_600_000), "ms", runtime(),
        "How long running operations may take to finish after SIGTERM.";
    LoopSlice "eventLoopSliceMicros" integer(30, 1, 1_000_000), "µs", runtime(),
        "An operation that reads for longer than this leaves its event loop and goes on in the pool.";
    ScanSlice "scanSliceMicros" integer(5_000, 50, 1_000_000), "µs", runtime(),
        "A scan lets others go first after this time: kills, time limits and other work are looked at \
        between slices.";
    SecondaryReadLifetime "secondaryReadLifetimeLimitSeconds" integer(3_600, 0, 365 * 24 * 3_600), "s",
        runtime(),
        "A read of a secondary keeps the state of the data that it began with; one that takes longer than \
        this is ended with SnapshotTooOld, so that old versions go. 0 never does.";
    SendTimeout "sendTimeoutMillis" integer(60_000, 0, DAY_MS), "ms", fixed(),
        "A client that does not take any part of its reply for so long is disconnected; 0 waits for ever.";
    ServiceEventLoops "serviceEventLoops" integer(0, 0, 1024), "threads", fixed(),
        "Event loops of `reactor`, rings of `coroutine`; 0 for one per core.";
    PoolIdle "servicePoolIdleMillis" integer(30_000, 1, DAY_MS), "ms", runtime(),
        "How long a thread of a pool beyond the minimum stays without work. The pools do what event loops \
        must not: one reads the disk, one computes for long.";
    PoolMaxThreads "servicePoolMaxThreads" integer(0, 0, 4096), "threads", runtime(),
        "The most threads of each pool; 0 for four per core, and 16 at least.";
    PoolMinThreads "servicePoolMinThreads" integer(1, 0, 4096), "threads", runtime(),
        "Threads of each pool that are kept although they have nothing to do.";
    TlsHandshakeTimeout "tlsHandshakeTimeoutMillis" integer(30_000, 0, DAY_MS), "ms", fixed(),
        "A client that has begun to speak TLS, or has to, and has not completed the handshake after so long \
        is disconnected; 0 waits for ever.";
    TtlIndexDeleteTargetDocs "ttlIndexDeleteTargetDocs" integer(50_000, 0, i64::MAX), "documents", runtime(),
        "So many expired documents of one TTL index are deleted before those of the next one; 0 for no \
        bound.";
    TtlIndexDeleteTargetTime "ttlIndexDeleteTargetTimeMS" integer(1_000, 0, i64::MAX), "ms", runtime(),
        "Expired documents of one TTL index are deleted for so long before those of the next one; 0 for no \
        bound.";
    TtlMonitorBatchDeletes "ttlMonitorBatchDeletes" on(), "", runtime(),
        "The two bounds `ttlIndexDeleteTarget…` count. Off: what has expired by one TTL index is deleted to \
        its end before that of the next one.";
    TtlMonitorEnabled "ttlMonitorEnabled" on(), "", runtime(),
        "Documents that have expired by a TTL index are deleted. Off ends a pass that runs.";
    TtlMonitorSleep "ttlMonitorSleepSecs" integer(60, 1, i32::MAX as i64), "s", runtime(),
        "Time between two passes over all TTL indexes.";
    TtlMonitorSubPassTarget "ttlMonitorSubPassTargetSecs" integer(60, 0, i32::MAX as i64), "s", runtime(),
        "After so long a pass looks which TTL indexes there are, and goes on with those that have more to \
        delete.";
    UnreadRepliesMax "unreadRepliesMaxBytes" integer(0, 0, i64::MAX), "bytes", runtime(),
        "Memory for replies that clients have not taken, over all connections. Beyond it requests wait, and \
        the connections that have taken nothing for longest are ended. 0 takes a sixteenth of the memory \
        that the process may use, and from 32 MiB to 1 GiB.";
}
