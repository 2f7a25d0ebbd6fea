"""Kernels are compiled once, by one of the processes that need them, and attached by those that call them."""

from __future__ import annotations

import io
import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import numba
import pytest
from numba.core import sigutils

import freshet.database.db  # (its imports register the kernels)
from freshet.state import kernel_cache, processor
from freshet.state.kernel_cache import KERNELS, Kernels

ROOT = Path(__file__).resolve().parents[2]

#: Four kernels of its own, cached in the given folder; prints how many were compiled here, and the result of one of
#: them.
OWN = """
    import sys, numba, numpy as np
    from pathlib import Path
    from numba.core import event
    from kernel_cache import Kernels
    from constants import SHIFT

    kernels = Kernels(Path(sys.argv[1]))

    def kernel(signature):
        def decorate(function):
            made = numba.njit(nogil=True)(function)
            kernels.add(made, signature)
            return made
        return decorate

    @numba.njit
    def shifted(x):
        return x + SHIFT

    @kernel("i8(i8[::1])")
    def a(values):
        return shifted(values.sum())
""" + "".join(
    f"""
    @kernel("void(i8[::1])")
    def {name}(values):
        for i in range(len(values)):
            for j in range(len(values)):
                values[i] = (values[i] * {i} + values[j]) % 1000
"""
    for i, name in enumerate("bcd", 2)
)
USE = """
    with event.install_recorder("numba:compile") as found:
        kernels.compile()
        said = a(np.arange(4))
    made = [e for _, e in found.buffer if e.is_end and e.data["dispatcher"].py_func.__name__ in "abcd"]
    print(len(made), said, sum(bool(k.dispatcher.signatures) for k in kernels.all))
"""


def place(folder: Path, shift: int = 10) -> list[str]:
    """The program above, in a folder of its own; the command that runs it."""
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(textwrap.dedent(OWN) + textwrap.dedent(USE))
    (folder / "constants.py").write_text(f"SHIFT = {shift}\n")
    return [sys.executable, str(folder / "own.py")]


