"""Secrets become stars, and the rest of a text stays as it is."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.secrets.masking import SECRETS_VERSION, begins_with_masked, mask

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from masking import CORPUS, LEAST_RECALL, MOST_FALSE_ALARMS, Form, main, missed_in, read_forms

FORMS = read_forms(CORPUS / "forms.jsonl")


def test_the_secrets_of_the_corpus_are_masked_and_their_look_alikes_are_not() -> None:
    missed = missed_in(FORMS)
    assert len(missed) <= (1 - LEAST_RECALL) * sum(len(form.secrets) for form in FORMS)
    others = read_forms(CORPUS / "negatives.jsonl")
    masked = [form.id for form in others if mask(form.text).kinds]
    assert len(masked) <= MOST_FALSE_ALARMS * len(others)


@pytest.mark.parametrize(
    "form", [f for f in FORMS if f.category == "crlf"], ids=lambda form: form.id
)
def test_line_ends_of_windows_hide_no_secret(form: Form) -> None:
    assert "\r\n" in form.text
    assert missed_in([form]) == []


def test_the_benchmark_fails_where_real_files_are_masked(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("password = 'Tr0ub4dor" + "&3'\n" * 2)
    (tmp_path / "two.py").write_text("x = 1\n")
    assert main(["--trees", str(tmp_path)]) == 0
    (tmp_path / "three.py").write_text("pwd = 'Tr0ub4dor" + "&3'\n")
    assert main(["--trees", str(tmp_path)]) == 1


@pytest.mark.parametrize(
    "text",
    [
        'password = os.environ["DB_PASSWORD"]',
        "self.password = password",
        'PASSWORD = "password"',
        'CONF_SECRET_KEY = "secret_key"',
        "token = get_token(user_id=5)",
        'password = "${DB_PASSWORD}"',
        'api_key="YOUR_API_KEY_HERE_123"',
        "url = 'http://user:pass@example.org/'",
        "postgresql://codebase_mcp:…@db:5432/code_index",
        'next_token = "3f2504e04f8911d39a0c0305e82c3301"',
        'cache_key = "3f2504e04f8911d39a0c0305e82c3301"',
        "commit 3f2504e04f8911d39a0c0305e82c33013f2504e0",
        'integrity: "sha512-3f2504e04f8911d39a0c0305e82c33013f2504e0"',
        "class EllipticCurvePrivateKeyWithSerialization: pass",
        "PRIVATE_KEY_CLS = EllipticCurvePrivateKeyWithSerialization",
        "Authorization: Bearer YOUR_TOKEN_HERE",
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text).text == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password = 'it''s-Zebra9'", "it''s-Zebra9"),
        ('pwd = "Ab""cd""7x"', 'Ab""cd""7x'),
        ('password: "R0te Gr\\"utze"', 'R0te Gr\\"utze'),
        ('"{""password"":""Tulpe-77x""}"', "Tulpe-77x"),
        ("Driver={x};UID=u;PWD={a;b-Wal}}3};", "a;b-Wal}}3"),
    ],
)
def test_quotes_within_a_secret_do_not_end_it(text: str, secret: str) -> None:
    assert mask(text).text == text.replace(secret, "*" * len(secret))


@pytest.mark.parametrize("lead", ["", "é€😀 = 1\n", "\r\n\r\n"])
def test_lines_and_columns_stay(lead: str) -> None:
    before = f'{lead}password = "Tr0ub4dör' + "&3\"  # a comment\nlogin(name, password='x')\n"
    masked = mask(before)
    assert masked.kinds == ("password",)
    assert masked.text == before.replace("Tr0ub4dör&3", "*" * 11)


def test_the_lines_of_a_private_key_stay_lines() -> None:
    text = next(form.text for form in FORMS if form.id == "pem-java-plus-lines")
    masked = mask(text).text
    assert [len(line) for line in masked.split("\n")] == [len(line) for line in text.split("\n")]
    assert masked.startswith("static final String KEY")


@given(st.text(), st.text())
def test_any_text_keeps_its_length_and_agrees_with_its_masked_form(before: str, after: str) -> None:
    text = f'{before}\npassword = "Tr0ub4dor' + f'&3"\n{after}'
    masked = mask(text).text
    assert "Tr0ub4dor" not in masked
    assert len(masked) == len(text)
    assert begins_with_masked(text + "more", masked)


def test_stars_stand_for_any_secret_of_the_same_length_and_for_nothing_else() -> None:
    masked = 'password = "********"\nend\n'
    assert begins_with_masked('password = "Tr0ub4d!"\nend\n', masked)
    assert not begins_with_masked('password = "Tr0ub4d!!"\nend\n', masked)
    assert not begins_with_masked('password = "Tr0ub4d!"\nended\n', masked)
    assert not begins_with_masked('password = "Tr0\n4d!"\nend\n', masked)
    assert not begins_with_masked("other", "text")


def test_another_detector_makes_indexes_outdated() -> None:
    """If this fails, increment SECRETS_VERSION and write both down here."""
    assert (SECRETS_VERSION, version("kingfisher-secret-scanner")) == (4, "1.5.0")


def test_a_key_of_our_own_is_masked_however_few_digits_it_has() -> None:
    key = "cbm_xFthWMGNdvA4_" + "yulwEnKyhPIKaMVRuOWlUTPHOsQrBUvZQuiUoSSMVcx"
    assert key[4:] not in mask(f"curl -H 'X: {key}' # how it is called").text
