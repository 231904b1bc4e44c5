"""Small files that would run code, fill the memory or the disk, or take for ever: each must be rejected at once.

Each function writes a file, and what lies beside it, into an empty folder, and returns what is then loaded.
"""

import bz2
import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import BilmTf, Native, load_checkpoint
from elmo_plugin.checkpoints.weight_map import (
    ALLENNLP,
    BILM_TF,
    MANY_LANGS,
    Row,
    empty_bilm,
    map_weights,
    stored_shapes,
)
from tests.checkpoint_oracles import language_model_run, pretrained
from tests.many_langs_oracle import config, write_folder
from tests.oracles import options, write_json

LARGE = 2**24
"""A number of zero bytes, which compress a thousandfold."""


class Call:
    """Call a function when it is unpickled."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def pickle_that_allocates(folder: Path) -> Path:
    """PyTorch itself allows `bytearray` in a pickle of weights."""
    torch.save({"bilm._extra_state": Call(bytearray, 600 * 2**20)}, folder / "best.th")
    return folder


def pickle_that_runs_code(folder: Path) -> Path:
    """`os.mkdir` leaves a trace."""
    torch.save({"a": Call(os.mkdir, str(folder / "trace"))}, folder / "best.th")
    return folder


def pickle_of_many_instructions(folder: Path) -> Path:
    """Each instruction takes one byte."""
    torch.save({}, folder / "best.th")
    with zipfile.ZipFile(folder / "best.th", "w") as archive:
        archive.writestr("best/data.pkl", b"\x80\x02" + b"N" * 2**20 + b".")
        archive.writestr("best/version", b"3\n")
    return folder


def pickle_behind_a_false_end(folder: Path) -> Path:
    """For four bytes at its end, Python says that the file is not a zip file; PyTorch says that it is one."""
    torch.save({"bilm.weight": torch.zeros(LARGE // 4)}, folder / "best.th")
    _compress(folder / "best.th")
    with (folder / "best.th").open("ab") as file:
        file.write(b"PK\x05\x06")
    return folder


def compressed_pickle(folder: Path) -> Path:
    """PyTorch writes its zip files without compression."""
    write_folder(folder, config())
    torch.save({"forward_layer_0.bias": torch.zeros(LARGE // 4)}, folder / "encoder.pkl")
    _compress(folder / "encoder.pkl")
    return folder


def _compress(path: Path) -> None:
    content = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))


def pickle_whose_members_share_their_bytes(folder: Path) -> Path:
    """The directory of a zip file may name the same content many times."""
    torch.save({"bilm.weight": torch.zeros(2**18)}, folder / "best.th")
    with zipfile.ZipFile(folder / "best.th", "a") as archive:
        data = next(info for info in archive.infolist() if info.filename.endswith("data/0"))
        archive.filelist += [data] * 9
        archive._didModify = True  # type: ignore[attr-defined]
    return folder


def old_pickle_that_claims_numbers(folder: Path) -> Path:
    """Its only tensor has four numbers, of a storage that claims 2 ** 28."""
    storage = object()

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return ("storage", torch.FloatStorage, "0", "cpu", 2**28, None) if obj is storage else None

    content = io.BytesIO()
    for part in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}):
        pickle.dump(part, content, protocol=2)
    tensor = Call(torch._utils._rebuild_tensor_v2, storage, 0, (4,), (1,), False, {})
    Pickler(content, protocol=2).dump({"a": tensor})
    pickle.dump([], content, protocol=2)
    (folder / "best.th").write_bytes(content.getvalue())
    return folder


def large() -> BiLMOptions:
    """Return sizes that no test could hold in memory."""
    return options(dim=2**15, projection_dim=2**12, n_layers=4)


def _spread(shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor of any size that takes one number in a file."""
    return torch.zeros(1).expand(shape)


def _pickle(content: bytes) -> Callable[[Path], Path]:
    """Return what writes an encoder that is this pickle, given without its first and last instruction."""

    def write(folder: Path) -> Path:
        write_folder(folder, config())
        with zipfile.ZipFile(folder / "encoder.pkl", "w") as archive:
            archive.writestr("best/data.pkl", b"\x80\x02" + content + b".")
            archive.writestr("best/version", b"3\n")
        return folder

    return write


