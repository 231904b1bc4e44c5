"""How the command starts and ends. Each wrong use ends with one line and exit code 1."""

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from typing import Any
from urllib.request import urlopen

import pytest

from tests.commands.alone import run
from tests.serving_oracles import FILES

TAGGER = FILES / "elmo_tagger.tar.gz"


def test_it_serves_until_a_signal(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = {}

    def use() -> None:
        printed, end = "", time.monotonic() + 120
        while not (address := re.search(r"http://\S+/", printed)):
            if time.monotonic() > end:
                return
            time.sleep(0.05)
            printed += capsys.readouterr().err
        found["address"] = address[0]
        try:
            found["limits"] = json.load(urlopen(f"{address[0]}model", timeout=30))["limits"]
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    user = threading.Thread(target=use)
    user.start()
    with pytest.raises(SystemExit) as end:
        run("serve-elmo", TAGGER, "--port", 0, "--limit", "sentences=7")
    user.join()
    assert end.value.code == 143 and found["limits"]["sentences"] == 7
    with pytest.raises(OSError):
        urlopen(found["address"], timeout=10)


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (("nowhere",), "nowhere"),
        ((TAGGER, "--limit", "sentence=7"), "'sentence'"),
        ((TAGGER, "--language", "xyz"), "'language'"),
        ((TAGGER, "--host", "192.0.2.1"), "192.0.2.1"),
    ],
)
def test_an_error_is_one_line(arguments: tuple[object, ...], fact: str) -> None:
    with pytest.raises(SystemExit) as error:
        run("serve-elmo", *arguments, "--port", 0)
    text = str(error.value)
    assert text.startswith("serve-elmo: ") and "\n" not in text and fact in text


def test_a_port_in_use_is_reported_before_the_model_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SystemExit, match=rf"^serve-elmo: 127\.0\.0\.1:{port}: .*--port"):
            run("serve-elmo", "nowhere", "--port", port)


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("elmo_plugin.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(SystemExit, match=r"^serve-elmo: fastapi .*elmo-plugin\[serve\]"):
        run("serve-elmo", TAGGER)
