"""Plans: chosen, described, written as JSON and read back."""

from __future__ import annotations

import json
from dataclasses import dataclass

from freshet.plans import codec
from freshet.plans.build import build_plan
from freshet.plans.document import check, from_document, to_document
from freshet.plans.explain import explain
from freshet.plans.model import AnyPlan, QueryPlan
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_view


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query is kept fresh. Made by `freshet.plan`, run by `db.create_view`."""

    sql: str
    root: AnyPlan

    def to_json(self) -> str:
        """As a document to read, keep and edit: docs/plan.schema.json describes it."""
        return json.dumps(to_document(self.sql, self.root), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, tables: Catalog | None = None) -> Plan:
        """The plan a document asks for, over the tables it names or over those of a catalog."""
        return cls(*from_document(text, tables))

    def checked(self, tables: Catalog) -> Plan:
        """The same plan, if it is one of its query over these tables; PlanError otherwise."""
        check(self.sql, self.root, tables)
        return self

    def explain(self) -> str:
        """Describe the plan: class, join tree, guarantee."""
        return explain(self.root)


def plan(sql: str, tables: str | Catalog) -> Plan:
    """Plan a query without running it.

    Parameters
    ----------
    sql
        The query.
    tables
        The tables it reads, as CREATE TABLE statements or as a `Catalog`.

    Returns
    -------
    Plan
        Its class, join tree and guarantee; runs with `Database.create_view`.

    Raises
    ------
    SqlError
        The query or the tables cannot be read.

    Examples
    --------
    >>> import freshet
    >>> plan = freshet.plan("SELECT a FROM t JOIN u USING (a)", "CREATE TABLE t (a INT); CREATE TABLE u (a INT)")
    >>> freshet.Plan.from_json(plan.to_json()).explain() == plan.explain()
    True
    """
    catalog = Catalog.from_ddl(tables) if isinstance(tables, str) else tables
    return Plan(sql, build_plan(bind_view(sql, catalog)))


codec.register(Plan)

__all__ = ["AnyPlan", "Plan", "QueryPlan", "build_plan", "explain", "plan"]
