"""What is read of a task: traces, outputs, diffs, names, messages, sentences, in real formats."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from codebase_mcp.context.symbols import symbol_of
from codebase_mcp.context.task import MAX_TASK_CHARS, Task, read_task

Frame = tuple[str, int | None, str | None, bool]
"""Path, line, symbol, and whether it is a library's."""


def frames(text: str) -> list[Frame]:
    """The frames of a text, each trace innermost first."""
    return [
        (path.path, path.line, path.symbol, path.is_library)
        for path in read_task(text).paths
        if path.frame
    ]


def places(text: str, origin: str) -> list[tuple[str, int | None]]:
    """The paths of an origin with their lines."""
    return [(path.path, path.line) for path in read_task(text).paths if path.origin == origin]


TRACES: dict[str, tuple[str, list[Frame]]] = {
    "python": (
        """\
Traceback (most recent call last):
  File "/app/src/main.py", line 3, in <module>
    main()
  File "/app/src/retry.py", line 12, in wait
    time.sleep(delay)
    ~~~~~~~~~~^^^^^^^
  File "/usr/lib/python3.11/site-packages/urllib3/util.py", line 5, in sleep
    raise ValueError("sleep length must be non-negative")
ValueError: sleep length must be non-negative

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/src/errors.py", line 30, in give_up
    raise RetryError(f"gave up after {n} attempts")
app.errors.RetryError: gave up after 3 attempts
""",
        [
            ("/usr/lib/python3.11/site-packages/urllib3/util.py", 5, "sleep", True),
            ("/app/src/retry.py", 12, "wait", False),
            ("/app/src/main.py", 3, None, False),
            ("/app/src/errors.py", 30, "give_up", False),
        ],
    ),
    "faulthandler": (
        """\
Current thread 0x00007f (most recent call first):
  File "src/inner.py", line 2 in spin
  File "src/outer.py", line 9 in run
""",
        [("src/inner.py", 2, "spin", False), ("src/outer.py", 9, "run", False)],
    ),
    "exception group": (
        """\
  + Exception Group Traceback (most recent call last):
  |   File "src/x.py", line 16, in gather
  | ExceptionGroup: several (2 sub-exceptions)
""",
        [("src/x.py", 16, "gather", False)],
    ),
    "pytest": (
        """\
=================================== FAILURES ===================================
__________________________ TestRetry.test_wait[3-x] ____________________________

    def test_wait(self):
>       assert wait(-1) == 0

tests/test_retry.py:12:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

    def wait(delay):
        if delay < 0:
>           raise ValueError("delay must not be negative")
E           ValueError: delay must not be negative

src/retry.py:5: ValueError
""",
        [("src/retry.py", 5, None, False), ("tests/test_retry.py", 12, None, False)],
    ),
    "v8": (
        """\
RangeError: delay must not be negative: -1
    at Retry.wait (/tmp/app/retry.js:1:40)
    at async each (webpack-internal:///./src/components/List.tsx:2:74)
    at Array.map (<anonymous>)
    at Object.<anonymous> (C:\\app\\src\\index.js:3:1)
    at new Policy (file:///home/me/app/policy.mjs:10:11)
    at Layer.handle [as handle_request] (/app/node_modules/express/lib/layer.js:95:5)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
""",
        [
            ("/tmp/app/retry.js", 1, "Retry.wait", False),
            ("src/components/List.tsx", 2, "each", False),
            ("C:/app/src/index.js", 3, None, False),
            ("/home/me/app/policy.mjs", 10, "Policy", False),
            ("/app/node_modules/express/lib/layer.js", 95, "Layer.handle", True),
            ("node:internal/process/task_queues", 95, "processTicksAndRejections", True),
        ],
    ),
    "firefox": (
        """\
Uncaught TypeError: e is undefined
renderList@http://localhost:3000/static/src/List.js:14:23
@http://localhost:3000/src/main.ts?t=1234:3:1
""",
        [("static/src/List.js", 14, "renderList", False), ("src/main.ts", 3, None, False)],
    ),
    "java": (
        """\
Exception in thread "main" java.lang.IllegalStateException: could not run
\tat com.acme.Retry.main(Retry.java:6)
Caused by: java.lang.IllegalArgumentException: delay must not be negative: -1
\tat com.acme.Retry$Policy.wait(Retry.java:4)
\tat com.acme.Retry.lambda$main$0(Retry.java:7)
\tat com.acme.db.PoolKt.open(Pool.kt:10)
\tat java.base/java.lang.Iterable.forEach(Iterable.java:75)
\tat java.base/jdk.internal.reflect.NativeMethodAccessorImpl.invoke0(Native Method)
\tat app//org.junit.jupiter.engine.Runner.run(Runner.java:3)
\t... 3 more
""",
        [
            ("com/acme/Retry.java", 6, "Retry.main", False),
            ("com/acme/Retry.java", 4, "Policy.wait", False),
            ("com/acme/Retry.java", 7, "Retry.main", False),
            ("com/acme/db/Pool.kt", 10, "Pool.open", False),
            ("java/lang/Iterable.java", 75, "Iterable.forEach", True),
            ("org/junit/jupiter/engine/Runner.java", 3, "Runner.run", True),
        ],
    ),
    "go": (
        """\
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48]

goroutine 1 [running]:
github.com/acme/app/retry.(*Retry).Wait(0x0, 0xc000)
\t/home/me/app/retry/retry.go:12 +0x1d
main.run()
\t/home/me/app/main.go:7 +0x20
created by net/http.(*Server).Serve in goroutine 1
\t/usr/local/go/src/net/http/server.go:3086 +0x5cb
exit status 2
""",
        [
            ("/home/me/app/retry/retry.go", 12, "Retry.Wait", False),
            ("/home/me/app/main.go", 7, "run", False),
            ("/usr/local/go/src/net/http/server.go", 3086, "Server.Serve", True),
        ],
    ),
    "rust": (
        """\
thread 'main' (20024) panicked at src/retry.rs:1:87:
index out of bounds: the len is 0 but the index is 3
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/59807616e1fa25/library/std/src/panicking.rs:689:5
   1: app::Retry::wait
             at ./src/retry.rs:1:87
   2: app::main::{{closure}}
             at ./src/main.rs:2:30
""",
        [
            ("src/retry.rs", 1, None, False),
            ("/rustc/59807616e1fa25/library/std/src/panicking.rs", 689, "rust_begin_unwind", True),
            ("src/retry.rs", 1, "Retry.wait", False),
            ("src/main.rs", 2, "main", False),
        ],
    ),
    "address sanitizer": (
        """\
==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x602 at pc 0x4
READ of size 4 at 0x602000000010 thread T0
    #0 0x4a in Retry::wait(int) /home/me/app/src/retry.cpp:12:3
    #1 0x4b in main src/main.cpp:4
    #2 0x7f in __libc_start_call_main ../sysdeps/nptl/libc_start_call_main.h:58
""",
        [
            ("/home/me/app/src/retry.cpp", 12, "Retry.wait", False),
            ("src/main.cpp", 4, "main", False),
            ("../sysdeps/nptl/libc_start_call_main.h", 58, "__libc_start_call_main", True),
        ],
    ),
    "gdb": (
        """\
#0  0x000055 in retry_wait (r=0x0, n=3) at src/retry.c:12
#1  main () at src/main.c:4
""",
        [("src/retry.c", 12, "retry_wait", False), ("src/main.c", 4, "main", False)],
    ),
    "c assertion": (
        "app: src/a.c:4: check: Assertion `c == 1' failed.",
        [("src/a.c", 4, "check", False)],
    ),
    "valgrind": (
        """\
==7==    at 0x109176: wait_for (retry.c:12)
==7==    by 0x1091A0: main (main.c:4)
""",
        [("retry.c", 12, "wait_for", False), ("main.c", 4, "main", False)],
    ),
    "csharp": (
        """\
Unhandled exception. System.InvalidOperationException: Sequence contains no elements
   at System.Linq.ThrowHelper.ThrowNoElementsException()
   at Acme.Retry.Policy.WaitAsync(Int32 n) in /src/Acme/Retry/Policy.cs:line 42
   at Acme.Program.<Main>d__0.MoveNext() in C:\\src\\Acme\\Program.cs:line 7
""",
        [
            ("/src/Acme/Retry/Policy.cs", 42, "Policy.WaitAsync", False),
            ("C:/src/Acme/Program.cs", 7, "Program.Main", False),
        ],
    ),
    "ruby": (
        """\
/app/lib/retry.rb:12:in `wait': delay must be positive (ArgumentError)
\tfrom /app/lib/retry.rb:30:in 'Retry#call'
\tfrom /usr/lib/ruby/gems/3.2.0/gems/rack-2.2.8/lib/rack/builder.rb:116:in `block in call'
\tfrom bin/run:3:in `<main>'
""",
        [
            ("/app/lib/retry.rb", 12, "wait", False),
            ("/app/lib/retry.rb", 30, "Retry.call", False),
            (
                "/usr/lib/ruby/gems/3.2.0/gems/rack-2.2.8/lib/rack/builder.rb",
                116,
                "call",
                True,
            ),
            ("bin/run", 3, "main", False),
        ],
    ),
    "php": (
        """\
PHP Fatal error:  Uncaught InvalidArgumentException: Delay must be positive in /app/Retry.php:12
Stack trace:
#0 /app/src/Client.php(30): Acme\\Retry->wait()
#1 /app/vendor/laravel/framework/src/Pipeline.php(128): Acme\\Client->send()
#2 {main}
  thrown in /app/Retry.php on line 12
""",
        [
            ("/app/Retry.php", 12, None, False),
            ("/app/src/Client.php", 30, "Retry.wait", False),
            ("/app/vendor/laravel/framework/src/Pipeline.php", 128, "Client.send", True),
        ],
    ),
    "elixir": (
        """\
** (RuntimeError) could not wait
    (app 0.1.0) lib/app/retry.ex:12: App.Retry.wait/1
    (stdlib 5.0) gen_server.erl:1123: :gen_server.try_handle_call/4
    test/app/retry_test.exs:9: anonymous fn/1 in App.RetryTest.run/2
""",
        [
            ("lib/app/retry.ex", 12, "Retry.wait", False),
            ("gen_server.erl", 1123, "try_handle_call", True),
            ("test/app/retry_test.exs", 9, "RetryTest.run", False),
        ],
    ),
    "lua": (
        """\
lua: src/retry.lua:12: attempt to index a nil value (local 'x')
stack traceback:
\tsrc/retry.lua:12: in function 'retry.wait'
\tsrc/main.lua:3: in main chunk
\t[C]: in ?
""",
        [("src/retry.lua", 12, "wait", False), ("src/main.lua", 3, None, False)],
    ),
    "haskell": (
        """\
CallStack (from HasCallStack):
  error, called at src/Data/Retry.hs:12:3 in main:Data.Retry
  wait, called at app/Main.hs:4:5 in main:Main
""",
        [("src/Data/Retry.hs", 12, None, False), ("app/Main.hs", 4, "wait", False)],
    ),
    "dart": (
        """\
Unhandled exception:
Bad state: No element
#0      Retry.wait (package:app/src/retry.dart:12:3)
#1      main.<anonymous closure> (file:///home/me/app/bin/main.dart:4:5)
#2      _rootRun (dart:async/zone.dart:1399:13)
""",
        [
            ("lib/src/retry.dart", 12, "Retry.wait", False),
            ("/home/me/app/bin/main.dart", 4, "main", False),
            ("dart:async/zone.dart", 1399, "_rootRun", True),
        ],
    ),
    "swift": (
        "App/Retry.swift:12: Fatal error: Index out of range",
        [("App/Retry.swift", 12, None, False)],
    ),
    "perl": (
        "delay must be positive at lib/Retry.pm line 12.\n\tRetry::run called at bin/x.pl line 3\n",
        [("lib/Retry.pm", 12, None, False), ("bin/x.pl", 3, None, False)],
    ),
    "ocaml": (
        'Called from Retry.wait in file "src/retry.ml", line 12, characters 3-10',
        [("src/retry.ml", 12, "Retry.wait", False)],
    ),
    "zig": (
        "/home/me/src/retry.zig:12:3: 0x10 in wait (app)",
        [("/home/me/src/retry.zig", 12, "wait", False)],
    ),
}


