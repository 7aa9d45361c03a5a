"""What tests of documents that expire have in common."""

import datetime

# The TTL monitor looks each second.
QUICK = ("--setParameter", "ttlMonitorSleepSecs=1")


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def ago(seconds):
    return now() - datetime.timedelta(seconds=seconds)
