"""Keys of callers over HTTP."""
