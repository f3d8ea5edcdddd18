"""What is read of compilers, linters, test runners and diffs."""

from __future__ import annotations

import pytest

from codebase_mcp.context.task import read_task


def locations(text: str, origin: str) -> list[tuple[str, int | None]]:
    """The paths of an origin with their lines."""
    return [(path.path, path.line) for path in read_task(text).paths if path.origin == origin]


COMPILERS = [
    ("src/retry.c:12:5: error: 'foo' undeclared", ("src/retry.c", 12), "undeclared"),
    ("src/a.h:3:10: fatal error: missing.h: No such file or directory", ("src/a.h", 3), None),
    (
        "error[E0308]: mismatched types\n  --> src/lib.rs:10:5",
        ("src/lib.rs", 10),
        "mismatched types",
    ),
    (
        "src/retry.ts(12,5): error TS2339: Property 'foo' does not exist on type 'Bar'.",
        ("src/retry.ts", 12),
        "does not exist on type",
    ),
    ("src/o.ts:3:7 - error TS2304: Cannot find name 'f'.", ("src/o.ts", 3), "Cannot find name"),
    ("src/main/java/Foo.java:12: error: ';' expected", ("src/main/java/Foo.java", 12), "expected"),
    ("./main.go:12:5: undefined: retryFoo", ("main.go", 12), "undefined: retryFoo"),
    (
        'pkg/x.py:12: error: Incompatible return value type (got "int")  [return-value]',
        ("pkg/x.py", 12),
        "Incompatible return value type",
    ),
    (
        "Retry.cs(12,5): error CS0103: The name 'foo' does not exist [/src/Acme.csproj]",
        ("Retry.cs", 12),
        "does not exist",
    ),
    (
        "[ERROR] /home/me/src/Retry.java:[12,5] cannot find symbol",
        ("/home/me/src/Retry.java", 12),
        "cannot find symbol",
    ),
    (
        "e: file:///home/me/Foo.kt:12:5 Unresolved reference: foo",
        ("/home/me/Foo.kt", 12),
        "Unresolved reference: foo",
    ),
    (
        "[error] /home/me/Foo.scala:12:5: value foo is not a member of Bar",
        ("/home/me/Foo.scala", 12),
        "value foo is not a member of Bar",
    ),
    ("src/x.py:1:2: E501 Line too long", ("src/x.py", 1), "Line too long"),
    ("lib/x.rb:1:2: C: Style/Not: Use the new style.", ("lib/x.rb", 1), "Use the new style"),
    ("ERROR in ./src/x.ts 12:5", ("src/x.ts", 12), None),
    ("install.sh: line 12: foo: command not found", ("install.sh", 12), "foo: command not found"),
    (
        "/home/me/list.js\n  12:5  error  'foo' is not defined  no-undef",
        ("/home/me/list.js", 12),
        "is not defined",
    ),
]


@pytest.mark.parametrize(("text", "location", "message"), COMPILERS)
def test_messages_of_compilers_and_linters(
    text: str, location: tuple[str, int], message: str | None
) -> None:
    assert locations(text, "compiler") == [location]
    assert message is None or message in read_task(text).messages


@pytest.mark.parametrize(
    ("text", "tests", "names"),
    [
        (
            "FAILED tests/test_x.py::TestRetry::test_wait[3-x] - ValueError: negative",
            [("tests/test_x.py", None)],
            ("test_wait", "TestRetry"),
        ),
        ("FAIL: test_wait (tests.test_x.TestRetry.test_wait)", [], ("test_wait",)),
        (
            "FAIL src/retry.test.ts (5.1 s)\n  \u25cf Retry \u203a waits long",
            [("src/retry.test.ts", None)],
            (),
        ),
        ("rspec ./spec/x_spec.rb:10 # Retry waits", [("spec/x_spec.rb", 10)], ()),
        ("1) Tests\\RetryTest::testWait", [], ("testWait", "RetryTest")),
        (
            "  1) test waits long (App.RetryTest)\n     test/app/retry_test.exs:7",
            [("test/app/retry_test.exs", 7)],
            ("RetryTest",),
        ),
        ("---- retry::tests::waits_long stdout ----", [], ("waits_long",)),
        (
            "--- FAIL: TestWait/negative (0.00s)\n    retry_test.go:22: Wait(-1) = nil",
            [("retry_test.go", 22)],
            ("TestWait",),
        ),
        ("RetryTest > testWait() FAILED", [], ("testWait", "RetryTest")),
        (
            "[ERROR] testWait(com.acme.RetryTest)  Time elapsed: 0.01 s  <<< FAILURE!",
            [],
            ("testWait", "RetryTest"),
        ),
        ("[  FAILED  ] RetryTest.Waits (0 ms)", [], ("Waits", "RetryTest")),
    ],
)
def test_failed_tests(
    text: str, tests: list[tuple[str, int | None]], names: tuple[str, ...]
) -> None:
    assert locations(text, "test") == tests
    assert set(names) <= set(read_task(text).names)


