"""The start-up cost of a process: importing Freshet, and showing the help of the command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import freshet
from freshet.state import kernel_cache

#: Modules that are slow to import, and are not needed for definitions.
HEAVY = ("asyncio", "numba", "numpy", "pandas", "pyarrow", "pyspark", "sqlglot")
REPORT = f"""
import sys, time
print(time.process_time(), *(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("code", "seconds"),
    [
        ("import freshet", 0.3),
        ("import freshet; freshet.connect = None; dir(freshet)", 0.3),
        ("from freshet.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass", 0.2),
        ("from freshet.cli import main\ntry: main(['nothing'])\nexcept SystemExit: pass", 0.2),
    ],
)
def test_nothing_heavy_is_imported(code: str, seconds: float) -> None:
    runs = [subprocess.run([sys.executable, "-c", code + REPORT], text=True, capture_output=True) for _ in range(3)]
    reports = [run.stderr.splitlines()[-1].split() for run in runs]
    assert all(report[1:] == [] for report in reports), reports
    assert min(float(report[0]) for report in reports) < seconds


def test_opening_a_database_imports_neither_pandas_nor_asyncio() -> None:
    code = "import freshet; freshet.connect()" + REPORT
    run = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert {"pandas", "asyncio", "pyspark"}.isdisjoint(run.stderr.split())


def test_the_public_names_are_there() -> None:
    for name in freshet.__all__:
        assert getattr(freshet, name) is getattr(freshet, name)
    assert dir(freshet) == sorted(freshet.__all__)
    with pytest.raises(AttributeError, match="module 'freshet' has no attribute 'conect'"):
        freshet.conect  # noqa: B018


def test_wheels_bring_every_kernel() -> None:
    """They bring those of the modules that kernels are compiled with: no other module may have one."""
    (imports,) = re.findall(r"^import freshet.*$", kernel_cache._HELP, re.M)
    code = f"{imports}, sys; print(*(m.__file__ for n, m in sys.modules.items() if 'freshet' in n))"
    run = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    package = Path(freshet.__file__).parent
    with_kernels = {str(path) for path in package.rglob("*.py") if re.search(r"^@kernel\(", path.read_text(), re.M)}
    assert len(with_kernels) > 20 and with_kernels <= set(run.stdout.split())
