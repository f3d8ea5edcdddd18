"""Repositories as they are in the wild: indexed without harm, at a bearable cost, and truly."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.git import git

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import find_project
from codebase_mcp.index import batches, plan
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

CLEAN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def commit(directory: Path) -> None:
    if not (directory / ".git").exists():
        git(directory, "init", "-q")
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "all")


async def found_paths(app: App, project_id: str, query: str) -> list[str]:
    report = await app.search(query, project_id)
    return [hit.file_path for hit in report.answer.hits]


async def stored_kinds(database: Database, project_id: str) -> dict[str, str]:
    async with database.transaction(await find_project(database, project_id)) as tx:
        return dict(await tx.fetch_all("SELECT path, kind FROM file"))  # type: ignore[arg-type]


async def test_a_monorepo_with_repositories_inside_is_indexed_as_one_tree(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(
        {
            "a.py": "def outer_alpha(): ...\n",
            ".gitignore": "*.log\n",
            "tools/inner/b.py": "def inner_beta(): ...\n",
            "tools/inner/.gitignore": "c.py\n",
            "tools/inner/c.py": "def ignored_gamma(): ...\n",
            "tools/inner/keep.log": "kept_by_inner_rules\n",
            "bare/HEAD": "ref: refs/heads/main\n",
            "bare/config": "[core]\n\tbare = true\n",
            "bare/objects/x": "",
            "bare/refs/x": "",
            "bare/hook.py": "def in_what_looks_bare(): ...\n",
        }
    )
    git(root / "tools" / "inner", "init", "-q")
    git(root, "init", "-q")
    git(root, "add", "a.py", ".gitignore", "bare")
    run = (await app.index(root, project_id)).run
    assert run.status == "success"
    assert (await found_paths(app, project_id, "inner_beta"))[0] == "tools/inner/b.py"
    assert "bare/hook.py" not in await found_paths(app, project_id, "in_what_looks_bare")
    assert "tools/inner/c.py" not in await found_paths(app, project_id, "ignored_gamma")
    assert (await app.index(root, project_id)).run.files_indexed == 0


async def test_submodules_are_searched_where_they_are_checked_out_unless_they_are_unwanted(
    app: App, embedded_settings: Callable[..., Settings], make_repo: MakeRepo, project_id: str
) -> None:
    library = make_repo({"lib.py": "def library_code(): ...\n"}, "library")
    commit(library)
    root = make_repo({"main.py": "def main_code(): ...\n"}, "root")
    git(root, "init", "-q")
    git(root, "submodule", "--quiet", "add", str(library), "deps/library")
    commit(root)
    async with await App.open(embedded_settings(INCLUDE_SUBMODULES="false")) as unwanting:
        run = (await unwanting.index(root, project_id)).run
        assert (run.files_skipped, run.files_indexed) == ({"submodule": 1}, 2)
    run = (await app.index(root, project_id)).run
    assert (run.files_skipped, run.files_indexed, run.notice) == ({}, 1, None)
    (root / "deps/library/more.py").write_text("def more_library_code(): ...\n")
    assert "deps/library/lib.py" in await found_paths(app, project_id, "library_code")
    assert (await found_paths(app, project_id, "more_library_code"))[0] == "deps/library/more.py"
    report = await app.search("library_code", project_id, ref="main")
    assert all(not hit.file_path.startswith("deps/") for hit in report.answer.hits)


async def test_a_submodule_that_is_not_fetched_is_named_and_comes_in_when_it_is(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    library = make_repo({"lib.py": "def library_code(): ...\n"}, "library")
    commit(library)
    origin = make_repo({"main.py": "def main_code(): ...\n"}, "origin")
    git(origin, "init", "-q")
    git(origin, "submodule", "--quiet", "add", str(library), "deps/library")
    commit(origin)
    root = origin.with_name("clone")
    git(origin.parent, "clone", "-q", str(origin), str(root))
    run = (await app.index(root, project_id)).run
    assert (run.status, run.files_skipped) == ("success", {"submodule_not_fetched": 1})
    assert run.notice is not None
    assert "not fetched" in run.notice and "deps/library" in run.notice
    git(root, "submodule", "--quiet", "update", "--init")
    assert (await found_paths(app, project_id, "library_code"))[0] == "deps/library/lib.py"
    assert (await app.index(root, project_id)).run.notice is None
    git(root, "submodule", "--quiet", "deinit", "--force", "--all")
    assert "deps/library/lib.py" not in await found_paths(app, project_id, "library_code")


POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


async def test_a_file_that_git_lfs_has_not_fetched_is_counted_and_comes_in_when_it_is(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(
        {"main.py": "def main_code(): ...\n", "model.py": POINTER, "data.csv": POINTER}
    )
    commit(root)
    report = await app.index(root, project_id)
    assert (report.run.status, report.run.files_indexed) == ("success", 1)
    assert report.run.files_skipped == {"lfs_not_fetched": 2}
    (root / "model.py").write_text("def predict_weather(): ...\n")
    assert (await found_paths(app, project_id, "predict_weather"))[0] == "model.py"
    (root / "model.py").write_text(POINTER)
    assert (await app.index(root, project_id)).run.files_skipped == {"lfs_not_fetched": 2}
    assert await found_paths(app, project_id, "predict_weather") == []
    found = await app.search("git-lfs version", project_id)
    assert (found.answer.hits, found.index.state) == ([], "ready")
    found = await app.search("model", project_id, ref="main")
    assert all(hit.file_path == "main.py" for hit in found.answer.hits)


async def test_pointers_that_an_earlier_version_indexed_go_with_the_next_run(
    app: App, database: Database, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({"main.py": "def main_code(): ...\n", "model.py": "def predict(): ...\n"})
    await app.index(root, project_id)
    (root / "model.py").write_text(POINTER)
    status = (root / "model.py").stat()
    async with database.transaction(await find_project(database, project_id)) as tx:
        await tx.execute(
            "UPDATE file SET size = %(size)s, mtime_ns = %(mtime)s, ctime_ns = %(ctime)s"
            " WHERE path = 'model.py'",
            size=status.st_size,
            mtime=status.st_mtime_ns,
            ctime=status.st_ctime_ns,
        )
        await tx.execute("UPDATE snapshot SET classifier = 2")
    run = (await app.index(root, project_id)).run
    assert run.files_skipped == {"lfs_not_fetched": 1}
    assert await stored_kinds(database, project_id) == {"main.py": "code"}


@pytest.fixture
def embedded_settings(settings: Settings) -> Callable[..., Settings]:
    def load(**variables: str) -> Settings:
        said = {f"CODEBASE_MCP_{name}": value for name, value in variables.items()}
        return Settings.load({"CODEBASE_MCP_DATA_DIR": str(settings.data_dir), **said})

    return load


async def test_nothing_of_a_bare_repository_is_found_in_what_holds_it(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({"a.py": "def outer_alpha(): ...\n"})
    git(root, "init", "-q", "--bare", "mirror.git")
    (root / "mirror.git" / "config").write_text("[remote]\n\turl = https://hunter2@example.org\n")
    run = (await app.index(root, project_id)).run
    assert (run.files_indexed, run.files_skipped) == (1, {"git_directory": 1})
    assert await found_paths(app, project_id, "hunter2 remote url") == []


async def test_a_run_is_partial_that_leaves_out_rules_until_they_are_short_enough(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({"a.py": "a = 1\n", "private.py": "p = 1\n"})
    (root / ".mcpignore").write_text("private.py\n" * 100_000)
    run = (await app.index(root, project_id)).run
    assert run.status == "partial"
    assert run.errors == [
        "Failed to process .mcpignore: Its rules are not applied, as it exceeds 1 MiB"
    ]
    (root / ".mcpignore").write_text("private.py\n")
    run = (await app.index(root, project_id)).run
    assert (run.status, run.files_removed) == ("success", 1)


async def test_linked_worktrees_share_what_is_the_same(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    commit(root)
    linked = root.with_name("linked")
    git(root, "worktree", "add", "--quiet", "-b", "feature", str(linked))
    (linked / "new.py").write_text("def only_in_the_feature(): ...\n")
    first = (await app.index(root, project_id)).run
    second = (await app.index(linked, project_id)).run
    assert second.files_indexed == first.files_indexed + 1
    assert second.chunks_created == 1
    assert second.repository_id != first.repository_id


async def test_a_sparse_checkout_is_indexed_as_it_is_on_disk(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({f"{d}/m.py": f"def in_{d}(): ...\n" for d in ("one", "two", "three")})
    commit(root)
    await app.index(root, project_id)
    git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "two")
    run = (await app.index(root, project_id)).run
    assert (run.status, run.files_removed, run.files_unchanged) == ("success", 2, 1)
    git(root, "sparse-checkout", "disable")
    run = (await app.index(root, project_id)).run
    assert (run.files_indexed, run.chunks_created) == (2, 0)


async def test_a_file_of_a_hundred_thousand_lines_is_indexed_to_its_end(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    functions = "".join(f"def f{n}(): return {n}\n\n\n" for n in range(20_000))
    text = "a = 1\n" * 40_000 + functions + "def the_last_of_all(): ...\n"
    assert text.count("\n") == 100_001
    assert len(text) < 1 << 20
    flat = "a\n" * 100_000 + "the_very_end\n"
    root = make_repo({"long.py": text, "flat.txt": flat, "over.py": "x = 1\n" * 200_000})
    run = (await app.index(root, project_id)).run
    assert run.status == "partial"
    assert run.errors == ["Failed to process over.py: File exceeds size limit"]
    report = await app.search("the_last_of_all", project_id)
    [hit] = [hit for hit in report.answer.hits if hit.file_path == "long.py"][:1]
    assert hit.end_line == text.count("\n")
    assert "flat.txt" in await found_paths(app, project_id, "the_very_end")


async def test_minified_files_are_few_chunks_and_known_as_generated(
    app: App, database: Database, make_repo: MakeRepo, project_id: str
) -> None:
    unit = "function a{0}(b,c){{return b?c({0}):[1,2,{{d:'e'}}]}}var f{0}=a{0}(1,g=>g*{0});"
    script = "".join(unit.format(n) for n in range(12_000))[: (1 << 20) - 10]
    style = "".join(f".c{n}{{color:#f{n:05d};margin:0 {n}px}}" for n in range(8_000))
    nested = "[" * 200_000 + "]" * 200_000
    root = make_repo(
        {
            "app.js": script,
            "style.css": style,
            "nested.js": f"var a={nested};",
            "words.html": "<p>" + "word " * 150_000,
            "blank.py": " " * 900_000 + "x",
            "data.json": '{"a":[' + ",".join(str(n) for n in range(40_000)) + "]}",
            "hand.py": "def minified_by_hand(): ...\n",
        }
    )
    run = (await app.index(root, project_id)).run
    assert run.status == "success"
    assert run.chunks_created == 7
    kinds = await stored_kinds(database, project_id)
    assert {kinds[path] for path in kinds if path != "hand.py"} == {"generated"}
    assert (await found_paths(app, project_id, "minified_by_hand"))[0] == "hand.py"


@pytest.mark.parametrize(
    ("newline", "lines"),
    [
        ("\r\n", 5),
        ("\r", 5),
        ("\n\x0c", 5),  # a form feed, as in old GNU sources, begins no line
        ("\x85", 1),
        ("\u2028", 1),
        ("\x0b", 1),
    ],
)
async def test_lines_are_counted_as_editors_count_them(
    app: App, make_repo: MakeRepo, project_id: str, newline: str, lines: int
) -> None:
    text = newline.join(["# one", "# two", "def the_function():", "    pass", "# five"])
    root = make_repo({"a.py": text.encode()})
    await app.index(root, project_id)
    [hit] = (await app.search("the_function", project_id)).answer.hits
    assert (hit.start_line, hit.end_line) == (1, lines)
    assert "the_function" in hit.content


async def test_what_is_no_plain_file_is_counted_and_never_opened(
    app: App, make_repo: MakeRepo, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repo({"a.py": "def plain(): ...\n", "sub/b.py": "def below(): ...\n"})
    os.mkfifo(root / "pipe.py")
    monkeypatch.chdir(root)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.py")
        (root / "loop").symlink_to(".")
        (root / "sub" / "up").symlink_to("..")
        (root / "self.py").symlink_to("self.py")
        (root / "gone.py").symlink_to("nowhere.py")
        (root / "passwd.py").symlink_to("/etc/passwd")
        run = (await app.index(root, project_id)).run
        commit(root)
        again = (await app.index(root, project_id)).run
    assert (run.status, run.files_indexed) == ("success", 2)
    assert run.files_skipped == {"special": 2, "symlink": 5}
    assert (again.status, again.files_indexed) == ("success", 0)
    assert again.files_skipped["symlink"] == 5


async def test_odd_names_are_found_under_their_names(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    names = [
        *("-rf.py", "--help.py", "~.py", "$(touch x).py", "a;b.py", "a'b\"c.py", "%s%n.py"),
        *(
            "tab\t.py",
            "CON.py",
            "ünïcödé/日本.py",
            "e\u0301.py",
            "\u202egnp.py",
            "\U0001f469\u200d.py",
        ),
        *("*.py", "[a].py", ":(glob)x.py", "#x.py", "!x.py", "a\\b.py", "x" * 200 + ".py"),
        "/".join("d" * 30) + "/deep.py",
    ]
    words = "amber birch cedar delta ember fjord grove heron ivory jolly karma lemon maple noble"
    words += " ocean pearl quilt raven sable tulip umber"
    files = {n: f"def {w}(): ...\n" for n, w in zip(names, words.split(), strict=True)}
    root = make_repo(files)
    commit(root)
    run = (await app.index(root, project_id)).run
    assert (run.status, run.files_indexed) == ("success", len(names))
    for name, word in zip(names, words.split(), strict=True):
        assert (await found_paths(app, project_id, word))[0] == name
    assert (await app.index(root, project_id)).run.files_unchanged == len(names)


async def test_hand_written_code_ranks_before_its_generated_and_vendored_likes(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    body = "def parse_invoice(text):\n    '''Parse an invoice into its lines.'''\n    return {}\n"
    root = make_repo(
        {
            "a_generated/invoice.py": "# Code generated by makeinvoice. DO NOT EDIT.\n"
            + body.format("text.split('a')"),
            "vendor/invoice.py": body.format("text.split('b')"),
            "marked/invoice.py": body.format("text.split('c')"),
            "third/invoice.py": body.format("text.split('d')"),
            "zz/invoice.py": body.format("text.split('e')"),
            ".gitattributes": "marked/* linguist-generated\nthird/* linguist-vendored\n",
        }
    )
    await app.index(root, project_id)
    for query in ("parse invoice", "parse_invoice", "how is an invoice parsed into lines"):
        paths = await found_paths(app, project_id, query)
        assert paths[0] == "zz/invoice.py"
        assert len([path for path in paths if path.endswith("invoice.py")]) == 5


async def test_what_attributes_say_is_followed_when_they_change(
    app: App, database: Database, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({"a.py": "def a(): ...\n", "sub/b.py": "def b(): ...\n"})
    await app.index(root, project_id)
    (root / ".gitattributes").write_text("*.py linguist-generated\n")
    run = (await app.index(root, project_id)).run
    assert run.chunks_created == 1
    kinds = await stored_kinds(database, project_id)
    assert kinds == {"a.py": "generated", "sub/b.py": "generated", ".gitattributes": "config"}
    (root / ".gitattributes").unlink()
    await app.index(root, project_id)
    assert await stored_kinds(database, project_id) == {"a.py": "code", "sub/b.py": "code"}


async def test_what_attributes_say_is_followed_also_after_a_run_that_broke_off(
    app: App,
    database: Database,
    make_repo: MakeRepo,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "BATCH_FILES", 1)
    monkeypatch.setattr(plan, "RACY_NS", 0)  # the times of files prove that they are the same
    root = make_repo({"a.py": "def a(): ...\n", "sub/b.py": "def b(): ...\n"})
    await app.index(root, project_id)
    (root / ".gitattributes").write_text("*.py linguist-generated\n")

    def stop(progress: RunProgress) -> None:
        if progress.done:
            raise KeyError

    with pytest.raises(KeyError):
        await app.index(root, project_id, progress=stop)
    begun = await stored_kinds(database, project_id)  # batches end in any order
    assert begun != {"a.py": "code", "sub/b.py": "code"}
    await app.index(root, project_id)
    kinds = await stored_kinds(database, project_id)
    assert kinds == {"a.py": "generated", "sub/b.py": "generated", ".gitattributes": "config"}
