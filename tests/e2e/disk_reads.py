"""What a disk gives: random reads around the page cache, a number of them at a time, by one thread (io_submit(2))."""

import ctypes
import mmap
import os
import platform
import random
import struct
import time

# setup, destroy, getevents, submit
CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
ALIGNMENT = 4096
READ = 0
CONTROL_BLOCK = struct.Struct("<QIiHhIQQqQII")
EVENT = struct.Struct("<QQqq")
libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def measure(files, bytes_each, depth, seconds, seed=1):
    """Reads per second, and the sorted latencies in seconds, of reads at random places of the files."""
    setup, destroy, get_events, submit = CALLS[platform.machine()]
    opened = [(os.open(file, os.O_RDONLY | os.O_DIRECT), os.path.getsize(file)) for file in files]
    opened = [(descriptor, size) for descriptor, size in opened if size > bytes_each + ALIGNMENT]
    weights, draw = [size for _, size in opened], random.Random(seed)
    targets = draw.choices(opened, weights, k=1 << 16)
    memory = mmap.mmap(-1, depth * bytes_each)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    context = ctypes.c_ulong(0)
    call(setup, depth, ctypes.byref(context))
    blocks = ctypes.create_string_buffer(depth * CONTROL_BLOCK.size)
    first = ctypes.addressof(blocks)
    addresses = (ctypes.c_void_p * depth)(*(first + place * CONTROL_BLOCK.size for place in range(depth)))
    events = ctypes.create_string_buffer(depth * EVENT.size)
    begun, latencies, number = [0.0] * depth, [], 0

    def prepare(place):
        nonlocal number
        number += 1
        descriptor, size = targets[number & 0xFFFF]
        offset = draw.randrange((size - bytes_each) // ALIGNMENT) * ALIGNMENT
        CONTROL_BLOCK.pack_into(
            blocks, place * CONTROL_BLOCK.size, place, 0, 0, READ, 0, descriptor, start + place * bytes_each, bytes_each, offset, 0, 0, 0
        )

    def send(places):
        pointers = (ctypes.c_void_p * len(places))(*(addresses[place] for place in places))
        now = time.monotonic()
        for place in places:
            begun[place] = now
        sent = 0
        while sent < len(places):
            sent += call(submit, context, len(places) - sent, ctypes.byref(pointers, sent * ctypes.sizeof(ctypes.c_void_p)))

    for place in range(depth):
        prepare(place)
    began = time.monotonic()
    send(list(range(depth)))
    in_flight, done = depth, []
    while in_flight:
        count = call(get_events, context, 1, depth, events, None)
        now = time.monotonic()
        done = []
        for event in range(count):
            place, _, result, _ = EVENT.unpack_from(events, event * EVENT.size)
            assert result == bytes_each, f"a read of {bytes_each} bytes answered {result}"
            latencies.append(now - begun[place])
            done.append(place)
        in_flight -= count
        if now - began < seconds:
            for place in done:
                prepare(place)
            send(done)
            in_flight += count
    took = time.monotonic() - began
    call(destroy, context)
    for descriptor, _ in opened:
        os.close(descriptor)
    return len(latencies) / took, sorted(latencies)
