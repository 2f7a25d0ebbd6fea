"""Kernels are loaded as machine code alone, and the compiler's memory is given back."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import llvmlite.binding as llvm
import pytest

from freshet.state.kernel_cache import KERNELS, Kernel
from freshet.state.loading import defined_symbols

on_elf = pytest.mark.skipif(sys.platform != "linux", reason="code is loaded in this way from ELF files")


def cached(kernel: Kernel) -> tuple[bytes, bytes]:
    """The machine code and the intermediate code of a kernel in the cache."""
    kept = kernel.kept._cache_file
    (payload,) = (kept._load_data(name) for key, name in kept._load_index().items() if key[0] == kernel.arguments)
    name, kind, data = payload[0]
    assert kind == "object", name
    machine, intermediate = data
    return machine, intermediate


def loaded(kernel: Kernel) -> Any:
    """The library of a kernel, as this process has loaded it."""
    kernel.compile()
    (made,) = kernel.dispatcher.overloads.values()
    return made.library


@on_elf
@pytest.mark.parametrize("kernel", KERNELS.all[::7], ids=lambda kernel: kernel.dispatcher.__name__)
def test_the_names_that_code_defines(kernel: Kernel) -> None:
    """As its intermediate code says, without what is only used inside."""
    KERNELS.compile()
    machine, intermediate = cached(kernel)
    module, names = llvm.parse_bitcode(intermediate), set[str]()
    inside = llvm.Linkage.internal, llvm.Linkage.private
    for kind in (module.functions, module.global_variables):
        names |= {each.name for each in kind if not each.is_declaration and each.linkage not in inside}
    assert defined_symbols(machine) == names


def test_other_formats() -> None:
    """They are loaded as numba does."""
    assert defined_symbols(b"\xcf\xfa\xed\xfe") is None
    assert defined_symbols(b"\x7fELF\x01\x01" + bytes(100)) is None


@on_elf
def test_a_loaded_kernel_is_linked_into_another() -> None:
    code = """
        import numba, numpy as np
        from freshet.state.loading import LoadedLibrary
        from freshet.state.places import open_homes, HEAD, HOMES, MASK, LEAST
        import freshet.database.db
        from freshet.state.kernel_cache import KERNELS

        KERNELS.compile()
        kernel = next(k for k in KERNELS.all if k.dispatcher is open_homes)
        kernel.compile()
        (made,) = open_homes.overloads.values()
        assert isinstance(made.library, LoadedLibrary) and made.library._shared_module is None

        @numba.njit
        def opened(table, homes):
            open_homes(table, homes)
            return table[HOMES]

        table = np.full(HEAD + 200, -1, np.int64)
        table[HOMES], table[MASK] = LEAST, LEAST - 1
        assert opened(table, 96) == 96 and made.library._shared_module is not None
        table[HOMES], table[MASK] = LEAST, LEAST - 1
        open_homes(table, 80)
        print(table[HOMES], sum(open_homes.stats.cache_hits.values()))
    """
    assert run(code) == "80 1\n"


@on_elf
def test_a_small_database_takes_little_memory() -> None:
    """No pandas, no intermediate code, and no pages of the compiler that loading does not need."""
    code = """
        import sys
        import freshet
        from freshet.budget import resident

        db = freshet.connect()
        empty = resident()
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, s STRING, p DECIMAL(10, 2))")
        view = db.create_view("v", "SELECT s, COUNT(*) AS n, SUM(p) AS x FROM t WHERE s <> 'x' GROUP BY s")
        db.apply({"t": [{"a": 1, "s": "y", "p": 1}]})
        assert view.count() == 1 and view.to_arrow().num_rows == 1
        assert "pandas" not in sys.modules
        print(empty, resident())
    """
    empty, used = map(int, run(code).split())
    assert empty < 140 << 20 and used < 160 << 20, (empty, used)


def run(code: str) -> str:
    """The output of a process of its own."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
