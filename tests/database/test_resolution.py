"""Which project a call means: the order, and who may send whom where."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from codebase_mcp.access.context_file import FILE_NAME
from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ActiveProjects, Current, ProjectChoice, Resolver
from codebase_mcp.access.workflow import WorkflowClient
from codebase_mcp.database.connection import Database, Embedded
from codebase_mcp.database.projects import (
    Project,
    create_project,
    drop_project,
    ensure_project,
    find_project,
    page_id,
    page_of_projects,
)
from codebase_mcp.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PermissionDenied,
    ProjectNotFound,
)
from codebase_mcp.records.page import Cursor, Paging

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def workflow_mcp(project_id: str | None) -> AsyncIterator[WorkflowClient]:
    """A client of a workflow-mcp that says which project is active."""
    body = json.dumps({"project_id": project_id})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield WorkflowClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


@pytest.fixture
def resolver(database: Database) -> Resolver:
    return Resolver(database)


@pytest.fixture
async def new_id(anyio_backend: str, database: Database) -> AsyncIterator[Callable[[], str]]:
    """Ids of projects that do not exist yet; what was made of them is dropped in the end."""
    made: list[str] = []

    def make() -> str:
        made.append(f"test-{uuid.uuid4().hex[:12]}")
        return made[-1]

    yield make
    for project_id in made:
        with suppress(ProjectNotFound):
            await drop_project(database, await find_project(database, project_id))


def id_of(project: Project) -> str:
    assert project.project_id is not None
    return project.project_id


def names(directory: Path, project_id: str) -> Path:
    """A directory whose file names a project."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / FILE_NAME).write_text(f'project = "{project_id}"\n')
    return directory


async def test_what_a_call_names_comes_first(
    resolver: Resolver, project: Project, tmp_path: Path
) -> None:
    here = Identity("me", names(tmp_path, "other"))
    assert await resolver.resolve(id_of(project), here) == (project, "explicit")
    default, source = await resolver.resolve("default", here)
    assert (default.project_id, default.schema_name, source) == (
        None,
        "project_default",
        "explicit",
    )


async def test_without_anything_the_default_workspace_is_meant(
    resolver: Resolver, tmp_path: Path
) -> None:
    project, source = await resolver.resolve(None, Identity("me", tmp_path))
    assert (project.project_id, source) == (None, "default")


async def test_the_order_is_config_active_workflow_default(
    database: Database, project: Project, new_id: Callable[[], str], tmp_path: Path
) -> None:
    active, in_workflow = new_id(), new_id()
    await ensure_project(database, active)
    await ensure_project(database, in_workflow)
    me = Identity("me", tmp_path)
    async with workflow_mcp(in_workflow) as workflow:
        resolver = Resolver(database, workflow)
        found, source = await resolver.resolve(None, me)
        assert (found.project_id, source) == (in_workflow, "workflow")
        await resolver.switch(active, me)
        found, source = await resolver.resolve(None, me)
        assert (found.project_id, source) == (active, "active")
        names(tmp_path, id_of(project))
        await resolver.confirm(tmp_path)
        assert await resolver.resolve(None, me) == (project, "config")


@pytest.mark.parametrize(("said", "source"), [(None, "default"), ("default", "workflow")])
async def test_workflow_mcp_may_name_no_project_or_the_default_workspace(
    database: Database, said: str | None, source: str
) -> None:
    async with workflow_mcp(said) as workflow:
        found = await Resolver(database, workflow).resolve(None, ANONYMOUS)
    assert (found[0].project_id, found[1]) == (None, source)


async def test_a_project_that_is_known_costs_no_round_trip(
    embedded: Embedded, project: Project, tmp_path: Path
) -> None:
    database = await Database.open(embedded)
    resolver = Resolver(database)
    me = Identity("me", tmp_path)
    await resolver.switch(id_of(project), me)
    other = Identity("other", names(tmp_path / "named", id_of(project)))
    await resolver.confirm(tmp_path / "named")
    await resolver.resolve(None, ANONYMOUS)
    await resolver.resolve(None, other)
    await database.close()
    assert await resolver.resolve(None, me) == (project, "active")
    assert await resolver.resolve(None, other) == (project, "config")
    assert await resolver.resolve(id_of(project), ANONYMOUS) == (project, "explicit")
    assert (await resolver.resolve(None, ANONYMOUS))[1] == "default"


async def test_over_http_no_file_is_read(
    resolver: Resolver, project: Project, tmp_path: Path
) -> None:
    names(tmp_path, "Broken And Never Read")
    for identity in (ANONYMOUS, Identity("key a", is_shared=True)):
        found, source = await resolver.resolve(None, identity, repository=tmp_path, create=True)
        assert (found.project_id, source) == (None, "default")


