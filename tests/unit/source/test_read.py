"""Reading a listed file: its text and id, or the reason why there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.model import FileFailure, FileKind, SourceFile
from codebase_mcp.source.classify import classify
from codebase_mcp.source.read import Skipped, SourceText, blob_hash, decode, read_source

Git = Callable[..., bytes]


def listed(location: Path, path: str | None = None) -> SourceFile:
    """The file as a listing would give it, whether or not it is there."""
    path = path or location.name
    traits = classify(path)
    return SourceFile(path, location, 0, 0, 0, traits.language, traits.kind, traits.named_as_source)


def read(folder: Path, name: str, content: bytes) -> SourceText | FileFailure | Skipped:
    (folder / name).write_bytes(content)
    return read_source(listed(folder / name))


def test_a_file_is_read_with_its_text_and_gits_own_id(repository: Path, git: Git) -> None:
    content = "def grüße():\r\n    pass".encode()
    said = read(repository, "a.py", content)
    expected = git(repository, "hash-object", "--no-filters", "a.py").decode().strip()
    assert isinstance(said, SourceText)
    assert (said.data, said.text) == (content, "def grüße():\r\n    pass")
    assert said.blob_hash.hex() == expected
    assert (said.language, said.kind) == ("python", FileKind.CODE)


def test_the_empty_file_has_gits_well_known_id() -> None:
    assert blob_hash(b"").hex() == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


@pytest.mark.parametrize(
    "content",
    [
        "grüß 🎉".encode(),
        "grüß 🎉".encode("utf-8-sig"),
        "grüß 🎉".encode("utf-16"),
        b"\xfe\xff" + "grüß 🎉".encode("utf-16-be"),
        b"\xff\xfe" + "grüß 🎉".encode("utf-16-le"),
        "grüß 🎉".encode("utf-32"),
        b"\x00\x00\xfe\xff" + "grüß 🎉".encode("utf-32-be"),
    ],
    ids=["utf-8", "utf-8-bom", "utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-be"],
)
def test_unicode_is_decoded_without_its_byte_order_mark(content: bytes) -> None:
    assert decode(content).text == "grüß 🎉"


FRENCH = "# Où est passée la clé ? L'élève l'a oubliée à Besançon, près du cœur…\n"
RUSSIAN = "Читает файл и возвращает его строки, по порядку"  # noqa: RUF001
KOI8 = f"# {RUSSIAN}\n".encode("koi8-r")
JAPANESE = "# ファイルを読む。エラーが発生しました\n".encode("shift_jis")
NOISE = bytes(range(1, 256))


@pytest.mark.parametrize(
    ("content", "text", "encoding"),
    [
        (FRENCH.encode("cp1252"), FRENCH, "windows-1252"),
        (f"# -*- coding: latin-1 -*-\n{FRENCH}".encode("cp1252"), FRENCH, "windows-1252"),
        (f"# -*- coding: utf-8 -*-\n{FRENCH}".encode("cp1252"), FRENCH, "windows-1252"),
        (b"# J\xf6rg, Cze\xc5\x9b\xc4\x87\n", "# Jörg, Cześć\n", "utf-8 and windows-1252"),
        (b"# \x81: none in Windows-1252, but few as \xe9. " + b"x" * 99, "\ufffd", "windows-1252"),
        (f"# coding=koi8-r\n# {RUSSIAN}".encode("koi8-r"), RUSSIAN, "koi8-r"),
        (f"// vim: fileencoding=cp1251\n// {RUSSIAN}".encode("cp1251"), RUSSIAN, "cp1251"),
        (f"; -*- coding: cp866-unix -*-\n; {RUSSIAN}".encode("cp866"), RUSSIAN, "cp866"),
        (
            f"<?xml version='1.0' encoding='windows-1251'?><a>{RUSSIAN}</a>".encode("cp1251"),
            RUSSIAN,
            "cp1251",
        ),
        (f'<meta charset="iso-8859-5">{RUSSIAN}'.encode("iso8859-5"), RUSSIAN, "iso8859-5"),
        (f'@charset "koi8-r";/* {RUSSIAN} */'.encode("koi8-r"), RUSSIAN, "koi8-r"),
        ("# coding: sjis\n# ファイル".encode("shift_jis"), "ファイル", "shift_jis"),
        (f"# coding: rot13\n{FRENCH}".encode("cp1252"), FRENCH, "windows-1252"),
        (f"# coding: cp037\n{FRENCH}".encode("cp1252"), FRENCH, "windows-1252"),
    ],
)
def test_another_encoding_is_the_declared_one_or_windows_1252(
    content: bytes, text: str, encoding: str
) -> None:
    found = decode(content)
    assert text in found.text
    assert found.encoding == encoding
    assert "\n".join(found.text.split("\n")).count("\n") == content.count(b"\n")


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfea",
        b"\xff\xfe\x00\xd8",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf\xff",
        KOI8,
        JAPANESE,
        NOISE,
    ],
    ids=[
        "half a unit",
        "lone surrogate",
        "surrogate in utf-8",
        "after a mark",
        "undeclared russian",
        "undeclared japanese",
        "binary without a nul",
    ],
)
def test_other_bytes_are_undecodable(content: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        decode(content)


@pytest.mark.parametrize(
    ("content", "reason", "key"),
    [
        (NOISE, "File is not valid UTF-8", "undecodable"),
        (b"\x7fELF\0\xff", "Binary file not supported", "binary"),
        (b"plain\0text", "Binary file not supported", "binary"),
        ("wide\0text".encode("utf-16"), "Binary file not supported", "binary"),
    ],
)
def test_a_file_that_is_not_text_fails_if_its_name_promises_source_and_is_skipped_otherwise(
    tree: Path, content: bytes, reason: str, key: str
) -> None:
    assert read(tree, "a.py", content) == FileFailure("a.py", reason)
    assert read(tree, "data.xyz", content) == Skipped("data.xyz", key)


def test_a_file_that_grew_over_the_limit_is_not_read_whole(tree: Path) -> None:
    (tree / "a.py").write_text("x" * 11)
    (tree / "notes").write_text("x" * 11)
    for name, limit, expected in [
        ("a.py", 10, FileFailure("a.py", "File exceeds size limit")),
        ("notes", 10, Skipped("notes", "too_large")),
    ]:
        assert read_source(listed(tree / name), max_file_bytes=limit) == expected
    assert isinstance(read_source(listed(tree / "a.py"), max_file_bytes=11), SourceText)


def test_a_file_that_is_gone_or_replaced_is_skipped(tree: Path) -> None:
    os.mkfifo(tree / "pipe.py")
    (tree / "folder.py").mkdir()
    (tree / "target").write_text("x")
    (tree / "link.py").symlink_to(tree / "target")
    found = {
        name: read_source(listed(tree / name))
        for name in ("gone.py", "target/below.py", "pipe.py", "folder.py", "link.py")
    }
    shutil.rmtree(tree)
    assert found == {
        "gone.py": Skipped("gone.py", "vanished"),
        "target/below.py": Skipped("below.py", "vanished"),
        "pipe.py": Skipped("pipe.py", "special"),
        "folder.py": Skipped("folder.py", "special"),
        "link.py": Skipped("link.py", "symlink"),
    }


def test_a_file_that_may_not_be_read_fails_with_the_reason(
    public_tree: Path, as_ordinary_user: Callable[[str], str]
) -> None:
    for name in ("a.py", "notes"):
        (public_tree / name).write_text("x")
        (public_tree / name).chmod(0)
    said = as_ordinary_user(
        f"for file in list_files(Path({str(public_tree)!r})).files: print(read_source(file))"
    )
    assert said.splitlines() == [
        "Failed to process a.py: Permission denied",
        "Skipped(path='notes', reason='unreadable')",
    ]


@pytest.mark.parametrize(
    ("name", "content", "language", "kind"),
    [
        ("run", b"#!/usr/bin/env python3\n", "python", FileKind.CODE),
        ("run", b"#!/usr/bin/env -S uv run --script\n", "python", FileKind.CODE),
        ("run", b"#!/usr/bin/env LANG=C perl -w\n", "perl", FileKind.CODE),
        ("run", b"#! /bin/sh\n", "bash", FileKind.CODE),
        ("run", b"#!/opt/python3.11/bin/python3.11 -u\n", "python", FileKind.CODE),
        ("run", b"#!/usr/bin/env unheard-of\n", "text", FileKind.CONFIG),
        ("run", b"#!", "text", FileKind.CONFIG),
        ("run", b"just words", "text", FileKind.CONFIG),
        ("a.rb", b"#!/bin/sh\n", "ruby", FileKind.CODE),
        ("a.h", b"#include <stdio.h>\nstruct a { int b; };\n", "c", FileKind.CODE),
        ("a.h", b"/* done by\n   using one\n class of service\n*/\n", "c", FileKind.CODE),
        ("a.h", b"#pragma once\nnamespace a {\n}\n", "cpp", FileKind.CODE),
        ("a.h", b"#include <string>\n", "cpp", FileKind.CODE),
        ("a.h", b"@interface A : NSObject\n@end\n", "objc", FileKind.CODE),
        ("a.go", b"// Code generated by stringer; DO NOT EDIT.\n", "go", FileKind.GENERATED),
        ("a.md", b"word " * 5000, "markdown", FileKind.DOCS),
        ("a.js", b"var a=1;" * 5000, "javascript", FileKind.GENERATED),
        ("vendor/a.js", b"var a=1;" * 5000, "javascript", FileKind.VENDORED),
        ("tests/long.json", b"[1]" * 5000, "json", FileKind.TEST),
        ("tests/a.txt", b"# Code generated by us; DO NOT EDIT.\n", "text", FileKind.TEST),
        ("a.go.tmpl", b"// Code generated by us; DO NOT EDIT.\n", "go", FileKind.CODE),
        ("tests/a.py", b"assert True\n", "python", FileKind.TEST),
    ],
)
def test_the_content_refines_what_the_name_left_open(
    tree: Path, name: str, content: bytes, language: str, kind: FileKind
) -> None:
    (tree / "content").write_bytes(content)
    said = read_source(listed(tree / "content", name))
    assert isinstance(said, SourceText)
    assert (said.language, said.kind) == (language, kind)
