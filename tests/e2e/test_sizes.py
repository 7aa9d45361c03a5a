"""Sizes and counts: exact or plausible before the first flush, after one, and right after a restart."""

import pytest

COUNT = 5000


def fill(client):
    things = client.sizes.things
    things.create_index("text")
    things.insert_many({"_id": number, "text": f"{number * 2654435761 % 2**32:0>100}"} for number in range(COUNT))


def check(client):
    figures = client.sizes.command("collStats", "things")
    data = figures["size"]
    assert figures["count"] == COUNT and data > 100 * COUNT
    assert figures["avgObjSize"] == data // COUNT
    assert data / 20 < figures["storageSize"] < data * 2
    assert set(figures["indexSizes"]) == {"_id_", "text_1"}
    assert all(0 < size < data * 2 for size in figures["indexSizes"].values()), figures["indexSizes"]
    assert figures["totalIndexSize"] == sum(figures["indexSizes"].values())
    assert figures["totalSize"] == figures["storageSize"] + figures["totalIndexSize"]
    database = client.sizes.command("dbStats")
    assert database["objects"] == COUNT and database["dataSize"] == data
    assert database["storageSize"] == figures["storageSize"] and database["indexSize"] == figures["totalIndexSize"]
    shown = {one["name"]: one["sizeOnDisk"] for one in client.list_databases()}
    assert shown["sizes"] == figures["totalSize"]


@pytest.mark.parametrize("flush", [False, True])
def test_sizes(start_server, flush):
    server = start_server()
    with server.client() as client:
        fill(client)
        if flush:
            client.admin.command("fsync")
        check(client)
    assert server.stop() == 0
    with start_server(directory=server.directory).client() as client:
        check(client)


def test_flushes_are_counted(start_server):
    """Where mongostat looks for them."""
    with start_server().client() as client:
        flushes = lambda: client.admin.command("serverStatus")["wiredTiger"]["transaction"]["transaction checkpoints"]
        before = flushes()
        client.sizes.things.insert_one({"_id": 1})
        client.admin.command("fsync")
        assert flushes() > before
