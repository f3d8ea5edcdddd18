"""Calls a tool: checks scopes and arguments, masks secrets, waits in a queue.

Every caller passes here: MCP, ``POST /tools/…``, pages and commands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any

from codebase_mcp.access.identity import noting_projects
from codebase_mcp.app.background.audit import AuditedCall
from codebase_mcp.errors import CodebaseError
from codebase_mcp.secrets.masking import mask_values
from codebase_mcp.settings.table import DEFAULT_REPLY_CHARS
from codebase_mcp.telemetry.stopwatch import tool_call
from codebase_mcp.tools.arguments import aliases_in, check_operation
from codebase_mcp.tools.fields import RecordReply
from codebase_mcp.tools.reply import Replies, Reply, unexpected
from codebase_mcp.tools.running import CallQueue
from codebase_mcp.tools.toolset import Caller, ToolSpec

if TYPE_CHECKING:
    from codebase_mcp.access.identity import Identity
    from codebase_mcp.app.app import App
    from codebase_mcp.app.background.audit import AuditLog

AppFactory = Callable[[], Awaitable["App"]]
ReportProgress = Callable[[float, float, str], Awaitable[None]]


async def no_progress(done: float, total: float, message: str) -> None:
    """For callers whom progress does not concern."""


async def reply_of(
    spec: ToolSpec,
    arguments: dict[str, Any],
    open_app: AppFactory,
    identity: Identity,
    report_progress: ReportProgress = no_progress,
    *,
    replies: Replies = "json",
    reply_chars: int = DEFAULT_REPLY_CHARS,
    audit: AuditLog | None = None,
    queue: CallQueue | None = None,
) -> Reply:
    """Check the arguments of a tool and call it, after those before it in the queue.

    The call is entered into the audit log.
    """
    call = AuditedCall(spec.name, identity, audit)
    with noting_projects(call.projects), tool_call(spec.name, call.end):
        try:
            spec.require_scope(identity.access)
            parsed = spec.arguments_for(arguments).checked(arguments)
            call.operation = getattr(parsed, "operation", None)
            spec.require_scope(identity.access, call.operation)
            check_operation(spec.operations, parsed)
            kinds: tuple[str, ...] = ()
            if issubclass(spec.reply, RecordReply):
                masked, kinds = mask_values(arguments)
                parsed = parsed.checked(masked) if kinds else parsed
            given = frozenset(arguments)
            app = await open_app()
            caller = Caller(app, report_progress, given, identity, replies, reply_chars)
            async with nullcontext() if queue is None else queue.slot(identity.shares_as):
                reply = await spec.run(caller, parsed)
            if kinds and isinstance(reply, RecordReply):
                reply.secrets_masked = list(dict.fromkeys(kinds))
            return reply
        except CodebaseError as error:
            _use_own_name(spec, error)
            raise _as_documented(spec, error) from error
        except Exception as error:  # logged here, where the log still knows the tool
            raise unexpected(error) from error


def _use_own_name(spec: ToolSpec, error: CodebaseError) -> None:
    """Let an error name the parameter as the tool does, where the rooms below name it otherwise."""
    field, properties = error.details.get("field"), spec.input_schema()["properties"]
    if isinstance(field, str) and field not in properties:
        error.details["field"] = aliases_in(properties).get(field, field)


def _as_documented(spec: ToolSpec, error: CodebaseError) -> CodebaseError:
    """The error in the words that a document has for it; its own message becomes the reason."""
    if error.code not in spec.failures:
        return error
    documented = copy(error)
    documented.message = spec.failures[error.code]
    documented.details = {**error.details, "reason": error.message}
    return documented
