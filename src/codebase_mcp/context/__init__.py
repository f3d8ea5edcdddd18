"""What does a task need? Reads the task, gathers evidence for files, and mixes it."""
