"""Entries of long literals and branches of long switches hold lines; no name leads to them."""

from __future__ import annotations

import pytest

from codebase_mcp.chunking.split import split
from codebase_mcp.model import ITEM, Outline

# The head of a table or switch, an entry with its number as $, the end, and the names of the
# entries.
LONG = {
    "python table": ("python", "ROWS = {", '"key$": make(\n1,\n2),', "}", 'ROWS["key$"]'),
    "python calls": ("python", "ROWS = (", 'make("a",\n"key$",\n2),', ")", 'ROWS["key$"]'),
    "python arguments": ("python", "setup(", "key$=[\n1,\n2],", ")", "key$"),
    "python match": (
        "python", "def go(x):\n  match x:", "    case Key(a$):\n      f()\n      g()", "",
        "go case Key(a$)",
    ),
    "javascript table": (
        "javascript", "export const rows = {", "key$: {\na: 1,\n},", "};", "rows.key$",
    ),
    "javascript switch": (
        "javascript", "function go(x) { switch (x) {", 'case "key$":\n f();\n break;', "} }",
        'go case "key$"',
    ),
    "typescript routes": (
        "typescript", "export const rows: Routes = [", '{ method: "GET",\n path: "/key$"\n},', "];",
        'rows["/key$"]',
    ),
    "go table": (
        "go", "package p\nvar rows = map[string]T{", '"key$": {\n1,\n},', "}", 'rows["key$"]',
    ),
    "go switch": (
        "go", "package p\nfunc run(x any) { switch x.(type) {", "case key$:\n f()\n g()", "} }",
        "run case key$",
    ),
    "java table": (
        "java", "class A { static T[] ROWS = {", 'new T("key$",\n1,\n2),', "}; }", 'A.ROWS["key$"]',
    ),
    "java enum": ("java", "enum A {", "KEY$(\n1,\n2),", "; }", "A.KEY$"),
    "java switch": (
        "java", "class A { int go(int x) { switch (x) {", "case $:\n f();\n break;", "} } }",
        "A.go case $",
    ),
    "c table": ("c", "struct row rows[] = {", '{\n"key$",\n1},', "};", 'rows["key$"]'),
    "c switch": (
        "c", "int go(int x) { switch (x) {", "case KEY$:\n f();\n break;", "} }", "go case KEY$",
    ),
    "rust match": (
        "rust", "fn go(x: Key) { match x {", "Key::A$(a) => {\n f();\n}", "} }",
        "go case Key::A$(a)",
    ),
    "kotlin table": ("kotlin", "val rows = mapOf(", '"key$" to f(\n1,\n2),', ")", 'rows["key$"]'),
}  # fmt: skip


def outline(language: str, head: str, entry: str, end: str, count: int = 30) -> Outline:
    entries = [entry.replace("$", str(number)) for number in range(count)]
    return split("\n".join([head, *entries, end]) + "\n", language)


def items_of(outline: Outline) -> list[tuple[str, int, int]]:
    fields = (field for field in outline.fields if field.kind == ITEM)
    return [(field.qualified, field.start_line, field.end_line) for field in fields]


@pytest.mark.parametrize("example", LONG)
def test_a_long_literal_or_switch_has_items(example: str) -> None:
    language, head, entry, end, name = LONG[example]
    first = head.count("\n") + 2
    assert items_of(outline(language, head, entry, end)) == [
        (name.replace("$", str(n)), first + 3 * n, first + 3 * n + 2) for n in range(30)
    ]


@pytest.mark.parametrize("example", LONG)
def test_a_short_one_has_none(example: str) -> None:
    language, head, entry, end, _ = LONG[example]
    assert items_of(outline(language, head, entry, end, count=15)) == []


def test_a_table_of_data_or_of_single_lines_has_none() -> None:
    _, head, entry, end, _ = LONG["python table"]
    assert items_of(outline("python", head, entry, end, count=501)) == []
    assert items_of(outline("python", head, '"key$": 1,', end, count=200)) == []
    assert items_of(outline("json", '{"a": [', '{\n"key": $,\n"b": 1},', "{}]}")) == []


def test_definitions_keep_their_names_and_chunks() -> None:
    head, entry = "export const rows = {", "key$: {\n run() {\n  f();\n },\n},"
    made = outline("javascript", head, entry, "};")
    assert items_of(made)[1] == ("rows.key1", 7, 11)
    methods = [symbol.qualified for symbol in made.symbols if symbol.kind == "function"]
    assert methods == ["rows.run"] * 30
    labels = {chunk.symbol for chunk in made.chunks}
    assert not labels & {name for name, _, _ in items_of(made)}
    functions = outline("javascript", head, "key$: () => {\n f();\n g() },", "};")
    assert items_of(functions) == []


def test_the_default_and_the_inner_literal() -> None:
    inner = "".join(f'"key{n}": [\n1,\n2],\n' for n in range(30))
    made = split(f'T = {{\n"a": {{\n{inner}}},\n"b": [\n],\n"c": [\n]}}\n', "python")
    names = [name for name, _, _ in items_of(made)]
    assert names[:2] == ['T["a"]', 'T["a"]["key0"]']
    assert names[-2:] == ['T["b"]', 'T["c"]']
    _, head, entry, end, _ = LONG["c switch"]
    assert items_of(outline("c", head, entry, f"default:\n f();\n{end}"))[-1][0] == "go default"


def test_a_directive_is_no_part_of_a_name() -> None:
    made = outline("c", "char *rows[] = {", '#ifndef NO_$\n"key$",\n#endif', "};")
    assert [name for name, _, _ in items_of(made)] == [f'rows["key{n}"]' for n in range(30)]
