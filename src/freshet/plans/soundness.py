"""What the engine relies on in a plan, and cannot see while it runs.

Law: on an edge that only tests existence, support decides, and support is that of the first comparison alone. So such
an edge carries at most one; a plan that drops another one as carried there would let rows through that fail it.

The planner makes sound plans. A folder may hold one that an earlier version made.
"""

from __future__ import annotations

from freshet.logical.kinds import JoinKind
from freshet.plans.model import AnyPlan, Edge, QueryPlan, inputs


def is_sound(plan: AnyPlan) -> bool:
    edges = [n.edge for n in plan.nodes if n.edge is not None] if isinstance(plan, QueryPlan) else []
    return all(map(_is_sound, edges)) and all(is_sound(below) for _, below in inputs(plan))


def _is_sound(edge: Edge) -> bool:
    return edge.kind is JoinKind.INNER or edge.comparison is None or edge.comparison.second is None
