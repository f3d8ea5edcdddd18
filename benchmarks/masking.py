"""How many secrets of a corpus are masked, how much else, and how long do real files take?

``make bench-secrets``; what is missed is printed by its form, what is masked in real files by its
line, both without values. The corpus (``secrets/``) was written by somebody who had not seen the
rules: forms with secrets, and look-alikes without.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.secrets.masking import mask
from codebase_mcp.secrets.names import is_secret_name, is_secret_text

CORPUS = Path(__file__).parent / "secrets"
MOST_BYTES = 1 << 20
# Of a masked secret less than this many characters in a row may still be read.
READABLE = 6
LEAST_RECALL = 0.97
MOST_FALSE_ALARMS = 0.01
MOST_MASKED_FILES = 0.01

TEXTS = frozenset(
    ".py .pyi .js .ts .tsx .json .yaml .yml .toml .ini .cfg .md .rst .txt .html .c .h .sh".split()
)


@dataclass(frozen=True, slots=True)
class Form:
    """A text in one of the forms in which people write secrets, and what of it is secret."""

    id: str
    category: str
    path: str
    text: str
    secrets: tuple[str, ...]


def read_forms(path: Path) -> list[Form]:
    """The forms in a file of JSON lines."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Form(row["id"], row["category"], row["path"], row["text"], tuple(row["secrets"]))
        for row in rows
    ]


def is_masked(form: Form, secret: str, masked: str) -> bool:
    """Whether a secret can no longer be read, in whole or by a long part, wherever it was."""
    start = form.text.find(secret)
    while start >= 0:
        visible = ""
        for before, now in zip(secret, masked[start:], strict=False):
            visible = visible + now if now == before != "*" else ""
            if len(visible) >= min(READABLE, len(secret)):
                return False
        start = form.text.find(secret, start + 1)
    return True


def missed_in(forms: Sequence[Form]) -> list[tuple[Form, str]]:
    """The secrets that can still be read, each with its form."""
    masked = {form.id: mask(form.text).text for form in forms}
    return [
        (form, secret)
        for form in forms
        for secret in form.secrets
        if not is_masked(form, secret, masked[form.id])
    ]


def recall(path: Path, *, names_forms: bool = True) -> float:
    """Print how many secrets of some forms are masked, and which forms show one; the share."""
    forms = read_forms(path)
    missed = missed_in(forms)
    of_category = Counter[str]()
    for form in forms:
        of_category[form.category] += len(form.secrets)
    missed_of = Counter(form.category for form, _ in missed)
    for category, count in of_category.items():
        print(f"  {category}: {count - missed_of[category]} of {count}")
    for form in dict.fromkeys(form for form, _ in missed if names_forms):
        where = " (a file that is left out as a whole)" if is_secret_name(form.path) else ""
        print(f"  missed: {form.id}{where}")
    total = of_category.total()
    share = 1 - len(missed) / total
    found = f"{total - len(missed)} of {total} secrets in {len(forms)} forms"
    print(f"{path.name}: {found} masked: {share:.3f}")
    return share


def false_alarms(path: Path) -> float:
    """Print which texts without a secret have masks; their share."""
    forms = read_forms(path)
    wrong = [(form, masked.kinds) for form in forms if (masked := mask(form.text)).kinds]
    for form, kinds in wrong:
        print(f"  masked: {form.id} ({', '.join(kinds)})")
    print(f"{path.name}: {len(wrong)} of {len(forms)} texts without secrets masked")
    return len(wrong) / len(forms)


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
    read = changed = size = lines = count = 0
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
        lines += data.count(b"\n")
        started = time.process_time()
        is_left_out = is_secret_name(path.as_posix()) or is_secret_text(path.as_posix(), text)
        masked = mask(text)
        spent += time.process_time() - started
        if is_left_out:
            print(f"  {path}: left out")
        elif masked.kinds:
            count += len(masked.kinds)
            print(f"  {path}: {', '.join(masked.kinds)}")
            pairs = zip(text.split("\n"), masked.text.split("\n"), strict=True)
            shown = [now.strip()[:120] for before, now in pairs if now != before]
            print("".join(f"    {line}\n" for line in shown[:5]), end="")
        changed += is_left_out or bool(masked.kinds)
    print(
        f"{changed} of {read} real files masked or left out, {count} masks in {lines:,} lines;"
        f" {size / 1e6:.1f} MB in {spent:.1f} s, {size / 1e6 / spent:.0f} MB/s"
    )
    return read, changed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forms", nargs="*", type=Path, default=[CORPUS / "forms.jsonl"])
    parser.add_argument("--held-out", type=Path, default=CORPUS / "held_out.jsonl")
    parser.add_argument("--negatives", type=Path, default=CORPUS / "negatives.jsonl")
    parser.add_argument("--trees", nargs="*", type=Path, help="directories with real files")
    parser.add_argument("--files", type=int, default=10_000, help="how many of them are read")
    chosen = parser.parse_args(arguments)
    paths = sysconfig.get_paths()
    roots = chosen.trees or [Path(paths["stdlib"]), Path(paths["purelib"])]
    mask("a1" * 20)  # loads the detector
    shares = [recall(path) for path in chosen.forms]
    recall(chosen.held_out, names_forms=False)
    wrong = false_alarms(chosen.negatives)
    read, changed = masks(roots, chosen.files)
    return int(
        min(shares) < LEAST_RECALL
        or wrong > MOST_FALSE_ALARMS
        or changed > max(1, read * MOST_MASKED_FILES)
    )


if __name__ == "__main__":
    sys.exit(main())
