"""A directory is called what its build file says, or the repository's own directory is."""

from __future__ import annotations

import pytest

from codebase_mcp.symbols.imports import Fit
from codebase_mcp.symbols.packages import PackageNames, build_files_for, names_in

FILE, PACKAGE, NONE = Fit.FILE, Fit.PACKAGE, Fit.NONE


@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        ("go.mod", "// The shop.\nmodule ex.org/shop/v2\n\ngo 1.23\n", [("ex.org/shop/v2", "")]),
        ("pyproject.toml", '[project]\nname = "Shop-Pay"\n', [("shop_pay", ""), ("shop/pay", "")]),
        ("pyproject.toml", '[tool.poetry]\nname = "shop"\n', [("shop", ""), ("shop", "")]),
        (
            "pyproject.toml",
            '[tool.setuptools.package-dir]\n"" = "src"\nshop = "."\n"shop.pay" = "pay"\n',
            [("shop", "."), ("shop/pay", "pay")],
        ),
        (
            "pyproject.toml",
            '[tool.hatch.build.targets.wheel]\npackages = ["py/shop"]\n',
            [("shop", "py/shop")],
        ),
        ("setup.cfg", "[metadata]\nversion = 1\nname = shop\n", [("shop", ""), ("shop", "")]),
        ("package.json", '{"name": "@shop/pay"}', [("@shop/pay", "")]),
        ("Cargo.toml", '[package]\nname = "shop-pay"\n', [("shop-pay", "")]),
        ("Cargo.toml", '[package]\nname = "a"\n[lib]\nname = "shop"\n', [("shop", "")]),
        ("Cargo.toml", '[workspace]\nmembers = ["a"]\n', []),
        (
            "composer.json",
            '{"autoload": {"psr-4": {"App\\\\": ["src/", "lib/"], "A\\\\B\\\\": "b"}}}',
            [("App", "src/"), ("App", "lib/"), ("A/B", "b")],
        ),
        # what is broken, or something else, says nothing
        ("pyproject.toml", "[project\n", []),
        ("pyproject.toml", 'project = "shop"\n[tool]\npoetry = 1\n', []),
        ("package.json", "[" * 100_000, []),
        ("package.json", '["name"]', []),
        ("package.json", '{"name": 1}', []),
        ("composer.json", '{"autoload": {"psr-4": {"App": 1}}}', []),
    ],
)
def test_a_build_file_names_directories(file: str, text: str, names: list[tuple[str, str]]) -> None:
    assert [(one.name, one.directory) for one in names_in(file, text)] == names


PYTHON = {"core/pyproject.toml": '[project]\nname = "shop-core"\n'}
NODE = {"package.json": "{}", "a/pay/package.json": '{"name": "@shop/pay"}'}
CARGO = {"a/pay/Cargo.toml": '[package]\nname = "shop-pay"\n'}
COMPOSER = {"composer.json": '{"autoload": {"psr-4": {"App\\\\": "src/"}}}'}
GO = {"go.mod": "module ex.org/shop\n", "tools/go.mod": "module ex.org/tools\n"}


@pytest.mark.parametrize(
    ("build_files", "language", "module", "target", "fit"),
    [
        # the root is a package: as its directory is called
        ({"__init__.py": ""}, "python", "shop.pay", "pay.py", FILE),
        ({"__init__.py": ""}, "python", "shop", "__init__.py", FILE),
        ({"__init__.py": ""}, "python", "shop", "pay.py", PACKAGE),
        ({"__init__.py": ""}, "python", "store.pay", "pay.py", NONE),
        # or perhaps one
        ({}, "python", "shop.pay", "pay.py", PACKAGE),
        ({}, "python", "shop", "tests/test_pay.py", NONE),
        ({}, "python", "shop.pay", "shop/pay.py", FILE),
        ({}, "ruby", "shop/pay", "pay.rb", FILE),
        ({}, "go", "ex.org/shop", "card.go", FILE),
        ({}, "rust", "shop::pay", "src/pay.rs", FILE),
        ({}, "rust", "shop", "src/lib.rs", FILE),
        ({}, "rust", "shop::pay", "tests/pay.rs", NONE),
        ({}, "typescript", "shop/pay", "pay.ts", PACKAGE),
        # a project of several
        (PYTHON, "python", "shop_core.pay", "core/shop_core/pay.py", FILE),
        (PYTHON, "python", "shop_core.pay", "core/src/shop_core/pay.py", FILE),
        (PYTHON, "python", "shop.core.pay", "core/shop/core/pay.py", FILE),
        (PYTHON, "python", "shop_core.pay", "core/pay.py", PACKAGE),
        (PYTHON, "python", "tests.pay", "core/tests/pay.py", PACKAGE),
        (NODE, "typescript", "@shop/pay", "a/pay/src/index.ts", FILE),
        (NODE, "typescript", "@shop/pay/card", "a/pay/lib/card.ts", FILE),
        (NODE, "typescript", "@shop/pay", "a/pay/src/card.ts", PACKAGE),
        (NODE, "typescript", "pay", "a/pay/index.ts", NONE),
        (CARGO, "rust", "shop_pay::card", "a/pay/src/card.rs", FILE),
        (CARGO, "rust", "shop_pay::card", "a/pay/tests/card.rs", NONE),
        (COMPOSER, "php", "App\\Models", "src/Models/User.php", FILE),
        (COMPOSER, "php", "App\\Models", "tests/Models/User.php", PACKAGE),
        (GO, "go", "ex.org/shop/pay", "pay/a.go", FILE),
        (GO, "go", "ex.org/tools/x", "tools/x/a.go", FILE),
        (GO, "go", "ex.org/log", "vendor/ex.org/log/a.go", FILE),
        (GO, "go", "ex.org/other/pay", "pay/a.go", NONE),
    ],
)
def test_an_import_by_the_name_of_a_package_means_its_files(
    build_files: dict[str, str], language: str, module: str, target: str, fit: Fit
) -> None:
    names = PackageNames("/work/shop", build_files)
    assert names.fit(language, "cart", module, target) is fit


def test_a_root_that_is_called_like_a_standard_module_is_only_perhaps_meant() -> None:
    names = PackageNames("/work/json", {"__init__.py": ""})
    assert names.fit("python", "a.py", "json.decoder", "decoder.py") is PACKAGE


def test_the_build_files_of_the_directories_around_a_file_are_read() -> None:
    assert build_files_for([("rust", "a/src/b.rs"), ("java", "A.java")]) == {
        "Cargo.toml", "a/Cargo.toml", "a/src/Cargo.toml",
    }  # fmt: skip
    assert "__init__.py" in build_files_for([("python", "a/b.py")])
