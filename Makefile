# Every command of this project. Each target sets itself up: uv, a Python if there is none, the environment in .venv/.
# Run make from this folder, or `make -C` it.

.DEFAULT_GOAL := help
.PHONY: help demo lint package test slow tests docs installed flair check setup

# The uv on PATH if it runs (a pyenv shim may not), else one of our own.
UV := $(if $(shell uv --version 2>/dev/null),uv,.tools/uv/bin/uv)
RUN := $(UV) run --no-sync
FETCH_UV := -m pip install --quiet --upgrade --target .tools/uv uv
# Where Python may not write bytecode, a command would take 15 s to start, not 6.
COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode)
DEMO := training_configs/tag/demo
# MkDocs' notice of the end of version 1, which mkdocs.yml speaks of.
export NO_MKDOCS_2_WARNING := 1
# The demo's tensors are too small for threads, which wait for each other where a core is busy.
ONE_THREAD := OMP_NUM_THREADS=1

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s  %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: setup  ## train a small tagger on ELMo vectors, then tag a few sentences with it (runs/demo)
	$(ONE_THREAD) $(RUN) elmo-plugin train $(DEMO).jsonnet -s runs/demo --force
	$(ONE_THREAD) $(RUN) elmo-plugin predict runs/demo/model.tar.gz $(DEMO)/sentences.jsonl \
	    --predictor elmo_tagger --silent --output-file runs/demo/predictions.jsonl
	@$(RUN) python -c 'import json; [print(*(word if tag == "O" else f"{word}/{tag}" \
	    for word, tag in zip(line["tokens"], line["tags"]))) \
	    for line in map(json.loads, open("runs/demo/predictions.jsonl", encoding="utf-8"))]'

lint: setup  ## format, lint, types and import rules
	$(RUN) ruff format --check
	$(RUN) ruff check
	$(RUN) mypy
	$(RUN) lint-imports

package: setup  ## the wheel and the sdist in dist/, checked, and the files for other services against their schemas
	rm -rf dist
	$(RUN) python -m hatchling build
	$(RUN) twine check --strict dist/*
	$(RUN) check-wheel-contents dist/*.whl
	$(RUN) check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RUN) check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(RUN) check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(RUN) check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

test: setup  ## the tests without the slow ones; ARGS goes to pytest: make test ARGS="-x -k plugin"
	$(RUN) pytest -m "not slow" $(ARGS)

slow: setup  ## the slow tests: training configs, attacks, kills, benchmarks, whole pages of the documentation
	$(RUN) pytest -m slow $(ARGS)

tests: setup  ## both in one run, which imports everything once
	$(RUN) pytest $(ARGS)

docs: setup  ## the documentation site, in site/; a broken link fails
	$(RUN) mkdocs build --quiet --site-dir site

installed:  ## what the documentation shows, in an environment that pip makes from the wheel as the README says
	python3 tests/installed.py $(ARGS)

flair: $(filter .tools/%,$(UV))  ## the tests with flair, which needs transformers 4, in an environment of their own
	UV_PROJECT_ENVIRONMENT=.venv-flair $(UV) sync --no-default-groups --group test --extra flair $(COMPILE)
	.venv-flair/bin/pytest -n 0 tests/integrations/flair_embeddings_test.py tests/docs_test.py -k "flair or integrations"

check: lint package tests docs flair installed  ## everything that CI checks

setup: $(filter .tools/%,$(UV))  ## only the environment, in .venv/, as pyproject.toml describes it
	$(UV) sync --all-groups $(COMPILE)
	@mkdir -p .venv/nltk_data/tokenizers/punkt  # or allennlp-models downloads it at import, which nothing here uses

.tools/uv/bin/uv:
	@echo "No uv on PATH: fetching it into .tools/"
	@python3 $(FETCH_UV) || { python3 -m venv .tools/python && .tools/python/bin/python $(FETCH_UV); } || \
	    { echo "No uv could be fetched: install uv, or a python3 that has pip or venv, and run make again." >&2; exit 1; }
