"""Fields, attributes, enumerators and entries are names, and name no chunk."""

from __future__ import annotations

from importlib import resources

import pytest
from tests.unit.chunking.test_languages import snippet
from tests.unit.chunking.test_references import uses_of

from codebase_mcp.chunking.split import split
from codebase_mcp.model import FIELD_KINDS

FIELDS = {
    "c": [
        "field router.count",
        "field point_t.x",
        "enumerator method.GET",
        "enumerator method.POST",
    ],
    "cpp": [
        "field mux.detail.Point.x",
        "enumerator mux.detail.Method.get",
        "enumerator mux.detail.Method.post",
    ],
    "csharp": [
        "field Router.count",
        "field Point.X",
        "field Route.Path",
        "enumerator Method.Get",
        "enumerator Method.Post",
    ],
    "go": ["field Router.routes", "field List.items"],
    "graphql": [
        "field Route.path",
        "field Matcher.path",
        "enumerator Method.GET",
        "enumerator Method.POST",
    ],
    "java": [
        "field Router.routes",
        "enumerator Router.Method.GET",
        "enumerator Router.Method.POST",
        "field Point.x",
        "field Point.y",
        "field Route.path",
    ],
    "javascript": ["field Router.#routes"],
    "json": ["entry routes.limit"],
    "kotlin": [
        "field Router.routes",
        "enumerator Router.Method.GET",
        "enumerator Router.Method.POST",
    ],
    "php": ["field Router.routes", "enumerator Method.Get"],
    "proto": ["field Router.routes", "enumerator Router.Method.GET"],
    "python": ["field Router.limit", "attribute Router.routes"],
    "ruby": ["field Mux.Router.routes"],
    "rust": ["field Router.routes", "enumerator Method.Get", "enumerator Method.Post"],
    "scala": ["field Router.routes", "enumerator Method.Get", "enumerator Method.Post"],
    "sql": ["field mux.routes.id", "field mux.routes.path"],
    "swift": ["enumerator Method.get", "enumerator Method.post"],
    "toml": ["entry tool.router.limit", "entry routes.path"],
    "tsx": ["field Props.title"],
    "typescript": [
        "field Route.path",
        "enumerator Method.Get",
        "enumerator Method.Post",
        "field Router.routes",
    ],
    "vue": ["field Route.path"],
    "yaml": ["entry jobs.test", "entry jobs.test.steps", "entry jobs.test.steps.run"],
}


def fields_of(text: str, language: str) -> list[str]:
    return [f"{field.kind} {field.qualified}" for field in split(text, language).fields]


@pytest.mark.parametrize("language", sorted(FIELDS))
def test_what_holds_a_value_in_a_definition_is_a_name(language: str) -> None:
    assert fields_of(snippet(language), language) == FIELDS[language]


@pytest.mark.parametrize("language", sorted(FIELDS))
def test_fields_name_no_chunk(language: str) -> None:
    outline = split(snippet(language), language)
    assert not FIELD_KINDS & {chunk.kind for chunk in outline.chunks}
    assert not FIELD_KINDS & {symbol.kind for symbol in outline.symbols}


def test_an_attribute_is_defined_where_it_is_first_assigned() -> None:
    text = (
        "class A:\n    limit: int = 5\n    def __init__(self, size):\n        self.size = size\n"
        "        self.limit = 1\n    def grow(self):\n        self.size = self.size + 1\n"
        "        other.size = 2\n"
    )
    assert fields_of(text, "python") == ["field A.limit", "attribute A.size"]
    assert uses_of(text, "python") == [
        "2 type int as limit",
        "5 use self.limit",
        "7 use self.size, use self.size",
        "8 use other.size",
    ]
    assert fields_of("def f(self):\n    self.size = 1\n", "python") == []


@pytest.mark.parametrize(
    ("language", "text", "fields", "uses"),
    [
        (
            "python",
            "from a import A\nA(size=1)\nreplace(a, size=2)\nrun(size=3)\n",
            [],
            ["1 import A <a>", "2 call A, use A.size", "3 call replace, use ?.size", "4 call run"],
        ),
        (
            "typescript",
            "const Sizes = { BIG: 1 } as const;\nconst a: A = { size: 1 };\n"
            "class A { constructor(private size: number) {} }\nconst { size } = a;\n",
            ["field Sizes.BIG", "field A.size"],
            ["2 type A as a, use A.size", "4 use a, use ?.size"],
        ),
        (
            "go",
            "package p\nconst a, b = 1, 2\nvar x = []T{{Size: b}}\nfunc f(b int) { g(b, c) }\n",
            [],
            ["3 type T, use T.Size, use b", "4 type int as b, call g, use c"],
        ),
        (
            "java",
            "class A { int more, rest;\nint f(int rest, K k) {\n"
            "switch (k) { case BIG: return more; }\nreturn rest + other; } }\n",
            ["field A.more", "field A.rest"],
            ["2 type K as k", "3 use ?.BIG, use more", "4 use other"],
        ),
        (
            "rust",
            "fn f() { let a = A { size: 1 }; a.size; }\n",
            [],
            ["1 new A, use A.size, use a.size"],
        ),
        ("ruby", "class A\n  def f\n    @a = 1\n    @a\n  end\nend\n", ["attribute A.a"], None),
    ],
)
def test_fields_are_used_where_objects_are_made_and_read(
    language: str, text: str, fields: list[str], uses: list[str] | None
) -> None:
    assert fields_of(text, language) == fields
    if uses is not None:
        assert uses_of(text, language) == uses


def test_a_table_of_data_has_no_entries() -> None:
    lines = "".join(f"  k{number}: {number}\n" for number in range(501))
    assert fields_of(f"a:\n{lines}", "yaml") == []
    assert len(fields_of(f"a:\n{lines[: lines.index('k9')]}", "yaml")) == 9


def test_lines_of_configuration_have_keys() -> None:
    text = "# a = 1\ntop=1\n[tool:shop]\ntimeout_s = 5\n  more lines = 1\n"
    assert fields_of(text, "ini") == ["entry top", "entry tool:shop.timeout_s"]
    text = "export SHOP_URL=a\nserver.port: 80\n"
    assert fields_of(text, "properties") == ["entry SHOP_URL", "entry server.port"]
    assert fields_of(text, "text") == []


def test_each_kind_is_written_in_the_statements_that_leave_fields_out() -> None:
    kinds = "'{" + ",".join(sorted(FIELD_KINDS)) + "}'"
    for package, name, count in (
        ("search", "search.sql", 1),
        ("search", "memory_index.sql", 1),
        ("symbols", "symbols.sql", 1),
    ):
        text = (resources.files(f"codebase_mcp.{package}") / name).read_text(encoding="utf-8")
        assert text.count(kinds) == count, name
