"""Downloads an answer as a file: CSV for spreadsheets, Parquet for programs.

A spreadsheet runs a text cell that begins like a formula (=, +, -, @, a tab or a line break), and the contents of a
table may come from anybody. Such cells get an apostrophe before them in CSV, which spreadsheets take for "this is
text". Numbers, dates and Parquet files are left as they are.
"""

from __future__ import annotations

import io
import re
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from freshet.errors import PlanError
from freshet.state.arrays import is_bytes
from freshet.web.answer import as_text

_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"


def download(answer: pa.Table, form: str) -> tuple[bytes, str]:
    """The answer as a file, and its media type."""
    out = io.BytesIO()
    if form == "parquet":
        pq.write_table(answer, out)
        return out.getvalue(), "application/vnd.apache.parquet"
    if form == "csv":
        names = [f"'{n}" if re.match(_FORMULA, n) else n for n in answer.column_names]
        pacsv.write_csv(pa.table([_cells(c) for c in answer.columns], names), out)
        return out.getvalue(), "text/csv; charset=utf-8"
    raise PlanError(f"no format {form}; there are csv and parquet")


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_duration(kind) or is_bytes(kind):
        return as_text(column)
    if not pa.types.is_string(kind):
        return column
    formulas = pc.match_substring_regex(column, _FORMULA)
    return pc.if_else(formulas, pc.binary_join_element_wise("'", column, ""), column)


def disposition(name: str, form: str) -> str:
    """The header that names the file: in plain letters for old clients, and as it is (RFC 6266)."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return f"attachment; filename=\"{plain}.{form}\"; filename*=UTF-8''{quote(name, safe='')}.{form}"