async def test_indexing_reads_the_file_of_the_repository_not_of_the_caller(
    resolver: Resolver, new_id: Callable[[], str], tmp_path: Path
) -> None:
    theirs, mine = new_id(), new_id()
    me = Identity("me", names(tmp_path / "mine", mine))
    repository = names(tmp_path / "theirs", theirs) / "deep" / "inside"
    repository.mkdir(parents=True)
    found, source = await resolver.resolve(None, me, repository=repository, create=True)
    assert (found.project_id, source) == (theirs, "config")


async def test_a_directory_that_makes_its_project_needs_no_confirmation(
    database: Database, resolver: Resolver, new_id: Callable[[], str], tmp_path: Path
) -> None:
    me = Identity("me", names(tmp_path, name := new_id()))
    with pytest.raises(ProjectNotFound) as caught:
        await resolver.resolve(None, me)
    assert caught.value.message == "Project has not been indexed or does not exist"
    assert str(tmp_path / FILE_NAME) in (caught.value.hint or "")
    made, source = await resolver.resolve(None, me, repository=tmp_path, create=True)
    assert (made.project_id, source) == (name, "config")
    for somebody in (resolver, Resolver(database)):
        assert await somebody.resolve(None, me) == (made, "config")


async def refused(resolver: Resolver, directory: Path, project: Project) -> PermissionDenied:
    """The error of a directory that may not name a project, be it to read or to index."""
    here = Identity("stranger", directory)
    with pytest.raises(PermissionDenied) as caught:
        await resolver.resolve(None, here, repository=directory, create=True)
    with pytest.raises(PermissionDenied):
        await resolver.resolve(None, here)
    return caught.value


async def test_a_clone_does_not_reach_a_project_that_was_there_before(
    resolver: Resolver, project: Project, tmp_path: Path
) -> None:
    clone = names(tmp_path / "clone", id_of(project))
    error = await refused(resolver, clone, project)
    assert error.message == (
        f"{clone / FILE_NAME} names the project {project.project_id}, which it did not create"
    )
    assert f"codebase-mcp trust {clone}" in (error.hint or "")
    assert error.details["project_id"] == project.project_id


async def test_a_clone_does_not_reach_the_default_workspace_either(
    database: Database, resolver: Resolver, project: Project, tmp_path: Path
) -> None:
    await ensure_project(database, None)
    clone = names(tmp_path / "clone", "default")
    error = await refused(resolver, clone, project)
    assert "names the default workspace" in error.message
    assert 'project_id="default"' in (error.hint or "")
    await resolver.resolve("default", Identity("me", tmp_path), repository=clone, create=True)
    found, source = await resolver.resolve(None, Identity("me", clone))
    assert (found.project_id, source) == (None, "config")


async def test_a_file_is_confirmed_by_the_command(
    database: Database, resolver: Resolver, project: Project, tmp_path: Path
) -> None:
    clone = names(tmp_path / "clone", id_of(project))
    await refused(resolver, clone, project)
    (clone / "src").mkdir()
    context, confirmed = await Resolver(database).confirm(clone / "src")
    assert (context.directory, confirmed) == (str(clone), project)
    assert await resolver.resolve(None, Identity("me", clone)) == (project, "config")
    await refused(resolver, names(tmp_path / "another", id_of(project)), project)


async def test_a_file_is_confirmed_by_indexing_its_repository_under_its_name(
    resolver: Resolver, project: Project, tmp_path: Path
) -> None:
    clone = names(tmp_path / "clone", id_of(project))
    me = Identity("me", tmp_path)
    await resolver.resolve("default", me, repository=clone, create=True)
    await resolver.resolve(id_of(project), Identity("key a"), repository=clone, create=True)
    await resolver.resolve(id_of(project), Identity("me", clone))
    await refused(resolver, clone, project)
    await resolver.resolve(id_of(project), me, repository=clone, create=True)
    assert await resolver.resolve(None, me, repository=clone, create=True) == (project, "config")


async def test_a_file_is_confirmed_by_switching_to_its_project(
    resolver: Resolver, project: Project, tmp_path: Path
) -> None:
    clone = names(tmp_path / "clone", id_of(project))
    await resolver.switch("default", Identity("me", clone))
    await resolver.switch(id_of(project), Identity("me", tmp_path))
    await refused(resolver, clone, project)
    await resolver.switch(id_of(project), Identity("me", clone))
    assert await resolver.resolve(None, Identity("me", clone)) == (project, "config")


async def test_a_file_is_confirmed_by_creating_its_project(
    resolver: Resolver, new_id: Callable[[], str], tmp_path: Path
) -> None:
    me = Identity("me", names(tmp_path / "mine", name := new_id()))
    project = await resolver.create(name, me, name="Mine", description=None)
    assert await resolver.resolve(None, me) == (project, "config")
    await refused(resolver, names(tmp_path / "clone", name), project)


