#!/usr/bin/env python3
"""Hostile clients and failing servers beside well-behaved clients: Tiergate, HAProxy and nginx in the same run.

Each case starts a server of its own, a contender before it, well-behaved clients and hostile ones, and prints what the
well-behaved ones got. HAProxy is told how many requests the server takes at a time and which are important; nginx has no
such setting and buffers as it does by default. Every load is bounded and ends by itself.

    scripts/hostile.py [--rounds N] [--only CASE] [--json FILE]        (all cases, one round: about twenty minutes)
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import fronts
from fronts import ROOT, Program, free_port, written

PLACES = 16

# A server of PLACES places: a request holds one from its head to the last byte of its answer, as a thread would. SIGUSR2:
# nobody listens for 0.8 s, as while it restarts; in the mode "loses", answers that are ready within 1 s are never sent.
SERVER = """
const places = Number(process.argv[3]), mode = process.argv[4];
const stops = mode === 'stops', refuses = mode === 'refuses', loses = mode === 'loses';
const queue = []; let free = places, lost = false;
const large = Buffer.alloc(8 << 20, 'x');
function next() {
  while (free > 0 && queue.length > 0) {
    free -= 1;
    const [request, response] = queue.shift();
    let held = true;
    const release = () => { if (held) { held = false; free += 1; next(); } };
    const answer = () => {
      const ms = Number((/ms=(\\d+)/.exec(request.url) || [0, 50])[1]);
      const timer = setTimeout(() => {
        if (lost) { release(); return; }
        if (request.url.startsWith('/large')) { response.end(large, release); } else { response.end('hello\\n'); release(); }
      }, ms);
      request.on('close', () => { if (stops && !response.writableEnded) { clearTimeout(timer); release(); } });
      response.on('close', () => { if (response.writableEnded) release(); });
    };
    // Uploads that end early free their place; work on a whole request does not notice that its client left.
    request.on('error', () => { if (!request.complete) release(); });
    if (request.method === 'GET') answer(); else { request.resume(); request.on('end', answer); }
  }
}
const server = require('http').createServer((request, response) => {
  if (refuses && free === 0) { response.statusCode = 503; response.end(); return; }
  queue.push([request, response]); next();
});
const listen = () => server.listen(Number(process.argv[2]), '127.0.0.1', 4096);
process.on('SIGUSR2', () => {
  if (loses) { lost = true; setTimeout(() => { lost = false; }, 1000); return; }
  server.close(); server.closeIdleConnections(); setTimeout(listen, 800);
});
listen();
"""

CLASSES = """
[[class]]
name = "premium"
minimum = "50%"
[[class]]
name = "basic"
[[rule]]
path = "/fast"
class = "premium"
[scheduling]
policy = "strict"
"""
IMPORTANT = "  http-request set-priority-class int(-10) if { path_beg /fast }"


def node(folder, places=PLACES, mode="works-on"):
    port = free_port()
    return Program(["node", written(folder, "app.js", SERVER), str(port), str(places), mode], port, folder)


def of_classes(**differences):
    """The three contenders, with premium and basic requests before PLACES places."""
    mine = {"policy": CLASSES, "at_origin": f"slots = {PLACES}"} | differences.get("tiergate", {})
    theirs = {"maxconn": PLACES, "backend": IMPORTANT} | differences.get("haproxy", {})
    return {
        "Tiergate": lambda origin, folder: fronts.tiergate(origin, folder, **mine),
        "HAProxy": lambda origin, folder: fronts.haproxy(origin, folder, **theirs),
        "nginx": lambda origin, folder: fronts.nginx(origin, folder, **differences.get("nginx", {})),
    }


# Clients ------------------------------------------------------------------------------------------------------------


class Answers:
    """What well-behaved clients got: of how many requests, and how long the answered ones took."""

    def __init__(self):
        self.asked, self.times = 0, []

    def share(self):
        return f"{len(self.times)} of {self.asked}"

    def median(self):
        return f"{statistics.median(self.times) * 1000:.0f} ms" if self.times else "none"

    def p99(self):
        return f"{sorted(self.times)[int(len(self.times) * 0.99)] * 1000:.0f} ms" if self.times else "none"


async def ask(port, target, answers, within=3.0, fields="", body=b"", half_close=False, source=None):
    """One well-behaved request on a connection of its own."""
    answers.asked += 1
    begun, writer = time.monotonic(), None
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=source)
            head = f"{'POST' if body else 'GET'} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{length}{fields}\r\n"
            writer.write(head.encode() + body)
            if half_close:
                writer.write_eof()
            line = await reader.readline()
            answer = await reader.read()
        if b" 200 " in line and answer.endswith(b"hello\n"):
            answers.times.append(time.monotonic() - begun)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        pass
    finally:
        if writer:
            writer.close()


async def at_rate(rate, seconds, start):
    """Starts a task every 1/rate s, however long they take, and waits for all."""
    tasks, begun = [], time.monotonic()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
        tasks.append(asyncio.create_task(start()))
    await asyncio.gather(*tasks)


async def leave(port, sent, after):
    """Sends bytes and leaves."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        await asyncio.sleep(after)
        writer.close()
    except OSError:
        pass


