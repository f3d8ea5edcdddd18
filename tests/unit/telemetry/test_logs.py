"""What a log line says, and what it never says."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from codebase_mcp.telemetry import logs
from codebase_mcp.telemetry.stopwatch import bound

Stderr = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def lines(stderr: Stderr) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stderr.readouterr().err.splitlines()]


def test_a_json_line_says_when_how_bad_who_and_what(capsys: Stderr) -> None:
    logs.configure("INFO", "json")
    with bound(tool="search_code", duration_ms=12.5):
        logging.getLogger("codebase_mcp.test").warning("took %d ms", 12)
    [line] = lines(capsys)
    assert line.pop("ts").endswith("+00:00")
    assert line == {
        "level": "WARNING",
        "logger": "codebase_mcp.test",
        "message": "took 12 ms",
        "tool": "search_code",
        "duration_ms": 12.5,
    }


def test_an_error_is_one_json_line_with_its_traceback(capsys: Stderr) -> None:
    logs.configure("INFO", "json")
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        with bound(error_id="e-1"):
            logging.getLogger("codebase_mcp.test").error("unforeseen", exc_info=error)
    [line] = lines(capsys)
    assert line["error_id"] == "e-1"
    assert line["traceback"].startswith("Traceback") and "two\nlines" in line["traceback"]


def test_fields_end_with_their_block(capsys: Stderr) -> None:
    logs.configure("INFO", "json")
    log = logging.getLogger("codebase_mcp.test")
    with bound(tool="outer"):
        with bound(tool="inner", step=1):
            log.warning("a")
        log.warning("b")
    log.warning("c")
    assert [(line.get("tool"), line.get("step")) for line in lines(capsys)] == [
        ("inner", 1),
        ("outer", None),
        (None, None),
    ]


def test_text_is_for_people(capsys: Stderr) -> None:
    logs.configure("INFO", "text")
    logging.getLogger("codebase_mcp.test").info("hello")
    assert capsys.readouterr().err.endswith(" INFO codebase_mcp.test: hello\n")


def test_what_is_below_the_level_is_not_logged(capsys: Stderr) -> None:
    logs.configure("WARNING", "json")
    logging.getLogger("codebase_mcp.test").info("hello")
    assert capsys.readouterr().err == ""


def test_warnings_of_libraries_are_lines_too(capsys: Stderr) -> None:
    logs.configure("INFO", "json")
    # pytest records warnings instead of showing them, so the logger is spoken to as Python does.
    logging.getLogger("py.warnings").warning("old: use new")
    assert lines(capsys)[0]["logger"] == "py.warnings"


def test_libraries_with_handlers_of_their_own_log_as_we_do(capsys: Stderr) -> None:
    library = logging.getLogger("fastmcp")
    kept, propagated = library.handlers[:], library.propagate
    try:
        logs.configure("INFO", "json")
        library.handlers[:] = [logging.StreamHandler()]
        library.propagate = False
        logs.adopt_libraries()
        logging.getLogger("fastmcp.server").warning("from the library")
    finally:
        library.handlers[:], library.propagate = kept, propagated
    assert [line["message"] for line in lines(capsys)] == ["from the library"]


SECRETS = ("postgresql://alice:p%40ss-w0rd@db.example.org/app", "sk-test-0123456789")


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "message",
    [
        "cannot connect to postgresql://alice:p%40ss-w0rd@db.example.org/app",
        "connection failed for password 'p@ss-w0rd'",
        "password p%40ss-w0rd was refused",
        "refused: sk-test-0123456789",
        "GET http://bob:p@ss-w0rd@proxy/",
        "Authorization: Bearer p@ss-w0rd-of-another",
        "headers {'authorization': 'Basic p@ss-w0rd+of+another'}",
        "conninfo host=db password=p@ss-w0rd dbname=app",
        "url https://x.example?api_key=p@ss-w0rd&a=1",
        "GET http://bob:p@ss/p@ss-w0rd@proxy/",
        "GET http://sk-test@proxy/",
    ],
)
def test_credentials_never_reach_the_log(capsys: Stderr, form: str, message: str) -> None:
    logs.configure("INFO", form, SECRETS)
    try:
        raise ValueError(message)
    except ValueError as error:
        with bound(where=message):
            logging.getLogger("codebase_mcp.test").error("%s", message, exc_info=error)
    written = capsys.readouterr().err
    assert "***" in written
    for secret in ("p@ss-w0rd", "p%40ss-w0rd", "sk-test"):
        assert secret not in written


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://u:hunter2@Secret9@host/d", "failed to resolve host 'Secret9@host'"),
        ("postgresql://u:Secret9/hunter2@host/d", 'invalid port "Secret9"'),
        ("postgresql://u:12/Secret9@host/d", 'database "Secret9@host/d" does not exist'),
        ("postgresql://Secret9:p@host/d", 'authentication failed for user "Secret9"'),
        ("postgresql://Secr%65t9:p@host/d", "Benutzer »Secret9« existiert nicht"),
        ("http://hunter2:Secret9@proxy/", "refused: Secret9"),
    ],
)
def test_no_piece_of_a_urls_user_information_reaches_the_log(url: str, message: str) -> None:
    shown = logs.Redactor([url])(message)
    assert "Secret9" not in shown
    assert logs.HIDDEN in shown


@pytest.mark.parametrize(
    "text",
    [
        "indexed 12 files of http://localhost:3000/mcp in 3 s",
        "tokens: 12; the token table has 30 rows",
        "postgresql://db.example.org:5432/app",
        "a@b.example wrote 10:30@home",
    ],
)
def test_what_is_no_credential_is_left_alone(text: str) -> None:
    assert logs.Redactor(SECRETS)(text) == text


def test_a_fault_is_logged_once_a_second_and_counted(capsys: Stderr) -> None:
    logs.configure("INFO", "json")
    log = logging.getLogger("codebase_mcp.test")
    times = [(100.0, "full"), (100.2, "full"), (100.3, "late"), (100.9, "full"), (101.1, "full")]
    for created, fault in times:
        record = log.makeRecord(log.name, logging.ERROR, "", 0, "it is %s", (fault,), None)
        record.created = created
        log.handle(record)
    assert [line["message"] for line in lines(capsys)] == [
        "it is full",
        "it is late",
        "it is full (2 repetitions suppressed)",
    ]


def test_what_is_no_fault_is_logged_each_time(capsys: Stderr) -> None:
    logs.configure("INFO", "json")
    for _ in range(3):
        logging.getLogger("codebase_mcp.test").info("looked")
    assert len(lines(capsys)) == 3


def test_logging_twice_writes_once(capsys: Stderr) -> None:
    logs.configure("INFO", "json")
    logs.configure("INFO", "json")
    logging.getLogger("codebase_mcp.test").warning("once")
    assert len(lines(capsys)) == 1


def test_the_line_about_a_request_does_not_say_what_was_searched_for(capsys: Stderr) -> None:
    logs.configure("DEBUG", "json")
    request = ("127.0.0.1:1", "GET", "/search?q=maple.anchor.1", "1.1", 200)
    logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', *request)
    [line] = lines(capsys)
    assert line["message"] == '127.0.0.1:1 - "GET /search HTTP/1.1" 200'
