"""What language and kind is this file?

Decided by the path, and refined by the first bytes if the name is not enough. The repository's
attributes for generated and vendored files take precedence. The kind is the first of these that
applies:

1. vendored: below a folder for third-party code (``vendor/``, ``node_modules/``), or a known
   library by its name and version
2. generated: lock files, minified files, snapshots, the output of known generators
3. test: below a folder of tests, or named as a test in a language of code
4. docs: prose, also as plain text or HTML in a folder of documentation
5. code: in a programming language; build scripts too
6. config: everything else, in declarative formats
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from codebase_mcp.model import FileKind
from codebase_mcp.source.ignore import UNSET, LinguistAttributes
from codebase_mcp.source.names import (
    BINARY_EXTENSIONS,
    CODE_EXTENSIONS_WITHOUT_GRAMMAR,
    LANGUAGE_BY_EXTENSION,
    LANGUAGE_BY_INTERPRETER,
    LANGUAGE_BY_NAME,
    TEMPLATE_EXTENSIONS,
)

# Incremented whenever a path may be classified differently, or be left out because of its content:
# the stored files are then read again.
CLASSIFY_VERSION = 4

TEXT = "text"

_PROSE = frozenset({"markdown", "rst", "asciidoc", "org", "latex", "typst"})
_STATEMENTS = frozenset("yaml toml ini json json5 jsonc xml properties kdl gitignore dtd".split())

_VENDORED_FOLDERS = frozenset(
    "vendor vendors vendored _vendor _vendored node_modules bower_components jspm_packages"
    " third_party third-party thirdparty 3rdparty 3rd-party site-packages dist-packages"
    " __pypackages__ godeps pods carthage .yarn venv .venv virtualenv .tox .nox _esy flow-typed"
    " .google_apis".split()
)
# Widely copied libraries; a version in the name tells a copy from the library's own source.
_VENDORED_LIBRARY = re.compile(
    r"^(?:jquery(?:[-.](?:ui|migrate|mobile|validate|form|cookie))*|bootstrap|modernizr|knockout"
    r"|mootools(?:-\w+)?|angular(?:-\w+)?|ember|backbone|underscore|lodash|d3|react(?:-dom)?|vue"
    r"|moment|require|handlebars|raphael|prototype|zepto|html5shiv|respond|less|cordova|dojo|yui"
    r"|select2|normalize|font-?awesome|foundation|highlight|popper|leaflet|three|socket\.io)"
    r"[-.]v?\d+(?:\.\d+)*(?:[-.][\w.-]+)?\.(?:js|mjs|css)$"
)
_VENDORED_NAMES = frozenset(
    "jquery-ui.js jquery-ui.css html5shiv.js respond.min.js swagger-ui.css swagger-ui-bundle.js"
    " swagger-ui-standalone-preset.js font-awesome.css fontawesome.css normalize.css animate.css"
    " mavenwrapperdownloader.java ppport.h cpplint.py erlang.mk config.guess config.sub aclocal.m4"
    " libtool.m4 ltoptions.m4 ltsugar.m4 ltversion.m4 lt~obsolete.m4 ltmain.sh".split()
)
_GENERATED_FOLDERS = frozenset({"__snapshots__", "__generated__", ".generated"})
_DOCS_FOLDERS = frozenset({"doc", "docs", "documentation", "man", "manual"})
_TEST_FOLDERS = frozenset(
    "spec specs testdata fixtures __fixtures__ __mocks__ e2e unittest unittests cypress t".split()
)
# A whole word (test-utils, integration_tests, Acme.Tests), never a part of a word (latest).
_TEST_WORD = re.compile(r"(?:^|[-_.])tests?(?:$|[-_.])", re.IGNORECASE)
# A word in camel case (commonTest, AcmeTests), which needs the capital: not contest, not latest.
_TEST_HUMP = re.compile(r"[a-z0-9]Tests?$")

_TEST_STEM = re.compile(
    r"^(?:tests?|conftest)$|^tests?[-_.]|[-_.](?:tests?|unittests?)$", re.IGNORECASE
)
_TEST_CLASS = re.compile(r"[A-Za-z0-9](?:Tests?|TestCase|TestSuite)$")
_TEST_CLASS_JAVA = re.compile(r"^Test[A-Z]|[a-z0-9]IT$")
# Languages that name files after their classes; elsewhere a camel-case ending means nothing.
_CAMEL_LANGUAGES = frozenset(
    "java kotlin scala groovy csharp php swift haskell objc cpp dart javascript typescript tsx"
    " elixir solidity".split()
)
_JAVA_LANGUAGES = frozenset({"java", "kotlin", "scala", "groovy"})
# Elsewhere a spec is a specification: PodSpec.java, module_spec.py.
_SPEC_STEM = re.compile(r"^specs?$|[-_.](?:specs?|e2e|cy)$", re.IGNORECASE)
_SPEC_LANGUAGES = frozenset({"ruby", "javascript", "typescript", "tsx", "lua", "elixir"})
_SPEC_CLASS = re.compile(r"[A-Za-z0-9]Specs?$")
_SPEC_CLASS_LANGUAGES = frozenset({"scala", "groovy", "haskell", "php", "javascript", "typescript"})

_GENERATED_NAMES = frozenset(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml go.sum go.work.sum gradle.lockfile"
    " package.resolved cartfile.resolved packages.lock.json .pnp.js .pnp.cjs .pnp.loader.mjs"
    " bun.lockb gradlew gradlew.bat mvnw mvnw.cmd .terraform.lock.hcl cargo.toml.orig"
    " shrinkwrap.yaml".split()
)
_GENERATED_ENDINGS = (
    ".lock",
    ".snap",
    ".map",
    *(".ambr", ".pbxproj", ".xcworkspacedata", ".nib", ".tsbuildinfo", ".swagger.json"),
    *(".bundle.js", ".chunk.js", ".chunk.css"),
    *(".min.js", ".min.mjs", ".min.cjs", ".min.css", "-min.js", "-min.css"),
    *("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb.rb", "_pb.js", "_pb.ts", "_pb.d.ts"),
    *("_pb2_grpc.pyi", "_grpc_pb.js", "_grpc_pb.d.ts", ".pb-c.c", ".pb-c.h", ".pb.c", ".pb.hpp"),
    *(".pb.go", ".pb.gw.go", ".pb.cc", ".pb.h", ".pb.swift", ".pb.dart", ".pbjson.dart"),
    *(".pb.validate.go", ".connect.go", ".twirp.go", "_easyjson.go", ".designer.vb", ".feature.cs"),
    *(".g.dart", ".freezed.dart", ".gr.dart", ".mocks.dart", ".g.cs", ".g.i.cs", ".designer.cs"),
    *(".gen.go", "_gen.go", ".gen.ts", ".gen.tsx", "_generated.go", "_generated.rs"),
)
_GENERATED_PART = re.compile(r"\.generated\.|^zz_generated[._]|\.(?:approved|verified)\.\w+$")

_PROSE_NAMES = frozenset(
    "readme license licence copying copyright authors contributors maintainers changelog changes"
    " history news notice todo contributing security install thanks credits faq unlicense patents"
    " code_of_conduct".split()
)
_PROSE_EXTENSIONS = frozenset({"txt", "text", "ronn", "wiki", "textile", "rdoc", "creole", "bib"})
_MAN_PAGE = re.compile(r"\.[1-9]$")
_SETTINGS_TEXT = re.compile(r"^(?:requirements|constraints)\b.*\.txt$|^robots\.txt$")
_NUMBERED_LIBRARY = re.compile(r"\.so(?:\.\d+)+$")

# Templates contain the marker of the files generated from them.
_TEMPLATE_EXTENSIONS = frozenset(
    "tt j2 jinja jinja2 tmpl gotmpl gohtml erb ejs eex heex mustache hbs ftl vm njk liquid twig"
    " tpl".split()
)
# Bytes searched for a generator's marker; further down it may be the source of a generator.
MARK_BYTES = 4096
_GENERATED_MARK = re.compile(
    rb"^[ \t]*(?://|/?\*|#|--|;|<!--|%|\"\"\"|'|REM\b|\(\*|\{-|dnl\b)[^\n]*?"
    rb"(?:@generated\b|<auto-?generated\b"
    rb"|generated by (?:the protocol buffer compiler|gnu autoconf)"
    rb"|(?:this|the)(?: following)? (?:file|code|source|class)[^\n]{0,20} (?:is|was|has been)"
    rb" (?:automatically |auto-?)?generated\b"
    rb"|generated\b[^\n]*\bdo not (?:edit|modify|change)"
    rb"|do not (?:edit|modify|change)\b[^\n]*\bgenerated\b)",
    re.IGNORECASE | re.MULTILINE,
)
# Beginnings of comments, or of their lines, that generators write.
_GENERATED_BEGINNING = re.compile(
    rb"^[ \t]*(?://|/?\*|#|--|;|<!--|%|\"\"\"|'|REM\b|\(\*|\{-|dnl\b)[ \t*#/;!=-]*"
    rb"(?:(?:note|warning|attention):?[ \t]+)?"
    rb"(?:(?:this is an? )?auto(?:matically)?[- ]?generated (?:by|from|using|with|file\b)"
    rb"|this is an? (?:auto-?|automatically |machine[- ])?generated (?:source )?(?:file|class)\b"
    rb"|auto[- ]?generated code\b\.?[ \t]*(?:\*/|-->)?[ \t]*$"
    rb"|parser generated by |a bison parser, made by |a lexical scanner generated by "
    rb"|generated by (?:cython|coffeescript|peg\.js|racc|haxe|antlr|roxygen2|swig|flex\b|re2c"
    rb"|javacc|jooq|sqlc|mockgen|mockery|thrift|rust-bindgen|wasm-bindgen|graphql-codegen|apollo"
    rb"|flatc|capnp|protoc|grpc|ts-proto|automake|gobindata|go-bindata|stringer))"
    # In Python a docstring says so.
    rb"|^[ \t*#/]*generated by:? (?:openapi|swagger|https?://(?:openapi-generator"
    rb"|github\.com/swagger-api))",
    re.IGNORECASE | re.MULTILINE,
)
_BEGINNING_BYTES = 1500
# A copy of a library begins with its name and version; its own sources do not.
_LIBRARY_MARK = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*/\*[!*]?[\s*]*(?:jQuery|Bootstrap|Modernizr|normalize\.css"
    rb"|Font Awesome|AngularJS|Vue\.js|Underscore\.js|Backbone\.js|Lodash|Knockout|Select2"
    rb"|Ember\.js|Popper|Leaflet|moment\.js|HTML5 Shiv|Raphael|Handlebars)\b"
    rb"(?: (?:JavaScript Library|UI|Core|Migrate|Free))*[ -]{1,3}v?\d+\.\d+",
    re.IGNORECASE,
)
_LIBRARY_EXTENSIONS = frozenset({"js", "mjs", "cjs", "css"})
# The last line of the output of a compiler or bundler.
_SOURCE_MAP = re.compile(rb"(?://|/\*)[#@] sourceMappingURL=[^\n]*\s*\Z")
TAIL_BYTES = 512
# Bytes from which a text can be called minified, and the bytes a line then has on average.
# Hand-written code stays below 60; tables of translated sentences reach 600.
_MINIFIED_BYTES = 2048
_MINIFIED_LINE_BYTES = 1000

_SHEBANG = re.compile(
    rb"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-\S+[ \t]+|\w+=\S*[ \t]+)*(?:\S*/)?)?([^\s/]+)"
)
_VERSION = re.compile(r"[-\d.]+$")

# Code that does not occur in comments by chance; [ \t] because \s would also match line ends.
_CPP_HEADER = re.compile(
    rb"^[ \t]*(?:template[ \t]*<|(?:public|private|protected)[ \t]*:"
    rb"|class[ \t]+(?:\w+[ \t]*$|(?:\w+[ \t]+){0,2}\w+[ \t]*[{:;])"
    rb"|(?:inline[ \t]+)?namespace(?:[ \t]+[\w:]+)?[ \t]*(?:\{|$)"
    rb"|using[ \t]+(?:namespace[ \t]|\w+[ \t]*=|[\w:]+;))"
    rb"|^#[ \t]*include[ \t]*<(?:string|vector|memory|map|iostream|type_traits|utility|cstd\w+)>",
    re.MULTILINE,
)
_OBJC_HEADER = re.compile(rb"^[ \t]*(?:@interface|@protocol|@class|#import)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties of a file that follow from its path.

    ``named_as_source`` means text in a supported language, with a grammar or not. It is false for
    vendored and generated files and for test data, which is often broken on purpose: if such a file
    is huge or unreadable, that is not a failure.
    """

    language: str
    kind: FileKind
    is_binary: bool
    named_as_source: bool


