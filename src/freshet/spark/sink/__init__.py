"""Queryable copies of a view's answer, kept by `freshet.spark.materialize`: one micro-batch in, one new version out."""
