"""The process that Spark forks its Python workers from (`spark.python.daemon.module`), with the engine inside.

A worker that starts by itself takes seconds to import what it runs and to attach compiled kernels, and Spark ends
workers that were idle for a minute. Forked from here, a worker has all of that at once, and pandas and protobuf, which
PySpark imports in every worker that gets Arrow batches or has state.

A worker collects garbage after each task. The objects that it inherited are excluded (frozen), because the collection
would otherwise visit all imported modules and copy their memory.
"""

from __future__ import annotations

import gc

# ruff: noqa: F401  (most is imported for the forked workers)
import numpy.ma
import pandas
import pyarrow.pandas_compat
import pyspark.sql.conversion
import pyspark.sql.streaming.proto.StateMessage_pb2
import pyspark.sql.streaming.stateful_processor_util
import pyspark.worker
from pyspark import daemon

import freshet.spark.decode
import freshet.spark.encode
import freshet.spark.level
import freshet.spark.normalize
import freshet.spark.sink.pack
import freshet.spark.snapshot
from freshet.state.kernel_cache import KERNELS


def prepare() -> None:
    """What every worker has when it is forked."""
    KERNELS.attach()
    gc.collect()
    gc.freeze()


def main() -> None:
    prepare()
    daemon.manager()


if __name__ == "__main__":
    main()
