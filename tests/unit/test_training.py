"""What the built-in model learns from: is it mined as promised, and are the judges left out?"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAINING = ROOT / "training"

sys.path.insert(0, str(TRAINING))
try:
    from draw import is_askable, snippet_id
    from everyday import items, judged, plain
    from mine import JUDGES, PLAIN_WORDS, excluded_folder, excluded_names, pairs_of
finally:
    sys.path.remove(str(TRAINING))


def judges() -> list[str]:
    return [json.loads(path.read_text("utf-8"))["repository"] for path in JUDGES.glob("*.json")]


def sources() -> set[str]:
    listed = json.loads((TRAINING / "sources.json").read_text("utf-8"))
    packages = {p for group in listed["debian"]["packages"].values() for p in group}
    return {
        name.lower() for name in {*packages, *listed["pypi"], *listed["npm"], *listed["github"]}
    }


def test_no_repository_that_judges_is_a_source() -> None:
    names = {name for judge in judges() for name in (judge.lower(), judge.lower().split("/")[1])}

    assert len(judges()) >= 10
    assert not (names - PLAIN_WORDS) & sources()


def test_a_copy_of_a_repository_that_judges_is_recognised_by_its_folder(tmp_path: Path) -> None:
    listed = tmp_path / "excluded.json"
    listed.write_text('["pallets/flask", "nlohmann/json"]', "utf-8")
    excluded = excluded_folder(excluded_names(listed))

    assert excluded.search("vendor-free/flask/app.py")
    assert excluded.search("src/nlohmann/value.hpp")
    assert excluded.search("lib/gogs/user.go")
    assert excluded.search("lib/python-flask-2.0/app.py")
    assert not excluded.search("lib/json/parser.c")
    assert not excluded.search("lib/flasks/app.py")


def test_no_question_of_a_judge_is_learned() -> None:
    learned = {
        plain(phrase) for item in items(TRAINING, Path("/dev/null")) for phrase in item.phrases
    }

    assert len(learned) > 5000
    assert not learned & judged()


def test_concepts_and_questions_are_whole() -> None:
    for path in TRAINING.glob("concepts/*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            concept = json.loads(line)
            assert len(concept["say"]) >= 3, line
            assert len(concept["code"]) >= 3, line
    ids = []
    for path in TRAINING.glob("questions/*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            question = json.loads(line)
            assert question["ask"], line
            ids.append(question["id"])
    assert all(re.fullmatch(r"[0-9a-f]{12}", name) for name in ids)
    assert len(set(ids)) == len(ids) > 5000


PYTHON = '''
def reset_password(account):
    """Send a link by which somebody who forgot it can choose a new one."""
    token = tokens.make(account)
    if account.locked:
        raise Refused("This account has been locked by its owner")
    mail.send(account.address, render("reset.txt", token=token))


def test_refuses_an_address_that_nobody_has(client):
    answer = client.post("/reset", {"address": "nobody@example.org"})
    assert answer.status_code == 404
    assert not outbox
'''
SCRIPT = """
it("throws away what was not asked for in a while", () => {
  const cache = new Cache({ maxAge: 10 });
  cache.set("a", 1);
  clock.tick(11);
  expect(cache.get("a")).toBeUndefined();
});
"""
README = """
# Retry

Wait a little longer after each attempt, and give up after five:

```python
@retry(attempts=5, wait=exponential(first=0.1, most=10))
def fetch(url):
    return session.get(url, timeout=3).json()
```
"""


@pytest.mark.parametrize(
    ("text", "language", "kind", "words", "in_code"),
    [
        (PYTHON, "python", "doc", "Send a link by which somebody who forgot it", "tokens.make"),
        (PYTHON, "python", "name", "reset password", "mail.send"),
        (PYTHON, "python", "message", "this account has been locked by its owner", "raise Refused"),
        (PYTHON, "python", "test", "refuses an address that nobody has", "client.post"),
        (SCRIPT, "javascript", "test", "throws away what was not asked for in a while", "clock"),
        (README, "prose", "prose", "Wait a little longer after each attempt", "exponential"),
    ],
)
def test_words_are_paired_with_the_code_they_stand_for(
    text: str, language: str, kind: str, words: str, in_code: str
) -> None:
    (pair,) = [p for p in pairs_of(text, language, "sample") if p.kind == kind]

    assert pair.words.startswith(words)
    assert in_code in pair.code
    assert pair.words not in pair.code


def test_a_snippet_is_known_by_its_code_alone() -> None:
    assert snippet_id("x = 1") == snippet_id("x = 1") != snippet_id("x = 2")
    assert re.fullmatch(r"[0-9a-f]{12}", snippet_id("x = 1"))


def test_tests_and_data_are_nothing_to_ask_about() -> None:
    function = PYTHON.split("\n\n\n", maxsplit=1)[0].strip()

    assert is_askable(function)
    assert not is_askable(PYTHON.split("\n\n\n")[1].strip())
    assert not is_askable("codes = [\n" + "    0x4f, 0x22,\n" * 20 + "]")
