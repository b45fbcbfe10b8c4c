#!/usr/bin/env python3
"""Goodput under overload of clients that give up, when nobody has typed in a deadline.

Two real application servers of about 213 requests/s (gunicorn with 2 x 8 threads; Node with a pool of 16),
open-loop clients of several patiences at several times the capacity, and in front of the server in turns: Tiergate
without a deadline, Tiergate with each of several typed deadlines, HAProxy with the server's capacity as maxconn, and
nginx. Good is a complete 2xx response before its client gives up. With --proxied, an HAProxy that keeps its
connections stands between clients and contenders, so that nobody is seen leaving. Everything ends by itself.

    scripts/patience.py [--proxied] [--rounds N] [--seconds S] [--server NAME] [--patience NAME] [--times X]
                        [--no-peers] [--json FILE]
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import nullcontext

import fronts
from fronts import ROOT, Program, free_port, written

LAB = os.path.join(ROOT, "target/release/tiergate-lab")
VENV = os.path.join(ROOT, "target/patience/venv")

SLOTS, SERVICE_MS = 16, 75
CAPACITY = SLOTS / SERVICE_MS * 1000
PATIENCE = {"0.3 s": [300], "1 s": [1000], "3 s": [3000], "mixed": [300, 1000, 3000]}
TYPED_MS = [100, 200, 500, 900]
QUEUE_MS = [200, 1000]
# Left out at the beginning, while the gateway learns and queues fill.
WARM_S = 5

APP = f"""
import random, time
def app(environ, start_response):
    time.sleep(random.uniform(0.5, 1.5) * {SERVICE_MS} / 1000)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "6")])
    return [b"hello\\n"]
"""

NODE = f"""
const queue = []; let free = {SLOTS};
function next() {{
  while (free > 0 && queue.length > 0) {{
    free -= 1; const response = queue.shift();
    setTimeout(() => {{ free += 1; response.end("hello\\n"); next(); }}, (0.5 + Math.random()) * {SERVICE_MS});
  }}
}}
require("http").createServer((request, response) => {{ queue.push(response); next(); }})
  .listen(Number(process.argv[2]), "127.0.0.1");
"""


def gunicorn(folder):
    if not os.path.exists(os.path.join(VENV, "bin/gunicorn")):
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([os.path.join(VENV, "bin/pip"), "install", "-q", "gunicorn==23.0.0"], check=True)
    written(folder, "app.py", APP)
    port = free_port()
    words = [os.path.join(VENV, "bin/gunicorn"), "-k", "gthread", "-w", "2", "--threads", "8", "--keep-alive", "60"]
    return Program([*words, "--backlog", "4096", "-b", f"127.0.0.1:{port}", "app:app"], port, folder)


def node(folder):
    written(folder, "app.js", NODE)
    port = free_port()
    return Program(["node", "app.js", str(port)], port, folder)


SERVERS = {"gunicorn": gunicorn, "node": node}


def typed(deadline_ms):
    # Not told: the capacity. Told, if anything: the deadline.
    policy = f'[[class]]\nname = "all"\ndeadline = "{deadline_ms}ms"\n' if deadline_ms else ""
    return lambda origin, folder: fronts.tiergate(origin, folder, policy=policy)


def queue(queue_ms):
    return lambda origin, folder: fronts.haproxy(origin, folder, maxconn=SLOTS, queue_ms=queue_ms)


def proxy(gateway, folder):
    """Nobody behind it is seen leaving."""
    keeps = "  no option abortonclose\n  http-reuse always"
    return fronts.haproxy(gateway, folder, backend=keeps, queue_ms=20_000)


def contenders():
    found = {"tiergate": typed(None)}
    found |= {f"tiergate {ms} ms": typed(ms) for ms in TYPED_MS}
    if shutil.which("haproxy"):
        found |= {f"haproxy {ms} ms": queue(ms) for ms in QUEUE_MS}
    if shutil.which("nginx"):
        found["nginx"] = fronts.nginx
    return found


def goodput(port, patience_ms, times, seconds, seed):
    rate = CAPACITY * times / len(patience_ms)
    words = [LAB, "load", "--target", f"127.0.0.1:{port}", "--seed", str(seed), "--json"]
    for ms in patience_ms:
        population = f"name=p{ms},path=/,rate={rate:.1f}x{WARM_S}s+{rate:.1f}x{seconds}s,patience={ms}ms,connections=8192"
        words += ["--population", population]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WARM_S + seconds + 180)
    if done.returncode != 0 and not done.stdout:
        raise SystemExit(done.stderr)
    report = json.loads(done.stdout)
    # The last step's answers, whenever they were asked for.
    return sum(population["steps"][1]["answered_in_it"] for population in report["populations"]) / seconds


def median(values):
    return statistics.median(values)


def save(path, found):
    """After each combination, so that a run that is stopped has shown what it got to."""
    if path:
        with open(path, "w") as file:
            json.dump([[*key, values] for key, values in found.items()], file, indent=1)


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--seconds", type=int, default=10)
    words.add_argument("--server", choices=SERVERS)
    words.add_argument("--patience", choices=PATIENCE)
    words.add_argument("--times", type=float)
    words.add_argument("--proxied", action="store_true", help="behind an HAProxy that keeps its connections when clients leave")
    words.add_argument("--no-peers", action="store_true", help="Tiergate only, without and with deadlines")
    words.add_argument("--json")
    given = words.parse_args()
    servers = [given.server] if given.server else list(SERVERS)
    patiences = [given.patience] if given.patience else list(PATIENCE)
    loads = [given.times] if given.times else [3, 10]
    names = {name: start for name, start in contenders().items() if not given.no_peers or name.startswith("tiergate")}
    runs = given.rounds * len(servers) * len(patiences) * len(loads) * len(names)
    print(f"{runs} runs of {WARM_S + given.seconds + 1} s: {runs * (WARM_S + given.seconds + 1) / 60:.0f} minutes")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        number = 0
        for round_ in range(given.rounds):
            for server in servers:
                for patience in patiences:
                    for times in loads:
                        order = list(names)
                        random.Random(number).shuffle(order)
                        for name in order:
                            number += 1
                            if sys.stderr.isatty():
                                print(f"\r{number}/{runs} {server} {patience} {times}x {name}\x1b[K", end="", file=sys.stderr)
                            with SERVERS[server](folder) as origin, names[name](origin.port, folder) as gateway:
                                with proxy(gateway.port, folder) if given.proxied else nullcontext(gateway) as front:
                                    good = goodput(front.port, PATIENCE[patience], times, given.seconds, number)
                            found.setdefault((server, times, patience, name), []).append(good)
                        save(given.json, found)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    print(f"\nGood responses a second, median of {given.rounds} (lowest to highest); the servers' capacity is {CAPACITY:.0f}\n")
    header = ["server", "load", "patience", "Tiergate", "best typed", "share"]
    peers = [name for name in names if not name.startswith("tiergate")]
    rows = [header + peers]
    for server in servers:
        for times in loads:
            for patience in patiences:
                of = lambda name: found[(server, times, patience, name)]
                typed = max((median(of(f"tiergate {ms} ms")), ms) for ms in TYPED_MS)
                mine = of("tiergate")
                spread = lambda values: f"{median(values):.0f} ({min(values):.0f}-{max(values):.0f})"
                row = [server, f"{times:g}x", patience, spread(mine), f"{typed[0]:.0f} ({typed[1]} ms)"]
                row.append(f"{median(mine) / max(typed[0], 1e-9):.2f}")
                rows.append(row + [spread(of(name)) for name in peers])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


if __name__ == "__main__":
    main()
