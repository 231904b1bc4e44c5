"""The test matrix: each supported Python, the oldest and the newest torch, transformers 4 and 5; the lower bounds.

    uvx nox --list
    uvx nox -s matrix -- -m "not slow" tests/elmo        # what follows -- goes to pytest
    uvx nox -s matrix -t newest                          # with the newest torch
    uvx nox -s oldest                                    # with the lower bound of every dependency

An environment takes about 6 GB, which uv shares between those with the same torch.
"""

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True  # without it, a session that cannot run counts as passed

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
OLDEST_TORCH = {python: ["torch==2.7.0", "torchvision==0.22.0"] for python in PYTHONS}
"""The oldest torch of `dependencies` in pyproject.toml that has wheels for the Python."""
OLDEST_TORCH["3.14"] = ["torch==2.9.0", "torchvision==0.24.0"]
OLD_NUMPY = ["numpy<2.4"]
"""For the oldest torch, in whose Triton the interpreter, which runs kernels without a GPU, fails with newer ones."""
TRANSFORMERS = {"4": ["transformers==4.49.0"], "5": ["transformers>=5"]}
"""The last one with all names that AllenNLP imports, which flair needs, and the newest."""
ALLENNLP = ["allennlp==2.10.1"]
MODELS = ["allennlp-models==2.10.1"]
PROJECT = nox.project.load_toml("pyproject.toml")
OURS = ("allennlp", "elmo-plugin")
TOOLS = [name for name in nox.project.dependency_groups(PROJECT, "dev", "docs") if not name.startswith(OURS)]
EXTRAS = "models,parquet,report,serve"
SOURCE_TESTS = ["docstrings_test.py", "documents_test.py", "docs_test.py", "readme_test.py"]
"""Tests of the source and of the documentation, which an installed package does not have."""


def install_allennlp(session: nox.Session, models: bool) -> None:
    """Install AllenNLP without its dependencies, and check that its command line starts."""
    session.install("--no-deps", *ALLENNLP, *(MODELS if models else []))
    # allennlp-models downloads NLTK's data at import unless the folder exists.
    (Path(session.virtualenv.location) / "nltk_data/tokenizers/punkt").mkdir(parents=True, exist_ok=True)
    session.run("elmo-plugin", "test-install")


@nox.session(python=PYTHONS)
@nox.parametrize("transformers", [nox.param(name, id=f"transformers{name}") for name in TRANSFORMERS])
@nox.parametrize("torch", [nox.param(name, id=name, tags=[name]) for name in ("oldest", "newest")])
def matrix(session: nox.Session, torch: str, transformers: str) -> None:
    """Run the tests of this checkout, with allennlp-models, and with flair where transformers allows it."""
    torches = [*OLDEST_TORCH[session.python], *OLD_NUMPY] if torch == "oldest" else ["torch", "torchvision"]
    extras = f"{EXTRAS},flair" if transformers == "4" else EXTRAS
    session.install(*torches, *TRANSFORMERS[transformers], *TOOLS, "-e", f".[{extras}]")
    install_allennlp(session, models=True)
    session.run("pytest", *(session.posargs or ["-m", "not slow"]))


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """Run the tests with the lower bound of every dependency."""
    session.install("--resolution", "lowest-direct", "-e", f".[{EXTRAS}]")
    session.install(*TOOLS, "transformers<5", "-e", f".[{EXTRAS}]")  # or the newest datasets replace more
    install_allennlp(session, models=True)
    session.run("pytest", *(session.posargs or ["-m", "not slow"]))


@nox.session(python=PYTHONS[0], venv_backend="venv")
def wheel(session: nox.Session) -> None:
    """Build sdist and wheel, install the wheel with pip in an empty environment, and run the sdist's tests there."""
    folder = Path(session.create_tmp())
    shutil.rmtree(folder / "dist", ignore_errors=True)
    session.install("build", "uv")
    session.run("python", "-m", "build", "--outdir", str(folder / "dist"))
    (built,), (sdist,) = ([*(folder / "dist").glob(pattern)] for pattern in ("*.whl", "*.tar.gz"))
    session.install(f"{built}[parquet,report,serve]")
    # With the tools, pip tries one version after another for more than 15 minutes.
    session.run("uv", "pip", "install", "--python", session.virtualenv.location, *TOOLS)
    install_allennlp(session, models=False)
    shutil.unpack_archive(sdist, folder / "unpacked", filter="data")
    (tests,) = (folder / "unpacked").iterdir()
    shutil.rmtree(tests / "elmo_plugin")  # the installed one is tested
    session.chdir(tests)
    ignored = [f"--ignore=tests/{name}" for name in SOURCE_TESTS]
    session.run("pytest", *ignored, *(session.posargs or ["-m", "not slow"]))
