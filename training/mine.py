"""Which words do programmers use for which code?

Reads the source archives that ``fetch.py`` brought and gives pairs: a docstring or comment, and the
code below it without that comment; and the name of a definition with its body. Files under a
licence that is not permissive, vendored copies, and whatever belongs to an evaluated repository
are left out.

    python training/mine.py --archives build/sources --exclude excluded.json --out build/pairs.jsonl
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import tarfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from zipfile import ZipFile

MAX_FILE_BYTES = 300_000
MAX_CODE_CHARS = 1000
MAX_CODE_LINES = 40
MAX_DOC_CHARS = 320
MIN_CODE_CHARS = 40
PAIRS_OF_ONE_PACKAGE = 12_000

LANGUAGES = {
    ".py": "python", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp",
    ".hpp": "cpp", ".hh": "cpp", ".hxx": "cpp", ".java": "java", ".kt": "kotlin",
    ".scala": "scala", ".go": "go", ".rs": "rust", ".js": "javascript", ".mjs": "javascript",
    ".cjs": "javascript", ".ts": "typescript", ".tsx": "typescript", ".jsx": "javascript",
    ".php": "php", ".rb": "ruby", ".cs": "csharp", ".ex": "elixir", ".exs": "elixir",
    ".erl": "erlang", ".hs": "haskell", ".lua": "lua", ".sh": "bash", ".bash": "bash",
    ".zsh": "bash", ".swift": "swift", ".zig": "zig",
}  # fmt: skip
LINE_MARK = {
    **dict.fromkeys(("python", "ruby", "bash", "elixir"), "#"),
    **dict.fromkeys(("haskell", "lua"), "--"),
    "erlang": "%",
}
BLOCK_MARKS = {"lua": ("--[[", "]]"), "haskell": ("{-", "-}")}
NO_BLOCK = frozenset(("python", "ruby", "bash", "elixir", "erlang"))

# Copies of other people's code, and what is not written by hand.
FOREIGN_FOLDER = re.compile(
    r"(^|/)(_?vendor(ed)?|third[-_]?party|3rd[-_]?party|external|externals|extern|deps|contrib"
    r"|node_modules|bower_components|Godeps|_vendored_packages|bundled|dist|build|generated"
    r"|locale|fixtures?|testdata|snapshots)(/|$)|[.-]min\.js$|\.pb\.|_pb2|\.bundle\.js$",
    re.IGNORECASE,
)
RESTRICTED = re.compile(
    r"GNU\s+(Lesser|Library|Affero|General)|\b[AL]?GPL\b|Mozilla\s+Public|\bMPL\b|Eclipse\s+Public"
    r"|\bCDDL\b|Creative\s+Commons",
    re.IGNORECASE,
)
NOT_A_DESCRIPTION = re.compile(
    r"copyright|licen[sc]e|\btodo\b|\bfixme\b|\bxxx\b|eslint|noqa|pylint|inheritdoc|rubocop"
    r"|clang-format|istanbul|@ts-|prettier|auto-?generated|do not edit|spdx|\$Id|vim:|=====|-----",
    re.IGNORECASE,
)
TAIL_OF_DOC = re.compile(
    r"(\s@(param|return|throws|see|since|author|example|deprecated|type|private|api)\b"
    r"|\s:(param|return|raises|type|rtype)|\n\s*(Args|Arguments|Parameters|Returns?|Raises|Yields"
    r"|Examples?|Notes?|References|See Also|Attributes|Usage)\s*:?\s*\n|>>>|```|\n\s*::|\s## |iex>"
    r"|\s\\(param|return)|\s# (Examples?|Panics|Errors|Safety)\b|\n\s*\.\. )",
    re.IGNORECASE,
)
MARKUP = re.compile(r"</?[a-z][^>]{0,60}>|\{@\w+\s*|[`*_{}\[\]|]+|:\w+:(?=`)|^[\s/*#%!<>-]+", re.M)
DEFINED_NAME = re.compile(
    r"\b(?:def|func|fun|fn|function|class|struct|enum|trait|interface|impl|type|module|defp?|let"
    r"|const|var|val|local\s+function|data|newtype)\s+(?:\([^)]*\)\s*)?(?:self\.)?([A-Za-z_]\w+)"
    r"|([A-Za-z_]\w+)\s*\([^;]*$|^([a-z]\w*)\s*::"
)
ARCHIVE = re.compile(r"\.(whl|tgz|tar\.(gz|xz|bz2))$")
NOT_A_BODY = re.compile(r"\s*(import|#\s*include|package|using|use|require|from|module\.exports)\b")
NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
KEYWORDS = frozenset("if for while switch return catch elseif unless until foreach with".split())


@dataclass(frozen=True, slots=True)
class Pair:
    """Words and the code they stand for; ``kind`` is doc or name."""

    package: str
    language: str
    kind: str
    words: str
    code: str


def clean(comment: str) -> str | None:
    """A comment as a plain sentence or two, or None where it describes nothing."""
    if NOT_A_DESCRIPTION.search(comment):
        return None
    body = "\n" + comment
    cut = TAIL_OF_DOC.search(body)
    if cut:
        body = body[: cut.start()]
    body = body.strip().split("\n\n", 1)[0]
    body = " ".join(MARKUP.sub(" ", body).split())[:MAX_DOC_CHARS]
    letters = sum((c.isalpha() and c.isascii()) or c == " " for c in body)
    words = re.findall(r"[A-Za-z]{2,}", body)
    if not 3 <= len(words) <= 60 or letters < 0.8 * len(body):
        return None
    return body


def python_definitions(text: str) -> Iterator[tuple[str, str, str]]:
    """(name, docstring, source without the docstring) of each documented definition."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
    lines = text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        doc = ast.get_docstring(node)
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        if doc:
            quoted = node.body[0]
            kept = lines[first : quoted.lineno - 1] + lines[quoted.end_lineno or 0 : last]
        else:
            kept = lines[first:last]
        yield node.name, doc or "", "\n".join(kept[:MAX_CODE_LINES])


