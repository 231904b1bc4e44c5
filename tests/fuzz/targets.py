"""What is fed with damaged input: each format of checkpoints with all its files, and dataset readers."""

import gzip
import io
import json
import shutil
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader

from elmo_plugin.bilm import BiLM, CharacterLevelEncoder
from elmo_plugin.checkpoints import (
    AllenNlpArchive,
    BilmTf,
    Checkpoint,
    CheckpointFormat,
    ManyLangs,
    Native,
    SavedSoftmax,
    build_bilm,
    load_checkpoint,
    read_weights,
)
from elmo_plugin.pretraining import load_language_model, sentence_log_probabilities
from elmo_plugin.pretraining.softmax import AdaptiveSoftmax, FullSoftmax
from tests.checkpoint_oracles import LEXICON, WORDS, language_model_archive, language_model_run, pretrained
from tests.fuzz.attacks import ATTACKS, SECRET
from tests.fuzz.engine import Result, Run, Target, fuzz
from tests.fuzz.mutations import (
    Files,
    mutate,
    mutate_content,
    mutate_files,
    mutate_json,
    mutate_tar,
    mutate_zip,
)
from tests.fuzz.text_attacks import TEXT_ATTACKS
from tests.many_langs_oracle import config as many_langs_config
from tests.many_langs_oracle import write_folder
from tests.oracles import lively, options, tensorflow_file, write_files

MOST_SHOWN = 2000
"""The most characters of an error."""
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
TINY = {"dim": 3, "projection_dim": 2, "n_layers": 1, "filters": [[1, 2], [2, 1]], "n_highway": 1}


def read_files(folder: Path) -> Files:
    """Return the files of a folder and of the folders in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def case(folder: Path, files: Files) -> Path:
    """Return a folder with these files alone; names that no file may have are left out."""
    where = folder / "case"
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    for name, data in files.items():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_bytes(data)
    return where


def use(checkpoint: Checkpoint, source: Path = Path()) -> None:
    """Check that a checkpoint that was read is a biLM that runs."""
    bilm = build_bilm(checkpoint, source=source)
    if isinstance(bilm.token_encoder, CharacterLevelEncoder):
        ids = bilm.token_encoder.batch_to_ids([["a", "word"]])
    else:
        ids = torch.ones(1, 2, dtype=torch.long)
    with torch.no_grad():
        assert bilm(ids).layers.size(0) == bilm.options.num_layers


def feed_checkpoint(form: CheckpointFormat, write: Callable[[Path], list[Files]]) -> Target:
    """A folder of a format: what is read is used."""

    def prepare(folder: Path) -> Run:
        corpus = write(folder)

        def run(random: Random, folder: Path) -> None:
            where = case(folder, mutate_files(random, random.choice(corpus), corpus))
            use(form.read(where))

        use(form.read(case(folder, corpus[0])))
        return run

    return prepare


def bilm_tf_folders(folder: Path) -> list[Files]:
    """Return folders of bilm-tf with and without a vocabulary."""
    (folder / "characters").mkdir()
    (folder / "words").mkdir()
    tensorflow_file(folder / "characters", options(**TINY).to_dict())
    tensorflow_file(folder / "words", {"lstm": options(**TINY).to_dict()["lstm"], "n_tokens_vocab": 9}, vocabulary=9)
    (folder / "words/vocabulary.txt").write_text("<S>\n</S>\n<UNK>\na\nb\nc\nd\ne\nf\n", encoding="utf-8")
    return [read_files(folder / "characters"), read_files(folder / "words")]


def many_langs_folders(folder: Path) -> list[Files]:
    """Return a folder of ELMoForManyLangs."""
    return [read_files(write_folder(folder / "144", many_langs_config()))]


def run_folders(folder: Path) -> list[Files]:
    """Return the run of a language model, and such a run with objects that are no tensors among its weights."""
    files = read_files(language_model_run(folder / "run", pretrained(**TINY)))
    weights = torch.load(io.BytesIO(files["best.th"]), weights_only=True)
    folders, key = [files], "bilm.token_encoder.char_embedding.weight"
    shape = weights[key].shape
    odd = [
        torch.zeros(shape).to_sparse(),
        torch.zeros(shape, device="meta"),
        torch.zeros(shape, dtype=torch.complex64),
        torch.zeros(shape, dtype=torch.bool),
        torch.quantize_per_tensor(torch.ones(shape), 0.1, 0, torch.qint8),
        torch.zeros(1).expand(10**9),
        torch.nn.Parameter(torch.ones(shape)),
        {"a": [1]},
        None,
        float("nan"),
    ]
    for value in odd:
        stream = io.BytesIO()
        torch.save({**weights, key: value}, stream)
        folders.append({**files, "best.th": stream.getvalue()})
    return folders


def archives(folder: Path) -> list[Files]:
    """Return the members of an archive of ours and of one with AllenNLP's own ELMo."""
    from allennlp.modules.token_embedders import ElmoTokenEmbedder

    ours = language_model_archive(folder / "ours.tar.gz", pretrained(**TINY))
    with tarfile.open(ours) as archive:
        archive.extractall(folder / "ours", filter="data")
    embedder = ElmoTokenEmbedder(*write_files(folder / "pair", lively(BiLM(options(**TINY)))))
    stream = io.BytesIO()
    torch.save({f"embedder.{name}": value for name, value in embedder.state_dict().items()}, stream)
    options_file = folder / "pair/options.json"
    config = {"model": {"options_file": str(options_file), "do_layer_norm": True}}
    theirs = {"config.json": json.dumps(config).encode(), "weights.th": stream.getvalue()}
    packed = {"fta/model.options_file": options_file.read_bytes()}
    return [read_files(folder / "ours"), theirs, {**theirs, **packed}]


