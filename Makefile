# Two commands matter: `make demo` runs the main job, `make test` runs all tests.
# Both set up what they need in .venv; only python3 (>= 3.11) and make must be there.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test venv lint bench bench-accuracy bench-speed bench-memory bench-selection pictures clean

# What a user needs for the demo.
.venv/demo: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ksparse needs Python >= 3.11; set PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[plot]'
	touch $@

# Everything: all extras, tests, linters.
.venv/dev: .venv/demo
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

venv: .venv/dev

demo: .venv/demo
	$(BIN)/ksparse demo

test: .venv/dev lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: bench-accuracy bench-speed bench-memory bench-selection

bench-accuracy: .venv/dev
	$(BIN)/python benchmarks/accuracy.py

bench-speed: .venv/dev
	$(BIN)/python benchmarks/speed.py

bench-memory: .venv/dev
	$(BIN)/python benchmarks/memory.py

bench-selection: .venv/dev
	$(BIN)/python benchmarks/selection.py

# The pictures of the README.
pictures: .venv/dev
	$(BIN)/python docs/pictures.py

clean:
	rm -rf .venv ksparse-demo
