"""Rounds of faults: members are killed, stopped, cut off and stepped down while clients write.

After each round nothing that was acknowledged is lost, nothing is there twice, and the members are the same. The random
choices come from `--round-seed`; `--rounds` says how many there are.
"""

import itertools
import random
import shutil
import signal
import time

import pymongo
import pymongo.errors
import pytest

from fault_network import CLIENTS
from replica_set import Load, ReplicaSet, eventually

CONCERNS = [{"w": 1}, {"w": "majority"}, {"w": 1, "j": True}, {"w": "majority", "j": True}]
# A client that waits for a member that is cut off turns to the set again.
CLIENT = {"socketTimeoutMS": 1_500, "connectTimeoutMS": 1_000, "heartbeatFrequencyMS": 500}
# Data of so many rounds are kept, so that a later one may lose them.
KEPT_ROUNDS = 5


class MixedLoad(Load):
    """With what is doubled by a write that is done again: lists, unique keys of an index, counters that are answered."""

    def prepare(self):
        super().prepare()
        self.lists[0].create_index("name", unique=True)

    def insert(self, writer, number):
        name = f"{writer}-{number}"
        self.lists[writer].insert_one({"_id": name, "name": name, "writer": writer, "number": number})

    def upsert(self, writer, number):
        name = f"{writer}+{number}"
        done = self.lists[writer].update_one({"name": name}, {"$inc": {"times": 1}, "$set": {"upserted": number, "by": writer}}, upsert=True)
        assert done.upserted_id is not None, f"{name} was there before"

    def push(self, writer, number):
        self.counters[writer].update_one({"_id": f"list {writer}"}, {"$push": {"numbers": number}}, upsert=True)

    def answered(self, writer, number):
        query = {"_id": f"answered {writer}"}
        after = self.counters[writer].find_one_and_update(
            query, {"$inc": {"count": 1}}, upsert=True, return_document=pymongo.ReturnDocument.AFTER
        )
        tally = self.tallies[writer]["answered"]
        tally.check_count(f"answer to writer {writer}", after["count"] - 1)

    def move(self, writer, number):
        """Out of one place, into another one: a document whose unique key changes."""
        done = self.lists[writer].update_one({"_id": f"{writer}-{number}"}, {"$set": {"name": f"{writer}/{number}"}})
        assert done.matched_count == 1, f"{writer}-{number} was acknowledged and is not there"

    OPERATIONS = (*Load.OPERATIONS, "upsert", "push", "answered", "move")

    def check(self):
        super().check()
        for writer, tallies in enumerate(self.tallies):
            lists, counters = self.lists[writer], self.counters[writer]
            upserted = list(lists.find({"by": writer}).sort("upserted"))
            tallies["upsert"].check(f"upserts of writer {writer}", [one["upserted"] for one in upserted])
            assert {one["times"] for one in upserted} <= {1}
            pushed = counters.find_one({"_id": f"list {writer}"}) or {"numbers": []}
            tallies["push"].check(f"list of writer {writer}", pushed["numbers"])
            answered = counters.find_one({"_id": f"answered {writer}"}) or {"count": 0}
            tallies["answered"].check_count(f"answered counter of writer {writer}", answered["count"])
            moved = [one["number"] for one in lists.find({"name": {"$regex": f"^{writer}/"}})]
            tallies["move"].check(f"moves of writer {writer}", moved)


# What may come to a client while members fail. Anything else is a defect, a duplicate key above all.
def is_expected(error):
    if isinstance(error, (pymongo.errors.ConnectionFailure, pymongo.errors.WTimeoutError)):
        return True
    details = getattr(error, "details", None) or {}
    return "RetryableWriteError" in details.get("errorLabels", [])


