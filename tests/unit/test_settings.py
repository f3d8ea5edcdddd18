"""Settings: what the user asked for, where that was said, and what is wrong with it."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import (
    SETTINGS,
    TOOLSETS,
    Setting,
    Settings,
    environment_for_child,
    text_of,
)
from codebase_mcp.tools.catalog import toolsets

BY_NAME = {setting.name: setting for setting in SETTINGS}
SECRETS = [setting for setting in SETTINGS if setting.is_secret]
PASSWORD = "hunter2"

# A value that fits and is not the default, and one that does not fit where there is any such.
EXAMPLES: dict[str, tuple[str, Any, str | None]] = {
    "data_dir": ("/data", Path("/data"), "a\0b"),
    "toolsets": (" tasks, code ", ("tasks", "code"), "code,nonsense"),
    "replies": ("TEXT", "text", "xml"),
    "reply_chars": ("4000", 4000, "4001"),
    "project_dir": ("/client", Path("/client"), "a\0b"),
    "workflow_url": ("http://w:1/", "http://w:1", "w:1"),
    "log_level": ("debug", "DEBUG", "LOUD"),
    "log_format": ("JSON", "json", "xml"),
    "otlp_endpoint": ("https://o", "https://o", "https://"),
    "database_url": ("postgresql://u@h/d", "postgresql://u@h/d", f"mysql://u:{PASSWORD}@h"),
    "direct_database_url": ("postgres://h", "postgres://h", PASSWORD),
    "database_read_url": ("postgres://h", "postgres://h", PASSWORD),
    "db_pool_size": ("1", 1, "0"),
    "db_max_overflow": ("0", 0, "-1"),
    "project_roles": ("off", "off", "on"),
    "search_timeout_s": ("2.5", 2.5, "0"),
    "idle_minutes": ("0.5", 0.5, "nan"),
    "embedding_provider": ("ollama", "ollama", "magic"),
    "embedding_model": ("m", "m", None),
    "ollama_url": ("http://o:2/", "http://o:2", "http://o:port"),
    "openai_url": ("http://o/v1", "http://o/v1", "ftp://o"),
    "openai_api_key": (PASSWORD, PASSWORD, None),
    "embedding_batch_size": ("1000", 1000, "1001"),
    "embedding_timeout_s": ("2.5", 2.5, "inf"),
    "embedding_query_prefix": ("query: ", "query: ", None),
    "embedding_passage_prefix": ("none", "", None),
    "workers": ("7", 7, "two"),
    "jobs": ("0", 0, "65"),
    "auto_index": ("NEVER", "never", "sometimes"),
    "check_ms": ("0", 0, "60001"),
    "search_memory_mb": ("0", 0, "-1"),
    "watch": ("yes", True, "perhaps"),
    "resident_minutes": ("0", 0, "1441"),
    "refresh_minutes": ("60", 60, "-1"),
    "github_token": (PASSWORD, PASSWORD, None),
    "gitlab_token": (PASSWORD, PASSWORD, None),
    "transport": ("http", "http", "carrier pigeon"),
    "roots": ("/srv/a, /srv/b", ("/srv/a", "/srv/b"), "srv"),
    "host": ("0.0.0.0", "0.0.0.0", "http://h"),
    "port": ("0", 0, "65536"),
    "audit": ("no", False, "perhaps"),
    "audit_days": ("1", 1, "0"),
    "sse": ("on", True, "perhaps"),
    "allowed_hosts": ("a, b,,a", ("a", "b"), None),
    "allowed_origins": ("http://a", ("http://a",), None),
    "http_connections": ("7", 7, "0"),
    "http_timeout_s": ("0.5", 0.5, "0"),
    "http_workers": ("2", 2, "65"),
    "no_auth": ("yes", True, "perhaps"),
    "require_keys": ("yes", True, "perhaps"),
    "read_only": ("yes", True, "perhaps"),
    "allow_ip": ("10.0.0.0/8, ::1", ("10.0.0.0/8", "::1/128"), "10.0.0.1/8"),
    "public_url": ("https://a.example/", "https://a.example", "a.example"),
    "jwt_issuer": ("https://id.example", "https://id.example", "id.example"),
    "jwt_audience": ("codebase", "codebase", None),
    "jwt_jwks_url": ("https://id.example/keys", "https://id.example/keys", "/keys"),
    "jwt_algorithm": ("es256", "ES256", "HS256"),
    "jwt_scope_prefix": ("codebase:", "codebase:", None),
    "jwt_projects_claim": ("projects", "projects", None),
    "requests_per_minute": ("0", 0, "-1"),
    "calls": ("1", 1, "0"),
    "project": ("my-app", "my-app", "My App"),
    "ignore_patterns": ("*.log, target/", ("*.log", "target/"), "x\n" * 1001),
    "include_secrets": ("*.env, keys/", ("*.env", "keys/"), "x\n" * 1001),
    "include_submodules": ("no", False, "2"),
    "max_file_bytes": ("5", 5, "²"),
    "git_depth": ("10000", 10_000, "10001"),
    "git_branches": ("main, release/*", ("main", "release/*"), "--upload-pack=x"),
}
# Whatever another setting asks for beside it.
JWT = {
    "CODEBASE_MCP_JWT_ISSUER": "https://id.example",
    "CODEBASE_MCP_JWT_AUDIENCE": "codebase",
    "CODEBASE_MCP_JWT_JWKS_URL": "https://id.example/keys",
}
BESIDE = {
    "http_workers": {"CODEBASE_MCP_TRANSPORT": "http"},
    "jwt_issuer": JWT,
    "jwt_audience": JWT,
    "jwt_jwks_url": JWT,
}

every = pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
that_can_be_wrong = pytest.mark.parametrize(
    "setting", [s for s in SETTINGS if EXAMPLES[s.name][2] is not None], ids=lambda s: s.name
)


def wrong(environment: dict[str, str], **flags: str) -> list[dict[str, str]]:
    """What is wrong with these settings."""
    with pytest.raises(InvalidInput) as caught:
        Settings.load(environment, **flags)
    problems: list[dict[str, str]] = caught.value.details["fields"]
    assert PASSWORD not in json.dumps(caught.value.as_dict())
    return problems


def test_the_table_has_a_row_for_each_field_and_no_name_twice() -> None:
    names = [f.name for f in fields(Settings) if f.name not in ("sources", "warnings")]
    assert sorted(BY_NAME) == sorted(names) == sorted(EXAMPLES)
    for column in ("variable", "flag"):
        said = [getattr(s, column) for s in SETTINGS]
        assert len(set(said)) == len(said)


@every
def test_a_row_is_complete(setting: Setting) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]+", setting.variable)
    assert re.fullmatch(r"--[a-z0-9-]+", setting.flag)
    assert setting.help.endswith(".")
    assert len(setting.help) <= 100
    assert setting.section
    assert getattr(Settings.load({}), setting.name) == setting.default()
    assert Settings.load({}).sources[setting.name] == "default"


@every
def test_a_setting_is_said_by_its_variable(setting: Setting) -> None:
    text, value, _ = EXAMPLES[setting.name]
    settings = Settings.load({setting.variable: text} | BESIDE.get(setting.name, {}))
    assert getattr(settings, setting.name) == value != setting.default()
    assert settings.sources[setting.name] == setting.variable


@every
def test_a_flag_wins_over_every_variable(setting: Setting) -> None:
    text, value, bad = EXAMPLES[setting.name]
    names = [name for name in (setting.variable, setting.also) if name]
    environment = dict.fromkeys(names, bad or "other") | BESIDE.get(setting.name, {})
    settings = Settings.load(environment, **{setting.name: text})
    assert getattr(settings, setting.name) == value
    assert settings.sources[setting.name] == setting.flag


@every
@pytest.mark.parametrize("by_flag", [True, False])
def test_a_process_that_we_start_has_the_same_settings(
    setting: Setting, by_flag: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in SETTINGS:  # what flags may have overruled
        monkeypatch.setenv(other.file_variable or other.variable, EXAMPLES[other.name][0])
    text, said = EXAMPLES[setting.name][0], BESIDE.get(setting.name, {})
    if by_flag:
        settings = Settings.load(said, **{setting.name: text})
    else:
        settings = Settings.load(said | {setting.variable: text})
    assert Settings.load(environment_for_child(settings)) == settings


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.also], ids=lambda s: s.name)
def test_another_programs_variable_counts_where_ours_says_nothing(setting: Setting) -> None:
    text, value, bad = EXAMPLES[setting.name]
    theirs = Settings.load({setting.also: text, setting.variable: "  "})
    assert (getattr(theirs, setting.name), theirs.sources[setting.name]) == (value, setting.also)
    ours = Settings.load({setting.also: bad or "other", setting.variable: text})
    assert getattr(ours, setting.name) == value


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_an_empty_flag_asks_for_the_default(setting: Setting) -> None:
    settings = Settings.load({setting.variable: EXAMPLES[setting.name][0]}, **{setting.name: ""})
    assert getattr(settings, setting.name) == setting.default()
    assert settings.sources[setting.name] == setting.flag


@that_can_be_wrong
def test_a_wrong_value_is_named_with_its_source_and_rule(setting: Setting) -> None:
    bad = EXAMPLES[setting.name][2]
    assert bad is not None
    for source, problems in (
        (setting.variable, wrong({setting.variable: bad})),
        (setting.flag, wrong({}, **{setting.name: bad})),
    ):
        [problem] = problems
        assert problem["field"] == source
        assert problem["constraint"] == f"must be {setting.rule.words}"


def test_all_wrong_values_are_named_at_once() -> None:
    environment = {"DATABASE_URL": "mysql://x", "DB_POOL_SIZE": "0", "CODEBASE_MCP_WORKERS": "two"}
    elsewhere = {"field": "file: key", "value": "v", "constraint": "must be w"}
    with pytest.raises(InvalidInput) as caught:
        Settings.load(environment, others=[elsewhere], toolsets="code,nonsense")
    sources = ["--toolsets", "DATABASE_URL", "DB_POOL_SIZE", "CODEBASE_MCP_WORKERS", "file: key"]
    assert [problem["field"] for problem in caught.value.details["fields"]] == sources
    assert all(source in caught.value.message for source in sources)


@pytest.mark.parametrize("text", ["all", ",".join(TOOLSETS)])
def test_all_means_every_toolset_of_the_catalogue(text: str) -> None:
    chosen = Settings.load({"CODEBASE_MCP_TOOLSETS": text}).toolsets
    assert chosen == TOOLSETS == tuple(toolset.name for toolset in toolsets())


def test_patterns_may_be_given_one_a_line_and_then_hold_commas() -> None:
    settings = Settings.load({"CODEBASE_MCP_IGNORE": "*,cover\n!keep\\ \n"})
    assert settings.ignore_patterns == ("*,cover", "!keep\\ ")


# Secrets


@pytest.mark.parametrize("setting", SECRETS, ids=lambda s: s.name)
def test_a_secret_is_read_from_the_file_that_a_variable_names(
    setting: Setting, tmp_path: Path
) -> None:
    text, value, _ = EXAMPLES[setting.name]
    (tmp_path / "secret").write_text(f"{text}\n")
    settings = Settings.load({setting.file_variable: str(tmp_path / "secret")})
    assert getattr(settings, setting.name) == value
    assert settings.sources[setting.name] == f"{setting.variable}_FILE"


@pytest.mark.parametrize(
    ("content", "rule"),
    [(None, "No such file"), (b"\n", "not empty"), (b"\xff\xfe", "it is not text")],
)
def test_a_file_of_a_secret_that_says_nothing_is_named(
    content: bytes | None, rule: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    [problem] = wrong({"CODEBASE_MCP_OPENAI_API_KEY_FILE": str(tmp_path / "key")})
    assert problem["field"] == "CODEBASE_MCP_OPENAI_API_KEY_FILE"
    assert rule in problem["constraint"]


def test_a_secret_and_its_file_together_are_refused(tmp_path: Path) -> None:
    environment = {"DATABASE_URL": f"postgres://u:{PASSWORD}@h", "DATABASE_URL_FILE": "/x"}
    [problem] = wrong(environment)
    assert (problem["field"], problem["value"]) == ("DATABASE_URL_FILE", "/x")
    assert "DATABASE_URL" in problem["constraint"]


def test_nothing_that_prints_settings_shows_a_secret() -> None:
    url = f"http://user:{PASSWORD}@h/v1"
    secrets = {s.variable: f"postgres://u:{PASSWORD}@h/d" for s in SECRETS}
    addresses = dict.fromkeys(["OLLAMA_BASE_URL", "WORKFLOW_MCP_URL", "OPENAI_BASE_URL"], url)
    settings = Settings.load(secrets | addresses)
    assert settings.ollama_url == url
    for shown in (repr(settings), str(settings), f"{[settings]}", str(settings.chosen())):
        assert PASSWORD not in shown
    assert "ollama_url='http://…@h/v1'" in repr(settings)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"ftp://me:{PASSWORD}@h", "ftp://…@h"),
        (f"http://me:a/{PASSWORD}@h:1", "http://…@h:1"),
        (f"http://me:12/{PASSWORD}@h:1", "http://…@h:1"),
        (f"http://me:12?{PASSWORD}@h", "http://…@h"),
        (f"me:{PASSWORD}@h:1", "…@h:1"),
        (f"http:/me:{PASSWORD}@h", "…@h"),
    ],
)
def test_a_wrong_address_is_shown_without_its_password(address: str, shown: str) -> None:
    [problem] = wrong({"OLLAMA_BASE_URL": address})
    assert problem["value"] == shown


def test_addresses_with_a_password_are_secrets_to_the_log() -> None:
    url = f"http://user:{PASSWORD}@h/v1"
    settings = Settings.load({"OLLAMA_BASE_URL": url, "OPENAI_BASE_URL": "http://h/v1"})
    assert settings.secrets() == [url]


def test_api_keys_have_no_flag_and_flags_of_addresses_say_what_is_better() -> None:
    assert not BY_NAME["openai_api_key"].has_flag
    assert all(s.file_variable == f"{s.variable}_FILE" for s in SECRETS)


def test_what_somebody_set_can_be_shown() -> None:
    settings = Settings.load({"DATABASE_URL": "postgres://h"}, allowed_hosts="a,b", sse="no")
    assert settings.chosen() == {"database_url": "…", "allowed_hosts": "a, b", "sse": "false"}
    assert text_of(BY_NAME["idle_minutes"], 5.0) == "5"


# Together


def test_the_openai_provider_needs_a_key_or_another_address() -> None:
    asked = {"CODEBASE_MCP_EMBEDDING_PROVIDER": "openai"}
    [problem] = wrong(asked)
    assert problem["field"] == "CODEBASE_MCP_EMBEDDING_PROVIDER"
    assert "CODEBASE_MCP_OPENAI_API_KEY" in problem["constraint"]
    for way_out in ("OPENAI_API_KEY", "CODEBASE_MCP_OPENAI_BASE_URL"):
        assert Settings.load(asked | {way_out: "http://k"}).embedding_provider == "openai"


def test_several_processes_cannot_serve_stdio() -> None:
    [problem] = wrong({}, http_workers="2")
    assert problem["field"] == "--http-workers"
    assert wrong({"CODEBASE_MCP_HTTP_WORKERS": "2"}, transport="all")
    assert Settings.load({}, http_workers="2", transport="http").http_workers == 2


def test_other_commands_of_a_container_run_with_its_variables() -> None:
    environment = {"CODEBASE_MCP_HTTP_WORKERS": "2", "CODEBASE_MCP_PORT": "80"}
    assert Settings.load(environment).warnings == ()


# Warnings


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("CODEBASE_MCP_PROT", "is not a setting; did you mean CODEBASE_MCP_PORT?"),
        ("CODEBASE_MCP_TOOLSET", "is not a setting; did you mean CODEBASE_MCP_TOOLSETS?"),
        ("CODEBASE_MCP_XYZZY_PLUGH_FROTZ", "is not a setting"),
    ],
)
def test_a_variable_that_looks_like_ours_and_is_none_is_a_warning(name: str, warning: str) -> None:
    assert Settings.load({name: "1"}).warnings == (f"{name} {warning}",)


def test_variables_of_other_programs_are_no_warning(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k")
    environment = {"PATH": "/bin", "CODEBASE_MCP_OPENAI_API_KEY_FILE": str(tmp_path / "key")}
    assert Settings.load(environment).warnings == ()


def test_a_value_that_has_no_effect_is_a_warning() -> None:
    on_stdio = Settings.load({}, port="80", sse="false")
    assert on_stdio.warnings == ()  # a command that serves nothing may read it
    [warning] = on_stdio.without_effect_on_stdio()
    assert "--port has no effect on stdio" in warning
    for variable in ("DIRECT_DATABASE_URL", "DATABASE_READ_URL"):
        [warning] = Settings.load({variable: "postgres://h"}).warnings
        assert warning == f"{variable} has no effect without DATABASE_URL"


def test_a_provider_of_tokens_is_only_used_whole() -> None:
    [said] = wrong({"CODEBASE_MCP_JWT_ISSUER": "https://id.example"})
    assert said["field"] == "CODEBASE_MCP_JWT_ISSUER"
    assert "CODEBASE_MCP_JWT_AUDIENCE and CODEBASE_MCP_JWT_JWKS_URL" in said["constraint"]
