"""The ignore rules are git's: compared with git itself on the same trees."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codebase_mcp.source.ignore import IgnoreFiles, parse_rules
from codebase_mcp.source.open_file import MAX_IGNORE_BYTES
from codebase_mcp.source.walk import list_files


def verdict(rules: bytes, path: str, *, is_dir: bool = False) -> bool | None:
    raw = path.encode()
    return parse_rules(rules).verdict(raw, raw.rsplit(b"/", 1)[-1], is_dir=is_dir)


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        (b"*.log", "a/b.log", True),
        (b"*.log", "a/b.txt", None),
        (b"*.log\n!keep.log", "keep.log", False),
        (b"!keep.log\n*.log", "keep.log", True),
        (b"/top.txt", "top.txt", True),
        (b"/top.txt", "a/top.txt", None),
        (b"a/b.txt", "x/a/b.txt", None),
        (b"**/a/b.txt", "x/y/a/b.txt", True),
        (b"**/b.txt", "b.txt", True),
        (b"a/**/z", "a/z", True),
        (b"a/**/z", "a/b/c/z", True),
        (b"a/**", "a/b/c", True),
        (b"a/**", "a", None),
        (b"a/*", "a/b/c", None),
        (b"a/*/c", "a/b/c", True),
        (b"a/b?", "a/b/", None),
        (b"build/", "build", None),
        (b"[a-c]x", "bx", True),
        (b"[!a-c]x", "bx", None),
        (b"[^a-c]x", "dx", True),
        (b"[]x]", "]", True),
        (b"[[:digit:][:upper:]]", "7", True),
        (b"[[:nonsense:]]", "n", None),
        (b"[unclosed", "[unclosed", None),
        (b"a[/]b", "a/b", None),
        (b"# comment", "# comment", None),
        (rb"\# name", "# name", True),
        (rb"\!name", "!name", True),
        (rb"back\*slash", "back*slash", True),
        (rb"back\*slash", "backxslash", None),
        (b"ends\\", "ends\\", None),
        (b"spaces   ", "spaces", True),
        (b"space\\ ", "space ", True),
        (b"crlf\r\n", "crlf", True),
        (b"\xef\xbb\xbfmarked", "marked", True),
        (b"a\0b", "a", True),
        (b"/", "a", None),
        (b"", "a", None),
        (b"?", "é", None),
        (b"??", "é", True),
    ],
)
def test_a_pattern_matches_what_git_says_it_matches(
    rules: bytes, path: str, expected: bool | None
) -> None:
    assert verdict(rules, path) is expected


def test_a_pattern_with_a_slash_at_its_end_is_for_directories() -> None:
    assert verdict(b"build/", "a/build", is_dir=True) is True
    assert verdict(b"build/", "a/build") is None


def test_contrived_patterns_do_not_make_matching_slow() -> None:
    stars = b"*a" * 60 + b"b"
    folders = b"**/a/" * 60 + b"b"
    assert verdict(stars, "a" * 250) is None
    assert verdict(folders, "a/" * 900 + "c") is None


def test_the_deepest_ignore_file_that_mentions_a_path_wins(tree: Path) -> None:
    (tree / "a" / "b").mkdir(parents=True)
    (tree / ".gitignore").write_text("*.log\n")
    (tree / "a" / ".gitignore").write_text("!*.log\n")
    (tree / "a" / "b" / ".gitignore").write_text("x.log\n")
    files = IgnoreFiles(os.fsencode(tree), b".gitignore")
    paths = [b"1.log", b"a/1.log", b"a/b/1.log", b"a/b/x.log"]
    assert [files.ignores(path, is_dir=False) for path in paths] == [True, False, False, True]


def test_an_ignore_file_that_is_no_plain_file_is_not_read(tree: Path) -> None:
    for folder in ("pipe", "link", "huge", "directory/.gitignore"):
        (tree / folder).mkdir(parents=True)
    (tree / "rules").write_text("*\n")
    os.mkfifo(tree / "pipe" / ".gitignore")
    (tree / "link" / ".gitignore").symlink_to(tree / "rules")
    (tree / "huge" / ".gitignore").write_bytes(b"*\n" * MAX_IGNORE_BYTES)
    files = IgnoreFiles(os.fsencode(tree), b".gitignore")
    for path in (b"pipe/a", b"link/a", b"huge/a", b"directory/a"):
        assert not files.ignores(path, is_dir=False)


NAMES = ["a", "b", "ab", "a.b", "B", "[a]", "a b", "!a", "#a", "a*", "-", "é"]
PATHS = st.lists(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join),
    min_size=1,
    max_size=12,
)
WORDS = (
    r"a b ab . B é * ** *** ? / // /**/ **/ /** !"
    r" [ab] [!a] [^b] [a-b] []a] [[:alpha:]] [[:x:]] [b-a] [a\-b]"
    r" [ ] \ \* \a # -"
).split()
PIECES = st.sampled_from([*WORDS, "\\ ", " ", "\t", "\r"])
LINES = st.lists(PIECES, min_size=1, max_size=5).map("".join)
RULES = st.lists(st.tuples(st.booleans(), LINES), min_size=1, max_size=6).map(
    lambda lines: "\n".join(("!" if negated else "") + line for negated, line in lines)
)


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(paths=PATHS, top_rules=RULES, inner_rules=RULES)
def test_the_walk_lists_exactly_what_git_would_list(
    tmp_path: Path, paths: list[str], top_rules: str, inner_rules: str
) -> None:
    elsewhere = tmp_path / "elsewhere.git"
    if not elsewhere.exists():
        subprocess.run(["git", "init", "--bare", "-q", elsewhere], check=True)
    tree = tmp_path / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    for path in paths:
        put(tree, path)
    (tree / ".gitignore").write_bytes(top_rules.encode())
    inner = next((folder for folder in tree.iterdir() if folder.is_dir()), tree)
    (inner / ".gitignore").write_bytes(inner_rules.encode())

    assert [file.path for file in list_files(tree).files] == listed_by_git(elsewhere, tree)


def put(tree: Path, path: str) -> None:
    """Make a file, unless one of the folders on its way is a file already."""
    target = tree / path
    if any(parent.is_file() for parent in target.parents) or target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch()


def listed_by_git(git_dir: Path, tree: Path) -> list[str]:
    place = [f"--git-dir={git_dir}", f"--work-tree={tree}"]
    output = subprocess.run(
        ["git", *place, "ls-files", "-z", "-o", "--exclude-standard"],
        cwd=tree,
        check=True,
        capture_output=True,
    ).stdout
    return sorted(path.decode() for path in output.split(b"\0") if path)
