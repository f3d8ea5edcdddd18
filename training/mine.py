"""Which words do programmers use for which code?

Reads the source archives that ``fetch.py`` brought, and git repositories, and gives pairs: a
docstring or comment, and the code below it without that comment; the name of a definition and its
body; the sentence that names a test and what the test does; a message to the user and the code that
says it; the prose of a README and the example below it; the subject of a commit and the code it
changed. Files under a licence that is not permissive, vendored copies, and whatever belongs to an
evaluated repository are left out.

    python training/mine.py --archives build/sources --exclude excluded.json --out build/pairs.jsonl
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import random
import re
import subprocess
import tarfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from zipfile import ZipFile

MAX_FILE_BYTES = 300_000
MAX_CODE_CHARS = 1000
MAX_CODE_LINES = 40
MAX_DOC_CHARS = 320
MIN_CODE_CHARS = 40
PAIRS_OF_ONE_PACKAGE = 12_000  # comments and names
OTHERS = 6_000  # of one package: tests, messages, examples

LANGUAGES = {
    ".py": "python", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp",
    ".hpp": "cpp", ".hh": "cpp", ".hxx": "cpp", ".java": "java", ".kt": "kotlin",
    ".scala": "scala", ".go": "go", ".rs": "rust", ".js": "javascript", ".mjs": "javascript",
    ".cjs": "javascript", ".ts": "typescript", ".tsx": "typescript", ".jsx": "javascript",
    ".php": "php", ".rb": "ruby", ".cs": "csharp", ".ex": "elixir", ".exs": "elixir",
    ".erl": "erlang", ".hs": "haskell", ".lua": "lua", ".sh": "bash", ".bash": "bash",
    ".zsh": "bash", ".swift": "swift", ".zig": "zig", ".md": "prose", ".markdown": "prose",
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
# it("rejects an expired token", ...), test "rejects ..." do, def test_rejects_..., TestRejects...
TEST_NAME = re.compile(
    r"^\s*(?:it|test|specify|scenario|should)\s*\(?\s*[\"'`]([^\"'`]{12,140})[\"'`]"
    r"|\b(?:def|func|fun|fn|function|void|Task)\s+`?(?:test_?|Test_?|should_?)(\w{10,120})"
    r"|\bfun\s+`([^`]{12,140})`"
)
MESSAGE = re.compile(r"([\"'`])([A-Z][a-z]*(?:[ ][\w'%{}$,.:;()/-]+){3,24}[ .!?]?)\1")
PLACEHOLDER = re.compile(r"%\(?\w+\)?s?|[#$]?\{[^}]*\}")
EXAMPLE = re.compile(r"\n\n([^\n`#|][^`]{15,600}?)\n+```[ ]*(\w+)[^\n]*\n(.*?)\n\s*```", re.DOTALL)
FENCES = {
    **{suffix[1:]: name for suffix, name in LANGUAGES.items() if name != "prose"},
    **{name: name for name in LANGUAGES.values() if name != "prose"},
    "shell": "bash", "cs": "csharp", "c++": "cpp", "golang": "go",
}  # fmt: skip
COMMITS = 1500
PREFIX_OF_SUBJECT = re.compile(r"^[\w\s/().,*-]{0,40}:\s+|\s*\(?#\d+\)?|\[[^\]]*\]")
NO_CHANGE_OF_CODE = re.compile(
    r"\b(bump|release|typo|changelog|readme|merge|revert|deps|lint)\b", re.I
)
A_NOTICE = re.compile(r"copyright|licen[sc]e", re.IGNORECASE)
TRANSLATED = re.compile(r"(^|/)[a-z]{2}([-_][A-Za-z]{2})?/.*\.(md|markdown)$")
KEYWORDS = frozenset("if for while switch return catch elseif unless until foreach with".split())
PLAIN_WORDS = frozenset(("json", "framework", "lazy.nvim", "cli", "analytics", "nuke"))
JUDGES = Path(__file__).parents[1] / "benchmarks" / "quality" / "everyday"


@dataclass(frozen=True, slots=True)
class Pair:
    """Words and the code they stand for; ``kind`` is doc, name, test, message, prose or commit."""

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
    taken: list[str] = []
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


def sentence(text: str, least: int) -> str | None:
    """Words of a name or a message, if there are enough and they are words."""
    words = NAME_PART.findall(text)
    plain = " ".join(words).lower()
    if not least <= len(words) <= 25 or len(plain) < 0.8 * len(text.strip()):
        return None
    return plain


def pairs_of_tests(lines: list[str], language: str, package: str) -> Iterator[Pair]:
    """The sentence that names a test, and its body."""
    for at, line in enumerate(lines):
        named = TEST_NAME.search(line)
        if not named:
            continue
        name = sentence(next(g for g in named.groups() if g).replace("_", " "), 4)
        _, _, body = code_below(lines, at)[:MAX_CODE_CHARS].partition("\n")
        if name and len(body.strip()) >= 2 * MIN_CODE_CHARS:
            yield Pair(package, language, "test", name.removeprefix("test "), body)


def message_in(code: str) -> tuple[str, str] | None:
    """The longest message to a person among the strings of some code, and the code without it."""
    found = max(MESSAGE.finditer(code), key=lambda m: len(m.group()), default=None)
    if found is None or not (message := sentence(PLACEHOLDER.sub(" ", found.group(2)), 4)):
        return None
    return message, code[: found.start()] + '""' + code[found.end() :]


def pairs_of_prose(text: str, package: str) -> Iterator[Pair]:
    """The paragraph above each example of a README, and the example."""
    for found in EXAMPLE.finditer(text):
        language = FENCES.get(found.group(2).lower())
        words = clean(found.group(1)) if language else None
        code = found.group(3)[:MAX_CODE_CHARS]
        if words and language and len(code.strip()) >= 2 * MIN_CODE_CHARS:
            yield Pair(package, language, "prose", words, code)


def pairs_of(text: str, language: str, package: str) -> Iterator[Pair]:
    """All pairs of one file."""
    if language == "prose":
        yield from pairs_of_prose(text, package)
        return
    found: list[tuple[str, str, str]] = []
    if language == "python":
        found += python_definitions(text)
    lines = text.splitlines()
    yield from pairs_of_tests(lines, language, package)
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
        is_telling = len(parts) >= 2 and not name.startswith(("test", "Test", "__"))
        if is_telling and first and len(body.strip()) >= 2 * MIN_CODE_CHARS:
            yield Pair(package, language, "name", " ".join(parts).lower(), body)
        said = message_in(code)
        if said and len(said[1].strip()) >= 2 * MIN_CODE_CHARS:
            yield Pair(package, language, "message", *said)


def excluded_names(path: Path) -> list[str]:
    """owner/name of the repositories that may not be learned from: listed, or judges of ours."""
    names: list[str] = json.loads(path.read_text(encoding="utf-8"))
    return names + [
        json.loads(judge.read_text(encoding="utf-8"))["repository"]
        for judge in sorted(JUDGES.glob("*.json"))
    ]


def excluded_folder(names: list[str]) -> re.Pattern[str]:
    """Matches a path that has an evaluated repository's name as one of its folders or its stem."""
    bare = {n.split("/")[1].lower() for n in names} | {"fmt", "fmtlib", "absl", "jackson", "rails"}
    bare |= {n.split("/")[0].lower() for n in names if n.split("/")[1].lower() in PLAIN_WORDS}
    bare -= PLAIN_WORDS  # their packages are not fetched
    either = "|".join(re.escape(n) for n in sorted(bare))
    return re.compile(rf"(^|/)(python-|node-|ruby-|lib)?({either})([-_]?[0-9.]+)?(/|\.\w+$)", re.I)


