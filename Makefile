# make demo       compile the example for GAP8, build it for this machine, run it, compare every layer
# make test       the test suite
# make test-all   the test suite with its long sweeps, then fast tests and sweeps of kernels with zig
# make test-converters  networks that today's TensorFlow and torch convert (2 GB of packages)
# make test-3.12  the test suite with another Python, where it is installed; also test-3.13
# make lint       ruff, mypy, and the directions of imports
# make docs       the pages of docs/ that are written from the code, and the site in build/site
# make wheels     wheels of all packages in dist/
# make bench      benchmarks
# make constraints  constraints.txt: today's versions of all that is installed here
# make fuzz       the campaign of docs/campaign.md (FUZZ="--seconds 600 --workers 4")
#
# Everything is installed into $(VENV) on first use.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
WORKERS ?= auto
ARGS ?=
# Extras of the core that `install` adds, and what the tests need besides; CI runs the tests of
# other Pythons with less.
EXTRAS ?= test,lint
NEEDED ?= compiler test-tools
FUZZ ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.dory-installed
DEMO_STAMP := $(VENV)/.dory-demo
ZIG_STAMP := $(VENV)/.dory-zig
TOOLS_STAMP := $(VENV)/.dory-test-tools
DOCS_STAMP := $(VENV)/.dory-docs
PROJECTS := $(wildcard frontends/*/pyproject.toml targets/*/pyproject.toml tools/*/pyproject.toml)
DEMO_PROJECTS := frontends/tflite targets/gap8 tools/report
EDITABLE := $(foreach project,$(PROJECTS),-e $(patsubst %/,%,$(dir $(project))))
TEST_TOOLS := $(foreach project,$(PROJECTS),-e "$(patsubst %/,%,$(dir $(project)))[test]")
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --no-build-isolation -c constraints.txt
# Tests start dory hundreds of times: where bytecode is not written, each start compiles all of it.
export PYTHONDONTWRITEBYTECODE :=
# A worker takes a run of tests, so that what a module makes for its tests is made once.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
BY_ZIG = CC="$$($(BIN)/python -c 'import shlex; from dory_core.testing import ZIGLANG as z; print(shlex.join(z))')"
# Long tests whose results the compiler of this machine may change.
SWEEPS := tests/kernels $(wildcard targets/*/tests/test_kernels.py targets/*/tests/test_movers.py)
# How a Python of another version is called; pyenv wants to be told which one.
OTHER = PYENV_VERSION=$* python$*

DEMO_NET := examples/tones/net.tflite
DEMO_GOLDEN := examples/tones/golden.npz
DEMO_OUT := demo

.PHONY: demo test test-all test-converters test-zig test-3.12 test-3.13 test-pythons install-3.12 install-3.13 constraints lint format docs bench fuzz install compiler zig test-tools clean

demo: $(DEMO_STAMP) compiler
	$(BIN)/dory --target gap8 $(DEMO_NET) --golden $(DEMO_GOLDEN) -o $(DEMO_OUT)
	$(BIN)/dory run $(DEMO_OUT) -v

test: install $(NEEDED)
	$(PYTEST) -m "not slow" $(ARGS)

test-all: install compiler test-tools
	$(PYTEST) $(ARGS)
	$(MAKE) test-zig

# The fast tests and the sweeps of kernels, compiled by the compiler of the ziglang wheel.
test-zig: install zig test-tools
	$(BY_ZIG) $(PYTEST) -m "not slow" $(ARGS)
	$(BY_ZIG) $(PYTEST) -m slow $(SWEEPS)

# The newest versions, which constraints.txt does not name: what people convert with today.
test-converters: install $(NEEDED)
	$(INSTALL) --upgrade -e ".[converters]"
	$(PYTEST) tests/system/converters $(ARGS)

test-pythons: test-3.12 test-3.13

test-3.12 test-3.13: test-%:
	@if $(OTHER) -c '' 2>/dev/null; then \
		$(MAKE) test VENV=$(VENV)-$* \
			PYTHON="$$($(OTHER) -c 'import sys; print(sys.executable)')"; \
	else echo "$@: skipped, there is no python$*"; fi

install-3.12 install-3.13: install-%:
	@! $(OTHER) -c '' 2>/dev/null || $(MAKE) install VENV=$(VENV)-$* \
		PYTHON="$$($(OTHER) -c 'import sys; print(sys.executable)')"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict dory_core frontends/onnx/dory_onnx $(filter-out %.egg-info,$(wildcard tools/*/dory_*))
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS_STAMP)
	@for file in docs/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

wheels: install
	rm -rf dist
	$(BIN)/python .ci/wheels.py dist

bench: install
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

fuzz: install compiler test-tools
	$(BIN)/python -m tests.fuzz $(FUZZ)

install: $(STAMP)

$(STAMP): $(DEMO_STAMP) $(PROJECTS)
	$(INSTALL) -e ".[$(EXTRAS)]" $(EDITABLE)
	@touch $@

# What the demo runs, and nothing else.
$(DEMO_STAMP): pyproject.toml constraints.txt $(addsuffix /pyproject.toml,$(DEMO_PROJECTS))
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt "setuptools>=64" wheel
	$(INSTALL) -e . $(addprefix -e ,$(DEMO_PROJECTS))
	@touch $@

# The host simulation needs a C compiler; the ziglang wheel brings one where the system has none.
compiler: $(DEMO_STAMP)
	@command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null \
		|| test -e $(ZIG_STAMP) \
		|| { echo "no C compiler found: installing ziglang into $(VENV)"; \
		     $(MAKE) --no-print-directory zig; }

# The compiler of the ziglang wheel is a clang: CI compiles with it what gcc compiles, too.
zig: $(ZIG_STAMP)

$(ZIG_STAMP): $(DEMO_STAMP)
	$(INSTALL) -e ".[zig]"
	@touch $@

# Emulators and compilers that the tests of a plugin need: its extra `test`, where it has one.
test-tools: $(TOOLS_STAMP)

$(TOOLS_STAMP): $(STAMP)
	$(INSTALL) $(TEST_TOOLS)
	@touch $@

$(DOCS_STAMP): $(STAMP)
	$(INSTALL) -e ".[docs]"
	@touch $@

# Resolved for each Python that is here: all of them, so that a version holds on each or is marked.
constraints:
	$(PYTHON) .ci/constraints.py "setuptools>=64" wheel ".[test,lint,zig,docs]" \
		$(patsubst %/pyproject.toml,"./%[test]",$(PROJECTS)) --python 3.11 --python 3.12 --python 3.13

clean:
	rm -rf $(VENV) $(VENV)-3.* $(DEMO_OUT) .pytest_cache .mypy_cache .ruff_cache