def feed_archive(folder: Path) -> Run:
    """`model.tar.gz`: names, links, devices, members and their content."""
    corpus = archives(folder)

    def run(random: Random, folder: Path) -> None:
        data = gzip.compress(mutate_tar(random, random.choice(corpus), corpus), 1)
        data = mutate(random, data) if random.random() < 0.2 else data
        use(load_checkpoint(case(folder, {"model.tar.gz": data}) / "model.tar.gz"))

    return run


def feed_zip(folder: Path) -> Run:
    """Zip files of folders."""
    corpus = many_langs_folders(folder) + bilm_tf_folders(folder)

    def run(random: Random, folder: Path) -> None:
        data = mutate_zip(random, dict(random.choice(corpus)), corpus)
        use(load_checkpoint(case(folder, {"bilm.zip": data}) / "bilm.zip"))

    return run


def native_files(folder: Path, *checkpoints: Checkpoint) -> list[bytes]:
    """Return the content of native files."""
    contents = []
    for checkpoint in checkpoints:
        Native().write(checkpoint, folder / "bilm.safetensors")
        contents.append((folder / "bilm.safetensors").read_bytes())
    return contents


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header of a safetensors file, and its numbers."""
    end = 8 + struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:end]), data[end:]


def set_text(header: dict[str, Any], key: str, text: bytes) -> None:
    """Change a text in the metadata of a native file, and its check sum."""
    metadata = header["__metadata__"]
    metadata[key] = text.decode("utf-8", "surrogatepass")
    metadata["sums"] = json.dumps({**json.loads(metadata["sums"]), key: zlib.crc32(text)})


def feed_native(folder: Path) -> Run:
    """Safetensors: lengths, header, metadata and numbers."""
    corpus = native_files(folder, pretrained(**TINY), pretrained(warm=True, **TINY, lexicon=LEXICON, char_cnn=None))

    def run(random: Random, folder: Path) -> None:
        data, other = random.choice(corpus), random.choice(corpus)
        if random.random() < 0.7:  # the header, without check sums in one of two
            header, numbers = header_of(data)
            if random.random() < 0.5:
                set_text(header, "options", mutate_json(random, header["__metadata__"]["options"].encode()))
            text = json.dumps(header).encode()
            text = mutate_json(random, text) if random.random() < 0.7 else text
            data = struct.pack("<Q", len(text)) + text + numbers
        path = case(folder, {"bilm.safetensors": mutate(random, data, other) if random.random() < 0.5 else data})
        use(Native().read(path / "bilm.safetensors"))

    return run


CLASSES = ("subprocess.Popen", "os.system", "builtins.exec", "torch.hub.load", "pathlib.Path", "torch.nn.ReLU")
"""Names that AllenNLP would import and call in a config."""


def feed_language_model(folder: Path) -> Run:
    """Softmaxes and contextualizers that a safetensors file describes, perhaps by the name of any Python class."""
    checkpoint = pretrained(**TINY)
    width = checkpoint.options.lstm.projection_dim
    softmaxes = (FullSoftmax(len(WORDS), width), AdaptiveSoftmax(len(WORDS), width, [5], div_value=1.0))
    saved = [
        SavedSoftmax(each.config, {name: value for name, value in each.state_dict().items() if name != "_extra_state"})
        for each in softmaxes
    ]
    corpus = native_files(folder, *(checkpoint._replace(softmax=softmax) for softmax in saved))

    def run(random: Random, folder: Path) -> None:
        header, numbers = header_of(random.choice(corpus))
        softmax, named = json.loads(header["__metadata__"]["softmax"]), random.choice(CLASSES)
        if random.random() < 0.3:
            softmax[random.choice([*softmax, "args"])] = random.choice([named, [named], {"type": named}])
        text = json.dumps(softmax).encode()
        set_text(header, "softmax", mutate_json(random, text) if random.random() < 0.5 else text)
        if random.random() < 0.3:
            part = random.choice([named, [named], {"type": named}, {"_pretrained": {"archive_file": named}}])
            feedforward = {"input_dim": width, "num_layers": 1, "hidden_dims": 2 * width, "activations": part}
            encoders: list[Any] = [
                {"type": named},
                {"type": "compose", "encoders": [part]},
                {"type": "feedforward", "feedforward": feedforward},
            ]
            sizes = {**json.loads(header["__metadata__"]["options"]), "contextualizer": random.choice(encoders)}
            set_text(header, "options", json.dumps(sizes).encode())
        text = json.dumps(header).encode()
        path = case(folder, {"bilm.safetensors": struct.pack("<Q", len(text)) + text + numbers}) / "bilm.safetensors"
        scores = sentence_log_probabilities(load_language_model(str(path)), [["the", "cat"]])
        assert np.isfinite(scores).all()

    return run


PICKLES = (
    b"cos\nsystem\n(S'touch owned'\ntR.",
    b"cbuiltins\neval\n(S'1'\ntR.",
    b"\x80\x02}q\x00(X\x01\x00\x00\x00ac__main__\nX\n)\x81u.",
)


def feed_pickle(folder: Path) -> Run:
    """Pickles of torch, of both of its formats, and pickles that call functions."""
    corpus = [files["best.th"] for files in run_folders(folder)]
    stream = io.BytesIO()
    torch.save({"a": torch.arange(3), "b": torch.ones(2, 3)}, stream, _use_new_zipfile_serialization=False)
    corpus += [stream.getvalue()] * 10 + list(PICKLES)

    def run(random: Random, folder: Path) -> None:
        data = mutate_content(random, random.choice(corpus), random.choice([*corpus, *PICKLES]))
        path = case(folder, {"best.th": data}) / "best.th"
        weights = read_weights(path, "best.th")
        assert all(isinstance(key, str) for key in weights)

    return run


READERS: dict[str, tuple[dict[str, Any], str]] = {
    "conll2003": (
        {"type": "column_tags", "coding_scheme": "IOB1", "convert_to_coding_scheme": "BIOUL"},
        "columns/conll2003.txt",
    ),
    "conllu": ({"type": "column_tags", "conllu": True}, "columns/words.conllu"),
    "news": ({"type": "text_classification_csv", "text_columns": [1, 2]}, "csv/news.csv"),
    "shards": ({"type": "text_shards", "max_sentence_length": 5}, "tasks/words.txt"),
}


def feed_reader(keys: dict[str, Any], fixture: str) -> Target:
    """A dataset reader: each instance has tokens, and as many tags."""

    def prepare(folder: Path) -> Run:
        path = FIXTURES / fixture
        corpus = [path.read_bytes(), *(other.read_bytes() for other in path.parent.iterdir())]
        tokenizer = {"tokenizer": "just_spaces"} if keys["type"] == "text_classification_csv" else {}
        reader = DatasetReader.from_params(Params({**keys, **tokenizer}))

        def run(random: Random, folder: Path) -> None:
            data = mutate(random, corpus[0], random.choice(corpus))
            if random.random() < 0.05:
                data = gzip.compress(data, 1)
                data = mutate(random, data) if random.random() < 0.7 else data
            path = folder / "data.txt"
            path.write_bytes(data)
            for instance in reader.read(str(path)):
                assert len(instance["tokens"]) > 0  # type: ignore[arg-type]
                if "tags" in instance.fields:
                    assert len(instance["tags"].labels) == len(instance["tokens"])  # type: ignore[arg-type, attr-defined]

        return run

    return prepare


def feed_attack(attack: Callable[[Path], Path]) -> Target:
    """A hostile file, made for one weakness; it must be rejected by its name, and nothing may be left behind."""

    def prepare(folder: Path) -> Run:
        location = attack(folder)

        def run(random: Random, folder: Path) -> None:
            before = set(folder.rglob("*"))
            try:
                use(load_checkpoint(location), location)
            except ConfigurationError as error:
                message = str(error)
                assert str(location) in message, message[:1000]
                assert len(message) <= MOST_SHOWN and "\x1b" not in message, (len(message), message[:1000])
                assert SECRET not in message, message
                assert set(folder.rglob("*")) == before
                raise

        return run

    return prepare


def feed_text(attack: Callable[[Path], Callable[[], object]]) -> Target:
    """A hostile text; it is answered or rejected by its name, and nothing may be left behind."""

    def prepare(folder: Path) -> Run:
        use = attack(folder)

        def run(random: Random, folder: Path) -> None:
            before = set(folder.rglob("*"))
            try:
                use()
            except ConfigurationError as error:
                assert str(folder) in str(error), error
                raise
            finally:
                assert set(folder.rglob("*")) == before

        return run

    return prepare


TARGETS: dict[str, Target] = {
    **{f"attack-{name}": feed_attack(attack) for name, attack in ATTACKS.items()},
    **{f"attack-{name}": feed_text(attack) for name, attack in TEXT_ATTACKS.items()},
    "bilm-tf": feed_checkpoint(BilmTf(), bilm_tf_folders),
    "native": feed_native,
    "language-model": feed_language_model,
    "many-langs": feed_checkpoint(ManyLangs(), many_langs_folders),
    "zip": feed_zip,
    "run": feed_checkpoint(AllenNlpArchive(), run_folders),
    "archive": feed_archive,
    "pickle": feed_pickle,
    **{f"reader-{name}": feed_reader(*keys) for name, keys in READERS.items()},
}


def fuzz_attack(name: str) -> Result:
    """Feed an attack by its name, in a process that has imported what makes a cache folder at import."""
    import torch._dynamo  # noqa: F401

    return fuzz(TARGETS[f"attack-{name}"], 1, seed=0)
