"""Turns settings into the values that packages take."""

from __future__ import annotations

from typing import cast

from codebase_mcp.database.connection import DatabaseTarget, Embedded, External
from codebase_mcp.embedding.providers import (
    PROVIDERS,
    Provider,
    Recipe,
    ServiceAccess,
    provider_of_folder,
)
from codebase_mcp.settings.loading import Settings


def database_target(settings: Settings) -> DatabaseTarget:
    """The PostgreSQL of the configured URL, or the embedded PostgreSQL."""
    has_roles = settings.project_roles == "auto"
    if settings.database_url is None:
        return Embedded(settings.data_dir, settings.idle_minutes, project_roles=has_roles)
    return External(
        settings.database_url,
        pool_size=settings.db_pool_size,
        overflow=settings.db_max_overflow,
        direct_url=settings.direct_database_url,
        read_url=settings.database_read_url,
        project_roles=has_roles,
    )


def chosen_model(settings: Settings) -> Recipe:
    return Recipe(
        provider_of(settings),
        settings.embedding_model,
        settings.embedding_query_prefix,
        settings.embedding_passage_prefix,
    )


def provider_of(settings: Settings) -> Provider:
    """The provider of the configured model; if none is configured, determined from its folder."""
    if settings.embedding_provider is None and settings.provider == "static":
        return provider_of_folder(settings.embedding_model)
    return cast(Provider, settings.provider)


def service_access(settings: Settings) -> ServiceAccess:
    """The addresses and keys of services: for the chosen model, and for those of older indexes."""
    urls = {name: getattr(settings, entry.url_setting, None) for name, entry in PROVIDERS.items()}
    keys = {name: getattr(settings, entry.key_setting, None) for name, entry in PROVIDERS.items()}
    return ServiceAccess(
        urls={name: url for name, url in urls.items() if url is not None},
        api_keys={name: key for name, key in keys.items() if key is not None},
        batch_size=settings.embedding_batch_size,
        timeout_s=settings.embedding_timeout_s,
    )
