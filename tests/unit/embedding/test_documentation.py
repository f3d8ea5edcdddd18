"""docs/embedding.md names the settings and models that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codebase_mcp.embedding.providers import input_format_of
from codebase_mcp.settings.loading import SETTINGS

PAGE = (Path(__file__).parents[3] / "docs" / "embedding.md").read_text(encoding="utf-8")


def test_the_settings_that_are_named_exist() -> None:
    named = set(re.findall(r"CODEBASE_MCP_[A-Z_]+|OLLAMA_BASE_URL|EMBEDDING_BATCH_SIZE", PAGE))
    assert named <= {setting.variable for setting in SETTINGS}
    assert {s.variable for s in SETTINGS if s.section == "Embedding"} <= named


@pytest.mark.parametrize(
    "family",
    "nomic-embed-text mxbai-embed-large bge-base e5-base snowflake-arctic-embed qwen3-embedding"
    " embeddinggemma".split(),
)
def test_the_models_whose_prefixes_are_known_are_those_that_are_named(family: str) -> None:
    assert input_format_of(family).query_prefix
    assert re.match(r"[a-z0-9]+(-arctic)?(-embed\w*)?", family).group() in PAGE
