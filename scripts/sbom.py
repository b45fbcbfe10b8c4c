#!/usr/bin/env python3
"""Writes a bill of materials (CycloneDX 1.5, JSON) of what is linked into the gateway, from Cargo's metadata and the lock file's checksums.

cargo-cyclonedx does the same and takes minutes to build; this takes a second. usage: sbom.py FILE
"""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"


def main():
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET, "--manifest-path", str(ROOT / "Cargo.toml")]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {it["id"]: it for it in metadata["packages"]}
    edges = {node["id"]: [it["pkg"] for it in node["deps"] if is_linked(it, packages)] for node in metadata["resolve"]["nodes"]}
    top = next(id for id, it in packages.items() if it["name"] == "tiergate")
    # Metadata have the features that any crate of the workspace asks for; the tree has the gateway's.
    tree = ["cargo", "tree", "--locked", "-p", "tiergate", "-e", "normal,no-proc-macro", "--target", TARGET, "--prefix", "none", "--no-dedupe", "--format", "{p}"]
    lines = subprocess.run(tree, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.splitlines()
    linked = {tuple(it.replace(" v", " ").split(" ")[:2]) for it in lines if it}
    edges = {id: [it for it in to if (packages[it]["name"], packages[it]["version"]) in linked] for id, to in edges.items()}
    seen, ahead = set(), [top]
    while ahead:
        id = ahead.pop()
        if id not in seen:
            seen.add(id)
            ahead += edges[id]
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(it["name"], it["version"]): it.get("checksum") for it in lock}
    components = [component(packages[id], checksums) for id in seen]
    order = lambda it: (it["name"], it["version"])
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": next(it for it in components if it["name"] == "tiergate") | {"type": "application"}},
        "components": sorted((it for it in components if it["name"] != "tiergate"), key=order),
        "dependencies": sorted(({"ref": purl(packages[id]), "dependsOn": sorted({purl(packages[it]) for it in edges[id]} - {purl(packages[id])})} for id in seen),
                               key=lambda it: it["ref"]),
    }
    path = pathlib.Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"sbom: {path}: {len(components)} components")


def is_linked(dependency, packages):
    """Neither of tests, nor of build scripts, nor a macro."""
    macro = any("proc-macro" in it["kind"] for it in packages[dependency["pkg"]]["targets"])
    return not macro and any(it["kind"] is None for it in dependency["dep_kinds"])


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}".replace("+", "%2B")


def component(package, checksums):
    checksum = checksums.get((package["name"], package["version"]))
    made = {"type": "library", "bom-ref": purl(package), "name": package["name"], "version": package["version"], "purl": purl(package)}
    if package["license"]:
        # The older way to write a choice.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


if __name__ == "__main__":
    main()