async def hold(port, sent, seconds, drip=b"", every=10.0, window=None):
    """Sends bytes, then a few more from time to time, and reads nothing; ends after `seconds` or when it is ended."""
    with socket.socket() as connection:
        connection.setblocking(False)
        if window:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        loop, until = asyncio.get_running_loop(), time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                await loop.sock_connect(connection, ("127.0.0.1", port))
                await loop.sock_sendall(connection, sent)
                while time.monotonic() < until:
                    await asyncio.sleep(min(every, max(0.05, until - time.monotonic())))
                    if drip:
                        await loop.sock_sendall(connection, drip)
        except (OSError, TimeoutError):
            pass


def get(target, fields=""):
    return f"GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n".encode()


def h2_frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def h2_requests(target, streams, window):
    """An HTTP/2 connection's first bytes: `streams` requests whose answers may have `window` bytes each."""
    fields = b"\x82\x86\x01\x01a" + b"\x04" + bytes([len(target)]) + target.encode()
    settings = h2_frame(4, 0, 0, (4).to_bytes(2, "big") + window.to_bytes(4, "big"))
    heads = b"".join(h2_frame(1, 5, 1 + 2 * number, fields) for number in range(streams))
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + h2_frame(8, 0, 0, (2**30).to_bytes(4, "big")) + heads


# Cases: what is done, and what the well-behaved clients got ---------------------------------------------------------


def abandoned(mode):
    async def run(gateway, _):
        answers = Answers()
        await asyncio.gather(
            at_rate(60, 15, lambda: leave(gateway.port, get("/slow?ms=1000"), 0.01)),
            at_rate(20, 15, lambda: ask(gateway.port, "/fast", answers)),
        )
        return [answers.median(), answers.share()]

    return (lambda folder: node(folder, mode=mode)), of_classes(), run


def pipelined():
    async def run(gateway, _):
        answers, bytes_ = Answers(), get("/slow?ms=1000") * 2
        await asyncio.gather(
            at_rate(60, 15, lambda: leave(gateway.port, bytes_, 0.01)),
            at_rate(20, 15, lambda: ask(gateway.port, "/fast", answers)),
        )
        return [answers.median(), answers.share()]

    return (lambda folder: node(folder, mode="stops")), of_classes(), run


def slow_bodies():
    body = b"POST /basic HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 66_000

    async def run(gateway, _):
        answers = Answers()
        slow = asyncio.gather(*(hold(gateway.port, body, 26, drip=b"x") for _ in range(24)))
        await asyncio.sleep(1)
        await at_rate(1, 18, lambda: ask(gateway.port, "/fast", answers, within=5))
        await slow
        return [answers.share(), answers.median()]

    return node, of_classes(), run


def slow_streams():
    """The same on one connection of HTTP/2, where all contenders speak it without TLS."""
    opened = h2_requests("/basic", 0, 65_535)
    fields = b"\x83\x86\x01\x01a\x04\x06/basic"
    # As much body as the connection's window of 64 KiB lets 20 streams send.
    for stream in range(1, 41, 2):
        opened += h2_frame(1, 4, stream, fields) + h2_frame(0, 0, stream, b"x" * 3000)

    async def run(gateway, _):
        answers = Answers()
        slow = asyncio.create_task(hold(gateway.port, opened, 26, drip=h2_frame(0, 0, 1, b"x")))
        await asyncio.sleep(1)
        await at_rate(1, 18, lambda: ask(gateway.port, "/fast", answers, within=5))
        await slow
        return [answers.share(), answers.median()]

    # nginx 1.22 and HAProxy take one protocol a port without TLS.
    return node, {"Tiergate": of_classes()["Tiergate"]}, run


