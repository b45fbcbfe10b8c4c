"""What `scripts/test.py` makes of a run: tried with a program in cargo's place that says what cargo would."""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "test.py")

# Says what the file `first` holds, and ends as it says; run for one test, what the file of that test's name holds for that time.
CARGO = """#!/usr/bin/env bash
cd "$(dirname "$0")"
case "$*" in
  *--exact*) name=$(sed 's/.*--exact \\([^ ]*\\).*/\\1/' <<<"$*"); echo "$*" >>alone; echo x >>"times.$name"
    run=$name.$(wc -l <"times.$name") ;;
  *) run=first ;;
esac
sed 1d "$run"
exit "$(head -n 1 "$run")"
"""

RUNNING = "     Running tests/link.rs (target/debug/deps/link-0123456789abcdef)"


def run_of(tests, code=None):
    """What cargo says of one binary with these tests, by name, that passed or did not."""
    failed = [name for name, ok in tests.items() if not ok]
    result = "FAILED" if failed else "ok"
    lines = [str(code if code is not None else 101 if failed else 0), RUNNING]
    lines += [f"test {name} ... {'ok' if ok else 'FAILED'}" for name, ok in tests.items()]
    return "\n".join(lines + [f"test result: {result}. {len(tests) - len(failed)} passed; {len(failed)} failed"]) + "\n"


class Runs(unittest.TestCase):
    def script(self, first, **alone):
        """How the script ends, what it says, and the commands for one test, where cargo says this."""
        with tempfile.TemporaryDirectory() as directory:
            def write(name, text):
                with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                    file.write(text)

            write("cargo", CARGO)
            write("first", first)
            write("alone", "")
            for name, runs in alone.items():
                for time, text in enumerate(runs, 1):
                    write(f"{name}.{time}", text)
            cargo = os.path.join(directory, "cargo")
            os.chmod(cargo, 0o755)
            done = subprocess.run(
                [sys.executable, SCRIPT], env={**os.environ, "CARGO": cargo}, capture_output=True, text=True, timeout=60, check=False
            )
            with open(os.path.join(directory, "alone"), encoding="utf-8") as file:
                return done.returncode, done.stdout, file.read().splitlines()

    def test_all_pass(self):
        code, _, alone = self.script(run_of({"a": True}))
        self.assertEqual((code, alone), (0, []))

    def test_one_that_failed_by_chance_passes_and_is_named(self):
        code, said, alone = self.script(run_of({"a": True, "b": False}), b=[run_of({"b": True})] * 2)
        self.assertEqual((code, len(alone)), (0, 2))
        self.assertIn("--test link", alone[0])
        self.assertIn("look at why:\n  --test link b", said)

    def test_one_that_fails_again_fails_even_the_second_time(self):
        for runs in [[run_of({"b": False})], [run_of({"b": True}), run_of({"b": False})]]:
            code, _, alone = self.script(run_of({"b": False}), b=runs)
            self.assertEqual((code, len(alone)), (101, len(runs)))

    def test_one_that_is_not_found_alone_fails(self):
        code, _, _ = self.script(run_of({"b": False}), b=[run_of({})] * 2)
        self.assertNotEqual(code, 0)

    def test_three_are_not_tried_again(self):
        code, _, alone = self.script(run_of({"a": False, "b": False, "c": False}))
        self.assertEqual((code, alone), (101, []))

    def test_what_is_not_a_failed_test_is_not_tried_again(self):
        for first in [run_of({"b": False}, 102), "101\nerror: could not compile `tiergate`\n"]:
            code, _, alone = self.script(first)
            self.assertNotEqual(code, 0)
            self.assertEqual(alone, [])

    def test_a_crash_beside_a_failed_test_is_none(self):
        crash = "error: test failed\n  process didn't exit successfully: `x` (signal: 11, SIGSEGV: invalid memory reference)\n"
        code, _, alone = self.script(run_of({"b": False}) + crash)
        self.assertNotEqual(code, 0)
        self.assertEqual(alone, [])


if __name__ == "__main__":
    unittest.main()
