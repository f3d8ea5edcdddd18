"""A use means what scope, imports and receiver say; what is left is only possible."""

from __future__ import annotations

from collections.abc import Mapping

from codebase_mcp.model import Reference, ReferenceKind, Symbol
from codebase_mcp.symbols.candidates import SURE
from codebase_mcp.symbols.definition import Definition, File, Surroundings, Use
from codebase_mcp.symbols.resolve import Resolver

CALL, IMPORT = ReferenceKind.CALL, ReferenceKind.IMPORT
LANGUAGES = {
    "py": "python",
    "go": "go",
    "java": "java",
    "c": "c",
    "h": "c",
    "rs": "rust",
    "ts": "typescript",
    "md": "markdown",
}


def blob(path: str) -> int:
    return sum(map(ord, path))


def file(path: str) -> File:
    return File(1, path, blob(path), LANGUAGES[path.rpartition(".")[2]], "code")


def defined(
    path: str, qualified: str, kind: str = "", lines: tuple[int, int] = (1, 2)
) -> Definition:
    name = qualified.rpartition(".")[2]
    kind = kind or ("method" if "." in qualified else "function")
    depth = qualified.count(".")
    return Definition(name, qualified, kind, *lines, depth, file(path))


def used(
    path: str,
    receiver: str = "",
    kind: ReferenceKind = CALL,
    line: int = 50,
    module: str = "",
    alias: str = "",
    name: str = "charge",
) -> Use:
    return Use(file(path), line, name, kind, receiver, module, alias)


def imported(name: str, module: str, alias: str = "") -> Reference:
    return Reference(1, name, IMPORT, "", module, alias)


def meaning(
    use: Use,
    definitions: list[Definition],
    *here: Reference,
    around: tuple[Symbol, ...] = (),
    others: tuple[Use, ...] = (),
    symbols: Mapping[tuple[int, int], tuple[Symbol, ...]] | None = None,
) -> list[tuple[str, float, str]]:
    surroundings = {
        use.file.blob_id: Surroundings(
            tuple(one for one in here if one.kind is IMPORT),
            tuple(one for one in here if one.kind is ReferenceKind.INHERIT),
        )
    }
    resolver = Resolver(definitions, [use, *others], surroundings, symbols)
    found = resolver.resolve(use, around).candidates
    return [(one.definition.file.path, one.confidence, one.reason) for one in found]


PAY, OTHER = defined("pay.py", "charge"), defined("other.py", "charge")


def test_a_name_of_the_same_file_is_that_of_the_file() -> None:
    assert meaning(used("pay.py"), [PAY, OTHER]) == [("pay.py", 0.95, "same file")]


def test_an_imported_name_is_that_of_its_module() -> None:
    assert meaning(used("a.py"), [PAY, OTHER], imported("charge", "pay")) == [
        ("pay.py", 0.95, "imported from pay")
    ]


def test_an_import_finds_its_module_among_many() -> None:
    many = [defined(f"shop{n}/pay.py", "charge") for n in range(30)]
    assert meaning(used("a.py"), many, imported("charge", "shop7.pay")) == [
        ("shop7/pay.py", 0.95, "imported from shop7.pay")
    ]
    found = meaning(used("shop7/a.py"), many, imported("charge", ".pay"))
    assert found == [("shop7/pay.py", 0.95, "imported from .pay")]
    found = meaning(used("shop7/__init__.py"), many, imported("charge", ".."))
    assert {path for path, _, _ in found} == {one.file.path for one in many}


def test_what_many_definitions_share_is_not_meant_by_any() -> None:
    few = [defined(f"pay{n}.py", "Shop.charge") for n in range(3)]
    assert {one for _, one, _ in meaning(used("a.py", "it"), few)} == {0.17}
    many = [defined(f"pay{n}.py", "Shop.charge") for n in range(60)]
    assert meaning(used("a.py", "it"), many) == []
    assert meaning(used("pay7.py", "Shop"), many)[0] == (
        "pay7.py", 0.95, "member of Shop in the same file"
    )  # fmt: skip


def test_the_import_itself_is_a_use() -> None:
    use = used("a.py", kind=IMPORT, module="pay")
    assert meaning(use, [PAY, OTHER]) == [("pay.py", 0.95, "imported from pay")]


def test_another_name_leads_to_the_name_that_was_imported() -> None:
    found = meaning(used("a.py", name="take"), [PAY], imported("charge", "pay", "take"))
    assert found == [("pay.py", 0.95, "imported from pay")]


def test_a_name_that_is_imported_from_elsewhere_is_of_none_of_them() -> None:
    assert meaning(used("a.py"), [PAY, OTHER], imported("charge", "stripe")) == []


