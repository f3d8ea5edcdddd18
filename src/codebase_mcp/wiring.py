"""Turns settings into the values that other packages take."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from codebase_mcp.database.connection import DatabaseTarget, Embedded, External
from codebase_mcp.embedding.providers import Provider, provider_of_folder
from codebase_mcp.settings import Settings

if TYPE_CHECKING:
    from codebase_mcp.embedding.models import Access
    from codebase_mcp.embedding.profile import Recipe

# Models bring numpy along, which the database starts without.


def database_target(settings: Settings) -> DatabaseTarget:
    """The PostgreSQL of the configured URL, or the embedded one."""
    if settings.database_url is None:
        return Embedded(settings.data_dir, idle_minutes=settings.idle_minutes)
    return External(
        settings.database_url,
        pool_size=settings.db_pool_size,
        overflow=settings.db_max_overflow,
        direct_url=settings.direct_database_url,
    )


def chosen_model(settings: Settings) -> Recipe:
    """The configured model."""
    from codebase_mcp.embedding.profile import Recipe  # noqa: PLC0415

    return Recipe(
        provider_of(settings),
        settings.embedding_model,
        settings.embedding_query_prefix,
        settings.embedding_passage_prefix,
    )


def provider_of(settings: Settings) -> Provider:
    """The provider of the configured model; if none is configured, determined from its folder."""
    if settings.embedding_provider is None and not settings.ollama_url:
        return provider_of_folder(settings.embedding_model)
    return cast(Provider, settings.provider)


def model_access(settings: Settings) -> Access:
    """How to reach models: the configured one, and those of older indexes."""
    from codebase_mcp.embedding.models import Access  # noqa: PLC0415

    return Access(
        ollama_url=settings.ollama_url,
        openai_url=settings.openai_url,
        openai_api_key=settings.openai_api_key,
        batch_size=settings.embedding_batch_size,
        timeout_s=settings.embedding_timeout_s,
    )
