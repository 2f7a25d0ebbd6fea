"""The test of an installed wheel, without any file of this repository but one example: `tools/dist` runs it."""

import resource
import runpy
import sys
import time
from pathlib import Path

start = time.perf_counter()
import freshet  # noqa: E402

imported = time.process_time()
runpy.run_path(sys.argv[1])
wall, used = time.perf_counter() - start, time.process_time()

from freshet.state.kernel_cache import KERNELS, cache_folder  # noqa: E402

assert "site-packages" in freshet.__file__, f"imported from {freshet.__file__}"
assert cache_folder().is_relative_to(Path(freshet.__file__).parent), f"kernels were compiled into {cache_folder()}"
assert all(kernel.is_there() for kernel in KERNELS.all), "a kernel is missing from the wheel"
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(
    f"Python {sys.version.split()[0]}: import {imported:.2f} s, the example's answer after {used:.2f} s of processor "
    f"time and {wall:.2f} s, {memory:.0f} MB"
)
