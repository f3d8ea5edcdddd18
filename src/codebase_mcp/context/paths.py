"""Which files does a text name? Paths as people, programs and web pages write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from codebase_mcp.source.names import (
    CODE_EXTENSIONS_WITHOUT_GRAMMAR,
    LANGUAGE_BY_EXTENSION,
    LANGUAGE_BY_NAME,
)

Origin = Literal["trace", "compiler", "test", "change", "mention"]
"""Where in a task a path stands: a stack trace, the output of a compiler or of a test run, a diff,
or the text."""


@dataclass(frozen=True, slots=True)
class TaskPath:
    """A path in a task, as it stands there; it may be from another machine.

    ``line`` is 1-based. ``symbol`` is the function that a trace names. ``frame`` counts the frames
    of a trace from the innermost, which is 1. ``is_library`` marks frames of installed packages, of
    the language's own library and of its runtime.
    """

    path: str
    origin: Origin
    line: int | None = None
    symbol: str | None = None
    frame: int | None = None
    is_library: bool = False


# Folders of installed packages and of the languages' own libraries, wherever they are installed.
_LIBRARY = re.compile(
    r"""(?:^|/)(?:
      site-packages|dist-packages|node_modules|bower_components|\.pnpm|\.yarn
      |python\d(?:\.\d+)*/[\w.]+\.py$|lib/python\d[\d.]*|python\d[\d.]*/lib|\.pyenv/versions
      |\.rustup|\.cargo/(?:registry|git)|rustc/[0-9a-f]{6,}|library/(?:std|core|alloc)/src
      |go/pkg/mod|go/src/(?:runtime|testing|net|os|io|fmt|reflect|sync|syscall|encoding)
      |go\d[\w.-]*/src|(?:usr/local|usr/lib|opt)/go[\w.-]*/src|Cellar
      |vendor/(?:github\.com|golang\.org|gopkg\.in|k8s\.io)|usr/(?:include|lib|lib64|share)
      |gems/[\w.-]+-\d[\w.]*|lib/ruby(?=/\d|/gems)|\.rbenv/versions|\.rvm|rubies
      |vendor/(?:bundle|cache|laravel|symfony|phpunit|composer|psr|twig|doctrine|guzzlehttp)
      |deps/\w+/(?:lib|src)(?=/.*\.(?:exs?|erl)$)|_build/\w+/lib|\.pub-cache|\.m2/repository
      |\.gradle/caches|\.nuget/packages|\.cabal/packages|\.stack|\.julia/packages|\.luarocks
      |share/lua(?=/\d)|\.deno|Xcode\.app|\.swiftpm|(?:\.build|SourcePackages)/checkouts
      |\.\./sysdeps|\.\./csu|libstdc\+\+-v3|libsanitizer|compiler-rt
    )(?:/|$)""",
    re.VERBOSE,
)
_LIBRARY_START = re.compile(
    r"node:|internal/(?:modules|process|main|bootstrap|timers)/|dart:|ext:|bun:|deno:|<"
    r"|\(?<anonymous|\[native|native:|https?://(?:unpkg|cdn|cdnjs|esm)\b|chrome-extension"
    r"|moz-extension"
)
# Files of the standard libraries that traces name without a folder.
_LIBRARY_FILES = frozenset(
    """gen_server.erl gen_statem.erl proc_lib.erl supervisor.erl timer.erl erl_eval.erl
    libc_start_call_main.h libc-start.c raise.c abort.c pthread_create.c clone.S clone3.S
    assert.c start_thread.c""".split()
)

_SCHEME = re.compile(
    r"^(?:webpack(?:-internal)?|vscode-file|rsc|app|ng|turbopack|https?)://+"
    r"(?:/?\(?[\w.-]+\)?/(?=\./))?"
)
_HOST = re.compile(r"https?://[^/\s]+/(?:@fs/)?")
_QUERY = re.compile(r"[?#].*$", re.DOTALL)
_WORD = re.compile(r"\w")
_DRIVE = re.compile(r"/?[A-Za-z]:(?=/)")


def clean_path(written: str) -> str:
    """A path without the scheme, host and query of its URL, with slashes."""
    path = written.strip().replace("\\", "/")
    if "://" in path:
        path = _QUERY.sub("", path)
        if path.startswith("file://"):
            path = path.removeprefix("file://")
        else:
            path = _HOST.sub("", path) if path.startswith("http") else _SCHEME.sub("", path)
    path = path.removeprefix("async ").lstrip("@")
    while path.startswith("./"):
        path = path[2:]
    return path.lstrip("/") if path[:1] == "/" and _DRIVE.match(path) else path


def is_library(path: str) -> bool:
    """Whether a path is one of an installed package, or of a language's library or runtime."""
    return (
        _LIBRARY.search(path) is not None
        or _LIBRARY_START.match(path) is not None
        or path in _LIBRARY_FILES
    )


