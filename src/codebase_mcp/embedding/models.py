"""Which embedding models are open in this process?

The primary model is static and runs in this process, so that indexing and search wait for no
service. A stronger model, if configured, is the secondary model: a background job backfills its
vectors. An index is searched and updated with the model that it was made with, whatever is
configured; its profile identifies that model.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from codebase_mcp.embedding.embedder import Embedder, ModelFacts
from codebase_mcp.embedding.profile import BUILTIN_SCALE, Profile, Scale, measure_scale
from codebase_mcp.embedding.providers import (
    BUILTIN,
    BUILTIN_NAME,
    NO_SERVICES,
    PROVIDERS,
    Recipe,
    ServiceAccess,
    StaticSource,
    model_folder,
    open_embedder,
)
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.errors import EmbeddingUnavailable

_BUILTIN = StaticSource(BUILTIN, BUILTIN_NAME)
# A halfvec of pgvector has no more dimensions.
MAX_DIMENSION = 16_000

_REBUILD_HINT = (
    "Rebuild the index with the configured model: index_repository with force_reindex=true."
)


@dataclass(frozen=True, slots=True)
class Model:
    """An open embedder with its facts, and how it was opened."""

    embedder: Embedder
    facts: ModelFacts
    recipe: Recipe

    @property
    def is_local(self) -> bool:
        """Whether this process and its workers can embed with it without a service."""
        return isinstance(self.embedder, StaticEmbedder)


class Models:
    """Opens each model once, when it is first needed."""

    def __init__(
        self, embedder: Embedder, recipe: Recipe, access: ServiceAccess = NO_SERVICES
    ) -> None:
        self.embedder = embedder
        """The configured model: a static model is primary, any other model is secondary."""
        self.recipe = recipe
        if not isinstance(embedder, StaticEmbedder):
            embedder = builtin_model()
        self.primary_embedder = embedder
        """The primary model."""
        self.access = access
        self._opened: dict[Recipe, Embedder] = {recipe: self.embedder}
        self._known: dict[str, Model] = {}
        self._scales: dict[str, Scale] = {}
        self._opening = asyncio.Lock()

    @classmethod
    def open(cls, recipe: Recipe, access: ServiceAccess = NO_SERVICES) -> Models:
        """Load the primary model; a service for the secondary model gets no request yet.

        Raises:
            EmbeddingUnavailable: there is no such model, or a setting for it is missing.
        """
        embedder = _open(recipe, access)
        return cls(embedder, _absolute(recipe, embedder), access)

    async def close(self) -> None:
        """Close the connections of every model."""
        for embedder in self._opened.values():
            await embedder.close()

    @property
    def has_secondary(self) -> bool:
        """Whether a secondary model is configured."""
        return self.embedder is not self.primary_embedder

    async def primary(self) -> Model:
        """The model that every new index is made with. It needs no service."""
        recipe = Recipe() if self.has_secondary else self.recipe
        return await self._identified(self.primary_embedder, recipe)

    async def configured(self) -> Model:
        """The strongest model: the secondary model if configured, else the primary model.

        Raises:
            EmbeddingUnavailable: its service is unavailable.
        """
        return await self._identified(self.embedder, self.recipe)

    async def of_index(self, profile: Profile) -> StaticEmbedder:
        """The model that an index was made with.

        Raises:
            EmbeddingUnavailable: it cannot be opened here, has changed, or is not a static model,
                with which indexes of earlier versions were made.
        """
        if profile.recipe.provider == "static":
            embedder = (await self.of_profile(profile)).embedder
            if isinstance(embedder, StaticEmbedder):
                return embedder
        raise EmbeddingUnavailable(
            f"The index was made with {profile.model}, which is no longer supported for an index",
            hint=_REBUILD_HINT,
            details={"indexed_with": profile.model},
        )

    async def of_profile(self, profile: Profile) -> Model:
        """The model that some vectors were made with.

        Raises:
            EmbeddingUnavailable: it is unavailable, cannot be opened here, or has changed.
        """
        opened = self._known.get(profile.model_fingerprint)
        if opened is not None:
            return opened
        if self.is_primary(profile):
            model = await self.primary()
        elif profile.recipe == self.recipe:
            model = await self.configured()
        else:
            model = await self._open(profile)
        if model.facts.fingerprint != profile.model_fingerprint:
            raise EmbeddingUnavailable(
                f"The embedding model {profile.model} is no longer the one that the index was made "
                "with",
                hint=f"Restore that version of the model. Or: {_REBUILD_HINT}",
                details={"indexed_with": profile.model, "configured": self.embedder.name},
            )
        return model

    def is_primary(self, profile: Profile) -> bool:
        """Whether an index was made with the primary model, as new indexes are."""
        return profile.model_fingerprint == self.primary_embedder.fingerprint

    def is_outdated(self, profile: Profile, version: str) -> bool:
        """Whether an index has to be rebuilt because an earlier version of the program made it.

        Its rows are of that version, or its vectors of a built-in model that has been replaced.
        """
        if profile.is_newer(version):
            return False
        is_builtin = profile.recipe.provider == "static" and profile.recipe.model is None
        builtin = builtin_model() if is_builtin else None
        return profile.is_older(version) or (
            builtin is not None and profile.model_fingerprint != builtin.fingerprint
        )

    async def primary_for(self, profile: Profile) -> Model:
        """The model to rebuild an outdated index with: its own, if it is available."""
        try:
            await self.of_index(profile)
            return await self.of_profile(profile)
        except EmbeddingUnavailable:
            return await self.primary()

    def is_local(self, profile: Profile) -> bool:
        """Whether queries to an index are embedded in this process, without a service."""
        opened = self._known.get(profile.model_fingerprint)
        return opened is not None and opened.is_local

    async def scale_of(self, model: Model) -> Scale:
        """The calibration of the model's cosines; measured once, unless it is the built-in model.

        Raises:
            EmbeddingUnavailable: the model is unavailable.
        """
        if model.recipe == Recipe():
            return BUILTIN_SCALE
        scale = self._scales.get(model.facts.fingerprint)
        if scale is None:
            scale = await measure_scale(model.embedder)
            self._scales[model.facts.fingerprint] = scale
        return scale

    async def _open(self, profile: Profile) -> Model:
        recipe = profile.recipe
        try:
            async with self._opening:
                if recipe not in self._opened:
                    self._opened[recipe] = await asyncio.to_thread(_open, recipe, self.access)
            return await self._identified(self._opened[recipe], recipe)
        except EmbeddingUnavailable as error:
            raise EmbeddingUnavailable(
                f"Vectors were made with the embedding model {profile.model}, which is not"
                f" available here: {error.message}",
                hint=" Or: ".join(filter(None, (error.hint, _REBUILD_HINT))),
                details=error.details
                | {"indexed_with": profile.model, "configured": self.embedder.name},
            ) from error

    async def _identified(self, embedder: Embedder, recipe: Recipe) -> Model:
        facts = await embedder.identify()
        opened = self._known.get(facts.fingerprint)
        if opened is not None:
            return opened
        if not 0 < facts.dimension <= MAX_DIMENSION:
            raise EmbeddingUnavailable(
                f"Vectors of {facts.dimension} dimensions cannot be stored",
                hint=f"Choose a model with at most {MAX_DIMENSION:,} dimensions.",
                details={"model": facts.name},
            )
        return self._known.setdefault(facts.fingerprint, Model(embedder, facts, recipe))


def builtin_model() -> StaticEmbedder:
    return _load_static(_BUILTIN)


def _open(recipe: Recipe, access: ServiceAccess) -> Embedder:
    if recipe.provider == "static":
        return _load_static(model_folder(recipe.model))
    return open_embedder(recipe, access)


@lru_cache(maxsize=2)
def _load_static(source: StaticSource) -> StaticEmbedder:
    """Cached: a model takes 30 MB, and every use in this process can share it."""
    return source()


def _absolute(recipe: Recipe, embedder: Embedder) -> Recipe:
    """A recipe without relative paths and defaults, so that it means the same model anywhere."""
    if PROVIDERS[recipe.provider].is_service:
        return replace(recipe, model=embedder.name.removeprefix(f"{recipe.provider}/"))
    folder = None if recipe.model is None else Path(recipe.model).expanduser()
    if folder is not None and folder.exists():
        return replace(recipe, model=str(folder.absolute()))
    return Recipe(model=recipe.model)
