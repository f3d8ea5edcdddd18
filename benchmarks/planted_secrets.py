"""Secrets to plant: random values in the real formats of 29 kinds, in lines as people write them.

They are made by a seeded generator, so no value is in this repository and hosting sites find none.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass

LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"

PER_KIND = 8

# How a value is written where nothing around it says what it is.
_BARE = (
    'client = Client("{}")',
    "curl -H 'X-Key: {}' https://api.example.com/v1/items",
    "TOKEN={}",
    "  token: {}",
    "const token = '{}';",
    '{{"token": "{}"}}',
    "# once worked with {} here",
    "export API_TOKEN={}  # staging",
)
# How passwords are written: only the name says that the value is one.
_PASSWORDS = (
    'password = "{}"',
    "DB_PASSWORD={}",
    "  password: {}",
    "'password' => '{}',",
    'private static final String DB_PASSWORD = "{}";',
    'login(user="admin", password="{}")',
    '  "smtp_password": "{}",',
    "spring.datasource.password={}",
)
_KEYS = (
    'api_key = "{}"',
    "SECRET_KEY = '{}'",
    "CLIENT_SECRET={}",
    'apiKey: "{}",',
    '  "auth_token": "{}",',
    "app.jwt.secret-key={}",
    'const accessToken = "{}"',
    'encryption_key: "{}"',
)
_BEARER = (
    "curl -H 'Authorization: Bearer {}' https://api.example.com",
    'headers = {{"Authorization": "Bearer {}"}}',
    "Authorization: Bearer {}",
    'req.Header.Set("Authorization", "Bearer {}")',
)
_AWS_SECRET = (
    'aws_secret_access_key = "{}"',
    "AWS_SECRET_ACCESS_KEY={}",
    'secretAccessKey: "{}"',
    'session = Session(aws_secret_access_key="{}")',
)
_URLS = (
    'engine = create_engine("postgresql://app:{}@db.example.com/shop")',
    "DATABASE_URL=postgres://app:{}@10.0.0.7:5432/shop",
    "url: mongodb+srv://root:{}@cluster0.example.mongodb.net",
    'redis.from_url("redis://:{}@cache.example.com:6379/0")',
    "git clone https://bot:{}@git.example.com/shop.git",
    "amqp://guest:{}@queue.example.com//",
)


@dataclass(frozen=True, slots=True)
class Planted:
    """A secret of a kind, and the text in which it is."""

    kind: str
    value: str
    text: str


class _Values:
    """Makes random values."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def some(self, alphabet: str, length: int) -> str:
        """Characters of an alphabet."""
        return "".join(self._random.choices(alphabet, k=length))

    def password(self) -> str:
        """What a password generator makes: 12 to 20 characters, a digit and a sign among them."""
        length = self._random.randint(10, 18)
        return self.some(string.ascii_letters, length) + self.some(string.digits, 1) + "!"

    def jwt(self) -> str:
        """A token with a header, a claim and a signature."""
        header = {"alg": "HS256", "typ": "JWT"}
        parts = [json.dumps(one).encode() for one in (header, {"sub": self.some(LOWER, 12)})]
        encoded = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts]
        return ".".join([*encoded, self.some(URL_SAFE, 43)])

    def pem(self) -> str:
        """The lines between the first and the last of a private key."""
        return "\n".join(self.some(BASE64, 64) for _ in range(6))


_Kind = tuple[Callable[[_Values], str], tuple[str, ...]]

_KINDS: dict[str, _Kind] = {
    "AWS access key": (lambda v: "AKIA" + v.some(string.ascii_uppercase + "234567", 16), _BARE),
    "AWS secret key": (lambda v: v.some(BASE64, 40), _AWS_SECRET),
    "GitHub token": (lambda v: "ghp_" + v.some(ALNUM, 36), _BARE),
    "GitHub fine-grained token": (
        lambda v: "github_pat_" + v.some(ALNUM, 22) + "_" + v.some(ALNUM, 59),
        _BARE,
    ),
    "GitLab token": (lambda v: "glpat-" + v.some(URL_SAFE[:-2], 20), _BARE),
    "Slack token": (
        lambda v: "-".join(
            ["xoxb", v.some(string.digits, 12), v.some(string.digits, 12), v.some(ALNUM, 24)]
        ),
        _BARE,
    ),
    "Slack webhook": (
        lambda v: "/".join(
            [
                "https://hooks.slack.com/services",
                "T" + v.some(UPPER, 9),
                "B" + v.some(UPPER, 9),
                v.some(ALNUM, 24),
            ]
        ),
        _BARE,
    ),
    "Stripe key": (lambda v: "sk_live_" + v.some(ALNUM, 24), _BARE),
    "SendGrid key": (lambda v: f"SG.{v.some(URL_SAFE, 22)}.{v.some(URL_SAFE, 43)}", _BARE),
    "Google API key": (lambda v: "AIza" + v.some(URL_SAFE, 35), _BARE),
    "Google OAuth secret": (lambda v: "GOCSPX-" + v.some(URL_SAFE, 28), _BARE),
    "OpenAI key": (
        lambda v: f"sk-proj-{v.some(URL_SAFE, 74)}T3BlbkFJ{v.some(URL_SAFE, 74)}",
        _BARE,
    ),
    "Anthropic key": (lambda v: f"sk-ant-api03-{v.some(URL_SAFE, 93)}AA", _BARE),
    "Hugging Face token": (lambda v: "hf_" + v.some(string.ascii_letters, 34), _BARE),
    "npm token": (lambda v: "npm_" + v.some(ALNUM, 36), _BARE),
    "PyPI token": (lambda v: "pypi-AgEIcHlwaS5vcmc" + v.some(URL_SAFE, 130), _BARE),
    "JSON web token": (_Values.jwt, (*_BARE, *_BEARER)),
    "password in a URL": (lambda v: v.some(ALNUM, 16), _URLS),
    "Azure storage key": (
        lambda v: v.some(BASE64, 86) + "==",
        (
            'conn = "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};"',
            "AZURE_STORAGE_CONNECTION_STRING=AccountName=shop;AccountKey={}",
        ),
    ),
    "Telegram bot token": (lambda v: f"{v.some('123456789', 10)}:AA{v.some(URL_SAFE, 33)}", _BARE),
    "Discord bot token": (
        lambda v: f"M{v.some(ALNUM, 23)}.{v.some(ALNUM, 6)}.{v.some(URL_SAFE, 27)}",
        _BARE,
    ),
    "Twilio key": (lambda v: "SK" + v.some(HEX, 32), _BARE),
    "Shopify token": (lambda v: "shpat_" + v.some(HEX, 32), _BARE),
    "DigitalOcean token": (lambda v: "dop_v1_" + v.some(HEX, 64), _BARE),
    "Vault token": (lambda v: "hvs." + v.some(URL_SAFE, 95), _BARE),
    "bearer token": (lambda v: v.some(ALNUM, 40), _BEARER),
    "password": (_Values.password, _PASSWORDS),
    "secret by its name": (lambda v: v.some(ALNUM, 32), _KEYS),
    "private key in code": (
        _Values.pem,
        (
            'KEY = """-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----"""',
            "key: |\n-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----",
        ),
    ),
}


def plant(seed: int = 11) -> list[Planted]:
    """Some secrets of each kind, each in a text of its own."""
    values = _Values(seed)
    planted = []
    for kind, (make, forms) in _KINDS.items():
        for number in range(PER_KIND):
            value = make(values)
            planted.append(Planted(kind, value, forms[number % len(forms)].format(value)))
    return planted
