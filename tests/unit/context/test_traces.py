"""Which frames are read from stack traces, in the formats of many languages."""

from __future__ import annotations

import pytest

from codebase_mcp.context.paths import is_library
from codebase_mcp.context.symbols import symbol_of
from codebase_mcp.context.task import read_task

Frame = tuple[str, int | None, str | None, bool]
"""Path, line, symbol, and whether it is a library's."""


def frames(text: str) -> list[Frame]:
    """The frames of a text, each trace innermost first."""
    return [
        (path.path, path.line, path.symbol, path.is_library)
        for path in read_task(text).paths
        if path.frame
    ]


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
\tfrom activesupport (7.0.4) lib/active_support/callbacks.rb:118:in `run_callbacks'
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
            ("lib/active_support/callbacks.rb", 118, "run_callbacks", True),
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


def test_a_quoted_trace() -> None:
    assert frames('> Traceback:\n>   File "src/x.py", line 3, in f') == [
        ("src/x.py", 3, "f", False)
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/lib/python3.11/json/decoder.py", True),
        ("/opt/venv/lib/python3.12/site-packages/x/y.py", True),
        ("/home/me/.cargo/registry/src/index.crates.io-6f17/serde-1.0/src/de.rs", True),
        ("/home/dev/go/pkg/mod/github.com/x/y@v1.2.3/z.go", True),
        ("node_modules/express/lib/layer.js", True),
        ("/usr/include/c++/12/bits/stl_vector.h", True),
        ("python/retry.py", False),
        ("internal/retry/retry.go", False),
        ("java/com/acme/Retry.java", False),
        ("deps/hiredis/sds.c", False),
        ("lib/ruby/retry.rb", False),
        ("vendor/retry/retry.php", False),
    ],
)
def test_libraries_are_told_by_where_they_are_installed(path: str, expected: bool) -> None:
    assert is_library(path) == expected