def slow_readers():
    async def run(gateway, _):
        answers = Answers()
        slow = asyncio.gather(*(hold(gateway.port, get("/large"), 26, window=4096) for _ in range(24)))
        await asyncio.sleep(1)
        await at_rate(2, 16.5, lambda: ask(gateway.port, "/fast", answers, within=5))
        await slow
        return [answers.share(), answers.median()]

    return node, of_classes(), run


def cancelled():
    async def run(gateway, _):
        # Not counted for three seconds, in which Tiergate, the only one that is not told the capacity, measures it.
        unseen, answers = Answers(), Answers()
        number = itertools.count()

        def one():
            request = next(number)
            if request % 5:
                return leave(gateway.port, get("/?ms=100"), 0.05)
            return ask(gateway.port, "/?ms=100", unseen if request < 750 else answers)

        await at_rate(250, 20, one)
        return [answers.share(), answers.p99()]

    untold = of_classes(tiergate={"policy": "", "at_origin": ""}, haproxy={"maxconn": 40, "backend": ""})
    return (lambda folder: node(folder, 40)), untold, run


def no_answer():
    """uWSGI closes without an answer when the head is larger than its buffer."""

    def start(folder):
        port = free_port()
        app = written(folder, "app.py", "def application(e, s):\n    s('200 OK', [('Content-Length', '6')])\n    return [b'hello\\n']\n")
        words = ["uwsgi_python3", "--http-socket", f"127.0.0.1:{port}", "--wsgi-file", app, "--processes", "4", "--master"]
        return Program(words, port, folder)

    async def run(gateway, _):
        answers, cookie = Answers(), f"Cookie: a={'x' * 5000}\r\n"
        await asyncio.gather(
            at_rate(5, 11.5, lambda: leave(gateway.port, get("/", cookie), 1)),
            at_rate(2, 11.5, lambda: ask(gateway.port, "/", answers)),
        )
        return [answers.share(), answers.median()]

    return start, of_classes(), run


def fault(mode, within):
    """Load of 45 % of what the server can do, which has its fault after 3 s."""

    async def run(gateway, origin):
        answers = Answers()

        async def happens():
            await asyncio.sleep(3)
            origin.process.send_signal(signal.SIGUSR2)

        await asyncio.gather(at_rate(90, 10, lambda: ask(gateway.port, "/fast?ms=80", answers, within=within)), happens())
        return [answers.share(), answers.p99()]

    return (lambda folder: node(folder, mode=mode)), of_classes(), run


def impatient_loop():
    """Who is refused asks again at once: the quicker the refusal, the more of all requests are theirs."""

    async def run(gateway, _):
        answers, number, until = Answers(), itertools.count(), time.monotonic() + 15

        def polite():
            address = next(number) % 1000
            return ask(gateway.port, "/?ms=130", answers, within=5, source=(f"127.7.{address // 250}.{address % 250 + 1}", 0))

        async def loop(address):
            while time.monotonic() < until:
                await ask(gateway.port, "/?ms=130", Answers(), within=0.12, source=(f"127.9.0.{address + 1}", 0))
                await asyncio.sleep(0.02)

        await asyncio.gather(at_rate(60, 15, polite), *(loop(index % 30) for index in range(60)))
        return [answers.share(), answers.p99()]

    return node, of_classes(), run


def refusing():
    """Tiergate alone is not told how many requests the server takes."""

    async def run(gateway, _):
        answers = Answers()
        await asyncio.gather(
            at_rate(50, 20, lambda: ask(gateway.port, "/?ms=300", Answers())),
            at_rate(5, 20, lambda: ask(gateway.port, "/fast?ms=300", answers)),
        )
        return [answers.share(), answers.median()]

    untold = of_classes(tiergate={"at_origin": ""}, haproxy={"maxconn": 8})
    return (lambda folder: node(folder, 8, "refuses")), untold, run


