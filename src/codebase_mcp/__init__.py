"""Code search for AI coding agents, over PostgreSQL and pgvector."""
