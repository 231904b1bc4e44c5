"""Repositories of the Hugging Face Hub, read from a server that answers as the Hub does, and folders to publish."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from allennlp.common.checks import ConfigurationError
from huggingface_hub import ModelCard, constants, file_download

from elmo_plugin.bilm import count_parameters
from elmo_plugin.checkpoints import BilmTf, convert, load_checkpoint
from tests.checkpoint_oracles import assert_rejected, assert_same_checkpoint, pretrained
from tests.checkpoints.conversion_test import INPUTS, written
from tests.task_oracles import build_elmo

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """Answer what `huggingface_hub` asks for: the names in a repository, which is a folder, and the files."""

    folder: Path

    def do_HEAD(self) -> None:
        """Answer without content."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer `/api/models/USER/MODEL/revision/…` and `/USER/MODEL/resolve/…/FILE`."""
        parts = self.path.split("?")[0].strip("/").split("/")
        repository = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
        there = self.folder / repository
        if not (there.is_dir() and "/" in repository) or "resolve" in repository:
            self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})
        elif "tree" in parts:  # which later releases than 0.36 ask for
            entries = [
                {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": path.name}
                for path in sorted(there.iterdir())
            ]
            self.answer(200, json.dumps(entries).encode(), {"Content-Type": "application/json"})
        elif parts[0] == "api":
            files = [{"rfilename": path.name} for path in sorted(there.iterdir())]
            about = {"id": repository, "sha": COMMIT, "siblings": files}
            self.answer(200, json.dumps(about).encode(), {"Content-Type": "application/json"})
        elif not (there / parts[-1]).is_file():
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        else:
            content = (there / parts[-1]).read_bytes()
            tag = hashlib.sha1(content, usedforsecurity=False).hexdigest()
            self.answer(200, content, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT})

    def answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        """Send the status, the headers and, unless it is a HEAD request, the content."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run a server in place of the Hub; return the folder of its repositories."""
    handler = type("ThisHub", (Hub,), {"folder": tmp_path / "hub"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        for module in (constants, file_download):  # where huggingface_hub 1, and where earlier releases look for it
            template = url + "/{repo_id}/resolve/{revision}/{filename}"
            monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield tmp_path / "hub"
        server.shutdown()


@pytest.mark.slow
def test_a_repository_a_revision_of_it_and_a_file_in_it_are_read(hub: Path) -> None:
    BilmTf().write(pretrained(), hub / "user/model")
    expected = load_checkpoint(hub / "user/model")
    for place in ("", "/", "@main"):
        assert_same_checkpoint(load_checkpoint(f"hf://user/model{place}"), expected)
    of_a_file = load_checkpoint("hf://user/model/weights.hdf5")  # the vocabulary is looked for in folders only
    assert_same_checkpoint(of_a_file, expected._replace(vocabulary=None))
    assert build_elmo(bilm={"pretrained": "hf://user/model"}).bilm.source == "hf://user/model"
    archive = shutil.make_archive(str(hub / "193"), "zip", hub / "user/model")
    shutil.move(archive, hub / "user/model")
    assert_same_checkpoint(load_checkpoint("hf://user/model/193.zip"), expected)


@pytest.mark.usefixtures("hub")
def test_an_error_names_the_repository_and_what_to_do(leave_hub: Callable[[], None]) -> None:
    facts = ("'hf://user/none'", "repository user/none", "hf auth login", "hf download user/none")
    assert_rejected("hf://user/none", *facts)
    with pytest.raises(ConfigurationError, match="hf download user/none"):
        build_elmo(bilm="hf://user/none")
    leave_hub()
    assert_rejected("hf://user/none", *facts)
    assert_rejected("hf://user/none/weights.hdf5", "repository user/none")


def test_the_model_card_is_one_that_the_hub_reads_and_the_sizes_are_in_the_config(tmp_path: Path) -> None:
    checkpoint = pretrained(**INPUTS["lexicons"])
    convert(written(tmp_path, "native", checkpoint), tmp_path / "my_bilm", to="hub", license="cc-by-4.0")
    card = ModelCard.load(tmp_path / "my_bilm/README.md")
    assert card.data.license == "cc-by-4.0" and card.data.library_name == "elmo_plugin"
    assert "elmo" in card.data.tags and card.data.pipeline_tag == "feature-extraction"
    assert f"{count_parameters(checkpoint.options):,} parameters" in card.text and "hf://USER/my_bilm" in card.text
    config = json.loads((tmp_path / "my_bilm/config.json").read_text(encoding="utf-8"))
    assert config["lstm"] == checkpoint.options.lstm.to_dict()
    assert not {"words", "characters"} & config.get("lexicon", {}).keys()
