"""A database in a folder.

Law: the log is the source of truth. Every transaction and every definition is one checksummed record, written before it
is acknowledged; a database is what its log says, and nothing else. The checkpoint is a cache: the arrays of all state
after one record of the log, written when the database is closed and never changed afterwards. It is used only if it is
intact and belongs to this log, and then only the records after that one are replayed. A log is never rewritten in
place, so such a checkpoint holds what the log said, even if the log's own bytes were damaged since.

`record.py` has the contents of records, `log.py` their file, `checkpoint.py` the arrays, `folder.py` the lock of the
folder, and `store.py` how a database uses all of it; `migrate.py` reads folders of earlier versions.
`database/replay.py` turns records into state.
"""
