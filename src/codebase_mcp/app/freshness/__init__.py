"""How the index follows the files: before searches, and while a watcher runs."""
