"""Which failures are worth another try, and how long one waits for it."""

from __future__ import annotations

import pytest

from codebase_mcp.embedding.failures import Failure, Kind, Patience, failure_of


def delays(patience: Patience, failure: Failure) -> list[float]:
    found: list[float] = []
    while (delay := patience.delay_s(len(found) + 1, sum(found), failure)) is not None:
        found.append(delay)
    return found


@pytest.mark.parametrize("status", [None, 408, 425, 429, 500, 502, 503, 504, 529])
def test_what_passes_is_tried_four_times_within_ten_seconds(status: int | None) -> None:
    kind: Kind | None = "cut" if status is None else None
    found = delays(Patience(), Failure("", status=status, kind=kind))
    assert len(found) == 3
    assert found == sorted(found)
    assert sum(found) < 10


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 405, 413, 422, 501])
def test_what_stays_is_not_tried_again(status: int) -> None:
    assert delays(Patience(), Failure("", status=status)) == []


@pytest.mark.parametrize("kind", ["away", "slow"])
def test_a_service_that_is_away_or_hangs_is_asked_twice(kind: Kind) -> None:
    assert len(delays(Patience(), Failure("", kind=kind))) == 1


def test_a_service_is_waited_for_as_long_as_it_says_and_no_longer_than_patience() -> None:
    failure = Failure("", status=429, retry_after_s=3.0)
    assert delays(Patience(max_wait_s=10), failure) == [3.0, 3.0, 3.0]
    assert len(delays(Patience(max_wait_s=121), failure)) >= 8
    assert delays(Patience(max_wait_s=2), failure) == []


def test_waiting_is_not_the_same_for_all_who_failed_together() -> None:
    failure = Failure("", status=503)
    assert len({Patience().delay_s(1, 0.0, failure) for _ in range(20)}) > 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, '{"error": "model \\"m\\" not found, try pulling it first"}', "no_model"),
        (404, '{"error": "model \'m\' not found"}', "no_model"),
        (404, "404 page not found", "stranger"),
        (404, '{"detail": "Not Found"}', "stranger"),
        (400, '{"error": {"message": "x", "code": "model_not_found"}}', "no_model"),
        (400, '{"error": "\\"m\\" does not support embeddings"}', "no_embedding"),
        (
            400,
            '{"error": {"message": "The model does not support Embeddings API"}}',
            "no_embedding",
        ),
        (400, '{"error": "the input length exceeds the context length"}', "broken"),
        (429, '{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}', "limited"),
        (429, '{"error": {"message": "x", "code": "insufficient_quota"}}', "quota"),
        (401, "", "denied"),
        (403, "<html>", "denied"),
        (307, "", "stranger"),
        (500, "", "broken"),
        (400, '{"error": {"message": {"no": "text"}, "code": 7}}', "broken"),
        (422, '{"detail": [{"loc": ["body"], "msg": "x"}]}', "broken"),
        (500, "[" * 100_000, "broken"),
        (500, "null", "broken"),
    ],
)
def test_the_kind_of_a_failure_is_known_by_status_and_words(
    status: int, body: str, kind: Kind
) -> None:
    assert failure_of(status, {}, body.encode(), []).kind == kind


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": "one\\n two"}', "one two (status 500)"),
        (b'{"error": {"message": "hunter2 sk-abc Bearer xyz."}}', "… sk-… Bearer … (status 500)"),
        (b'{"message": "m"}', "m (status 500)"),
        (b"plain \xff words", "plain \ufffd words (status 500)"),
        (b"<html><h1>Bad Gateway</h1>", "status 500"),
        (b"", "status 500"),
        (b"x" * 5000, "x" * 200 + " (status 500)"),
    ],
)
def test_what_a_service_says_is_told_in_a_line_without_secrets(body: bytes, message: str) -> None:
    assert str(failure_of(500, {}, body, ["hunter2"])) == message