def classify(path: str, attributes: LinguistAttributes = UNSET) -> Traits:
    """Classify a path, relative to its tree and with forward slashes.

    ``attributes`` are those that the repository sets for it.
    """
    slash = path.rfind("/")
    folder = _folder_kinds(path[:slash]) if slash > 0 else frozenset()
    return _traits(path[slash + 1 :], folder, attributes)


def language_of(path: str) -> str:
    """The language by the path alone, or ``text``."""
    return classify(path).language


def kind_of(path: str) -> FileKind:
    """The kind by the path alone."""
    return classify(path).kind


def is_generated(head: bytes) -> bool:
    """Whether the beginning of a file shows that it was generated."""
    return _is_marked(head) or _is_minified(head)


def refine_kind(path: str, kind: FileKind, head: bytes, tail: bytes = b"") -> FileKind:
    """The kind by path, unless the content shows that the file is vendored or generated.

    Tests stay tests, as their data may look like anything. Long lines do not show that prose was
    generated, as a paragraph is often a single line.
    """
    if kind not in (FileKind.CODE, FileKind.CONFIG, FileKind.DOCS):
        return kind
    extension = _extension(path[path.rfind("/") + 1 :])
    if extension in _LIBRARY_EXTENSIONS:
        if _LIBRARY_MARK.match(head[:MARK_BYTES]):
            return FileKind.VENDORED
        if _SOURCE_MAP.search(tail[-TAIL_BYTES:]):
            return FileKind.GENERATED
    if extension not in _TEMPLATE_EXTENSIONS and _is_marked(head):
        return FileKind.GENERATED
    if kind is not FileKind.DOCS and _is_minified(head):
        return FileKind.GENERATED
    return kind


