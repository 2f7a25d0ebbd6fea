"""Files of jobs that are read in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

import freshet
from freshet.job import read_job
from freshet.job.local import read_file


def _read(folder: Path, text: str) -> list[dict[str, object]]:
    table = f"CREATE TABLE j (k INT, s STRING) USING json OPTIONS (path '{folder}/*.json')"
    job, _ = read_job(f"{table}; CREATE MATERIALIZED VIEW v AS SELECT k FROM j")
    (folder / "a.json").write_text(text)
    return list(read_file(str(folder / "a.json"), job.sources["j"]).to_pylist())


@pytest.mark.parametrize(("opening", "closing", "line"), [("[", "]", 2), ('{"q":', "}", 2), ("[\n", "]", 501)])
def test_very_deep_json_is_refused(tmp_path: Path, opening: str, closing: str, line: int) -> None:
    """Arrow would end the process."""
    deep = '{"k": 1}\n{"k": 2, "z": ' + opening * 100_000 + "1" + closing * 100_000 + "}\n"
    with pytest.raises(freshet.ChangeError, match=rf"a\.json, line {line}, has more than 500 levels"):
        _read(tmp_path, deep)


def test_brackets_in_texts_are_not_levels(tmp_path: Path) -> None:
    rows = [{"k": 1, "s": "[" * 1_000 + '"{'}, {"k": 2, "s": "]" * 2_000}]
    written = "".join(
        f'{{"k": {row["k"]}, "s": "{str(row["s"]).replace(chr(34), chr(92) + chr(34))}"}}\n' for row in rows
    )
    assert _read(tmp_path, written + '{"k": 3, "z": ' + "[" * 400 + "]" * 400 + "}") == [*rows, {"k": 3, "s": None}]
