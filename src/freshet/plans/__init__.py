"""Plans: chosen, described, written as JSON and read back."""

from __future__ import annotations

import json
from dataclasses import dataclass

from freshet.plans import codec
from freshet.plans.build import build_plan
from freshet.plans.document import check, from_document, to_document
from freshet.plans.explain import as_dict, explain
from freshet.plans.model import AnyPlan, QueryPlan
from freshet.plans.picture import picture
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_view


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query is kept fresh: made by `freshet.plan`, run by `Database.create_view`.

    Attributes
    ----------
    sql
        The query.
    root
        The plan itself, immutable; `to_json` writes it for people and programs.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE t (a INT)")
    >>> view = db.create_view("v", freshet.plan("SELECT a FROM t", db.catalog))
    """

    sql: str
    root: AnyPlan

    def to_json(self) -> str:
        """Write the plan as a document to read, keep and edit; docs/plan.schema.json describes it.

        Returns
        -------
        str
            JSON, which `from_json` reads.

        Examples
        --------
        >>> import freshet
        >>> tables = "CREATE TABLE t (a INT)"
        >>> plan = freshet.plan("SELECT a FROM t", tables)
        >>> freshet.Plan.from_json(plan.to_json()) == plan
        True
        """
        return json.dumps(to_document(self.sql, self.root), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, tables: Catalog | None = None) -> Plan:
        """Read a plan that `to_json` has written and that may have been edited since.

        Parameters
        ----------
        text
            The document.
        tables
            The tables to plan over; by default those that the document describes.

        Returns
        -------
        Plan
            Checked: it is a plan of its query.

        Raises
        ------
        PlanError
            The document cannot be read, or is not a plan of the query.

        Examples
        --------
        >>> import freshet
        >>> tables = "CREATE TABLE t (a INT)"
        >>> plan = freshet.plan("SELECT a FROM t", tables)
        >>> freshet.Plan.from_json(plan.to_json(), freshet.Catalog.from_ddl(tables)).sql
        'SELECT a FROM t'
        """
        return cls(*from_document(text, tables))

    def checked(self, tables: Catalog) -> Plan:
        """Check the plan against tables.

        Parameters
        ----------
        tables
            Those it will run over.

        Returns
        -------
        Plan
            The same plan.

        Raises
        ------
        PlanError
            It is not a plan of its query over these tables.

        Examples
        --------
        >>> import freshet
        >>> tables = "CREATE TABLE t (a INT)"
        >>> plan = freshet.plan("SELECT a FROM t", tables)
        >>> plan.checked(freshet.Catalog.from_ddl(tables)) is plan
        True
        """
        check(self.sql, self.root, tables)
        return self

    def explain(self) -> str:
        """Describe the plan: class, join tree, guarantee.

        Returns
        -------
        str
            A text for people.

        Examples
        --------
        >>> import freshet
        >>> tables = "CREATE TABLE t (a INT)"
        >>> plan = freshet.plan("SELECT a FROM t", tables)
        >>> plan.explain().splitlines()[0].split()[0]
        'class'
        """
        return explain(self.root)

    def _repr_svg_(self) -> str:
        """The join tree, as a notebook draws it."""
        return picture(as_dict(self.root))


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
