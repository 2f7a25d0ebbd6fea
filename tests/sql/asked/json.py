"""JSON in texts: what paths find, odd and broken texts, and values written and read."""

from __future__ import annotations

_TEXTS = [
    '{"a": 1, "b": {"c": [1, 2.50, "x", null, true]}, "d": "te\\"xt", "e": null}',
    '[1, {"a": 2}, [3, 4], "s"]',
    '{"a": 1.0, "a": 2}',
    '{"a": null, "a": 2}',
    '{"a": 1e3, "b": 1.50, "c": -0, "d": 12345678901234567890, "e": 0.1e-7, "f": -0.0}',
    '{"a": 100000000000000000000.5, "b": 1e400, "c": 1E+2, "d": 123456789.123456789, "e": 0.001, "f": 1e7}',
    "{a: 1}",
    "{'a': 'single', 'b': 'x\"y'}",
    '{"a": 1',
    '{"a": 1} trailing',
    '{"a": 1}{"a": 2}',
    "",
    "  ",
    "null",
    '"text"',
    "12",
    "1.50",
    "true",
    "tru",
    '{"a": "\\u00e9\\n\\t\\/\\\\x\\b\\f\\r", "b": ["\\u0001\\"", "/"]}',
    '{"a": {"b": 1}, "a b": 2, "a.b": 3, "A": 4, "$": 5, "": 6, "1": 7}',
    '{"a": [ {"b": 1}, {"b": 2}, {"c": 3} ]}',
    '{"a": 01}',
    '{"a": .5}',
    '{"a": 5.}',
    '{"a": +1}',
    '{"a": NaN}',
    '{"a": -Infinity}',
    '{"a": [1, 2, }',
    '{"a": "x\n\ty"}',
    '{"a": "é😀", "b": ["é😀\\ud83d\\ude00"]}',
    '{"a": [[1,2],[3]], "b": {}, "c": []}',
    '{"a": 1,}',
    '[1, 2,]',
    '{"a" : 1 , /* c */ "b": 2}',
    ' \n{ "a" : [ 1 , 2 ] } ',
    '{"a": "bad \\x escape"}',
    '{"a": "unended',
    '{"b": 1, "c": }',
    '[]',
    '{}',
    '[[], {}]',
    '{"a": 9223372036854775807, "b": -9223372036854775809, "c": 2147483648}',
    '{"a": "12", "b": "1.5", "c": "true", "d": "2024-02-29", "e": "2024-02-29T12:30:00.5Z"}',
    '{"a": true, "b": "x", "c": [1, "2", null], "d": {"x": 1}}',
    '{"a": 1.9, "b": 7, "c": [1, 2], "d": {"x": "1", "y": [1.5]}}',
    '{"A": 1, "B": "upper"}',
    '[{"a": 1}, {"a": "x", "b": 2}]',
    '[{"a": 1, "b": 3}]',
    '{"a": [{"b": 1}, {"b": "x"}], "d": {"x": {"y": "z", "x": 5}}}',
    '{"a": [{"b": 1}, 3], "d": {"x": 5, "y": null}}',
    '{"a": {"b": 1, "b": null}, "b": {"b": 1}, "d": null}',
    '{"a": "x", "b": 3}',
    '{"a": 2, "a": null}',
    '{"a": 2, "a": "x"}',
    '{"a": 1.005, "b": 1e2, "c": {"d": 1.0}}',
    '{"a": 99999.999, "b": -0.004}',
    '[[1, 2], [3]]',
    '{"a": INF, "b": 1}',
    '{"a": Infinity, "b": "NaN"}',
    '{"a": "", "b": ""}',
]  # fmt: skip

_PATHS = (
    "$", "$.a", "$.b", "$.b.c", "$.b.c[1]", "$.b.c[3]", "$[0]", "$[1].a", "$[2]", "$[9]", "$.a.b", "$['a b']",
    "$['a.b']", "$.a b", "$.A", "$.", "$..a", "a", "$a", "$.a[0]", "$.a[0].b", "$[-1]", "$.d", "$.e", "$.c", "$.f", "",
    " $.a", "$ .a", "$. a", "$.a.", "$.a ", "$[]", "$[a]", "$.1", "$[ 0 ]", "$['']", "$.b[1]",
)  # fmt: skip


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return f"'{escaped}'"


ROWS = ", ".join(f"({i}, {quoted(text)})" for i, text in enumerate(_TEXTS)) + f", ({len(_TEXTS)}, NULL)"

_SCHEMAS = (
    "a INT", "a STRING, b STRING", "a BIGINT, b DOUBLE", "a BOOLEAN", "a ARRAY<INT>", "c ARRAY<STRING>",
    "b STRUCT<c: ARRAY<DOUBLE>>", "a DECIMAL(5,2)", "d MAP<STRING, INT>", "ARRAY<INT>", "ARRAY<STRING>",
    "ARRAY<STRUCT<a: INT, b: INT>>", "a ARRAY<STRUCT<b: INT>>", "d MAP<STRING, STRUCT<y: INT>>", "ARRAY<ARRAY<INT>>",
    "a STRUCT<b: INT>, b INT", "a FLOAT", "a DECIMAL(7,2), b DECIMAL(3,2)", "c STRUCT<d: DECIMAL(4,3)>", "a int, b int",
    "b DOUBLE",
    "a DOUBLE, c DOUBLE", "d STRUCT<x: INT, y: ARRAY<STRING>>", "a TINYINT, b SMALLINT",
)  # fmt: skip

_WRITTEN = (
    "named_struct('a', id, 's', s)", "named_struct('a', array(1, NULL, 2), 'b', NULL)", "map('a', id, 'b', NULL)",
    "array(named_struct('x', 1.5D), NULL)",
    "named_struct('d', DATE'2024-02-29', 't', TIMESTAMP'2024-02-29 12:30:00.5')",
    "named_struct('t', TRUE, 'n', CAST(1.50 AS DECIMAL(5,2)), 'f', 1e10D, 'g', CAST(0.1 AS FLOAT))", "map(1, 'x')",
    "named_struct('a', CAST(NULL AS INT))", "array(1, 2)", "named_struct('x', DOUBLE('NaN'), 'y', DOUBLE('-Infinity'))",
    "named_struct('b', X'1FAB', 'e', '', 'm', map())", "array(array('a\"b'), array())",
)  # fmt: skip

QUERIES = [
    *(f"SELECT id, get_json_object(s, {quoted(path)}) AS r FROM js" for path in _PATHS),
    "SELECT id, get_json_object(s, NULL) AS r FROM js",
    "SELECT id, get_json_object(s, CONCAT('$.', CASE WHEN id % 2 = 0 THEN 'a' ELSE 'b' END)) AS r FROM js",
    "SELECT id, json_array_length(s) AS r FROM js",
    "SELECT id, json_object_keys(s) AS r FROM js",
    *(f"SELECT id, from_json(s, '{schema}') AS r FROM js" for schema in _SCHEMAS),
    *(f"SELECT id, to_json({value}) AS r FROM js" for value in _WRITTEN),
]