def test_the_output_of_a_run_says_nothing_but_its_messages() -> None:
    task = read_task("""\
   Compiling cg v0.1.0 (/tmp/cg)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 1.07s
     Running unittests src/lib.rs (target/debug/deps/cg-cf430339bf8ee7bc)

running 2 tests
test tests::waits_long ... FAILED

failures:

---- tests::waits_long stdout ----

thread 'tests::waits_long' (20024) panicked at src/lib.rs:2:87:
assertion `left == right` failed: waits for the delay
  left: 1
 right: 2

failures:
    tests::waits_long

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out

error: test failed, to rerun pass `--lib`
""")
    assert task.sentences == (task.title,)
    assert task.title == "assertion `left == right` failed: waits for the delay"
    assert task.messages == ("assertion", "failed: waits for the delay")
    assert task.names == ("waits_long",)


def test_the_rest_of_a_report_of_tap_is_no_prose() -> None:
    text = (
        "not ok 1 - waits long\n  ---\n  name: 'AssertionError'\n  ...\n1..1\n# tests 1\nSo it is."
    )
    assert read_task(text).sentences == ("So it is.",)
    assert read_task(text).messages == ("waits long",)


def test_a_diff_gives_its_files_and_the_words_of_its_changed_lines() -> None:
    task = read_task(
        """\
Cap the delay

diff --git a/src/retry.py b/src/retry.py
index 1234567..89abcde 100644
--- a/src/retry.py
+++ b/src/retry.py
@@ -10,3 +10,4 @@ class Retry:
 def wait(self):
-    time.sleep(delay)
+    if delay > MAX_DELAY:
+        raise RetryError
     return
And more text.
"""
    )
    assert [(p.path, p.origin, p.line) for p in task.paths] == [("src/retry.py", "change", 10)]
    assert {"Retry", "sleep", "MAX_DELAY", "RetryError"} <= set(task.changed)
    assert "wait" not in task.changed
    assert task.sentences == ("Cap the delay", "And more text.")


def test_a_diff_without_headers_of_git_and_a_deleted_file() -> None:
    text = "--- old/x.c\t2024\n+++ new/x.c\t2024\n@@ -1 +1 @@\n-int a;\n+int b;\n"
    assert locations(text, "change") == [("old/x.c", 1)] or locations(text, "change") == [
        ("new/x.c", 1)
    ]
    text = "--- a/x.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-int a;\n"
    assert [path for path, _ in locations(text, "change")] == ["x.c"]


@pytest.mark.parametrize(
    "head",
    [
        "commit 0123456789abcdef\nAuthor: Me <m@x.y>\nDate:   May 1 2024\n\n    {}\n\n    {}\n\n",
        "From 0123456789abcdef Mon Sep 17\nFrom: Me <me@x.y>\nSubject: [PATCH 1/2] {}\n\n{}\n---\n",
    ],
)
def test_the_output_of_git_show_and_format_patch(head: str) -> None:
    text = head.format("Cap the delay", "It grew.")
    text += " src/x.c | 2 +-\n 1 file changed, 1 insertion(+)\n\n"
    text += "diff --git a/src/x.c b/src/x.c\n--- a/src/x.c\n+++ b/src/x.c\n@@ -4 +4 @@\n-a\n+cap\n"
    task = read_task(text)
    assert task.sentences == ("Cap the delay", "It grew.")
    assert locations(text, "change") == [("src/x.c", 4)]
    assert task.changed == ("cap",)
