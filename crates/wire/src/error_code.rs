//! The error numbers that MongoDB clients know, with their names and categories.
//!
//! Numbers and names are part of the protocol: drivers decide by them what to retry. One table
//! gives all of them; [`code_name`] answers for every other number with `Location<number>`, which
//! is what clients expect for errors that never got a name of their own.

use std::borrow::Cow;

macro_rules! error_codes {
    ($($code:literal $name:ident)*) => {
        /// A named error of the MongoDB protocol; the discriminant is its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        #[expect(missing_docs, reason = "the name is the protocol's own and says it all")]
        pub enum ErrorCode {
            $($name = $code,)*
        }

        impl ErrorCode {
            /// Every named error, ordered by number.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The name as it appears in `codeName`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => stringify!($name),)*
                }
            }

            /// The named error with this number, if there is one.
            #[must_use]
            pub const fn from_code(code: i32) -> Option<ErrorCode> {
                match code {
                    $($code => Some(ErrorCode::$name),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    0 OK
    1 InternalError
    2 BadValue
    4 NoSuchKey
    5 GraphContainsCycle
    6 HostUnreachable
    7 HostNotFound
    8 UnknownError
    9 FailedToParse
    10 CannotMutateObject
    11 UserNotFound
    12 UnsupportedFormat
    13 Unauthorized
    14 TypeMismatch
    15 Overflow
    16 InvalidLength
    17 ProtocolError
    18 AuthenticationFailed
    19 CannotReuseObject
    20 IllegalOperation
    21 EmptyArrayOperation
    22 InvalidBSON
    23 AlreadyInitialized
    24 LockTimeout
    25 RemoteValidationError
    26 NamespaceNotFound
    27 IndexNotFound
    28 PathNotViable
    29 NonExistentPath
    30 InvalidPath
    31 RoleNotFound
    32 RolesNotRelated
    33 PrivilegeNotFound
    34 CannotBackfillArray
    35 UserModificationFailed
    36 RemoteChangeDetected
    37 FileRenameFailed
    38 FileNotOpen
    39 FileStreamFailed
    40 ConflictingUpdateOperators
    41 FileAlreadyOpen
    42 LogWriteFailed
    43 CursorNotFound
    45 UserDataInconsistent
    46 LockBusy
    47 NoMatchingDocument
    48 NamespaceExists
    49 InvalidRoleModification
    50 MaxTimeMSExpired
    51 ManualInterventionRequired
    52 DollarPrefixedFieldName
    53 InvalidIdField
    54 NotSingleValueField
    55 InvalidDBRef
    56 EmptyFieldName
    57 DottedFieldName
    58 RoleModificationFailed
    59 CommandNotFound
    61 ShardKeyNotFound
    62 OplogOperationUnsupported
    64 WriteConcernFailed
    65 MultipleErrorsOccurred
    66 ImmutableField
    67 CannotCreateIndex
    68 IndexAlreadyExists
    69 AuthSchemaIncompatible
    70 ShardNotFound
    71 ReplicaSetNotFound
    72 InvalidOptions
    73 InvalidNamespace
    74 NodeNotFound
    75 WriteConcernLegacyOK
    76 NoReplicationEnabled
    77 OperationIncomplete
    78 CommandResultSchemaViolation
    79 UnknownReplWriteConcern
    80 RoleDataInconsistent
    81 NoMatchParseContext
    82 NoProgressMade
    83 RemoteResultsUnavailable
    85 IndexOptionsConflict
    86 IndexKeySpecsConflict
    87 CannotSplit
    89 NetworkTimeout
    90 CallbackCanceled
    91 ShutdownInProgress
    92 SecondaryAheadOfPrimary
    93 InvalidReplicaSetConfig
    94 NotYetInitialized
    95 NotSecondary
    96 OperationFailed
    97 NoProjectionFound
    98 DBPathInUse
    100 UnsatisfiableWriteConcern
    101 OutdatedClient
    102 IncompatibleAuditMetadata
    103 NewReplicaSetConfigurationIncompatible
    104 NodeNotElectable
    105 IncompatibleShardingMetadata
    106 DistributedClockSkewed
    107 LockFailed
    108 InconsistentReplicaSetNames
    109 ConfigurationInProgress
    110 CannotInitializeNodeWithData
    111 NotExactValueField
    112 WriteConflict
    113 InitialSyncFailure
    114 InitialSyncOplogSourceMissing
    115 CommandNotSupported
    116 DocTooLargeForCapped
    117 ConflictingOperationInProgress
    118 NamespaceNotSharded
    119 InvalidSyncSource
    120 OplogStartMissing
    121 DocumentValidationFailure
    123 NotAReplicaSet
    124 IncompatibleElectionProtocol
    125 CommandFailed
    126 RPCProtocolNegotiationFailed
    127 UnrecoverableRollbackError
    128 LockNotFound
    129 LockStateChangeFailed
    130 SymbolNotFound
    133 FailedToSatisfyReadPreference
    134 ReadConcernMajorityNotAvailableYet
    135 StaleTerm
    136 CappedPositionLost
    137 IncompatibleShardingConfigVersion
    138 RemoteOplogStale
    139 JSInterpreterFailure
    140 InvalidSSLConfiguration
    141 SSLHandshakeFailed
    142 JSUncatchableError
    143 CursorInUse
    144 IncompatibleCatalogManager
    145 PooledConnectionsDropped
    146 ExceededMemoryLimit
    147 ZLibError
    148 ReadConcernMajorityNotEnabled
    149 NoConfigPrimary
    150 StaleEpoch
    151 OperationCannotBeBatched
    152 OplogOutOfOrder
    153 ChunkTooBig
    154 InconsistentShardIdentity
    155 CannotApplyOplogWhilePrimary
    157 CanRepairToDowngrade
    158 MustUpgrade
    159 DurationOverflow
    160 MaxStalenessOutOfRange
    161 IncompatibleCollationVersion
    162 CollectionIsEmpty
    163 ZoneStillInUse
    164 InitialSyncActive
    165 ViewDepthLimitExceeded
    166 CommandNotSupportedOnView
    167 OptionNotSupportedOnView
    168 InvalidPipelineOperator
    169 CommandOnShardedViewNotSupportedOnMongod
    170 TooManyMatchingDocuments
    171 CannotIndexParallelArrays
    172 TransportSessionClosed
    173 TransportSessionNotFound
    174 TransportSessionUnknown
    175 QueryPlanKilled
    176 FileOpenFailed
    177 ZoneNotFound
    178 RangeOverlapConflict
    181 AmbiguousIndexKeyPattern
    182 InvalidViewDefinition
    183 ClientMetadataMissingField
    184 ClientMetadataAppNameTooLarge
    185 ClientMetadataDocumentTooLarge
    186 ClientMetadataCannotBeMutated
    187 LinearizableReadConcernError
    188 IncompatibleServerVersion
    189 PrimarySteppedDown
    190 MasterSlaveConnectionFailure
    192 FailPointEnabled
    194 BalancerInterrupted
    195 ViewPipelineMaxSizeExceeded
    197 InvalidIndexSpecificationOption
    199 ReplicaSetMonitorRemoved
    200 ChunkRangeCleanupPending
    201 CannotBuildIndexKeys
    202 NetworkInterfaceExceededTimeLimit
    203 ShardingStateNotInitialized
    204 TimeProofMismatch
    205 ClusterTimeFailsRateLimiter
    206 NoSuchSession
    207 InvalidUUID
    208 TooManyLocks
    209 StaleClusterTime
    210 CannotVerifyAndSignLogicalTime
    211 KeyNotFound
    212 IncompatibleRollbackAlgorithm
    213 DuplicateSession
    214 AuthenticationRestrictionUnmet
    215 DatabaseDropPending
    216 ElectionInProgress
    217 IncompleteTransactionHistory
    218 UpdateOperationFailed
    219 FTDCPathNotSet
    220 FTDCPathAlreadySet
    221 IndexModified
    222 CloseChangeStream
    223 IllegalOpMsgFlag
    224 QueryFeatureNotAllowed
    225 TransactionTooOld
    226 AtomicityFailure
    227 CannotImplicitlyCreateCollection
    228 SessionTransferIncomplete
    229 MustDowngrade
    230 DNSHostNotFound
    231 DNSProtocolError
    232 MaxSubPipelineDepthExceeded
    233 TooManyDocumentSequences
    234 RetryChangeStream
    235 InternalErrorNotSupported
    237 CursorKilled
    238 NotImplemented
    239 SnapshotTooOld
    240 DNSRecordTypeMismatch
    241 ConversionFailure
    242 CannotCreateCollection
    243 IncompatibleWithUpgradedServer
    245 BrokenPromise
    246 SnapshotUnavailable
    247 ProducerConsumerQueueBatchTooLarge
    248 ProducerConsumerQueueEndClosed
    249 StaleDbVersion
    250 StaleChunkHistory
    251 NoSuchTransaction
    252 ReentrancyNotAllowed
    256 TransactionCommitted
    257 TransactionTooLarge
    258 UnknownFeatureCompatibilityVersion
    259 KeyedExecutorRetry
    260 InvalidResumeToken
    261 TooManyLogicalSessions
    262 ExceededTimeLimit
    263 OperationNotSupportedInTransaction
    264 TooManyFilesOpen
    265 OrphanedRangeCleanUpFailed
    266 FailPointSetFailed
    267 PreparedTransactionInProgress
    268 CannotBackup
    269 DataModifiedByRepair
    270 RepairedReplicaSetNode
    271 JSInterpreterFailureWithStack
    272 MigrationConflict
    276 IndexBuildAborted
    278 UnsatisfiableCommitQuorum
    279 ClientDisconnect
    280 ChangeStreamFatalError
    283 WouldChangeOwningShard
    285 IndexBuildAlreadyInProgress
    286 ChangeStreamHistoryLost
    288 ChecksumMismatch
    290 TransactionExceededLifetimeLimitSeconds
    291 NoQueryExecutionPlans
    292 QueryExceededMemoryLimitNoDiskUseAllowed
    293 InvalidSeedList
    294 InvalidTopologyType
    295 InvalidHeartBeatFrequency
    296 TopologySetNameRequired
    298 InvalidServerType
    299 OCSPCertificateStatusRevoked
    301 DataCorruptionDetected
    302 OCSPCertificateStatusUnknown
    303 SplitHorizonChange
    308 CurrentConfigNotCommittedYet
    309 ExhaustCommandFinished
    313 ResumableRangeDeleterDisabled
    314 ObjectIsBusy
    319 MovePrimaryInProgress
    322 APIVersionError
    323 APIStrictError
    324 APIDeprecationError
    326 OplogQueryMinTsMissing
    332 CannotDowngrade
    334 MechanismUnavailable
    337 AuthenticationAbandoned
    338 ReshardCollectionInProgress
    339 NoSuchReshardCollection
    340 ReshardCollectionCommitted
    341 ReshardCollectionAborted
    342 ReshardingCriticalSectionTimeout
    344 AuditingNotEnabled
    345 RuntimeAuditConfigurationNotEnabled
    346 ChangeStreamInvalidated
    347 APIMismatchError
    348 ChangeStreamTopologyChange
    349 KeyPatternShorterThanBound
    350 ReshardCollectionTruncatedError
    351 ChangeStreamStartAfterInvalidate
    352 UnsupportedOpQueryCommand
    354 LoadBalancerSupportMismatch
    355 InterruptedDueToStorageChange
    356 TxnRetryCounterTooOld
    357 InvalidBSONType
    358 InternalTransactionNotSupported
    359 CannotConvertIndexToUnique
    361 CollectionUUIDMismatch
    363 RetryableTransactionInProgress
    365 TemporarilyUnavailable
    366 WouldChangeOwningShardDeletedNoDocument
    370 CannotDropShardKeyIndex
    371 UserWritesBlocked
    376 ChangeStreamNotEnabled
    377 FLEMaxTagLimitExceeded
    378 NonConformantBSON
    383 CollectionIsEmptyLocally
    386 DuplicateKeyId
    388 TransactionTooLargeForCache
    389 LibmongocryptError
    390 InvalidSignature
    391 ReauthenticationRequired
    392 InvalidJWT
    393 InvalidTenantId
    396 IndexInformationTooLarge
    398 StreamTerminated
    400 CannotUpgrade
    402 ResourceExhausted
    405 CannotCreateChunkDistribution
    407 PooledConnectionAcquisitionExceededTimeLimit
    411 QueryRejectedBySettings
    412 UpdatesStillPending
    414 AddOrRemoveShardInProgress
    426 IndexIsEmpty
    430 IndexKeyOrderViolation
    431 ChunkMetadataInconsistency
    432 OfflineValidationFailedToComplete
    433 AdmissionQueueOverflow
    449 RateLimitExceeded
    450 PooledConnectionAcquisitionRejected
    453 InterruptedDueToReshardingCriticalSection
    462 IngressRequestRateLimitExceeded
    9001 SocketException
    10003 CannotGrowDocumentInCappedNamespace
    10058 LegacyNotPrimary
    10107 NotWritablePrimary
    10334 BSONObjectTooLarge
    11000 DuplicateKey
    11600 InterruptedAtShutdown
    11601 Interrupted
    11602 InterruptedDueToReplStateChange
    12586 BackgroundOperationInProgressForDatabase
    12587 BackgroundOperationInProgressForNamespace
    13113 MergeStageNoMatchingDocument
    13297 DatabaseDifferCase
    13388 StaleConfig
    13435 NotPrimaryNoSecondaryOk
    13436 NotPrimaryOrSecondary
    14031 OutOfDiskSpace
    28769 NamespaceCannotBeSharded
    31082 SearchNotEnabled
    46841 ClientMarkedKilled
    50768 NotARetryableWriteCommand
    50915 BackupCursorOpenConflictWithCheckpoint
    56846 ConfigServerUnreachable
    91331 RetriableRemoteCommandFailure
}

/// The `codeName` of any error number; numbers without a name are called `Location<number>`.
#[must_use]
pub fn code_name(code: i32) -> Cow<'static, str> {
    match ErrorCode::from_code(code) {
        Some(known) => Cow::Borrowed(known.name()),
        None => Cow::Owned(format!("Location{code}")),
    }
}

impl From<ErrorCode> for i32 {
    fn from(code: ErrorCode) -> i32 {
        code.code()
    }
}

impl ErrorCode {
    /// The number as it appears in `code`.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: i32, name: &str) {
        assert_eq!(code_name(code), name, "name of error {code}");
    }

    #[test]
    fn names_of_numbers() {
        check(0, "OK");
        check(2, "BadValue");
        check(59, "CommandNotFound");
        check(11000, "DuplicateKey");
        check(40415, "Location40415");
        check(462, "IngressRequestRateLimitExceeded");
        check(40432, "Location40432");
        check(-1, "Location-1");
    }

    #[test]
    fn table_is_ordered_and_complete() {
        for pair in ErrorCode::ALL.windows(2) {
            assert!(pair[0].code() < pair[1].code(), "{} stands before {}", pair[0].name(), pair[1].name());
        }
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(code.code()), Some(*code));
        }
    }
}
