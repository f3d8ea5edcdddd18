"""Definitions are compared by their names and their own lines, not as text."""

from __future__ import annotations

import pytest

from codebase_mcp.changes.symbols import (
    ChangedSymbol,
    SymbolChanges,
    Text,
    TextPair,
    compare_symbols,
)

CLASS = '''\
class Cart:
    """What a customer wants to buy."""

    def add(self, item, count=1):
        self.items[item] = self.items.get(item, 0) + count

    def total(self, prices):
        return sum(prices[item] * count for item, count in self.items.items())
'''


def pair(old: str | None, new: str | None, path: str = "a.py", was: str | None = None) -> TextPair:
    def text(content: str | None) -> Text | None:
        return None if content is None else Text(content, content, "python")

    return TextPair(path, was, text(old), text(new))


def names(changes: SymbolChanges) -> dict[str, list[str]]:
    found = {
        "+": [one.name for one in changes.added],
        "~": [one.name for one in changes.changed],
        "-": [one.name for one in changes.removed],
        ">": [f"{one.old_path}:{one.old_name} {one.name}" for one in changes.moved],
    }
    return {kind: listed for kind, listed in found.items() if listed}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("def f():\n    return 1\n", "def f():\n    return 2\n", {"~": ["f"]}),
        ("def f(): pass\n", "def f(): pass\n\n\ndef g(): pass\n", {"+": ["g"]}),
        ("def f(): pass\ndef g(): pass\n", "def g(): pass\n", {"-": ["f"]}),
        ("def f():\n    return 1\n", "def f():   \r\n    return 1  \r\n", {}),
        ("def f():\n    return 1\n", "# why\n\n\nx = 1\ndef f():\n\n    return 1\n", {"+": ["x"]}),
        ("def f(): pass\n", "@cached\ndef f(): pass\n", {"~": ["f"]}),
        ("# one\ndef f(): pass\n", "# two\ndef f(): pass\n", {"~": ["f"]}),
        ("a = 1; b = 2\n", "a = 1; b = 3\n", {"~": ["a", "b"]}),
        (CLASS, CLASS.replace("count=1", "count=2"), {"~": ["Cart.add"]}),
        (CLASS, CLASS.replace("class Cart", "class Cart(Base)"), {"~": ["Cart"]}),
        (None, CLASS, {"+": ["Cart"]}),
        (CLASS, None, {"-": ["Cart"]}),
        (CLASS, CLASS[: CLASS.index("    def total")], {"-": ["Cart.total"]}),
        (CLASS, CLASS.replace("total", "sum_up"), {">": ["a.py:Cart.total Cart.sum_up"]}),
        (CLASS, CLASS.replace("Cart", "Basket"), {">": ["a.py:Cart Basket"]}),
        ("def f(): pass\n", "def g(): pass\n", {"+": ["g"], "-": ["f"]}),
        # Several definitions with one name: only the one that differs is listed.
        (
            "def f():\n    return 1\n\n\ndef f():\n    return 2\n",
            "def f():\n    return 2\n\n\ndef f():\n    return 3\n",
            {"~": ["f"]},
        ),
        ("", "", {}),
        ("\0" * 10, "def f(:\n", {"+": ["f"]}),
    ],
)
def test_what_differs(old: str | None, new: str | None, expected: dict[str, list[str]]) -> None:
    [changes] = compare_symbols([pair(old, new)])
    assert names(changes) == expected
    assert changes.count == sum(map(len, expected.values()))


def test_a_definition_that_went_to_another_file_was_moved() -> None:
    first, second = compare_symbols(
        [pair(CLASS, "x = 1\n", "old.py"), pair("", "\n\n" + CLASS, "new.py")]
    )
    assert names(first) == {"+": ["x"]}
    assert second.moved == [
        ChangedSymbol("Cart", "class", "new.py", 3, 10, old_name="Cart", old_path="old.py")
    ]


def test_of_equal_texts_the_one_with_the_same_name_was_moved() -> None:
    body = "(x):\n    return sum(number * number for number in range(x))\n"
    old = f"def a{body}\n\ndef b{body}"
    first, second = compare_symbols([pair(old, "", "old.py"), pair("", f"def b{body}", "new.py")])
    assert names(first) == {"-": ["a"]}
    assert names(second) == {">": ["old.py:b b"]}


def test_one_text_is_moved_to_one_place_only() -> None:
    [_, second, third] = compare_symbols(
        [pair(CLASS, None, "old.py"), pair(None, CLASS, "one.py"), pair(None, CLASS, "two.py")]
    )
    assert (names(second), names(third)) == ({">": ["old.py:Cart Cart"]}, {"+": ["Cart"]})


def test_in_a_renamed_file_only_what_differs_is_listed() -> None:
    renamed = pair(CLASS, CLASS.replace("count=1", "count=2") + "\nx = 1\n", "new.py", "old.py")
    [changes] = compare_symbols([renamed])
    assert names(changes) == {"~": ["Cart.add"], "+": ["x"]}
    [changes] = compare_symbols([pair(CLASS, "", "new.py", "old.py")])
    assert changes.removed == [ChangedSymbol("Cart", "class", "old.py", 1, 8)]
