"""Compares states of a repository, and finds what a change affects."""
