# Every target sets up what it needs, in .venv, with the versions of constraints.txt.
PYTHON ?= python3
BIN = .venv/bin
PIP = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

# Where there is no NVIDIA GPU, PyTorch comes without its libraries, if its own index answers;
# else pip takes the usual one.
SMALL_TORCH = command -v nvidia-smi >/dev/null || $(PIP) -qq --retries 0 --timeout 10 \
    --index-url https://download.pytorch.org/whl/cpu torch 2>/dev/null || true

# How long a thread that waits spins before it sleeps. On a busy machine threads that spin (by
# default, 300,000 times) stop each other; on a quiet one, threads that sleep at once take half
# as long again.
export GOMP_SPINCOUNT = 3000

.PHONY: help demo check test chapters robustness lab docs pdf release bench outputs export clean

help:
	@echo 'make demo      the copy task, then a small translation training, with results in demo/'
	@echo 'make check     what your change touches: house rules, chapters, quick tests'
	@echo 'make test      house rules, every chapter, the site, all tests but robustness'
	@echo 'make robustness  damaged files, full disks, kills, the demo, a chapter alone, JupyterLab, the PDF, a GPU day rehearsed'
	@echo 'make lab       the book in JupyterLab'
	@echo 'make docs      the book as a site, docs/_build/html/index.html'
	@echo 'make pdf       the site as one book, docs/_build/transformer_nb.pdf (by Chromium)'
	@echo 'make release   wheel, source archive, site, models and book with checksums, in dist/'
	@echo 'make bench     speed and memory on this machine beside three peers, into nbs/results/performance.jsonl, which chapter 19 reads (one to two hours)'
	@echo 'make export    clean the notebooks, write the package and README.md from them'
	@echo 'make outputs   run every chapter and store what it prints'
	@echo 'make clean     remove what these commands made'

.venv/ready: constraints.txt settings.ini setup.py
	@echo 'Setting up .venv (the first time this takes some minutes) ...'
	@$(PYTHON) -m venv .venv
	@$(SMALL_TORCH)
	@$(PIP) -qq --use-pep517 -e '.[dev,bench,studies]'
	@touch $@

# For reading: JupyterLab and what the chapters compare with, without the tools of tests and
# site.
.venv/reader: constraints.txt settings.ini setup.py
	@echo 'Setting up .venv for reading (the first time this takes a minute or two) ...'
	@$(PYTHON) -m venv .venv
	@$(SMALL_TORCH)
	@$(PIP) --use-pep517 -e '.[lab]'
	@touch $@

READER = $(if $(wildcard .venv/ready),.venv/ready,.venv/reader)

demo: $(READER)
	@$(BIN)/tnb_demo --out demo

check: .venv/ready
	@$(BIN)/python tools/check.py

# The site is built by one process, beside the chapters. Two workers with one thread each: what
# is tested is too small for more.
test: .venv/ready
	@$(MAKE) --no-print-directory -j 2 docs chapters
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal tests

chapters: .venv/ready
	@$(BIN)/python tools/chapters.py

robustness: docs
	@$(BIN)/python -m pytest -q tests/robustness
	@$(BIN)/python benchmarks/gpu.py --rehearse

# What is not trusted is shown without its figures until it has been run.
lab: $(READER)
	@$(BIN)/jupyter trust nbs/*.ipynb >/dev/null
	@$(BIN)/jupyter lab --ServerApp.root_dir=. nbs/00_introduction.ipynb

docs: .venv/ready
	@$(BIN)/python docs/pages.py
	@$(BIN)/python -m sphinx -q -W --keep-going -c docs docs/_build/pages docs/_build/html

pdf: docs
	@$(BIN)/python docs/pdf.py

# Without Chromium there is no PDF, and the rest of the release is made all the same.
release: docs
	-@$(BIN)/python docs/pdf.py
	@$(BIN)/python tools/release.py

bench: .venv/ready
	@$(BIN)/python benchmarks/bench.py --out nbs/results/performance.jsonl

export: .venv/ready
	@$(BIN)/nbdev_clean
	@$(BIN)/python tools/figures.py
	@$(BIN)/python tools/folds.py
	@$(BIN)/nbdev_export
	@$(BIN)/python tools/readme.py
	@$(BIN)/python tools/onefile.py

outputs: .venv/ready
	@$(BIN)/python tools/chapters.py --update
	@$(BIN)/nbdev_clean

clean:
	@rm -rf .venv build dist demo docs/_build .pytest_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