async def test_of_two_directories_that_make_one_project_at_once_one_is_confirmed(
    database: Database, embedded: Embedded, new_id: Callable[[], str], tmp_path: Path
) -> None:
    name = new_id()
    homes = [names(tmp_path / str(number), name) for number in range(4)]
    others = [await Database.open(embedded) for _ in homes]
    outcomes = await asyncio.gather(
        *(
            Resolver(other).resolve(None, Identity("me", home), repository=home, create=True)
            for other, home in zip(others, homes, strict=True)
        ),
        return_exceptions=True,
    )
    for other in others:
        await other.close()
    assert sum(isinstance(outcome, tuple) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, PermissionDenied) for outcome in outcomes) == 3


async def test_a_project_that_is_made_anew_is_another_one(
    database: Database, resolver: Resolver, new_id: Callable[[], str], tmp_path: Path
) -> None:
    first = names(tmp_path / "first", name := new_id())
    me = Identity("me", first)
    made, _ = await resolver.resolve(None, me, repository=first, create=True)
    await drop_project(database, made)
    second = names(tmp_path / "second", name)
    await Resolver(database).resolve(None, me, repository=second, create=True)
    with pytest.raises(PermissionDenied):
        await resolver.resolve(None, me, repository=first, create=True)


async def test_what_there_is_nothing_to_confirm_for_is_said(
    resolver: Resolver, new_id: Callable[[], str], tmp_path: Path
) -> None:
    with pytest.raises(NotFound) as caught:
        await resolver.confirm(tmp_path)
    assert str(tmp_path) in caught.value.message
    names(tmp_path, name := new_id())
    context, project = await resolver.confirm(tmp_path)
    assert (context.project_id, project) == (name, None)


async def test_a_broken_file_stops_calls_that_need_it_and_no_others(
    resolver: Resolver, project: Project, tmp_path: Path
) -> None:
    (tmp_path / FILE_NAME).write_text("project = 5")
    me = Identity("me", tmp_path)
    await resolver.switch(id_of(project), me)
    await resolver.resolve(id_of(project), me, repository=tmp_path, create=True)
    with pytest.raises(InvalidInput, match="must be a string"):
        await resolver.resolve(None, me)
    now = await resolver.current(me)
    assert (now.project_id, now.source) == (None, "config")
    assert str(tmp_path / FILE_NAME) in (now.problem or "")


@pytest.mark.parametrize("is_shared", [False, True])
async def test_each_caller_has_its_own_active_project(
    resolver: Resolver, project: Project, is_shared: bool
) -> None:
    owners = [Identity(f"{uuid.uuid4()}", is_shared=is_shared) for _ in range(3)]
    assert await resolver.active(owners[0]) is None
    await resolver.switch(id_of(project), owners[0])
    await resolver.switch("default", owners[1])
    assert await resolver.active(owners[0]) == project
    assert await resolver.resolve(None, owners[0]) == (project, "active")
    found, source = await resolver.resolve(None, owners[1])
    assert (found.project_id, source) == (None, "active")
    assert (await resolver.resolve(None, owners[2]))[1] == "default"
    await resolver.switch("default", owners[0])
    assert (await resolver.resolve(None, owners[0]))[0].project_id is None


async def test_processes_share_the_active_project_of_whom_they_both_serve(
    database: Database, embedded: Embedded, resolver: Resolver, project: Project
) -> None:
    other = await Database.open(embedded)
    elsewhere = Resolver(other)
    key, process = Identity(f"key {uuid.uuid4()}", is_shared=True), Identity("process")
    await resolver.switch(id_of(project), key)
    await resolver.switch(id_of(project), process)
    assert (await elsewhere.resolve(None, key))[0] == project
    assert (await elsewhere.resolve(None, process))[1] == "default"
    await elsewhere.switch("default", key)
    assert (await resolver.resolve(None, key))[0].project_id is None
    await other.close()


async def test_a_caller_who_cannot_be_told_from_others_cannot_switch(
    resolver: Resolver, project: Project
) -> None:
    with pytest.raises(PermissionDenied) as caught:
        await resolver.switch(id_of(project), ANONYMOUS)
    assert caught.value.hint == "Pass project_id with each call."
    assert await resolver.active(ANONYMOUS) is None


async def test_too_many_callers_are_refused_rather_than_mixed_up(database: Database) -> None:
    active = ActiveProjects(database, max_owners=2)
    first, second, third = (Identity(name) for name in ("first", "second", "third"))
    await active.switch(first, "a")
    await active.switch(second, "b")
    with pytest.raises(PermissionDenied):
        await active.switch(third, "c")
    await active.switch(second, "c")
    assert [await active.of(who) for who in (first, second, third)] == [
        ProjectChoice("a", "active"),
        ProjectChoice("c", "active"),
        None,
    ]


