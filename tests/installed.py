"""Install the wheel as the README says, in an empty environment, and type there what the documentation shows.

    python3 tests/installed.py            # makes the environment in .venv-installed/, anew
    python3 tests/installed.py --keep     # uses the one that is there

It runs, from empty folders outside the checkout: the README's Python, and the first page of the documentation, whole,
in both orders of imports; AllenNLP's own program with `--include-package` and with `.allennlp_plugins`; and each extra.
At the end an uninstall must leave nothing. It needs nothing but Python. `make installed` runs it.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-installed"
WHEELS = ENVIRONMENT / "wheels"
spec = importlib.util.spec_from_file_location("pages", ROOT / "tests/pages.py")
assert spec is not None and spec.loader is not None
pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pages)

INCLUDE = " --include-package elmo_plugin"
FAST = """ -o '{"trainer.num_epochs": 2}'"""
TWO_PROCESSES = """ -o '{"trainer.num_epochs": 1, "validation_data_loader": {"batch_size": 2}, """
TWO_PROCESSES += """"distributed": {"cuda_devices": [-1, -1]}, "data_loader": """
TWO_PROCESSES += """{"type": "multiprocess", "batch_size": 2, "num_workers": 1, "start_method": "spawn"}}'"""
RUN_OF_ALLENNLP = """{
  "dataset_reader": {"type": "sequence_tagging", "word_tag_delimiter": "/"},
  "train_data_path": "tags.txt", "validation_data_path": "tags.txt",
  "model": {"type": "simple_tagger", "text_field_embedder": {"token_embedders": {
    "tokens": {"type": "embedding", "embedding_dim": 4}}},
    "encoder": {"type": "lstm", "input_size": 4, "hidden_size": 4}},
  "data_loader": {"batch_size": 2}, "trainer": {"num_epochs": 1, "optimizer": "huggingface_adamw", "cuda_device": -1}
}"""


def main() -> None:
    """Make the environment, and run everything in it. Ends at the first command that fails."""
    if "--keep" not in sys.argv:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        typist = Typist(home)
        if "--keep" not in sys.argv:
            typist.type(ROOT, f"pip wheel --quiet --no-deps --wheel-dir {WHEELS} .", home=Path.home())
        (wheel,) = WHEELS.glob("*.whl")
        if "--keep" not in sys.argv:
            # As in the README, from an empty folder, with the wheel in place of the dot.
            commands = f"pip install --quiet {wheel} && pip install --quiet --no-deps allennlp==2.10.1"
            typist.type(home, commands, home=Path.home())
        typist.type(home, "pip list 2>/dev/null | grep -iE '^(torch|transformers|huggingface|setuptools|numpy|spacy) '")

        # Python compiles here what the others then only import.
        typist.type(home, "elmo-plugin --version && elmo-plugin train --help && elmo-plugin embed-corpus --help")

        with ThreadPoolExecutor() as threads:  # each command waits most of the time for imports, on one core
            parts = {first_page: "first page", distributed: "distributed", plugins: "plugins"}
            for done in [threads.submit(part, typist, Path(folder, name)) for part, name in parts.items()]:
                done.result()
        extras(typist, Path(folder, "plugins"), wheel)
        typist.type(home, "pip uninstall --quiet --yes elmo-plugin")
        left = [*ENVIRONMENT.rglob("*elmo_plugin*")]
        assert not [path for path in left if WHEELS not in path.parents], left
    print("\nEverything that the documentation shows works as installed.")


class Typist:
    """Types commands in the environment. Nothing of the checkout is on a path."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def type(self, folder: Path, command: str, home: Path | None = None) -> str:
        """Run a command by bash, print its name and its time, and return what it printed."""
        path = f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
        environment |= {"PATH": path, "HOME": str(home or self.home), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        environment["PIP_NO_COMPILE"] = "1"  # Python compiles what is imported, a quarter of the files
        if home:
            del environment["HF_HUB_OFFLINE"]
        start = time.monotonic()
        done = subprocess.run(["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode or "Traceback" in done.stderr:
            sys.exit(f"{done.stdout}{done.stderr}\n{folder}$ {command}\nfailed with exit code {done.returncode}")
        print(f"{time.monotonic() - start:4.0f} s  {folder.name}$ {command.strip()[:300]}", flush=True)
        return done.stdout

    def examples(self, folder: Path) -> None:
        """Make a folder with the examples of the installed package."""
        (examples,) = ENVIRONMENT.glob("lib/python*/site-packages/elmo_plugin/examples")
        shutil.copytree(examples, folder)

    def python(self, folder: Path, code: str) -> str:
        """Run a script."""
        (folder / "script.py").write_text(code, encoding="utf-8")
        return self.type(folder, f"python script.py    # {code.splitlines()[0]}; …")


def first_page(typist: Typist, folder: Path) -> None:
    """Type the first page of the documentation, from top to bottom, and the README's Python."""
    folder.mkdir()
    script = []
    for block in pages.blocks(ROOT / "docs/start/first-tagger.md"):
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            typist.type(folder, block.text)
        elif block.language == "python":
            script.append(block.text)
    readme = [block.text for block in pages.blocks(ROOT / "README.md") if block.language == "python"]
    for first in ("from allennlp.models import Model", "import elmo_plugin"):
        answer = typist.python(folder, "\n".join([first, *script, *readme]))
        assert answer == "['B-PER', 'O', 'O', 'B-LOC', 'I-LOC', 'O']\n(3, 2, 512) (3, 1, 512)\n", answer


