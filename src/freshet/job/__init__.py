"""Job files: tables with their sources, views, and the sinks their changes go to, as one SQL text."""

from __future__ import annotations

from freshet.job.file import Endpoint, JobFile, JobSink, JobSource, read_job

__all__ = ["Endpoint", "JobFile", "JobSink", "JobSource", "read_job"]