@pytest.mark.parametrize("language", TRACES)
def test_the_frames_of_a_trace_are_read_innermost_first(language: str) -> None:
    text, expected = TRACES[language]
    assert frames(text) == expected


@pytest.mark.parametrize("language", TRACES)
def test_a_trace_says_nothing_in_sentences_but_its_messages(language: str) -> None:
    told = "My report.\n\n" + TRACES[language][0] + "\nWhat follows is told again.\n"
    spoken = read_task(told).sentences
    assert spoken[0] == "My report."
    assert spoken[-1] == "What follows is told again."
    assert set(spoken[1:-1]) <= {"Bad state: No element"}


def test_frames_are_numbered_in_each_trace() -> None:
    numbers = [path.frame for path in read_task(TRACES["python"][0]).paths]
    assert numbers == [1, 2, 3, 1]
    numbers = [path.frame for path in read_task(TRACES["java"][0]).paths]
    assert numbers == [1, 1, 2, 3, 4, 5]


def test_prefixes_of_services_and_colours_are_no_part_of_a_line() -> None:
    line = '2024-05-01T12:00:00.1234567Z   \x1b[31mFile "src/x.py", line 3, in f\x1b[0m'
    assert frames(line) == [("src/x.py", 3, "f", False)]
    assert frames('web_1  |   File "src/x.py", line 3, in f') == [("src/x.py", 3, "f", False)]


