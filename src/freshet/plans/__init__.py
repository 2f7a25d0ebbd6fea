"""Plans: chosen, described, written as JSON and read back."""

from __future__ import annotations

from dataclasses import dataclass

from freshet.errors import PlanError
from freshet.plans import codec
from freshet.plans.build import build_plan
from freshet.plans.explain import explain
from freshet.plans.model import AnyPlan, QueryPlan
from freshet.sql import Catalog, bind_query


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query is kept fresh. Made by `freshet.plan`, run by `db.create_view`."""

    sql: str
    root: AnyPlan

    def to_json(self) -> str:
        return codec.to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        found = codec.from_json(text)
        if not isinstance(found, cls):
            raise PlanError("the JSON holds a part of a plan, not a plan; give what Plan.to_json wrote")
        return found

    def explain(self) -> str:
        return explain(self.root)


def plan(sql: str, tables: str | Catalog) -> Plan:
    """The plan of a query over tables given as DDL text or as a catalog."""
    catalog = Catalog.from_ddl(tables) if isinstance(tables, str) else tables
    return Plan(sql, build_plan(bind_query(sql, catalog)))


codec.register(Plan)

__all__ = ["AnyPlan", "Plan", "QueryPlan", "build_plan", "explain", "plan"]
