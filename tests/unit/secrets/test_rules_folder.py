"""Rules that take seconds to compile are compiled early, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from codebase_mcp.secrets import masking
from codebase_mcp.secrets.detect import load_rules, load_rules_early


def test_rules_are_loaded_early_only_where_none_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masking, "_rules_folder", tmp_path)
    loading = load_rules_early()
    assert loading is not None
    loading.join()
    load_rules()  # there
    (tmp_path / "rules.vscdb").touch()
    assert load_rules_early() is None