def _doubled(times: int, kind: type) -> bytes:
    """Return the instructions for a list or tuple that holds the same list or tuple twice, and so on."""
    inner: Any = kind()
    for _ in range(times):
        inner = kind((inner, inner))
    return pickle.dumps(inner, protocol=2)[2:-1]


def old_pickle_with_a_doubled_key(folder: Path) -> Path:
    """The same in the format of before PyTorch 1.6, in which ELMoForManyLangs is published."""
    write_folder(folder, config())
    key = b"\x80\x02}" + _doubled(60, tuple) + b"Ns."
    content = b"".join(
        pickle.dumps(part, protocol=2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    )
    (folder / "encoder.pkl").write_bytes(content + key + pickle.dumps([], protocol=2))
    return folder


def expanded_tensors_of_a_run(folder: Path) -> Path:
    """A biLM of ours that is large and takes a few kilobytes."""
    with torch.device("meta"):
        bilm = BiLM(large())
    weights = {f"bilm.{name}": _spread(tuple(value.shape)) for name, value in bilm.state_dict().items()}
    torch.save({**weights, "bilm._extra_state": bilm.get_extra_state().cpu()}, folder / "best.th")
    return folder


def _shapes(table: tuple[Row, ...], sizes: BiLMOptions, prefix: str = "") -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file with a biLM of these sizes."""
    weights = empty_bilm(sizes, (), "attack").state_dict()
    return stored_shapes(map_weights(table, weights, prefix), weights)


def expanded_tensors_of_allennlps_elmo(folder: Path) -> Path:
    """The same under AllenNLP's own names."""
    sizes = large()
    shapes = _shapes(ALLENNLP, sizes, "_elmo_lstm.")
    torch.save({name: _spread(shape) for name, shape in shapes.items()}, folder / "best.th")
    options_file = write_json(folder / "sizes.json", sizes.to_dict())
    write_json(folder / "config.json", {"model": {"options_file": str(options_file)}})
    return folder


def expanded_tensors_of_many_langs(folder: Path) -> Path:
    """The same as a model of ELMoForManyLangs with small vocabularies."""
    sizes = load_checkpoint(write_folder(folder, config())).options
    write_json(folder / "sizes.json", {**config(), "encoder": {"name": "elmo", **large().lstm.to_dict()}})
    shapes = _shapes(MANY_LANGS, replace(sizes, lstm=large().lstm))
    for file in ("encoder", "token_embedder"):
        own = {name.removeprefix(f"{file}."): _spread(shape) for name, shape in shapes.items() if name.startswith(file)}
        torch.save(own, folder / f"{file}.pkl")
    return folder


def _weights_by_another_method(path: Path) -> None:
    """Compress the weights in a PyTorch file by bzip2; their sum could only be tested by unpacking them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("best/data.pkl", bytes(20 * LARGE))


def run_compressed_by_bzip2(folder: Path) -> Path:
    """The folder of a run."""
    _weights_by_another_method(folder / "best.th")
    return folder


def archive_compressed_by_bzip2(folder: Path) -> Path:
    """The weights in a `model.tar.gz`."""
    _weights_by_another_method(folder / "weights.th")
    content = (folder / "weights.th").read_bytes()
    (folder / "weights.th").unlink()
    return _archive(folder, ("weights.th", len(content), b"0", content))


def many_langs_compressed_by_bzip2(folder: Path) -> Path:
    """A folder of ELMoForManyLangs."""
    write_folder(folder, config())
    _weights_by_another_method(folder / "token_embedder.pkl")
    return folder


def zip_file_of_weights_by_bzip2(folder: Path) -> Path:
    """Such a folder as a zip file, whose own members are not compressed."""
    many_langs_compressed_by_bzip2(folder / "144")
    with zipfile.ZipFile(folder / "144.zip", "w") as archive:
        for path in sorted((folder / "144").iterdir()):
            archive.write(path, path.name)
    return folder / "144.zip"


def weights_of_overlapping_members(folder: Path) -> Path:
    """The same 16 MB two thousand times, in 200 kB."""
    with zipfile.ZipFile(folder / "best.th", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("best/data.pkl", bytes(LARGE))
        archive.filelist *= 2000
    return folder


def zip_file_by_another_method(folder: Path) -> Path:
    """Python reads a member of bzip2 to its end, whatever size is declared for it."""
    with zipfile.ZipFile(folder / "bilm.zip", "w") as archive:
        archive.writestr("options.json", b"{}")
        archive.writestr("weights.hdf5", bz2.compress(bytes(LARGE)))
    content = (folder / "bilm.zip").read_bytes()
    at = content.rindex(b"PK\x01\x02")
    method, size = struct.pack("<H", zipfile.ZIP_BZIP2), struct.pack("<I", 1000)
    content = content[: at + 10] + method + content[at + 12 : at + 24] + size + content[at + 28 :]
    (folder / "bilm.zip").write_bytes(content)
    return folder / "bilm.zip"


def zip_file_of_zeros(folder: Path) -> Path:
    """A member that compresses a thousandfold."""
    with zipfile.ZipFile(folder / "144.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word.dic", bytes(LARGE))
    return folder / "144.zip"


def zip_file_of_many_files(folder: Path) -> Path:
    """Each empty file takes a block of the disk, but adds nothing to the total size."""
    with zipfile.ZipFile(folder / "144.zip", "w") as archive:
        for number in range(1000):
            archive.writestr(f"{number}", b"")
    return folder / "144.zip"


def zip_file_of_many_folders(folder: Path) -> Path:
    """Folders that are not listed add nothing to the total size either."""
    with zipfile.ZipFile(folder / "144.zip", "w") as archive:
        for number in range(300):
            archive.writestr("".join(f"{number}_{level}/" for level in range(19)) + "encoder.pkl", b"")
    return folder / "144.zip"


def tar_file_of_many_folders(folder: Path) -> Path:
    """The same in a `model.tar.gz`."""
    names = ["".join(f"{number}_{level}/" for level in range(10)) for number in range(250)]
    return _archive(folder, *((f"{name}weights.th", 0, b"0", b"") for name in names))


def zip_file_of_deep_folders(folder: Path) -> Path:
    """Python's functions that delete folders are recursive."""
    with zipfile.ZipFile(folder / "144.zip", "w") as archive:
        archive.writestr("d/" * 1500 + "encoder.pkl", b"")
    return folder / "144.zip"


def _archive(folder: Path, *members: tuple[str, int, bytes, bytes]) -> Path:
    """Write a tar file of members given by name, declared size, type and content."""
    content = b""
    for name, size, kind, data in members:
        info = tarfile.TarInfo(name)
        info.size, info.type = size, kind
        content += info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)
    (folder / "model.tar.gz").write_bytes(gzip.compress(content))
    return folder / "model.tar.gz"