async def test_switching_to_what_does_not_exist_changes_nothing(
    resolver: Resolver, project: Project
) -> None:
    me = Identity("me")
    await resolver.switch(id_of(project), me)
    with pytest.raises(ProjectNotFound):
        await resolver.switch("never-made", me)
    assert await resolver.resolve(None, me) == (project, "active")


@pytest.mark.parametrize("is_shared", [False, True])
async def test_an_active_project_that_was_dropped_is_an_error_never_another_project(
    database: Database, resolver: Resolver, new_id: Callable[[], str], is_shared: bool
) -> None:
    me = Identity(f"{uuid.uuid4()}", is_shared=is_shared)
    project = await ensure_project(database, name := new_id())
    await resolver.switch(name, me)
    await drop_project(database, project)
    resolver.forget(project)
    for create in (False, True):
        with pytest.raises(ProjectNotFound) as caught:
            await resolver.resolve(None, me, create=create)
        assert caught.value.message == f"The active project {name} does not exist any more"
        assert "switch_project" in (caught.value.hint or "")
    assert await resolver.active(me) is None
    now = await resolver.current(me)
    assert (now.project_id, now.source) == (name, "active")
    assert "does not exist any more" in (now.problem or "")


async def test_a_drop_in_another_process_is_noticed(
    database: Database, resolver: Resolver, new_id: Callable[[], str]
) -> None:
    me = Identity("me")
    project = await ensure_project(database, name := new_id())
    await resolver.switch(name, me)
    await drop_project(database, project)
    with pytest.raises(ProjectNotFound, match="The active project"):
        await resolver.recheck(project, "active")
    with pytest.raises(ProjectNotFound, match="The active project"):
        await resolver.resolve(None, me)


async def test_a_project_of_workflow_mcp_is_made_by_indexing_alone(
    database: Database, new_id: Callable[[], str]
) -> None:
    async with workflow_mcp(name := new_id()) as workflow:
        resolver = Resolver(database, workflow)
        with pytest.raises(ProjectNotFound) as caught:
            await resolver.resolve(None, ANONYMOUS)
        assert caught.value.message == "Project has not been indexed or does not exist"
        assert f"workflow-mcp reports that {name} is active" in (caught.value.hint or "")
        now = await resolver.current(ANONYMOUS)
        assert (now.project_id, now.source, bool(now.problem)) == (name, "workflow", True)
        made, source = await resolver.resolve(None, ANONYMOUS, create=True)
        assert (made.project_id, source) == (name, "workflow")
        assert await resolver.current(ANONYMOUS) == Current(name, "workflow")


async def test_of_many_who_create_one_project_at_once_one_succeeds(
    database: Database, embedded: Embedded, new_id: Callable[[], str]
) -> None:
    name = new_id()
    others = [await Database.open(embedded) for _ in range(4)]
    twin = name.replace("-", "_")
    outcomes = await asyncio.gather(
        *(create_project(o, name, f"From {n}", "what for") for n, o in enumerate(others)),
        *(create_project(o, twin, "A twin") for o in others),
        return_exceptions=True,
    )
    for other in others:
        await other.close()
    [made] = [outcome for outcome in outcomes if isinstance(outcome, Project)]
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 7
    assert made.project_id in (name, twin)
    assert await find_project(database, made.project_id) == made
    if made.project_id == twin:
        await drop_project(database, made)


async def test_the_default_workspace_cannot_be_created(resolver: Resolver) -> None:
    with pytest.raises(Conflict):
        await resolver.create("default", ANONYMOUS, name="Default", description=None)


async def test_projects_come_in_pages_newest_first_each_once(
    database: Database, new_id: Callable[[], str]
) -> None:
    made = [(await ensure_project(database, new_id())).project_id for _ in range(5)]
    async with database.catalogue() as tx:  # some of them at the same moment
        await tx.execute(
            "UPDATE project SET created_at = now() WHERE project_id = ANY(%(ids)s)", ids=made[2:]
        )
    everything, total = await page_of_projects(database, Paging(100).parameters())
    assert total == len(everything)
    assert [p.created_at for p in everything] == sorted(
        (p.created_at for p in everything), reverse=True
    )
    seen: list[Project] = []
    cursor = None
    while True:
        paging = Paging(2, cursor=cursor)
        found, total = await page_of_projects(database, paging.parameters())
        page = paging.page(found, total, lambda last: Cursor(last.created_at, page_id(last)))
        seen += page.items
        if page.next_cursor is None:
            break
        cursor = Cursor.decoded(page.next_cursor)
    assert seen == everything
    assert {project.project_id for project in seen} >= set(made)
    skipped, _ = await page_of_projects(database, Paging(1, offset=1).parameters())
    assert skipped == everything[1:3]