def distributed(typist: Typist, folder: Path) -> None:
    """Train in two processes, each with a loader in a process of its own, by the program `allennlp`."""
    typist.examples(folder)
    typist.type(folder, f"allennlp train tagger.jsonnet -s two{INCLUDE}{TWO_PROCESSES}")


def plugins(typist: Typist, folder: Path) -> None:
    """Use the program `allennlp`, with the option and with a file that lists plugins."""
    typist.examples(folder)
    typist.type(folder, f"allennlp train tagger.jsonnet -s out{INCLUDE}{FAST}")
    typist.type(folder, f"allennlp evaluate out/model.tar.gz train.conll{INCLUDE}")
    typist.type(folder, f"allennlp predict out/model.tar.gz new.jsonl --predictor elmo_tagger{INCLUDE}")
    (folder / "tags.txt").write_text("a/D cat/N\na/D dog/N\n")
    (folder / "config.json").write_text(RUN_OF_ALLENNLP)
    typist.type(folder, "allennlp train config.json -s allennlps")
    (folder / ".allennlp_plugins").write_text("elmo_plugin\n")
    typist.type(folder, f"allennlp train tagger.jsonnet -s with-file{FAST}")
    (folder / "text").write_text("Two words\nOne\n")
    typist.type(folder, "allennlp embed-corpus text vectors.hdf5 --bilm english-tiny")


def extras(typist: Typist, folder: Path, wheel: Path) -> None:
    """Install each extra by pip, and use it with what `plugins` left.

    That of flair comes last, because it takes transformers back to 4.
    """
    install = "pip install --quiet"
    typist.type(folder, f"{install} '{wheel}[report,serve,parquet]'", home=Path.home())
    typist.type(folder, "elmo-plugin report-elmo out --output report && test -s report/report.html")
    typist.type(folder, f"allennlp find-lr tagger.jsonnet -s lr --num-batches 12{INCLUDE} && test -s lr/lr-losses.png")
    typist.type(folder, "elmo-plugin embed-corpus text vectors.parquet --bilm english-tiny")
    typist.python(folder, SERVED)
    typist.type(folder, f"{install} '{wheel}[models]'", home=Path.home())
    typist.type(folder, f"{install} --no-deps allennlp-models==2.10.1", home=Path.home())
    typist.type(folder, f"mkdir -p {ENVIRONMENT}/nltk_data/tokenizers/punkt  # as the guide says, without a network")
    typist.python(folder, "from allennlp_models.classification import BiattentiveClassificationNetwork")
    typist.type(folder, f"allennlp train tagger.jsonnet -s models{INCLUDE}{FAST}")
    typist.type(folder, f"{install} '{wheel}[flair]'", home=Path.home())
    typist.type(folder, "pip list 2>/dev/null | grep -iE '^(flair|transformers|huggingface.hub) '")
    typist.python(folder, FLAIR)
    typist.type(folder, f"allennlp train tagger.jsonnet -s transformers4{INCLUDE}{FAST}")


SERVED = """
import json, subprocess, sys, time, urllib.request
server = subprocess.Popen(["elmo-plugin", "serve-elmo", "out/model.tar.gz", "--port", "8753"])
request = urllib.request.Request(
    "http://127.0.0.1:8753/tag",
    json.dumps({"sentences": ["Greta sailed."]}).encode(),
    {"Content-Type": "application/json"},
)
for _ in range(300):
    time.sleep(0.5)
    try:
        print(urllib.request.urlopen(request).read())
        break
    except OSError:
        continue
else:
    sys.exit("no answer")
server.terminate()
sys.exit(server.wait() not in (0, -15, 143))
"""
FLAIR = """
from flair.data import Sentence
from elmo_plugin.integrations.flair_embeddings import ElmoEmbeddings
sentence = Sentence("Two words")
ElmoEmbeddings("english-tiny").embed(sentence)
print(sentence[0].embedding.shape)
"""

if __name__ == "__main__":
    main()
