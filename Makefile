# What matters: `make demo` runs the main job, `make test` runs the tests in a few minutes, and
# `make test-all` runs all of them, with other versions of Python and of the dependencies, too.
# Each sets up what it needs; only python3 (>= 3.11) and make must be there.

PYTHON ?= python3
BIN := .venv/bin
# Test processes share the cores: one thread each.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q -rfEs

.PHONY: demo test test-all test-thorough test-newest test-3.13 test-lowest audit browser venv venv-3.12 venv-3.13 venv-lowest lint bench bench-accuracy bench-busy bench-choices bench-speed bench-memory bench-numbers bench-paper bench-panels bench-panel-speed bench-preset bench-scale bench-selection bench-tree fuzz pictures clean

# What a user needs for the demo. Python compiles what is imported, and pip need not compile all.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile
.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ksparse needs Python >= 3.11; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(INSTALL) --upgrade pip
.venv/demo: pyproject.toml | .venv/bin/python
	$(INSTALL) -e '.[plot,anndata]'
	touch $@

# Everything: all extras, tests, linters; at once, for two runs of pip take longer than one.
.venv/dev: pyproject.toml | .venv/bin/python
	$(INSTALL) -e '.[dev]'
	touch .venv/demo $@

venv: .venv/dev

demo: .venv/demo
	$(BIN)/ksparse demo --force

# What a change needs: every feature, some minutes.
test:
	$(MAKE) -j 2 venv browser
	$(MAKE) lint
	$(PYTEST)

# All: many seeds, sizes and kinds of data, interrupts, damaged files; other versions.
test-all:
	$(MAKE) -j 2 venv venv-3.12 venv-3.13 venv-lowest browser
	$(MAKE) lint
	$(MAKE) test-thorough
	$(MAKE) test-newest
	$(MAKE) test-3.13
	$(MAKE) test-lowest

test-thorough: .venv/dev browser
	$(PYTEST) --thorough --cov --cov-report=term:skip-covered --cov-fail-under=95

# The AnnData parts with scanpy 1.12 and anndata 0.13, which need Python 3.12, where it is there.
PYTHON312 := $(shell for python in python3.12 $(HOME)/.pyenv/versions/3.12*/bin/python; do \
	$$python -c '' 2>/dev/null && echo $$python && break; done)
ANNDATA_TESTS := tests/test_tl.py tests/test_pl.py tests/test_readers.py tests/test_identical.py
.venv-3.12/dev: pyproject.toml
	test -x .venv-3.12/bin/python || $(PYTHON312) -m venv .venv-3.12
	.venv-3.12/bin/python -m pip install --quiet --upgrade pip
	.venv-3.12/bin/python -m pip install --quiet -e '.[anndata,test]' 'scanpy>=1.12' 'anndata>=0.13'
	touch $@
venv-3.12: $(if $(PYTHON312),.venv-3.12/dev)
test-newest: venv-3.12
ifeq ($(PYTHON312),)
	@echo '*** Python 3.12 is not here: NOT tested with scanpy 1.12 and anndata 0.13 ***'
else
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-3.12/bin/python -m pytest -n 2 -q --thorough -k 'not umap' \
		$(ANNDATA_TESTS)
endif

# The results with Python 3.13 and the core dependencies alone, where it is there.
PYTHON313 := $(shell for python in python3.13 $(HOME)/.pyenv/versions/3.13*/bin/python; do \
	$$python -c '' 2>/dev/null && echo $$python && break; done)
.venv-3.13/dev: pyproject.toml
	test -x .venv-3.13/bin/python || $(PYTHON313) -m venv .venv-3.13
	.venv-3.13/bin/python -m pip install --quiet --upgrade pip
	.venv-3.13/bin/python -m pip install --quiet -e . pytest
	touch $@
venv-3.13: $(if $(PYTHON313),.venv-3.13/dev)
test-3.13: venv-3.13
ifeq ($(PYTHON313),)
	@echo '*** Python 3.13 is not here: NOT tested with it ***'
