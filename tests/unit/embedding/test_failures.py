"""Which failures are worth another try, and how long one waits for it."""

from __future__ import annotations

import pytest

from codebase_mcp.embedding.endpoint import Failure, FailureKind, RetryPolicy, failure_of_response


def delays(policy: RetryPolicy, failure: Failure) -> list[float]:
    found: list[float] = []
    while (delay := policy.delay_s(len(found) + 1, sum(found), failure)) is not None:
        found.append(delay)
    return found


@pytest.mark.parametrize("status", [None, 408, 425, 429, 500, 502, 503, 504, 529])
def test_transient_errors_are_retried_four_times_within_ten_seconds(status: int | None) -> None:
    kind: FailureKind | None = "connection_lost" if status is None else None
    found = delays(RetryPolicy(), Failure("", status=status, kind=kind))
    assert len(found) == 3
    assert found == sorted(found)
    assert sum(found) < 10


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 405, 413, 422, 501])
def test_permanent_errors_are_not_retried(status: int) -> None:
    assert delays(RetryPolicy(), Failure("", status=status)) == []


@pytest.mark.parametrize("kind", ["unreachable", "timeout"])
def test_an_unavailable_or_hanging_service_is_tried_twice(kind: FailureKind) -> None:
    assert len(delays(RetryPolicy(), Failure("", kind=kind))) == 1


def test_retry_after_is_honoured_up_to_the_maximum_wait() -> None:
    failure = Failure("", status=429, retry_after_s=3.0)
    assert delays(RetryPolicy(max_wait_s=10), failure) == [3.0, 3.0, 3.0]
    assert len(delays(RetryPolicy(max_wait_s=121), failure)) >= 8
    assert delays(RetryPolicy(max_wait_s=2), failure) == []


def test_the_delays_of_concurrent_failures_have_jitter() -> None:
    failure = Failure("", status=503)
    assert len({RetryPolicy().delay_s(1, 0.0, failure) for _ in range(20)}) > 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, '{"error": "model \\"m\\" not found, try pulling it first"}', "model_not_found"),
        (404, '{"error": "model \'m\' not found"}', "model_not_found"),
        (404, "404 page not found", "unexpected_service"),
        (404, '{"detail": "Not Found"}', "unexpected_service"),
        (400, '{"error": {"message": "x", "code": "model_not_found"}}', "model_not_found"),
        (400, '{"error": "\\"m\\" does not support embeddings"}', "not_an_embedding_model"),
        (
            400,
            '{"error": {"message": "The model does not support Embeddings API"}}',
            "not_an_embedding_model",
        ),
        (400, '{"error": "the input length exceeds the context length"}', "service_error"),
        (429, '{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}', "rate_limited"),
        (429, '{"error": {"message": "x", "code": "insufficient_quota"}}', "quota_exceeded"),
        (401, "", "unauthorized"),
        (403, "<html>", "unauthorized"),
        (307, "", "unexpected_service"),
        (500, "", "service_error"),
        (400, '{"error": {"message": {"no": "text"}, "code": 7}}', "service_error"),
        (422, '{"detail": [{"loc": ["body"], "msg": "x"}]}', "service_error"),
        (500, "[" * 100_000, "service_error"),
        (500, "null", "service_error"),
    ],
)
def test_the_kind_of_a_failure_follows_from_status_and_message(
    status: int, body: str, kind: FailureKind
) -> None:
    assert failure_of_response(status, {}, body.encode(), []).kind == kind


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
def test_a_service_message_is_reported_in_one_line_without_secrets(
    body: bytes, message: str
) -> None:
    assert str(failure_of_response(500, {}, body, ["hunter2"])) == message
