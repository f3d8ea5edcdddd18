"""What a task says: names, paths, messages, sentences; and what holds for every text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from codebase_mcp.context.answer import MAX_TASK_CHARS
from codebase_mcp.context.task import Task, read_task

ISSUE = """\
[Bug]: `Retry.wait` ignores max_delay when the server sends Retry-After (#123)

<!-- Thanks for filing
a bug -->
### Is there an existing issue for this?
- [X] I have searched the existing issues

### Describe the bug
Hi all,

When I call `client.get(url)` with --max-delay 5, the delay is e.g. 60 seconds. See
src/http/retry.py:120 and https://github.com/acme/http/blob/main/src/http/client.py#L12-L20 for it.
It says "delay must not be negative" in the log.

**Expected behavior**
The delay is cut to `max_delay`.

### Steps to reproduce
1. Install it.
2. Run this code:

```python
import acme
client = acme.make_client(max_delay=5)
```

### Environment
- OS: Ubuntu 22.04
- Python: 3.11

| Package | Version |
|---|---|
| acme | 1.2 |

<details>
<summary>Logs</summary>

2024-01-01 12:00:00,123 ERROR acme.http - Request failed after 3 attempts
</details>

Thanks in advance!

Signed-off-by: Me <me@x.y>
Fixes #12
"""


def test_an_issue_of_a_template() -> None:
    task = read_task(ISSUE)
    assert task.title == "Retry.wait ignores max_delay when the server sends Retry-After"
    assert task.sentences[0] == task.title
    assert [sentence[:30] for sentence in task.sentences[1:]] == [
        "When I call client.get(url) wi",
        "See src/http/retry.py:120 and ",
        'It says "delay must not be neg',
        "The delay is cut to max_delay.",
        "Install it.",
        "Run this code:",
    ]
    assert task.names[:4] == ("Retry.wait", "client.get", "max_delay", "--max-delay")
    assert "make_client" in " ".join(task.names)
    assert task.messages[:2] == ("delay must not be negative", "Request failed after")
    assert [(p.path, p.line) for p in task.paths] == [
        ("src/http/retry.py", 120),
        ("src/http/client.py", 12),
    ]


@pytest.mark.parametrize(
    ("line", "title", "scopes"),
    [
        ("fix(router): keep the query (#12)", "keep the query", ("router",)),
        ("[Console] Fix tables", "Fix tables", ("Console",)),
        ("net/http: close idle connections", "net/http: close idle connections", ("net/http",)),
        ("gh-1234: Fix a crash", "Fix a crash", ()),
        ("[BUG] crash: it crashes", "crash: it crashes", ("crash",)),
        ("ABC-12: Mend it", "Mend it", ()),
        ("Fixed #123 -- Made it work.", "Made it work.", ()),
    ],
)
def test_titles_without_tags_types_and_numbers(
    line: str, title: str, scopes: tuple[str, ...]
) -> None:
    task = read_task(line)
    assert (task.title, task.scopes) == (title, scopes)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The snake_case of parseUrl in HTTPServer.", ("snake_case", "parseUrl", "HTTPServer")),
        ("os.path and Ns::Name and MAX_SIZE", ("os.path", "Ns::Name", "MAX_SIZE")),
        ("call wait() with --no-retry", ("--no-retry", "wait")),
        ("On GitHub, e.g. with JavaScript and node.js, i.e. example.com.", ()),
        ("Use `retry` of `@acme/http`, not `true`.", ("retry",)),
        ("NameError: name 'foo' is not defined", ("foo", "NameError")),
        ("It ended.Then it began.", ()),
        ("the __complete command and initialize(..)", ("__complete", "initialize")),
        ("Queue#client at https://x.y/z#discussion_r12", ("Queue#client",)),
    ],
)
def test_names_are_words_that_can_only_be_code(text: str, names: tuple[str, ...]) -> None:
    assert read_task(text).names == names


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("see src/x/y.py, `retry.ts` and docs/z.md:12", ["src/x/y.py", "retry.ts", "docs/z.md"]),
        ("on https://example.com/docs/page.html it says", []),
        ("in https://x.y/a/b/raw/main/settings.toml", ["settings.toml"]),
        ("console.log and node.js and e.g. this", []),
        ("the Makefile and .github/workflows/ci.yml", ["Makefile", ".github/workflows/ci.yml"]),
        ("in C:\\app\\src\\Main.cs:line 4", ["C:/app/src/Main.cs"]),
        ("build it and use and/or TCP/IP", []),
    ],
)
def test_paths_that_a_text_mentions(text: str, paths: list[str]) -> None:
    assert [p.path for p in read_task(text).paths if p.origin == "mention"] == paths


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ('It prints "connection reset by peer" again.', ("connection reset by peer",)),
        ("ValueError: cannot open 'x.py': no such file", ("cannot open", "no such file")),
        (
            "2024-01-01 12:00:00,123 - acme.http - ERROR - Request to /a/b failed after 3 attempts",
            ("Request to", "failed after", "attempts"),
        ),
        ('level=error msg="could not bind to port 80"', ("could not bind to port",)),
        ("[warn] disk is almost full (97%)", ("disk is almost full",)),
        ('the word "retry" alone', ()),
        ('the "*" slot has Handlers["*"]', ()),
    ],
)
def test_messages_are_the_constant_pieces_of_quoted_and_logged_texts(
    text: str, messages: tuple[str, ...]
) -> None:
    assert read_task(text).messages == messages


def test_what_others_wrote_counts_only_where_little_else_is_said() -> None:
    assert read_task("> Slow?\n\nIt loops.\n\nWhy?").sentences == ("It loops.", "Why?")
    assert read_task("Loops\n\n> It is\n> slow.").sentences == ("Loops", "It is slow.")
    assert read_task("> Why is it slow?").sentences == ("Why is it slow?",)


def test_the_words_of_a_commit() -> None:
    text = """\
Keep file matchers grouped
Previously, each matcher was registered separately to the
same list.  Now it is one record.

* feat: add unit test
- [x] I ran the tests
Reviewed-by: Me <me@x.y>
Co-authored-by: You <you@x.y>
(cherry picked from commit 0123456789abcdef)
"""
    assert read_task(text).sentences == (
        "Keep file matchers grouped",
        "Previously, each matcher was registered separately to the same list.",
        "Now it is one record.",
        "add unit test",
    )


def test_links_are_their_texts() -> None:
    text = "As a [follow-up][] to [it](https://x.y/z), [see][1].\n\n[follow-up]: https://x.y/1\n"
    assert read_task(text).sentences == ("As a follow-up to it, see.",)


PIECES = st.sampled_from(
    [
        *ISSUE.split("\n"),
        *(
            'File "x.py", line 3, in f\n', "    at a.b (c.js:1:2)\n", "\tat a.B.c(B.java:3)\n",
            "goroutine 1 [running]:\nmain.f()\n\t/x/y.go:3 +0x1\n", "#0 0x1 in f x.c:3\n",
            "x.c:1:2: error: bad\n", "  --> x.rs:1:2\n", "x.ts(1,2): error TS1: bad\n",
            "FAILED a.py::b - c\n", "--- FAIL: T (0s)\n", "=== FAILURES ===\n",
            "E   ValueError: a\n",
            "diff --git a/x b/x\n", "@@ -1,9 +1,9 @@\n", "--- a\n+++ b\n", "commit 0123456789\n",
            "```", "<!--", "-->", "<details>", "thread 'x' panicked at a.rs:1:2:\n",
        ),
        *" \n\t`'\"<>[](){}#*_-=+|:;,.@!?/\\0aZé\u2018\u2026\u65e5\x00\x1b\ud800",
    ]
)  # fmt: skip


def check(task: Task, text: str) -> None:
    """What holds for every task."""
    assert task.text == text
    assert len(task.names) <= 60
    assert len(set(task.names)) == len(task.names)
    assert len(task.messages) <= 12
    assert all(5 <= len(message) <= 200 for message in task.messages)
    assert len(task.sentences) <= 40
    assert all(0 < len(sentence) <= 400 for sentence in task.sentences)
    assert all(path.path and (path.line is None or path.line >= 0) for path in task.paths)
    assert bool(task.title) == bool(text.strip()) or not task.sentences


@given(st.text(max_size=300))
@examples(max_examples=200, deadline=None)
def test_every_text_is_a_task(text: str) -> None:
    check(read_task(text), text)


@given(st.lists(PIECES, max_size=40).map("".join))
@examples(max_examples=200, deadline=None)
def test_every_mixture_of_real_formats_is_a_task(text: str) -> None:
    check(read_task(text), text)


HOSTILE = [
    " ", "\n", "\t", "a", "a(", "a ", "a.", "a/", "a::", "A. ", "e.g. ", "'a ", '" a', "`a `` ",
    "<!--", "<a ", "[a](", "[a] ", "at a (", "at a(\n", "a@b:1:1 ", "#1 0x1 in a \n",
    "x:1: in 'a ", "1.", "1:", "*a ", "__", "aA", "_a", "- [ ", "https://a.b/c/blob/",
    "@@ -1,9 +1,9 @@\n+a\n", "--- a\n+++ b\n", 'File "a", line 1, in f\n', "```\n", "| a ",
    "fixes #1 ", "(#1) ", "thanks ", "a = ", "{a}", "A.AError: ", "error: ", "12:00:00 ",
    "ERROR [", "a.py:1(", "thread 'a' panicked at '", "at a (eval at ", "\u2018a ",
    "in a.php:1 in ", " at a.pm line 1", "a: ", "1) ", "--a", "at " + "a.b " * 240 + "\n",
    "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_more_than_linear_time(piece: str) -> None:
    """Eight times the text takes at most twenty times as long, or less than a second."""
    long = (piece * MAX_TASK_CHARS)[:MAX_TASK_CHARS]
    short = long[: MAX_TASK_CHARS // 8]

    def cpu_seconds(text: str) -> float:
        before = time.process_time()
        check(read_task(text), text)
        return time.process_time() - before

    taken = cpu_seconds(long)
    assert taken < 1 or taken < 20 * max(cpu_seconds(short) for _ in range(3))


def test_only_the_beginning_of_a_text_is_read() -> None:
    text = "a \n" * MAX_TASK_CHARS + "see src/x.py"
    assert read_task(text).paths == ()
