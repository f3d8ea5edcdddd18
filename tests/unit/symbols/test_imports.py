"""An import means the files that its language says, and no others."""

from __future__ import annotations

import pytest

from codebase_mcp.symbols.imports import (
    Fit,
    joined,
    last_part,
    module_fits,
    words_of_module,
    words_of_path,
)
from codebase_mcp.symbols.languages import language_of

FILE, PACKAGE, NONE = Fit.FILE, Fit.PACKAGE, Fit.NONE


@pytest.mark.parametrize(
    ("language", "importer", "module", "target", "fit"),
    [
        # Python: dotted, from a source root; relative; what a package may hand on
        ("python", "src/shop/cart.py", "shop.pay", "src/shop/pay.py", FILE),
        ("python", "src/shop/cart.py", "shop.pay", "src/shop/pay/__init__.py", FILE),
        ("python", "tests/test_cart.py", "shop.pay", "src/shop/pay.py", FILE),
        ("python", "src/shop/cart.py", ".pay", "src/shop/pay.py", FILE),
        ("python", "src/shop/cart.py", "..pay", "src/pay.py", FILE),
        ("python", "src/shop/cart.py", ".", "src/shop/__init__.py", FILE),
        ("python", "src/shop/cart.py", ".__main__", "src/shop/__main__.py", FILE),
        ("python", "src/shop/cart.py", "....pay", "pay.py", NONE),
        ("python", "src/shop/cart.py", "shop", "src/shop/pay.py", PACKAGE),
        ("python", "src/shop/cart.py", "pay", "src/shop/pay.py", PACKAGE),
        ("python", "src/shop/cart.py", "shop.pay", "src/shop/payment.py", NONE),
        # the standard library, not a neighbour of its name; but in its own sources
        ("python", "src/shop/cart.py", "json", "src/shop/json.py", NONE),
        ("python", "Lib/http/client.py", "json", "Lib/json/__init__.py", FILE),
        # JavaScript and TypeScript: relative paths, index files, aliases
        ("typescript", "src/cart.ts", "./pay", "src/pay.ts", FILE),
        ("typescript", "src/cart.ts", "./pay.js", "src/pay.ts", FILE),
        ("tsx", "src/ui/Cart.tsx", "../pay", "src/pay/index.ts", FILE),
        ("javascript", "src/cart.js", "./pay", "src/other/pay.js", NONE),
        ("typescript", "src/cart.ts", "@/lib/pay", "src/lib/pay.ts", FILE),
        ("typescript", "src/cart.ts", "react", "src/react.ts", NONE),
        ("typescript", "a/cart.ts", "@shop/pay", "packages/pay/src/card.ts", PACKAGE),
        # Go: the path of a directory ends as the import does
        ("go", "cmd/main.go", "example.org/shop/internal/pay", "internal/pay/card.go", FILE),
        ("go", "cmd/main.go", "errors", "internal/errors/all.go", NONE),
        ("go", "cmd/main.go", "example.org/shop/pay", "internal/cart/card.go", NONE),
        # or is it, where go.mod says the rest
        ("go", "cmd/main.go", "example.org/shop", "/example.org/shop/card.go", FILE),
        ("go", "cmd/main.go", "log", "/example.org/shop/log/card.go", NONE),
        # Java and its like: packages are directories, types are files
        ("java", "a/Cart.java", "org.shop.pay", "src/main/java/org/shop/pay/Card.java", FILE),
        ("kotlin", "a/Cart.kt", "org.shop.pay", "src/pay/Card.kt", PACKAGE),
        ("java", "a/Cart.java", "java.util", "src/main/java/org/shop/Card.java", NONE),
        ("php", "src/Cart.php", "App\\Models", "src/Models/User.php", PACKAGE),
        # Rust: from the root of the crate, from here, from above, and from another crate
        ("rust", "src/cart.rs", "crate::pay::card", "src/pay/card.rs", FILE),
        ("rust", "src/shop/cart.rs", "super::pay", "src/shop/pay.rs", FILE),
        ("rust", "src/shop/mod.rs", "self::pay", "src/shop/pay.rs", FILE),
        ("rust", "src/main.rs", "pay", "src/pay/mod.rs", FILE),
        ("rust", "app/src/main.rs", "shop_pay::card", "shop-pay/src/card.rs", FILE),
        ("rust", "src/cart.rs", "std::io", "src/io.rs", NONE),
        # C: the file itself, or the source of its header
        ("c", "src/cart.c", "pay.h", "src/pay.h", FILE),
        ("c", "src/cart.c", "shop/pay.h", "lib/pay.c", FILE),
        ("cpp", "src/cart.cpp", "pay.h", "src/card.cpp", NONE),
        ("ruby", "lib/cart.rb", "shop/pay", "lib/shop/pay.rb", FILE),
        ("ruby", "lib/cart.rb", "../pay", "pay.rb", FILE),
        # a path that begins with the name of its package: only by that name
        ("python", "cart.py", "shop.pay", "/shop/pay.py", FILE),
        ("python", "cart.py", "shop", "/shop/__init__.py", FILE),
        ("python", "cart.py", "shop", "/shop/pay.py", PACKAGE),
        ("python", "cart.py", "pay", "/shop/pay.py", NONE),
        ("python", "cart.py", ".pay", "/shop/pay.py", NONE),
        ("typescript", "cart.ts", "@shop/pay", "/@shop/pay/index.ts", FILE),
        ("typescript", "cart.ts", "@shop/pay/card.js", "/@shop/pay/card.ts", FILE),
        ("typescript", "cart.ts", "pay.io", "/pay.io/index.ts", FILE),
        ("typescript", "cart.ts", "@other/pay", "/@shop/pay/index.ts", NONE),
        ("rust", "src/main.rs", "shop_pay::card", "/shop_pay/card.rs", FILE),
        ("rust", "src/main.rs", "shop_pay", "/shop_pay/lib.rs", FILE),
        ("php", "a.php", "App\\Models", "/App/Models/User.php", FILE),
        ("php", "a.php", "\\App\\Models\\User", "/App/Models/User.php", FILE),
        ("php", "a.php", "Models", "/App/Models/User.php", NONE),
        ("ruby", "a.rb", "shop/pay", "/shop/pay.rb", FILE),
        # no rules, no fit
        ("swift", "a.swift", "Shop", "Shop.swift", NONE),
        ("lua", "a.lua", "shop", "shop.lua", NONE),
    ],
)
def test_a_module_fits_a_file(
    language: str, importer: str, module: str, target: str, fit: Fit
) -> None:
    assert module_fits(language, importer, module, target) is fit
    if fit:
        words = words_of_module(module, language_of(language))
        assert not words or words & words_of_path(target)


