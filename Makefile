# make demo: from a fresh clone to a matrix. make test: from a fresh clone to passing tests.
# Both make the virtual environment once and are fast the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.clframe-installed

.PHONY: demo test lint clean

demo: $(STAMP)
	@echo "== EWC on objects seen by a robot while the light fails, rendered here the first time"
	@$(BIN)/clframe fit strategy=ewc stream=openloris_illumination

test: $(STAMP) lint
	$(BIN)/python -m pytest -q -n auto

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@$(BIN)/clframe list > /dev/null # from now on names are known without importing torch
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache
