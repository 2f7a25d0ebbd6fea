"""Arrays in files: their contents are valid, or it is an error, never zeros."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from freshet.errors import StateError
from freshet.state.arena import Arena
from freshet.state.file_map import FileMap


def replaced(file: Path) -> None:
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)


def linked(file: Path) -> None:
    file.rename(file.with_suffix(".old"))
    file.symlink_to(file.with_suffix(".old"))


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda f: os.truncate(f, 0), lambda f: os.truncate(f, 512), replaced, linked]
)
def test_a_changed_file(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    array = Arena(tmp_path / "arena").array("a", np.int64)
    array.grow(1000)
    array.data[:] = 7
    damage(tmp_path / "arena" / "a.bin")
    with pytest.raises(OSError, match=r"changed while it was in use|No such file|symbolic links"):
        array.grow(2000)
    assert not (tmp_path / "arena" / "a.bin").exists() or (tmp_path / "arena" / "a.bin").stat().st_size <= 8000


def test_growth_keeps_what_is_there(tmp_path: Path) -> None:
    array = Arena(tmp_path / "arena").array("a", np.int64, 2, fill=-1)
    for rows in (100, 5000):
        array.grow(rows)
        assert (array.data[array.data[:, 0] >= 0] >= 0).all()
        array.data[:rows] = rows
    again = Arena(tmp_path / "arena").array("a", np.int64, 2, fill=-1)
    assert (again.data == array.data).all()
    (tmp_path / "arena" / "a.bin").unlink()
    with pytest.raises(StateError, match="is missing"):
        Arena(tmp_path / "arena").array("a", np.int64, 2, fill=-1)


def test_files_are_their_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Arena(tmp_path / "arena").array("a", np.int64).grow(1000)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(f.stat().st_mode) for f in (tmp_path / "arena").iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "arena").stat().st_mode) == 0o700


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are not listed here")
def test_arrays_keep_no_file_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    arena = Arena(tmp_path)
    arrays = [arena.array(f"a{i}", np.int64) for i in range(50)]
    for array in arrays:
        array.grow(10_000)
        array.data[:] = 7
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    arena.flush()
    assert all((again.data == 7).all() for again in (Arena(tmp_path).array(f"a{i}", np.int64) for i in range(50)))


def test_a_mapping_lives_as_long_as_its_arrays(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    kept = arena.array("a", np.int64).data[3:5]
    kept[:] = 1, 2
    arena.release()
    del arena
    assert kept.tolist() == [1, 2]
    assert Arena(tmp_path).array("a", np.int64).data[3:5].tolist() == [1, 2]


def test_a_mapping_that_fails(tmp_path: Path) -> None:
    with (tmp_path / "empty").open("w+b") as file, pytest.raises(OSError, match="Invalid argument"):
        FileMap(file.fileno(), 0)