# Extensions that are just as often the last name of an expression, such as `console.log`: they
# need a folder or a line number to be a file.
_AMBIGUOUS = frozenset(
    """as bat build bas c cr d do e edn el env f flow for fs geom go h in ini inl inc jade just l
    less list log m make map max min ml mm next nu nix org p6 pas plist pm pod pp properties props
    r rest ru s sample sc scheme service skip sol ss st star styl t tt target targets td text tf
    thrift trigger ts.map typ v vb vm wat env desktop key lock value vue svelte run td y yul
    prolog elm fish metal shader slim coffee applescript example default template dist""".split()
)
# Products that are called like a file.
_PRODUCTS = frozenset(
    """node vue next nuxt react three d3 express chart ember backbone moment socket asp require
    knockout video alpine discord p5 babylon angular solid handlebars underscore nest koa""".split()
)
_MORE_EXTENSIONS = frozenset(
    """txt lock log map snap csv tsv svg conf config csproj sln gradle md rst ipynb out mod sum
    feature story po pot""".split()
)
_EXTENSIONS = (
    frozenset(LANGUAGE_BY_EXTENSION) | CODE_EXTENSIONS_WITHOUT_GRAMMAR | _MORE_EXTENSIONS
) - frozenset({"com", "net", "io"})

# A run of the characters of paths, and the line in brackets after it.
_TOKEN = re.compile(r"[\w./\\@+~$#:%&?=-]++(?:\(\d+(?:,\d+)?\))?")
_MAX_TOKEN_CHARS = 300
_INSIDE = re.compile(r"[./][\w+]|file$")
_LOCATION = re.compile(
    r"(?P<path>(?:[A-Za-z]:)?[^:#(?]+)"
    r"(?:(?::|\#L|\(|:line\s)(?P<line>\d+)[^/]*)?(?:[:#?][^/]*)?"
)
_LINE_BEFORE = re.compile(r"[Ll]ines? (\d{1,7})(?:-\d+)? (?:of|in)$")
_LINE_BEHIND = re.compile(r"(?:(?:at|on|in) )?lines? (\d{1,7})\b")
_TRAILING = ".:,-/\\$=&?"
_BLOB = re.compile(r"https?://[^/]+/(?:[^/]+/){2}(?:-/)?(?:blob|tree|raw|blame|src)/[^/]+/(.+)")
_RAW = re.compile(r"https?://raw\.githubusercontent\.com/[^/]+/[^/]+/[^/]+/(.+)")


def mentioned_paths(text: str) -> Iterator[TaskPath]:
    """The paths of files in a text, and those in its URLs."""
    words = text.split()
    for number, word in enumerate(words):
        if "." not in word and "/" not in word and "file" not in word:
            continue
        for match in _TOKEN.finditer(word[: 4 * _MAX_TOKEN_CHARS]):
            token = match[0]
            if len(token) > _MAX_TOKEN_CHARS or not _INSIDE.search(token):
                continue
            path = _of_url(token) if "://" in token else _of_token(token.rpartition("=")[2])
            if path is not None:
                yield path if path.line else replace(path, line=_line_around(words, number))


def _line_around(words: Sequence[str], number: int) -> int | None:
    """The line that a sentence names before or behind a path."""
    before, behind = words[max(0, number - 3) : number], words[number + 1 : number + 4]
    match = _LINE_BEFORE.search(" ".join(before)) or _LINE_BEHIND.match(" ".join(behind))
    return int(match[1]) if match else None


def _of_url(url: str) -> TaskPath | None:
    blob = _BLOB.match(url) or _RAW.match(url)
    tail = blob[1] if blob else url.rstrip("/").rpartition("/")[2]
    path = _of_token(tail)
    if path is None or blob or url.startswith(("file:", "webpack")):
        return path
    # The page of a web site, not a file of the code.
    has_code = _extension(path.path) not in {"html", "htm", "php", "asp", "aspx", "jsp", "md"}
    return path if has_code and url.count("/") > 3 else None


def _of_token(token: str) -> TaskPath | None:
    location = _LOCATION.fullmatch(token.rstrip(_TRAILING))
    if location is None:
        return None
    path = clean_path(location["path"].rstrip(_TRAILING))
    line = location["line"]
    if not is_file_name(path, needs_folder=line is None):
        return None
    return TaskPath(path, "mention", _number(line), is_library=is_library(path))


def is_file_name(path: str, *, needs_folder: bool = True) -> bool:
    """Whether a path ends like a file of code, text or settings; expressions end so too."""
    folder, _, name = path.rpartition("/")
    lower = name.lower()
    if lower in LANGUAGE_BY_NAME:
        # "build" and "workspace" are words, "Makefile" is not.
        return "." in name[1:] or lower.endswith("file") or (name.isupper() and len(name) > 4)
    stem, _, extension = lower.rpartition(".")
    if not stem or extension not in _EXTENSIONS or not _WORD.search(stem):
        return False
    if folder or not needs_folder:
        return not name.startswith("..")
    if extension in _AMBIGUOUS:
        return extension == "vue" or (extension in {"c", "h", "go"} and len(stem) > 2)
    is_product = stem in _PRODUCTS and extension in {"js", "io", "net"}
    return not is_product and stem[0] != "."


def _extension(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _number(digits: str | None) -> int | None:
    return int(digits) if digits and len(digits) < 8 else None
