"""How does a model want its texts? What is known of common ones, by their names.

Models are trained with words before a question, some before a passage too; without them the same
model finds noticeably worse. The prefixes are those of each model's own card.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Code has about three characters a token in the vocabularies of these models. What is longer would
# be cut by the service, or refused: Ollama 0.13.5 and later refuse what others cut.
_CHARS_PER_TOKEN = 3

_PASSAGES = "Represent this sentence for searching relevant passages: "
_CODE = "Represent this query for searching relevant code: "
_INSTRUCT = "Instruct: Given a question about a program, retrieve the code that answers it\nQuery: "


@dataclass(frozen=True, slots=True)
class InputFormat:
    """What is put before a text, and how much of it the model reads."""

    query_prefix: str = ""
    passage_prefix: str = ""
    tokens: int = 2048

    @property
    def max_chars(self) -> int:
        """Where a text is cut before it is sent."""
        return min(self.tokens, 8192) * _CHARS_PER_TOKEN


# The first pattern that is found in the name counts, so the more special one comes first.
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
    (r"bge-m3", InputFormat(tokens=8192)),
    (r"bge-(small|base|large)(?!-zh)", InputFormat(_PASSAGES, "", 512)),
    (r"e5-mistral|e5-.*instruct", InputFormat(_INSTRUCT, "", 512)),
    (r"(^|[/_-])e5-", InputFormat("query: ", "passage: ", 512)),
    (r"qwen3-embedding", InputFormat(_INSTRUCT, "", 8192)),
    (
        r"embedding-?gemma",
        InputFormat("task: code retrieval | query: ", "title: none | text: ", 2048),
    ),
    (r"all-minilm", InputFormat(tokens=256)),
    (r"granite-embedding", InputFormat(tokens=512)),
    (r"text-embedding-(3|ada)", InputFormat(tokens=8192)),
    (r"jina-embeddings-v2", InputFormat(tokens=8192)),
)


def input_format_of(model: str) -> InputFormat:
    """What is known of a model; no prefixes where nothing is."""
    for pattern, known in _KNOWN:
        if re.search(pattern, model.lower()):
            return known
    return InputFormat()
