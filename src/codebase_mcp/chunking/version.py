"""Which version of the splitter is this? Known without loading a grammar."""

CHUNKER_VERSION = 3
"""Part of an index's profile: raise it whenever the same text gives another outline."""
