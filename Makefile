# make demo: from a fresh clone to a matrix. make test: from a fresh clone to passing quick tests.
# make test-slow: real processes, browsers, clusters, LIBERO and whole cross products. make test-all: both.
# Each makes the environments that it needs once and is fast the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.clframe-installed
# What tests of optional parts need, and LIBERO, which needs an older MuJoCo first on the path.
TEST_STAMP := $(VENV)/.clframe-test-installed
DOCS_STAMP := $(VENV)/.clframe-docs-installed
# The base install alone, in which every line of README and docs/start.md is run.
BASE := .venv-base
BASE_STAMP := $(BASE)/.clframe-installed
LIBERO := .venv-libero
LIBERO_STAMP := $(LIBERO)/.clframe-installed
# One more than there are cores, since some tests wait for processes of their own.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
LIBERO_TESTS := tests/streams/test_libero_simulation.py
# $(call install_in,ENVIRONMENT,ARGUMENTS): with uv, which takes a fourth of the time, or with pip if uv
# does not find the packages, such as behind an index that only pip is configured for.
install_in = $(BIN)/uv pip install --quiet $(3) --python $(1)/bin/python $(2) 2> $(VENV)/uv.log \
	  || $(1)/bin/python -m pip install --quiet $(2)
install = $(call install_in,$(VENV),$(1),--compile-bytecode)

pytest = $(1)/bin/python -m pytest -q -n $(WORKERS)

# Two environments can be made at the same time.
MAKEFLAGS += --jobs=2

.PHONY: demo test test-slow test-all lint docs clean

demo: $(STAMP)
	@echo "== EWC on objects seen by a robot while the light fails, rendered here the first time"
	@$(BIN)/clframe fit strategy=ewc stream=openloris_illumination

# Tests start many processes, and none of them should compile the package again.
test test-slow: export PYTHONDONTWRITEBYTECODE :=
test: $(TEST_STAMP) lint
	$(call pytest,$(VENV)) --dist worksteal

test-slow: $(TEST_STAMP) $(BASE_STAMP) $(LIBERO_STAMP)
	$(call pytest,$(VENV)) --dist loadfile --no-loadscope-reorder -m slow --ignore $(LIBERO_TESTS)
	$(call pytest,$(LIBERO)) --dist worksteal -m slow $(LIBERO_TESTS)

test-all:
	$(MAKE) test
	$(MAKE) test-slow

# The site, in build/site; needs no network, neither to be built nor to be read.
docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

lint: $(TEST_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv || true
	$(call install,--editable .)
	@$(BIN)/clframe list > /dev/null # from now on names are known without importing torch
	touch $(STAMP)

$(DOCS_STAMP): $(STAMP)
	$(call install,--editable '.[docs]')
	touch $(DOCS_STAMP)

# Meta-World pins a MuJoCo of its own, and works with ours.
$(TEST_STAMP): $(STAMP)
	$(call install,--editable '.[test]')
	$(call install,--no-deps 'metaworld>=3.0')
	touch $(TEST_STAMP)

$(BASE_STAMP): $(TEST_STAMP)
	test -x $(BASE)/bin/python || $(PYTHON) -m venv $(BASE)
	$(call install_in,$(BASE),--editable .)
	touch $(BASE_STAMP)

# Sees all packages of the other environment behind its own, as pip does and uv does not.
$(LIBERO_STAMP): $(TEST_STAMP)
	test -x $(LIBERO)/bin/python || $(PYTHON) -m venv $(LIBERO)
	$(BIN)/python -c "import sysconfig as s; print('import site; site.addsitedir(%r)' % s.get_path('purelib'))" \
	  > $$($(LIBERO)/bin/python -c "import sysconfig as s; print(s.get_path('purelib'))")/zz_clframe.pth
	$(BIN)/python -c "import tomllib; print('\n'.join(tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['libero']))" \
	  > $(LIBERO)/requirements.txt
	$(LIBERO)/bin/python -m pip install --quiet -r $(LIBERO)/requirements.txt
	$(LIBERO)/bin/python -m pip install --quiet --no-deps hf-libero==0.1.4 robosuite==1.4.0 bddl==1.0.1
	touch $(LIBERO_STAMP)

clean:
	rm -rf $(VENV) $(BASE) $(LIBERO) build *.egg-info .mypy_cache .pytest_cache .ruff_cache
