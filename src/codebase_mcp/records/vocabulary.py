"""The allowed values of fields of records, for the store, the tools and the commands."""

from __future__ import annotations

from typing import Literal

TaskStatus = Literal["need to be done", "in-progress", "complete"]
WorkItemStatus = Literal["planned", "active", "completed", "blocked"]
WorkItemType = Literal["project", "session", "task", "research", "subtask"]
"""The levels of work, from the highest."""
ObservationType = Literal["Decision", "Execution", "Summary", "Insight", "Pattern"]
