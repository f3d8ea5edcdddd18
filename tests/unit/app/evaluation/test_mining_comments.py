"""Which comments describe a definition, in which sentence, and where the definition stands."""

from __future__ import annotations

import pytest

from codebase_mcp.app.evaluation.grep import FileText
from codebase_mcp.app.evaluation.mining import described_in, first_sentence
from codebase_mcp.app.evaluation.questions import Question, Target
from codebase_mcp.model import FileKind

PYTHON = '''\
"""Everything about payments and their failures."""


class Queue:
    """Holds payments until the bank answers again.

    More words.
    """

    limit = 3
    """Bare strings describe nothing that is a definition here."""

    def push(self, payment):
        r"""Remembers one, unless the customer cancelled meanwhile."""
        text = """Strings inside a body are not docstrings at all."""
        return text


# Waits longer after every failure,
# up to a minute.
@decorated
def pause(attempts):
    return attempts  # Comments behind code describe nothing here.


# This one stands apart from what follows below.

def get_user_name(user):
    """Get the user name of a user."""
'''
JAVA = """\
/**
 * Keeps sessions alive while {@link Client clients} are <b>idle</b>. Nothing else.
 * @see Other
 */
@Service
public class Keeper {
    /* Closes what nobody touched for an hour. */
    @Override
    void sweep() { }

    /** TODO describe how expiry works in here. */
    void expire() { }
}
"""
RUST = """\
/// Turns a stream of bytes into whole words.
///
/// # Panics
#[inline]
pub fn lex(input: &[u8]) {}
"""
GO = """\
package a

// Listen accepts connections on the port given by the operator.
func Listen(port int) {}

// serveAll is called by serveAll of the outer package somewhere.
func serveAll() {}
"""


def described(text: str, language: str) -> list[tuple[str, tuple[int, int] | None]]:
    found = described_in(FileText("src/f", text, language, FileKind.CODE))
    return [(one.text, one.targets[0].span) for one in found]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        (
            PYTHON,
            "python",
            [
                ("Holds payments until the bank answers again", (4, 16)),
                ("Remembers one, unless the customer cancelled meanwhile", (13, 16)),
                ("Waits longer after every failure, up to a minute", (22, 23)),
            ],
        ),
        (
            JAVA,
            "java",
            [
                ("Keeps sessions alive while Client clients are idle", (5, 13)),
                ("Closes what nobody touched for an hour", (8, 9)),
            ],
        ),
        (RUST, "rust", [("Turns a stream of bytes into whole words", (5, 5))]),
        (GO, "go", [("accepts connections on the port given by the operator", (4, 4))]),
        ("# Only a comment that describes nothing else.\n", "python", []),
        ("Words about payments and their failures.\n", "text", []),
    ],
)
def test_definitions_with_a_sentence_that_describes_them(
    text: str, language: str, expected: list[tuple[str, tuple[int, int] | None]]
) -> None:
    assert described(text, language) == expected


def test_a_question_names_its_definition() -> None:
    (found,) = described_in(FileText("src/lex.rs", RUST, "rust", FileKind.CODE))
    assert found == Question(
        "Turns a stream of bytes into whole words",
        (Target("src/lex.rs", (5, 5)),),
        "docstrings",
        "lex",
    )


@pytest.mark.parametrize(
    ("comment", "sentence"),
    [
        ('"""One line."""', "One line"),
        ('"""Over two\n    lines. And more.\n    """', "Over two lines"),
        ("'''\n    Below.\n\n    Another.\n'''", "Below"),
        ("/* C, as ever */", "C, as ever"),
        ("/**\n * @brief Marks are cut.\n * @param x y\n */", "Marks are cut"),
        ('/// <summary>\n/// Reads <see cref="T:A.B"/> again.\n/// </summary>', "Reads B again"),
        ("# First, e.g. this one. Second.", "First, e.g. this one"),
        ("-- | Haskell's own marks", "Haskell's own marks"),
        (";; Lisp's `own` *marks*.", "Lisp's own marks"),
        ('"""Calls :class:`~a.Client` and ``close`` v2.0."""', "Calls a.Client and close v2.0"),
        ("--[[ Lua's, which\nend so. ]]", "Lua's, which end so"),
        ("// - parameter x: nothing else", ""),
        ("# ---------", ""),
        ('"""Args:\n    x: y\n"""', ""),
        ('"""Returns:\n    y\n"""', ""),
        ('""""""', ""),
    ],
)
def test_first_sentence(comment: str, sentence: str) -> None:
    assert first_sentence(comment) == sentence
