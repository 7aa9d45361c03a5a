"""How long writes wait for another primary: python measure_failover.py [--rounds 30] [--planned] [--electionTimeoutMillis N]

A driver writes with retries on a few connections. Each round ends the primary (`kill -9`, or a step-down with --planned) and tells the
longest time between two acknowledged writes of one connection; afterwards it is checked that nothing was lost or doubled.
"""

import argparse
import pathlib
import statistics
import tempfile
import time

from replica_set import Load, ReplicaSet


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--planned", action="store_true", help="step the primary down instead of killing it")
    parser.add_argument("--electionTimeoutMillis", type=int, help="of the configuration; without it the default")
    parser.add_argument("--writers", type=int, default=4)
    given = parser.parse_args()
    settings = {"electionTimeoutMillis": given.electionTimeoutMillis} if given.electionTimeoutMillis else {}
    with tempfile.TemporaryDirectory() as directory:
        running = ReplicaSet(pathlib.Path(directory), 3, settings=settings)
        try:
            with running.client() as client:
                load = Load(client, given.writers, w="majority")
                gaps = [one_round(running, load, given.planned) for _ in range(given.rounds)]
                load.stop()
                load.check()
                running.assert_members_are_equal()
        finally:
            running.kill_all()
    gaps.sort()
    print(f"rounds {len(gaps)}, failed operations {len(load.errors)}, acknowledged writes {load.acknowledged_count()}")
    print(f"longest gap of a round in ms: median {statistics.median(gaps) * 1000:.0f}, least {gaps[0] * 1000:.0f}, most {gaps[-1] * 1000:.0f}")


def one_round(running, load, planned):
    load.wait_for_more()
    load.gaps[:] = [0.0] * len(load.gaps)
    before = running.primary()
    if planned:
        with running.direct(before) as direct:
            direct.admin.command("replSetStepDown", 2, secondaryCatchUpPeriodSecs=1)
    else:
        running.kill(before)
    load.wait_for_each()
    gap = max(load.gaps)
    if not planned:
        running.restart(before)
    running.wait_until_healthy()
    time.sleep(2)
    return gap


if __name__ == "__main__":
    main()
