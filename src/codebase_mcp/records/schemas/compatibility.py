"""What does a new version of a schema change, and is it backward compatible?

A change is breaking unless all data that was valid before certainly stays valid. Adding an
optional field counts as compatible, although data may already contain such a field if the old
schema allowed unknown fields. Inside ``not``, ``if`` and ``oneOf``, and in schemas referred to from
there, a looser rule can reject more; every change there is breaking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from typing import Any

from codebase_mcp.records.schemas.documents import Schema
from codebase_mcp.records.schemas.nodes import Node, display_value, key_of, pointer


@dataclass(frozen=True, slots=True)
class Change:
    """A difference; ``path`` is a JSON pointer into the schema."""

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
    """Whether any subschema depends on which fields and items its sibling keywords evaluate."""
    return any(
        not node.single.keys().isdisjoint(("unevaluatedProperties", "unevaluatedItems"))
        for node in _nodes(root)
    )


def _inverted(root: Node) -> frozenset[str]:
    """The pointers of schemas that can reject more if they are looser, with their references."""
    waiting: list[Node] = []
    for node in _nodes(root):
        waiting += [node.single[keyword] for keyword in ("not", "if") if keyword in node.single]
        waiting += node.lists.get("oneOf", ())
        if "maxContains" in node.keywords and "contains" in node.single:
            waiting.append(node.single["contains"])
    inverted: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node.pointer not in inverted:
            inverted.add(node.pointer)
            waiting += node.parts()
            waiting += node.refs.values()
    return frozenset(inverted)


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
        if key_of(old.schema) == key_of(new.schema):
            return
        if {old.pointer, new.pointer} & self.inverted:
            is_annotation = key_of(_without_annotations(old)) == key_of(_without_annotations(new))
            inverted = "changed in a schema used by not, if, oneOf or maxContains"
            change = "annotations changed" if is_annotation else inverted
            self.note(new.pointer, change, breaking=not is_annotation)
        elif old.schema is False:
            self.note(new.pointer, "allowed", breaking=False)
        elif new.schema is False:
            self.note(new.pointer, "no longer allowed", breaking=True)
        else:
            for keyword in dict.fromkeys([*old.keywords, *new.keywords]):
                if _differ(old, new, keyword):
                    _RULES.get(keyword, _unknown)(_Diff(self, old, new, keyword))

    def compare_or_any(self, old: Node | None, new: Node | None, path: str) -> None:
        """The same for schemas that may be missing; a missing schema allows everything."""
        if old is not None and new is not None:
            self.compare(old, new)
        elif old is not None:
            # the fields and items that it evaluated are now unevaluated
            self.note(path, "removed", breaking=self.has_unevaluated)
        elif new is not None:
            is_empty = new.schema is not False and new.keywords.keys() <= ANNOTATIONS
            self.note(path, "added", breaking=not is_empty)


@dataclass(frozen=True, slots=True)
class _Diff:
    """A keyword that differs between two versions of a schema."""

    comparison: _Comparison
    old: Node
    new: Node
    keyword: str

    @property
    def path(self) -> str:
        return pointer(self.new.pointer, self.keyword)

    @property
    def was(self) -> Any:
        return self.old.keywords.get(self.keyword)

    @property
    def now(self) -> Any:
        return self.new.keywords.get(self.keyword)

    @property
    def is_removed(self) -> bool:
        return self.keyword not in self.new.keywords

    def note(self, change: str, path: str | None = None, *, breaking: bool) -> None:
        self.comparison.note(self.path if path is None else path, change, breaking=breaking)

    def note_values(self, *, breaking: bool) -> None:
        """Note the change with both arguments of the keyword."""
        was, now = display_value(self.was), display_value(self.now)
        if self.is_removed:
            change = f"removed (was {was})"
        elif self.keyword not in self.old.keywords:
            change = f"added: {now}"
        else:
            change = f"changed from {was} to {now}"
        self.note(change, breaking=breaking)

    def named(self) -> Iterator[tuple[str, Node | None, Node | None]]:
        """The names of the subschemas, and the subschemas of both versions."""
        was, now = self.old.named.get(self.keyword, {}), self.new.named.get(self.keyword, {})
        for name in dict.fromkeys([*was, *now]):
            yield name, was.get(name), now.get(name)


def _differ(old: Node, new: Node, keyword: str) -> bool:
    was, now = old.keywords, new.keywords
    if (keyword in was) != (keyword in now):
        return True
    return keyword in was and key_of(was[keyword]) != key_of(now[keyword])


def _without_annotations(node: Node) -> Any:
    """A schema without annotations, including those of its subschemas."""
    if not isinstance(node.schema, Mapping):
        return node.schema
    bare = {name: value for name, value in node.schema.items() if name not in ANNOTATIONS}
    bare |= {name: _without_annotations(inner) for name, inner in node.single.items()}
    bare |= {name: list(map(_without_annotations, inner)) for name, inner in node.lists.items()}
    for keyword, by_name in node.named.items():
        inner = {name: _without_annotations(node) for name, node in by_name.items()}
        bare[keyword] = bare[keyword] | inner
    return bare


def _unknown(diff: _Diff) -> None:
    diff.note_values(breaking=True)


def _annotation(diff: _Diff) -> None:
    is_anchor = diff.keyword == "$id" and any(
        str(value).startswith("#") for value in (diff.was, diff.now)
    )
    diff.note_values(breaking=is_anchor)


def _type(diff: _Diff) -> None:
    was, now = (
        [argument] if isinstance(argument, str) else argument or []
        for argument in (diff.was, diff.now)
    )
    if not now:
        diff.note(f"no longer restricted (was {' or '.join(was)})", breaking=False)
    elif not was:
        diff.note(f"restricted to {' or '.join(now)}", breaking=True)
    else:
        covered = {*now, "integer"} if "number" in now else {*now}
        change = f"changed from {' or '.join(was)} to {' or '.join(now)}"
        diff.note(change, breaking=not covered.issuperset(was))


def _allowed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The only values that ``enum`` and ``const`` allow, by key; None if any value is allowed."""
    allowed = None
    if "enum" in schema:
        allowed = {key_of(value): value for value in schema["enum"]}
    if "const" in schema:
        key = key_of(schema["const"])
        allowed = {key: schema["const"]} if allowed is None or key in allowed else {}
    return allowed


