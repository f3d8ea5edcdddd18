"""Which input text does a model expect? The prefixes and lengths of common models, by name.

Many models are trained with a prefix before a query, some also before a passage; without it they
retrieve noticeably worse. The prefixes are those of each model's own card.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Code has about three characters per token in the vocabularies of these models. A longer text would
# be truncated by the service, or refused, as Ollama 0.13.5 and later do.
_CHARS_PER_TOKEN = 3

_PASSAGES = "Represent this sentence for searching relevant passages: "
_CODE = "Represent this query for searching relevant code: "
_INSTRUCT = "Instruct: Given a question about a program, retrieve the code that answers it\nQuery: "


@dataclass(frozen=True, slots=True)
class InputFormat:
    """The prefixes of a model's input text, and how many tokens of it the model reads."""

    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 2048

    @property
    def max_chars(self) -> int:
        """The length to which a text is truncated before it is sent."""
        return min(self.max_tokens, 8192) * _CHARS_PER_TOKEN


# The first pattern that matches the name counts, so the more specific one comes first.
_KNOWN = (
    (r"nomic-embed-code|coderankembed", InputFormat(_CODE, "", 8192)),
    (
        r"nomic-embed-text-v2|nomic-embed-text.*moe",
        InputFormat("search_query: ", "search_document: ", 512),
    ),
    (r"nomic-embed-text", InputFormat("search_query: ", "search_document: ", 2048)),
    (r"mxbai-embed", InputFormat(_PASSAGES, "", 512)),
    (r"arctic-embed2|arctic-embed-[ml]-v2", InputFormat("query: ", "", 8192)),
    (r"arctic-embed", InputFormat(_PASSAGES, "", 512)),
    (r"bge-m3", InputFormat(max_tokens=8192)),
    (r"bge-(small|base|large)(?!-zh)", InputFormat(_PASSAGES, "", 512)),
    (r"e5-mistral|e5-.*instruct", InputFormat(_INSTRUCT, "", 512)),
    (r"(^|[/_-])e5-", InputFormat("query: ", "passage: ", 512)),
    (r"qwen3-embedding", InputFormat(_INSTRUCT, "", 8192)),
    (
        r"embedding-?gemma",
        InputFormat("task: code retrieval | query: ", "title: none | text: ", 2048),
    ),
    (r"all-minilm", InputFormat(max_tokens=256)),
    (r"granite-embedding", InputFormat(max_tokens=512)),
    (r"text-embedding-(3|ada)", InputFormat(max_tokens=8192)),
    (r"jina-embeddings-v2", InputFormat(max_tokens=8192)),
)


def input_format_of(model: str) -> InputFormat:
    """The input format of a model; without prefixes where the model is not known."""
    for pattern, known in _KNOWN:
        if re.search(pattern, model.lower()):
            return known
    return InputFormat()
