"""The processors that kernels are compiled for: the current one, or a level that many processors have.

A wheel contains kernels compiled for the levels below (hatch_build.py), so that nothing is compiled after installation;
they run on any processor with the features of their level. The levels of x86-64 are those of its ABI.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator

from llvmlite import binding
from numba.core import config

_X86_64_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_X86_64_V3 = (*_X86_64_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
#: By architecture, the best first: the name LLVM has for a level, and the features it needs.
LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {"x86-64-v3": _X86_64_V3, "x86-64-v2": _X86_64_V2},
    "aarch64": {"generic": ()},
}


def target() -> tuple[str, str]:
    """The processor and the features that this process compiles for; NUMBA_CPU_NAME and NUMBA_CPU_FEATURES set them."""
    name, features = config.CPU_NAME, config.CPU_FEATURES
    return (
        binding.get_host_cpu_name() if name is None else name,
        binding.get_host_cpu_features().flatten() if features is None else features,
    )


def levels() -> Iterator[str]:
    """The levels that this processor has, the best first."""
    here = binding.get_host_cpu_features()
    for name, needed in LEVELS.get(platform.machine(), {}).items():
        if all(here.get(feature) for feature in needed):
            yield name


def compiling_for(level: str) -> dict[str, str]:
    """The environment variables that make a process compile for a level."""
    return {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""}
