"""Where do the programs come from whose comments the model learns from?

Downloads what ``sources.json`` names, in the versions it names, with the ordinary clients of
three registries: ``apt-get source`` (upstream archives of a Debian release), ``pip download``
(wheels) and ``npm pack``; and clones git repositories with their history. Nothing is installed or
run. What a mirror no longer has is reported and skipped.

    python training/fetch.py --out build/sources
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

APT = Path("/etc/apt")


def source_entries() -> tuple[str, str]:
    """The machine's own Debian sources, asked for source packages: one-line and deb822 form."""
    lines = [p.read_text(encoding="utf-8") for p in (APT / "sources.list",) if p.is_file()]
    lines += [p.read_text(encoding="utf-8") for p in sorted(APT.glob("sources.list.d/*.list"))]
    blocks = [p.read_text(encoding="utf-8") for p in sorted(APT.glob("sources.list.d/*.sources"))]
    one_line = re.sub(r"^deb\s", "deb-src ", "\n".join(lines), flags=re.MULTILINE)
    deb822 = re.sub(r"^Types:.*$", "Types: deb-src", "\n\n".join(blocks), flags=re.MULTILINE)
    return one_line, deb822


def run(command: list[str], folder: Path, **environment: str) -> bool:
    """Run a client in ``folder``; say so if it failed."""
    done = subprocess.run(command, cwd=folder, env=os.environ | environment, check=False)
    if done.returncode:
        print(f"failed: {' '.join(command)}", file=sys.stderr)
    return done.returncode == 0


def fetch_debian(packages: dict[str, str], folder: Path) -> None:
    """Upstream archives by ``apt-get source``, with package lists of their own."""
    state = folder / "apt"
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (state / "parts").mkdir(exist_ok=True)
    one_line, deb822 = source_entries()
    (state / "parts" / "machine.list").write_text(one_line, encoding="utf-8")
    (state / "parts" / "machine.sources").write_text(deb822, encoding="utf-8")
    settings = state / "apt.conf"
    settings.write_text(
        f'Dir::Etc::sourcelist "-";\nDir::Etc::sourceparts "{state}/parts";\n'
        f'Dir::State::lists "{state}/lists";\nDir::Cache "{state}/cache";\n',
        encoding="utf-8",
    )
    run(["apt-get", "update", "-qq"], folder, APT_CONFIG=str(settings))
    command = ["apt-get", "source", "--download-only", "--tar-only", "--only-source", "-qq"]
    for name, version in packages.items():
        run([*command, f"{name}={version}"], folder, APT_CONFIG=str(settings))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, default=Path(__file__).parent / "sources.json")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    sources = json.loads(args.sources.read_text(encoding="utf-8"))
    folders = {name: args.out.resolve() / name for name in ("debian", "pypi", "npm")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    debian = sources["debian"]
    named = {
        name: package["version"]
        for language in debian["packages"].values()
        for name, package in language.items()
    }
    fetch_debian(named, folders["debian"])
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-q"]
    for name, package in sources["pypi"].items():
        run([*pip, f"{name}=={package['version']}"], folders["pypi"])
    for name, package in sources["npm"].items():
        run(["npm", "pack", "--silent", f"{name}@{package['version']}"], folders["npm"])
    checkouts = args.out.resolve() / "github"
    checkouts.mkdir(exist_ok=True)
    for name in sources["github"]:
        address, target = f"https://github.com/{name}", name.replace("/", "+")
        run(["git", "clone", "--quiet", "--bare", address, target], checkouts)


if __name__ == "__main__":
    main()
