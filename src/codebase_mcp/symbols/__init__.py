"""Who defines and uses this name? Uses are resolved when somebody asks."""
