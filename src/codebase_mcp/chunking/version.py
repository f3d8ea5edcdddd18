"""The version of the chunker, without loading a grammar."""

CHUNKER_VERSION = 5
"""Part of an index's profile: raise it whenever the same text gives a different outline."""
