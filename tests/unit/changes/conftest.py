"""Real git repositories, as for the tests of ``source``."""

from tests.unit.source.conftest import git, home, repository, tree

__all__ = ["git", "home", "repository", "tree"]
