#!/usr/bin/env python3
"""gRPC by grpcio through a gateway at three times what its server can do.

Usage: grpc_calls.py PROGRAM (a built tiergate). Starts a server of known capacity and a gateway of its own on loopback, sends calls of all
four kinds as their times come, whatever became of those before, and ends by itself after some seconds. Fails unless every premium call
has succeeded, the crowd was refused with pushback, and the server never worked on more calls than there are slots.
"""

import collections
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent import futures

import grpc

SLOTS, SERVICE_S, SECONDS = 3, 0.05, 5
CAPACITY = SLOTS / SERVICE_S
PREMIUM, CROWD = CAPACITY / 3, CAPACITY * 8 / 3
KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
MESSAGES = (b"one", b"two", b"three")


class Work:
    """How many calls the server works on at once, and how many there were at most."""

    def __init__(self):
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def __enter__(self):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(SERVICE_S)

    def __exit__(self, *_):
        with self.lock:
            self.now -= 1


def serve(work):
    """A server that sends back what it gets; its port."""

    def unary_unary(message, _):
        with work:
            return message

    def unary_stream(message, _):
        with work:
            yield from (message,) * len(MESSAGES)

    def stream_unary(messages, _):
        # Its slot may be lent while the client sends.
        message = b"".join(messages)
        with work:
            return message

    def stream_stream(messages, _):
        messages = list(messages)
        with work:
            yield from messages

    methods = {
        kind: getattr(grpc, f"{kind}_rpc_method_handler")(behaviour)
        for kind, behaviour in zip(KINDS, (unary_unary, unary_stream, stream_unary, stream_stream))
    }
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo.Echo", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def policy(port, origin, admin):
    return f"""
admin = "127.0.0.1:{admin}"
threads = 2
[[listener]]
address = "127.0.0.1:{port}"
[origin]
servers = ["127.0.0.1:{origin}"]
protocol = "h2"
# grpcio works on for callers that have left.
on_cancel = "finish"
slots = {SLOTS}
[[class]]
name = "premium"
[[class]]
name = "crowd"
[[rule]]
header = {{ "x-class" = "premium" }}
class = "premium"
[[rule]]
path = "/"
class = "crowd"
"""


def call(channel, kind, name, number):
    """One call: its status, and whether it was told when to come again."""
    method = getattr(channel, kind)(f"/echo.Echo/{kind}")
    message = MESSAGES[0] if kind.startswith("unary") else iter(MESSAGES)
    try:
        answer = method(message, metadata=(("x-class", name),), timeout=4 if name == "premium" else 1)
        got = [answer] if kind.endswith("unary") else list(answer)
    except grpc.RpcError as error:
        told = dict(tuple(error.trailing_metadata() or ()) + tuple(error.initial_metadata() or ()))
        return name, error.code().name, "grpc-retry-pushback-ms" in told or "retry-after" in told
    expected = {
        "unary_unary": [MESSAGES[0]],
        "unary_stream": [MESSAGES[0]] * len(MESSAGES),
        "stream_unary": [b"".join(MESSAGES)],
        "stream_stream": list(MESSAGES),
    }[kind]
    assert got == expected, f"call {number}: {got}"
    return name, "OK", False


def load(port):
    """All calls, each at its time: how they ended."""
    times = [(at / PREMIUM, "premium") for at in range(int(PREMIUM * SECONDS))]
    times += [(at / CROWD, "crowd") for at in range(int(CROWD * SECONDS))]
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, futures.ThreadPoolExecutor(512) as pool:
        begun, calls = time.monotonic(), []
        for number, (at, name) in enumerate(sorted(times)):
            time.sleep(max(0, begun + at - time.monotonic()))
            calls.append(pool.submit(call, channel, KINDS[number % len(KINDS)], name, number))
        return [it.result() for it in calls]


def main():
    work = Work()
    server, origin = serve(work)
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "policy.toml")
        file.write_text(policy(port, origin, admin))
        gateway = subprocess.Popen([sys.argv[1], "run", file], stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{admin}/healthz", timeout=1)
                    break
                except OSError:
                    time.sleep(0.05)
            ends = load(port)
        finally:
            gateway.terminate()
            gateway.wait(60)
            server.stop(None)
    counts = collections.Counter((name, code) for name, code, _ in ends)
    for (name, code), count in sorted(counts.items()):
        print(f"{name:8} {code:20} {count}")
    print(f"calls in progress at the server: at most {work.most}, of {SLOTS} slots")
    premium = {code for name, code, _ in ends if name == "premium"}
    assert premium == {"OK"}, f"premium calls ended in {premium}"
    refused = [told for name, code, told in ends if name == "crowd" and code == "UNAVAILABLE"]
    assert refused, "at three times the capacity, calls are refused"
    assert all(refused), f"{refused.count(False)} refused calls were not told when to come again"
    assert counts["crowd", "OK"] > 0, "the crowd gets what premium leaves"
    assert work.most <= SLOTS, "the limit holds"


if __name__ == "__main__":
    main()