def _values(diff: _Diff) -> None:
    """Compare ``enum`` and ``const`` together; if both differ, a single change is noted."""
    if diff.keyword == "const" and _differ(diff.old, diff.new, "enum"):
        return
    was, now = _allowed(diff.old.keywords), _allowed(diff.new.keywords)
    if now is None:
        diff.note("values no longer restricted", breaking=False)
    elif was is None:
        diff.note(f"restricted to {_first_of(now.values())}", breaking=True)
    else:
        added = [value for key, value in now.items() if key not in was]
        removed = [value for key, value in was.items() if key not in now]
        changes = [f"added {_first_of(added)}"] if added else []
        changes += [f"removed {_first_of(removed)}"] if removed else []
        diff.note("; ".join(changes) or "order changed", breaking=bool(removed))


def _first_of(values: Collection[Any]) -> str:
    return ", ".join(map(display_value, islice(values, 10))) + ", …" * (len(values) > 10)


def _upper(diff: _Diff) -> None:
    was, now = diff.was, diff.now
    diff.note_values(breaking=now is not None and (was is None or now < was))


_LEAST = {"minLength": 0, "minItems": 0, "minProperties": 0, "minContains": 1}


def _lower(diff: _Diff) -> None:
    least = _LEAST.get(diff.keyword)
    was = least if diff.was is None else diff.was
    now = least if diff.now is None else diff.now
    diff.note_values(breaking=now is not None and (was is None or now > was))


def _multiple_of(diff: _Diff) -> None:
    is_looser = diff.is_removed
    if diff.was is not None and diff.now is not None:
        ratio = Fraction(repr(diff.was)) / Fraction(repr(diff.now))
        is_looser = ratio.denominator == 1
    diff.note_values(breaking=not is_looser)


def _unique_items(diff: _Diff) -> None:
    change = "items must be unique" if diff.now else "items no longer have to be unique"
    diff.note(change, breaking=bool(diff.now and not diff.was))


def _pattern(diff: _Diff) -> None:
    diff.note_values(breaking=not diff.is_removed)


def _required(diff: _Diff) -> None:
    was, now = diff.was or [], diff.now or []
    fields_before = diff.old.named.get("properties", {})
    fields_now = diff.new.named.get("properties", {})

    def note(name: str, change: str, *, breaking: bool) -> None:
        path = pointer(diff.new.pointer, "properties", name) if name in fields_now else None
        diff.note(f"field {display_value(name)} is {change}", path, breaking=breaking)

    for name in _missing(now, was):
        if name in fields_before or name not in fields_now:  # a new field is noted as such
            note(name, "now required", breaking=True)
    for name in _missing(was, now):
        if name in fields_now or name not in fields_before:
            note(name, "no longer required", breaking=False)


def _missing(names: Iterable[str], existing: Iterable[str]) -> list[str]:
    existing = set(existing)
    return [name for name in names if name not in existing]