def _is_marked(head: bytes) -> bool:
    beginning = head[:MARK_BYTES]
    # All markers contain either word, few files do, and this check takes a tenth of the time.
    if not any(word in beginning.lower() for word in (b"generated", b"a bison parser")):
        return False
    return (
        _GENERATED_MARK.search(beginning) is not None
        or _GENERATED_BEGINNING.search(beginning[:_BEGINNING_BYTES]) is not None
    )


def _is_minified(head: bytes) -> bool:
    lines = head.count(b"\n") + 1
    return len(head) >= _MINIFIED_BYTES and len(head) > lines * _MINIFIED_LINE_BYTES


def language_of_shebang(head: bytes) -> str | None:
    """The language of the interpreter that the first line names, or None."""
    line = _SHEBANG.match(head[:256])
    if line is None:
        return None
    program = line[1].decode("ascii", "replace").lower()
    return LANGUAGE_BY_INTERPRETER.get(_VERSION.sub("", program))


def language_of_header(head: bytes) -> str:
    """C, C++ or Objective-C: the name of a header does not tell which."""
    if _OBJC_HEADER.search(head):
        return "objc"
    return "cpp" if _CPP_HEADER.search(head) else "c"


def _language_of_name(lower: str) -> str:
    if lower in LANGUAGE_BY_NAME:
        return LANGUAGE_BY_NAME[lower]
    extension = _extension(lower)
    if extension in TEMPLATE_EXTENSIONS:
        language = _language_of_name(lower[: -len(extension) - 1])
        if language != TEXT:
            return language
    # Variants of a file without an extension: Dockerfile.dev, Makefile.linux.
    variant = LANGUAGE_BY_NAME.get(lower.split(".", 1)[0], TEXT)
    return LANGUAGE_BY_EXTENSION.get(extension, variant)