def tar_file_of_zeros(folder: Path) -> Path:
    """A member that no format reads."""
    return _archive(folder, ("of/no/use", LARGE, b"0", bytes(LARGE)), ("weights.th", 0, b"0", b""))


def tar_file_that_goes_back(folder: Path) -> Path:
    """Python's `tarfile` reads the second header again and again."""
    return _archive(folder, ("config.json", 0, b"0", b""), ("of/no/use", -512, b"0", b""))


def tar_file_with_a_long_header(folder: Path) -> Path:
    """Python's `tarfile` reads such a header into memory."""
    return _archive(folder, ("a", 8**11 - 1, b"x", bytes(LARGE)))


def _pipe(name: str, write: Callable[[Path], Path]) -> Callable[[Path], Path]:
    """Return what writes a folder, or a file in it, and puts a pipe, for which reading waits for ever, in its place."""

    def attack(folder: Path) -> Path:
        location = write(folder)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
        return location

    return attack


def _bilm_tf(folder: Path) -> Path:
    BilmTf().write(pretrained()._replace(vocabulary=None), folder)
    return folder


def _native(folder: Path) -> Path:
    Native().write(pretrained(), folder / "bilm.safetensors")
    return folder


def _many_langs(folder: Path) -> Path:
    return write_folder(folder, config())


def _run(folder: Path) -> Path:
    return language_model_run(folder, pretrained())


PIPES: dict[str, Callable[[Path], Path]] = {
    **dict.fromkeys(("options.json", "weights.hdf5", "vocab.txt"), _bilm_tf),
    **dict.fromkeys(("bilm.safetensors",), _native),
    **dict.fromkeys(("encoder.pkl", "token_embedder.pkl", "word.dic", "char.dic", "sizes.json"), _many_langs),
    **dict.fromkeys(("best.th", "vocabulary/tokens.txt"), _run),
    "model.tar.gz": lambda folder: folder / "model.tar.gz",
    "bilm.zip": lambda folder: folder / "bilm.zip",
    "weights.th": lambda folder: folder,
}
"""The names that readers open, and what writes the files beside them."""


