"""A clone of a repository at states of its past, without any later history."""

from __future__ import annotations

import subprocess
from pathlib import Path

from context_samples import Repository

CONFIGURED = (
    "-c core.logAllRefUpdates=false -c gc.auto=0 -c advice.detachedHead=false"
    " -c core.quotePath=false -c core.hooksPath=/dev/null"
).split()


class StateClone:
    """A clone that is moved from one state to a later one; it has no ref but HEAD."""

    def __init__(self, repository: Repository, root: Path) -> None:
        self.repository = repository
        self.root = root
        source = str(repository.git_dir)
        subprocess.run(
            ["git", "clone", "-q", "--bare", "--shared", source, str(root / ".git")], check=True
        )
        for name in ("core.bare=false", "core.logAllRefUpdates=false", "gc.auto=0"):
            self.git("config", *name.split("="))
        self.git("remote", "remove", "origin")
        for ref in self.git("for-each-ref", "--format=%(refname)").split():
            self.git("update-ref", "-d", ref)
        (root / ".git" / "packed-refs").unlink(missing_ok=True)

    def git(self, *arguments: str) -> str:
        """What git prints in the clone. Raises if it fails."""
        command = ["git", "-C", str(self.root), *CONFIGURED, *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, errors="replace")
        return done.stdout

    def move_to(self, state: str) -> bool:
        """Lay out a commit's files; False if the repository lacks some of its objects."""
        try:
            self.git("update-ref", "--no-deref", "HEAD", state)
            self.git("reset", "-q", "--hard", state)
            self.git("clean", "-ffdqx")
        except subprocess.CalledProcessError:
            return False
        (self.root / ".git" / "ORIG_HEAD").unlink(missing_ok=True)
        return True

    def edit(self, commit: str, path: str) -> None:
        """Give a file the content that a later commit has, as an uncommitted change."""
        content = subprocess.run(
            ["git", f"--git-dir={self.repository.git_dir}", "show", f"{commit}:{path}"],
            check=True,
            capture_output=True,
        ).stdout
        (self.root / path).write_bytes(content)

    def undo(self) -> None:
        """Take back uncommitted changes."""
        self.git("reset", "-q", "--hard")

    def files(self) -> dict[str, str]:
        """The blob of each file that git tracks, by path; links and submodules are left out."""
        listed = self.git("ls-files", "-s", "-z").split("\0")[:-1]
        entries = (entry.split("\t", 1) for entry in listed)
        return {path: about.split()[1] for about, path in entries if about.startswith("100")}
