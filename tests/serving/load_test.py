"""The load benchmark, with a server in a thread and not in a process, tells right answers from wrong ones."""

from types import SimpleNamespace

import pytest

from benchmarks import serve
from elmo_plugin.serving import ServedModel
from tests.serving_oracles import Client


def test_all_answers_under_load_are_right(
    tagger: ServedModel, tagger_client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process = SimpleNamespace(kill=lambda: None)
    times = iter(range(9))
    server = SimpleNamespace(port=tagger_client.port, memory=lambda name="": 1.0, process=process, log=[])
    server.processor_seconds = times.__next__
    monkeypatch.setattr(serve, "Server", lambda name: server)
    monkeypatch.setattr(serve, "load_served", lambda name: tagger)
    monkeypatch.setattr(serve, "crowd", lambda *_: [])  # it waits for the limit of seconds
    monkeypatch.setattr(serve, "stop_under_load", lambda *_: (143, []))
    assert serve.main(["model", "--requests", "16", "--clients", "2", "--questions", "4"]) == 0
    printed = capsys.readouterr().out
    assert "| requests | 16 |" in printed and "| wrong answers | 0 |" in printed
    wrong = serve.Right("/tag", b'{"sentences": ["A"]}', [{}])
    monkeypatch.setattr(serve, "right_requests", lambda *_: [wrong])
    assert serve.main(["model", "--requests", "8", "--clients", "1"]) == 1


def test_answers_that_differ_in_anything_but_rounding_are_wrong() -> None:
    answer = {"tags": ["O"], "probabilities": [0.5, 0.25]}
    assert serve.difference(answer, dict(answer)) == 0
    assert 0 < serve.difference({**answer, "probabilities": [0.5, 0.2500001]}, answer) < serve.MOST_DIFFERENCE
    for wrong in (None, {}, {**answer, "tags": ["B"]}, {**answer, "probabilities": [0.5]}, {**answer, "more": 1}):
        assert serve.difference(wrong, answer) == float("inf")
