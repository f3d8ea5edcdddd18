"""Sentences that tell agents how to search code.

The server's instructions, the tools' descriptions, the skill and the instructions that ``setup``
writes share these sentences.
"""

from __future__ import annotations

ASK = (
    "Ask as the code would say it: a sentence in a programmer's words, then names you expect "
    '("retry a failed request with backoff. RetryPolicy backoff_delay"), a symbol, or "exact text".'
)
STOP = "A first place at 0.8 or more is the answer: use the lines shown, or read its range."
ABSENT = "Below 0.5: probably not in this code."
INDEXED = "The first question in a repository indexes it; changes are followed."
GREP = "For every occurrence of an exact text use find_text, or else grep."
