"""Every benchmark runs, at a size of seconds, and every command that the documentation gives for one exists."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

#: Sizes that need seconds. Below scale factor 0.01, TPC-H has some keys of partsupp twice.
TINY = {
    "durability": "--rows 2000 --transactions 10",
    "many_views": "--scale 0.01 --transactions 2 --variants 1",
    "page": "--rows 1000 --speed 400 --seconds 0.5",
    "reading": "--rows 500 --seconds 0",
    "run": "--only three-hop q3 --sizes 1000 --edges 2000 --scale 0.001",
    "soak": "--changes 8000 --window 500 --each 100 --transactions 50",
    "threads": "--scale 0.001 --size 2000 --views 2",
    "tpch_streams": "--scale 0.001 --only 1 5 --checks 1 --clock cpu",
}
#: The same for those that start Spark, each in a process of its own.
ON_SPARK = {
    "run": ["--only startup --cached"],
    "spark_costs": [f"--scale 0.001 --batches 2{further}" for further in ("", " --start", " --pause 1")],
    "spark_memory": ["--batches 30 --window 200 --each 20"],
    "spark_stream": ["--scale 0.001 --batch 5000 --shards 1"],
    "real_time_mode": ["--seconds 2 --rows 1"],
}


def runnable() -> set[str]:
    return {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()}


def test_every_benchmark_is_tried() -> None:
    assert runnable() == {*TINY, *ON_SPARK, "startup"}


@pytest.mark.parametrize("name", TINY)
def test_benchmark(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = TINY[name].split()
    if name == "soak":
        arguments += ["--plot", str(tmp_path / "soak.svg")]
    if name in ("run", "tpch_streams"):
        arguments += ["--json", str(tmp_path / "results.json")]
    status = importlib.import_module(f"benchmarks.{name}").main(arguments)
    assert status == 0 or name == "soak"  # which judges memory, of which so short a stream says nothing
    assert re.search(r"\d", capsys.readouterr().out)
    assert not arguments[-1].startswith(str(tmp_path)) or Path(arguments[-1]).stat().st_size


def test_startup() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.startup"], env=_found(), check=True, capture_output=True)
    assert {"register q3", "attach the kernels that it calls"} < json.loads(done.stdout).keys()


@pytest.mark.parametrize("prepared", [True, False])
def test_what_a_spark_worker_begins_with(prepared: bool) -> None:
    """A process that did what the daemon does before it forks workers loads nothing more for a view."""
    pytest.importorskip("pyspark")
    code = f"""
        from benchmarks.startup import job, worker
        made = job()
        from freshet.spark import daemon
        if {prepared}:
            daemon.prepare()
        (row,) = [row for batch in worker(made, []) for row in batch.to_pylist()]
        print(row["loaded"])"""
    code = "\n".join(line.strip() if "daemon.prep" not in line else "    " + line.strip() for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", code], env=_found(), check=True, capture_output=True, text=True)
    assert ("settle_keyed" in done.stdout) == (not prepared) and (done.stdout.strip() == "") == prepared, done.stdout


@pytest.mark.long
@pytest.mark.parametrize(("name", "arguments"), [(name, each) for name, ways in ON_SPARK.items() for each in ways])
def test_benchmark_on_spark(name: str, arguments: str) -> None:
    pytest.importorskip("pyspark")
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments.split()]
    done = subprocess.run(command, env=_found(), capture_output=True, text=True, cwd=ROOT)
    judges = name == "spark_memory" and "Memory grows" in done.stderr  # of which so short a stream says nothing
    assert (done.returncode == 0 or judges) and re.search(r"\d", done.stdout), done.stderr[-4000:]


def _found() -> dict[str, str]:
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


# Commands of the documentation ------------------------------------------------------------------------------------


def commands(pattern: str) -> list[str]:
    """What begins with the pattern, between backticks or on a line of a block."""
    found = set[str]()
    for page in PAGES:
        blocks = re.findall(r"^```sh.*?^```", page.read_text(), re.DOTALL | re.MULTILINE)
        found |= {line.split("#")[0].strip() for block in blocks for line in block.splitlines()}
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        found |= {" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)}
    return sorted(each for each in found if re.match(pattern, each))


def recipes() -> dict[str, str]:
    """The recipe of each target of the Makefile."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    return {m[1]: m[2] for m in re.finditer(r"^([a-z-]+):.*\n((?:\t.*\n)*)", text, re.MULTILINE)}


def accepts(module: str, arguments: list[str]) -> None:
    """Fails if a benchmark does not have the options."""
    assert (ROOT / "benchmarks" / f"{module}.py").exists() and module in runnable(), module
    if arguments:
        importlib.import_module(f"benchmarks.{module}").options(arguments)


@pytest.mark.parametrize("command", commands(r"python -m benchmarks\.\w"))
def test_documented_benchmark(command: str) -> None:
    _, _, module, *arguments = shlex.split(command)
    accepts(module.removeprefix("benchmarks."), arguments)


@pytest.mark.parametrize("command", commands(r"([A-Z_]+=\w+ )?make [a-z]"))
def test_documented_target(command: str) -> None:
    words = shlex.split(command)
    words = words[words.index("make") + 1 :]
    targets = [word for word in words if "=" not in word]
    for target in targets:
        assert target in recipes(), f"there is no `make {target}`"
        recipe = recipes()[target]
        for name, value in (word.split("=", 1) for word in words if "=" in word):
            assert f"$({name})" in recipe or f"{name})" in recipe, f"`make {target}` ignores {name}"
            called = re.search(r"-m benchmarks\.(\w+) \$\(ARGS\)", recipe)
            if called and name == "ARGS" and "--help" not in value:
                accepts(called[1], shlex.split(value))
            for path in re.findall(r"\btests/[\w/]+(?:\.py)?", value):
                assert (ROOT / path).exists(), path


def test_commands_are_found() -> None:
    assert "python -m benchmarks.spark_costs --pause 65" in commands("python -m benchmarks")
    assert "make chaos SEED=41000000 CASES=0 KILLS=1000" in commands("make ")
    assert 'make test ARGS="-k ordered"' in commands("make ")
