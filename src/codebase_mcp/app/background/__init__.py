"""Work that runs without a call: index jobs, and following changes of files."""
