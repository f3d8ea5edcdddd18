"""Reads the old and new texts of changed files, as many as a call can compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from codebase_mcp.changes.symbols import Text, TextPair
from codebase_mcp.model import FileKind
from codebase_mcp.source.classify import classify, is_generated
from codebase_mcp.source.git_changes import FileChange, FileVersion, read_location
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_objects import Unread, read_blobs
from codebase_mcp.source.read import NOT_FETCHED, decode, language_of_content, lfs_hash

MAX_FILES = 500
MAX_FILE_BYTES = 1 << 20
# Of all files together; parsing that much takes some seconds.
MAX_TOTAL_BYTES = 8 << 20

# If not all files can be read, these come first.
_ORDER = (FileKind.CODE, FileKind.TEST, FileKind.CONFIG, FileKind.DOCS)


@dataclass(frozen=True, slots=True)
class Texts:
    """Changed files with their texts, and how many were left out, by reason."""

    pairs: Mapping[str, TextPair]
    left_out: Mapping[str, int]


def read_texts(
    repository: GitRepository, files: Iterable[FileChange], locations: Mapping[str, bytes]
) -> Texts:
    """The texts of the files whose content differs; ``locations`` are of those on disk, by hash.

    Raises:
        IndexingFailed: git failed.
    """
    left_out: Counter[str] = Counter()
    chosen = []
    for file in files:
        sides = [side for side in (file.old, file.new) if side is not None]
        if file.old and file.new and file.old.object_id == file.new.object_id:
            continue
        traits = classify(file.path)
        if not all(side.is_regular for side in sides):
            left_out["special"] += 1
        elif traits.is_binary or traits.kind not in _ORDER:
            left_out["binary" if traits.is_binary else traits.kind.value] += 1
        else:
            chosen.append((_ORDER.index(traits.kind), file.path, file))
    chosen.sort(key=lambda entry: entry[:2])
    left_out["beyond_limit"] += len(chosen[MAX_FILES:])
    compared = [change for _, _, change in chosen[:MAX_FILES]]
    contents = _contents(repository, compared, locations)
    pairs = {}
    for change in compared:
        pair = _pair(change, contents)
        if isinstance(pair, str):
            left_out[pair] += 1
        else:
            pairs[change.path] = pair
    return Texts(pairs, +left_out)


def _contents(
    repository: GitRepository, files: Sequence[FileChange], locations: Mapping[str, bytes]
) -> dict[str, bytes | str]:
    """The content of each version, or why it is left out, as far as the limit allows."""
    sides = [side for file in files for side in (file.old, file.new) if side is not None]
    on_disk = {file.new.object_id for file in files if file.new and file.new.object_id in locations}
    in_git = dict.fromkeys(side.object_id for side in sides if side.object_id not in on_disk)
    contents: dict[str, bytes | str] = {}
    room = MAX_TOTAL_BYTES
    for object_id in on_disk:
        content = read_location(locations[object_id], MAX_FILE_BYTES)
        contents[object_id] = "too_large" if content is None else content
        room -= len(content or b"")
        if room < 0:
            return contents
    for object_id, read in read_blobs(repository, in_git, MAX_FILE_BYTES):
        contents[object_id] = read.value if isinstance(read, Unread) else read
        room -= len(contents[object_id])
        if room < 0:
            break
    return contents


def _pair(change: FileChange, contents: Mapping[str, bytes | str]) -> TextPair | str:
    """The texts of a file, or the reason to leave it out."""
    texts = []
    for path, version in ((change.old_path or change.path, change.old), (change.path, change.new)):
        text = None if version is None else _text(path, version, contents)
        if isinstance(text, str):
            return text
        texts.append(text)
    return TextPair(change.path, change.old_path, *texts)


def _text(path: str, version: FileVersion, contents: Mapping[str, bytes | str]) -> Text | str:
    content = contents.get(version.object_id, "beyond_limit")
    if isinstance(content, str):
        return content
    if lfs_hash(content) is not None:
        return NOT_FETCHED
    if is_generated(content):
        return "generated"
    try:
        text = decode(content).text
    except UnicodeDecodeError:
        return "undecodable"
    if "\0" in text:
        return "binary"
    language = language_of_content(path, classify(path).language, content)
    return Text(version.object_id, text, language)
