"""How does an agent come to know this server? ``codebase-mcp setup`` writes it into its files.

What is known about each client lies in `clients.py`; how a file is changed so that all the rest of
it stays byte for byte in `jsonc.py`, `json_edit.py`, `toml_edit.py` and `block.py`; how it can be
undone in `receipts.py`.
"""
