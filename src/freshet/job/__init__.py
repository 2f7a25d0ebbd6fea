"""Job files: tables with their sources, views, and the sinks their changes go to, as one SQL text."""

from __future__ import annotations

from freshet.job.file import JobFile, Place, Sink, Source, read_job

__all__ = ["JobFile", "Place", "Sink", "Source", "read_job"]
