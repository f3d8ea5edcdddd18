"""In values of JSON the name of a field may say that it holds a secret."""

from __future__ import annotations

from uuid import uuid4

from codebase_mcp.secrets.masking import mask_values

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


def test_the_names_of_fields_are_masked_too() -> None:
    token = "ghp_" + "wMsw4ytmgMQ98o6pUaoXZM8NXNIbXU14NGHO"
    assert mask_values({"data": {token: 1}})[0] == {"data": {"*" * len(token): 1}}


def test_an_id_that_signs_in_is_no_reference() -> None:
    value = {
        "secret_id": "3f2b8c1e-9d47-4a6b-8e05-7c1f92ab64d3",
        "api_key_id": "9b1d5f0c7a3e4c82b6d80f1e2a47c953",
        "task_id": "5e0c7d92-41ab-4f38-b6d1-08f3c2a9e764",
    }
    masked, _ = mask_values(value)
    assert masked["task_id"] == value["task_id"]
    assert {*masked["secret_id"], *masked["api_key_id"]} == {"*"}