def committed(checkout: Path, revision: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file of source as committed, size permitting."""
    git = ["git", "-C", str(checkout)]
    tree = subprocess.check_output([*git, "ls-tree", "-r", "-z", revision], text=True)
    entries = [entry.split("\t", 1) for entry in tree.split("\0") if entry]
    wanted = [(at.split()[2], path) for at, path in entries if Path(path).suffix in LANGUAGES]
    asked = "".join(f"{blob}\n" for blob, _ in wanted).encode()
    answer = io.BytesIO(subprocess.check_output([*git, "cat-file", "--batch"], input=asked))
    for _, path in wanted:
        size = answer.readline().split()[-1]
        if size.isdigit():  # else "missing", as in a partial clone
            content = answer.read(int(size) + 1)[:-1]
            if len(content) <= MAX_FILE_BYTES:
                yield path, content


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


def files_of(
    files: Iterable[tuple[str, bytes]], excluded: re.Pattern[str]
) -> Iterator[tuple[str, str]]:
    """Language and text of each usable one of the files."""
    for inside, content in files:
        if any(p.search(inside) for p in (FOREIGN_FOLDER, TRANSLATED, excluded)):
            continue
        text = content.decode("utf-8", "replace")
        if not RESTRICTED.search(text[:4000]):
            yield LANGUAGES[Path(inside).suffix], text


def mine(package: str, files: Iterable[tuple[str, bytes]], excluded: re.Pattern[str]) -> list[Pair]:
    """The pairs of one package, each text once, at most ``PAIRS_OF_ONE_PACKAGE`` of them."""
    seen: set[bytes] = set()
    pairs = []
    for language, text in files_of(files, excluded):
        for pair in pairs_of(text, language, package):
            keys = [
                blake2b((pair.kind + s).encode("utf-8", "replace")).digest()
                for s in (pair.words, pair.code)
            ]
            if not seen.intersection(keys):
                seen.update(keys)
                pairs.append(pair)
    described = [p for p in pairs if p.kind in ("doc", "name")]
    others = [p for p in pairs if p.kind not in ("doc", "name")]
    return _some(described, PAIRS_OF_ONE_PACKAGE, package) + _some(others, OTHERS, package)


def _some(pairs: list[Pair], most: int, seed: str) -> list[Pair]:
    return random.Random(seed).sample(pairs, most) if len(pairs) > most else pairs


def packages(
    archives: Path,
    checkouts: Path | None,
    sources: dict[str, dict[str, str]],
    excluded: re.Pattern[str],
) -> Iterator[tuple[str, list[Pair]]]:
    """Name and pairs of each archive, and of each listed repository."""
    for archive in sorted(f for f in archives.rglob("*") if ARCHIVE.search(f.name)):
        package = re.split(r"[-_]\d", archive.name)[0]
        yield package, mine(package, members(archive), excluded)
    if checkouts is None:
        return
    for package, facts in sources.items():
        checkout = checkouts / package.replace("/", "+")
        pairs = mine(package, committed(checkout, facts["revision"]), excluded)
        yield package, pairs + list(commits(package, checkout, facts["revision"], excluded))


def commits(
    package: str, checkout: Path, revision: str, excluded: re.Pattern[str]
) -> Iterator[Pair]:
    """The subjects of the latest commits, and the functions they changed, as they were after."""
    command = [
        "git", "-C", str(checkout), "log", revision, "--no-merges", f"-{COMMITS}", "--no-color",
        "--format=%x00%s", "-p", "-U12", "--no-renames", "--diff-filter=AM", "--no-ext-diff",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, check=False)
    for entry in done.stdout.decode("utf-8", "replace").split("\0")[1:]:
        subject, _, diff = entry.partition("\n")
        words = clean(PREFIX_OF_SUBJECT.sub("", subject))
        files = diff.split("\ndiff --git ")[1:]
        if not words or len(files) > 6 or NO_CHANGE_OF_CODE.search(subject):
            continue
        for file in files:
            path = file.split("\n", 1)[0].rsplit(" b/", 1)[-1]
            language = LANGUAGES.get(Path(path).suffix, "prose")
            if language == "prose" or FOREIGN_FOLDER.search(path) or excluded.search(path):
                continue
            for hunk in file.split("\n@@ ")[1:3]:
                code = "\n".join(
                    line[1:] for line in hunk.split("\n")[1:] if line[:1] in ("+", " ")
                )[:MAX_CODE_CHARS]
                if len(code.strip()) >= 2 * MIN_CODE_CHARS and not A_NOTICE.search(code):
                    yield Pair(package, language, "commit", words, code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archives", type=Path, required=True, help="folder with tar archives")
    parser.add_argument("--checkouts", type=Path, help="folder with git repositories OWNER+NAME")
    parser.add_argument("--sources", type=Path, default=Path(__file__).parent / "sources.json")
    parser.add_argument("--exclude", type=Path, required=True, help="JSON list of owner/name")
    parser.add_argument("--without", type=Path, help="questions of projects.py: leave these out")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    left_out = {file.stem for file in args.without.glob("*.json")} if args.without else set()
    excluded = excluded_folder(excluded_names(args.exclude))
    sources = json.loads(args.sources.read_text(encoding="utf-8"))["github"]
    with args.out.open("w", encoding="utf-8") as out:
        for package, pairs in packages(args.archives, args.checkouts, sources, excluded):
            if package.replace("/", "+") in left_out:
                continue
            for pair in pairs:
                out.write(json.dumps(asdict(pair)) + "\n")
            print(f"{package}: {len(pairs)}", flush=True)


if __name__ == "__main__":
    main()
