#!/usr/bin/env python3
"""Instructions in user space per request, counted by callgrind: they do not depend on how busy the machine is.

One client, one kept connection, one request after another, through the policy of `make bench`. Says so if a figure is more than 3 % above the one that is
kept for this compiler and these settings (scripts/instructions.json), and fails if it is more than 10 %: without link-time optimisation, what the compiler
puts where moved the same code by 5 %. --update keeps what was counted. Another compiler has figures of its own: then they are only shown.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile

from fronts import ROOT, TIERGATE, Program, free_port, written

KEPT = os.path.join(ROOT, "scripts/instructions.json")
LAB = os.path.join(ROOT, "target/release/tiergate-lab")
POLICY = os.path.join(ROOT, "crates/tiergate-lab/peers/tiergate.toml")
DRIFT_TOLD, DRIFT_MAX = 0.03, 0.10
# Requests before it is counted, so that all is warm, and those that are counted.
WARM, COUNTED = 300, 1000
PATHS = {"forward 1 KiB": "/bytes/1024", "refuse": "/refused"}


class Client:
    """A kept connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(30)
        self.held = b""

    def ask(self, path):
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: instructions\r\nAccept: */*\r\n\r\n".encode())
        while b"\r\n\r\n" not in self.held:
            self.more()
        head, rest = self.held.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head).group(1))
        self.held = rest
        while len(self.held) < length:
            self.more()
        self.held = self.held[length:]

    def more(self):
        received = self.socket.recv(65536)
        if not received:
            raise SystemExit("the gateway closed the connection")
        self.held += received


def control(process, state):
    done = subprocess.run(["callgrind_control", "-i", state, str(process.pid)], capture_output=True, text=True, timeout=60)
    if done.returncode or "OK" not in done.stdout:
        raise SystemExit(f"callgrind_control: {done.stdout}{done.stderr}")


def counted(folder, path, origin):
    """Instructions per request of the thread that serves."""
    port, admin = free_port(), free_port()
    with open(POLICY) as file:
        policy = file.read()
    policy = re.sub(r'\[\[listener\]\]\naddress = "@TLS@"\ntls.*?\n', "", policy)
    for name, value in {"ADMIN": f"127.0.0.1:{admin}", "LISTEN": f"127.0.0.1:{port}", "ORIGIN": f"127.0.0.1:{origin}", "REFUSED": "/refused"}.items():
        policy = policy.replace(f"@{name}@", value)
    out = os.path.join(folder, f"out.{port}")
    words = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", f"--callgrind-out-file={out}"]
    words += [TIERGATE, "run", written(folder, f"{port}.toml", policy)]
    with Program(words, port, folder, within=60) as gateway:
        client = Client(port)
        for _ in range(WARM):
            client.ask(path)
        control(gateway.process, "on")
        for _ in range(COUNTED):
            client.ask(path)
        control(gateway.process, "off")
    totals = []
    for name in os.listdir(folder):
        if name.startswith(os.path.basename(out) + "-"):
            with open(os.path.join(folder, name)) as file:
                totals += [int(total) for total in re.findall(r"^(?:totals|summary): (\d+)", file.read(), re.M)]
    if not totals:
        raise SystemExit("callgrind has counted nothing")
    return max(totals) // COUNTED


def compiler():
    """What figures depend on beside the sources."""
    version = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    lto = os.environ.get("CARGO_PROFILE_RELEASE_LTO", "as in Cargo.toml")
    units = os.environ.get("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "as in Cargo.toml")
    return f"{version}; lto {lto}; codegen-units {units}"


def main():
    with open(KEPT) as file:
        kept = json.load(file)
    key = compiler()
    known = kept.get(key)
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        words = [LAB, "origin", "--listen", f"127.0.0.1:{port}", "--service", "0"]
        with Program(words, port, folder):
            found = {name: counted(folder, path, port) for name, path in PATHS.items()}
    print(f"{'instructions per request':<26}{'counted':>10}{'kept':>10}{'':>9}")
    told, above = [], []
    for name, count in found.items():
        before = known and known.get(name)
        drift = count / before - 1 if before else 0.0
        if drift > DRIFT_TOLD:
            told.append(name)
        if drift > DRIFT_MAX:
            above.append(name)
        print(f"{name:<26}{count:>10,}{format(before, ',') if before else '–':>10}{f'{drift:+.1%}' if before else '':>9}")
    if "--update" in sys.argv:
        kept[key] = found
        with open(KEPT, "w") as file:
            file.write(json.dumps(kept, indent=2) + "\n")
        print(f"kept for {key}")
    elif not known:
        print(f"no figures are kept for {key}: scripts/instructions.py --update keeps these")
    elif told:
        bound = DRIFT_MAX if above else DRIFT_TOLD
        words = f"more than {bound:.0%} above what is kept: {', '.join(above or told)}; find out why, or keep it by scripts/instructions.py --update"
        if above:
            raise SystemExit(words)
        print(words)


if __name__ == "__main__":
    main()
