"""By which words and vectors is a commit found?

They are made from the stored commit with the primary model, which needs no service. Whatever lacks
them gets them: new commits, those of an earlier version or of another model, and those of which a
path was erased.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import dense_literal, sparse_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.models import Model
from codebase_mcp.index.prepare import bm25_weights, strongest
from codebase_mcp.secrets.masking import mask
from codebase_mcp.secrets.version import SECRETS_VERSION
from codebase_mcp.text.counting import Lexicon, term_table
from codebase_mcp.text.tokens import TOKENS_VERSION

_SQL = load_queries("codebase_mcp.index", "history_texts.sql")

# Increment when the stored terms or vectors of a commit change.
_VERSION = 1

# The length, in terms, of a typical commit: a subject, some sentences, the words of some paths.
_AVERAGE_TERMS = 40.0

# What comes later in a message, or in a list of paths, says little about what the commit is for.
MAX_CHARS = 3_000
MAX_PATHS = 20

# How many are embedded at once, to limit memory.
_BATCH = 500

# Lines for programs and of courtesy, which every commit of a project may have.
_TRAILER = re.compile(r"^(?:[A-Za-z]+(?:-[A-Za-z]+)*-(?:by|id|on|to)|git-svn-id): .*$", re.M | re.I)
_SEPARATORS = re.compile(r"[/._\-\s]+")


@dataclass(frozen=True, slots=True)
class CommitText:
    """What is embedded of a commit: its subject, and all of it."""

    subject: str
    whole: str


def commit_text(message: str, paths: Sequence[str]) -> CommitText:
    """The text of a commit, without trailers, with each word of its paths once."""
    said = _TRAILER.sub("", message[:MAX_CHARS]).strip()
    words = dict.fromkeys(
        word for path in paths[:MAX_PATHS] for word in _SEPARATORS.split(path) if word
    )
    return CommitText(said.partition("\n")[0], "\n".join(filter(None, [said, " ".join(words)])))


def texts_version(model: Model) -> str:
    """What commits are found by depends on this; other vectors cannot be compared."""
    return f"{_VERSION}.{TOKENS_VERSION}.{SECRETS_VERSION}-{model.facts.fingerprint}"


async def lacks_texts(tx: Transaction, model: Model) -> bool:
    """Whether a stored commit has no words and vectors of this model."""
    return bool(await tx.fetch_all(_SQL["missing"], model=texts_version(model), limit=1))


async def make_searchable(tx: Transaction, model: Model) -> None:
    """Give every stored commit of a project its words and vectors."""
    version = texts_version(model)
    while rows := await tx.fetch_all(_SQL["missing"], model=version, limit=_BATCH):
        # An earlier version stored messages with their secrets.
        messages = [mask(message).text for _, _, message, _ in rows]
        texts = [commit_text(message, row[3]) for message, row in zip(messages, rows, strict=True)]
        passages = [*(text.whole for text in texts), *(text.subject for text in texts)]
        vectors = await model.embedder.embed_passages(passages)
        columns = await asyncio.to_thread(_columns, texts, vectors)
        commits = {"repository_ids": [row[0] for row in rows], "hashes": [row[1] for row in rows]}
        await tx.execute(_SQL["mask"], **commits, messages=messages)
        await tx.execute(
            _SQL["store"],
            model=version,
            **commits,
            **columns,
        )


def _columns(texts: Sequence[CommitText], vectors: Vectors) -> dict[str, list[str]]:
    """The columns of some commits, in PostgreSQL's text syntax."""
    counts = term_table().count(Lexicon().bags([text.whole for text in texts]))
    weights = bm25_weights(counts, _AVERAGE_TERMS)
    terms, lex = [], []
    for row in range(len(texts)):
        span = slice(counts.starts[row], counts.starts[row + 1])
        items, of_items = strongest(counts.items[span], weights[span])
        terms.append(f"{{{','.join(map(str, items.tolist()))}}}")
        lex.append(sparse_literal(dict(zip(items.tolist(), of_items.tolist(), strict=True))))
    literals = [dense_literal(vector) for vector in vectors]
    dense, subject = literals[: len(texts)], literals[len(texts) :]
    return {"terms": terms, "lex": lex, "dense": dense, "subjects": subject}
