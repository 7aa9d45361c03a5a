"""What a message of 45 MB costs: python measure_large_messages.py BEFORE [AFTER...] [--rounds 40]

One server of each program; the same message (`ping` with a sequence of documents, which is refused once it was received and looked at) is
sent to each in turns over one connection. Told of each: the median and the least time until the answer in ms, beside the first program's;
the server's processor time by message in ms; how much more was resident at most than before.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time

import server_process
from raw_wire import RawConnection, message

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


class Measured:
    def __init__(self, binary, directory):
        server_process.BINARY = binary
        self.running = server_process.Server(directory).wait_until_it_answers()
        self.connection = RawConnection(self.running.port, timeout=60)
        self.seconds = []
        self.process = pathlib.Path("/proc") / str(self.running.process.pid)
        self.resident = self.most_resident()
        self.ticks = self.processor_ticks()

    def most_resident(self):
        lines = (self.process / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10

    def processor_ticks(self):
        user, system = (self.process / "stat").read_text().rpartition(")")[2].split()[11:13]
        return int(user) + int(system)

    def ask(self, large):
        began = time.perf_counter()
        self.connection.send_bytes(large)
        *_, reply = self.connection.receive()
        self.seconds.append(time.perf_counter() - began)
        assert reply["code"] == 40415, f"the message was not looked at: {reply}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+")
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    documents = 3 * [{"x": bytes(15_000_000)}]
    large = message({"ping": 1, "$db": "admin"}, sequences=[("documents", documents)])
    measured = []
    with tempfile.TemporaryDirectory() as directory:
        try:
            for number, binary in enumerate(given.binaries):
                measured.append(Measured(binary, pathlib.Path(directory) / str(number)))
            for number in range(given.rounds):
                for one in measured if number % 2 else reversed(measured):
                    one.ask(large)
            first = statistics.median(measured[0].seconds)
            for binary, one in zip(given.binaries, measured):
                median = statistics.median(one.seconds)
                cost = (one.processor_ticks() - one.ticks) * TICK_MS / given.rounds
                more = (one.most_resident() - one.resident) >> 20
                print(
                    f"{binary}: {median * 1000:.1f} ms ({median / first:.2f}), at least {min(one.seconds) * 1000:.1f};"
                    f" {cost:.1f} ms of processor time; {more} MiB more"
                )
        finally:
            for one in measured:
                one.running.process.kill()
                one.running.process.wait()


if __name__ == "__main__":
    main()
