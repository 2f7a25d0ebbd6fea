"""`make dist`: a wheel for each Python there is, each tried in a clean environment, in its process and on Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13")


def found() -> list[str]:
    """The Pythons that `tools/dist` would build with."""
    hidden = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    return [v for v in VERSIONS if shutil.which(f"python{v}") or any(hidden.glob(f"*/bin/python{v}"))]


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_wheel_answers_in_a_clean_environment(version: str, tmp_path: Path) -> None:
    if version not in found():
        pytest.skip(f"no Python {version} is installed")
    clone = tmp_path / "clone"  # the build writes into the tree it builds from
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    done = subprocess.run(
        ["tools/dist", "--into", str(tmp_path / "dist"), f"python{version}"], cwd=clone, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (answer,) = re.findall(rf"Python {version}\.\d+: import (\S+) s, the example's answer after (\S+) s", done.stdout)
    assert float(answer[0]) < 0.3 and float(answer[1]) < 5
    assert "started and kept a view of 1 row" in done.stdout or "no JDK was found" in done.stdout
    made = sorted(path.name for path in (tmp_path / "dist").iterdir())
    assert len(made) == 2 and made[0].endswith(".whl") and made[1].endswith(".tar.gz")
    assert f"-cp{version.replace('.', '')}-" in made[0]


def test_nothing_is_built_where_no_python_is_found(tmp_path: Path) -> None:
    command = ["tools/dist", "--into", str(tmp_path / "dist"), "python0.0"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 1 and "none of python0.0 was found" in done.stderr
