"""Loads the settings. Nothing else reads the environment.

Loading reads names, values and files such as ``DATABASE_URL_FILE`` names, and contacts no service.
It reports every invalid value at once, with its source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codebase_mcp.embedding.providers import PROVIDERS, Provider
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.rules import HTTP_URL, Setting
from codebase_mcp.settings.table import DEFAULT_TOOLSETS, PRESETS, SETTINGS, TOOLSETS, SettingValues

__all__ = ["DEFAULT_TOOLSETS", "PRESETS", "SETTINGS", "TOOLSETS", "Setting", "Settings"]

Problem = dict[str, str]
"""An invalid value: its source, the value and the rule."""

DEFAULT = "default"
HIDDEN = "…"

_MAX_SECRET_BYTES = 64 * 1024
_MAX_VALUE_CHARS = 200


@dataclass(frozen=True, slots=True, repr=False)
class Settings(SettingValues):
    """Every setting with its value; see `SETTINGS` for names, defaults and help.

    ``sources`` names the source of each value: a flag, a variable, or ``default``. ``warnings`` are
    about probable mistakes.
    """

    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def load(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        others: Iterable[Problem] = (),
        **flags: str | None,
    ) -> Settings:
        """Settings from command-line flags, then the environment, then defaults.

        ``flags`` have the settings' names; an empty flag selects the default, whatever the
        environment says. ``others`` are further problems, to report all at once.

        Raises:
            InvalidInput: values are invalid; it lists all of them with their sources.
        """
        environment = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        problems: list[Problem] = []
        for setting in SETTINGS:
            try:
                source, text = _source_and_text(setting, environment, flags.get(setting.name))
                values[setting.name] = _parsed(setting, source, text)
                sources[setting.name] = source
            except _Invalid as invalid:
                problems.append(invalid.problem)
        problems += _contradictions(values, sources)
        warnings = _unknown_variables(environment)
        for name in ("direct_database_url", "database_read_url"):
            if values.get(name) and not values.get("database_url"):
                warnings.append(f"{sources[name]} has no effect without DATABASE_URL")
        problems += others
        if problems:
            raise invalid_settings(problems)
        return cls(**values, sources=sources, warnings=tuple(warnings))

    def without_effect_on_stdio(self) -> list[str]:
        """Warnings for a server on stdio about flags that are for HTTP."""
        return [
            f"{self.sources[s.name]} has no effect on stdio; add --transport http"
            for s in SETTINGS
            if s.section in ("Server", "Access") and self.sources[s.name].startswith("--")
            if s.name not in ("transport", "http_workers", "read_only")
            and getattr(self, s.name) != s.default()
        ]

    def chosen(self) -> dict[str, str]:
        """The settings that are not defaults, with their values without secrets."""
        return {
            setting.name: text_of(setting, getattr(self, setting.name))
            for setting in SETTINGS
            if self.sources.get(setting.name, DEFAULT) != DEFAULT
        }

    @property
    def provider(self) -> str:
        """The embedding provider, if configured; else the service whose address was set."""
        return self.embedding_provider or next(
            (
                name
                for name, entry in PROVIDERS.items()
                if entry.is_service and not entry.key_setting and getattr(self, entry.url_setting)
            ),
            "static",
        )

    def secrets(self) -> list[str]:
        """Values that no log may show: secrets, and addresses with a user or a password."""
        values = ((setting, getattr(self, setting.name)) for setting in SETTINGS)
        return [
            value
            for setting, value in values
            if value and (setting.is_secret or (setting.rule is HTTP_URL and "@" in value))
        ]

    def __repr__(self) -> str:
        """The settings without secrets."""
        listed = (f"{s.name}={text_of(s, getattr(self, s.name))!r}" for s in SETTINGS)
        return f"Settings({', '.join(listed)})"


def text_of(setting: Setting, value: Any) -> str:
    """A value as text, without anything secret; empty where nothing is set."""
    if value is None or value == ():
        return ""
    if setting.is_secret:
        return HIDDEN
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return without_credentials(str(value))


def without_credentials(text: str) -> str:
    """A text without user names and passwords in addresses, malformed addresses included."""
    return re.sub(r"(?<=//)\S*@|(?<!\S)(?!\S*//)\S*:\S*@", f"{HIDDEN}@", text)


def invalid_settings(problems: list[Problem], then: str = "start again") -> InvalidInput:
    """An error for all invalid values."""
    listed = "; ".join(f"{p['field']}={p['value']!r}: {p['constraint']}" for p in problems)
    return InvalidInput(
        f"Invalid settings: {listed}",
        hint=f"Correct or unset them, then {then}.",
        details={"fields": problems},
    )


def problem(setting: Setting, source: str, value: object, constraint: str) -> Problem:
    """The problem of a value, without showing a secret."""
    text = HIDDEN if setting.is_secret else without_credentials(str(value))[:_MAX_VALUE_CHARS]
    return {"field": source, "value": text, "constraint": constraint}


def use_one_blas_thread() -> None:
    """Let this process and its children multiply matrices in one thread, unless configured.

    Call it before NumPy is imported. OpenBLAS threads wait in busy loops, for longer than our small
    products take, and can deadlock when a thread forks. We divide the work ourselves.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def share_metrics_in(folder: Path | None) -> None:
    """Let the processes that we start share their metrics in this folder; None shares none.

    Call it before prometheus-client is imported.
    """
    os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
    if folder is not None:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)


