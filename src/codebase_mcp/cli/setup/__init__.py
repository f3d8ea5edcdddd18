"""How is this server added to an agent? ``codebase-mcp setup`` edits the configuration of clients.

`clients.py` describes the clients. `json_edit.py` and `edit.py` edit files without changing any
other byte. `plan.py` makes the changes, and stores what is needed to undo them.
"""
