"""Which lines belong to a definition although its syntax does not hold them."""

from __future__ import annotations

import pytest

from codebase_mcp.search.definitions import description_lines, description_start

ABOVE = [
    ("// one\n// two\nfunc f() {}\n", 1),
    ("x = 1\n\n# why\ndef f(): pass\n", 3),
    ("@decorated\n@twice(1)\ndef f(): pass\n", 1),
    ("/**\n * What it does.\n */\nvoid f();\n", 1),
    ("int x;\n/* no stars\n   here */\nvoid f();\n", 2),
    ("#[derive(Debug)]\n/// What it is.\nstruct A;\n", 1),
    ("[HttpGet]\npublic void F() {}\n", 1),
    ("-- | What it gives.\nf x = x\n", 1),
    ("#include <a.h>\n#endif\nvoid f();\n", 3),
    ("call();\nfunc f() {}\n", 2),
    ("// of something else\n\nfunc f() {}\n", 3),
    ("x(); /* begins behind code\n and ends */\nf() {}\n", 3),
    ("# text\n" * 100 + "def f(): pass\n", 41),
]


@pytest.mark.parametrize(("text", "first"), ABOVE)
def test_what_stands_directly_above_belongs_to_a_definition(text: str, first: int) -> None:
    lines = text.splitlines(keepends=True)
    assert description_start(lines, len(lines)) == first


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("// one\n// two\nfunc f() {\n}\n", 2),
        ("/* one\n two */\n@d\ndef f():\n", 3),
        ("def f():\n    # inside\n", 0),
        ("# all\n# of it\n", 0),
        ("", 0),
    ],
)
def test_a_signature_comes_below_its_description(text: str, count: int) -> None:
    assert description_lines(text.splitlines(keepends=True)) == count
