#!/usr/bin/env python3
"""Puts faults into the schedulers, one at a time, and shows that a property notices each.

usage: scripts/mutations.py [LIST] [--only NAME,NAME] [--check]

LIST: the faults, by default crates/tiergate-core/tests/scheduling/mutations.txt. One is

    == name: what is wrong
    file: a path below crates/tiergate-core
    tests: beginnings of names of tests, one of which must fail
    - lines that are there, once
    + lines in their place

The faults go into a copy of the crate in target/mutations, never into this tree. TIERGATE_SEEDS is how many
seeds each property is asked for (500). --check only says whether every fault still applies. Ends with 1 if
a fault was not noticed, does not apply or does not build.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATE = "crates/tiergate-core"
COPY = ROOT / "target" / "mutations" / "tree"
# A fault may make a property run for ever.
SECONDS_MAX = 300


def read(path):
    """The faults of a list."""
    faults = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("== "):
            name, _, what = line[3:].partition(": ")
            faults.append({"name": name, "what": what, "old": [], "new": []})
        elif line.startswith(("file: ", "tests: ")):
            key, _, value = line.partition(": ")
            faults[-1][key] = value.split() if key == "tests" else value
        elif line.startswith(("-", "+")):
            faults[-1]["old" if line[0] == "-" else "new"].append(line[1:])
        elif line.strip() and not line.startswith("#"):
            sys.exit(f"{path}:{number}: neither a fault nor a comment")
    return faults


def mutated(fault):
    """The file with the fault in it; None: its lines are not there, or more than once."""
    text = (ROOT / CRATE / fault["file"]).read_text()
    old, new = ("\n".join(fault[key]) + "\n" for key in ("old", "new"))
    if not fault["new"]:
        new = ""
    return text.replace(old, new) if text.count(old) == 1 else None


def copy():
    """A copy of the workspace with nothing in it but the crate."""
    shutil.rmtree(COPY, ignore_errors=True)
    # With today's times: cargo would take a file that is older than its last build for built.
    shutil.copytree(ROOT / CRATE, COPY / CRATE, copy_function=shutil.copy,
                    ignore=shutil.ignore_patterns("target"))
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, COPY / name)


def cargo(*arguments):
    """Runs the properties of the copy; the result and everything that was written."""
    command = [*os.environ.get("CARGO", "cargo").split(), "test", "-p", "tiergate-core", "--test",
               "scheduling", "--config", 'profile.test.package.tiergate-core.opt-level=1', *arguments]
    environment = {"TIERGATE_SEEDS": "500", **os.environ, "RUST_BACKTRACE": "0",
                   "CARGO_TARGET_DIR": str(ROOT / "target" / "mutations" / "built")}
    with subprocess.Popen(command, cwd=COPY, env=environment, text=True, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            text, _ = process.communicate(timeout=None if "--no-run" in arguments else SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return 1, "test it runs for ever ... FAILED"
        return process.returncode, text


def try_out(fault):
    """What became of one fault."""
    text = mutated(fault)
    if text is None:
        return "DOES NOT APPLY"
    target = COPY / CRATE / fault["file"]
    whole = target.read_text()
    target.write_text(text)
    try:
        if cargo("--no-run")[0] != 0:
            return "DOES NOT BUILD"
        code, text = cargo("--", *fault["tests"])
        failed = re.findall(r"^test (\S.*?) \.\.\. FAILED", text, re.M)
        if code == 0:
            return "SURVIVED"
        return "killed by " + (failed[0] if failed else "an abort")
    finally:
        target.write_text(whole)


def main():
    arguments = sys.argv[1:]
    only = arguments.pop(arguments.index("--only") + 1) if "--only" in arguments else ""
    lists = [argument for argument in arguments if not argument.startswith("--")]
    path = pathlib.Path(lists[0]) if lists else ROOT / CRATE / "tests/scheduling/mutations.txt"
    faults = [fault for fault in read(path) if not only or fault["name"] in only.split(",")]
    if "--check" in arguments:
        wrong = [fault["name"] for fault in faults if mutated(fault) is None]
        print(f"{len(faults)} faults, {len(wrong)} do not apply: {wrong}")
        sys.exit(bool(wrong))
    copy()
    cargo("--no-run")
    code, text = cargo("--", *sorted({test for fault in faults for test in fault["tests"]}))
    if code != 0:
        sys.exit(f"the properties do not hold without any fault:\n{text}")
    killed = 0
    for fault in faults:
        result = try_out(fault)
        killed += result.startswith("killed")
        print(f"{fault['name']:<12} {fault['what']:<66} {result}", flush=True)
    print(f"{killed} of {len(faults)} noticed")
    sys.exit(killed != len(faults))


main()
