"""Every config builds on a few sentences in the format of its corpus; four of different kinds train."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from allennlp.commands.train import TrainModel, train_model
from allennlp.common import Params
from allennlp.common.util import prepare_environment

from elmo_plugin.bilm import BiLM, warm_up
from elmo_plugin.text import batch_to_ids
from tests.oracles import lively, options, write_files

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "training_configs"
ALL_CONFIGS = sorted(path.relative_to(FOLDER) for path in FOLDER.rglob("*.jsonnet"))
OTHERS = {"models", "pretrain", "systems"}
"""Folders of configs that have tests of their own."""
WORDS = {"parse": "words"}
"""What readers call the words of a sentence, where it is not `tokens`."""
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
CORPORA = {
    "UD_EWT": {
        ".conllu": "# text = It rains.\n"
        "1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n2\trains\train\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n"
        "1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_\n2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_\n"
        "3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n\n"
    },
    "TREEBANK": {
        ".conllu": "1\trosa\trosa\tNOUN\t_\tCase=Nom|Number=Sing\t2\tnsubj\t_\t_\n"
        "2\tfloret\tfloreo\tVERB\t_\tNumber=Sing|Person=3\t0\troot\t_\t_\n\n"
        "1\tvale\tvaleo\tVERB\t_\tMood=Imp\t0\troot\t_\t_\n\n"
    },
    "CONLL2000": {".txt": "The DT B-NP\nboat NN I-NP\nleaks VBZ B-VP\n. . O\n\nWait VB B-VP\n\n"},
    "CONLL2003": {
        ".txt": "-DOCSTART- -X- -X- O\n\nMira NNP I-NP I-PER\nwaves VBZ I-VP O\n\n"
        "In IN I-PP O\nLinnea NNP I-NP I-LOC\n\n"
    },
    "WNUT17": {".conll": "in\tO\nPort\tB-location\nCalder\tI-location\n#now\tO\n\nHi\tO\n\n"},
    "LITBANK": {".tsv": "Mira\tO\nlaughed\tEVENT\n.\tO\n\nSo\tO\n\n"},
    "AG_NEWS": {".csv": '"1","Ferry late again, says mayor"\n"2","Harrow ""win"" the cup"\n'},
    "IMDB": {".jsonl": '{"label": "pos", "text": "Lovely.<br />Go."}\n{"label": "neg", "text": "Dull and long."}\n'},
    "SST": {"": '4 a joy from start to end\n0 dull , " loud " and long\n'},
}
NAMES = {"SST": ["stsa.fine.train", "stsa.fine.dev"]}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment variables that configs read: a folder for each corpus, and a biLM in bilm-tf's format."""
    folder = tmp_path_factory.mktemp("corpora")
    variables = {}
    for variable, content in CORPORA.items():
        (folder / variable).mkdir()
        ((suffix, text),) = content.items()
        for name in NAMES.get(variable, [f"train{suffix}", f"dev{suffix}"]):
            (folder / variable / name).write_text(text, encoding="utf-8")
        variables[variable] = str(folder / variable)
    bilm = lively(BiLM.random(options(), seed=3))
    bilm.warm_state = warm_up(bilm, [batch_to_ids([["It", "rains"], ["Go"]])])
    write_files(folder / "bilm", bilm)
    (folder / "vectors.txt").write_text("rosa 0.5 1\nIt 1 0.25\n", encoding="utf-8")
    variables |= {"WORD_VECTORS": str(folder / "vectors.txt"), "WORD_VECTORS_DIM": "2"}
    sizes = {"ELMO_BILM_LAYERS": bilm.options.lstm.n_layers, "ELMO_BILM_PROJECTION": bilm.options.lstm.projection_dim}
    variables |= {"TASK": "demo", "ELMO_BILM": str(folder / "bilm")}
    return {**variables, **{key: str(size) for key, size in sizes.items()}}


@pytest.fixture
def few(corpora: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | str], Params]:
    """Return a function that reads a config over the corpora, for one epoch of a few sentences."""
    monkeypatch.chdir(ROOT)
    for variable, value in corpora.items():
        monkeypatch.setenv(variable, value)
    changes = {"dataset_reader.max_instances": 4, "trainer.num_epochs": 1, "trainer.patience": None}
    return lambda path: Params.from_file(FOLDER / path, json.dumps(changes))


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in ALL_CONFIGS if path.parts[0] not in OTHERS], ids=str)
def test_a_config_builds_and_batches_sentences_of_similar_length(
    path: Path, few: Callable[[Path | str], Params], tmp_path: Path
) -> None:
    if path.parts[0] == "parse":
        pytest.importorskip("allennlp_models.structured_prediction")
    params = few(path)
    for loader in ("data_loader", "validation_data_loader"):
        sampler = params[loader]["batch_sampler"]
        assert (sampler["type"], sampler["sorting_keys"]) == ("bucket", [WORDS.get(path.parts[0], "tokens")])
    prepare_environment(params)  # seeds
    training = TrainModel.from_params(params, serialization_dir=str(tmp_path), local_rank=0)
    assert any(parameter.requires_grad for parameter in training.model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["tag/ud_pos", "classify/sst5", "variants/learned_function", "tag/stock/simple_tagger"]
)
def test_a_config_trains_and_packs_an_archive(path: str, few: Callable[[Path | str], Params], tmp_path: Path) -> None:
    train_model(few(f"{path}.jsonnet"), str(tmp_path / "run"))
    metrics: dict[str, Any] = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["training_loss"] > 0
    assert (tmp_path / "run" / "model.tar.gz").exists()


def test_features_are_one_tag_and_word_vectors_stand_beside_elmo_unchanged(
    few: Callable[[Path | str], Params], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TASK", "treebank_features")
    params = few("variants/your_bilm_and_vectors.jsonnet")
    prepare_environment(params)  # seeds
    tagger: Any = TrainModel.from_params(params, serialization_dir=str(tmp_path), local_rank=0).model
    labels = tagger.vocab.get_token_to_index_vocabulary("labels")
    assert labels.keys() == {"Case=Nom|Number=Sing", "Number=Sing|Person=3", "Mood=Imp"}
    (vectors,) = (weight for name, weight in tagger.named_parameters() if "token_embedder_word_vectors" in name)
    rosa = vectors[tagger.vocab.get_token_index("rosa", "word_vectors")]
    assert rosa.tolist() == [0.5, 1.0] and not vectors.requires_grad
    assert any("scalar_mix" in name for name, _ in tagger.named_parameters())


@pytest.mark.slow
def test_the_config_of_the_page_needs_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (config,) = re.findall(r"```jsonnet\n(.*?)```", PAGE, re.DOTALL)
    assert len(config.splitlines()) <= 25 and "import" not in config
    monkeypatch.chdir(tmp_path)
    for part in ("train", "dev"):
        (tmp_path / f"{part}.txt").write_text("Mira B-PER\nwaves O\n\nIn O\nLinnea B-LOC\n\n", encoding="utf-8")
    (tmp_path / "tagger.jsonnet").write_text(config, encoding="utf-8")
    params = Params.from_file("tagger.jsonnet", json.dumps({"trainer.num_epochs": 1}))
    tagger = train_model(params, "run")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["training_loss"] > 0 and "best_validation_f1-measure-overall" in metrics
    assert sum(module.requires_grad for module in tagger.parameters()) > 0
