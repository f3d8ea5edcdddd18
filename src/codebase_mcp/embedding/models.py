"""Which models are open here? Those of both tiers, and those that indexes were made with.

The first tier is a static model in this process, so that nobody who indexes or searches waits for
anybody. A stronger model, if one is configured, is the second tier: its vectors come later, in the
background. An index is searched and brought up to date with the model that made it, whatever is
configured: which model that is, its profile says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from codebase_mcp.embedding.choice import ModelChoice, Provider
from codebase_mcp.embedding.embedder import Embedder, LocalModel, ModelFacts
from codebase_mcp.embedding.folders import BUILTIN, BUILTIN_NAME, model_folder
from codebase_mcp.embedding.profile import Profile, Recipe
from codebase_mcp.embedding.providers import PROVIDERS, open_embedder
from codebase_mcp.embedding.scale import BUILTIN_SCALE, Scale, measure_scale
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.errors import EmbeddingUnavailable

# A halfvec of pgvector has no more dimensions.
MAX_DIMENSION = 16_000

_ANEW = "Rebuild the index with the model of now: index_repository with force_reindex=true."


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """How this process reaches services: their addresses and keys by provider, and limits."""

    urls: Mapping[Provider, str] = field(default_factory=dict, repr=False)
    api_keys: Mapping[Provider, str] = field(default_factory=dict, repr=False)
    batch_size: int = 50
    timeout_s: float = 60.0

    def choice(self, recipe: Recipe) -> ModelChoice:
        """A model, and how it is reached from here."""
        return ModelChoice(
            recipe.provider,
            recipe.model,
            base_url=self.urls.get(recipe.provider),
            api_key=self.api_keys.get(recipe.provider),
            batch_size=self.batch_size,
            timeout_s=self.timeout_s,
            query_prefix=recipe.query_prefix,
            passage_prefix=recipe.passage_prefix,
        )


@dataclass(frozen=True, slots=True)
class Model:
    """An embedder that has said what it is, and how it was opened."""

    embedder: Embedder
    facts: ModelFacts
    recipe: Recipe

    @property
    def local(self) -> LocalModel | None:
        """The model itself, if this process and its workers can embed without asking anybody."""
        return self.embedder if isinstance(self.embedder, LocalModel) else None


class Models:
    """Opens models when they are first needed, each once."""

    def __init__(
        self, embedder: Embedder, recipe: Recipe, access: ServiceAccess = ServiceAccess()
    ) -> None:
        self.embedder = embedder
        """The configured model: a static one is the first tier, any other one the second."""
        self.recipe = recipe
        if not isinstance(embedder, StaticEmbedder):
            embedder = _loaded(BUILTIN, BUILTIN_NAME)
        self.first_embedder = embedder
        """The model of the first tier."""
        self.access = access
        self._opened: dict[Recipe, Embedder] = {recipe: self.embedder}
        self._known: dict[str, Model] = {}
        self._scales: dict[str, Scale] = {}
        self._opening = asyncio.Lock()

    @classmethod
    def open(cls, recipe: Recipe, access: ServiceAccess = ServiceAccess()) -> Models:
        """Load the model of the first tier; what embeds for the second one is not asked yet.

        Raises:
            EmbeddingUnavailable: there is no such model, or a setting for it is missing.
        """
        embedder = _opened(access.choice(recipe))
        return cls(embedder, _as_stored(recipe, embedder), access)

    async def close(self) -> None:
        """Let every model's connections go."""
        for embedder in self._opened.values():
            await embedder.close()

    @property
    def has_second(self) -> bool:
        """Whether a stronger model than the first tier's is configured."""
        return self.embedder is not self.first_embedder

    async def first(self) -> Model:
        """The model that every new index is made with: it is here, and needs nobody."""
        recipe = Recipe() if self.has_second else self.recipe
        return await self._identified(self.first_embedder, recipe)

    async def configured(self) -> Model:
        """The strongest model: that of the second tier where there is one, else of the first.

        Raises:
            EmbeddingUnavailable: it is away.
        """
        return await self._identified(self.embedder, self.recipe)

    async def of_index(self, profile: Profile) -> StaticEmbedder:
        """The model that an index was made with.

        Raises:
            EmbeddingUnavailable: it cannot be opened here, is not what it was, or needs a service,
                so that no index is made with it.
        """
        if profile.recipe.provider == "static":
            embedder = (await self.of_profile(profile)).embedder
            if isinstance(embedder, StaticEmbedder):
                return embedder
        raise EmbeddingUnavailable(
            f"The index was made with {profile.model}, which no index is made with any more",
            hint=_ANEW,
            details={"indexed_with": profile.model},
        )

    async def of_profile(self, profile: Profile) -> Model:
        """The model that some vectors were made with.

        Raises:
            EmbeddingUnavailable: it is away, cannot be opened here, or is not what it was.
        """
        known = self._known.get(profile.model_fingerprint)
        if known is not None:
            return known
        if self.is_first(profile):
            model = await self.first()
        elif profile.recipe == self.recipe:
            model = await self.configured()
        else:
            model = await self._open(profile)
        if model.facts.fingerprint != profile.model_fingerprint:
            raise EmbeddingUnavailable(
                f"The embedding model {profile.model} is no longer the one that the index was made "
                "with",
                hint=f"Bring that version of it back. Or: {_ANEW}",
                details={"indexed_with": profile.model, "configured": self.embedder.name},
            )
        return model

    def is_first(self, profile: Profile) -> bool:
        """Whether an index was made with the model that new indexes are made with."""
        return profile.model_fingerprint == self.first_embedder.fingerprint

    def is_outdated(self, profile: Profile, version: str) -> bool:
        """Whether an index has to be made anew because this program is a later one than made it.

        Its rows are of an earlier version, or its vectors of a built-in model that was replaced.
        """
        if profile.is_newer(version):
            return False
        is_builtin = profile.recipe.provider == "static" and profile.recipe.model is None
        builtin = _loaded(BUILTIN, BUILTIN_NAME) if is_builtin else None
        return profile.is_older(version) or (
            builtin is not None and profile.model_fingerprint != builtin.fingerprint
        )

    async def first_for(self, profile: Profile) -> Model:
        """The model to make an outdated index anew with: its own, if that is here."""
        try:
            await self.of_index(profile)
            return await self.of_profile(profile)
        except EmbeddingUnavailable:
            return await self.first()

    def is_at_hand(self, profile: Profile) -> bool:
        """Whether questions to an index are embedded here, without waiting for anybody."""
        known = self._known.get(profile.model_fingerprint)
        return known is not None and known.local is not None

    async def scale_of(self, model: Model) -> Scale:
        """What the model's cosines are worth: known for the built-in one, else measured once.

        Raises:
            EmbeddingUnavailable: it is away.
        """
        if model.recipe == Recipe():
            return BUILTIN_SCALE
        known = self._scales.get(model.facts.fingerprint)
        if known is None:
            known = await measure_scale(model.embedder)
            self._scales[model.facts.fingerprint] = known
        return known

    async def _open(self, profile: Profile) -> Model:
        recipe = profile.recipe
        try:
            async with self._opening:
                if recipe not in self._opened:
                    choice = self.access.choice(recipe)
                    self._opened[recipe] = await asyncio.to_thread(_opened, choice)
            return await self._identified(self._opened[recipe], recipe)
        except EmbeddingUnavailable as error:
            raise EmbeddingUnavailable(
                f"Vectors were made with the embedding model {profile.model}, which does not"
                f" answer here: {error.message}",
                hint=" Or: ".join(filter(None, (error.hint, _ANEW))),
                details=error.details
                | {"indexed_with": profile.model, "configured": self.embedder.name},
            ) from error

    async def _identified(self, embedder: Embedder, recipe: Recipe) -> Model:
        facts = await embedder.identify()
        known = self._known.get(facts.fingerprint)
        if known is not None:
            return known
        if not 0 < facts.dimension <= MAX_DIMENSION:
            raise EmbeddingUnavailable(
                f"Vectors of {facts.dimension} dimensions cannot be stored",
                hint=f"Choose a model with at most {MAX_DIMENSION:,} dimensions.",
                details={"model": facts.name},
            )
        return self._known.setdefault(facts.fingerprint, Model(embedder, facts, recipe))


def _opened(choice: ModelChoice) -> Embedder:
    if choice.provider == "static":
        found = model_folder(choice.model)
        return _loaded(found.folder, found.name)
    return open_embedder(choice)


@lru_cache(maxsize=2)
def _loaded(folder: Path, name: str) -> StaticEmbedder:
    """A model takes 30 MB of memory, and is the same for all that this process opens."""
    return StaticEmbedder.load(folder, name)


def _as_stored(recipe: Recipe, embedder: Embedder) -> Recipe:
    """A recipe that means the same model wherever a process is started, and whatever is default."""
    if PROVIDERS[recipe.provider].is_service:
        return replace(recipe, model=embedder.name.removeprefix(f"{recipe.provider}/"))
    folder = None if recipe.model is None else Path(recipe.model).expanduser()
    if folder is not None and folder.exists():
        return replace(recipe, model=str(folder.absolute()))
    return Recipe(model=recipe.model)