@lru_cache(maxsize=1 << 14)
def _folder_kinds(folder: str) -> frozenset[FileKind]:
    """The kinds that the folders of a path suggest."""
    kinds = set()
    for segment in folder.split("/"):
        lower = segment.lower()
        if lower in _VENDORED_FOLDERS:
            kinds.add(FileKind.VENDORED)
        if lower in _GENERATED_FOLDERS or lower.endswith(".egg-info"):
            kinds.add(FileKind.GENERATED)
        if lower in _TEST_FOLDERS or _TEST_WORD.search(segment) or _TEST_HUMP.search(segment):
            kinds.add(FileKind.TEST)
        if lower in _DOCS_FOLDERS:
            kinds.add(FileKind.DOCS)
    return frozenset(kinds)


@lru_cache(maxsize=1 << 16)
def _traits(name: str, folder: frozenset[FileKind], attributes: LinguistAttributes) -> Traits:
    lower = name.lower()
    extension = _extension(lower)
    language = _language_of_name(lower)
    kind = _kind(name, language, folder, attributes)
    return Traits(
        language,
        kind,
        is_binary=extension in BINARY_EXTENSIONS or bool(_NUMBERED_LIBRARY.search(lower)),
        named_as_source=kind not in (FileKind.GENERATED, FileKind.VENDORED)
        and not (kind is FileKind.TEST and language in _STATEMENTS)
        and (language != TEXT or extension in CODE_EXTENSIONS_WITHOUT_GRAMMAR),
    )


