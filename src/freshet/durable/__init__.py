"""A database in a folder.

Law: the log is the truth. Every transaction and every definition is one checksummed record, written before it is
acknowledged; a database is what its log says, and nothing else. The checkpoint is a cache: the arrays of all state as
they were after one record of the log, written when the database is closed and never changed afterwards. It is used only
if it is whole and of this very log, and then only the records after that one are replayed. A log is never rewritten in
place, so what such a checkpoint holds is what the log said, also where the log's own bytes were damaged since.

`record.py` has what records hold, `log.py` the file of them, `checkpoint.py` the arrays, `folder.py` who may open the
folder, `store.py` how a database uses all of it, and `migrate.py` reads folders of earlier versions. From records to
state leads `database/replay.py`.
"""
