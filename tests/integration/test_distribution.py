"""What ``make dist`` builds works without the repository.

The wheel is built from the sdist, as package managers build it, and installed by pip into an
environment of its own. Only its dependencies come from the environment of this run, as they would
take minutes to download; ``make try-dist`` downloads them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

import codebase_mcp

ROOT = Path(codebase_mcp.__file__).parents[2]
PACKAGE = ROOT / "src" / "codebase_mcp"

SHOP = {
    "shop/billing.py": '''\
def charge_card(card, amount):
    """Take the money for an order from a credit card."""
    return card.debit(amount)
''',
    "shop/stock.py": '''\
def reserve(item, count):
    """Keep goods in the warehouse until they are paid."""
    item.free -= count
''',
}


def run(
    *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of the repository, and the wheel of the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "hatchling", "build", "--directory", folder)
    run(*build, "--target", "sdist", cwd=ROOT)
    [sdist] = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    run(*build, "--target", "wheel", cwd=source)
    shutil.rmtree(source)
    return folder


@pytest.fixture(scope="module")
def command(built: Path) -> Path:
    """The installed command, by a link in another folder, as pipx and uv make it."""
    environment = built / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    [wheel] = built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "--python", environment / "bin" / "python", "install", "--no-index", "--no-deps",
        "--no-compile", wheel)  # fmt: skip
    [packages] = environment.glob("lib/python*/site-packages")
    # Its own packages come first. The editable install of this run is not found there: it is a
    # .pth file, and those count only in folders that Python itself calls site-packages.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    (built / "bin").mkdir()
    link = built / "bin" / "codebase-mcp"
    link.symlink_to(environment / "bin" / "codebase-mcp")
    return link


@pytest.fixture
def ask(command: Path, tmp_path: Path, scratch: Path) -> Iterator[Callable[..., str]]:
    """Run the command as a user would who has nothing else."""
    data = Path(f"{scratch}/cbm-dist-{os.getpid()}")
    names = ("HOME", "LANG", "TMPDIR", "KF_RULE_CACHE_DIR")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    environment |= {
        "PATH": f"{command.parent}:/usr/bin:/bin",
        "CODEBASE_MCP_DATA_DIR": str(data),
        "CODEBASE_MCP_IDLE_MINUTES": "0.01",
        "CODEBASE_MCP_RESIDENT_MINUTES": "0",
    }
    (tmp_path / "elsewhere").mkdir()
    yield (
        lambda *arguments: (
            run("codebase-mcp", *arguments, cwd=tmp_path / "elsewhere", env=environment).stdout
        )
    )
    shutil.rmtree(data, ignore_errors=True)


def test_the_wheel_has_all_that_runs_and_nothing_else(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
    info = {name for name in names if ".dist-info/" in name}
    manual = {name for name in names if name.endswith(".data/data/share/man/man1/codebase-mcp.1")}
    assert len(manual) == 1
    files = (file for file in PACKAGE.rglob("*") if file.is_file() and file.suffix != ".pyc")
    assert names - info - manual == {str(file.relative_to(PACKAGE.parent)) for file in files}
    endings = {Path(name).suffix for name in names - info - manual}
    assert {".py", ".sql", ".scm", ".toml", ".json", ".safetensors", ".typed"} <= endings
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"\nVersion: {project['version']}\n" in metadata
    for extra in project["optional-dependencies"]:
        assert f"\nProvides-Extra: {extra}\n" in metadata
    assert "mcp-name: " in metadata  # the registry looks for it in the published description
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        below = {member.name.split("/")[1] for member in archive.getmembers()}
    assert not below & {"tests", "training", "benchmarks", ".github"}


def test_the_installed_command_says_what_it_is(ask: Callable[..., str]) -> None:
    migrations = PACKAGE / "database" / "migrations"
    project, catalogue = (
        max(int(file.name[:4]) for file in (migrations / scope).glob("*.sql"))
        for scope in ("project", "catalogue")
    )
    program, schema, model = ask("--version").splitlines()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert program == f"codebase-mcp {version}"
    assert schema == f"schema {project} of projects, {catalogue} of the catalogue"
    assert model.startswith("model builtin ")


def test_the_installed_command_indexes_and_searches(
    ask: Callable[..., str], make_repo: Callable[..., Path], command: Path
) -> None:
    ask("index", str(make_repo(SHOP)))
    found = json.loads(ask("search", "how does a customer pay", "--all", "--json"))
    assert found["results"][0]["file_path"] == "shop/billing.py"
    doctor = ask("doctor")
    assert str(ROOT) not in doctor


def test_the_installed_command_is_the_one_of_the_wheel(command: Path) -> None:
    python = command.resolve().parent / "python"
    shown = run(python, "-I", "-c", "import codebase_mcp; print(codebase_mcp.__file__)").stdout
    assert Path(shown.strip()).is_relative_to(python.parents[1])
