# `make demo` and `make test` need Python 3.11 or newer and make, nothing else: they set up `.venv` with CPU builds of the
# frameworks first. That is done once, and again when pyproject.toml changes. See CONTRIBUTING.md for the variables.

PYTHON ?= python3
VENV ?= .venv
PIP_FLAGS ?= --quiet --disable-pip-version-check
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BACKENDS := jax,tensorflow,torch
# The newest PyTorch for Python 3.11. It goes first: nothing that follows may bring another build of it.
TORCH := torch==2.13.0
FRAMEWORKS := jax tensorflow-cpu
KERAS := keras
# For an example. Alone, because tensorflow-text, which it names and rarely uses, brings the large TensorFlow.
KERAS_HUB := keras-hub
OLDEST_KERAS := 3.13
NIGHTLY_TESTS := tests/contract tests/feed tests/test_exact.py tests/test_keras_distribution.py tests/test_weight_decay.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Small packages for a machine with a GPU and without network, and the Python that it has.
WHEELS ?=
GPU_PYTHON ?= 3.12
GPU_FLAGS ?=
.PHONY: help demo test test-full test-ray ray-tests test-oldest test-nightly nightly check-nightly lint format docs bench dist gpu gpu-wheels clean

help:  ## say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(READY)  ## train on real digits with every backend, on one and on four simulated devices
	@$(BIN)/python examples/demo.py

# Two processes test; what measures time runs afterwards, alone. $(1): the marks of both.
define pytest
ABREAST_REQUIRE_BACKENDS=$(BACKENDS) $(BIN)/python -m pytest -m "$(1)not alone" -n 2 --durations 30
ABREAST_REQUIRE_BACKENDS=$(BACKENDS) $(BIN)/python -m pytest -m "$(1)alone"
endef

test: lint docs  ## check the code, then run the tests, without the slow ones; a backend that is missing is an error
	$(call pytest,not full and )

test-full: lint docs  ## all tests, those on Ray, then those of `make test` with the oldest Keras that we support
	$(call pytest)
	@$(MAKE) --no-print-directory test-ray
	@$(MAKE) --no-print-directory VENV=$(VENV)-oldest KERAS="keras==$(OLDEST_KERAS).*" test-oldest

# An environment of its own: Ray takes 240 MB that no other test needs.
test-ray:  ## the tests on a real Ray of two emulated hosts, in an environment of its own
	@$(MAKE) --no-print-directory VENV=$(VENV)-ray ray-tests

ray-tests: $(READY)
	@$(BIN)/python -m pip install $(PIP_FLAGS) --editable '.[ray]'
	ABREAST_REQUIRE_BACKENDS=$(BACKENDS) $(BIN)/python -m pytest -m full tests/test_real_ray.py

test-oldest: $(READY)
	$(call pytest,not full and )

# Only pre-releases of it exist, so pip takes one without `--pre`, which would also allow those of what it needs.
NIGHTLY := keras-nightly

test-nightly:  ## the contract tests and the demo with the nightly build of Keras, in an environment of its own
	@$(MAKE) --no-print-directory VENV=$(VENV)-nightly nightly

# Both packages bring the folder `keras`, so the released one goes first. What still needs it by name stays.
nightly: $(READY)
	@$(BIN)/python -m pip uninstall $(PIP_FLAGS) --yes keras keras-nightly
	@$(BIN)/python -m pip install $(PIP_FLAGS) --upgrade $(NIGHTLY)
	ABREAST_REQUIRE_BACKENDS=$(BACKENDS) $(BIN)/python -m pytest -m "not full and not alone" -n 2 $(NIGHTLY_TESTS)
	@$(BIN)/python examples/demo.py

# The name says that these are installed packages: a module of any other folder is the user's, and travels to PyTorch's workers.
NIGHTLY_SITE := $(VENV)/nightly/site-packages
check-nightly: $(READY)  ## import abreast and train once per backend with the nightly build of Keras: about a minute
	@if $(BIN)/python -m pip install $(PIP_FLAGS) --no-deps --upgrade --target $(NIGHTLY_SITE) $(NIGHTLY); then \
	    PYTHONPATH=$(NIGHTLY_SITE) $(BIN)/python -m tests.nightly; \
	else \
	    echo "check-nightly: SKIPPED: $(NIGHTLY) cannot be installed; abreast was not tried with the next Keras" >&2; \
	fi

lint: $(READY)  ## check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m mypy

format: $(READY)  ## put the code in the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# A warning is an error: a link that leads nowhere, a page that no list names, a name that does not exist.
docs: $(READY)  ## build the documentation site into build/site/
	@KERAS_BACKEND=jax PYTHONPATH=src TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -m sphinx -q -n -W --keep-going -d build/site-cache docs build/site

bench: $(READY)  ## measure the overhead of a step over a hand-written loop
	$(BIN)/python benchmarks/step_overhead.py

# Twice, because everybody must be able to build the same bytes from the same commit.
dist: $(READY)  ## build the package into dist/, and see that a second build gives the same bytes
	@rm -rf dist build/again
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir build/again . >/dev/null
	@cd dist && sha256sum * | (cd ../build/again && sha256sum --check --quiet) && sha256sum *

# With the Python and the frameworks that are there: nothing is set up.
gpu:  ## try on the GPUs of this machine all that needs one, in eight minutes, with the frameworks that PYTHON has
	@PYTHONPATH=src$${PYTHONPATH:+:$$PYTHONPATH} $(PYTHON) -m benchmarks.gpu $(if $(WHEELS),--wheels $(WHEELS)) $(GPU_FLAGS)

gpu-wheels:  ## collect small packages that such a machine may lack into gpu-wheels/; there: make gpu WHEELS=gpu-wheels
	@$(PYTHON) benchmarks/gpu/wheels.py $(or $(WHEELS),gpu-wheels) --python $(GPU_PYTHON)

clean:  ## remove what make made
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-nightly $(VENV)-ray demo-output build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: no command '$(PYTHON)'" >&2; \
	    echo "hint: install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "error: abreast needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)" >&2; \
	    echo "hint: name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "error: '$(PYTHON)' has no venv module" >&2; \
	    echo "hint: install it (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) -V) and CPU builds of the frameworks: one to two minutes, once"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(PIP_FLAGS) --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install $(PIP_FLAGS) $(TORCH)
	@$(BIN)/python -m pip install $(PIP_FLAGS) $(FRAMEWORKS) '$(KERAS)' --editable . --group dev
	@$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps $(KERAS_HUB)
	@touch $@