def _kind(
    name: str, language: str, folder: frozenset[FileKind], attributes: LinguistAttributes
) -> FileKind:
    """The first kind that applies, in the order of the module's docstring."""
    lower = name.lower()
    if language == TEXT:
        is_code = _extension(lower) in CODE_EXTENSIONS_WITHOUT_GRAMMAR
        # In a folder of documentation, and not a part of its tooling.
        may_be_docs = not is_code and not _SETTINGS_TEXT.search(lower)
    else:
        is_code = language not in _PROSE and language not in _STATEMENTS
        may_be_docs = language == "html"
    is_vendored = attributes.vendored
    if is_vendored is None:
        is_library = lower in _VENDORED_NAMES or _VENDORED_LIBRARY.search(lower)
        is_vendored = FileKind.VENDORED in folder or bool(is_library)
    is_generated = attributes.generated
    if is_generated is None:
        is_named = lower in _GENERATED_NAMES or lower.endswith(_GENERATED_ENDINGS)
        is_generated = (
            FileKind.GENERATED in folder or is_named or bool(_GENERATED_PART.search(lower))
        )
    if is_vendored:
        return FileKind.VENDORED
    if is_generated:
        return FileKind.GENERATED
    if FileKind.TEST in folder or (is_code and _names_a_test(name, language)):
        return FileKind.TEST
    if _is_prose(lower, language) or (FileKind.DOCS in folder and may_be_docs):
        return FileKind.DOCS
    return FileKind.CODE if is_code else FileKind.CONFIG


def _names_a_test(name: str, language: str) -> bool:
    stem = name[: name.rfind(".")] if "." in name else name
    signs = [_TEST_STEM]
    signs += [_SPEC_STEM] if language in _SPEC_LANGUAGES else []
    signs += [_TEST_CLASS] if language in _CAMEL_LANGUAGES else []
    signs += [_TEST_CLASS_JAVA] if language in _JAVA_LANGUAGES else []
    signs += [_SPEC_CLASS] if language in _SPEC_CLASS_LANGUAGES else []
    return name.endswith((".t", ".bats")) or any(sign.search(stem) for sign in signs)


def _is_prose(lower: str, language: str) -> bool:
    if language != TEXT or _SETTINGS_TEXT.search(lower):
        return language in _PROSE
    if re.split(r"[-.]", lower, maxsplit=1)[0] in _PROSE_NAMES:
        return True
    return _extension(lower) in _PROSE_EXTENSIONS or _MAN_PAGE.search(lower) is not None


def _extension(name: str) -> str:
    """The extension in lower case, without its dot; ``.env`` and ``Makefile`` have none."""
    dot = name.rfind(".")
    return name[dot + 1 :].lower() if dot > 0 else ""