def half_closed():
    async def run(gateway, _):
        answers = Answers()
        await at_rate(20, 2, lambda: ask(gateway.port, "/fast", answers, half_close=True))
        return [answers.share(), answers.median()]

    return node, of_classes(), run


def small_windows():
    async def run(gateway, _):
        before, most = gateway.resident_kib(), 0
        attack = [hold(gateway.port, h2_requests("/large", 30, 1), 70) for _ in range(60)]
        slow = asyncio.gather(*attack)
        begun = time.monotonic()
        while time.monotonic() - begun < 60:
            most = max(most, gateway.resident_kib())
            await asyncio.sleep(2)
        after = gateway.resident_kib()
        await slow
        return [f"{(most - before) / 1024:.0f} MiB", f"{(after - before) / 1024:.0f} MiB after 60 s"]

    h2 = of_classes(haproxy={"protocol": "proto h2", "maxconn": 512}, nginx={"protocol": "http2"}, tiergate={"at_origin": "slots = 512"})
    return (lambda folder: node(folder, 512)), h2, run


def few_descriptors():
    async def run(gateway, _):
        answers = Answers()
        fan_out = asyncio.gather(*(hold(gateway.port, get("/slow?ms=3000"), 20) for _ in range(400)))
        await asyncio.sleep(1)
        await at_rate(2, 15, lambda: ask(gateway.port, "/fast", answers))
        await fan_out
        return [answers.share(), answers.median()]

    few = {"files": 256}
    return node, of_classes(tiergate=few, haproxy=few | {"connections": None}, nginx=few), run


def idle_connections():
    async def run(gateway, _):
        answers = Answers()
        idle = asyncio.gather(*(hold(gateway.port, get("/fast"), 20) for _ in range(300)))
        await asyncio.sleep(8)
        await at_rate(2, 10, lambda: ask(gateway.port, "/fast", answers))
        await idle
        return [answers.share(), answers.median()]

    # nginx counts connections to the server and by worker.
    bounds = of_classes(
        tiergate={"policy": CLASSES + "[limits]\nconnections_max = 100\n"}, haproxy={"connections": 100}, nginx={"connections": 100}
    )
    return node, bounds, run


