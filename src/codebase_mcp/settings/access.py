"""Which settings say who may call over HTTP? Rows of the table."""

from __future__ import annotations

from ipaddress import ip_address

from codebase_mcp.settings.rules import HTTP_URL, NETWORKS, TEXT, YES_OR_NO, one_of
from codebase_mcp.settings.setting import Setting

ACCESS = (
    Setting(
        "no_auth",
        "CODEBASE_MCP_NO_AUTH",
        lambda: False,
        YES_OR_NO,
        "Ask for no key: everyone who reaches the port may read and change everything.",
        section="Access",
    ),
    Setting(
        "require_keys",
        "CODEBASE_MCP_REQUIRE_KEYS",
        lambda: False,
        YES_OR_NO,
        "Ask the server's own user on this machine for a key too, as behind a proxy.",
        section="Access",
    ),
    Setting(
        "read_only",
        "CODEBASE_MCP_READ_ONLY",
        lambda: False,
        YES_OR_NO,
        "Serve only what reads, to every caller and over stdio too.",
        section="Access",
    ),
    Setting(
        "allow_ip",
        "CODEBASE_MCP_ALLOW_IP",
        lambda: (),
        NETWORKS,
        "Networks that may call, such as 10.0.0.0/8; other addresses get 403. May be repeated.",
        section="Access",
        default_words="every address",
    ),
    Setting(
        "public_url",
        "CODEBASE_MCP_PUBLIC_URL",
        lambda: None,
        HTTP_URL,
        "Address that clients reach the server by, for OAuth's metadata and cookies of pages.",
        section="Access",
        default_words="http:// with host and port",
    ),
    Setting(
        "jwt_issuer",
        "CODEBASE_MCP_JWT_ISSUER",
        lambda: None,
        HTTP_URL,
        "Identity provider whose JWTs are accepted; the issuer that they name.",
        section="Access",
    ),
    Setting(
        "jwt_audience",
        "CODEBASE_MCP_JWT_AUDIENCE",
        lambda: None,
        TEXT,
        "Audience that its JWTs must name.",
        section="Access",
    ),
    Setting(
        "jwt_jwks_url",
        "CODEBASE_MCP_JWT_JWKS_URL",
        lambda: None,
        HTTP_URL,
        "Address of its public keys (JWKS).",
        section="Access",
    ),
    Setting(
        "jwt_algorithm",
        "CODEBASE_MCP_JWT_ALGORITHM",
        lambda: "RS256",
        one_of("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "Ed25519"),
        "Algorithm that its JWTs are signed with.",
        section="Access",
    ),
    Setting(
        "jwt_scope_prefix",
        "CODEBASE_MCP_JWT_SCOPE_PREFIX",
        lambda: "",
        TEXT,
        "What stands before read, write, index and admin in the scopes of its JWTs.",
        section="Access",
        default_words="nothing",
    ),
    Setting(
        "jwt_projects_claim",
        "CODEBASE_MCP_JWT_PROJECTS_CLAIM",
        lambda: None,
        TEXT,
        "Claim with the patterns of the projects that exist for its bearer.",
        section="Access",
        default_words="none: all projects",
    ),
)


def is_loopback(host: str) -> bool:
    """Whether the address is only reachable from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
