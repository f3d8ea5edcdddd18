"""Which files are secrets as a whole?

By their names, or by the little that they hold beside a key. Certificates are public and stay.
"""

from __future__ import annotations

import re

from codebase_mcp.secrets.masking import mask
from codebase_mcp.secrets.token_words import may_hold_token

_NAMES = frozenset(
    ".git-credentials .netrc _netrc .pypirc .htpasswd .pgpass .my.cnf .s3cfg .boto .dockercfg"
    " .vault-token .terraformrc kubeconfig .env .envrc secrets.yaml secrets.yml secrets.toml"
    " credentials.tfrc.json master.key .vault_pass .vault-pass .rediscli_auth".split()
)
_ENDINGS = (
    *(".pem", ".key", ".p12", ".pfx", ".p8", ".jks", ".keystore", ".kdbx", ".kdb", ".ppk"),
    *(".tfstate", ".tfstate.backup", ".kubeconfig", ".ovpn", ".agekey"),
)
_FOLDERS_AND_NAMES = (
    "/.aws/credentials",
    "/.docker/config.json",
    "/.kube/config",
    "/.cargo/credentials",
    "/.cargo/credentials.toml",
    "/.config/gh/hosts.yml",
    "/.gem/credentials",
    "/.azure/accesstokens.json",
)
_PATTERNS = re.compile(
    r"\.env\.[^/]+|[^/]+\.env"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?(?:[-_.](?!pub$)[^/.]+)?"
    r"|client_secrets?(?:_[^/]*)?\.json|service[-_]?account(?:[-_]key)?\.json"
)
_TEMPLATES = (".example", ".sample", ".template", ".dist", ".tmpl", ".tpl", ".defaults", ".schema")

_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END[^\n]*|\Z)", re.DOTALL
)
_SERVICE_ACCOUNT = re.compile(r'"type"\s*:\s*"service_account"')
_NPM_TOKEN = re.compile(r"(?m)^[^#;\n]*_(?:authToken|auth|password)\s*=\s*(?!\$\{)\S")
_SHORTEST_TOKEN = 20
_PLAIN = re.compile(r"[\w./+~,-]*", re.ASCII)
# What a file may hold beside its private keys, in characters of each hundred.
_MOST_BESIDE = 50


def is_secret_name(path: str) -> bool:
    """Whether a file with this path, with forward slashes, is a secret."""
    lower = path.lower()
    name = lower[lower.rfind("/") + 1 :]
    if name.endswith(_TEMPLATES):
        return False
    return (
        name in _NAMES
        or name.endswith(_ENDINGS)
        or _PATTERNS.fullmatch(name) is not None
        or f"/{lower}".endswith(_FOLDERS_AND_NAMES)
    )


def has_secret_in_name(path: str) -> bool:
    """Whether a path holds a token or the like itself, so that it cannot be shown.

    All rules take 75 us a path, and most paths lack the signs that all but tokens need.
    """
    if len(path) < _SHORTEST_TOKEN:
        return False
    is_plain = _PLAIN.fullmatch(path) is not None and not may_hold_token(path.encode())
    return not is_plain and mask(path).kinds != ()


def is_secret_text(path: str, text: str) -> bool:
    """Whether a file is a secret by its content: mostly private keys, or an account's key."""
    if path.endswith(".npmrc"):
        return _NPM_TOKEN.search(text) is not None
    if "PRIVATE KEY" not in text:
        return False
    if path.endswith(".json") and _SERVICE_ACCOUNT.search(text):
        return True
    beside = len(_KEY_BLOCK.sub("", text).strip())
    return beside * 100 < len(text) * _MOST_BESIDE