class Round:
    """One round: faults, then a set that is well again."""

    def __init__(self, running, chance):
        self.running, self.chance, self.network = running, chance, running.network
        self.primary = running.primary()
        self.others = [member for member in running.members if member is not self.primary]
        chance.shuffle(self.others)
        self.stopped = []
        self.done = []

    def linger(self, least, most):
        time.sleep(self.chance.uniform(least, most))

    def anyone(self):
        return self.chance.choice([self.primary, self.primary, *self.others])

    # Kills.
    def kill_primary(self):
        self.running.kill(self.primary)
        self.linger(0, 2.5)

    def kill_secondary(self):
        self.running.kill(self.others[0])
        self.linger(0, 1)

    def kill_majority(self):
        for member in self.chance.sample([self.primary, *self.others], 2):
            self.running.kill(member)
        self.linger(0, 1.5)

    def kill_all(self):
        for member in self.chance.sample(self.running.members, 3):
            self.running.kill(member)

    def end_in_order(self):
        member = self.anyone()
        member.process.send_signal(signal.SIGTERM)
        member.process.wait(60)
        self.linger(0, 0.5)

    def lose_disk(self):
        member = self.others[0]
        self.running.kill(member)
        shutil.rmtree(member.directory)
        self.linger(0, 1)

    # Stops.
    def pause(self, member, least, most):
        self.running.pause(member)
        self.stopped.append(member)
        self.linger(least, most)

    def pause_primary(self):
        self.pause(self.primary, 0.2, 3)

    def pause_secondary(self):
        self.pause(self.others[0], 0.2, 2)

    def pause_again_and_again(self):
        member = self.anyone()
        for _ in range(3):
            self.pause(member, 0.1, 1.2)
            self.running.resume(member)
            self.linger(0, 0.3)

    # Networks.
    def cut(self, sources, targets):
        how = self.chance.choice(["hold", "hold", "refuse"])
        for source, target in itertools.product(sources, targets):
            if source != target:
                self.network.cut(source, target, how)

    def names(self, *members):
        return [self.running.name_of(member) for member in members]

    def isolate(self):
        member = self.anyone()
        others = self.names(*(other for other in self.running.members if other is not member))
        self.cut(others, self.names(member))
        self.cut(self.names(member), others)
        if self.chance.random() < 0.5:
            self.cut([CLIENTS], self.names(member))
        self.linger(0.2, 3)

    def nobody_hears(self):
        member = self.anyone()
        self.cut(self.names(member), self.names(*self.running.members))
        self.linger(0.2, 3)

    def hears_nobody(self):
        member = self.anyone()
        self.cut(self.names(*self.running.members), self.names(member))
        self.linger(0.2, 3)

    def two_do_not_meet(self):
        pair = self.names(*self.chance.sample(self.running.members, 2))
        self.cut(pair, pair)
        self.linger(0.2, 3)

    def clients_lose_the_primary(self):
        self.cut([CLIENTS], self.names(self.primary))
        self.linger(0.2, 2)

    def all_alone(self):
        everybody = self.names(*self.running.members)
        self.cut(everybody, everybody)
        self.linger(0.5, 2)

    def flutter(self):
        everybody = self.names(*self.running.members)
        for _ in range(4):
            self.cut([self.chance.choice(everybody)], [self.chance.choice(everybody), CLIENTS])
            self.linger(0, 0.5)
            self.network.heal()

    # Orders.
    def step_down(self):
        with self.running.direct(self.primary) as direct:
            try:
                direct.admin.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=2)
            except pymongo.errors.OperationFailure as error:
                assert error.code in (262, 10107), error

    def leave_and_come_back(self):
        host = self.running.hosts[self.running.members.index(self.others[0])]
        left = []

        def leave(members):
            left.extend(member for member in members if member["host"] == host)
            return [member for member in members if member["host"] != host]

        self.reconfigure(leave)
        self.linger(0, 1)
        self.reconfigure(lambda members: members if any(member["host"] == host for member in members) else [*members, left[0]])

    def reconfigure(self, change):
        def done():
            with self.running.direct(self.running.primary()) as direct:
                config = direct.admin.command("replSetGetConfig")["config"]
                changed = change(config["members"])
                return direct.admin.command("replSetReconfig", {**config, "members": changed, "version": config["version"] + 1})

        eventually("another configuration", done)

    FAULTS = (
        kill_primary, kill_primary, kill_secondary, kill_majority, kill_all, end_in_order, pause_primary, pause_secondary,
        pause_again_and_again, isolate, isolate, nobody_hears, hears_nobody, two_do_not_meet, clients_lose_the_primary, all_alone, flutter,
        step_down, lose_disk, leave_and_come_back,
    )
    # What may come on top of another fault: it asks nothing of a member that may not answer.
    FURTHER = (isolate, two_do_not_meet, flutter, clients_lose_the_primary)

    def suffer(self):
        faults = [self.chance.choice(self.FAULTS)]
        if self.chance.random() < 0.3:
            faults.append(self.chance.choice(self.FURTHER))
        for fault in faults:
            self.done.append(fault.__name__)
            fault(self)

    def mend(self):
        self.network.heal()
        for member in self.stopped:
            self.running.resume(member)
        for member in list(self.running.members):
            if member.process.poll() is not None:
                assert member.process.returncode in (0, -signal.SIGKILL), f"a member ended:\n{member.log.read_text()[-4000:]}"
                self.running.restart(member)
        self.running.wait_until_healthy()