def comment_blocks(lines: list[str], language: str) -> Iterator[tuple[str, int]]:
    """Each comment that stands alone on its lines, and the index of the line below it."""
    mark = LINE_MARK.get(language, "//")
    opening, closing = BLOCK_MARKS.get(language, ("/*", "*/"))
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        start = at
        if language not in NO_BLOCK and line.startswith(opening):
            while at < len(lines) and closing not in lines[at]:
                at += 1
            at += 1
            raw = "\n".join(part.strip() for part in lines[start:at])
            yield raw.replace(opening, "").replace(closing, ""), at
        elif language == "elixir" and re.match(r'@(module)?doc\s+(~S)?"""', line):
            at += 1
            while at < len(lines) and lines[at].strip() != '"""':
                at += 1
            at += 1
            yield "\n".join(part.strip() for part in lines[start + 1 : at - 1]), at
        elif line.startswith(mark) and not line.startswith("#!"):
            while at < len(lines) and lines[at].strip().startswith(mark):
                at += 1
            yield "\n".join(part.strip().lstrip(mark + "/!|^ ") for part in lines[start:at]), at
        else:
            at += 1


def code_below(lines: list[str], at: int) -> str:
    """The statement or definition that begins at line ``at``."""
    if at >= len(lines) or not lines[at].strip():
        return ""
    indent = len(lines[at]) - len(lines[at].lstrip())
    taken = []
    for offset, line in enumerate(lines[at : at + MAX_CODE_LINES]):
        bare = line.strip()
        depth = len(line) - len(line.lstrip())
        if bare and depth < indent:
            break
        if offset and depth == indent and taken and not taken[-1].strip():
            break  # a new statement after an empty line
        taken.append(line)
        if offset and depth == indent and bare in ("}", "};", "end", "})", "});", "fi", "done"):
            break
    return "\n".join(taken)


