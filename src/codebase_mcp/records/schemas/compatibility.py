"""What does a new version of a schema change, and is it backward compatible?

A change is breaking unless all data that was valid before is known to stay valid. Adding an
optional field counts as compatible, although data may already contain such a field if the old
schema allowed unknown fields. Inside ``not``, ``if`` and ``oneOf``, and in schemas referred to from
there, a looser rule can reject more; every change there is breaking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from codebase_mcp.records.schemas.documents import Schema
from codebase_mcp.records.schemas.nodes import Node, display_value, key_of, pointer


@dataclass(frozen=True, slots=True)
class Change:
    """A difference at a place in the schema, as a JSON pointer."""

    path: str
    change: str
    breaking: bool


ANNOTATIONS = frozenset(
    (
        "title", "description", "default", "examples", "$comment", "$id", "$schema", "format",
        "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType",
        "contentSchema",
    )
)  # fmt: skip


def changes_between(old: Schema, new: Schema) -> list[Change]:
    """All differences, in the order of the schemas; none for equal schemas."""
    if old.root.dialect is not new.root.dialect:
        change = f"version changed from {old.root.dialect.name} to {new.root.dialect.name}"
        return [Change("/$schema", change, breaking=True)]
    inverted = _inverted(old.root) | _inverted(new.root)
    comparison = _Comparison(inverted, _has_unevaluated(new.root))
    comparison.compare(old.root, new.root)
    if not comparison.changes and key_of(old.root.schema) != key_of(new.root.schema):
        comparison.note("", "the same rules, written differently", breaking=False)
    return comparison.changes


def _nodes(start: Node) -> Iterator[Node]:
    """A schema and all its subschemas."""
    waiting = [start]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.parts()


def _has_unevaluated(root: Node) -> bool:
    """Whether any subschema depends on which fields and items other keywords evaluate."""
    return any(
        not node.one.keys().isdisjoint(("unevaluatedProperties", "unevaluatedItems"))
        for node in _nodes(root)
    )


def _inverted(root: Node) -> frozenset[str]:
    """The places of schemas that can reject more if they are looser, with their references."""
    waiting: list[Node] = []
    for node in _nodes(root):
        waiting += [node.one[keyword] for keyword in ("not", "if") if keyword in node.one]
        waiting += node.many.get("oneOf", ())
        if isinstance(node.schema, Mapping) and "maxContains" in node.schema:
            waiting += [node.one["contains"]] if "contains" in node.one else []
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node.pointer not in found:
            found.add(node.pointer)
            waiting += node.parts()
            waiting += node.refs.values()
    return frozenset(found)


@dataclass(slots=True)
class _Comparison:
    """Walks through two schemas side by side and notes what differs."""

    inverted: frozenset[str]
    has_unevaluated: bool
    changes: list[Change] = field(default_factory=list)

    def note(self, path: str, change: str, *, breaking: bool) -> None:
        self.changes.append(Change(path, change, breaking))

    def compare(self, old: Node, new: Node) -> None:
        """Note how two schemas for the same values differ."""
        path = new.pointer
        before, after = _keywords(old), _keywords(new)
        if key_of(old.schema) == key_of(new.schema):
            return
        if {old.pointer, new.pointer} & self.inverted:
            self._compare_strictly(old, new)
        elif old.schema is False:
            self.note(path, "allowed", breaking=False)
        elif new.schema is False:
            self.note(path, "no longer allowed", breaking=True)
        else:
            for keyword in dict.fromkeys([*before, *after]):
                if key_of(before.get(keyword)) != key_of(after.get(keyword)) or (
                    (keyword in before) != (keyword in after)
                ):
                    _RULES.get(keyword, _unknown)(self, old, new, keyword)

    def compare_or_any(self, old: Node | None, new: Node | None, path: str) -> None:
        """The same for schemas that may be missing; a missing schema allows everything."""
        if old is not None and new is not None:
            self.compare(old, new)
        elif old is not None:
            # what it evaluated is now unevaluated
            self.note(path, "removed", breaking=self.has_unevaluated)
        elif new is not None:
            is_empty = not (_keywords(new).keys() - ANNOTATIONS) and new.schema is not False
            self.note(path, "added", breaking=not is_empty)

    def _compare_strictly(self, old: Node, new: Node) -> None:
        is_annotation = key_of(_bare(old)) == key_of(_bare(new))
        inverted = "changed in a schema used by not, if, oneOf or maxContains"
        change = "annotations changed" if is_annotation else inverted
        self.note(new.pointer, change, breaking=not is_annotation)


_Rule = Callable[[_Comparison, Node, Node, str], None]


def _keywords(node: Node) -> Mapping[str, Any]:
    return node.schema if isinstance(node.schema, Mapping) else {}


def _bare(node: Node) -> Any:
    """A schema without annotations, including those of its subschemas."""
    if not isinstance(node.schema, Mapping):
        return node.schema
    bare = {name: value for name, value in node.schema.items() if name not in ANNOTATIONS}
    bare |= {name: _bare(inner) for name, inner in node.one.items()}
    bare |= {name: list(map(_bare, inner)) for name, inner in node.many.items()}
    for keyword, by_name in node.named.items():
        bare[keyword] = bare[keyword] | {name: _bare(inner) for name, inner in by_name.items()}
    return bare


def _unknown(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = _keywords(old), _keywords(new)
    path = pointer(new.pointer, keyword)
    comparison.note(path, _words(keyword, before, after), breaking=True)


def _words(keyword: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if keyword not in after:
        return f"removed (was {display_value(before[keyword])})"
    if keyword not in before:
        return f"added: {display_value(after[keyword])}"
    return f"changed from {display_value(before[keyword])} to {display_value(after[keyword])}"


def _annotation(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = _keywords(old), _keywords(new)
    words = _words(keyword, before, after)
    is_name = keyword == "$id" and any(s.get("$id", "").startswith("#") for s in (before, after))
    comparison.note(pointer(new.pointer, keyword), words, breaking=is_name)


def _type(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = _keywords(old).get("type"), _keywords(new).get("type")
    path = pointer(new.pointer, keyword)
    if after is None:
        comparison.note(path, f"no longer restricted (was {_listed(before)})", breaking=False)
        return
    if before is None:
        comparison.note(path, f"restricted to {_listed(after)}", breaking=True)
        return
    had, has = set(_as_list(before)), set(_as_list(after))
    covered = has | ({"integer"} if "number" in has else set())
    words = f"changed from {_listed(before)} to {_listed(after)}"
    comparison.note(path, words, breaking=not had <= covered)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _listed(value: Any) -> str:
    return " or ".join(map(str, _as_list(value)))


def _allowed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The only values that ``enum`` and ``const`` allow, by key; None if any value is allowed."""
    lists = [schema["enum"]] if "enum" in schema else []
    lists += [[schema["const"]]] if "const" in schema else []
    if not lists:
        return None
    first, *others = [{key_of(value): value for value in values} for values in lists]
    return {key: value for key, value in first.items() if all(key in other for other in others)}


