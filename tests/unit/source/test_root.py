"""Which directory a path names, and what is said of one that names none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codebase_mcp.errors import InvalidInput, PermissionDenied
from codebase_mcp.source.root import resolve_root


@pytest.mark.parametrize("inner", ["", "below"])
def test_a_directory_that_we_may_not_read_is_denied(closed: Path, inner: str) -> None:
    with pytest.raises(PermissionDenied, match="is not readable") as caught:
        resolve_root(str(closed / inner))
    assert caught.value.details == {"field": "repo_path", "value": str(closed / inner)}
    assert caught.value.hint


@pytest.mark.parametrize("is_link", [False, True])
def test_a_path_that_is_no_unicode_is_refused(tmp_path: Path, is_link: bool) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    path.mkdir()
    if is_link:
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    with pytest.raises(InvalidInput, match="must be valid Unicode") as caught:
        resolve_root(str(path))
    assert "\\udce9" in caught.value.details["value"]
