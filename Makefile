# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find src -name '*.py') pyproject.toml

.PHONY: demo test lint unit wheel clean

demo: .venv/ready
	$(BIN)/anisocert demo

test: lint unit wheel

lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

unit: .venv/ready
	$(BIN)/pytest --numprocesses auto --dist loadfile

# The wheel must import where there is nothing but its own core dependencies.
wheel: build/wheel-checked
build/wheel-checked: $(SOURCES) constraints.txt | .venv/ready
	rm -rf build/dist build/empty
	$(BIN)/python -m build --wheel --outdir build/dist
	$(PYTHON) -m venv build/empty
	build/empty/bin/pip install --quiet --constraint constraints.txt build/dist/*.whl
	cd build && empty/bin/python -c "import anisocert as ac; print('wheel imports:', ac.__version__, ac.certify.__module__, ac.Plan())"
	rm -rf build/empty
	touch $@

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[cli,report,onnx,ray,dev]'
	touch $@

clean:
	rm -rf .venv build
