"""Removes from an error the facts that only the operator of the server can use.

Remote callers do not see folders of the server and lines of its database's log; both are logged.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebase_mcp.errors import CodebaseError

if TYPE_CHECKING:
    from codebase_mcp.settings.loading import Settings

_log = logging.getLogger(__name__)

HIDDEN = "…"


def private_folders(settings: Settings) -> list[str]:
    """Folders of the server: of its data and model, and where it was started; the longest first."""
    from codebase_mcp.database.placement import SYSTEM_FOLDER  # noqa: PLC0415 - for errors alone

    data, model = settings.data_dir, Path(settings.embedding_model or "").expanduser()
    folders = {data, Path(os.path.realpath(data)), SYSTEM_FOLDER, Path.cwd()}
    if model.is_absolute():
        folders.add(model)
    named = (str(folder) for folder in folders if folder.parent != folder)
    return sorted(named, key=len, reverse=True)


def redacted(
    error: CodebaseError, arguments: Mapping[str, Any], folders: Collection[str]
) -> CodebaseError:
    """The error without logs, and without these folders unless the caller named them."""
    sent = json.dumps(arguments, ensure_ascii=False, default=str)
    private = [folder for folder in folders if folder not in sent]
    shown = copy(error)
    shown.message, shown.hint = _without(private, error.message), _without(private, error.hint)
    shown.details = _without(private, {k: v for k, v in error.details.items() if k != "log"})
    # Invalid input is no fault of the server, and holds what the caller sent.
    if shown.as_dict() != error.as_dict() and error.type != "InvalidInput":
        _log.warning("details withheld from a remote caller: %s", error.as_dict())
    return shown


def _without(private: Collection[str], value: Any) -> Any:
    if isinstance(value, str):
        for folder in private:
            value = value.replace(folder, HIDDEN)
    elif isinstance(value, dict):
        return {key: _without(private, inner) for key, inner in value.items()}
    elif isinstance(value, list):
        return [_without(private, inner) for inner in value]
    return value