def pairs_of(text: str, language: str, package: str) -> Iterator[Pair]:
    """All pairs of one file."""
    found: list[tuple[str, str, str]] = []
    if language == "python":
        found += python_definitions(text)
    lines = text.splitlines()
    for comment, at in comment_blocks(lines, language):
        code = code_below(lines, at)
        first = code.split("\n", 1)[0]
        named = DEFINED_NAME.search(first)
        name = next((g for g in named.groups() if g), "") if named else ""
        found.append(("" if name in KEYWORDS else name, comment, code))
    for name, comment, whole in found:
        code = whole[:MAX_CODE_CHARS]
        if len(code.strip()) < MIN_CODE_CHARS or NOT_A_BODY.match(code):
            continue
        words = clean(comment) if comment else None
        if words:
            yield Pair(package, language, "doc", words, code)
        first, _, body = code.partition("\n")
        parts = NAME_PART.findall(name)
        told = len(parts) >= 2 and not name.startswith(("test", "Test", "__"))
        if told and first and len(body.strip()) >= 2 * MIN_CODE_CHARS:
            yield Pair(package, language, "name", " ".join(parts).lower(), body)


def excluded_folder(names: list[str]) -> re.Pattern[str]:
    """Matches a path that has an evaluated repository's name as one of its folders or its stem."""
    bare = {n.split("/")[1].lower() for n in names} | {"fmt", "fmtlib", "absl", "jackson", "rails"}
    bare -= {"json", "framework", "lazy.nvim"}  # plain words; their packages are not fetched
    either = "|".join(re.escape(n) for n in sorted(bare))
    return re.compile(rf"(^|/)(python-|node-|ruby-|lib)?({either})([-_]?[0-9.]+)?(/|\.\w+$)", re.I)


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file of source in a wheel or tar archive, size permitting."""
    if archive.suffix == ".whl":
        with ZipFile(archive) as wheel:
            for entry in wheel.infolist():
                if Path(entry.filename).suffix in LANGUAGES and entry.file_size <= MAX_FILE_BYTES:
                    yield entry.filename, wheel.read(entry)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            inside = member.name.split("/", 1)[-1]
            if not member.isfile() or Path(inside).suffix not in LANGUAGES:
                continue
            handle = tar.extractfile(member) if member.size <= MAX_FILE_BYTES else None
            if handle:
                yield inside, handle.read()


def files_of(archive: Path, excluded: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Language and text of each usable source file of an archive."""
    for inside, content in members(archive):
        if FOREIGN_FOLDER.search(inside) or excluded.search(inside):
            continue
        text = content.decode("utf-8", "replace")
        if not RESTRICTED.search(text[:4000]):
            yield LANGUAGES[Path(inside).suffix], text


def mine(archive: Path, excluded: re.Pattern[str]) -> list[Pair]:
    """The pairs of one package, each text once, at most ``PAIRS_OF_ONE_PACKAGE`` of them."""
    package = re.split(r"[-_]\d", archive.name)[0]
    seen: set[bytes] = set()
    pairs = []
    for language, text in files_of(archive, excluded):
        for pair in pairs_of(text, language, package):
            keys = [
                blake2b((pair.kind + s).encode("utf-8", "replace")).digest()
                for s in (pair.words, pair.code)
            ]
            if not seen.intersection(keys):
                seen.update(keys)
                pairs.append(pair)
    if len(pairs) > PAIRS_OF_ONE_PACKAGE:
        pairs = random.Random(package).sample(pairs, PAIRS_OF_ONE_PACKAGE)
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archives", type=Path, required=True, help="folder with tar archives")
    parser.add_argument("--exclude", type=Path, required=True, help="JSON list of owner/name")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    excluded = excluded_folder(json.loads(args.exclude.read_text(encoding="utf-8")))
    with args.out.open("w", encoding="utf-8") as out:
        for archive in sorted(f for f in args.archives.rglob("*") if ARCHIVE.search(f.name)):
            pairs = mine(archive, excluded)
            for pair in pairs:
                out.write(json.dumps(asdict(pair)) + "\n")
            print(f"{archive.name}: {len(pairs)}", flush=True)


if __name__ == "__main__":
    main()