def test_a_package_hands_names_on() -> None:
    card = defined("shop/card.py", "charge")
    hands = used("shop/__init__.py", kind=IMPORT, module=".card")
    found = meaning(used("a.py"), [card], imported("charge", "shop"), others=(hands,))
    assert found == [("shop/card.py", 0.9, "imported from shop, which hands it on")]
    [(_, confidence, reason)] = meaning(used("a.py"), [card], imported("charge", "shop"))
    assert (confidence, reason) == (0.6, "perhaps imported from shop")


def test_an_import_of_everything_brings_the_name() -> None:
    found = meaning(used("a.py"), [PAY, OTHER], imported("*", "pay"))
    assert found == [("pay.py", SURE, "imported from pay (*)")]


def test_a_name_that_python_cannot_see_is_not_meant() -> None:
    assert meaning(used("a.py"), [PAY]) == []


def test_a_member_of_an_imported_module() -> None:
    assert meaning(used("a.py", "pay"), [PAY, OTHER], imported("pay", "")) == [
        ("pay.py", 0.95, "imported from pay")
    ]
    found = meaning(used("a.py", "p"), [PAY, OTHER], imported("pay", "", "p"))
    assert found == [("pay.py", 0.95, "imported from pay")]


def test_an_import_within_a_function_is_seen_from_inside_alone() -> None:
    sell = Symbol("sell", "sell", "function", 1, 60, 0)
    lines = {(blob("a.py"), 1): (sell,)}
    here = imported("charge", "pay")
    found = meaning(used("a.py"), [PAY], here, around=(sell,), symbols=lines)
    assert found == [("pay.py", 0.95, "imported from pay")]
    buy = Symbol("buy", "buy", "function", 70, 90, 0)
    use = used("a.py", line=80)
    assert meaning(use, [PAY], here, around=(buy,), symbols=lines) == []


def test_a_module_of_a_package_may_be_a_receiver() -> None:
    pay, method = defined("shop/pay.py", "charge"), defined("bank.py", "Bank.charge")
    found = meaning(used("a.py", "pay"), [pay, method, OTHER], imported("shop", ""))
    assert found == [
        ("bank.py", 0.5, "only definition of this name"),
        ("shop/pay.py", 0.5, "the object is named like the module"),
    ]


def test_an_imported_module_brings_its_package() -> None:
    package = defined("shop/__init__.py", "charge")
    found = meaning(used("a.py", "shop"), [package, OTHER], imported("views", "shop"))
    assert found == [("shop/__init__.py", 0.6, "perhaps of the package shop")]


def test_a_method_of_the_enclosing_class() -> None:
    own, other = defined("a.py", "Shop.charge"), defined("a.py", "Bank.charge")
    around = (
        Symbol("Shop", "Shop", "class", 40, 60, 0),
        Symbol("sell", "Shop.sell", "method", 45, 55, 1),
    )
    found = meaning(used("a.py", "self"), [own, other], around=around)
    assert found == [("a.py", 0.95, "member of the enclosing class")]


def test_a_method_of_a_base_class() -> None:
    base = defined("base.py", "Base.charge")
    around = (
        Symbol("Shop", "Shop", "class", 40, 60, 0),
        Symbol("sell", "Shop.sell", "method", 45, 55, 1),
    )
    inherits = Reference(40, "Base", ReferenceKind.INHERIT)
    for receiver in ("self", "super()"):
        found = meaning(used("a.py", receiver), [base, OTHER], inherits, around=around)
        assert found == [("base.py", 0.85, "member of the base class Base")]


def test_a_method_of_an_imported_class() -> None:
    card = defined("card.py", "Card.charge")
    found = meaning(used("a.py", "Card"), [card, PAY], imported("Card", "card"))
    assert found == [("card.py", 0.95, "member of Card, imported from card")]


def test_an_object_that_is_named_like_its_class() -> None:
    shop, bank = defined("a.py", "CardShop.charge"), defined("b.py", "Bank.charge")
    found = meaning(used("c.py", "_card_shop"), [shop, bank])
    assert found == [("a.py", 0.6, "the object is named like its class")]


def test_a_member_of_an_unknown_object_is_possible_by_its_name() -> None:
    members = [defined(f"{name}.py", f"{name}.charge") for name in "ABCD"]
    [(_, confidence, reason)] = meaning(used("c.py", "it"), members[:1])
    assert (confidence, reason) == (0.5, "only definition of this name")
    found = meaning(used("c.py", "it"), members)
    assert [one[1:] for one in found] == [(0.12, "one of 4 definitions of this name")] * 4


def test_a_local_function_is_seen_from_inside_alone() -> None:
    local = defined("a.py", "outer.charge", "function", (5, 6))
    inside = (Symbol("outer", "outer", "function", 1, 60, 0),)
    assert meaning(used("a.py"), [local], around=inside) == [("a.py", 0.95, "same file")]
    assert meaning(used("a.py"), [local]) == []


def test_a_property_is_not_in_scope_beside_its_neighbours() -> None:
    definitions = [defined("res.ts", "res.charge", "function"), defined("pay.ts", "charge")]
    around = (Symbol("refund", "res.refund", "function", 40, 60, 1),)
    assert meaning(used("res.ts"), definitions, around=around) == []


