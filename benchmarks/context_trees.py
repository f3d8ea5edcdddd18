"""A clone of a repository at states of its past, without any later history."""

from __future__ import annotations

import subprocess
from pathlib import Path

from context_samples import Repository


class StateClone:
    """A clone that is moved from one state to a later one; it has no ref but HEAD."""

    def __init__(self, repository: Repository, root: Path) -> None:
        self.repository = repository
        self.root = root
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        alternates = root / ".git" / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{(repository.git_dir / 'objects').resolve()}\n", "utf-8")
        self.git("config", "core.logAllRefUpdates", "false")  # no way back to a state that is left

    def git(self, *arguments: str) -> str:
        """What git prints in the clone. Raises if it fails."""
        command = ["git", "-C", str(self.root), *arguments]
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
