"""Which project a .mcp-context.toml names, and which such files count."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.access.context_file import (
    FILE_NAME,
    MAX_BYTES,
    ContextFile,
    ContextFiles,
    ContextText,
    context_of,
    is_trusted_owner,
    read_context_file,
)
from codebase_mcp.errors import InvalidInput

NAMES_ONE = 'project = "my-app"\n'
SOMEBODY = 4242


def write(directory: Path, text: str | bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE_NAME
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def files(tmp_path: Path) -> ContextFiles:
    return ContextFiles()


@pytest.mark.parametrize(
    ("text", "project_id"),
    [
        (NAMES_ONE, "my-app"),
        ('project_id = "my_app"', "my_app"),
        ('collection = "my-app"', "my-app"),
        ('[project]\nid = "my-app"\nname = "My App"', "my-app"),
        ('project = "my-app"\nproject_id = "my-app"', "my-app"),
        ('[git]\ndepth = 50\n[project]\nid = "a1"', "a1"),
        ('project = "default"', None),
        (b'\xef\xbb\xbfproject = "my-app"\r\n', "my-app"),
    ],
)
def test_a_file_names_a_project_in_any_of_its_spellings(
    tmp_path: Path, text: str | bytes, project_id: str | None
) -> None:
    path = write(tmp_path, text)
    assert read_context_file(path) == ContextFile(path, project_id)


@pytest.mark.parametrize("text", ["", "# nothing\n", "[git]\ndepth = 100\n", 'other = "my-app"'])
def test_a_file_may_leave_the_project_open(tmp_path: Path, text: str) -> None:
    assert read_context_file(write(tmp_path, text)) is None


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("project = ", "project", "the file is not valid TOML"),
        (b"project = '\xff'", "project", "the file is not valid TOML"),
        ("a = " + "[" * 30_000, "project", "the file is not valid TOML"),
        ("project = 5", "project", "project must be a string, got int"),
        ("project_id = true", "project_id", "project_id must be a string, got bool"),
        ("project = 2026-11-21", "project", "project must be a string, got date"),
        ('[project]\nname = "x"', "project.id", "project.id must be a string, got NoneType"),
        ('project = ["a"]', "project", "project must be a string, got list"),
        ('project = "My App!"', "project", "Invalid project_id: Project identifier must be"),
        ('project = ""', "project", "Invalid project_id: Project identifier must be"),
        ('project_id = "a"\nproject = "b"', "project", "name two projects"),
        (b"# " + b"x" * MAX_BYTES, "project", "it is larger than 64 KiB"),
    ],
)
def test_a_broken_file_is_refused_by_name_key_and_way_out(
    tmp_path: Path, text: str | bytes, key: str, said: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InvalidInput) as caught:
        read_context_file(path)
    assert str(path) in caught.value.message
    assert said in caught.value.message
    assert caught.value.details["field"] == key
    assert caught.value.details["file"] == str(path)
    assert "pass project_id" in (caught.value.hint or "")


def test_an_invalid_name_comes_with_the_nearest_valid_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_context_file(write(tmp_path, 'project = "My App!"'))
    assert "project = 'my-app'" in (caught.value.hint or "")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path, make: Any) -> None:
    make(tmp_path / FILE_NAME)
    with pytest.raises(InvalidInput, match=r"it is not a file|cannot be read"):
        read_context_file(tmp_path / FILE_NAME)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path, NAMES_ONE).chmod(0)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_context_file(tmp_path / FILE_NAME)


def test_the_nearest_file_upward_that_names_a_project_counts(
    tmp_path: Path, files: ContextFiles
) -> None:
    above = write(tmp_path, 'project = "above"')
    near = write(tmp_path / "a", 'project = "near"')
    write(tmp_path / "a" / "b", "[git]\ndepth = 5")
    (tmp_path / "a" / "b" / "c").mkdir()
    (tmp_path / "other").mkdir()
    assert files.nearest(tmp_path / "a" / "b" / "c") == ContextFile(near, "near")
    assert files.nearest(tmp_path / "a") == ContextFile(near, "near")
    assert files.nearest(tmp_path / "other") == ContextFile(above, "above")
    assert ContextFile(near, "near").directory == str(tmp_path / "a")


def test_without_any_file_there_is_none(tmp_path: Path, files: ContextFiles) -> None:
    assert files.nearest(tmp_path) is None
    assert files.nearest(tmp_path / "not" / "there") is None


def test_a_broken_file_does_not_fall_back_to_the_one_above(
    tmp_path: Path, files: ContextFiles
) -> None:
    write(tmp_path, NAMES_ONE)
    write(tmp_path / "a", "project = ")
    with pytest.raises(InvalidInput, match="not valid TOML"):
        files.nearest(tmp_path / "a")


def test_a_directory_is_found_under_its_real_name(tmp_path: Path, files: ContextFiles) -> None:
    path = write(tmp_path / "real", NAMES_ONE)
    (tmp_path / "link").symlink_to("real")
    assert files.nearest(tmp_path / "link") == ContextFile(path, "my-app")


def test_a_link_is_followed_and_a_dangling_one_refused(tmp_path: Path, files: ContextFiles) -> None:
    write(tmp_path / "shared", NAMES_ONE)
    (tmp_path / "a").mkdir()
    link = tmp_path / "a" / FILE_NAME
    link.symlink_to(tmp_path / "shared" / FILE_NAME)
    assert files.nearest(tmp_path / "a") == ContextFile(link, "my-app")
    (tmp_path / "shared" / FILE_NAME).unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        files.nearest(tmp_path / "a")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("given_away", ["file", "link", "target"])
def test_a_file_of_another_user_does_not_count(
    tmp_path: Path, files: ContextFiles, caplog: pytest.LogCaptureFixture, given_away: str
) -> None:
    above = write(tmp_path, 'project = "above"')
    path = write(tmp_path / "a", NAMES_ONE)
    if given_away != "file":
        target = path.rename(tmp_path / "target.toml")
        path.symlink_to(target)
    os.lchown(tmp_path / "target.toml" if given_away == "target" else path, SOMEBODY, SOMEBODY)
    for _ in range(2):
        assert files.nearest(tmp_path / "a") == ContextFile(above, "above")
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} is ignored, as it belongs to another user"
    ]


@pytest.mark.parametrize(
    ("owner", "user", "counts"),
    [(1000, 1000, True), (0, 1000, True), (1001, 1000, False), (0, 0, True), (1000, 0, False)],
)
def test_only_the_current_user_and_root_may_steer_us(
    monkeypatch: pytest.MonkeyPatch, owner: int, user: int, counts: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert is_trusted_owner(owner) is counts


def test_a_change_is_seen_also_where_size_and_time_stay_the_same(
    tmp_path: Path, files: ContextFiles
) -> None:
    path = write(tmp_path, 'project = "one"')
    before = path.stat()
    assert files.nearest(tmp_path) == ContextFile(path, "one")
    path.write_text('project = "two"')
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert files.nearest(tmp_path) == ContextFile(path, "two")
    path.unlink()
    assert files.nearest(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes there")
def test_a_directory_whose_name_is_no_text_can_be_shown(
    files: ContextFiles, tmp_path: Path
) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    path = write(directory, NAMES_ONE)
    found = files.nearest(directory)
    assert found == ContextFile(path, "my-app")
    assert found.directory == f"{tmp_path}/caf\\xe9"


# The file that says what of a repository is read


def test_the_settings_of_a_repository_are_in_the_nearest_file_whatever_it_says(
    tmp_path: Path,
) -> None:
    above = write(tmp_path, NAMES_ONE)
    assert context_of(tmp_path / "a" / "b") == ContextText(above, NAMES_ONE.encode())
    near = write(tmp_path / "a", "# nothing\n")
    assert context_of(tmp_path / "a" / "b") == ContextText(near, b"# nothing\n")
    assert context_of(tmp_path / "a") == ContextText(near, b"# nothing\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_in_its_root_a_repositorys_file_counts_whoever_owns_it(tmp_path: Path) -> None:
    above = write(tmp_path, NAMES_ONE)
    path = write(tmp_path / "a", "max_file_bytes = 1")
    os.lchown(path, SOMEBODY, SOMEBODY)
    assert context_of(tmp_path / "a") == ContextText(path, b"max_file_bytes = 1")
    assert context_of(tmp_path / "a" / "b") == ContextText(above, NAMES_ONE.encode())


@pytest.mark.parametrize("kind", ["large", "directory", "dangling"])
def test_settings_that_cannot_be_read_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / FILE_NAME
    if kind == "large":
        write(tmp_path, "#" * (MAX_BYTES + 1))
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    with pytest.raises(InvalidInput, match=FILE_NAME):
        context_of(tmp_path)
