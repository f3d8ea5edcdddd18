"""Which files are secrets as a whole?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from codebase_mcp.secrets.names import is_secret_name, is_secret_text

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from masking import CORPUS, read_forms

PEM = next(form.text for form in read_forms(CORPUS / "forms.jsonl") if form.id == "pem-rsa")

SECRETS = (
    ".env .env.local app/.env.production prod.env .envrc id_rsa deploy/id_ed25519 id_rsa_work"
    " server.pem tls.KEY a.p12 a.pfx a.jks a.kdbx a.ppk home/.aws/credentials .git-credentials"
    " .netrc _netrc .pypirc .docker/config.json .dockercfg main.tfstate main.tfstate.backup"
    " kubeconfig .kube/config .htpasswd .pgpass service-account.json client_secret_12.json"
    " secrets.yaml .vault-token"
)
OTHERS = (
    ".env.example .env.sample .env.template app/.env.production.example env.py environment.ts"
    " id_rsa.pub id_ed25519.pub ca.crt keys.py key.go src/secrets.py credentials config.json"
    " docker/config.json .npmrc main.tf secret.go"
)


@pytest.mark.parametrize("path", SECRETS.split())
def test_secrets_are_known_by_their_names(path: str) -> None:
    assert is_secret_name(path)


@pytest.mark.parametrize("path", OTHERS.split())
def test_other_files_are_not(path: str) -> None:
    assert not is_secret_name(path)


@pytest.mark.parametrize(
    ("path", "text", "is_secret"),
    [
        ("notes.txt", PEM, True),
        ("notes.txt", f"# the server's key\n{PEM}\n", True),
        ("test_tls.py", f"KEY = '''{PEM}'''\n" + "def test_it(): ...\n" * 60, False),
        ("g.json", '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY"}', True),
        ("g.json", '{"type": "other", "text": "no PRIVATE KEY here, but words and words"}', False),
        (".npmrc", "registry=https://r.example.com\n//r.example.com/:_authToken=abc\n", True),
        (".npmrc", "//r.example.com/:_authToken=${NPM_TOKEN}\n", False),
        ("main.py", "print('hello')\n", False),
    ],
)
def test_some_are_known_by_their_content(path: str, text: str, is_secret: bool) -> None:
    assert is_secret_text(path, text) is is_secret
