"""Messages by hand, for what no driver sends any more."""

import socket
import struct
import zlib

import bson

OP_REPLY, OP_QUERY, OP_COMPRESSED, OP_MSG = 1, 2004, 2012, 2013
MORE_TO_COME, EXHAUST_ALLOWED = 1 << 1, 1 << 16
ZLIB = 2


def msg_payload(command, flags=0, sequences=()):
    """What an OP_MSG has behind its header; `sequences`: names and documents."""
    payload = struct.pack("<I", flags) + b"\0" + bson.encode(command)
    for name, documents in sequences:
        section = name.encode() + b"\0" + b"".join(bson.encode(document) for document in documents)
        payload += b"\1" + struct.pack("<i", 4 + len(section)) + section
    return payload


def message(command, request=1, sequences=()):
    """The bytes of an OP_MSG, for senders in a hurry."""
    payload = msg_payload(command, sequences=sequences)
    return struct.pack("<iiii", 16 + len(payload), request, 0, OP_MSG) + payload


def compressed(plain):
    """The same message as an OP_COMPRESSED: little to send, much to unpack."""
    _, request, response_to, opcode = struct.unpack_from("<iiii", plain)
    payload = struct.pack("<iiB", opcode, len(plain) - 16, ZLIB) + zlib.compress(plain[16:])
    return struct.pack("<iiii", 16 + len(payload), request, response_to, OP_COMPRESSED) + payload


class RawConnection:
    """One connection that speaks bytes."""

    def __init__(self, port, timeout=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.last_request = 0

    def send_bytes(self, data):
        self.socket.sendall(data)

    def send(self, opcode, payload):
        self.last_request += 1
        self.socket.sendall(struct.pack("<iiii", 16 + len(payload), self.last_request, 0, opcode) + payload)
        return self.last_request

    def send_msg(self, command, flags=0, sequences=()):
        return self.send(OP_MSG, msg_payload(command, flags, sequences))

    def send_query(self, namespace, command):
        payload = struct.pack("<i", 0) + namespace.encode() + b"\0" + struct.pack("<ii", 0, -1) + bson.encode(command)
        return self.send(OP_QUERY, payload)

    def receive_exactly(self, length):
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise EOFError("the server closed the connection")
            data += part
        return data

    def receive(self):
        """The opcode, the flags, what it answers, and the document of the next message."""
        length, _, response_to, opcode = struct.unpack("<iiii", self.receive_exactly(16))
        payload = self.receive_exactly(length - 16)
        if opcode == OP_COMPRESSED:
            opcode, _, compressor = struct.unpack_from("<iiB", payload)
            assert compressor == ZLIB, f"a reply with compressor {compressor}"
            payload = zlib.decompress(payload[9:])
        if opcode == OP_MSG:
            (flags,) = struct.unpack_from("<I", payload)
            return opcode, flags, response_to, bson.decode(payload[5:])
        assert opcode == OP_REPLY, f"a reply with opcode {opcode}"
        (flags,) = struct.unpack_from("<i", payload)
        return opcode, flags, response_to, bson.decode(payload[20:])

    def is_closed(self):
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