else
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-3.13/bin/python -m pytest --noconftest -q \
		tests/test_identical.py
endif

# Exactly the lower bounds of pyproject.toml.
LOWEST_TESTS := $(addprefix tests/test_,balls.py solvers.py homotopy.py estimator.py bad_input.py \
	identical.py saving.py readers.py fuzz.py tl.py pl.py cli.py blocks.py dask.py report.py)
.venv-lowest/dev: pyproject.toml tests/lowest.py
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tests/lowest.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip install --quiet --upgrade pip
	.venv-lowest/bin/python -m pip install --quiet -e '.[plot,anndata,baselines,dask,test]' \
		-c .venv-lowest/lowest.txt
	touch $@
venv-lowest: .venv-lowest/dev
test-lowest: venv-lowest
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -n 2 -q $(LOWEST_TESTS)

# Known weaknesses of the packages that are installed; asks a server, and fails if it does not know
# one of them.
audit: .venv/dev
	$(BIN)/python -m pip freeze --quiet --exclude-editable > .venv/installed.txt
	test -x .venv/audit/bin/python || $(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python -m pip install --quiet pip-audit
	.venv/audit/bin/pip-audit --strict --disable-pip --no-deps -r .venv/installed.txt

# Chromium, in which the report is tested; without it those tests are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	|| command -v google-chrome >/dev/null \
	|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
	     && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } \
	|| echo '*** Chromium is missing and cannot be installed: the report is NOT tested in a browser ***'

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: bench-accuracy bench-speed bench-memory bench-selection

bench-accuracy: .venv/dev
	$(BIN)/python benchmarks/accuracy.py

bench-speed: .venv/dev
	$(BIN)/python benchmarks/speed.py

# A fit while other processes keep all cores busy.
bench-busy: .venv/dev
	$(BIN)/python benchmarks/busy.py

bench-memory: .venv/dev
	$(BIN)/python benchmarks/memory.py

# The paper's tables on simulated data; give DATA="scsim1 zeisel.h5ad" for others.
DATA ?= scsim1 scsim2
bench-paper: .venv/dev
	$(BIN)/ksparse compare $(DATA) -o ksparse-compare

# The deviations of the paper's preset from the paper's text, one at a time (an hour).
bench-preset: .venv/dev
	$(BIN)/python benchmarks/paper_preset.py

# Gene panels beside Wilcoxon markers, variable and random genes.
bench-panels: .venv/dev
	$(BIN)/python benchmarks/panels.py

# The time that a panel takes, in seconds and in products with the data.
bench-panel-speed: .venv/dev
	$(BIN)/python benchmarks/panel_speed.py

# What the rules and constants of the search are worth (an hour).
bench-choices: .venv/dev
	$(BIN)/python benchmarks/all_sets.py
	$(BIN)/python benchmarks/choice.py
	$(BIN)/python benchmarks/constants.py

# How many clusters: recommendations, their cost, and the power of the test of separation.
bench-numbers: .venv/dev
	$(BIN)/python benchmarks/cluster_numbers.py

# Up to a million samples, in memory and in files; give SIZES="10000 100000" for others.
SIZES ?= 10000 100000 1000000
bench-scale: .venv/dev
	$(BIN)/python benchmarks/scale.py --sizes $(SIZES)

# 20,000 damaged files of every format; give COUNT=1000 for fewer.
COUNT ?= 20000
fuzz: .venv/dev
	$(BIN)/python benchmarks/fuzz.py --count $(COUNT)

bench-selection: .venv/dev
	$(BIN)/python benchmarks/selection.py

# Trees of clusters: beside flat fits, and on one population.
bench-tree: .venv/dev
	$(BIN)/python benchmarks/tree.py

# The pictures of the README.
pictures: .venv/dev
	$(BIN)/python docs/pictures.py

clean:
	rm -rf .venv .venv-3.12 .venv-3.13 .venv-lowest ksparse-demo ksparse-compare
