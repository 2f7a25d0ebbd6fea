"""The simple twin of acyclicity with predicates: every generalized join tree (IEDyn, definition 3.1), by its parts. The
properties of a subtree that matter to the nodes above it: the atoms in it, the label of its root, the predicates its
edges can carry, and the variables of those of its nodes that are in the connex subset, if its root is. So all such
subtrees are made from smaller ones, with every label that the definition allows. Variables, atoms and predicates are
bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple


class Subtree(NamedTuple):
    label: int
    carried: int  # predicates
    shown: int | None  # variables of the connex subset; None if the root is not in it


def verdict(atoms: Sequence[int], predicates: Sequence[int], output: int) -> tuple[bool, bool]:
    """Whether there is a generalized join tree, and whether one has a connex subset of exactly the output."""
    whole = _subtrees(atoms, predicates, output)
    every = (1 << len(predicates)) - 1
    placed = [t for t in whole if t.carried == every]
    return bool(placed), any(t.shown == output for t in placed)


def _subtrees(atoms: Sequence[int], predicates: Sequence[int], output: int) -> set[Subtree]:
    """All over all atoms."""
    best: dict[int, set[Subtree]] = {}
    for size in range(1, len(atoms) + 1):
        for part in (p for p in range(1 << len(atoms)) if p.bit_count() == size):
            made: set[Subtree] = set()
            if size == 1:
                label = atoms[part.bit_length() - 1]
                made = {Subtree(label, 0, None)} | ({Subtree(label, 0, label)} if not label & ~output else set())
            for blocks in _partitions(part):
                variables = [_union(atoms, b) for b in blocks]
                for children in product(*(best[b] for b in blocks)):
                    made.update(_topped(children, variables, predicates, output))
            ahead = list(made)
            while ahead:  # nodes with one child
                tree = ahead.pop()
                for t in _topped((tree,), [_union(atoms, part)], predicates, output):
                    if t not in made:
                        made.add(t)
                        ahead.append(t)
            best[part] = _best(made)
    return best[(1 << len(atoms)) - 1]


def _best(trees: set[Subtree]) -> set[Subtree]:
    """Those that carry most: of two that are otherwise the same, one with more predicates can stand for the other."""
    return {
        t for t in trees if not any(u.carried & t.carried == t.carried != u.carried and u[::2] == t[::2] for u in trees)
    }


def _topped(
    children: Sequence[Subtree], variables: Sequence[int], predicates: Sequence[int], output: int
) -> Iterator[Subtree]:
    """Every node that can stand above these."""
    twice = 0
    for i, v in enumerate(variables):
        for w in variables[:i]:
            twice |= v & w
    for label in {s for c in children for s in _subsets(c.label)}:  # inside one child at least
        # A variable of several subtrees is on the path between them; one in the label and in a subtree is in its root.
        if twice & ~label or any(label & v & ~c.label for c, v in zip(children, variables, strict=True)):
            continue
        carried = 0
        for c in children:
            carried |= c.carried
            carried |= sum(1 << i for i, p in enumerate(predicates) if not p & ~(label | c.label))
        if all(c.shown is None for c in children):  # the output is connected, from the root on
            yield Subtree(label, carried, None)
        shown = label
        for c in children:
            shown |= c.shown or 0
        if not shown & ~output:
            yield Subtree(label, carried, shown)


def _partitions(part: int) -> Iterator[tuple[int, ...]]:
    """Into two blocks or more."""

    def split(rest: int) -> Iterator[tuple[int, ...]]:
        if not rest:
            yield ()
            return
        low = rest & -rest
        for more in _subsets(rest ^ low):
            for others in split(rest ^ low ^ more):
                yield (low | more, *others)

    yield from (blocks for blocks in split(part) if len(blocks) > 1)


def _subsets(bits: int) -> Iterator[int]:
    chosen = bits
    while True:
        yield chosen
        if not chosen:
            return
        chosen = (chosen - 1) & bits


def _union(atoms: Sequence[int], part: int) -> int:
    union = 0
    for i, a in enumerate(atoms):
        if part >> i & 1:
            union |= a
    return union
