"""A tagger on a model of ELMoForManyLangs, whose archive needs no other files."""

import shutil
from pathlib import Path

import torch
from allennlp.models.archival import load_archive

from elmo_plugin.checkpoints import convert, load_checkpoint
from tests.many_langs_oracle import config, write_folder
from tests.task_oracles import TOWNS, experiment, read_data, tagger, tags_reader, train


def test_an_archive_answers_and_is_converted_where_the_folder_is_gone(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "144", config(max_characters_per_token=50))
    before = load_checkpoint(folder)
    reader = tags_reader(token_indexers={"elmo": {"type": "elmo_many_langs"}})
    on_many_langs = experiment(tagger({"bilm": {"pretrained": str(folder)}, "requires_grad": True}), reader, TOWNS)
    trained = train(on_many_langs, tmp_path / "run").eval()
    archive = Path(shutil.move(tmp_path / "run/model.tar.gz", tmp_path / "elsewhere.tar.gz"))
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "run")

    data = read_data(on_many_langs)
    answers = load_archive(archive).model.eval().forward_on_instances(data)
    for found, expected in zip(answers, trained.forward_on_instances(data), strict=True):
        assert (found["logits"] == expected["logits"]).all()
    convert(archive, tmp_path / "back", to="many-langs")
    inside, back = load_checkpoint(archive), load_checkpoint(tmp_path / "back")
    assert back.options == before.options
    assert all(torch.equal(inside.state_dict[name], value) for name, value in back.state_dict.items())
    assert not all(torch.equal(value, back.state_dict[name]) for name, value in before.state_dict.items())