def spellings():
    """How many spellings of a path that a rule forbids reach what it names."""
    source = open(os.path.join(ROOT, "crates/tiergate/tests/protocols/paths.rs")).read()
    listed = source[source.index("const SPELLINGS") : source.index("const SECRET")]
    all_ = re.findall(r'^    "((?:[^"\\]|\\.)*)",', listed, re.MULTILINE)
    names = {"{dir}": "api", "{file}": "secret", "{DIR}": "API", "{FILE}": "SECRET", "{d}": "61", "{ir}": "pi", "{f}": "73", "{ile}": "ecret"}

    def written_out(spelling):
        for name, text in names.items():
            spelling = spelling.replace(name, text)
        return spelling.replace("\\\\", "\\")

    def start(folder):
        port = free_port()
        config = (
            f"daemon off; pid {folder}/s.pid; error_log stderr crit; events {{ }}\nhttp {{ access_log off; server {{ "
            f"listen 127.0.0.1:{port}; location /api/secret {{ return 200 SECRET; }} location / {{ return 200 page; }} }} }}\n"
        )
        return Program(["nginx", "-c", written(folder, "server.conf", config), "-p", folder], port, folder)

    async def run(gateway, _):
        reached = 0
        for spelling in all_:
            try:
                async with asyncio.timeout(3):
                    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                    writer.write(f"GET {written_out(spelling)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode("latin-1"))
                    reached += b"SECRET" in await reader.read()
                    writer.close()
            except (OSError, TimeoutError):
                pass
        return [f"{reached} of {len(all_)}", ""]

    forbid = '[[rule]]\npath = "/api/*"\nrefuse = true\n'
    normalize = "  http-request normalize-uri percent-to-uppercase\n  http-request normalize-uri path-strip-dot\n"
    normalize += "  http-request normalize-uri path-strip-dotdot full\n  http-request normalize-uri path-merge-slashes\n"
    normalize += "  http-request deny if { path_beg /api/ }"
    return start, {
        "Tiergate": lambda origin, folder: fronts.tiergate(origin, folder, policy=forbid),
        "HAProxy": lambda origin, folder: fronts.haproxy(origin, folder, frontend=normalize),
        "nginx": lambda origin, folder: fronts.nginx(origin, folder, server="location /api/ { return 403; }"),
    }, run


CASES = {
    "abandoned": ("60/s of 1 s left after 10 ms, server works on", ["premium median", "answered"], lambda: abandoned("works-on")),
    "abandoned-stops": ("the same, server stops", ["premium median", "answered"], lambda: abandoned("stops")),
    "pipelined": ("the same, with a second request behind", ["premium median", "answered"], pipelined),
    "slow-bodies": ("24 uploads of a byte every 10 s", ["premium answered", "median"], slow_bodies),
    "slow-streams": ("20 such uploads on one HTTP/2 connection", ["premium answered", "median"], slow_streams),
    "slow-readers": ("24 clients that do not read 8 MiB", ["premium answered", "median"], slow_readers),
    "cancelled": ("4 of 5 requests of 100 ms left after 50 ms, 62 % load", ["others answered", "p99"], cancelled),
    "no-answer": ("uWSGI, 5/s with a cookie of 5 kB", ["others answered", "median"], no_answer),
    "restart": ("server away for 0.8 s", ["answered", "p99"], lambda: fault("works-on", within=5)),
    "lost-answers": ("server loses its answers for 1 s, clients wait 2 s", ["answered", "p99"], lambda: fault("loses", within=2)),
    "impatient-loop": ("60 connections of 30 addresses leave after 120 ms, again and again", ["others answered", "p99"], impatient_loop),
    "refusing": ("server answers 503 beyond 8 at once, twice its load", ["premium answered", "median"], refusing),
    "half-closed": ("clients that close their half at once", ["answered", "median"], half_closed),
    "small-windows": ("60 HTTP/2 connections, 30 answers behind a window of 1 byte each", ["memory", "later"], small_windows),
    "few-descriptors": ("400 slow requests, 256 descriptors", ["premium answered", "median"], few_descriptors),
    "idle-connections": ("300 idle connections, 100 allowed", ["premium answered", "median"], idle_connections),
    "paths": ("spellings of a forbidden path, nginx as server", ["reached", ""], spellings),
}


def show(cases, found, rounds):
    print(f"\nWhat well-behaved clients got, {rounds} round{'s'[: rounds > 1]}; all contenders in the same run\n")
    rows = [["what is done", "seen", "Tiergate", "HAProxy", "nginx"]]
    for case in cases:
        what, seen, _ = CASES[case]
        for index, name in enumerate(seen):
            if name:
                cells = ["; ".join(figures[index] for figures in found.get((case, who), [])) or "-" for who in rows[0][2:]]
                rows.append([what if index == 0 else "", name, *cells])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--rounds", type=int, default=1)
    words.add_argument("--only", action="append", choices=CASES)
    words.add_argument("--json")
    given = words.parse_args()
    cases = given.only or list(CASES)
    if "no-answer" in cases and not shutil.which("uwsgi_python3"):
        packages = ["uwsgi_python3 uwsgi-plugin-python3", "uwsgi_python3 uwsgi-core"]
        subprocess.run([os.path.join(ROOT, "scripts/setup.sh"), *packages], check=False)
        if not shutil.which("uwsgi_python3"):
            print("uWSGI is not installed: its case is left out", file=sys.stderr)
            cases.remove("no-answer")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(given.rounds):
            for case in cases:
                server, contenders, run = CASES[case][2]()
                order = [name for name in contenders if name == "Tiergate" or shutil.which(name.lower())]
                random.Random(round_).shuffle(order)
                for name in order:
                    if sys.stderr.isatty():
                        print(f"\rround {round_ + 1}: {case} {name}\x1b[K", end="", file=sys.stderr)
                    with server(folder) as origin, contenders[name](origin.port, folder) as gateway:
                        found.setdefault((case, name), []).append(asyncio.run(run(gateway, origin)))
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    show(cases, found, given.rounds)
    if given.json:
        with open(given.json, "w") as file:
            json.dump([[*key, values] for key, values in found.items()], file, indent=1)


if __name__ == "__main__":
    main()
