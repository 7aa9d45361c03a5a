"""What is in no line of the log: passwords and keys in any case, values of clients with `redactClientLogData`."""

import base64
import json

import pytest

from access_server import ROOT, AccessServer, log_in, refused

# One of each thing that must not be there.
SECRETS = ["pass-one", "pass-two", "pass-three", "pass-four"]


@pytest.fixture
def access(start_server):
    # All that there is: every component tells everything.
    return lambda *arguments: AccessServer(start_server("--auth", "-vvvvv", "--slowms", "0", *arguments)).make_root()


def lines(running):
    return [json.loads(line) for line in running.server.log.read_text().splitlines() if line.startswith("{")]


def test_passwords_and_keys_are_in_no_line(access):
    running = access()
    with running.root() as root:
        root.shop.command("createUser", "u", pwd=SECRETS[0], roles=["read"])
        root.shop.command("updateUser", "u", pwd=SECRETS[1])
        refused(lambda: root.shop.command("createUser", "u", pwd=SECRETS[2], roles=["read"]), 51003)
        stored = root.admin["system.users"].find_one({"user": "u"})["credentials"]
    log_in(running, "u", SECRETS[1], source="shop")
    refused(lambda: log_in(running, "u", SECRETS[3], source="shop"), 18)
    with running.client("u", SECRETS[1], "shop") as client:
        refused(lambda: client.shop.command("createUser", "v", pwd=SECRETS[2], roles=[]))
        payload = b"n,,n=u,r=" + SECRETS[3].encode()
        client.shop.command("saslStart", 1, mechanism="SCRAM-SHA-256", payload=payload)
    log = running.server.log.read_text()
    keys = [value for credentials in stored.values() for value in credentials.values() if isinstance(value, str)]
    assert len(keys) == 6 and "createUser" in log and "Slow query" in log
    hidden = SECRETS + [ROOT[1]] + keys + [base64.b64encode(payload).decode()]
    assert [secret for secret in hidden if secret in log] == []


@pytest.mark.parametrize("how", ["flag", "parameter", "off"])
def test_values_of_clients_are_left_out_where_that_is_asked_for(access, how):
    running = access(*(["--redactClientLogData"] if how == "flag" else []))
    with running.root() as root, running.user("reader", [{"role": "read", "db": "shop"}]) as reader:
        if how == "parameter":
            root.admin.command("setParameter", 1, redactClientLogData=True)
        assert root.admin.command("getParameter", 1, redactClientLogData=1)["redactClientLogData"] == (how != "off")
        validator = {"a": {"$type": "string"}}
        root.shop.create_collection("checked", validator=validator, validationAction="warn")
        root.shop.checked.insert_one({"_id": "needle-1", "a": 5})
        refused(lambda: list(reader.bank.items.find({"name": "needle-2", "n": {"$gt": 7777777}})))
    told = [line for line in lines(running) if line.get("id") == 20436 or line["msg"] == "document would fail validation"]
    text = json.dumps(told)
    shown = [needle for needle in ("needle-1", "needle-2", "7777777") if needle in text]
    assert len(told) >= 2
    if how == "off":
        assert shown == ["needle-1", "needle-2", "7777777"]
    else:
        assert shown == [] and "###" in text and "name: " in text and "$gt: " in text, "names stay"
