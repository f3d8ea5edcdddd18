"""The arguments that several toolsets share."""

from __future__ import annotations

from uuid import UUID

import pytest

from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.anchoring import Anchor, CodeReference
from codebase_mcp.tools.fields import AnchorArgument, AnchorReply, places_of
from codebase_mcp.tools.tasks import CreateTask


def anchors_of(*anchors: dict[str, str]) -> list[AnchorArgument] | None:
    return CreateTask.checked({"title": "t", "anchors": list(anchors)}).anchors


def test_no_anchors_are_no_places() -> None:
    assert places_of(None) == places_of([]) == []


@pytest.mark.parametrize(
    ("anchor", "place"),
    [
        ({"file": "src/a.py"}, CodeReference("src/a.py")),
        ({"file": "./src//a.py/"}, CodeReference("src/a.py")),
        ({"file": "/repos/shop/a.py"}, CodeReference("/repos/shop/a.py")),
        ({"file": "a..b/..c"}, CodeReference("a..b/..c")),
        ({"symbol": " Session.close "}, CodeReference(symbol="Session.close")),
        ({"commit": "0a" * 20}, CodeReference(commit="0a" * 20)),
        (
            {"file": "a", "repository_id": "6F0C8A5E-5A0B-5D58-9D1C-3C1F3E1F7B52"},
            CodeReference("a", repository_id=UUID("6f0c8a5e-5a0b-5d58-9d1c-3c1f3e1f7b52")),
        ),
    ],
)
def test_an_anchor_names_a_place(anchor: dict[str, str], place: CodeReference) -> None:
    assert places_of(anchors_of(anchor)) == [place]


@pytest.mark.parametrize(
    ("anchor", "field", "message"),
    [
        ({}, "", "An anchor must name a file, a symbol or a commit"),
        ({"repository_id": str(UUID(int=1))}, "", "An anchor must name a file"),
        ({"file": "../a.py"}, ".file", "An anchor's file must be the path of a file"),
        ({"file": "a/../../b"}, ".file", "An anchor's file must be"),
        ({"file": "/"}, ".file", "An anchor's file must be"),
        ({"file": " "}, ".file", "An anchor's file must be"),
        ({"symbol": "  "}, ".symbol", "An anchor's symbol cannot be empty"),
        ({"commit": "A" * 40}, ".commit", "anchors.1.commit must match ^[a-f0-9]{40}$"),
        ({"commit": "a" * 40 + "\n"}, ".commit", "anchors.1.commit must match ^[a-f0-9]{40}$"),
        (
            {"file": "a", "repository_id": "abc"},
            ".repository_id",
            "Repository ID is not a valid UUID: abc",
        ),
    ],
)
def test_an_anchor_that_names_no_place_is_refused_by_its_position(
    anchor: dict[str, str], field: str, message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        anchors_of({"file": "fine.py"}, anchor)
    assert caught.value.details["field"] == f"anchors.1{field}"
    assert caught.value.message.startswith(message)


def test_every_field_of_an_anchor_is_shown() -> None:
    anchor = Anchor(None, "a.py", None, None, None, None, "needs_review", "gone", None)
    [reply] = [*map(AnchorReply.model_validate, [anchor])]
    assert reply.model_dump(mode="json", exclude_unset=True) == {
        "repository_id": None,
        "file": "a.py",
        "symbol": None,
        "commit": None,
        "start_line": None,
        "end_line": None,
        "state": "needs_review",
        "reason": "gone",
        "moved_from": None,
    }