@pytest.fixture
def running(tmp_path):
    running = ReplicaSet(tmp_path, 3, settings={"heartbeatIntervalMillis": 500, "heartbeatTimeoutSecs": 1}, can_be_cut=True)
    yield running
    running.kill_all()


def test_the_network_holds_and_refuses_what_it_is_told_to(running):
    primary = running.primary()
    one, other = running.secondaries()
    names = {member: running.name_of(member) for member in running.members}

    def heard(member, of):
        port = running.network.ports[names[of]]
        return next(told["health"] for told in running.status(member)["members"] if told["name"].endswith(f":{port}"))

    for how in ("hold", "refuse"):
        running.network.cut(names[primary], names[one], how)
        running.network.cut(names[one], names[primary], how)
        # Followed until they do not hear each other; the third member hears both.
        eventually("a member that is not heard", lambda: heard(primary, one) == 0 or heard(one, primary) == 0)
        assert heard(other, one) == 1 and heard(other, primary) == 1
        running.network.heal()
        running.wait_until_healthy()
        eventually("a member that is heard", lambda: heard(primary, one) == 1 and heard(one, primary) == 1)


def test_what_is_lost_or_doubled_is_told(running):
    with running.client(**CLIENT) as client:
        load = MixedLoad(client, concerns=CONCERNS)
        load.wait_for_each(5)
        load.stop()
        load.check()
        lists, counters = load.lists[0], load.counters[0]
        # From what is looked for last to what is looked for first.
        defects = {
            "moves of writer 3 acknowledged and lost": lambda: lists.update_one({"_id": "3-1"}, {"$set": {"name": "3-1"}}),
            "list of writer 2 twice": lambda: counters.update_one({"_id": "list 2"}, {"$push": {"numbers": 1}}),
            "upserts of writer 1 twice": lambda: lists.insert_one({"by": 1, "upserted": 1, "times": 1, "name": "x"}),
            "counter of writer 3": lambda: counters.update_one({"_id": 3}, {"$inc": {"count": 1 + len(load.errors)}}),
            "inserts of writer 0 acknowledged and lost": lambda: lists.delete_one({"_id": "0-2"}),
        }
        for told, defect in defects.items():
            defect()
            found = pytest.raises(AssertionError, load.check)
            assert told in str(found.value), f"expected {told}: {found.value}"


def test_rounds_of_faults_lose_and_double_nothing(running, pytestconfig):
    rounds, seed = pytestconfig.getoption("rounds"), pytestconfig.getoption("round_seed")
    chance = random.Random(seed)
    writes, unknown, kept = 0, 0, []
    with running.client(**CLIENT) as client:
        for number in range(rounds):
            load = MixedLoad(client, database=f"round{number}", concerns=CONCERNS)
            one = Round(running, chance)
            try:
                load.wait_for_each(3)
                one.suffer()
                one.mend()
                load.wait_for_each(3)
            except BaseException as error:
                error.add_note(f"in round {number} of seed {seed}: {one.done}")
                raise
            finally:
                load.stop()
            kept.append(load)
            try:
                strange = [error for error in load.errors if not is_expected(error)]
                assert not strange, strange[:3]
                for earlier in kept:
                    earlier.check()
                running.assert_members_are_equal()
            except AssertionError as error:
                error.add_note(f"after round {number} of seed {seed}: {one.done}")
                raise
            writes += sum(len(tally.acknowledged) for tallies in load.tallies for tally in tallies.values())
            unknown += len(load.errors)
            if len(kept) == KEPT_ROUNDS:
                for earlier in kept:
                    client.drop_database(earlier.database.name)
                kept.clear()
    print(f"{rounds} rounds of seed {seed}: {writes} writes acknowledged, {unknown} with an unknown end")