def start(command: list[str], *args: object, **environment: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT, ROOT / "src" / "freshet" / "state")))
    return subprocess.Popen(
        [*command, *map(str, args)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out.strip(), err.strip()


def test_signatures_are_what_kernels_return() -> None:
    """Kernels are compiled for their argument types; this checks that they return their declared types."""
    KERNELS.compile()
    for kernel in KERNELS.all:
        arguments, declared = sigutils.normalize_signature(kernel.signature)
        kernel.compile()
        assert kernel.dispatcher.overloads[tuple(arguments)].signature.return_type == declared, kernel.name


def test_a_warm_process_attaches_what_it_calls_and_says_nothing() -> None:
    freshet.connect()
    code = """
        import freshet
        from freshet.state.kernel_cache import KERNELS
        attached = lambda: sum(bool(k.dispatcher.signatures) for k in KERNELS.all)
        db = freshet.connect()
        assert attached() == 0
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING)")
        db.create_view("v", "SELECT s, COUNT(*) AS n FROM t GROUP BY s")
        db.apply({"t": [{"id": 1, "s": "a"}]})
        assert db.view("v").to_arrow().to_pylist() == [{"s": "a", "n": 1}]
        assert all(len(k.dispatcher.stats.cache_misses) == 0 for k in KERNELS.all), "something was compiled"
        print(attached() < len(KERNELS.all) / 2)
    """
    assert ended(start([sys.executable, "-c", textwrap.dedent(code)])) == ("True", "")


def test_compiled_once_wherever_the_program_lies(tmp_path: Path) -> None:
    one, two, cache = place(tmp_path / "one"), place(tmp_path / "two"), tmp_path / "cache"
    out, err = ended(start(one, cache))
    assert out == "4 16 4"
    assert err == "freshet: compiling kernels, once per installation: 0 of 4; it takes a minute or two"
    assert ended(start(one, cache)) == ("0 16 1", "")
    os.utime(tmp_path / "two" / "own.py", (1, 1))
    assert ended(start(two, cache)) == ("0 16 1", ""), "a folder may be moved or shipped"
    assert ended(start(place(tmp_path / "two", shift=20), cache))[0] == "1 26 1", "a constant from another file"
    (data,) = cache.glob("own.b-*.nbc")
    data.unlink()
    (data,) = cache.glob("own.c-*.nbc")
    data.write_bytes(data.read_bytes()[:100])
    (index,) = cache.glob("own.a-*.nbi")
    index.write_bytes(b"nothing")
    assert ended(start(one, cache))[0] == "2 16 2", "what is gone, or has no index, is compiled again"


def test_processes_share_the_work(tmp_path: Path) -> None:
    command = place(tmp_path / "one")
    together = [start(command, tmp_path / "cache") for _ in range(2)]
    compiled = [int(ended(process)[0].split()[0]) for process in together]
    assert sum(compiled) == 4, compiled


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Then the called kernels are compiled, and one message says how to avoid repeating it."""
    (tmp_path / "file").touch()
    out, err = ended(start(place(tmp_path / "one"), tmp_path / "file" / "cache"))
    assert out == "1 16 1"
    assert err.startswith(
        f"freshet: kernels cannot be cached in {tmp_path / 'file' / 'cache'} (Not a directory), so each"
    )
    assert err.endswith("set FRESHET_CACHE to a folder that can be written") and "\n" not in err


def test_a_torn_file_is_compiled_again_when_it_is_called(tmp_path: Path) -> None:
    one, cache = place(tmp_path / "one"), tmp_path / "cache"
    ended(start(one, cache))
    (data,) = cache.glob("own.a-*.nbc")
    data.write_bytes(data.read_bytes()[:100])
    assert ended(start(one, cache)) == ("1 16 1", "")
    assert ended(start(one, cache)) == ("0 16 1", "")


def test_waiting_for_a_claim_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped while it compiled."""
    code = f"""
        import sys, time
        from pathlib import Path
        import kernel_cache
        Path({str(tmp_path / "cache")!r}).mkdir()
        claims = open({str(tmp_path / "cache" / "claims")!r}, "a+b")
        kernel_cache.fcntl.lockf(claims, kernel_cache.fcntl.LOCK_EX)
        print("claimed", flush=True)
        sys.stdin.read()
    """
    other = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src" / "freshet" / "state")},
    )  # fmt: skip
    assert other.stdout is not None and other.stdout.readline() == b"claimed\n"
    try:
        source = place(tmp_path / "one")[1]
        text = Path(source).read_text().replace("kernels.compile()", "kernel_cache._PATIENCE = 0.5; kernels.compile()")
        Path(source).write_text("import kernel_cache\n" + text)
        assert ended(start([sys.executable, source], tmp_path / "cache"))[0] == "4 16 4"
    finally:
        other.communicate(b"")


def test_bounds_checked_kernels_are_kept_apart() -> None:
    code = "from freshet.state.kernel_cache import cache_folder; print(cache_folder())"
    plain, checked = (
        ended(start([sys.executable, "-c", code], **more))[0]
        for more in ({"NUMBA_BOUNDSCHECK": "0"}, {"NUMBA_BOUNDSCHECK": "1"})
    )
    assert plain != checked and Path(plain).parent == Path(checked).parent


def test_kernels_for_a_level_run_on_every_processor_that_has_it(tmp_path: Path) -> None:
    command = place(tmp_path / "program")
    for level in processor.levels():
        cache = tmp_path / level
        assert ended(start(command, cache, **processor.compiling_for(level)))[0] == "4 16 4"
        assert ended(start(command, cache))[0] == "0 16 1"


def test_kernels_that_came_with_the_installation_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = kernel_cache._folder()
    monkeypatch.setattr(kernel_cache, "_SHIPPED", tmp_path)
    assert kernel_cache._folder() == ours
    for level in reversed(list(processor.levels())):  # the best one is last
        shipped = tmp_path / kernel_cache._name(kernel_cache._stamp(), (level, ""))
        shipped.mkdir()
        assert kernel_cache._folder() == shipped
    monkeypatch.setattr(processor, "LEVELS", {platform.machine(): {"impossible": ("no such feature",)}})
    assert list(processor.levels()) == [] and kernel_cache._folder() == ours


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_messages_of_compilation(terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal one line that follows the work and is gone when it is done; elsewhere one line when it begins."""
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    kernels = Kernels(tmp_path)
    for number in range(3):
        scope: dict[str, object] = {}
        exec(f"def own{number}(x):\n    return x + {number}\n", {"__name__": "own"}, scope)
        kernels.add(numba.njit(scope[f"own{number}"]), "i8(i8)")
    kernels.compile()
    line = "freshet: compiling kernels, once per installation: "
    if terminal:
        assert screen.getvalue() == "".join(f"\r{line}{done} of 3" for done in range(4)) + "\r\x1b[K"
    else:
        assert screen.getvalue() == f"{line}0 of 3; it takes a minute or two\n"
    kernels.compile()
    assert screen.getvalue().count("0 of 3") == 1