def _required_beside(diff: _Diff) -> None:
    """Lists of fields that are required if a field is present; schemas are ignored."""
    before, after = diff.was or {}, diff.now or {}
    for trigger in dict.fromkeys([*before, *after]):
        was, now = before.get(trigger, []), after.get(trigger, [])
        path = pointer(diff.path, trigger)
        if isinstance(was, list) and isinstance(now, list):
            present = f"required if {display_value(trigger)} is present"
            for name in _missing(now, was):
                change = f"field {display_value(name)} is now {present}"
                diff.note(change, path, breaking=True)
            for name in _missing(was, now):
                change = f"field {display_value(name)} is no longer {present}"
                diff.note(change, path, breaking=False)
        elif trigger in before and trigger in after and list in (type(was), type(now)):
            change = "changed between a list of fields and a schema"
            diff.note(change, path, breaking=True)


def _properties(diff: _Diff) -> None:
    required = set(diff.new.keywords.get("required", ()))
    for name, was, now in diff.named():
        shown = display_value(name)
        if now is None:
            path = pointer(diff.old.pointer, diff.keyword, name)
            diff.note(f"field {shown} removed", path, breaking=True)
        elif was is not None:
            diff.comparison.compare(was, now)
        elif name in required:
            diff.note(f"required field {shown} added", now.pointer, breaking=True)
        elif now.schema is False:
            diff.note(f"forbidden field {shown} added", now.pointer, breaking=True)
        else:
            diff.note(f"optional field {shown} added", now.pointer, breaking=False)


def _named(diff: _Diff) -> None:
    """Definitions can be added and removed, as references are always resolved; patterns cannot."""
    is_pattern = diff.keyword == "patternProperties"
    for name, was, now in diff.named():
        if was is not None and now is not None:
            diff.comparison.compare(was, now)
        else:
            subject = f"pattern {display_value(name)} for fields" if is_pattern else "definition"
            change = f"{subject} {'removed' if was else 'added'}"
            diff.note(change, pointer(diff.path, name), breaking=is_pattern)


def _dependent_schemas(diff: _Diff) -> None:
    for name, was, now in diff.named():
        diff.comparison.compare_or_any(was, now, pointer(diff.path, name))


def _dependencies(diff: _Diff) -> None:
    _required_beside(diff)
    _dependent_schemas(diff)


def _contains(diff: _Diff) -> None:
    """Adding it is breaking: even if any item matches, the array must not be empty."""
    if diff.keyword in diff.old.single:
        _single(diff)
    else:
        diff.note_values(breaking=True)


def _single(diff: _Diff) -> None:
    """A keyword with a single schema, which allows everything if it is missing."""
    old, new, keyword = diff.old, diff.new, diff.keyword
    if keyword in old.lists or keyword in new.lists:
        _in_turn(diff)
    else:
        was, now = old.single.get(keyword), new.single.get(keyword)
        diff.comparison.compare_or_any(was, now, diff.path)


def _in_turn(diff: _Diff) -> None:
    """A list of schemas, compared pairwise; ``anyOf`` may become longer."""
    was = diff.old.lists.get(diff.keyword, [])
    now = diff.new.lists.get(diff.keyword, [])
    may_grow = diff.keyword == "anyOf" and was
    if len(was) == len(now) or (may_grow and len(now) > len(was)):
        for old, new in zip(was, now, strict=False):
            diff.comparison.compare(old, new)
        for added in now[len(was) :]:
            diff.note("alternative added", added.pointer, breaking=False)
    else:
        diff.note_values(breaking=True)


def _strictly(diff: _Diff) -> None:
    """A keyword whose schemas can reject more if they are looser."""
    keyword = diff.keyword
    was, now = diff.old.single.get(keyword), diff.new.single.get(keyword)
    if was is not None and now is not None:
        diff.comparison.compare(was, now)
    elif keyword in diff.old.lists and keyword in diff.new.lists:
        _in_turn(diff)
    else:
        diff.note_values(breaking=True)


_RULES: Mapping[str, Callable[[_Diff], None]] = {
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
    **dict.fromkeys(("$defs", "definitions", "patternProperties"), _named),
    **dict.fromkeys(
        (
            "additionalProperties", "additionalItems", "items", "propertyNames", "then", "else",
            "unevaluatedProperties", "unevaluatedItems",
        ),
        _single,
    ),
    "contains": _contains,
    **dict.fromkeys(("allOf", "anyOf", "prefixItems"), _in_turn),
    **dict.fromkeys(("not", "if", "oneOf"), _strictly),
}  # fmt: skip
