#!/usr/bin/env python3
"""Runs every command of README.md: what it promises must work as written.

`make` commands are only checked to be what .ci/run runs; the long-running `tiergate run` is started,
asked whether it is ready, reloaded where it watches its file, and ended.
"""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
CI = (ROOT / ".ci/run").read_text()
READY_S = 20


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.M | re.S)


def run(words, cwd):
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"README: {shlex.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def status():
    with urllib.request.urlopen("http://127.0.0.1:8434/status", timeout=2) as answer:
        return json.load(answer)


def until(what, condition):
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"README: not seen within {READY_S} s: {what}")


def serve(words, cwd):
    gateway = subprocess.Popen(words, cwd=cwd, stderr=subprocess.DEVNULL)
    try:
        until("the gateway serves", lambda: status()["phase"] == "serving")
        if "--watch" in words:
            before = status()["config"]["generation"]
            with open(cwd / "shop.toml", "a") as policy:
                policy.write("# changed\n")
            until("a reload", lambda: status()["config"]["generation"] > before)
    finally:
        gateway.send_signal(signal.SIGTERM)
        gateway.wait(timeout=60)


def access_log():
    """A minute of an access log, in the combined format: ten requests a second from twenty clients."""
    paths = ["/", "/cart/add", "/list?page=2", "/cart/checkout", "/image.png"]
    return "".join(
        f'192.0.2.{number % 20} - - [21/Nov/2026:10:00:{number // 10:02} +0000] '
        f'"GET {paths[number % len(paths)]} HTTP/1.1" 200 {512 + number} "-" "Mozilla/5.0"\n'
        for number in range(600)
    )


def main():
    home = pathlib.Path(tempfile.mkdtemp(prefix="tiergate-readme-"))
    (home / "shop.toml").write_text(blocks("toml")[0])
    (home / "access.log").write_text(access_log())
    built = ROOT / "target/release"
    os.environ["PATH"] = f"{built}:{os.environ['PATH']}"
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    for line in commands:
        words = shlex.split(line, comments=True)
        if not words:
            continue
        print(f"README: {shlex.join(words)}", flush=True)
        if words[0] == "make":
            if not re.search(rf"\bmake {words[1]}\b", CI):
                sys.exit(f"README: .ci/run does not run `make {words[1]}`")
        elif words[0] == "cargo":
            run(words, ROOT)
        elif "run" in words:
            words[0] = "tiergate"
            serve(words, home)
        else:
            run(words, home)
    print(f"README: {len(commands)} lines work")


if __name__ == "__main__":
    main()
