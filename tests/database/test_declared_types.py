"""A member means that of the type which its receiver is declared to have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.symbols.answer import SymbolQuestion
from codebase_mcp.symbols.candidates import LIKELY, SURE

pytestmark = pytest.mark.anyio

OTHERS = {
    "other.py": "class Other:\n    def find(self): ...\n    def part(self): ...\n",
    "ts/other.ts": "export class Other { find() {} }\n",
    "java/other/Other.java": "package other;\nclass Other { void find() {} }\n",
    "go/other/other.go": "package other\n\ntype Other struct{}\n\nfunc (o *Other) Find() {}\n",
    "cs/Other.cs": "namespace Else;\nclass Other { void Find() {} }\n",
    "kt/other/Other.kt": "package other\nclass Other { fun find() {} }\n",
    "rs/src/other.rs": "pub struct Other;\nimpl Other { pub fn find(&self) {} }\n",
}
PYTHON = {
    "exact.py": "class Exact:\n    def find(self): ...\n    def part(self): ...\n",
    "app.py": (
        "from exact import Exact\nfrom other import Other\n\n\n"
        "class App:\n"
        "    other: Other\n"
        "    kept: Exact | None\n\n"
        "    def __init__(self):\n"
        "        self.set: Exact = make()\n"
        "        self.made = Exact()\n\n"
        "    @property\n"
        "    def exact(self) -> Exact: ...\n\n"
        "    def built(self) -> Exact: ...\n\n"
        "    def run(self):\n"
        "        self.exact.find()\n"  # 19
        "        self.kept.find()\n"
        "        self.set.find()\n"
        "        self.made.find()\n"
        "        self.built().find()\n"
        "        self.other.find()\n"
        "        exact.find()\n"  # 25: not the property
        "        mine = self.built()\n"
        "        mine.find()\n"
    ),
    "use.py": (
        "from app import App\nfrom exact import Exact as Renamed\nfrom exact import Exact\n\n\n"
        "def with_app(app: App, unknown):\n"
        "    app.exact.find()\n"  # 7
        "    app.kept.part()\n"
        "    unknown.exact.find()\n"
        "    app.other.find()\n\n\n"
        "def with_exact(part: Exact):\n"
        "    part.find()\n"  # 14
        "    made = Exact()\n"
        "    made.part()\n\n\n"
        "def without(part, items: list[Exact]):\n"
        "    part.find()\n"  # 20
        "    items.find()\n"
    ),
}  # fmt: skip


async def lines_of(app: App, project_id: str, name: str) -> dict[str, float]:
    question = SymbolQuestion("references", name=name)
    references = (await app.symbols.ask(question, project_id)).facts.references
    assert references is not None
    return {
        f"{use.use.file.path}:{use.use.line}": use.confidence
        for use in references.uses
        if use.confidence >= LIKELY and use.use.kind == "call"
    }


async def test_python(app: App, project_id: str, make_repo: Callable[..., Path]) -> None:
    await app.index(make_repo(PYTHON | OTHERS), project_id)
    found = await lines_of(app, project_id, "Exact.find")
    sure = {place for place, confidence in found.items() if confidence >= SURE}
    assert sure == {
        "app.py:19", "app.py:20", "app.py:21", "app.py:23",
        "use.py:7", "use.py:14",
    }  # fmt: skip
    assert {place: found[place] for place in found.keys() - sure if found[place] > 0.6} == {
        "app.py:22": 0.75, "app.py:27": 0.75, "use.py:9": 0.7,
    }  # fmt: skip
    others = await lines_of(app, project_id, "Other.find")
    assert {"app.py:24", "use.py:10"} <= others.keys()
    parts = await lines_of(app, project_id, "Exact.part")
    assert (parts["use.py:8"], parts["use.py:16"]) == (0.9, 0.75)


LANGUAGES = {
    "Exact.find": (
        {
            "ts/exact.ts": "export class Exact { find() {} }\n",
            "ts/app.ts": (
                "import { Exact } from './exact';\n"
                "export class App {\n"
                "  constructor(private readonly exact: Exact) {}\n"
                "  run(given: Exact) {\n"
                "    this.exact.find();\n"
                "    given.find();\n"
                "  }\n"
                "}\n"
                "export function use(app: App) { app.exact.find(); }\n"
            ),
        },
        {"ts/app.ts:5", "ts/app.ts:6", "ts/app.ts:9"},
    ),
    "shop.Exact.find": (
        {
            "java/shop/Exact.java": "package shop;\nclass Exact { void find() {} }\n",
            "java/shop/App.java": (
                "package shop;\n"
                "class App {\n"
                "  private Exact exact;\n"
                "  Exact getExact() { return exact; }\n"
                "  void run(App app, Exact given) {\n"
                "    exact.find();\n"
                "    given.find();\n"
                "    app.getExact().find();\n"
                "    app.exact.find();\n"
                "  }\n"
                "}\n"
            ),
        },
        {f"java/shop/App.java:{line}" for line in (6, 7, 8, 9)},
    ),
    "go.Exact.Find": (
        {
            "go/go.mod": "module ex.org/shop\n",
            "go/exact.go": "package shop\n\ntype Exact struct{}\n\nfunc (e *Exact) Find() {}\n",
            "go/app.go": "package shop\n\ntype App struct {\n\texact *Exact\n}\n",
            "go/run.go": (
                "package shop\n\n"
                "func (a *App) run(given Exact) {\n"
                "\ta.exact.Find()\n"
                "\tgiven.Find()\n"
                "}\n\n"
                "func use(app *App) { app.exact.Find() }\n"
            ),
        },
        {"go/run.go:4", "go/run.go:5", "go/run.go:8"},
    ),
    "cs.Exact.Find": (
        {
            "cs/Exact.cs": "namespace Shop;\nclass Exact { public void Find() {} }\n",
            "cs/App.cs": (
                "namespace Shop;\n"
                "class App {\n"
                "  public Exact Sure { get; }\n"
                "  void Run(Exact? given, App app) {\n"
                "    Sure.Find();\n"
                "    given.Find();\n"
                "    app.Sure.Find();\n"
                "  }\n"
                "}\n"
            ),
        },
        {f"cs/App.cs:{line}" for line in (5, 6, 7)},
    ),
    "kt.Exact.find": (
        {
            "kt/shop/Exact.kt": "package shop\nclass Exact { fun find() {} }\n",
            "kt/shop/App.kt": (
                "package shop\n"
                "class App(private val exact: Exact) {\n"
                "  fun run(given: Exact?, app: App) {\n"
                "    exact.find()\n"
                "    given?.find()\n"
                "    app.exact.find()\n"
                "  }\n"
                "}\n"
            ),
        },
        {f"kt/shop/App.kt:{line}" for line in (4, 5, 6)},
    ),
    "src.Exact.find": (
        {
            "rs/src/exact.rs": "pub struct Exact;\nimpl Exact { pub fn find(&self) {} }\n",
            "rs/src/app.rs": (
                "use crate::exact::Exact;\n"
                "pub struct App { exact: Arc<Exact> }\n"
                "impl App {\n"
                "    fn run(&self, given: &Exact) {\n"
                "        self.exact.find();\n"
                "        given.find();\n"
                "    }\n"
                "}\n"
                "fn use_it(app: &App) { app.exact.find(); }\n"
            ),
        },
        {f"rs/src/app.rs:{line}" for line in (5, 6, 9)},
    ),
}


@pytest.mark.parametrize("name", LANGUAGES)
async def test_other_languages(
    name: str, app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    files, expected = LANGUAGES[name]
    await app.index(make_repo(files | OTHERS), project_id)
    found = await lines_of(app, project_id, name)
    assert {place for place, confidence in found.items() if confidence >= SURE - 0.1} == expected
