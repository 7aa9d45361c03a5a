"""A network between members that can be cut, and be narrow.

Each member is known to the others and to clients by a port of this process, which passes bytes on. It knows who has
connected by looking for the process that owns the other end, so a way can be cut for one pair and one direction only.
What is held is delivered when the way is open again, as a network does it; what is refused ends at once. All connections
of two members share the bytes a second of a narrow network, each direction its own.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys

from server_process import free_port

CHUNK = 64 << 10
# A narrow way takes no more at once, so that what is large does not hold up what is small for long.
NARROW_CHUNK = 8 << 10
LATE_SECONDS = 0.02
CLIENTS = "clients"


class Network:
    """The process, as tests use it. `targets` are the ports that members listen on, by the members' names."""

    def __init__(self, targets):
        self.ports = {}
        for name in targets:
            self.ports[name] = free_port()
        self.pids, self.rules = {}, []
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=pathlib.Path(__file__).parent
        )
        self._tell({"ways": [[name, self.ports[name], target] for name, target in targets.items()]})

    def _tell(self, order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer == "done\n", f"the network answers {answer!r}"

    def knows(self, name, pid):
        """From now on that process is the member."""
        self.pids[name] = pid
        self._tell({"pids": self.pids})

    def cut(self, source, target, how="hold"):
        """What `source` sends on its connections to `target`, and the answers there, is held or refused."""
        self.rules.append([source, target, how])
        self._tell({"rules": self.rules})

    def heal(self):
        self.rules = []
        self._tell({"rules": []})

    def narrow(self, bytes_per_second):
        """What members send each other passes at this rate, in each direction; 0 is no limit."""
        self._tell({"rate": bytes_per_second})

    def stop(self):
        self.process.kill()
        self.process.wait()


def owner(port, listener, pids):
    """The member one of whose sockets is bound to `port` and connected to `listener`."""
    ends = f":{port:04X}", f":{listener:04X}"
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
            socket = f"socket:[{fields[9]}]"
            break
    else:
        return CLIENTS
    for name, pid in pids.items():
        directory = f"/proc/{pid}/fd"
        try:
            for descriptor in os.listdir(directory):
                try:
                    if os.readlink(f"{directory}/{descriptor}") == socket:
                        return name
                except OSError:
                    continue  # It was closed meanwhile.
        except OSError:
            continue  # The process has ended.
    return CLIENTS


class Switchboard:
    def __init__(self):
        self.pids, self.rules = {}, {}
        self.open = asyncio.Event()
        self.passing = set()
        # Bytes a second between two members, and when each direction is free again.
        self.rate, self.free_at = 0, {}

    async def obey(self, order):
        for name, port, target in order.get("ways", []):
            await asyncio.start_server(lambda *ends, way=(name, port, target): self.accepted(*ends, *way), "127.0.0.1", port)
        self.pids = order.get("pids", self.pids)
        self.rate = order.get("rate", self.rate)
        if "rules" in order:
            self.rules = {(source, target): how for source, target, how in order["rules"]}
            for pair, writers in list(self.passing):
                if self.rules.get(pair) == "refuse":
                    for writer in writers:
                        writer.transport.abort()
            # Whoever waits looks again.
            self.open.set()
            self.open = asyncio.Event()

    async def accepted(self, reader, writer, name, listener, target):
        source = owner(writer.get_extra_info("peername")[1], listener, self.pids)
        pair = (source, name)
        if self.rules.get(pair) == "refuse":
            return writer.transport.abort()
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            return writer.transport.abort()
        known = pair, (writer, onward)
        self.passing.add(known)
        back = self.pump(there, writer, pair, (name, source))
        await asyncio.gather(self.pump(reader, onward, pair, pair), back, return_exceptions=True)
        self.passing.discard(known)
        for end in (writer, onward):
            end.transport.abort()

    async def pump(self, reader, writer, pair, direction):
        """What comes is passed on, its end included."""
        try:
            while True:
                is_narrow = self.rate and CLIENTS not in direction
                data = await reader.read(NARROW_CHUNK if is_narrow else CHUNK)
                if is_narrow:
                    await self.carry(len(data), direction)
                while self.rules.get(pair) == "hold":
                    await self.open.wait()
                if not data:
                    return
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


    async def carry(self, count, direction):
        """Waits until the way is free, and for as long as it takes."""
        now = asyncio.get_running_loop().time()
        # A process that wakes late makes up for it, for a moment.
        self.free_at[direction] = max(self.free_at.get(direction, now), now - LATE_SECONDS) + count / self.rate
        await asyncio.sleep(self.free_at[direction] - now)


async def main():
    switchboard = Switchboard()
    orders = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        await switchboard.obey(json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
