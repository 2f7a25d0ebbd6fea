# `make test` and `make demo` set everything up by themselves; `make` alone lists what there is.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHECKED := src tests benchmarks examples hatch_build.py tools/docs_pages.py

.DEFAULT_GOAL := help
.PHONY: help setup java browser demo test test-long stress fuzz fuzz-joins fuzz-claims fuzz-page fuzz-cli chaos chaos-spark fuzz-texts fuzz-spark slt tpcds docs dist lint types format bench bench-tpch bench-papers bench-peers bench-spark lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY) java ## virtual environment with the locked dependencies, and a JDK where none is found

# The stamp is written last, so an installation that was cut short is made again.
$(READY): requirements.lock pyproject.toml tools/setup
	@tools/setup $(VENV)
	@touch $@

# Spark needs a JDK; nothing in this list needs Spark, so a machine that cannot have one goes on without.
java:
	@tools/ensure-java >/dev/null || true

demo: setup ## TPC-H views kept fresh on Spark over a stream of orders, checked against Spark SQL
	@$(BIN)/python -m examples.spark_demo $(ARGS)

# The page's tests skip themselves where there is no browser.
browser:
	@tools/ensure-browser >/dev/null || true

# The whole suite runs in two processes, a file of tests in one of them; a part of it in one. If one of them dies, the
# run ends: after a restart the other one might wait forever.
test: setup browser ## the whole test suite (ARGS="-k name" for a part of it)
	@$(BIN)/python -m pytest -q $(or $(ARGS),-n 2 --dist loadfile --max-worker-restart 0)

test-long: setup ## killed and restarted Spark processes, databases behind JDBC, many shards
	@$(BIN)/python -m pytest -q -m long $(ARGS)

# MALLOC_CHECK_ needs its library from glibc 2.34 on. Bounds checks do not see what kernels reach by address: fences do.
stress: setup ## threads over one database: checked memory, fences, then checked kernels (ARGS="--seconds 600")
	@LD_PRELOAD=libc_malloc_debug.so.0 MALLOC_CHECK_=3 MALLOC_PERTURB_=165 \
	    $(BIN)/python -m tests.stress.run --rounds 2 $(ARGS)
	@$(BIN)/python -m tests.stress.run --fence $(ARGS)
	@FRESHET_FENCE=1 $(BIN)/python -m pytest -q tests/state tests/engine
	@NUMBA_BOUNDSCHECK=1 $(BIN)/python -m tests.stress.run --rounds 2 $(ARGS)
	@NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -q tests/state tests/engine

fuzz: setup ## 5,000 random queries and streams beside DuckDB (ARGS="--seed 7 --cases 100")
	@$(BIN)/python -m tests.fuzz.run $(ARGS)

fuzz-joins: setup ## random joins of three small tables, hundreds at a time, next to DuckDB (ARGS="--seed 7 --rounds 100")
	@$(BIN)/python -m tests.fuzz.joins $(ARGS)

fuzz-claims: setup ## what views pay over doubling streams, compared with what explain promises (ARGS="--seed 7 --cases 500")
	@$(BIN)/python -m tests.fuzz.claims $(ARGS)

fuzz-page: setup ## random requests, messages and queries against the live page (ARGS="--seed 7 --cases 2000")
	@$(BIN)/python -m tests.web.fuzz $(ARGS)

fuzz-cli: setup ## random command lines (ARGS="--seed 7 --cases 2000")
	@$(BIN)/python -m tests.cli.fuzz $(ARGS)

chaos: setup ## databases killed, interrupted, damaged, out of space (SEED=7 CASES=1000 KILLS=100)
	@$(BIN)/python -m tests.chaos.run $(if $(SEED),--seed $(SEED)) $(if $(CASES),--cases $(CASES)) $(if $(KILLS),--kills $(KILLS))

chaos-spark: setup ## streams on Spark whose drivers, workers and executors are killed (SEED=7 CASES=10; a minute each)
	@$(BIN)/python -m tests.chaos.spark_run $(if $(SEED),--seed $(SEED)) $(if $(CASES),--cases $(CASES))

fuzz-texts: setup ## SQL texts of the tests with words changed, each read or refused in words (ARGS="--seed 7 --cases 100")
	@$(BIN)/python -m tests.fuzz.mutants $(ARGS)

fuzz-spark: setup ## random queries compared with Spark: values, names, types, refusals (ARGS="--seed 7 --queries 20000")
	@$(BIN)/python -m tests.fuzz.spark_run $(ARGS)

soak: setup ## memory and files over a long stream, the worst small transaction (ARGS="--changes 4000000")
	@$(BIN)/python -m benchmarks.soak $(ARGS)

tpcds: setup ## the 99 queries of TPC-DS as views over random transactions beside DuckDB (ARGS="--seed 7 --transactions 100")
	@$(BIN)/python -m tests.tpcds.run $(ARGS)

slt: setup ## sqllogictest, every query a view before its rows come (FILES="a.test folder", ARGS="--seed 7 --generated 60")
	@$(BIN)/python -m tests.sqllogictest.run $(or $(FILES),tests/sqllogictest --generated 600) $(ARGS)

lint: $(READY) ## style and formatting
	@$(BIN)/ruff check $(CHECKED)
	@$(BIN)/ruff format --check $(CHECKED)

types: $(READY) ## the type checker, strict
	@$(BIN)/mypy

format: $(READY) ## apply the formatting that `make lint` asks for
	@$(BIN)/ruff check --fix $(CHECKED)
	@$(BIN)/ruff format $(CHECKED)

bench: setup ## speed: three-hop paths and TPC-H streams (ARGS="--help" for options)
	@$(BIN)/python -m benchmarks.run $(ARGS)

bench-tpch: setup ## speed: all 22 TPC-H queries over a sliding window (ARGS="--help" for options)
	@$(BIN)/python -m benchmarks.tpch_streams $(ARGS)

bench-papers: setup ## the papers' experiments: tables and plots in benchmarks/results (ARGS="--quick")
	@$(BIN)/python -m benchmarks.papers.run $(ARGS)

# The peers in Rust are built by cargo, which fetches their crates; without cargo they are left out.
bench-peers: setup ## Freshet next to other engines on the same streams: table and plots (ARGS="--quick")
	@$(BIN)/python -m benchmarks.peers.run $(ARGS)

bench-spark: setup ## speed on Spark: TPC-H Q3 as a FIFO stream, with the time split (ARGS="--help" for options)
	@$(BIN)/python -m benchmarks.spark_stream $(ARGS)

docs: $(READY) ## the docs site, built into build/site; open build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: ## the sdist, and a wheel with compiled kernels for each Python there is, each tried (PYTHONS="python3.12")
	@tools/dist $(PYTHONS)

lock: ## resolve pyproject.toml again into requirements.lock (needs uv)
	@uv pip compile pyproject.toml --all-extras --group dev --generate-hashes --universal --python-version 3.11 \
	    --no-emit-index-url --no-emit-find-links --no-header --no-annotate --upgrade --quiet -o requirements.lock

clean: ## remove the virtual environment, caches and generated data
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
