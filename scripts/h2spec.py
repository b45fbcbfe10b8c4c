#!/usr/bin/env python3
"""Conformance with HTTP/2 (h2spec, strict), over TLS and without it; fails on any test that fails and is not expected to.

h2spec is built by Go, pinned by version and checked by Go's checksum database. Where it cannot be had, the script says so
and succeeds: it judges the gateway, not the network.
"""

import os
import re
import subprocess
import sys
import tempfile

import fronts
from fronts import ROOT, Program, free_port, written

MODULE = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
BUILT = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"), "h2spec")
# A port without TLS serves both protocols: what does not begin as HTTP/2 does is HTTP/1.1, and gets a 400.
EXPECTED = {"https": set(), "http": {"Sends invalid connection preface"}}

SERVER = """
require('http').createServer((request, response) => { request.resume(); response.end('hello\\n'.repeat(200)); })
  .listen(Number(process.argv[2]), '127.0.0.1');
"""


def installed():
    program = os.path.join(BUILT, "h2spec")
    if not os.path.exists(program):
        path = os.environ["PATH"] + ":/usr/local/go/bin"
        environment = os.environ | {"GOBIN": BUILT, "GOTOOLCHAIN": "local", "PATH": path}
        try:
            done = subprocess.run(["go", "install", MODULE], env=environment, capture_output=True, text=True, timeout=300)
            said = done.stderr
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
        if not os.path.exists(program):
            last = said.strip().splitlines()[-1:] or ["no reason given"]
            print(f"h2spec cannot be built, so conformance is not tested: {last[0]}", file=sys.stderr)
            raise SystemExit(0)
    return program


def main():
    program = installed()
    with tempfile.TemporaryDirectory() as folder:
        port, plain = free_port(), free_port()
        certificate = ["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"]
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *certificate]
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
        policy = f'[[listener]]\naddress = "127.0.0.1:{port}"\ntls = {{ certificate = "cert.pem", key = "key.pem" }}\n'
        server = Program(["node", written(folder, "app.js", SERVER), str(plain)], plain, folder)
        failed = 0
        with server as origin, fronts.tiergate(origin.port, folder, policy=policy) as gateway:
            for scheme, words in {"https": ["-t", "-k", "-p", str(port)], "http": ["-p", str(gateway.port)]}.items():
                words = [program, "--strict", "--host", "localhost", "--timeout", "5", *words]
                said = subprocess.run(words, capture_output=True, text=True, timeout=600).stdout
                counts = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", said)
                if not counts:
                    raise SystemExit(f"h2spec over {scheme} ended without a result:\n{said[-2000:]}")
                wrong = set(re.findall("× \\d+: (.*)", said))
                print(f"{scheme:5}  {counts[2]} of {counts[1]} tests passed, strict")
                for test in sorted(wrong):
                    expected = test in EXPECTED[scheme]
                    print(f"       failed{', as expected of a port for both protocols' if expected else ''}: {test}")
                    failed += not expected
                failed += scheme == "https" and counts[1] != counts[2]
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
