"""Power losses of real servers: what was not synced is gone (power_loss.c), or partly there, torn, or zeros."""

import os
import pathlib
import shutil
import signal
import subprocess

from server_process import Server

SOURCE = pathlib.Path(__file__).with_name("power_loss.c")
PAGE, SECTOR = 4096, 512


def build(directory):
    """The library, built once for a directory."""
    library = pathlib.Path(directory) / "power_loss.so"
    if not library.exists():
        command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=60)
    return library


class Disk:
    """What is durable of a data directory. `ignores` is a planted bug: what no sync reaches."""

    def __init__(self, library, data, ignores=None):
        self.data = pathlib.Path(data).resolve()
        self.data.mkdir(parents=True, exist_ok=True)
        self.mirror = self.data.parent / f"{self.data.name}.durable"
        self.mirror.mkdir()
        self.variables = {"LD_PRELOAD": str(library), "POWER_LOSS_DATA": str(self.data), "POWER_LOSS_MIRROR": str(self.mirror)}
        if ignores:
            self.variables["POWER_LOSS_IGNORE"] = ignores

    def server(self, *arguments, **options):
        return Server(self.data, *arguments, before=lambda: os.environ.update(self.variables), **options)

    def run(self, command, kill_at=None, seconds=120):
        """Runs a program on this disk, which is killed before its so manieth change."""
        variables = self.variables | ({"POWER_LOSS_KILL_AT": str(kill_at)} if kill_at else {})
        return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=seconds)

    def lose_power(self, random, target=None):
        """The data directory as it is after a power loss now: it takes the place of the other, or becomes `target`."""
        found = target or self.data.parent / f"{self.data.name}.found"
        self._make((self.mirror / "root").read_text(), found, self.data, random)
        if target is None:
            shutil.rmtree(self.data)
            shutil.rmtree(self.mirror)
            found.rename(self.data)
            self.mirror.mkdir()
        return target or self.data

    def _make(self, directory, into, live, random):
        into.mkdir()
        for entry in (self.mirror / f"d{directory}").iterdir():
            if entry.is_symlink():
                self._make(os.readlink(entry)[1:], into / entry.name, live / entry.name, random)
            else:
                (into / entry.name).write_bytes(after_loss(entry.read_bytes(), live / entry.name, random))


def after_loss(durable, live, random):
    """What is there of a file: what is durable, and perhaps something of what was written since."""
    try:
        written = live.read_bytes()
    except FileNotFoundError:
        return durable
    if len(written) <= len(durable) or not written.startswith(durable) or random.random() < 0.3:
        return durable
    tail = bytearray(written[len(durable) : random.randint(len(durable), len(written))])
    kind = random.choice(["torn", "zeros", "pages"])
    if kind == "zeros":
        # The file has its size, and its last sectors have not come.
        begin = random.randint(0, len(tail))
        begin = max(begin - (len(durable) + begin) % SECTOR, 0)
        tail[begin:] = bytes(len(tail) - begin + random.choice([0, 0, PAGE]))
    if kind == "pages":
        # Written back in any order: some pages are there, others are zeros.
        for begin in range(-(len(durable) % PAGE), len(tail), PAGE):
            if random.random() < 0.5:
                first = max(begin, 0)
                tail[first : begin + PAGE] = bytes(len(tail[first : begin + PAGE]))
    return durable + bytes(tail)


def kill(server):
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGKILL)
    server.process.wait()
