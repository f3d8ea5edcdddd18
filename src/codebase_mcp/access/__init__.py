"""Who calls, which project and which files may a caller use? Keys, projects, trust, standing."""
