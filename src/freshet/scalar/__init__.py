"""Values: types, columns, expressions over them, and the functions of SQL, each computed one column at a time."""
