"""The peers in Rust: built on request, in the repository's cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

RUST = Path(__file__).resolve().parent / "rust"
TARGET = Path(__file__).resolve().parent.parent.parent / ".cache" / "peers" / "target"

#: A peer's package, which is also the name of its program.
CRATES = {"differential": "differential"}


def built(peer: str) -> Path | None:
    """The program of a peer, or None, with the reason, where cargo is missing or the build fails."""
    cargo = shutil.which("cargo")
    if cargo is None:
        print(f"{peer}: left out, cargo is not installed", file=sys.stderr)
        return None
    target = Path(os.environ.get("CARGO_TARGET_DIR") or TARGET)
    print(f"{peer}: building", file=sys.stderr, flush=True)
    _lock(cargo)
    words = [cargo, "build", "--release", "--locked", "--quiet", "--package", CRATES[peer]]
    done = subprocess.run(words, cwd=RUST, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, check=False)
    if done.returncode:
        print(f"{peer}: left out, cargo cannot build it", file=sys.stderr)
        return None
    return target / "release" / CRATES[peer]


def _lock(cargo: str) -> None:
    """Writes Cargo.lock: the crates of crates.lock with their checksums, which the registry that cargo is set up with
    must have. That registry's address is read from a lock that cargo makes itself."""
    file = RUST / "Cargo.lock"
    file.unlink(missing_ok=True)
    subprocess.run([cargo, "generate-lockfile", "--quiet"], cwd=RUST, check=False)
    source = re.search(r"^source = .*\n", file.read_text(), re.MULTILINE) if file.exists() else None
    if source is not None:
        pinned = (RUST / "crates.lock").read_text()
        file.write_text(re.sub(r"^(?=checksum = )", lambda _: source[0], pinned, flags=re.MULTILINE))
