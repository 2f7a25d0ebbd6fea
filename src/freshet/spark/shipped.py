"""A job as it is sent to workers: its text, and the functions in Python that its views call."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext, cloudpickle

from freshet.errors import PlanError, StateError
from freshet.plans import codec
from freshet.spark.job import Job


@dataclass(frozen=True, slots=True)
class ShippedJob:
    """`functions`: by name in lower case, pickled as Spark pickles what its workers call."""

    text: str
    functions: bytes = b""


def pack_job(job: Job) -> ShippedJob:
    functions = _functions(job)
    packed = cloudpickle.dumps(functions) if functions else b""  # type: ignore[no-untyped-call]
    return ShippedJob(job.to_text(), packed)


def _functions(job: Job) -> dict[str, Callable[..., Any]]:
    return {f.name.lower(): f.body for f in codec.functions_in(job)}


def check_functions(job: Job) -> None:
    """Refuses functions in Python that cannot be sent."""
    for name, function in _functions(job).items():
        try:
            cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        except Exception as e:  # whatever an object raises that is asked for its state
            remedy = "define it in a module, or without what cannot be sent"
            raise PlanError(f"function {name} cannot be sent to Spark's workers ({_said(e)}); {remedy}") from None


def _unpickled(functions: bytes) -> dict[str, Callable[..., Any]]:
    if not functions:
        return {}
    try:
        return dict(pickle.loads(functions))
    except Exception as e:  # what importing a module may raise
        remedy = "install its module where workers run, or send it with spark.addArtifacts(..., pyfile=True)"
        raise StateError(f"a function in Python cannot be loaded on a worker ({_said(e)}); {remedy}") from None


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


_jobs: dict[ShippedJob, Job] = {}


def read_job(shipped: ShippedJob) -> Job:
    """Read once a process. A worker searches for garbage after each task: what it has imported by now, and the job,
    is kept out of that."""
    if shipped not in _jobs:
        if len(_jobs) > 8:
            _jobs.clear()
        with codec.calling(_unpickled(shipped.functions)):
            _jobs[shipped] = Job.from_text(shipped.text)
        if TaskContext.get() is not None:
            gc.freeze()
    return _jobs[shipped]
