"""A tagger on a model of ELMoForManyLangs, whose archive needs no other files."""

import shutil
from pathlib import Path

import torch
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.checkpoints import convert, load_checkpoint
from tests.checkpoint_oracles import assert_same_checkpoint
from tests.many_langs_oracle import config, write_folder
from tests.task_oracles import TOWNS, Config, experiment, read_data, tagger, tags_reader, train

WORDS = ["The", "cat", "from", "日本語", "."]


def on_many_langs(folder: Path, **elmo: object) -> Config:
    """Return the config of a tagger on a folder."""
    indexers = {"elmo": {"type": "elmo_many_langs"}}
    model = tagger({"bilm": {"pretrained": str(folder)}, **elmo})
    return experiment(model, tags_reader(token_indexers=indexers), TOWNS)


def test_an_archive_answers_and_is_converted_where_the_folder_is_gone(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "144", config(max_characters_per_token=50))
    before = load_checkpoint(folder)
    experiment = on_many_langs(folder, requires_grad=True)
    trained = train(experiment, tmp_path / "run").eval()
    archive = Path(shutil.move(tmp_path / "run/model.tar.gz", tmp_path / "elsewhere.tar.gz"))
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "run")

    loaded = load_archive(archive)
    data = read_data(experiment)
    for found, expected in zip(
        loaded.model.eval().forward_on_instances(data), trained.forward_on_instances(data), strict=True
    ):
        assert found["tags"] == expected["tags"] and (found["logits"] == expected["logits"]).all()
    tags = Predictor.from_archive(loaded, "elmo_tagger").predict_json({"tokens": WORDS})["tags"]
    assert len(tags) == len(WORDS)

    convert(archive, tmp_path / "my.safetensors")
    convert(archive, tmp_path / "back", to="many-langs")
    inside = load_checkpoint(archive)
    inside = inside._replace(state_dict={name: inside.state_dict[name] for name in before.state_dict})
    assert_same_checkpoint(load_checkpoint(tmp_path / "my.safetensors"), inside)
    assert_same_checkpoint(load_checkpoint(tmp_path / "back"), inside)
    assert inside.options == before.options
    moved = [not torch.equal(inside.state_dict[name], value) for name, value in before.state_dict.items()]
    assert any(moved)
