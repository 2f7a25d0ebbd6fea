"""Values: types, columns, expressions over them, and the functions of SQL, each computed a column at a time."""
