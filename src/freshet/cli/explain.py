"""`freshet explain` and `freshet plan`: what a query would cost to keep fresh, without any data."""

from __future__ import annotations

import argparse
import json

import freshet
from freshet.cli.commands import Subparsers, command
from freshet.cli.progress import working
from freshet.cli.reading import read_text
from freshet.cli.results import emit
from freshet.plans.explain import as_dict

_EXPLAIN = """\
The answer names the query's class, the join tree with its edges, and what is guaranteed for updates and for reading.

  freshet explain query.sql --schema tables.sql
  freshet explain edited-plan.json              a plan that `freshet plan` printed, perhaps edited
"""
_PLAN = """\
What is printed can be edited (another parent for a node, another root, other shares) and run:

  freshet plan query.sql --schema tables.sql > plan.json
  freshet explain plan.json
  freshet run job.sql --plan view=plan.json
"""


def add(commands: Subparsers) -> None:
    explaining = command(commands, "explain", _EXPLAIN)
    _arguments(explaining)
    explaining.add_argument("--json", action="store_true", help="the same as JSON")
    explaining.set_defaults(run=explain)


def add_plan(commands: Subparsers) -> None:
    planning = command(commands, "plan", _PLAN)
    _arguments(planning)
    planning.add_argument("--json", action="store_true", help="in one line; JSON it is in any case")
    planning.set_defaults(run=plan)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", help="file with one SELECT, or with a plan as JSON")
    parser.add_argument("--schema", help="file with the CREATE TABLE statements of its tables")


def read_plan(query: str, schema: str | None) -> freshet.Plan:
    text = read_text(query)
    with working(f"planning {query}"):
        if text.lstrip().startswith("{"):
            return freshet.Plan.from_json(text)
        if schema is None:
            raise freshet.PlanError(f"{query} is a query, and its tables are not known; give --schema tables.sql")
        return freshet.plan(text, read_text(schema))


def explain(options: argparse.Namespace) -> int:
    plan = read_plan(options.query, options.schema)
    if options.json:
        emit(as_dict(plan.root))
    else:
        print(plan.explain())
    return 0


def plan(options: argparse.Namespace) -> int:
    document = read_plan(options.query, options.schema).to_json()
    if options.json:
        emit(json.loads(document))
    else:
        print(document)
    return 0
