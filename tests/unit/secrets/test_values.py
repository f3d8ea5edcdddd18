"""In values of JSON the name of a field may say that it holds a secret."""

from __future__ import annotations

from uuid import uuid4

from codebase_mcp.secrets.values import mask_values

PASSWORD = "Tr0ub4dor" + "&3"
STARS = "*" * len(PASSWORD)


def test_texts_are_masked_by_what_they_say_and_by_their_names() -> None:
    value = {
        "title": f"It was password='{PASSWORD}' then",
        "data": {"password": PASSWORD, "port": 5432, "hosts": ["a", None, True]},
    }
    masked, kinds = mask_values(value)
    assert kinds == ("password", "password")
    assert masked["title"] == f"It was password='{STARS}' then"
    assert masked["data"] == {"password": STARS, "port": 5432, "hosts": ["a", None, True]}


def test_ids_and_cursors_stay() -> None:
    value = {"token_id": uuid4().hex, "cursor": "c2VjcmV0MTIzNDU2Nzg5MGFiY2RlZg", "id": "x"}
    assert mask_values(value) == (value, ())