def test_a_variable_that_holds_an_import_means_what_is_imported() -> None:
    variable = defined("app.ts", "charge", "variable", (1, 1))
    definitions = [variable, defined("pay.ts", "charge")]
    here = imported("charge", "./pay")
    use = used("app.ts", kind=ReferenceKind.USE)
    assert [path for path, *_ in meaning(use, definitions, here)] == ["pay.ts"]
    elsewhere = imported("charge", "stripe")
    assert [path for path, *_ in meaning(use, definitions, elsewhere)] == ["app.ts"]


def test_a_class_is_preferred_where_a_type_is_meant() -> None:
    kinds = [defined("pay.py", "charge", "class"), defined("pay.py", "charge", "variable", (9, 9))]
    [found] = meaning(used("pay.py", kind=ReferenceKind.TYPE), kinds)
    assert found == ("pay.py", 0.95, "same file")


def test_a_value_is_no_interface_of_its_name() -> None:
    shape, made = defined("pay.ts", "charge", "interface"), defined("pay.ts", "charge", "class")
    for kind in (CALL, ReferenceKind.NEW, ReferenceKind.USE):
        assert meaning(used("pay.ts", kind=kind), [shape]) == []
        assert meaning(used("pay.ts", kind=kind), [made]) == [("pay.ts", 0.95, "same file")]
    found = meaning(used("pay.ts", kind=ReferenceKind.TYPE), [shape])
    assert found == [("pay.ts", 0.95, "same file")]


def test_languages_see_different_distances() -> None:
    near, far = defined("pay/a.go", "charge"), defined("bank/a.go", "charge")
    assert meaning(used("pay/b.go"), [near, far]) == [("pay/a.go", 0.9, "same package")]
    assert all(one[1] < 0.05 for one in meaning(used("cmd/b.go"), [near, far]))
    only = defined("lib/pay.c", "charge")
    assert meaning(used("src/a.c"), [only]) == [("lib/pay.c", SURE, "only definition of this name")]
    found = meaning(used("src/a.c"), [only, defined("b.c", "charge")], imported("pay.h", ""))
    assert found == [("lib/pay.c", 0.95, "pay.h is included")]


def test_a_go_package_and_a_rust_module_are_receivers() -> None:
    near, far = defined("internal/pay/a.go", "charge"), defined("bank/a.go", "charge")
    found = meaning(used("cmd/b.go", "pay"), [near, far], imported("pay", "ex.org/s/internal"))
    assert found == [("internal/pay/a.go", 0.95, "imported from ex.org/s/internal/pay")]
    module = defined("src/pay.rs", "charge")
    found = meaning(used("src/main.rs", "pay"), [module])
    assert found == [("src/pay.rs", 0.8, "in a module named pay")]


def test_a_test_of_java_is_in_the_package_that_it_tests() -> None:
    near = defined("src/main/java/org/shop/Charge.java", "charge", "class")
    far = defined("src/main/java/org/bank/Charge.java", "charge", "class")
    found = meaning(used("src/test/java/org/shop/ShopTest.java"), [near, far])
    assert found == [(near.file.path, 0.9, "same package")]


def test_a_method_that_is_called_by_its_name_alone_may_be_inherited() -> None:
    method = defined("a/Shop.java", "Shop.charge")
    [(_, confidence, reason)] = meaning(used("a/Other.java"), [method])
    assert (confidence, reason) == (0.5, "only definition of this name, perhaps inherited")


def test_what_a_header_of_c_declares_is_what_its_source_defines() -> None:
    both = [defined("pay.h", "charge"), defined("src/pay.c", "charge")]
    found = meaning(used("shop/a.c"), both)
    assert [one[1] for one in found] == [SURE, SURE]
    found = meaning(used("shop/a.c"), [*both, defined("mac/pay.c", "charge")])
    assert [one[1] for one in found] == [0.25] * 3


def test_a_go_method_needs_its_object_and_a_go_type_is_no_value() -> None:
    method = defined("pay/a.go", "Shop.charge")
    assert meaning(used("pay/b.go"), [method]) == []
    kind = defined("pay/a.go", "charge", "struct")
    assert meaning(used("pay/b.go", kind=ReferenceKind.USE), [kind]) == []
    assert meaning(used("pay/b.go", kind=ReferenceKind.TYPE), [kind])
    around = (Symbol("sell", "Shop.sell", "method", 40, 60, 1),)
    found = meaning(
        used("pay/b.go", "self"), [method, defined("x/a.go", "Shop.charge")], around=around
    )
    assert found == [("pay/a.go", 0.9, "member of a class of this name, same directory")]


def test_other_languages_and_headings_are_not_meant() -> None:
    heading = defined("README.md", "charge", "section")
    assert meaning(used("a.py", "it"), [heading, defined("a.java", "Shop.charge")]) == []
