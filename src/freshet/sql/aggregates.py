"""Which aggregates there are: what each parsed one is kept as, and what to write instead of those that are not.

BOOL_AND is MIN of booleans and BOOL_OR is MAX; COUNT_IF counts the rows its argument filters. What depends on the
order in which rows happen to come has no one answer, and what approximates is no cheaper here than the exact one.
"""

from __future__ import annotations

from sqlglot import exp

AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.CountIf: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "min",
    exp.LogicalOr: "max",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}

#: Those that take a truth value.
BOOLEAN = (exp.LogicalAnd, exp.LogicalOr, exp.CountIf)
#: Those computed from doubles, whatever number they are given.
FROM_DOUBLES = ("stddev_samp", "stddev_pop", "var_samp", "var_pop")

_NO_ORDER = "use MIN or MAX: which row comes first is not decided"
_BY_RANK = "number the rows with ROW_NUMBER() and keep the one wanted with QUALIFY"
_MOMENTS = "compute it from COUNT, SUM and SUM of products"

INSTEAD: dict[type[exp.Expr], str] = {
    exp.ApproxDistinct: "use COUNT(DISTINCT ...), which is exact",
    exp.ApproxTopK: "group by the value, and keep the greatest counts with ORDER BY COUNT(*) DESC LIMIT",
    exp.ApproxQuantile: _BY_RANK,
    exp.Quantile: _BY_RANK,
    exp.PercentileCont: _BY_RANK,
    exp.PercentileDisc: _BY_RANK,
    exp.Median: _BY_RANK,
    exp.Mode: "group by the value, count, and keep the greatest count with QUALIFY",
    exp.AnyValue: _NO_ORDER,
    exp.First: _NO_ORDER,
    exp.Last: _NO_ORDER,
    exp.FirstValue: _NO_ORDER,
    exp.LastValue: _NO_ORDER,
    exp.ArgMax: _BY_RANK,
    exp.ArgMin: _BY_RANK,
    exp.Corr: _MOMENTS,
    exp.CovarPop: _MOMENTS,
    exp.CovarSamp: _MOMENTS,
}
KNOWN = "these work: COUNT, SUM, AVG, MIN, MAX, BOOL_AND, BOOL_OR, STDDEV, VARIANCE, ARRAY_AGG, STRING_AGG"
