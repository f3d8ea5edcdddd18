"""Validates user-defined JSON Schemas and the values described by them, and compares versions.

The schemas are untrusted: the number of steps of every check is limited, and external references
are not fetched.
"""
