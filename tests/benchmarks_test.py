"""Each benchmark at a toy size and in this process: it runs and prints whole tables. Times are not checked."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import commits, embed, growth, load, long, systems
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.agreement import token_mask
from benchmarks.bilms import options_of, write_random_weights
from benchmarks.calls import count_calls
from benchmarks.memory import Peak
from benchmarks.products import FLOAT32_MM, BareProducts, shapes_of
from benchmarks.table import processor
from benchmarks.text import Batching, made_up
from elmo_plugin.elmo import ElmoTokenEmbedder
from elmo_plugin.text import batch_to_ids

CPU = torch.device("cpu")
SENTENCES = [["a", "b"], ["c"], ["a", "d", "e"], ["f"] * 9]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use made-up text, no other process, and small sizes."""
    monkeypatch.delenv("LM_HELDOUT", raising=False)
    for module in (embed, growth, long):
        monkeypatch.setattr(module, "peak_of", lambda *work: Peak(30.0, 20.0))
    monkeypatch.setattr(load, "in_new_process", lambda work, *arguments: work(*arguments))
    monkeypatch.setattr(embed, "BATCH_SIZE", 4)
    monkeypatch.setattr(growth, "BATCHING", Batching(2, "sentences"))
    monkeypatch.setattr(growth, "BATCH_SIZES", (2, 4))
    monkeypatch.setattr(growth, "PARTS", (2, 1))
    monkeypatch.setattr(growth, "TOKENS_PER_TYPE", (8, 2))
    monkeypatch.setattr("benchmarks.layers.BATCH_SIZE", 4)
    monkeypatch.setattr("benchmarks.pretrain.BATCHES", 1)
    monkeypatch.setattr("benchmarks.pretrain.PEAK_SIZES", {"cpu": 64})
    monkeypatch.setattr("benchmarks.tagger.BATCH_SIZE", 4)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def run(benchmark: str, *arguments: str) -> int:
    """Run the command at the size for tests."""
    return main([benchmark, *arguments, "--size", "toy", "--tokens", "120", "--repeats", "1"])


def tables(markdown: str) -> list[list[list[str]]]:
    """Return the cells of each table, its header first."""
    blocks = [block.splitlines() for block in markdown.split("\n\n") if block.startswith("|")]
    return [[[cell.strip() for cell in line.split("|")[1:-1]] for line in block] for block in blocks]


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_benchmark_prints_whole_tables(
    benchmark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # After tests/lstm, this process would run `fused` in Triton's interpreter, for minutes.
    monkeypatch.setattr(systems, "KERNELS", [name for name in systems.KERNELS if name != "fused"])
    output = tmp_path / "results.md"
    assert run(benchmark, "--output", str(output)) == 0
    printed = capsys.readouterr().out
    assert output.read_text(encoding="utf-8") == printed
    for header, rule, *rows in tables(printed):
        assert {len(row) for row in [header, rule, *rows]} == {len(header)}
        assert rows and all(row[1] for row in rows)


@pytest.mark.slow
def test_different_vectors_are_not_timed_and_exit_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layers = systems.OurEmbedder.layers
    monkeypatch.setattr(systems.OurEmbedder, "layers", lambda self, ids: layers(self, ids) + 2e-5)
    assert run("embed") == 1
    printed = capsys.readouterr()
    assert "| AllenNLP |" not in printed.out
    assert "2.0e-05" in printed.err and "1e-05" in printed.err


def test_the_limit_has_exactly_the_products_of_the_biLM() -> None:
    options = options_of("toy")  # H = 64, P = 32, filters of 1, 2 and 3 of 16-dimensional characters, one highway
    with FlopCounterMode(display=False) as counter:
        BareProducts(options, FLOAT32_MM, CPU)(shapes_of([SENTENCES]))
    tokens, words, characters = 15 + 2 * 4, 6 + 2, 1 + 2 + 3  # boundaries; begin-word, end-word and a window of padding
    lstms = 4 * tokens * (2 * 256 * 32 + 32 * 64)
    windows = sum((characters - size + 1) * size * 16 * channels for size, channels in ((1, 8), (2, 16), (3, 24)))
    assert counter.get_total_flops() == 2 * (lstms + words * (windows + 48 * 96 + 48 * 32))


@pytest.mark.slow
def test_every_system_computes_the_same_vectors_and_can_be_sent_to_another_process(tmp_path: Path) -> None:
    write_random_weights(options_of("toy"), tmp_path)
    ids = batch_to_ids(SENTENCES[:3])  # Triton's interpreter takes seconds for longer ones
    answers: list[Tensor] = []
    for system in systems.all_systems(CPU):
        embedder = pickle.loads(pickle.dumps(system)).load(tmp_path, CPU)
        layers = embedder.layers(ids)  # (L, B, T + 2, D)
        embedder.clear()
        answers.append(layers[:, token_mask(ids)])
        inside = layers[:, :, 1:-1]
        if isinstance(embedder, systems.OurEmbedder):
            inside, _ = embedder.elmo.layers(ids, keep_sentence_boundaries=False)
        mean = inside.mean(dim=0)  # an untrained mix is the mean, and leaves the boundaries out
        torch.testing.assert_close(embedder.embed(ids)[2], mean[2], atol=1e-5, rtol=0)
    assert len(answers) >= 5
    assert all(torch.allclose(answer, answers[0], atol=0.05) for answer in answers)
    assert float(answers[0].abs().max()) > 0.2


@pytest.mark.slow
def test_every_token_of_a_long_run_comes_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{' '.join(sentence)}\n" for sentence in made_up(3000)), encoding="utf-8")
    assert load.main(["embed", "pretrain", "words", "--text", str(text), "--tokens", "9000"]) == 0
    ((_, _, *rows),) = tables(capsys.readouterr().out)
    assert [row[0] for row in rows] == ["embed", "pretrain", "words"]
    assert all(row[2] == row[3] != "0" for row in rows)


def test_a_frozen_bilm_takes_few_calls_and_few_frames() -> None:
    """The limits of the main path, which `python -m benchmarks.calls` lists."""
    count = count_calls(ElmoTokenEmbedder(bilm="english-tiny", dropout=0.0).eval(), ["A", "sentence", "."])
    assert count.calls.total() <= 80 and count.depth <= 8, count.calls


@pytest.mark.slow
def test_two_commits_are_compared_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=commits.ROOT, capture_output=True).returncode:
        pytest.skip("this is no checkout")
    assert commits.main(["HEAD", "--size", "toy", "--tokens", "60", "--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    ((header, _, *rows),) = tables(printed)
    assert header == ["", "`HEAD`", "this checkout", "ratio"] and len(rows) == 5
    assert all(cell.endswith("s") for row in rows for cell in row[1:3]) and processor(CPU) in printed