def _in_folder_of_many_langs(name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        write_folder(folder, config())
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")
        return folder

    return write


def vocabulary_that_is_a_link(folder: Path) -> Path:
    """`convert-elmo` would write what it leads to into the folder that is published."""
    BilmTf().write(pretrained()._replace(vocabulary=None), folder)
    (folder / "vocabulary.txt").symlink_to("/etc/passwd")
    return folder


def vocabulary_of_zeros(folder: Path) -> Path:
    """A compressed vocabulary that is large."""
    BilmTf().write(pretrained()._replace(vocabulary=None), folder)
    (folder / "vocab.txt.gz").write_bytes(gzip.compress(bytes(LARGE)))
    return folder


def vocabulary_of_empty_lines(folder: Path) -> Path:
    """Each byte is a word."""
    BilmTf().write(pretrained()._replace(vocabulary=None), folder)
    (folder / "vocabulary.txt").write_bytes(b"\n" * 60_000_000)
    return folder


def dictionary_of_many_lines(folder: Path) -> Path:
    """A vocabulary of ELMoForManyLangs."""
    write_folder(folder, config())
    with (folder / "word.dic").open("w") as file:
        file.writelines(f"{number}\t{number}\n" for number in range(4_000_000))
    return folder


def options_of_empty_lists(folder: Path) -> Path:
    """Each list takes two bytes in the file and eighty in memory."""
    BilmTf().write(pretrained(), folder)
    (folder / "options.json").write_bytes(b"[" + b"[]," * (2**24 // 3 - 1) + b"[]]")
    return folder


def options_of_many_filters(folder: Path) -> Path:
    """Each convolution is a module."""
    char_cnn = {"activation": "relu", "embedding": {"dim": 4}, "filters": [[1, 1]] * 20_000}
    BilmTf().write(pretrained(), folder)
    write_json(
        folder / "options.json", {**options().to_dict(), "char_cnn": {**char_cnn, "max_characters_per_token": 9}}
    )
    return folder


def filters_that_fill_the_error(folder: Path) -> Path:
    """An error that quotes the value has megabytes."""
    BilmTf().write(pretrained(), folder)
    char_cnn = {"embedding": {"dim": 4}, "filters": [[1] * 1_000_000]}
    write_json(folder / "options.json", {**options().to_dict(), "char_cnn": char_cnn})
    return folder


def contextualizer_that_connects(folder: Path) -> Path:
    """A registered encoder whose key is an address."""
    return _with_contextualizer(folder, {"type": "elmo_enhanced", "encoder": LSTM, "bilm": "http://localhost:9/bilm"})


def contextualizer_that_reads_a_file(folder: Path) -> Path:
    """Such an encoder inside another one, and the path of a file."""
    inner = {"type": "elmo_enhanced", "encoder": LSTM, "bilm": "/etc/hostname"}
    return _with_contextualizer(folder, {"type": "compose", "encoders": [inner]})


def contextualizer_of_many_convolutions(folder: Path) -> Path:
    """Layers that are listed and not counted."""
    layers = [[[1, 8]]] * 20_000
    return _with_contextualizer(folder, {"type": "gated-cnn-encoder", "input_dim": 8, "layers": layers})


LSTM = {"type": "lstm", "input_size": 8, "hidden_size": 8, "bidirectional": True}


def _with_contextualizer(folder: Path, contextualizer: dict[str, Any]) -> Path:
    checkpoint = pretrained()
    sizes = BiLMOptions.from_dict({**checkpoint.options.to_dict(), "contextualizer": contextualizer})
    Native().write(checkpoint._replace(options=sizes), folder / "bilm.safetensors")
    return folder / "bilm.safetensors"


def contextualizer_of_many_layers(folder: Path) -> Path:
    """Ten encoders, each of as many layers as one may have."""
    first = {"type": "lstm", "input_size": 8, "hidden_size": 8, "num_layers": 1000, "bidirectional": True}
    encoders = [first, *[{**first, "input_size": 16}] * 9]
    return _with_contextualizer(folder, {"type": "compose", "encoders": encoders})


def _native_with(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], Path]:
    """Return what writes a safetensors file and changes its header."""

    def write(folder: Path) -> Path:
        path = _native(folder) / "bilm.safetensors"
        content = path.read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end])
        change(header)
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[end:])
        return path

    return write


