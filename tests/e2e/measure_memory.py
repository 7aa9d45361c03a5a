"""Whether a server keeps within `memoryLimitMB`: python measure_memory.py --limit 512 --minutes 20 [--documents 10000000] [--cursors 5000]

A server in a control group of that size is loaded with the random mix of `memory_mix.py`: ten million documents in a group and a sort,
5,000 open cursors, batches of the largest size, large replies that are read slowly. Its resident size is sampled each second. Told are the
most it took, and who had it then (of samples some tenths of a second apart), what was done and what was refused, by error. The exit status
is 1 when it took more than the limit, when it ended, or when something was answered that MongoDB does not answer for want of memory.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

from control_group import Group
from memory_mix import MIB, Mix, Parts, Watch, memory_section
from server_process import Server


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=512, help="memoryLimitMB, and the size of the control group")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--cursors", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="where the data are kept meanwhile")
    parser.add_argument("server", nargs="*", help="further options of the server")
    given = parser.parse_args()
    try:
        group = Group(given.limit * MIB)
    except (OSError, TypeError) as error:
        group = None
        print(f"no control group with a limit on memory can be made here, so there is none: {error!r}")
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        enter = group.enter if group else None
        running = Server(pathlib.Path(directory) / "data", "--memoryLimitMB", str(given.limit), *given.server, before=enter)
        try:
            failed = measure(running.wait_until_it_answers(), group, given)
        finally:
            running.process.kill()
            running.process.wait()
            if group:
                group.remove()
    sys.exit(1 if failed else 0)


def measure(running, group, given):
    watch = Watch(running, given.limit * MIB)
    parts = Parts(running)
    mix = Mix(running, given.documents, given.cursors, seed=given.seed)
    began = time.monotonic()
    mix.load()
    print(f"{given.documents} documents after {time.monotonic() - began:.0f} s; {watch.most >> 20} MiB at most so far", flush=True)
    tell_parts("while they were made", parts.take_largest())
    mix.start()
    end = time.monotonic() + given.minutes * 60
    while time.monotonic() < end and running.process.poll() is None and not mix.unexpected:
        time.sleep(min(15, max(0.1, end - time.monotonic())))
        tell(running, watch, mix, parts.latest)
    stuck = mix.stop()
    lives = running.process.poll() is None
    if lives:
        print(json.dumps(memory_section(running), indent=1, default=str))
    most = watch.stop()
    parts.stop()
    tell_parts("when it was largest", parts.take_largest())
    print(f"done: {dict(sorted(mix.counts.items()))}")
    print(f"refused: {dict(sorted((f'{kind} {code}', count) for (kind, code), count in mix.errors.items()))}")
    print(f"open cursors at most: {mix.open_cursors_max}")
    print(f"resident at most: {most / MIB:.0f} MiB of {given.limit} ({most / MIB / given.limit:.1%}); samples: {len(watch.samples)}")
    if group:
        print(f"the control group used at most {(group.peak or 0) >> 20} MiB, cached files included; killed: {group.kills}")
    for failure in mix.unexpected + [("stuck", thread.name) for thread in stuck]:
        print("unexpected:", *failure)
    if not lives:
        print(f"the server ended with {running.process.poll()}")
        print("\n".join(running.log.read_text().splitlines()[-20:]))
    return not lives or most > given.limit * MIB or mix.unexpected or stuck


def tell_parts(when, section):
    print(f"MiB {when}: {in_mib(section)}", flush=True)


def in_mib(section):
    """What the resident size consists of."""
    if not section:
        return "unknown"
    parts = ", ".join(f"{name} {value >> 20}" for name, value in section["parts"].items() if abs(value) >= MIB)
    return f"{section['residentBytes'] >> 20} ({section['level']}): {parts}"


def tell(running, watch, mix, section):
    if running.process.poll() is not None:
        return
    resident = watch.samples[-1] >> 20 if watch.samples else 0
    done = sum(mix.counts.values())
    print(f"{len(watch.samples):5} s  resident {resident} MiB, at most {watch.most >> 20}; done {done}, refused {dict(mix.errors)}")
    print(f"         {in_mib(section)}", flush=True)


if __name__ == "__main__":
    main()
