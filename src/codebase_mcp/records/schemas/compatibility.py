"""What does a new version of a schema change, and is it backward compatible?

A change is breaking unless all data that was valid before certainly stays valid. Adding an
optional field counts as compatible, although data may already contain such a field if the old
schema allowed unknown fields. Inside ``not``, ``if`` and ``oneOf``, and in schemas referred to from
there, a looser rule can reject more; every change there is breaking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from codebase_mcp.records.schemas.documents import SUBSCHEMAS, Schema
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

# The keywords with a schema that allows everything if it is missing.
_ALLOWING_ALL = frozenset(
    (
        "additionalProperties", "additionalItems", "items", "propertyNames", "then", "else",
        "unevaluatedProperties", "unevaluatedItems",
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
    """Walks through two schemas side by side and notes what differs.

    The schemas that it compares have the same pointer.
    """

    inverted: frozenset[str]
    has_unevaluated: bool
    changes: list[Change] = field(default_factory=list)

    def note(self, path: str, change: str, *, breaking: bool) -> None:
        self.changes.append(Change(path, change, breaking))

    def compare(self, old: Node, new: Node) -> None:
        """Note how two schemas for the same values differ."""
        if key_of(old.schema) == key_of(new.schema):
            return
        if new.pointer in self.inverted:
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
                    self._compare_keyword(old, new, keyword)

    def _compare_keyword(self, old: Node, new: Node, keyword: str) -> None:
        path = pointer(new.pointer, keyword)
        was, now = old.keywords.get(keyword), new.keywords.get(keyword)
        if keyword == "type":
            self._compare_types(path, was, now)
        elif keyword == "enum" or (keyword == "const" and not _differ(old, new, "enum")):
            self._compare_values(path, old, new)
        elif keyword == "required":
            self._compare_required(path, old, new)
        elif keyword in ("dependentRequired", "dependencies"):
            self._compare_dependencies(path, was or {}, now or {})
            self._compare_named(path, old, new, keyword)
        elif keyword in old.named or keyword in new.named:
            self._compare_named(path, old, new, keyword)
        elif keyword in SUBSCHEMAS:
            self._compare_subschemas(path, old, new, keyword)
        elif keyword in ANNOTATIONS:
            is_anchor = keyword == "$id" and any(str(uri).startswith("#") for uri in (was, now))
            self._note_values(path, old, new, keyword, breaking=is_anchor)
        elif keyword != "const":
            breaks = _TIGHTENS.get(keyword, lambda was, now: True)
            self._note_values(path, old, new, keyword, breaking=breaks(was, now))

    def _note_values(
        self, path: str, old: Node, new: Node, keyword: str, *, breaking: bool
    ) -> None:
        """Note the change with both arguments of a keyword."""
        was, now = (display_value(node.keywords.get(keyword)) for node in (old, new))
        if keyword not in new.keywords:
            change = f"removed (was {was})"
        elif keyword not in old.keywords:
            change = f"added: {now}"
        else:
            change = f"changed from {was} to {now}"
        self.note(path, change, breaking=breaking)

    def _compare_types(self, path: str, *types: str | list[str] | None) -> None:
        was, now = ([names] if isinstance(names, str) else names or [] for names in types)
        if not now:
            change = f"no longer restricted (was {' or '.join(was)})"
            self.note(path, change, breaking=False)
        elif not was:
            self.note(path, f"restricted to {' or '.join(now)}", breaking=True)
        else:
            covered = {*now, "integer"} if "number" in now else {*now}
            change = f"changed from {' or '.join(was)} to {' or '.join(now)}"
            self.note(path, change, breaking=not covered.issuperset(was))

    def _compare_values(self, path: str, old: Node, new: Node) -> None:
        """Compare ``enum`` and ``const`` together; if both differ, a single change is noted."""
        was, now = _allowed(old.keywords), _allowed(new.keywords)
        if now is None:
            self.note(path, "values no longer restricted", breaking=False)
        elif was is None:
            self.note(path, f"restricted to {_first_of(now.values())}", breaking=True)
        else:
            added = [value for key, value in now.items() if key not in was]
            removed = [value for key, value in was.items() if key not in now]
            changes = [f"added {_first_of(added)}"] if added else []
            changes += [f"removed {_first_of(removed)}"] if removed else []
            self.note(path, "; ".join(changes) or "order changed", breaking=bool(removed))

    def _compare_required(self, path: str, old: Node, new: Node) -> None:
        """Compare the required fields, unless the field itself was added or removed."""
        before, after = old.named.get("properties", {}), new.named.get("properties", {})
        was, now = old.keywords.get("required", ()), new.keywords.get("required", ())
        both = {*was} & {*now}
        noted = (after.keys() ^ before.keys()) - both
        for names, others, state in ((now, was, "now"), (was, now, "no longer")):
            for name in names:
                if name not in others and name not in noted:
                    at = pointer(new.pointer, "properties", name) if name in after else path
                    change = f"field {display_value(name)} is {state} required"
                    self.note(at, change, breaking=state == "now")

    def _compare_dependencies(
        self, path: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> None:
        """Compare the fields that are required if a field is present; schemas are ignored."""
        for trigger in dict.fromkeys([*before, *after]):
            was, now = before.get(trigger), after.get(trigger)
            if list in (type(was), type(now)) and key_of(was) != key_of(now):
                are_names = isinstance(was, list | None) and isinstance(now, list | None)
                is_looser = are_names and {*(now or ())} <= {*(was or ())}
                change = f"changed what is required if {display_value(trigger)} is present"
                self.note(pointer(path, trigger), change, breaking=not is_looser)

    def _compare_named(self, path: str, old: Node, new: Node, keyword: str) -> None:
        """Compare an object of schemas; references to definitions are always resolved."""
        before, after = old.named.get(keyword, {}), new.named.get(keyword, {})
        for name in dict.fromkeys([*before, *after]):
            was, now, at = before.get(name), after.get(name), pointer(path, name)
            state = "removed" if now is None else "added"
            if was is not None and now is not None:
                self.compare(was, now)
            elif keyword == "properties":
                kind = "" if now is None else "optional "
                if now is not None and name in new.keywords.get("required", ()):
                    kind = "required "
                elif now is not None and now.schema is False:
                    kind = "forbidden "
                change = f"{kind}field {display_value(name)} {state}"
                self.note(at, change, breaking=kind != "optional ")
            elif keyword == "patternProperties":
                change = f"pattern {display_value(name)} for fields {state}"
                self.note(at, change, breaking=True)
            elif keyword in ("$defs", "definitions"):
                self.note(at, f"definition {state}", breaking=False)
            else:
                self._note_presence(at, now)

    def _compare_subschemas(self, path: str, old: Node, new: Node, keyword: str) -> None:
        """Compare a schema, or a list of schemas pairwise; ``anyOf`` may become longer."""
        was, now = (node.lists.get(keyword) or node.single.get(keyword) for node in (old, new))
        if was is None and now is None:
            return  # the keyword has no meaning in this version of JSON Schema
        if isinstance(was, Node) and isinstance(now, Node):
            self.compare(was, now)
        elif (
            isinstance(was, list)
            and isinstance(now, list)
            and (len(was) == len(now) or (keyword == "anyOf" and len(was) < len(now)))
        ):
            for before, after in zip(was, now, strict=False):
                self.compare(before, after)
            for added in now[len(was) :]:
                self.note(added.pointer, "alternative added", breaking=False)
        elif isinstance(now, Node | None) and (
            # adding contains is breaking: even if any item matches, the array must not be empty
            (keyword in _ALLOWING_ALL and not isinstance(was, list))
            or (keyword == "contains" and now is None)
        ):
            self._note_presence(path, now)
        else:
            self._note_values(path, old, new, keyword, breaking=True)

    def _note_presence(self, path: str, now: Node | None) -> None:
        """Note that a schema was added or removed; a missing schema allows everything."""
        if now is None:
            # the fields and items that it evaluated are now unevaluated
            self.note(path, "removed", breaking=self.has_unevaluated)
        else:
            is_empty = now.schema is not False and now.keywords.keys() <= ANNOTATIONS
            self.note(path, "added", breaking=not is_empty)


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


def _allowed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The only values that ``enum`` and ``const`` allow, by key; None if any value is allowed."""
    allowed = None
    if "enum" in schema:
        allowed = {key_of(value): value for value in schema["enum"]}
    if "const" in schema:
        key = key_of(schema["const"])
        allowed = {key: schema["const"]} if allowed is None or key in allowed else {}
    return allowed


def _first_of(values: Collection[Any]) -> str:
    return ", ".join(map(display_value, islice(values, 10))) + ", …" * (len(values) > 10)


def _lowers(was: Any, now: Any) -> bool:
    return now is not None and (was is None or now < was)


def _raises(least: int | None) -> Callable[[Any, Any], bool]:
    """Whether a lower limit rises; ``least`` applies where it is missing."""

    def raises(was: Any, now: Any) -> bool:
        was, now = (least if limit is None else limit for limit in (was, now))
        return now is not None and (was is None or now > was)

    return raises


# Whether a change of a keyword's argument from the first to the second (None: missing) is breaking.
_TIGHTENS: Mapping[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(
        (
            "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains",
        ),
        _lowers,
    ),
    **dict.fromkeys(("minimum", "exclusiveMinimum"), _raises(None)),
    **dict.fromkeys(("minLength", "minItems", "minProperties"), _raises(0)),
    "minContains": _raises(1),
    **dict.fromkeys(("multipleOf", "pattern"), lambda was, now: now is not None),
    "uniqueItems": lambda was, now: bool(now and not was),
}  # fmt: skip
