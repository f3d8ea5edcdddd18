"""Shared by all pages: calls of tools, templates, headers, forms, static files.

A page calls the tools that agents call, so the tools alone decide what a caller may see and do.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from codebase_mcp.access.identity import noting_projects
from codebase_mcp.app.background.audit import AuditedCall
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.errors import CodebaseError, InvalidInput, PermissionDenied
from codebase_mcp.telemetry.stopwatch import tool_call
from codebase_mcp.tools.callers import identity_in
from codebase_mcp.tools.catalog import tool_named
from codebase_mcp.tools.reply import private_folders, redacted
from codebase_mcp.tools.server import AppHolder
from codebase_mcp.values import require_storable
from codebase_mcp.web.answers import error_answer
from codebase_mcp.web.limits import read_body

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from codebase_mcp.access.identity import Identity, Scope
    from codebase_mcp.app.app import App
    from codebase_mcp.settings.loading import Settings
    from codebase_mcp.web.authentication import Callers

Content = TypeVar("Content")

# Nothing inline, nothing from another host, no frame around a page.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers send "Origin: null" with forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
_STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

# A form's token must equal this cookie, which no foreign site can read or send.
TOKEN_COOKIE = "codebase_mcp_token"
# The session of a user who has signed in; it is valid for pages alone.
SESSION_COOKIE = "codebase_mcp_session"
SIGN_IN = "/sign-in"
# Open without signing in.
OPEN_PATHS = (SIGN_IN, "/sign-out", *(f"/static/{name}" for name in _STATIC))
_MAX_FORM_BYTES = 1 << 16
# A task of as many characters as it may have fits, whatever its script.
_MAX_BYTES_AT = {"/context": 1 << 20}
_MAX_FIELDS = 50
# The most projects that are listed; an address may name any project.
_MOST_PROJECTS = 100

# The messages of actions, shown on the page that follows; a URL can show no other message.
DONE = {
    "started": "Indexing has begun.",
    "completed": "The index is up to date.",
    "failed": "The run failed; the reason is below.",
    "cancelled": "The run was cancelled. What it stored is kept.",
    "removed": "The repository was removed from the index. Its files were not touched.",
}


@dataclass(frozen=True, slots=True)
class Projects:
    """The projects that the caller sees, and the id of the project that a page shows.

    ``repositories`` are those of the chosen project, as the tool ``project`` replies them;
    ``left_out`` counts the projects that are not listed.
    """

    all: list[dict[str, Any]]
    chosen: str
    repositories: list[dict[str, Any]]
    left_out: int = 0

    def languages(self) -> list[str]:
        """The languages of its files, the most frequent first."""
        counts: Counter[str] = Counter()
        for repository in self.repositories:
            counts.update(repository["languages"])
        return [language for language, _ in counts.most_common()]


class _Params(dict[str, str]):
    """The parameters of an address; a missing parameter is empty."""

    def __missing__(self, name: str) -> str:
        return ""


@dataclass(eq=False)
class Site:
    """The pages of a server."""

    holder: AppHolder
    callers: Callers
    settings: Settings

    async def call(self, request: Request, tool: str, **arguments: Any) -> dict[str, Any]:
        """The reply of a tool, called as the user of the page."""
        given = {name: value for name, value in arguments.items() if value is not None}
        return (await self.holder.reply(tool_named(tool), given, identity_in(request))).as_json()

    async def run(
        self, request: Request, tool: str, call: Callable[[App, Identity], Awaitable[Content]]
    ) -> Content:
        """The result of a call of the product itself, counted and audited as a call of the tool."""
        identity = identity_in(request)
        audited = AuditedCall(tool, identity, self.holder.audit)

        async def in_turn() -> Content:
            app = await self.holder.get()
            async with self.holder.queue.slot(identity.shares_as):
                return await call(app, identity)

        try:
            with noting_projects(audited.projects), tool_call(tool, audited.end):
                return await self.holder.calls.run(in_turn())
        except CodebaseError as error:
            raise redacted(error, {}, private_folders(self.settings)) from error

    def page(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """A page; it carries the token that forms send back."""
        token = request.cookies.get(TOKEN_COOKIE) or secrets.token_urlsafe(24)
        root = request.scope.get("root_path", "")
        html = self.fragment(
            request,
            template,
            static=lambda name: f"{root}/static/{name}?v={self._assets[name][1]}",
            token=token,
            can=lambda scope: scope in identity_in(request).access.scopes,
            done=DONE.get(request.query_params.get("done", "")),
            here=request.url.path.removeprefix(root),
            signed_in=SESSION_COOKIE in request.cookies,
            **values,
        )
        answer = HTMLResponse(html, status, dict(_HEADERS))
        if TOKEN_COOKIE not in request.cookies:
            self.set_cookie(request, answer, TOKEN_COOKIE, token)
        return answer

    def set_cookie(
        self, request: Request, answer: Response, name: str, value: str, max_age: int | None = None
    ) -> None:
        """Set a cookie that no script reads and that is sent to this site alone; over TLS only, if
        the browser reaches this server by TLS, perhaps through a proxy."""
        addresses = (str(request.url), self.settings.public_url or "")
        answer.set_cookie(
            name,
            value,
            max_age,
            path=request.scope.get("root_path", "") or "/",
            secure=any(address.startswith("https:") for address in addresses),
            httponly=True,
            samesite="strict",
        )

    def error(self, request: Request, error: CodebaseError) -> HTMLResponse:
        """The page of an error: what went wrong, and the way out."""
        status = error_answer(error).status_code
        return self.page(request, "error.html", status=status, error=error.as_dict(), number=status)

    def fragment(self, request: Request, template: str, **values: Any) -> str:
        """A template as HTML."""
        from codebase_mcp.web.pages.html import environment  # noqa: PLC0415 - for pages alone

        root = request.scope.get("root_path", "")
        return (
            environment()
            .get_template(template)
            .render(
                link=lambda path, /, **query: link(root, path, **query),
                params=_Params(request.query_params),
                **values,
            )
        )

    async def static(self, request: Request) -> Response:
        """A static file; its URL changes with its content, so browsers may keep it."""
        name = request.path_params["name"]
        if name not in _STATIC:
            return Response(status_code=404, headers=dict(_HEADERS))
        content, _ = self._assets[name]
        headers = _HEADERS | {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, media_type=_STATIC[name], headers=headers)

    @cached_property
    def _assets(self) -> Mapping[str, tuple[bytes, str]]:
        """The static files by name, each with the beginning of its hash."""
        folder = files("codebase_mcp.web.pages").joinpath("static")
        contents = {name: folder.joinpath(name).read_bytes() for name in _STATIC}
        return {name: (read, sha256(read).hexdigest()[:12]) for name, read in contents.items()}


async def projects_of(
    site: Site, request: Request, asked: Mapping[str, str] | None = None, *, every: bool = False
) -> Projects:
    """The project that is asked for, by the address unless by the fields of a form; else the
    caller's, or if nothing is indexed in it, the project that was indexed last.

    The newest projects are listed, or ``every`` one.
    """
    page: dict[str, Any] = {"operation": "list", "limit": _MOST_PROJECTS}
    reply = await site.call(request, "project", **page)
    listed = _with_ids(reply)
    cursor = reply["next_cursor"]
    while every and cursor:
        further = await site.call(request, "project", **page, cursor=cursor)
        listed += _with_ids(further)
        cursor = further["next_cursor"]
    chosen_id = (request.query_params if asked is None else asked).get("project", "").strip()
    if not chosen_id:
        current = reply.get("project_id") or DEFAULT_ID
        has_index = any(p["project_id"] == current and p["repositories"] for p in listed)
        chosen_id = current if has_index else _last_indexed(listed) or current
    elif all(project["project_id"] != chosen_id for project in listed):
        reply_of_named = await site.call(request, "project", operation="list", project_id=chosen_id)
        listed += _with_ids(reply_of_named)
    repositories = [r for p in listed if p["project_id"] == chosen_id for r in p["repositories"]]
    return Projects(listed, chosen_id, repositories, max(reply["total"] - len(listed), 0))


def _with_ids(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """The projects of a reply; the default workspace gets the id that addresses have for it."""
    return [{**p, "project_id": p["project_id"] or DEFAULT_ID} for p in reply["projects"]]


def _last_indexed(listed: list[dict[str, Any]]) -> str:
    times = {
        project["project_id"]: max(r["indexed_at"] or "" for r in project["repositories"])
        for project in listed
        if project["repositories"]
    }
    return max(times, key=lambda name: times[name], default="")


def require(request: Request, scope: Scope) -> None:
    """Check the scope of the caller, where no tool checks it."""
    if scope not in identity_in(request).access.scopes:
        raise PermissionDenied(
            f"This key does not allow it: {scope}", hint="Ask the operator for a key that does."
        )


async def refusal_of(request: Request) -> CodebaseError | None:
    """Why a form is refused: it was not sent by a page of this server; None if it was."""
    source = request.headers.get("origin", "")
    is_ours = urlsplit(source).netloc == request.headers.get("host", "")
    if not source or not is_ours or request.headers.get("sec-fetch-site") == "cross-site":
        return PermissionDenied(
            "The form was not sent from a page of this server", hint="Open the page here."
        )
    form = await form_of(request)
    token = request.cookies.get(TOKEN_COOKIE, "")
    if not token or not secrets.compare_digest(token.encode(), form.get("token", "").encode()):
        return PermissionDenied(
            "The form has no valid token", hint="Open the page again, then send the form."
        )
    return None


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, each once."""
    if not hasattr(request.state, "form"):
        page = request.url.path.removeprefix(request.scope.get("root_path", ""))
        most = _MAX_BYTES_AT.get(page, _MAX_FORM_BYTES)
        body = await read_body(request, most)
        if body is None:
            raise InvalidInput(f"A form may have at most {most} bytes")
        try:
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise InvalidInput(f"A form may have at most {_MAX_FIELDS} fields") from None
        form = {name: values[0].strip() for name, values in fields.items()}
        for name, value in form.items():
            require_storable(name, value)
        request.state.form = form
    stored: dict[str, str] = request.state.form
    return stored


def redirect(request: Request, path: str, /, **query: str | None) -> Response:
    """Go on to a page after an action, so that reloading does not repeat it."""
    target = link(request.scope.get("root_path", ""), path, **query)
    return RedirectResponse(target, 303, dict(_HEADERS))


def link(root: str, path: str, /, **query: object) -> str:
    """A URL of this server; parameters without a value are left out."""
    anchor = query.pop("anchor", None)
    given = {name: str(value) for name, value in query.items() if value not in (None, "")}
    url = f"{root}{path}?{urlencode(given)}" if given else f"{root}{path}"
    return f"{url}#{anchor}" if anchor else url
