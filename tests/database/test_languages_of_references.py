"""In each language a use is called sure where the language says what it means, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.symbols.answer import SymbolQuestion
from codebase_mcp.symbols.candidates import SURE
from codebase_mcp.symbols.lookup import parse_place

pytestmark = pytest.mark.anyio

FILES = {
    "go/go.mod": "// The shop.\nmodule ex.org/shop/v2\n\ngo 1.23\n",
    "go/shop.go": (
        "package shop\n\ntype Shop struct{}\n\nfunc Open() *Shop { return &Shop{} }\n\n"
        "func (s *Shop) Sell(n int) { s.Count(n) }\n"
    ),
    "go/count.go": "package shop\n\nfunc (s *Shop) Count(n int) int { return n }\n",
    "go/log/log.go": "package log\n\nfunc Print(n int) {}\n",
    "go/cmd/main.go": (
        'package main\n\nimport (\n\t"log"\n\n\t"ex.org/shop/v2"\n\t"ex.org/uuid"\n)\n\n'
        "func main() {\n\tshop.Open()\n\tuuid.Open()\n\tlog.Print(1)\n}\n"
    ),
    "c/include/card.h": "typedef struct card card;\nint card_pay(card *c);\n",
    "c/src/private.h": '#include "card.h"\nstruct card { int size; };\n',
    "c/src/card.c": '#include "private.h"\nint card_pay(card *c) { return sizeof(card); }\n',
    "c/src/main.c": '#include "card.h"\nint main(void) { return card_pay(0); }\n',
    "java/src/main/java/org/shop/Shop.java": (
        "package org.shop;\npublic class Shop {\n  static class Matcher {}\n"
        "  Shop copy() {\n    Shop copy = this;\n    return copy.paid;\n  }\n}\n"
    ),
    "java/src/test/java/org/shop/ShopTest.java": (
        "package org.shop;\nimport java.util.shop.Matcher;\nclass ShopTest {\n"
        "  Shop shop;\n  Matcher matcher;\n}\n"
    ),
    "rust/src/lib.rs": (
        "pub struct Card;\nimpl Card {\n    fn pay() -> Result<(), ()> { Err(()) }\n}\n"
        "impl Visitor for Card {\n    type Err = ();\n}\n"
    ),
}

SURE_USES = {
    "go/shop.go:3": {"go/count.go:3", "go/shop.go:5", "go/shop.go:7"},
    "go/shop.go:5": {"go/cmd/main.go:11"},
    "go/count.go:3": {"go/shop.go:7"},
    "go/log/log.go:3": set(),
    "c/include/card.h:1": {"c/include/card.h:1", "c/include/card.h:2", "c/src/card.c:2"},
    "c/include/card.h:2": {"c/src/main.c:2"},
    "c/src/card.c:2": {"c/src/main.c:2"},
    "java/src/main/java/org/shop/Shop.java:2": {
        "java/src/main/java/org/shop/Shop.java:4",
        "java/src/main/java/org/shop/Shop.java:5",
        "java/src/test/java/org/shop/ShopTest.java:4",
    },
    "java/src/main/java/org/shop/Shop.java:3": set(),
    "java/src/main/java/org/shop/Shop.java:4": set(),
    "rust/src/lib.rs:1": {"rust/src/lib.rs:2", "rust/src/lib.rs:5"},
    "rust/src/lib.rs:6": set(),
}


async def test_what_is_sure(app: App, project_id: str, make_repo: Callable[..., Path]) -> None:
    await app.index(make_repo(FILES), project_id)
    found = {}
    for place in SURE_USES:
        question = SymbolQuestion("references", place=parse_place(place))
        references = (await app.symbols.ask(question, project_id)).facts.references
        assert references is not None
        found[place] = {
            f"{use.use.file.path}:{use.use.line}"
            for use in references.uses
            if use.confidence >= SURE
        }
    assert found == SURE_USES