@pytest.mark.parametrize(
    ("written", "symbol"),
    [
        ("github.com/acme/app/retry.(*Retry).Wait.func1", "Retry.Wait"),
        ("main.main", "main"),
        ("<app::retry::Policy as core::ops::Fn>::call", "call"),
        ("app::retry::Policy::wait::h0123456789abcdef", "Policy.wait"),
        ("Foo<int>::bar(std::vector<int> const&)", "Foo.bar"),
        ("block (2 levels) in Retry#call", "Retry.call"),
        ("<class:Retry>", "Retry"),
        ("Object.exports.run [as wait]", "run"),
        ("Acme.Retry.<>c.<Run>b__0_1()", "Run"),
        ("<anonymous>", None),
        ("", None),
    ],
)
def test_a_symbol_has_its_type_and_no_arguments_or_closures(
    written: str, symbol: str | None
) -> None:
    assert symbol_of(written) == symbol


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


@pytest.mark.parametrize(("text", "place", "message"), COMPILERS)
def test_messages_of_compilers_and_linters(
    text: str, place: tuple[str, int], message: str | None
) -> None:
    assert places(text, "compiler") == [place]
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
    assert places(text, "test") == tests
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


def test_links_are_their_texts() -> None:
    text = "As a [follow-up][] to [it](https://x.y/z), [see][1].\n\n[follow-up]: https://x.y/1\n"
    assert read_task(text).sentences == ("As a follow-up to it, see.",)


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
    assert places(text, "change") == [("old/x.c", 1)] or places(text, "change") == [("new/x.c", 1)]
    text = "--- a/x.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-int a;\n"
    assert [path for path, _ in places(text, "change")] == ["x.c"]


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
    assert places(text, "change") == [("src/x.c", 4)]
    assert task.changed == ("cap",)


def test_a_quoted_trace() -> None:
    assert frames('> Traceback:\n>   File "src/x.py", line 3, in f') == [
        ("src/x.py", 3, "f", False)
    ]


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
    assert [path for path, _ in places(text, "mention")] == paths


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


PIECES = st.sampled_from(
    [
        *(text for text, _ in TRACES.values()),
        *(text for text, _, _ in COMPILERS),
        *ISSUE.split("\n"),
        *" \n\t`'\"<>[](){}#*_-=+|:;,.@!?/\\0aZé\u2018\u2026\u65e5\x00\x1b\ud800",
        *("```", "<!--", "-->", "<details>", "@@ -1,9 +1,9 @@\n", "--- a\n+++ b\n", "at a (b:1:2)"),
    ]
)


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