def test_a_module_has_words_in_common_with_the_paths_that_it_may_mean() -> None:
    python, script, rust = map(language_of, ("python", "typescript", "rust"))
    assert words_of_module("shop-app.Pay", python) == {"shop_app", "pay"}
    assert words_of_module("crate::shop", rust) == {"shop"}
    assert words_of_path("src/shop_app/pay.test.ts") == {"src", "shop_app", "pay"}
    # The path of a directory's own file need not have any.
    for module, rules in (("..", python), (".__init__", python), ("./index.js", script),
                          ("./shop/..", script), ("super", rust)):  # fmt: skip
        assert words_of_module(module, rules) == frozenset()


@pytest.mark.parametrize(
    ("language", "module", "name", "whole"),
    [
        ("python", "shop", "pay", "shop.pay"),
        ("python", "", "pay", "pay"),
        ("python", "..", "pay", "..pay"),
        ("rust", "crate::shop", "pay", "crate::shop::pay"),
        ("php", "App\\Models", "User", "App\\Models\\User"),
        ("go", "example.org/shop", "pay", "example.org/shop/pay"),
    ],
)
def test_an_imported_name_may_be_a_module(
    language: str, module: str, name: str, whole: str
) -> None:
    assert joined(module, name, language) == whole


@pytest.mark.parametrize(
    ("module", "last"),
    [
        ("shop.pay", "pay"),
        (".pay", "pay"),
        ("..", ""),
        ("./pay.js", "pay"),
        ("../pay/index", "pay"),
        ("crate::shop::pay", "pay"),
        ("super", ""),
    ],
)
def test_a_module_tells_how_its_path_ends(module: str, last: str) -> None:
    assert last_part(module) == last
