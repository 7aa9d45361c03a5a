"""The knobs of storage: each at the start and while the server runs, each in `serverStatus.storage`."""

import time

import pymongo
import pytest

BAD_VALUE, TYPE_MISMATCH = 2, 14
MIB = 1 << 20

# Parameter, value, figure in serverStatus.storage.knobs, value there.
KNOBS = [
    # Before the cache, from which its default follows.
    ("memtableSizeMB", 20, "memtableBytes", 20 * MIB),
    ("cacheSizeMB", 500, "cacheBytes", 500 * MIB),
    ("backgroundMBPerSecond", 100, "backgroundBytesPerSecond", 100 * MIB),
    ("latencyTargetMs", 7, "latencyTargetMs", 7),
    ("dirtyTrigger", 1_000_000_000, "dirtyTriggerBytes", 1_000_000_000),
    ("dirtyTarget", 300 * MIB, "dirtyTargetBytes", 300 * MIB),
    ("backgroundThreadsMax", 12, "backgroundThreadsMax", 12),
    ("backgroundThreadsMin", 8, "backgroundThreadsMin", 8),
    ("syncdelay", 25, "syncdelay", 25),
    ("journalSizeMB", 512, "journalSizeBytes", 512 * MIB),
    ("journalCommitInterval", 50, "journalCommitInterval", 50),
]
YAML = """
storage:
  syncPeriodSecs: 25
  wiredTiger:
    engineConfig:
      cacheSizeGB: 0.25
  rocksdb:
    latencyTargetMs: 7
    journalSizeMB: 512
    dirtyTrigger: 25
"""


def storage(client):
    return client.admin.command("serverStatus")["storage"]


def near(found, expect):
    """Caches are shared out in whole percents."""
    return abs(found - expect) < 2 * MIB


def set_parameter(client, name, value):
    return client.admin.command({"setParameter": 1, name: value})


@pytest.fixture
def started(start_server):
    return lambda *arguments: start_server(*arguments).client()


def test_each_knob_by_flag(started):
    flags = [f"--{name}={value}" for name, value, *_ in KNOBS]
    knobs = storage(started(*flags))["knobs"]
    for _, _, figure, expect in KNOBS:
        assert near(knobs[figure]["value"], expect) if figure == "cacheBytes" else knobs[figure]["value"] == expect, figure
        assert knobs[figure]["default"] != expect, figure


def test_each_knob_while_the_server_runs(started):
    client = started()
    for name, value, figure, expect in KNOBS:
        before = storage(client)["knobs"][figure]
        # Unless it is set, the least number of threads is the most.
        usual = 12 if figure == "backgroundThreadsMin" else before["default"]
        assert before["value"] == usual, figure
        set_parameter(client, name, value)
        assert client.admin.command({"getParameter": 1, name: 1})[name] == value
        found = storage(client)["knobs"][figure]
        assert near(found["value"], expect) if figure == "cacheBytes" else found["value"] == expect, figure
        assert found["default"] == before["default"], figure
    deadline = time.monotonic() + 20
    cache = lambda: client.admin.command("serverStatus")["wiredTiger"]["cache"]["maximum bytes configured"]
    while not near(cache(), 500 * MIB):
        assert time.monotonic() < deadline, cache()
        time.sleep(0.05)


def test_the_file_and_mongods_names(started, tmp_path):
    (tmp_path / "heddle.yaml").write_text(YAML)
    client = started("-f", str(tmp_path / "heddle.yaml"))
    knobs = {name: knob["value"] for name, knob in storage(client)["knobs"].items()}
    assert near(knobs["cacheBytes"], 256 * MIB)
    assert knobs["dirtyTriggerBytes"] == 16 * knobs["memtableBytes"] // 100 * 25
    assert (knobs["syncdelay"], knobs["latencyTargetMs"], knobs["journalSizeBytes"]) == (25, 7, 512 * MIB)
    article = "eviction_dirty_target=3,eviction_dirty_trigger=25,eviction=(threads_min=8,threads_max=12),checkpoint=(wait=20,log_size=1GB)"
    set_parameter(client, "wiredTigerEngineRuntimeConfig", article)
    knobs = {name: knob["value"] for name, knob in storage(client)["knobs"].items()}
    assert (knobs["backgroundThreadsMin"], knobs["backgroundThreadsMax"], knobs["syncdelay"]) == (8, 12, 20)
    assert client.admin.command({"getParameter": 1, "dirtyTarget": 1})["dirtyTarget"] == 3


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("latencyTargetMs", 0, BAD_VALUE, "invalid value for parameter latencyTargetMs: 0 is not greater than or equal to 1"),
        ("syncdelay", -1, BAD_VALUE, "invalid value for parameter syncdelay: -1 is not greater than or equal to 0"),
        ("journalSizeMB", 1, BAD_VALUE, "invalid value for parameter journalSizeMB: 1 is not greater than or equal to 16"),
        ("cacheSizeMB", "much", TYPE_MISMATCH, "expected a whole number, found string"),
        ("backgroundThreadsMin", 200, BAD_VALUE, "invalid value for parameter backgroundThreadsMin: the background threads are 200 at least"),
        ("wiredTigerEngineRuntimeConfig", "cash_size=1", BAD_VALUE, "WiredTiger reconfiguration failed with error code (22)"),
    ],
)
def test_what_is_refused_changes_nothing(client, name, value, code, message):
    before = storage(client)["knobs"]
    with pytest.raises(pymongo.errors.OperationFailure) as failure:
        set_parameter(client, name, value)
    assert failure.value.code == code and message in failure.value.details["errmsg"]
    assert storage(client)["knobs"] == before


def test_what_a_start_would_replay_is_bounded(started):
    client = started("--syncdelay=1", "--setParameter=serviceExecutor=reactor")
    client.test.c.insert_many([{"_id": number, "text": "x" * 1000} for number in range(20_000)])
    assert storage(client)["recovery"]["journalBytesToReplay"] > 10 * MIB
    deadline = time.monotonic() + 20
    while (found := storage(client))["recovery"]["journalBytesToReplay"] > 0:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    assert found["recovery"]["oldestUnflushedSeconds"] == 0
    assert found["flushes"] > 0 and found["memtablesSealed"] > 0 and found["memtablesSealedOnLoops"] == 0
    assert found["stalls"] == 0 and found["gate"] == "open"
