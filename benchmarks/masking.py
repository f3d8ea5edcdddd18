"""How many planted secrets are masked, how much is masked in real files, and how long it takes?

``make bench-secrets``; every line that is masked in the real files is printed, without its values.
"""

from __future__ import annotations

import argparse
import random
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from codebase_mcp.secrets.masking import mask
from codebase_mcp.secrets.names import is_secret_name, is_secret_text
from planted_secrets import Planted, plant

MOST_BYTES = 1 << 20
# Of a masked value at most this share may still be read.
MOST_VISIBLE = 1 / 3

TEXTS = frozenset(
    ".py .pyi .js .ts .tsx .json .yaml .yml .toml .ini .cfg .md .rst .txt .html .c .h .sh".split()
)


def is_masked(planted: Planted) -> bool:
    """Whether at most a third of a planted value can still be read."""
    masked = mask(planted.text).text
    start = planted.text.index(planted.value)
    seen = masked[start : start + len(planted.value)]
    visible = sum(now == before != "\n" for now, before in zip(seen, planted.value, strict=True))
    return visible <= len(planted.value) * MOST_VISIBLE


def recall(planted: Sequence[Planted]) -> float:
    """Print the recall of each kind that is not found whole; the recall of all."""
    found = Counter(one.kind for one in planted if is_masked(one))
    of_kind = Counter(one.kind for one in planted)
    for kind, count in of_kind.items():
        if found[kind] < count:
            print(f"  {kind}: {found[kind]} of {count}")
    share = found.total() / len(planted)
    print(f"{found.total()} of {len(planted)} planted secrets of {len(of_kind)} kinds: {share:.3f}")
    return share


def real_files(roots: Sequence[Path], most: int) -> Iterator[Path]:
    """A sample of the texts below some directories, the same number of each where there are."""
    for number, root in enumerate(roots):
        below = [
            path
            for path in sorted(root.rglob("*"))
            if path.suffix in TEXTS and path.is_file() and not path.is_symlink()
        ]
        random.Random(11).shuffle(below)
        yield from below[: most * (number + 1) // len(roots) - most * number // len(roots)]


def masks(roots: Sequence[Path], most: int) -> tuple[int, int]:
    """Print each masked line of real files; how many files were read, and how many have masks."""
    read = changed = size = 0
    spent = 0.0
    for path in real_files(roots, most):
        data = path.read_bytes()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        if len(data) > MOST_BYTES:
            continue
        read += 1
        size += len(data)
        started = time.perf_counter()
        is_left_out = is_secret_name(path.as_posix()) or is_secret_text(path.as_posix(), text)
        masked = mask(text)
        spent += time.perf_counter() - started
        if is_left_out:
            print(f"  {path}: left out")
        elif masked.kinds:
            print(f"  {path}: {', '.join(masked.kinds)}")
            lines = zip(text.splitlines(), masked.text.splitlines(), strict=True)
            shown = [now.strip()[:120] for before, now in lines if now != before]
            print("".join(f"    {line}\n" for line in shown[:5]), end="")
        changed += is_left_out or bool(masked.kinds)
    print(
        f"{changed} of {read} real files masked or left out; {size / 1e6:.1f} MB in {spent:.1f} s,"
        f" {size / 1e6 / spent:.0f} MB/s"
    )
    return read, changed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", nargs="*", type=Path, help="directories with real files")
    parser.add_argument("--files", type=int, default=10_000, help="how many of them are read")
    chosen = parser.parse_args(arguments)
    paths = sysconfig.get_paths()
    roots = chosen.trees or [Path(paths["stdlib"]), Path(paths["purelib"])]
    mask("a1" * 20)  # loads the detector
    share = recall(plant())
    read, changed = masks(roots, chosen.files)
    return int(share < 0.95 or changed > max(1, read / 1000))


if __name__ == "__main__":
    sys.exit(main())
