"""Pure query theory, no data: the hypergraph of a query, its class, and the trees it can be kept on."""

from __future__ import annotations

from freshet.query.attribute import Attribute
from freshet.query.best_tree import best_tree
from freshet.query.classify import Classification, QueryClass, classify
from freshet.query.decompose import Bag, decompose
from freshet.query.foreign_keys import ForeignKeyTree, TreeAssertion, foreign_key_tree
from freshet.query.hypergraph import Hypergraph
from freshet.query.join_trees import join_trees, plain_trees, some_trees
from freshet.query.tree import JoinTree, TreeNode

__all__ = [
    "Attribute",
    "Bag",
    "Classification",
    "ForeignKeyTree",
    "Hypergraph",
    "JoinTree",
    "QueryClass",
    "TreeAssertion",
    "TreeNode",
    "best_tree",
    "classify",
    "decompose",
    "foreign_key_tree",
    "join_trees",
    "plain_trees",
    "some_trees",
]