def _values(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    """Compare ``enum`` and ``const`` together; one change is noted if both differ."""
    before, after = _allowed(_keywords(old)), _allowed(_keywords(new))
    path = pointer(new.pointer, keyword)
    if keyword == "const" and _differ(old, new, "enum"):
        return
    if after is None:
        comparison.note(path, "values no longer restricted", breaking=False)
    elif before is None:
        comparison.note(path, f"restricted to {_few(after.values())}", breaking=True)
    else:
        added = [value for key, value in after.items() if key not in before]
        removed = [value for key, value in before.items() if key not in after]
        words = [f"added {_few(added)}"] if added else []
        words += [f"removed {_few(removed)}"] if removed else []
        comparison.note(path, "; ".join(words) or "order changed", breaking=bool(removed))


def _differ(old: Node, new: Node, keyword: str) -> bool:
    before, after = _keywords(old), _keywords(new)
    if (keyword in before) != (keyword in after):
        return True
    return keyword in before and key_of(before[keyword]) != key_of(after[keyword])


def _few(values: Any) -> str:
    listed = [display_value(value) for value in values]
    return ", ".join(listed[:10]) + ", …" * (len(listed) > 10)


def _upper(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = _keywords(old), _keywords(new)
    is_looser = keyword not in after or (keyword in before and after[keyword] >= before[keyword])
    path = pointer(new.pointer, keyword)
    comparison.note(path, _words(keyword, before, after), breaking=not is_looser)


_LEAST = {"minLength": 0, "minItems": 0, "minProperties": 0, "minContains": 1}


def _lower(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = _keywords(old), _keywords(new)
    default = _LEAST.get(keyword)
    was, is_now = before.get(keyword, default), after.get(keyword, default)
    is_looser = is_now is None or (was is not None and is_now <= was)
    path = pointer(new.pointer, keyword)
    comparison.note(path, _words(keyword, before, after), breaking=not is_looser)


def _multiple_of(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = _keywords(old), _keywords(new)
    is_looser = keyword not in after
    if keyword in before and keyword in after:
        ratio = Fraction(repr(before[keyword])) / Fraction(repr(after[keyword]))
        is_looser = ratio.denominator == 1
    path = pointer(new.pointer, keyword)
    comparison.note(path, _words(keyword, before, after), breaking=not is_looser)


def _unique_items(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    is_unique = _keywords(new).get(keyword, False)
    was_unique = _keywords(old).get(keyword, False)
    words = "items must be unique" if is_unique else "items no longer have to be unique"
    breaking = is_unique and not was_unique
    comparison.note(pointer(new.pointer, keyword), words, breaking=breaking)


def _pattern(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = _keywords(old), _keywords(new)
    words = _words(keyword, before, after)
    comparison.note(pointer(new.pointer, keyword), words, breaking=keyword in after)


def _required(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    was, is_now = _keywords(old).get(keyword, []), _keywords(new).get(keyword, [])
    fields_before = old.named.get("properties", {})
    fields_after = new.named.get("properties", {})
    for name in _missing(is_now, was):
        if name in fields_before or name not in fields_after:  # a new field is noted as such
            comparison.note(
                _path_of(new, name), f"field {display_value(name)} is now required", breaking=True
            )
    for name in _missing(was, is_now):
        if name in fields_after or name not in fields_before:
            words = f"field {display_value(name)} is no longer required"
            comparison.note(_path_of(new, name), words, breaking=False)


def _missing(names: Sequence[str], others: Sequence[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name not in known]


def _path_of(node: Node, name: str) -> str:
    if name in node.named.get("properties", {}):
        return pointer(node.pointer, "properties", name)
    return pointer(node.pointer, "required")


def _required_beside(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    """Lists of fields that are required if a field is present; schemas are ignored."""
    before, after = _keywords(old).get(keyword, {}), _keywords(new).get(keyword, {})
    for trigger in dict.fromkeys([*before, *after]):
        was, is_now = before.get(trigger, []), after.get(trigger, [])
        path = pointer(new.pointer, keyword, trigger)
        if isinstance(was, list) and isinstance(is_now, list):
            for name in _missing(is_now, was):
                words = (
                    f"field {display_value(name)} is now required if {display_value(trigger)}"
                    " is present"
                )
                comparison.note(path, words, breaking=True)
            for name in _missing(was, is_now):
                words = (
                    f"field {display_value(name)} is no longer required if"
                    f" {display_value(trigger)} is present"
                )
                comparison.note(path, words, breaking=False)
        elif trigger in before and trigger in after and list in (type(was), type(is_now)):
            words = "changed between a list of fields and a schema"
            comparison.note(path, words, breaking=True)


def _properties(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = old.named.get(keyword, {}), new.named.get(keyword, {})
    required = set(_keywords(new).get("required", ()))
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            path = pointer(old.pointer, keyword, name)
            comparison.note(path, f"field {display_value(name)} removed", breaking=True)
        elif name in before:
            comparison.compare(before[name], after[name])
        elif name in required or after[name].schema is False:
            kind = "required" if name in required else "forbidden"
            comparison.note(
                after[name].pointer, f"{kind} field {display_value(name)} added", breaking=True
            )
        else:
            comparison.note(
                after[name].pointer, f"optional field {display_value(name)} added", breaking=False
            )


def _pattern_properties(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = old.named.get(keyword, {}), new.named.get(keyword, {})
    for name in dict.fromkeys([*before, *after]):
        if name in before and name in after:
            comparison.compare(before[name], after[name])
        else:
            change = "removed" if name in before else "added"
            path = pointer(new.pointer, keyword, name)
            comparison.note(
                path, f"pattern {display_value(name)} for fields {change}", breaking=True
            )


def _contains(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    """Adding it is breaking: even if any item matches, the array must not be empty."""
    if keyword in old.one:
        _one(comparison, old, new, keyword)
    else:
        _unknown(comparison, old, new, keyword)


def _dependent_schemas(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    before, after = old.named.get(keyword, {}), new.named.get(keyword, {})
    for name in dict.fromkeys([*before, *after]):
        path = pointer(new.pointer, keyword, name)
        comparison.compare_or_any(before.get(name), after.get(name), path)


def _dependencies(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    _required_beside(comparison, old, new, keyword)
    _dependent_schemas(comparison, old, new, keyword)


def _definitions(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    """References are always resolved, so adding or removing a definition is compatible."""
    before, after = old.named.get(keyword, {}), new.named.get(keyword, {})
    for name in dict.fromkeys([*before, *after]):
        if name in before and name in after:
            comparison.compare(before[name], after[name])
        else:
            change = "removed" if name in before else "added"
            path = pointer(new.pointer, keyword, name)
            comparison.note(path, f"definition {change}", breaking=False)


def _one(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    """A keyword with one schema, which allows everything if it is missing."""
    if keyword in old.many or keyword in new.many:
        _in_turn(comparison, old, new, keyword)
    else:
        path = pointer(new.pointer, keyword)
        comparison.compare_or_any(old.one.get(keyword), new.one.get(keyword), path)


def _in_turn(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    """A list of schemas, compared pairwise; ``anyOf`` may become longer."""
    before, after = old.many.get(keyword, []), new.many.get(keyword, [])
    may_grow = keyword == "anyOf" and before
    if len(before) == len(after) or (may_grow and len(after) > len(before)):
        for each in zip(before, after, strict=False):
            comparison.compare(*each)
        for added in after[len(before) :]:
            comparison.note(added.pointer, "alternative added", breaking=False)
    else:
        _unknown(comparison, old, new, keyword)


def _strictly(comparison: _Comparison, old: Node, new: Node, keyword: str) -> None:
    """A keyword whose schemas can reject more if they are looser."""
    before, after = old.one.get(keyword), new.one.get(keyword)
    if before is not None and after is not None:
        comparison.compare(before, after)
    elif keyword in old.many and len(old.many[keyword]) == len(new.many.get(keyword, ())):
        for each in zip(old.many[keyword], new.many[keyword], strict=True):
            comparison.compare(*each)
    else:
        _unknown(comparison, old, new, keyword)


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(ANNOTATIONS, _annotation),
    "type": _type,
    **dict.fromkeys(("enum", "const"), _values),
    **dict.fromkeys(
        (
            "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains",
        ),
        _upper,
    ),
    **dict.fromkeys(
        (
            "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains",
        ),
        _lower,
    ),
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
    "pattern": _pattern,
    "required": _required,
    "dependentRequired": _required_beside,
    "dependencies": _dependencies,
    "dependentSchemas": _dependent_schemas,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    **dict.fromkeys(("$defs", "definitions"), _definitions),
    **dict.fromkeys(
        (
            "additionalProperties", "additionalItems", "items", "propertyNames", "then", "else",
            "unevaluatedProperties", "unevaluatedItems",
        ),
        _one,
    ),
    "contains": _contains,
    **dict.fromkeys(("allOf", "anyOf", "prefixItems"), _in_turn),
    **dict.fromkeys(("not", "if", "oneOf"), _strictly),
}  # fmt: skip
