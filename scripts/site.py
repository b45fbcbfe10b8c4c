#!/usr/bin/env python3
"""Builds the documents' site with mdBook and follows every link and anchor in it; a broken one is an error.

Links to files outside of docs/ lead to the repository. usage: site.py MDBOOK
"""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "target/site"
# What the site is not made of, but mdBook copies.
LEFT_OUT = ["book.toml"]


def main():
    shutil.rmtree(SITE, ignore_errors=True)
    built = subprocess.run([sys.argv[1], "build", str(DOCS)], capture_output=True, text=True)
    if built.returncode or re.search(r"\b(WARN|ERROR)\b", built.stdout + built.stderr):
        sys.exit(f"site: mdbook is not content:\n{built.stdout}{built.stderr}")
    for name in LEFT_OUT:
        (SITE / name).unlink()
    repository = re.search(r'^git-repository-url = "(.*)"', (DOCS / "book.toml").read_text(), re.M)[1]
    pages = {path: Page(path) for path in sorted(SITE.rglob("*.html"))}
    # Without what mdBook adds for all: one page of everything, and one that is shown at whatever path does not exist.
    chapters = {path: page for path, page in pages.items() if path.name not in ("print.html", "404.html")}
    wrong, followed, outside = [], 0, 0
    for path, page in chapters.items():
        moved = {}
        for link in page.links:
            followed += 1
            target = resolve(path, link)
            if isinstance(target, str):
                moved[link] = f"{repository}/blob/main/{target}"
                outside += 1
            elif target:
                file, anchor = target
                # mdBook makes README.md a folder's index.html, and leaves links to it as they are.
                if file.name == "README.html" and not file.exists() and file.with_name("index.html").exists():
                    file = file.with_name("index.html")
                    moved[link] = os.path.relpath(file, path.parent) + (f"#{anchor}" if anchor else "")
                if not file.exists():
                    wrong.append(f"{path.relative_to(SITE)}: {link} does not exist")
                elif anchor and file in pages and anchor not in pages[file].anchors:
                    wrong.append(f"{path.relative_to(SITE)}: {link}: no such heading")
        if moved:
            text = path.read_text()
            for link, to in moved.items():
                text = text.replace(f'"{html_escape(link)}"', f'"{html_escape(to)}"')
            path.write_text(text)
    if wrong:
        sys.exit("site: " + "\nsite: ".join(wrong))
    if not chapters or followed < 100:
        sys.exit(f"site: {followed} links in {len(chapters)} pages cannot be all")
    print(f"site: target/site/index.html: {len(chapters)} pages, {followed} links, {outside} of them to the repository, none broken")


def resolve(path, link):
    """The file and anchor of a link; of one out of the site its path in the repository; None of one to elsewhere."""
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    name, anchor = urllib.parse.unquote(parts.path), urllib.parse.unquote(parts.fragment)
    if not name:
        return path, anchor
    file = pathlib.Path(os.path.normpath(path.parent / name))
    if file.is_relative_to(SITE):
        return (file / "index.html" if file.is_dir() else file), anchor
    # As in docs/, whose folders the site's are; a page that mdBook takes for its own is one of the repository again.
    source = pathlib.Path(os.path.normpath(DOCS / path.relative_to(SITE).parent / name))
    for it in (source, source.with_suffix(".md")):
        if it.exists() and it.is_relative_to(ROOT):
            return str(it.relative_to(ROOT)) + (f"#{anchor}" if anchor else "")
    return file, anchor


def html_escape(text):
    return text.replace("&", "&amp;").replace('"', "&quot;")


class Page(html.parser.HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)


if __name__ == "__main__":
    main()
