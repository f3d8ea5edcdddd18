"""How is this server added to an agent? ``codebase-mcp setup`` edits the configuration of clients.

`clients.py` describes the clients. `json_edit.py`, `toml_edit.py` and `edit.py` edit
files without changing any other byte. `receipts.py` stores what is needed to undo it.
"""
