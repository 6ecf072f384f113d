# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find src -name '*.py') pyproject.toml
PINS := constraints.txt requirements/core.txt requirements/dev.txt
# Modules are compiled after all are there, on all processors; pip would compile one after another.
INSTALL := install --quiet --no-compile
# Files whose hashes are known, and nothing that would have to be built here by who knows what.
HASHED := $(INSTALL) --require-hashes --no-deps --only-binary :all: --requirement

.PHONY: demo test lint unit precision docs wheel lock clean

demo: .venv/ready
	$(BIN)/anisocert demo

# The short ones fill what the long one leaves idle.
test: .venv/ready
	$(MAKE) --jobs 2 unit lint wheel docs precision

lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

# One process more than there are processors, as tests wait for processes of their own. Files come in the order of tests/conftest.py.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Else every process that a test starts would compile all modules anew.
unit precision: export PYTHONDONTWRITEBYTECODE :=
unit: .venv/ready
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# `unit` is in the precision that is native here; tests marked so once more in the other one.
precision: .venv/ready
	other=$$($(BIN)/python tests/other_precision.py) && \
		ANISOCERT_PRECISION=$$other $(BIN)/python -m pytest -m precision $$(grep -rl --include='test_*.py' mark.precision tests)

# The site, in build/site; a warning is an error. Nothing is fetched, neither here nor by its pages.
docs: .venv/ready
	$(BIN)/mkdocs build --strict --quiet
	! grep -rE '<(script|link|img)[^>]* (src|href)="(https?:)?//' --include='*.html' build/site

# The source archive, and the wheel that is built from it, as an installer would. It must import where there is nothing but its own
# core dependencies: all of them are there, so pip needs no index.
INTO_EMPTY := $(BIN)/python -m pip --python build/empty/bin/python
wheel: build/wheel-checked
build/wheel-checked: $(SOURCES) $(PINS) README.md | .venv/ready
	rm -rf build/dist build/empty
	$(BIN)/python -m build --no-isolation --outdir build/dist
	$(PYTHON) -m venv --without-pip build/empty
	$(INTO_EMPTY) $(HASHED) requirements/core.txt
	$(BIN)/python .ci/link_torch.py build/empty
	$(INTO_EMPTY) $(INSTALL) --no-index build/dist/*.whl
	$(INTO_EMPTY) check
	cd build && empty/bin/python -c "import anisocert as ac; print('wheel imports:', ac.__version__, ac.certify.__module__, ac.Plan())"
	rm -rf build/empty
	touch $@

.venv/ready: pyproject.toml $(PINS)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip $(HASHED) requirements/dev.txt
	$(BIN)/python -m pip $(INSTALL) --constraint constraints.txt torch torchvision
	$(BIN)/python -m pip $(INSTALL) --no-index --no-build-isolation --editable '.[cli,report,onnx,ray,postgres,serve,dev]'
	$(BIN)/python -m pip check
	$(BIN)/python -m compileall -qq -j 0 -x '/(tests|rllib|tune|pip|setuptools|jedi|debugpy|fontTools)/' .venv/lib || true  # some are for later versions of Python
	touch $@

# After a change of dependencies (needs uv): all files of each release, for every platform, less what torch brings itself.
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command 'make lock' --no-emit-package torch --no-emit-package torchvision --excludes /dev/stdin
OF_TORCH := cuda-bindings cuda-toolkit nvidia-cudnn-cu13 nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvshmem-cu13 triton
lock:
	printf '%s\n' $(OF_TORCH) | $(COMPILE) --constraint constraints.txt --output-file requirements/dev.txt \
		--extra cli --extra report --extra onnx --extra ray --extra postgres --extra serve --extra dev pyproject.toml
	printf '%s\n' $(OF_TORCH) | $(COMPILE) --constraint constraints.txt --constraint requirements/dev.txt \
		--output-file requirements/core.txt pyproject.toml

clean:
	rm -rf .venv build
