"""Whatever bytes come from outside, a parser returns or raises one of our own errors.

Texts of code are in ``unit/chunking/test_properties.py`` and ``unit/source/test_ignore.py`` too:
``make fuzz`` runs every property of the test suite.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import re
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp_types import JSONRPCError
from starlette.requests import Request
from tests.fuzz.profile import fuzzed
from tests.fuzz.strategies import ANY_TEXT, JSON, bytes_like, text_like

from codebase_mcp.access.context_file import ContextText, project_in
from codebase_mcp.app.evaluation.questions import read_questions
from codebase_mcp.chunking.split import split
from codebase_mcp.cli.stdio import read_message
from codebase_mcp.database.backup import ArchiveReader
from codebase_mcp.database.naming import nearest_valid_id, validate_project_id
from codebase_mcp.embedding.endpoint import Failure
from codebase_mcp.embedding.endpoint import _json as json_of_service
from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.model import Outline
from codebase_mcp.records.page import Cursor
from codebase_mcp.records.schemas.documents import accept_schema
from codebase_mcp.records.transfer import read_line, scan_lines
from codebase_mcp.search.query import parse_query
from codebase_mcp.search.scope import directory_matcher
from codebase_mcp.secrets.masking import mask, mask_values
from codebase_mcp.secrets.names import is_secret_name, is_secret_text
from codebase_mcp.settings.loading import SETTINGS, Settings
from codebase_mcp.settings.repository import read_context
from codebase_mcp.source.ignore import Attributes, parse_rules, translate
from codebase_mcp.source.remote import masked, parse_remote
from codebase_mcp.symbols.lookup import name_parts, parse_place
from codebase_mcp.tools.catalog import tools_of
from codebase_mcp.tools.rules import check_moment
from codebase_mcp.web.calling import read_object

CONTEXT = b'project = "my-app"\n[git]\nignore_patterns = ["*.log", "/docs"]\ndepth = 100\n'
PATTERNS = (b"*.log\n!/keep\n**/b[a-z]?/\\*\n", b"[[:alpha:]!-]**\n\\ \n#x\n")
ATTRIBUTES = b'*.py linguist-generated=true -linguist-vendored\n"a\\tb" linguist-vendored\n'
RECORD = (
    '{"kind":"header","format":1,"program":"0.1.0"}\n'
    '{"kind":"task","id":"2c1b1b1e-5f8e-4f5e-9d8e-1f2d3c4b5a69","title":"x","status":"open"}\n'
)
CALL = (
    '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"a":[1.5e3]}}}'
)
QUESTIONS = (
    b'{"query":"where are retries","expected":["src/retry.py:10-20"]}\n',
    b'[{"query":"a","expected":[{"path":"b.py","start_line":1}]}]',
    b"where are retries\tsrc/retry.py:3\n",
)
# fmt: off
CODE = {
    "python": "class A(b.C):\n    @d\n    def f(self, x: int = g(1)) -> 'y':\n        return x\n",
    "typescript": "import {a as b} from './c';\nclass D<T> extends b.E { f = () => <g h/>; }\n",
    "go": 'package a\nimport b "c/d"\nfunc (e *F) G(h ...int) (i, j K) { go b.L(`m`) }\n',
    "rust": "use a::{b, c as d};\nimpl<'a, T: E> F for G<'a, T> { fn h() -> I { j!(k) } }\n",
    "java": "import a.b.C;\n@D public class E<F> extends G { H i() { return new J().k(); } }\n",
    "c": '#include "a.h"\n#define B(c) d(c)\nstatic struct e *f(int g[]) { return (e){0}; }\n',
    "cpp": "namespace a { template<class B> B operator+(C<B>& d) { return ::e::f<B>(d); } }\n",
    "ruby": "require 'a'\nmodule B\n  class C < D\n    def e!(f = <<~G)\n      x\n    G\n    end\n",
    "php": "<?php use A\\B; class C { function d(?int $e) { return fn() => $e?->f(); } }\n",
    "markdown": "# A\n\n> - [b](c)\n\n```python\ndef d(): pass\n```\n<e>\n",
    "yaml": "a: &b\n  - ? c\n    : |\n      d\n  - *b\n",
    "html": "<a b='c'><script>let d = 1</script><style>e {}</style>\n",
    "bash": "a() { cat <<'B' | c \"$(d `e`)\"\nf\nB\n}\n",
    "sql": "CREATE FUNCTION a() RETURNS b AS $$ SELECT * FROM c; $$ LANGUAGE sql;\n",
}
# fmt: on


def backup() -> bytes:
    """The beginning of an archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, text in (("manifest.json", b'{"format":1}'), ("task/000001", b"PGCOPY\n")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return content.getvalue()


BACKUP = backup()


@fuzzed
@given(
    bytes_like(CONTEXT)
    | JSON.map(repr).map(lambda text: f"project = {text}".encode(errors="replace"))
)
def test_context_files(content: bytes) -> None:
    context = ContextText(Path("/x/.mcp-context.toml"), content)
    with suppress(InvalidInput):
        project_in(context)
    assert read_context(context) is not None


@fuzzed
@given(
    st.sampled_from(SETTINGS),
    text_like("1", "true", "http://a:1/b", "a, b", "postgresql://u:p@h/d"),
)
def test_settings(setting: Any, text: str) -> None:
    with suppress(InvalidInput):
        Settings.load({setting.variable: text})


@fuzzed
@given(bytes_like(*PATTERNS), st.lists(bytes_like(b"a/b.log", b"keep"), max_size=5))
def test_ignore_files_and_attributes(text: bytes, paths: list[bytes]) -> None:
    rules = parse_rules(text)
    attributes = Attributes(b"/x", [b""], lambda _: ATTRIBUTES + text)
    for path in paths:
        rules.verdict(path, path.rpartition(b"/")[2], is_dir=False)
        attributes.of(path)
    for line in text.splitlines():
        if (expression := translate(line)) is not None:
            re.compile(expression, re.DOTALL)


@fuzzed
@given(bytes_like(ATTRIBUTES), bytes_like(b"a.py"))
def test_attribute_files(text: bytes, path: bytes) -> None:
    Attributes(b"/x", [b""], lambda _: text).of(path)


@pytest.mark.parametrize("language", CODE)
@fuzzed
@given(data=st.data())
def test_code(language: str, data: st.DataObject) -> None:
    text = data.draw(text_like(CODE[language]))
    outline = split(text.encode(errors="replace").decode(), language)
    assert isinstance(outline, Outline)


@fuzzed
@given(
    text_like("password = 'hunter2hunter2'", "AKIAIOSFODNN7EXAMPLE", "-----BEGIN RSA PRIVATE KEY")
)
def test_secrets(text: str) -> None:
    hidden = mask(text)
    assert len(hidden.text) == len(text)
    is_secret_text("a/.env", text)
    is_secret_name(text)


@fuzzed
@given(JSON)
def test_secrets_in_values(value: Any) -> None:
    shown, _ = mask_values({"a": value})
    json.dumps(shown)


@fuzzed
@given(bytes_like(BACKUP), st.booleans())
def test_backups(content: bytes, is_packed: bool) -> None:
    packed = gzip.compress(content, 1) if is_packed else content
    with suppress(InvalidInput):
        reader = ArchiveReader(io.BytesIO(packed), "x")
        for table in ("task", "a"):
            list(reader.pieces(table))
        reader.check_end({"task": 0})


@fuzzed
@given(text_like(RECORD, *RECORD.splitlines()))
@example('{"kind":"task","title":' + "[" * 900 + "]" * 900 + "}")
def test_records_to_import(text: str) -> None:
    with suppress(InvalidInput):
        read_line(text)
    with suppress(InvalidInput):
        scan_lines(io.BytesIO(text.encode(errors="replace")))


@fuzzed
@given(st.sampled_from(["task", "observation", "entity", "entity_type", "anchor"]), JSON)
def test_records_of_strange_values(kind: str, value: Any) -> None:
    for content in ({"kind": kind, "id": value}, value if isinstance(value, dict) else {}):
        with suppress(InvalidInput):
            read_line(json.dumps({"kind": kind} | content))


@fuzzed
@given(text_like(Cursor.encoded.__doc__ or "", "MjAyNC0wMS0wMVQwMDowMDowMCswMDowMCAw"))
def test_cursors_times_and_names(text: str) -> None:
    for parse in (Cursor.decoded, parse_remote, validate_project_id, directory_matcher):
        with suppress(InvalidInput):
            parse(text)
    with suppress(InvalidInput):
        check_moment(text, "since")
    validate_project_id(nearest_valid_id(text))
    masked(text)
    parse_query(text)
    parse_place(text)
    name_parts(text)


@fuzzed
@given(text_like(CALL, "[]", '{"id":1}'))
def test_lines_on_stdio(line: str) -> None:
    _, refusal = read_message(line.encode(errors="replace").decode())
    assert refusal is None or isinstance(refusal, JSONRPCError)


@fuzzed
@given(bytes_like(*QUESTIONS), st.sampled_from(["q.jsonl", "q.json", "q.txt"]))
def test_questions_of_an_evaluation(content: bytes, name: str) -> None:
    with suppress(InvalidInput):
        read_questions(name, content)


@fuzzed
@given(bytes_like(b'{"query":"x","limit":5,"filter":{"languages":["python"]}}'))
def test_bodies(content: bytes) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    headers = [(b"content-type", b"application/json")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    with suppress(InvalidInput):
        asyncio.run(read_object(request))
    with suppress(Failure):
        json_of_service(content)


TOOLS = tools_of(["code", "tasks", "memory", "entities", "symbols", "vcs"])


@fuzzed
@given(data=st.data())
def test_arguments(data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(TOOLS))
    names = st.sampled_from(list(spec.input_schema()["properties"])) | st.text(max_size=9)
    arguments = data.draw(st.dictionaries(names, JSON | ANY_TEXT, max_size=4))
    with suppress(CodebaseError):
        spec.arguments_for(arguments).checked(arguments)


KEYWORDS = ["type", "properties", "items", "pattern", "$ref", "allOf", "enum", "required", "not"]


@fuzzed
@given(st.recursive(
    JSON | st.sampled_from(["object", "#", "#/properties/a", "^(a+)+$", "string"]),
    lambda inner: st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), inner, max_size=3),
), JSON)  # fmt: skip
def test_entity_schemas(schema: Any, value: Any) -> None:
    with suppress(InvalidInput):
        accepted = accept_schema({"type": "object", "properties": {"a": schema}})
        accepted.problems({"a": value})
