"""The plain twin of the query theory: all labelled trees, and the definitions read word by word."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, combinations_with_replacement, permutations, product

import numpy as np

from freshet.query import Hypergraph, JoinTree
from freshet.query.attribute import AttributeSet, in_order, listed

ATTRIBUTES = "abcd"


def hypergraph(relations: tuple[str, ...] | list[str], output: str | None = None) -> Hypergraph:
    """One letter an attribute: hypergraph(["ab", "bc"], "a"); all attributes are output unless given."""
    return Hypergraph(tuple(map(frozenset, relations)), frozenset("".join(relations) if output is None else output))


def drawn(tree: JoinTree, node: int = 0, names: str = "") -> str:
    """A tree as text, R1(R2 R3): children in brackets behind their parent, [a](...) for a generalized node. Relations
    are called by the given letters, or R1, R2, ..."""
    here = tree.nodes[node]
    if here.relation is None:
        name = f"[{listed(here.attributes)}]"
    else:
        name = names[here.relation] if names else f"R{here.relation + 1}"
    below = " ".join(drawn(tree, child, names) for child in tree.children(node))
    return f"{name}({below})" if below else name


def subsets(attributes: str) -> list[str]:
    return ["".join(chosen) for size in range(len(attributes) + 1) for chosen in combinations(attributes, size)]


@cache
def small_queries(most_relations: int, attributes: str = ATTRIBUTES) -> tuple[Hypergraph, ...]:
    """Every query over few attributes, one for each renaming of attributes and order of relations, with all outputs."""
    queries = []
    for count in range(1, most_relations + 1):
        for relations in combinations_with_replacement(subsets(attributes), count):
            renamed = (
                sorted(
                    "".join(sorted(relation.translate(str.maketrans(attributes, "".join(names)))))
                    for relation in relations
                )
                for names in permutations(attributes)
            )
            if sorted(relations) == min(renamed):
                used = "".join(sorted(set("".join(relations))))
                queries += [hypergraph(relations, output) for output in subsets(used)]
    return tuple(queries)


@cache
def labelled_trees(size: int) -> np.ndarray:
    """All trees over nodes 0..size-1 from their Pruefer codes, as an array (trees, size - 1, 2)."""
    trees = []
    for code in product(range(size), repeat=max(size - 2, 0)):
        degree = [1 + code.count(node) for node in range(size)]
        edges = []
        for node in code:
            leaf = degree.index(1)
            edges.append((leaf, node))
            degree[leaf] -= 1
            degree[node] -= 1
        if size > 1:
            first, second = (node for node in range(size) if degree[node] == 1)
            edges.append((first, second))
        trees.append(edges)
    return np.array(trees, dtype=np.int64).reshape(len(trees), size - 1, 2)


def connected_trees(nodes: list[AttributeSet]) -> np.ndarray:
    """Those with the connect property: each attribute's k nodes have k - 1 edges among them."""
    shared = np.array([[len(a & b) for b in nodes] for a in nodes])
    trees = labelled_trees(len(nodes))
    wanted = sum(map(len, nodes)) - len(frozenset().union(*nodes))
    hold: np.ndarray = trees[shared[trees[:, :, 0], trees[:, :, 1]].sum(axis=1) == wanted]
    return hold


@cache
def is_acyclic(relations: tuple[AttributeSet, ...]) -> bool:
    return len(connected_trees(list(relations))) > 0


def is_free_connex(h: Hypergraph) -> bool:
    return is_acyclic(h.relations) and is_acyclic((*h.relations, h.output))


def is_q_hierarchical(h: Hypergraph) -> bool:
    holders = {x: {i for i, relation in enumerate(h.relations) if x in relation} for x in h.attributes}
    return all(
        (a <= b or b <= a or not a & b) and not (x in h.output and a < b and z not in h.output)
        for (x, a), (z, b) in product(holders.items(), repeat=2)
    )


def rooted(edges: np.ndarray, root: int, size: int) -> list[int]:
    """The parent of each node."""
    near: list[list[int]] = [[] for _ in range(size)]
    for a, b in edges.tolist():
        near[a].append(b)
        near[b].append(a)
    parents, frontier = [-2] * size, [(root, -1)]
    while frontier:
        node, parent = frontier.pop()
        parents[node] = parent
        frontier += [(other, node) for other in near[node] if other != parent]
    return parents


def all_trees(h: Hypergraph) -> Iterator[tuple[list[AttributeSet], list[int], set[int]]]:
    """(attributes of each node, parent of each node, output nodes) of every tree that satisfies definition 3.2. All
    nodes are output nodes if the query is not free-connex."""
    free_connex = is_free_connex(h)
    for nodes, parents in _well_formed_trees(h):
        marks = _output_nodes(nodes, parents, h.output) if free_connex else set(range(len(nodes)))
        if marks is not None:
            yield nodes, parents, marks


def has_connex_tree(h: Hypergraph) -> bool:
    return any(_output_nodes(nodes, parents, h.output) is not None for nodes, parents in _well_formed_trees(h))


def _well_formed_trees(h: Hypergraph) -> Iterator[tuple[list[AttributeSet], list[int]]]:
    """With up to n - 1 generalized nodes after the n relations. No edge between relations has an empty key."""
    n = len(h.relations)
    # guard: a generalized node is inside its child, in the end inside a relation
    inside: set[AttributeSet] = {
        frozenset(chosen) for relation in h.relations for chosen in subsets("".join(map(str, in_order(relation))))
    }
    for count in range(n):
        for generalized in combinations(sorted(inside, key=listed), count):
            nodes = [*h.relations, *generalized]
            for edges in connected_trees(nodes):
                for root in range(len(nodes)):
                    parents = rooted(edges, root, len(nodes))
                    if _well_formed(nodes, parents, n):
                        yield nodes, parents


def _well_formed(nodes: list[AttributeSet], parents: list[int], n: int) -> bool:
    if any(leaf >= n for leaf in set(range(len(nodes))) - set(parents)):
        return False
    for node, parent in enumerate(parents):
        if parent < 0:
            continue
        guard = parent < n or nodes[parent] <= nodes[node]
        above = node < n or parent >= n
        crosses = parent < n and not nodes[parent] & nodes[node]
        if not guard or not above or crosses:
            return False
    return True


def _output_nodes(nodes: list[AttributeSet], parents: list[int], output: AttributeSet) -> set[int] | None:
    """The smallest connex subtree, by trying all of them from the smallest; None if there is none."""
    root = parents.index(-1)
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(range(len(nodes)), size):
            picked = set(chosen)
            if root not in picked or not output <= frozenset().union(*(nodes[i] for i in picked)):
                continue
            if all(i == root or (parents[i] in picked and nodes[i] & nodes[parents[i]] <= output) for i in picked):
                return picked
    return None


def rank(parents: list[int], n: int, updates: tuple[float, ...]) -> tuple[int, float, int]:
    """Height, sum of depth x updates, generalized nodes."""
    depths = []
    for relation in range(n):
        depth, node = 0, parents[relation]
        while node >= 0:
            depth, node = depth + (node < n), parents[node]
        depths.append(depth)
    return 1 + max(depths), sum(d * u for d, u in zip(depths, updates, strict=True)), len(parents) - n
