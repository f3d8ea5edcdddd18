"""Which embedding model is used, and how is it reached?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from codebase_mcp.embedding.folders import HUB_CACHE

Provider = Literal["static", "onnx", "ollama", "openai"]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model and how to reach it.

    ``model`` is for ``static`` a folder or a name in the Hugging Face cache (None: the built-in
    model), for ``onnx`` a folder, for a service its name there (None: the provider's default). A
    prefix of None stands for the one that is known for the model. A ``base_url`` of None is the
    provider's default address.
    """

    provider: Provider = "static"
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)  # may hold a user and password
    api_key: str | None = field(default=None, repr=False)
    batch_size: int = 50
    timeout_s: float = 60.0
    query_prefix: str | None = None
    passage_prefix: str | None = None
    hub_cache: Path = HUB_CACHE
