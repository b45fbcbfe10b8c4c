#!/usr/bin/env python3
"""Prints circles between modules, and fails on each that is not allowed.

A module uses another if its code outside tests names something that is defined there: by `use`, or by a
path. A name that a module only re-exports counts as a use of the module that defines it. A circle is a set
of modules each of which reaches every other. Declaring `mod child;` does not count as a use, and neither does a
method call, so that `impl Gate` may be spread over files that all name the `Gate` of their parent.

Allowed circles are listed in scripts/circles-allowed.txt, one a line: the crate, its modules joined by commas, then
`#` and the reason.

    scripts/circles.py [FOLDER]    the workspace, this one if none is given
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ITEM = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:const\s+|async\s+|unsafe\s+)*"
    r"(?:fn|struct|enum|trait|type|const|static|union|macro_rules!)\s+(\w+)",
    re.M,
)
USE = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.M)
PATH = re.compile(r"(?<![\w:])((?:crate|self|super|[a-z_]\w*)(?:::\w+)+)")


def without_tests(text):
    """The source without comments, string contents and everything under `#[cfg(test)]`."""
    text = re.sub(r'r#*".*?"#*|"(?:\\.|[^"\\])*"', '""', text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    kept, at = [], 0
    for found in re.finditer(r"#\[cfg\(test\)\]", text):
        if found.start() < at:
            continue
        kept.append(text[at : found.start()])
        end = found.end()
        brace, semicolon = text.find("{", end), text.find(";", end)
        if semicolon != -1 and (brace == -1 or semicolon < brace):
            at = semicolon + 1
            continue
        depth, end = 1, brace + 1
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        at = end
    kept.append(text[at:])
    return "".join(kept)


def flat(tree):
    """The paths of a use tree, as (segments, name that is brought in)."""
    tree = " ".join(tree.split())

    def split(text):
        depth, part, parts = 0, "", []
        for char in text:
            depth += {"{": 1, "}": -1}.get(char, 0)
            if char == "," and depth == 0:
                parts.append(part)
                part = ""
            else:
                part += char
        return [part.strip() for part in [*parts, part] if part.strip()]

    def walk(prefix, text):
        for part in split(text):
            if "{" in part:
                head, inner = part.split("{", 1)
                yield from walk(prefix + [s for s in head.strip().split("::") if s], inner[:-1])
            else:
                path, _, alias = part.partition(" as ")
                segments = prefix + [s.strip() for s in path.split("::") if s.strip()]
                if segments[-1] == "self":
                    segments.pop()
                if segments:
                    yield segments, alias.strip() or segments[-1]

    return list(walk([], tree))


class Crate:
    """The modules of one crate, and what each defines, brings in and names."""

    def __init__(self, source):
        self.text = {}
        for path in sorted(source.rglob("*.rs")):
            parts = list(path.relative_to(source).with_suffix("").parts)
            if "tests" in parts or parts == ["main"] and (source / "lib.rs").exists():
                continue
            if parts[-1] == "mod" or parts in (["lib"], ["main"]):
                parts.pop()
            self.text[tuple(parts)] = without_tests(path.read_text())
        self.items = {module: set(ITEM.findall(text)) for module, text in self.text.items()}
        self.uses, self.exports = {}, {}
        for module, text in self.text.items():
            found = [(bool(public), *use) for public, tree in USE.findall(text) for use in flat(tree)]
            self.uses[module] = found
            self.exports[module] = {name: path for public, path, name in found if public}

    def resolve(self, module, segments, depth=0):
        """The module that defines what a path, written in `module`, leads to; `None`: not in this crate."""
        if depth > 16 or not segments:
            return None
        head, rest = segments[0], segments[1:]
        if head == "crate":
            at = ()
        elif head == "self":
            at = module
        elif head == "super":
            at = module[:-1]
            while rest and rest[0] == "super":
                at, rest = at[:-1], rest[1:]
        elif (*module, head) in self.text:
            at = (*module, head)
        else:
            brought = [path for _, path, name in self.uses[module] if name == head]
            if not brought or brought[0] == segments:
                return None
            return self.resolve(module, brought[0] + rest, depth + 1)
        while rest:
            name, rest = rest[0], rest[1:]
            if (*at, name) in self.text:
                at = (*at, name)
            elif name in self.exports[at] and name not in self.items[at]:
                return self.resolve(at, self.exports[at][name] + rest, depth + 1)
            else:
                break
        return at

    def arrows(self):
        arrows = defaultdict(set)
        for module, text in self.text.items():
            if not module:
                continue
            paths = [path for _, path, _ in self.uses[module]]
            body = USE.sub("", text)
            paths += [path.split("::") for path in PATH.findall(body)]
            for path in paths:
                target = self.resolve(module, path)
                if target and target != module:
                    arrows[module].add(target)
        return arrows


def circles(arrows):
    """The strongly connected sets of more than one module (Tarjan)."""
    index, low, stack, found = {}, {}, [], []
    sys.setrecursionlimit(10_000)

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                found.append(sorted("::".join(module) for module in group))

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def allowed(root):
    """The circles that may be, by crate and modules, each with its reason."""
    path = root / "scripts/circles-allowed.txt"
    permitted = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        entry, _, reason = line.partition("#")
        if entry.strip():
            crate, modules = entry.split(None, 1)
            names = ",".join(sorted(name.strip() for name in modules.split(",")))
            permitted[crate, names] = reason.strip()
    return permitted


def main():
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    permitted = allowed(root)
    bad = modules = 0
    for source in sorted(root.glob("crates/*/src")):
        crate = Crate(source)
        modules += len(crate.text)
        arrows = crate.arrows()
        for group in circles(arrows):
            key = (source.parent.name, ",".join(group))
            if key in permitted:
                print(f"allowed circle in {key[0]}: {', '.join(group)} ({permitted.pop(key)})")
                continue
            bad += 1
            print(f"circle in {key[0]}: {', '.join(group)}")
            for module in group:
                used = ("::".join(other) for other in arrows[tuple(module.split("::"))])
                print(f"    {module} uses {', '.join(sorted(set(used) & set(group)))}")
    for crate, names in permitted:
        bad += 1
        print(f"scripts/circles-allowed.txt: there is no such circle any more: {crate} {names}")
    print(f"{modules} modules, {bad or 'no'} circle{'' if bad == 1 else 's'} that may not be")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
