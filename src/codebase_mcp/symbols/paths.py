"""How does a call get from one definition to another? The shortest chains of steps.

A breadth-first search from both ends: over steps for which more speaks than a name alone; without a
chain of those over less sure ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import log

from codebase_mcp.database.connection import Transaction
from codebase_mcp.symbols.candidates import BY_NAME
from codebase_mcp.symbols.definition import Definition, DefinitionKey, File
from codebase_mcp.symbols.hierarchy import FOLLOWED, LEAST
from codebase_mcp.symbols.steps import (
    DEEPEST,
    NODE_KINDS,
    CodeLine,
    Step,
    StepGraph,
    is_constructor,
)
from codebase_mcp.symbols.storage import load_definitions, load_outlines

MOST_STEPS = 8
MOST_CHAINS = 3
# A chain is not shown if it has this many steps more than the shortest.
_FURTHER = 3

# The searches, one after the other until there is a chain: the least confidence of a step, and when
# the work ends: definitions whose steps were looked for, and seconds since the start.
_SEARCHES = ((BY_NAME + 0.01, 300, 2.5), (FOLLOWED, 450, 4.0), (LEAST, 600, 5.0))
_MAX_LEVEL = 100
# Partial chains that are looked at for the best ones.
_MAX_PARTIAL = 5_000


@dataclass(frozen=True, slots=True)
class CallPaths:
    """The shortest chains from some definitions to others, the shortest and surest first.

    ``reached`` counts the definitions that sure enough steps from the first get to, ``leading``
    those that get to the others; ``ends`` are those of them that nothing was found to call, with
    the lines that register these. With ``is_bounded`` a limit of the work ended the search.
    """

    sources: tuple[Definition, ...]
    targets: tuple[Definition, ...]
    chains: tuple[tuple[Step, ...], ...] = ()
    reached: int = 0
    leading: int = 0
    ends: tuple[Definition, ...] = ()
    registrations: Mapping[DefinitionKey, CodeLine] = field(default_factory=dict)
    is_bounded: bool = False


async def call_paths(
    tx: Transaction,
    sources: Sequence[Definition],
    targets: Sequence[Definition],
    snapshot_ids: Sequence[int],
    is_asked: Callable[[File], bool],
) -> CallPaths:
    """The shortest chains of steps from any source to any target.

    Inner steps are in tests only where all sources are tests.
    """
    sources = await _with_members(tx, sources)
    targets = await _with_classes(tx, targets, snapshot_ids)
    goals = {target.key for target in targets}
    sources = [source for source in sources if source.key not in goals]
    with_tests = all(source.file.is_test for source in sources)
    both = {definition.key for definition in (*sources, *targets)}

    def is_node(definition: Definition) -> bool:
        return definition.key in both or (
            definition.kind in NODE_KINDS
            and (with_tests or not definition.file.is_test)
            and is_asked(definition.file)
        )

    is_cut = len(sources) > _MAX_LEVEL or len(targets) > _MAX_LEVEL
    sources, targets = sources[:_MAX_LEVEL], targets[:_MAX_LEVEL]
    graph = StepGraph(tx, snapshot_ids, is_node)
    started = time.monotonic()
    searches = []
    for least, most, seconds in _SEARCHES:
        search = _Search(graph, sources, targets, least, most, started + seconds)
        searches.append(search)
        await search.run()
        if search.meeting:
            break
    # Without a chain the figures are those of calls that are followed elsewhere too.
    shown = searches[:2][-1]
    ends = tuple(shown.ends())
    return CallPaths(
        tuple(sources),
        tuple(targets),
        tuple(searches[-1].chains()),
        len(shown.down) - len(sources),
        len(shown.up) - len(targets),
        ends,
        {end.key: line for end in ends if (line := await graph.registration_of(end))},
        is_cut or searches[-1].is_bounded or bool(graph.left_out),
    )


async def _with_members(tx: Transaction, sources: Sequence[Definition]) -> list[Definition]:
    """Some definitions, and the members of those that are types."""
    types = [source for source in sources if source.is_type]
    outlines = await load_outlines(tx, {type_.file.blob_id for type_ in types}, deepest=DEEPEST)
    members = [
        Definition.of(type_.file, symbol)
        for type_ in types
        for symbol in outlines.get(type_.file.blob_id, ())
        if symbol.qualified.startswith(f"{type_.qualified}.")
        and type_.start_line <= symbol.start_line <= type_.end_line
    ]
    return list({definition.key: definition for definition in (*sources, *members)}.values())


async def _with_classes(
    tx: Transaction, targets: Sequence[Definition], snapshot_ids: Sequence[int]
) -> list[Definition]:
    """Some definitions, and the classes of those that are constructors: these are called."""
    made = {(t.file, t.container) for t in targets if is_constructor(t.name, t.holder)}
    classes = await load_definitions(tx, {t.holder for t in targets if t.holder}, snapshot_ids)
    return [*targets, *(c for c in classes if (c.file, c.qualified) in made)]


@dataclass(slots=True)
class _Search:
    """A search from both ends, over the steps that are sure enough."""

    graph: StepGraph
    sources: Sequence[Definition]
    targets: Sequence[Definition]
    least: float
    most: int
    deadline: float
    down: dict[DefinitionKey, int] = field(default_factory=dict)
    up: dict[DefinitionKey, int] = field(default_factory=dict)
    is_bounded: bool = False

    @property
    def meeting(self) -> set[DefinitionKey]:
        """Where both ends meet."""
        return {
            key for key in self.down.keys() & self.up.keys()
            if self.down[key] + self.up[key] <= MOST_STEPS
        }  # fmt: skip

    async def run(self) -> None:
        """Go on from the end that has fewer definitions to look at, until both meet."""
        below, above = list(self.sources), list(self.targets)
        self.down = {definition.key: 0 for definition in below}
        self.up = {definition.key: 0 for definition in above}
        steps_down = steps_up = 0
        while below + above and self.sources and not self.meeting:
            can_go_down = bool(below) and steps_down + steps_up < MOST_STEPS
            # A decorator is found from the function that it decorates: this end goes all the way.
            can_go_up = bool(above) and steps_up < MOST_STEPS
            if not (can_go_down or can_go_up):
                return
            is_smaller = (len(below), steps_down) <= (len(above), steps_up)
            goes_down = can_go_down and (is_smaller or not can_go_up)
            if self._is_too_much(below if goes_down else above, goes_down=goes_down):
                self.is_bounded = True
                return
            if goes_down:
                await self.graph.look_down(below)
                steps_down += 1
                below = self._next(below, self.graph.down, self.down, steps_down)
            else:
                await self.graph.look_up(above, is_first=not steps_up)
                steps_up += 1
                above = self._next(above, self.graph.up, self.up, steps_up)

    def _is_too_much(self, level: Iterable[Definition], *, goes_down: bool) -> bool:
        """Whether a limit of the work is reached before this level."""
        graph = self.graph
        looked = graph.looked_down if goes_down else graph.looked_up
        is_over = len(graph.looked_down) + len(graph.looked_up) >= self.most
        is_new = any(definition.key not in looked for definition in level)
        return is_new and (is_over or time.monotonic() > self.deadline)

    def _next(
        self,
        level: Iterable[Definition],
        steps: Mapping[DefinitionKey, Mapping[DefinitionKey, Step]],
        seen: dict[DefinitionKey, int],
        distance: int,
    ) -> list[Definition]:
        """The definitions one step further, the surest first."""
        sure: dict[DefinitionKey, float] = {}
        for definition in level:
            for key, step in steps.get(definition.key, {}).items():
                if step.confidence >= self.least and key not in seen:
                    sure[key] = max(sure.get(key, 0.0), step.confidence)
        keys = sorted(sure, key=lambda key: -sure[key])
        if len(keys) > _MAX_LEVEL:
            self.is_bounded = True
            keys = keys[:_MAX_LEVEL]
        seen.update(dict.fromkeys(keys, distance))
        return [self.graph.nodes[key] for key in keys]

    def ends(self) -> Iterator[Definition]:
        """Definitions that lead to a target, and that nothing was found to call."""
        graph = self.graph
        for key in sorted(self.up, key=self._rank):
            is_complete = key in graph.looked_up and key not in graph.left_out
            ways = graph.up.get(key, {}).values()
            if (
                is_complete
                and key in graph.nodes
                and not any(step.confidence >= self.least for step in ways)
            ):
                yield graph.nodes[key]

    def _rank(self, key: DefinitionKey) -> tuple[float, int]:
        definition = self.graph.nodes.get(key)
        return definition.file.rank if definition else 0, self.up[key]

    def chains(self) -> list[tuple[Step, ...]]:
        """The shortest chains among the steps that were found, the surest of them first."""
        if not self.meeting:
            return []
        remaining = self._distances()
        numbers = count()
        queue: list[tuple[int, float, int, DefinitionKey, tuple[Step, ...]]] = [
            (remaining[source.key], 0.0, next(numbers), source.key, ())
            for source in self.sources
            if source.key in remaining
        ]
        queue.sort()
        ends = {target.key for target in self.targets}
        chains: list[tuple[Step, ...]] = []
        for _ in range(_MAX_PARTIAL):
            if not queue or len(chains) == MOST_CHAINS:
                break
            if chains and queue[0][0] >= len(chains[0]) + _FURTHER:
                break
            _, doubt, _, key, steps = heappop(queue)
            if key in ends:
                chains.append(steps)
                continue
            passed = {key, *(step.source.key for step in steps)}
            for following, step in self.graph.down.get(key, {}).items():
                length = len(steps) + 1 + remaining.get(following, MOST_STEPS)
                if step.confidence < self.least or length > MOST_STEPS or following in passed:
                    continue
                more = doubt - log(step.confidence)
                heappush(queue, (length, more, next(numbers), following, (*steps, step)))
        return chains

    def _distances(self) -> dict[DefinitionKey, int]:
        """How many steps lead from each definition to a target, along steps that were found."""
        distances = {target.key: 0 for target in self.targets}
        level = list(distances)
        while level:
            following = []
            for key in level:
                for before, step in self.graph.up.get(key, {}).items():
                    if step.confidence >= self.least and before not in distances:
                        distances[before] = distances[key] + 1
                        following.append(before)
            level = following
        return distances