def environment_for_child(settings: Settings | None = None) -> dict[str, str]:
    """The environment to hand on to a process of ours, in which it has these settings."""
    environment = dict(os.environ)
    for setting in SETTINGS if settings is not None else ():
        value = getattr(settings, setting.name)
        for variable in (setting.variable, setting.also, setting.file_variable):
            environment.pop(variable, None)
        if value != setting.default():
            environment[setting.variable] = _written(value)
    return environment


def _written(value: Any) -> str:
    """A value as text of its variable; a list has a line for each part, which may hold commas."""
    if isinstance(value, tuple):
        return "".join(f"{part}\n" for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value) or "none"


class _Invalid(Exception):
    """A value that does not fit."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def _parsed(setting: Setting, source: str, text: str) -> Any:
    """The value that a text means; the default where it is empty."""
    if not text.strip():
        return setting.default()
    try:
        return setting.rule.parse(text if setting.rule.verbatim else text.strip())
    except ValueError as error:
        raise _Invalid(problem(setting, source, text, str(error))) from None


def _source_and_text(
    setting: Setting, environment: Mapping[str, str], flag: str | None
) -> tuple[str, str]:
    """Where a value is set, and its text: a flag, our variable, a file, another program's variable.

    The text is empty where it is not set.
    """
    if flag is not None:
        return setting.flag, flag
    text = environment.get(setting.variable, "")
    path = setting.is_secret and environment.get(setting.file_variable, "").strip()
    if path:
        if text.strip():
            rule = f"must not be set together with {setting.variable}"
            raise _Invalid({"field": setting.file_variable, "value": path, "constraint": rule})
        return setting.file_variable, _secret_in(setting.file_variable, path)
    for variable in (setting.variable, setting.also):
        if variable and environment.get(variable, "").strip():
            return variable, environment[variable]
    return DEFAULT, ""


def _secret_in(variable: str, path: str) -> str:
    """The value that a file holds."""
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            text = file.read(_MAX_SECRET_BYTES).strip()
        rule = "" if text else "must name a file that is not empty"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        text, rule = "", f"must name a file that can be read ({reason})"
    if rule:
        raise _Invalid({"field": variable, "value": path, "constraint": rule})
    return text


def _contradictions(values: Mapping[str, Any], sources: Mapping[str, str]) -> list[Problem]:
    """Values that contradict each other."""
    problems: list[Problem] = []
    provider: Provider = values.get("embedding_provider") or "static"
    entry = PROVIDERS[provider]
    is_set = values.get(entry.key_setting) or values.get(entry.url_setting)
    if entry.key_setting and not is_set:
        variables = {setting.name: setting.variable for setting in SETTINGS}
        rule = f"needs {variables[entry.key_setting]}, or {variables[entry.url_setting]} of another"
        source = sources["embedding_provider"]
        problems.append({"field": source, "value": provider, "constraint": rule})
    speaks_stdio = values.get("transport", "http") != "http"
    both_set = {"http_workers", "transport"} <= {n for n, s in sources.items() if s != DEFAULT}
    is_flag = sources.get("http_workers", "").startswith("--")
    if values.get("http_workers", 1) > 1 and speaks_stdio and (both_set or is_flag):
        # A variable alone may be meant for another command of the same container.
        rule = "must be 1 unless the transport is http: stdio belongs to one process"
        source, value = sources["http_workers"], str(values["http_workers"])
        problems.append({"field": source, "value": value, "constraint": rule})
    return [*problems, *_incomplete_jwt(values, sources)]


def _incomplete_jwt(values: Mapping[str, Any], sources: Mapping[str, str]) -> Iterator[Problem]:
    """A token is only checked where issuer, audience and keys are known."""
    rows = [s for s in SETTINGS if s.name in ("jwt_issuer", "jwt_audience", "jwt_jwks_url")]
    missing = [s.variable for s in rows if not values.get(s.name)]
    for setting in rows if missing else ():
        if value := values.get(setting.name):
            rule = f"needs {' and '.join(missing)} too"
            yield problem(setting, sources[setting.name], value, rule)
            return


def _unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Warnings about variables that look like ours."""
    names = {v for s in SETTINGS for v in (s.variable, s.also, s.file_variable) if v}
    return [
        f"{name} is not a setting" + nearest(name, names)
        for name in sorted(environment)
        if name.startswith("CODEBASE_MCP_") and name not in names
    ]


def nearest(name: str, names: set[str]) -> str:
    """A question with the most similar name, if any is similar."""
    from difflib import get_close_matches  # noqa: PLC0415 - seldom needed

    close = get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""
