"""What rustc says of every name of a project, through the links in rustdoc's pages of its sources.

JSON in, JSON out; see ``references.py``. Libraries alone, each by itself, with their default
features: one that needs another crate is left out, as nothing is downloaded or built.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from html import unescape
from pathlib import Path

_DEFINITION = re.compile(r"\b(?:fn|struct|enum|union|trait|type)\s+(?:r#)?(\w+)")
_NUMBER = re.compile(r"<a href=#\d+ id=\d+ data-nosnippet>\d+</a>")
_LINK = re.compile(r'<a (?:class="[^"]*" )?href="([^"]*)">(.*?)</a>')
_TARGET = re.compile(r"(?:(?!https?:)(.+)\.html)?#(\d+)(?:-\d+)?")
_TAG = re.compile(r"<[^>]*>")
_NAME = re.compile(r"(?:r#)?(\w+)!?\s*$")


def pages(crate: Path, name: str, package: dict[str, object], features: list[str]) -> Path | None:
    """The pages of a library's sources; None if it does not compile by itself."""
    folder = Path(tempfile.mkdtemp()).resolve()
    ran = subprocess.run(
        ["rustdoc", "src/lib.rs", "--crate-name", name, "--out-dir", str(folder),
         "--edition", str(package.get("edition", "2015")), "--document-private-items",
         "--cap-lints", "allow", "-Zunstable-options", "--generate-link-to-definition",
         *(part for one in features for part in ("--cfg", f'feature="{one}"'))],
        cwd=crate, env=os.environ | {"RUSTC_BOOTSTRAP": "1"}, stderr=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    if ran.returncode:
        print(f"left out, {name} does not compile: {ran.stderr.splitlines()[:1]}", file=sys.stderr)
        return None
    return folder / "src" / name


def enabled(manifest: dict[str, dict[str, list[str]]]) -> list[str]:
    """The features of a library that are on by default."""
    features, found = manifest.get("features", {}), ["default"]
    for one in found:
        found += [other for other in features.get(one, ()) if other not in found]
    return [one for one in found if "/" not in one and ":" not in one]


def uses(page: Path, pages: Path, crate: str) -> Iterator[tuple[str, int, str, str, str]]:
    """The uses of names in a page."""
    where = f"{crate}src/{page.relative_to(pages).as_posix().removesuffix('.html')}"
    code = page.read_text("utf-8").partition('<pre class="rust"><code>')[2]
    for line, text in enumerate(_NUMBER.split(code)[1:], 1):
        for link in _LINK.finditer(text):
            written = unescape(_TAG.sub("", link[2]))
            name = _NAME.search(written)
            if name is None:
                continue
            before = unescape(_TAG.sub("", text[: link.start()])) + written[: name.start()]
            known = ""
            if target := _TARGET.fullmatch(link[1]):
                path = (page.parent / target[1]).resolve() if target[1] else page.with_suffix("")
                if path.is_relative_to(pages):
                    there = f"{crate}src/{path.relative_to(pages).as_posix()}"
                    known = f"{there}:{target[2]}:{name[1]}"
            if known != f"{where}:{line}:{name[1]}":  # it is its definition
                yield where, line, name[1], known, reach(before)


def reach(before: str) -> str:
    """What stands before a name."""
    before = before.rstrip()
    if re.match(r"\s*(?:pub(?:\([^)]*\))?\s+)?use\b", before):
        return "plain"
    if re.search(r"(\bself\.|\bSelf::)$", before):
        return "own"
    if before.endswith("::"):
        return "named"
    return "object" if before.endswith(".") and not before.endswith("..") else "plain"


def main() -> None:
    """Answer what is asked on standard input."""
    root = Path(json.load(sys.stdin)["root"]).resolve()
    definitions, found = [], []
    for manifest in sorted(root.rglob("Cargo.toml")):
        told = tomllib.loads(manifest.read_text("utf-8"))
        folder = manifest.parent
        if "package" not in told or not (folder / "src/lib.rs").is_file():
            continue
        name = told["package"]["name"].replace("-", "_")
        read = pages(folder, name, told["package"], enabled(told))
        crate = f"{folder.relative_to(root).as_posix()}/".removeprefix("./")
        for page in sorted(read.rglob("*.rs.html")) if read else ():
            found += uses(page, read, crate)
            where = f"{crate}src/{page.relative_to(read).as_posix().removesuffix('.html')}"
            for number, line in enumerate((root / where).read_text("utf-8").split("\n"), 1):
                if defined := _DEFINITION.search(line.partition("//")[0]):
                    definitions.append(
                        (where, number, defined[1], f"{where}:{number}:{defined[1]}")
                    )
    json.dump({"definitions": definitions, "uses": found}, sys.stdout)


if __name__ == "__main__":
    main()
