"""Uses of names in each language: ``references/LANGUAGE.txt`` and what is found in it.

Each line of ``LANGUAGE.uses`` has a line number and its uses: kind, receiver and name; for an
import the module in angle brackets and the alias, and after "as" also what is declared.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from codebase_mcp.chunking.split import split
from codebase_mcp.model import Reference, ReferenceKind
from codebase_mcp.text.references import declarations, pack, unpack

TEXTS = Path(__file__).parent / "references"
LANGUAGES = sorted(path.stem for path in TEXTS.glob("*.txt"))

NAMES = [f"A{number}" for number in range(20_000)]
LIST = ",\n".join(NAMES)


def text_of(language: str) -> str:
    return (TEXTS / f"{language}.txt").read_text(encoding="utf-8")


def written(use: Reference) -> str:
    receiver = f"{use.receiver}." if use.receiver else ""
    module = f" <{use.module}>" if use.module else ""
    alias = f" as {use.alias}" if use.alias else ""
    return f"{use.kind.value} {receiver}{use.name}{module}{alias}"


def uses_of(text: str, language: str) -> list[str]:
    """The uses of a text, a line of it each."""
    by_line: dict[int, list[str]] = {}
    for use in split(text, language).references:
        by_line.setdefault(use.line, []).append(written(use))
    return [f"{line} {', '.join(uses)}" for line, uses in by_line.items()]


@pytest.mark.parametrize("language", LANGUAGES)
def test_uses_are_found_with_kind_receiver_and_module(language: str) -> None:
    expected = (TEXTS / f"{language}.uses").read_text(encoding="utf-8").splitlines()
    assert uses_of(text_of(language), language) == expected


def test_the_languages_are_those_that_have_a_query() -> None:
    assert len(LANGUAGES) == 15
    assert all(split(text_of(language), language).references for language in LANGUAGES)
    assert split("f() { g; }", "bash").references == ()


@pytest.mark.parametrize("language", LANGUAGES)
def test_stored_uses_are_read_as_they_were(language: str) -> None:
    references = split(text_of(language), language).references
    packed = pack(references)
    stored = [use for name, uses in packed.items() for use in unpack(name, uses)]
    bare = (
        use if use.kind is ReferenceKind.IMPORT else use._replace(alias="") for use in references
    )
    assert sorted(stored) == sorted(set(bare))
    declared = {
        (line, name, what) for name, uses in packed.items() for line, what in declarations(uses)
    }
    assert declared == {
        (use.line, use.name, use.alias)
        for use in references
        if use.alias and use.kind is not ReferenceKind.IMPORT
    }


def test_the_scripts_of_a_page_count_from_its_first_line() -> None:
    page = "<p>\n<script>\nimport a from './a';\na(1);\n</script>\n"
    assert uses_of(page, "html") == ["3 import a <./a>", "4 call a"]


def test_a_name_that_is_handed_on_counts_if_the_text_says_where_it_is_from() -> None:
    text = (
        "from m import far\n\ndef near(): pass\n\ndef g(local):\n    run(near, far, local, Upper)\n"
    )
    assert uses_of(text, "python") == [
        "1 import far <m>",
        "6 call run, use near, use far, use Upper",
    ]


def test_a_member_that_is_read_counts_behind_any_object() -> None:
    text = (
        "class A:\n    @property\n    def size(self): ...\n    def f(self, o):\n"
        "        self.x = self.size + o.size\n"
    )
    assert uses_of(text, "python") == ["5 use self.size, use o.size"]
    text = "class A {\n  get size() {}\n  f(o) {\n    this.x = this.size + o.size;\n  }\n}\n"
    assert uses_of(text, "typescript") == ["4 use this.x, use this.size, use o.size"]


def test_a_type_behind_a_package_is_used_where_a_member_of_it_is() -> None:
    text = "use a::Shop::b;\nfn f() { a::Shop::new(a::pay::sell()) }\n"
    assert uses_of(text, "rust") == [
        "1 import b <a::Shop>, use a.Shop",
        "2 use a.Shop, call Shop.new, call pay.sell",
    ]
    text = "class A { int f(B b) { return b.Shop.SIZE + b.Shop.size() + b.shop.size(); } }\n"
    assert uses_of(text, "java") == [
        "1 type B as b, use b.Shop, use Shop.SIZE, use b.Shop, call Shop.size, use b.shop,"
        " call shop.size"
    ]


def test_a_type_parameter_hides_a_type_of_its_name() -> None:
    text = (
        "type Tail = 1;\n"
        "type A<T> = T extends [infer H, ...infer Tail]\n  ? [H, Tail]\n  : B;\n"
        "function f<Tail>(\n  x: Tail,\n): Tail {}\nlet y: Tail;\n"
    )
    assert uses_of(text, "typescript") == ["4 type B", "8 type Tail as y"]


OUTER = "function send() {}\nimport { got } from './got';\n"


@pytest.mark.parametrize(
    "text",
    [
        "function f(send, { got }) {\nsend(got); }",
        "function f({ a: send, ...got }) {\nsend(got); }",
        "function f([send], got = 1) {\nsend(got); }",
        "const f = send => {\nsend();\nfor (const got of send) send(got); }",
        "function f() { const { send } = x; let got;\nsend(got); }",
        "function f() { if (x) { var send = 1, got; }\nsend(got); }",
        "function f() { try {} catch (got) {\ngot(); } }",
    ],
)
def test_a_local_name_hides_what_is_outside_of_its_function(text: str) -> None:
    whole = f"{OUTER}{text}\nsend(got);\n"
    last = whole.count("\n")
    expected = ["2 import got <./got>", f"{last} call send, use got"]
    for language in ("javascript", "typescript"):
        bare = [use for use in uses_of(whole, language) if "use ?." not in use]  # read from x
        assert bare == expected


def test_a_local_name_hides_nothing_beyond_its_block() -> None:
    text = (
        "function a() {}\n"
        "function f() { { const a = 1;\na(); }\na(a); }\n"
        "class A { m(a: T) {\na(); } n(): void {\na(); } }\n"
        "type F = (a: T) => void;\n"
        "function g() { const { a } = require('./a');\na(); x.a(); }\n"
    )
    assert uses_of(text, "typescript") == [
        "4 call a, use a",
        "5 type T as a",
        "7 call a",
        "8 type T as a",
        "9 import a <./a>, call require",
        "10 call a, call x.a",
    ]


def test_parameters_and_variables_of_c_hide_what_is_outside() -> None:
    text = (
        "int size(void) { return 1; }\n"
        "void f(const char *size, int n) {\nsize(n); }\n"
        "void g(void) {\nsize(size);\nint *size = x;\nsize(size); }\n"
        "void h(int size);\n"
        "void i(void) {\nfor (int size = 0; size();) size();\nsize(); }\n"
    )
    assert uses_of(text, "c") == ["5 call size, use size", "11 call size"]
    more = (
        "int size() { return 1; }\n"
        "struct A { A(int& size) : n(size) {} int n; };\n"
        "void f(int&& size = 1) {\nsize(); }\n"
        "void g() {\nauto l = [](int size) { return size(); };\n"
        "for (auto& size : xs) size();\nsize();\nauto [a, size] = p;\nsize(size); }\n"
    )
    assert uses_of(more, "cpp") == ["2 use ?.n", "8 call size"]


def test_a_specialization_uses_its_template_and_is_no_definition_of_its_name() -> None:
    text = (
        "template <typename T> struct Show { int x; };\n"
        "template <> struct Show<Shop> : Base { int show(Shop s) { return 1; } };\n"
        "template <> class Show<int> {};\nstruct a::Show { int x; };\n"
    )
    assert uses_of(text, "cpp") == [
        "2 type Show, type Shop, inherit Base, type Shop",
        "3 type Show",
        "4 type a.Show",
    ]
    assert [(one.qualified, one.start_line) for one in split(text, "cpp").symbols] == [
        ("Show", 1),
        ("Show.show", 2),
        ("a.Show", 4),
    ]


def test_an_arrow_is_a_receiver_only_where_it_is_a_member() -> None:
    assert uses_of("def f(x) -> Foo: pass\n", "python") == ["1 type Foo as f()"]
    assert uses_of("void f(void) { p->run(); }\n", "c") == ["1 call p.run"]


def test_dots_that_are_no_receiver() -> None:
    assert uses_of("f(...g(1));\n", "javascript") == ["1 call f, call g"]
    assert uses_of("x = f().g(1).h()\n", "python") == ["1 call f, call f().g, call ?.h"]


def test_names_beyond_ascii_are_whole() -> None:
    assert uses_of("naïf.größe(1)\nf()\n", "python") == ["1 call naïf.größe", "2 call f"]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "import self\n", ["1 import self"]),
        ("c", '#include ""\n#include "a/"\n', []),
        ("javascript", "import '';\n", []),
        ("rust", "use self;\nuse {self};\nuse ::a;\n", ["2 import self", "3 import a <::>"]),
        ("go", 'package p\nimport "/"\n', []),
    ],
)
def test_strange_imports_are_survived(language: str, text: str, expected: list[str]) -> None:
    assert uses_of(text, language) == expected


def test_a_name_of_absurd_length_is_left_out() -> None:
    assert uses_of(f"{'a' * 300}()\nb()\n", "python") == ["2 call b"]


@pytest.mark.parametrize(
    ("language", "text", "most"),
    [
        ("python", f"from x import ({LIST})\n", 20_000),
        ("python", f"F = [{LIST}]\n", 20_000),
        ("python", f"class A({LIST}): pass\n", 20_000),
        ("python", "f(" * 3_000 + ")" * 3_000 + "\n", 200),
        ("python", "x" + "\n.f()" * 20_000 + "\n", 20_000),
        ("typescript", f"type T<{LIST}> = [{LIST}];\n", 0),
        ("typescript", "function f<A>(a: A, b: B) {}\n" * 20_000, 20_000),
        ("typescript", f"export {{{LIST}}} from 'x';\n", 20_000),
        ("typescript", f"export {{{LIST}}};\n", 20_000),
        ("typescript", f"const x: A = {{{LIST}}};\nf({{{LIST}}});\n", 80_002),
        ("python", f"A({LIST.replace(',', '=1,')}=1)\n", 20_001),
        ("go", f"package p\nvar x = A{{{LIST.replace(',', ': 1,')}: 1}}\n", 20_001),
        ("java", f"class A {{ int {LIST}; int f(int {LIST.replace(',', ', int')}) {{}} }}\n", 0),
        ("javascript", f"const {{{LIST}}} = require('x');\n", 20_001),
        ("javascript", f"import {{{LIST}}} from 'x';\n", 20_000),
        ("rust", f"use a::{{{LIST}}};\n", 20_000),
        ("rust", "m!(" + "f(1)\n" * 20_000 + ");\n", 20_001),
        ("scala", f"import a.{{{LIST}}}\n", 20_000),
        ("ruby", f"include {LIST}\n", 20_001),
    ],
)
def test_long_lists_and_deep_nests_take_linear_time(language: str, text: str, most: int) -> None:
    started = time.thread_time()
    found = len(split(text, language).references)
    assert most / 2 <= found <= most
    # Some take half a second; in quadratic time they take twenty.
    assert time.thread_time() - started < 8


def test_uses_that_do_not_differ_are_stored_once_a_line() -> None:
    call = Reference(3, "f", ReferenceKind.CALL, "self")
    assert pack([call, call, call._replace(line=12)]) == {"f": "c\tself\t3,12"}


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "def go():\n    # It is sent.\n    send(1)\n"),
        ("javascript", "function go() {\n  // It is sent.\n  send(1)\n}\n"),
        ("go", "package a\n\nfunc Go() {\n\t// It is sent.\n\tsend(1)\n}\n"),
        ("rust", "fn go() {\n    // It is sent.\n    send(1);\n}\n"),
        ("java", "class A {\n  void go() {\n    // It is sent.\n    send(1);\n  }\n}\n"),
        ("c", "void go(void) {\n  // It is sent.\n  send(1);\n}\n"),
        ("ruby", "def go\n  # It is sent.\n  send_it(1)\nend\n"),
        ("php", "<?php\nfunction go() {\n  // It is sent.\n  send(1);\n}\n"),
    ],
)
def test_the_full_stop_of_a_comment_above_a_call_is_no_receiver(language: str, text: str) -> None:
    [call] = [use for use in split(text, language).references if use.kind is ReferenceKind.CALL]
    assert (call.name.removesuffix("_it"), call.receiver) == ("send", "")


def test_a_receiver_may_stand_on_the_line_above() -> None:
    text = "function go(it) {\n  it.\n    send(1)\n}\n"
    [call] = [use for use in split(text, "javascript").references if use.name == "send"]
    assert call.receiver == "it"