BIAS = "bilm.token_encoder.projection.bias"
CLEAR_SCREEN = "\x1b[2J"
"""What makes a terminal forget all that it shows."""


def _of_type(dtype: str, bits: int) -> Callable[[Path], Path]:
    """Describe a tensor of 8 numbers as one of another type, with as many numbers as fit."""
    return _native_with(lambda header: header[BIAS].update(dtype=dtype, shape=[8 * 32 // bits]))


def _beyond_integers(header: dict[str, Any]) -> None:
    header["bilm.a"] = {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}


def _named_to_clear_the_screen(header: dict[str, Any]) -> None:
    header[f"bilm.{CLEAR_SCREEN}"] = header.pop(BIAS)


def _of_a_format_that_clears_the_screen(header: dict[str, Any]) -> None:
    header["__metadata__"]["format"] = CLEAR_SCREEN * 10_000


def _of_many_dimensions(number: int) -> Callable[[dict[str, Any]], None]:
    """Describe an empty tensor, whose sum alone takes PyTorch seconds."""

    def change(header: dict[str, Any]) -> None:
        sums = json.loads(header["__metadata__"]["sums"])
        header["__metadata__"]["sums"] = json.dumps({**sums, "bilm.a": 0})
        header["bilm.a"] = {"dtype": "F32", "shape": [1] * number + [0], "data_offsets": [0, 0]}

    return change


def _of_many_tensors(header: dict[str, Any]) -> None:
    header |= {f"bilm.{n}": {"dtype": "F32", "shape": [0] * 9, "data_offsets": [0, 0]} for n in range(5000)}


def _vocabulary_of_empty_lines(header: dict[str, Any]) -> None:
    words = "\n" * 40_000_000
    sums = json.loads(header["__metadata__"]["sums"])
    header["__metadata__"] |= {
        "vocabulary": words,
        "sums": json.dumps({**sums, "vocabulary": zlib.crc32(words.encode())}),
    }


def sizes_outside_the_folder(folder: Path) -> Path:
    """The error would show what the file holds."""
    write_folder(folder / "144", config())
    write_json(folder / "secret.json", {"encoder": SECRET, "token_embedder": SECRET})
    write_json(folder / "144/config.json", {"config_path": "../secret.json"})
    (folder / "144/sizes.json").unlink()
    return folder / "144"


SECRET = "a password"


def hdf5_of_empty_datasets(folder: Path) -> Path:
    """A file of a few kilobytes may have datasets of any shape."""
    write_json(folder / "options.json", large().to_dict())
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in _shapes(BILM_TF, large()).items():
            file.create_dataset(name, shape, "float32")
    return folder


def hdf5_of_an_empty_table(folder: Path) -> Path:
    """The number of words is taken from the table."""
    write_json(folder / "options.json", {"lstm": options().lstm.to_dict()})
    with h5py.File(folder / "weights.hdf5", "w") as file:
        file.create_dataset("embedding", (10**12, 8), "float32")
    return folder


def _hdf5_with(write: Callable[[h5py.File], None]) -> Callable[[Path], Path]:
    def attack(folder: Path) -> Path:
        BilmTf().write(pretrained(), folder)
        with h5py.File(folder / "weights.hdf5", "r+") as file:
            if "CNN_proj/b_proj" in file:
                del file["CNN_proj/b_proj"]
            write(file)
        return folder

    return attack


def _external(file: h5py.File) -> None:
    file.create_dataset("CNN_proj/b_proj", (8,), "float32", external=[("/dev/zero", 0, 32)])


def _virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((8,), "float32")
    layout[:] = h5py.VirtualSource("/dev/zero", "any", (8,))
    file.create_virtual_dataset("CNN_proj/b_proj", layout)


def _link(file: h5py.File) -> None:
    file["of/no/use"] = h5py.ExternalLink("/dev/zero", "b_carry")


def _of_large_chunks(file: h5py.File) -> None:
    """A file of half a megabyte whose chunk takes half a gigabyte."""
    chunk = (2**27,)
    file.create_dataset("CNN_proj/b_proj", (8,), "float32", maxshape=(None,), chunks=chunk, compression="gzip")
    file["CNN_proj/b_proj"][...] = 1.0


def _type_in_the_place_of_numbers(file: h5py.File) -> None:
    file["CNN_proj/b_proj"] = np.dtype("float32")


def _circle(file: h5py.File) -> None:
    file["circle/again"] = file["circle"] if "circle" in file else file.create_group("circle")
    file["circle/more"] = file["circle"]


ATTACKS: dict[str, Callable[[Path], Path]] = {
    **{
        attack.__name__: attack
        for attack in (
            pickle_that_allocates,
            pickle_that_runs_code,
            pickle_of_many_instructions,
            pickle_behind_a_false_end,
            compressed_pickle,
            pickle_whose_members_share_their_bytes,
            old_pickle_that_claims_numbers,
            old_pickle_with_a_doubled_key,
            run_compressed_by_bzip2,
            archive_compressed_by_bzip2,
            many_langs_compressed_by_bzip2,
            zip_file_of_weights_by_bzip2,
            weights_of_overlapping_members,
            expanded_tensors_of_a_run,
            expanded_tensors_of_allennlps_elmo,
            expanded_tensors_of_many_langs,
            zip_file_by_another_method,
            zip_file_of_zeros,
            zip_file_of_many_files,
            zip_file_of_many_folders,
            tar_file_of_many_folders,
            zip_file_of_deep_folders,
            tar_file_of_zeros,
            tar_file_that_goes_back,
            tar_file_with_a_long_header,
            vocabulary_of_zeros,
            vocabulary_of_empty_lines,
            dictionary_of_many_lines,
            options_of_empty_lists,
            options_of_many_filters,
            filters_that_fill_the_error,
            sizes_outside_the_folder,
            contextualizer_that_connects,
            contextualizer_that_reads_a_file,
            contextualizer_of_many_convolutions,
            contextualizer_of_many_layers,
            hdf5_of_empty_datasets,
            hdf5_of_an_empty_table,
        )
    },
    "pickle_with_a_doubled_key": _pickle(b"}" + _doubled(60, tuple) + b"Ns"),
    "pickle_with_a_doubled_storage": _pickle(
        b"(X\x07\0\0\0storagectorch\nFloatStorage\n" + _doubled(60, tuple) + b"X\x03\0\0\0cpuK\x01tQ"
    ),
    "pickle_that_calls_a_doubled_list": _pickle(_doubled(60, list) + b")R"),
    "pickle_whose_items_are_a_number": _pickle(b"ccollections\nOrderedDict\n)R}X\x05\0\0\0itemsK\x01sb"),
    **{f"pipe_{name}": _pipe(name, write) for name, write in PIPES.items()},
    "vocabulary_of_empty_lines_in_metadata": _native_with(_vocabulary_of_empty_lines),
    "shape_beyond_integers": _native_with(_beyond_integers),
    "name_that_clears_the_screen": _native_with(_named_to_clear_the_screen),
    "format_that_clears_the_screen": _native_with(_of_a_format_that_clears_the_screen),
    **{f"endless_{name}": _in_folder_of_many_langs(name) for name in ("word.dic", "sizes.json")},
    **{
        f"numbers_of_type_{dtype}": _of_type(dtype, bits)
        for dtype, bits in (("BOOL", 8), ("C64", 64), ("F4", 4), ("F8_E8M0", 8))
    },
    "hdf5_external": _hdf5_with(_external),
    "hdf5_virtual": _hdf5_with(_virtual),
    "hdf5_link": _hdf5_with(_link),
    "hdf5_circle": _hdf5_with(_circle),
    "hdf5_of_large_chunks": _hdf5_with(_of_large_chunks),
    "hdf5_with_a_type_in_the_place_of_numbers": _hdf5_with(_type_in_the_place_of_numbers),
    "vocabulary_that_is_a_link": vocabulary_that_is_a_link,
    **{f"tensor_of_{n}_dimensions": _native_with(_of_many_dimensions(n)) for n in (30_000, 100_000)},
    "many_tensors": _native_with(_of_many_tensors),
}
