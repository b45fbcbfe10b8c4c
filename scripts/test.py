#!/usr/bin/env python3
"""All tests, as `cargo test` runs them; what failed beside the others is tried again alone.

Most tests run a gateway, an origin and clients, four tests at once on two processors: now and then one of them waits for longer than it has patience for.
One or two that failed are run again, alone, and have to pass twice; what is broken fails again. Each is named at the end, as it may be a
fault that shows once in a while. More than two are not tried again.
"""

import os
import re
import subprocess
import sys

FAILED_MAX = 2
TIMES = 2
RUNNING = re.compile(r"^\s*Running (unittests )?(\S+) \((\S+)\)")
DOCS = re.compile(r"^\s*Doc-tests ")
FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED")
PASSED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. ok")
RESULT = re.compile(r"^test result: (ok|FAILED)")
CARGO = os.environ.get("CARGO", "cargo")


class Output:
    """What a run of cargo says of tests that fail, as it says it."""

    def __init__(self):
        self.target = None
        # Those that could be named, and how often one failed.
        self.failed = []
        self.passed = set()
        self.failures = 0
        self.results_failed = 0

    def line(self, line):
        if match := RUNNING.match(line):
            binary = re.sub(r"-[0-9a-f]{16}$", "", os.path.basename(match[3]))
            if not match[1]:
                self.target = ["--test", binary]
            else:
                self.target = ["--lib"] if match[2].endswith("lib.rs") else ["--bins"]
        elif DOCS.match(line):
            self.target = None
        elif match := FAILED.match(line):
            self.failures += 1
            if self.target:
                self.failed.append((self.target, match[1]))
        elif match := PASSED.match(line):
            self.passed.add(match[1])
        elif (match := RESULT.match(line)) and match[1] == "FAILED":
            self.results_failed += 1

    def may_be_chance(self, code):
        """Whether all that went wrong are a few tests that said so, and could be named."""
        targets = {tuple(target) for target, _ in self.failed}
        all_named = len(self.failed) == self.failures and self.results_failed >= len(targets)
        # Another code than that of tests which failed: nothing was compiled, or cargo was ended.
        return code == 101 and 0 < self.failures <= FAILED_MAX and all_named


def run(command):
    """Runs it, and shows what it says; what of that is about tests, and how it ended."""
    output = Output()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    crashed = False
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        output.line(line)
        crashed |= "process didn't exit successfully" in line and "exit status: 101" not in line
    return output, -1 if process.wait() and crashed else process.returncode


def main():
    base = [CARGO, "test", "--workspace", "--locked"]
    output, code = run(base + ["--no-fail-fast", *sys.argv[1:]])
    if code == 0 or not output.may_be_chance(code):
        return code
    for target, name in output.failed:
        print(f"\n=== {name} failed beside the others; alone it has to pass {TIMES} times", flush=True)
        for _ in range(TIMES):
            again, code = run(base + target + ["--", "--exact", name, "--test-threads=1"])
            if code != 0 or name not in again.passed:
                return code or 1
    print("\n=== failed beside the others, and passed alone; look at why:")
    for target, name in output.failed:
        print(f"  {' '.join(target)} {name}")
    return 0


if __name__ == "__main__":
    code = main()
    # What a signal ended is no success.
    sys.exit(code if code >= 0 else 1)
