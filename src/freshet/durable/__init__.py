"""A database in a folder.

Law: the log is the truth. Every transaction and every definition is one checksummed record, written before it is
acknowledged; a database is what its log says, and nothing else. The checkpoint is a cache: the arrays of all state as
they were after one record of the log, written when the database is closed and never changed afterwards. It is used only
if it is whole and that record stands in the log at its place, and then only the records after it are replayed.

`record.py` has what records hold, `log.py` the file of them, `checkpoint.py` the arrays, `folder.py` who may open the
folder, `replay.py` the way from records to state, `store.py` how a database uses all of it, and `migrate.py` reads
folders of earlier versions.
"""
