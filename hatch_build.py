"""Wheels bring their kernels compiled (freshet/state/processor.py): the first answer needs no compiler.

An editable install has none: it compiles them once, when a database is first opened.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKernels(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "src"))
        from freshet.state.kernel_cache import ship
        from freshet.state.processor import LEVELS

        for level in LEVELS.get(platform.machine(), {}):
            self.app.display_info(f"compiling kernels for {level}; this takes a minute or two")
            folder = ship(root / "build" / "compiled", level)
            for file in folder.glob("*.nb[ci]"):
                build_data["force_include"][str(file)] = f"freshet/compiled/{folder.name}/{file.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
