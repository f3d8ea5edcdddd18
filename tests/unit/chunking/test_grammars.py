"""Loading grammars, and texts that a grammar must not see or cannot cope with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from codebase_mcp.chunking import syntax
from codebase_mcp.chunking.grammars import unpack
from codebase_mcp.chunking.split import split
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.model import Chunk

SPLIT_ALL = """
import sys
from codebase_mcp.chunking.split import split
for language in sys.argv[1:]:
    assert split("x = 1\\n", language).chunks, language
"""

SPLIT_RARE_CHARACTERS = """
import random, sys
from codebase_mcp.chunking.split import split
for language in sys.argv[1:]:
    print(language, flush=True)
    chance = random.Random(7)
    for _ in range(120):
        split("".join(chance.choice((
            chr(chance.randrange(128)),
            chance.choice("(){}[]<>\\"'`#/*-:;,.=|@$!? \\n"),
            chr(chance.randrange(0xE000, 0x110000)),
        )) for _ in range(chance.randrange(1, 300))), language)
"""


def _start(cache: Path, *languages: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SPLIT_ALL, *languages],
        env={"SEMBLE_GRAMMARS_CACHE_DIR": str(cache), "PYTHONPATH": ":".join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_may_unpack_the_same_grammars_at_once(tmp_path: Path) -> None:
    started = [_start(tmp_path, "python", "go", "json") for _ in range(3)]
    for process in started:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    unpacked = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(unpacked) == 3
    assert not any(path.name.startswith(".") for path in unpacked)


def test_the_grammars_of_many_languages_are_unpacked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMBLE_GRAMMARS_CACHE_DIR", str(tmp_path))
    unpack({"python", "vue", "a language without a grammar"})
    unpacked = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    names = {path.name.removeprefix("libtree_sitter_").split(".")[0] for path in unpacked}
    assert names == {"python", "vue", "typescript", "scss"}
    unpack({"python", "vue"})
    process = _start(tmp_path, "python", "vue")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert {path: path.stat().st_mtime_ns for path in unpacked} == unpacked


def test_what_cannot_be_unpacked_at_once_is_left_to_whoever_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("SEMBLE_GRAMMARS_CACHE_DIR", str(blocked))
    unpack({"python"})
    assert "unpacked one by one" in caplog.text


def test_a_grammar_that_cannot_be_unpacked_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    process = _start(blocked, "python")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "The grammar for python cannot be loaded" in errors
    assert IndexingFailed.__name__ in errors


def test_characters_from_far_planes_kill_no_grammar() -> None:
    """Scanners in C look characters up in tables; in a process of its own, as it may die."""
    snippets = Path(__file__).parent / "snippets"
    languages = sorted(path.stem for path in snippets.glob("*.txt"))
    command = [sys.executable, "-c", SPLIT_RARE_CHARACTERS, *languages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout.split()[-1:]}: {done.stderr}"
    assert done.stdout.split() == languages


@pytest.mark.parametrize("language", ["bash", "markdown", "perl"])
def test_scanners_that_look_characters_up_see_only_ascii(language: str) -> None:
    text = "{5ä\U000e7aad}\n"
    seen = syntax._mask_unsafe(text.encode(), language)
    assert seen == b"{5xxxxxx}\n"


def test_what_a_grammar_must_not_see_leaves_names_and_lines_as_they_are() -> None:
    outline = split("# Größe \U000e7aad\n\nä\n\n## Maß\n", "markdown")
    assert [symbol.name for symbol in outline.symbols] == ["Größe \U000e7aad", "Maß"]
    assert [symbol.start_line for symbol in outline.symbols] == [1, 5]


HAZARDS = [
    ("yaml", "- " * 300 + "a\n"),
    ("yaml", ": " * 300 + "a\n"),
    ("yaml", "".join(" " * i + "a:\n" for i in range(300))),
    ("markdown", "> " * 300 + "a\n"),
    ("markdown", ">" * 300 + "a\n"),
    ("markdown", "".join("  " * i + "- a\n" for i in range(300))),
    ("ruby", f"a = <<~{'A' * 300}\nb\n"),
    ("perl", f"$a = <<{'A' * 3000};\nb\n"),
    ("java", "a<" * 20_000),
    ("csharp", "a<" * 20_000),
]


@pytest.mark.parametrize(
    ("language", "text"), HAZARDS, ids=[f"{h[0]}-{h[1][:6]!r}" for h in HAZARDS]
)
def test_a_text_that_kills_or_blocks_its_grammar_is_cut_by_lines(language: str, text: str) -> None:
    assert syntax.is_hazardous(text, language)
    outline = split(text, language)
    assert outline.chunks and outline.symbols == ()


ORDINARY = [
    ("yaml", "a:\n" + "".join("  " * i + f"key{i}:\n" for i in range(1, 30))),
    ("markdown", "".join("  " * i + "- a\n" for i in range(20)) + "-" * 300 + "\n"),
    ("ruby", "a = <<~SQL\n  select 1\nSQL\n"),
    ("java", "Map<String, List<Map<String, Set<Integer>>>> f() { return a < b; }\n" * 400),
]


@pytest.mark.parametrize(("language", "text"), ORDINARY, ids=[o[0] for o in ORDINARY])
def test_ordinary_nesting_is_no_hazard(language: str, text: str) -> None:
    assert not syntax.is_hazardous(text, language)


def test_the_deepest_nesting_that_is_let_through_is_survived() -> None:
    for text in (
        "".join(" " * i + "a:\n" for i in range(99)),
        "".join(" " * i + "a:\n" + " " * i + "- b:\n" for i in range(0, 98)),
        " " * 49 + "- " * 25 + "a\n",
        "".join(" " * i + "a:\n" for i in range(98)) + " " * 98 + "a" + ": a" * 50 + "\n",
    ):
        assert not syntax.is_hazardous(text, "yaml")
        assert split(text, "yaml").chunks
    for text in (
        "".join("\t" * i + "- a\n" for i in range(118)),
        ">" * 119 + "a\n",
        "> " * 59 + "a\n",
    ):
        assert not syntax.is_hazardous(text, "markdown")
        assert split(text, "markdown").chunks


@pytest.mark.parametrize("language", ["kotlin", "scala", "lua", "css"])
def test_a_text_that_a_parser_cannot_read_in_time_is_cut_by_lines(language: str) -> None:
    text = "def (]] ][ class ) :\nif x:\n" * 8_000
    outline = split(text, language)
    assert outline.chunks[0].start_line == 1
    assert outline.chunks[-1].end_line == 16_000


@pytest.mark.parametrize("end", ["@", "@a", "@(", "@file:"])
def test_a_text_that_breaks_off_in_a_kotlin_annotation_comes_to_an_end(end: str) -> None:
    assert split(f"val a = 1\n{end}", "kotlin").chunks == (Chunk(1, 2, "a", "variable"),)


def test_a_run_of_tokens_that_mean_nothing_is_cut_by_lines() -> None:
    text = "[\n" * 50_000
    outline = split(text, "json")
    assert outline.chunks[-1].end_line == 50_000
