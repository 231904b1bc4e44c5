"""`python -m benchmarks.serve`: compare a server, under load and hostile requests, with the predictors alone."""

import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError

from benchmarks.memory import MIB, status
from benchmarks.table import Table, machine
from elmo_plugin.commands.arguments import count
from elmo_plugin.serving import ServedModel, load_served

DESCRIPTION = """
Serve a model in a process of its own, and send it requests from several clients at the same time. Seven of ten requests
are valid: they ask for tags, log probabilities or vectors of one to eight sentences, in many scripts, some of them
empty or with lone surrogates or words of 300 bytes. The others are invalid: not JSON, of wrong types, too large, too
deep, or broken off.

Every answer to a valid request is compared with the predictor alone, one sentence at a time. The table has the requests
per second, the latency, the statuses, the largest difference, and the memory before and after.

Then connections that send nothing or half a header are held open while valid requests are sent, and at last the server
gets SIGTERM while all clients wait for answers. The exit code is 1 if a valid request gets a wrong answer or none, or
if an invalid one gets an answer or a traceback.

  python -m benchmarks.serve runs/demo/model.tar.gz --requests 4000
"""
MOST_DIFFERENCE = 1e-4
"""The largest allowed difference between a sentence's answers in a batch and alone, relative for numbers above 1."""
QUARTERS = 4
HALF = b"POST /tag HTTP/1.1\r\nHost: 127."
CROWD_REQUESTS = 20
SCRIPTS = (
    "Greta sailed to Port Orrin .",
    "日本語 の 文",
    "нет , спасибо",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "🙂 👩‍👩‍👧 ﷽",
    "ก็ไม่",
)
PATHS = ("/tag", "/classify", "/log-probabilities", "/embed")
ERRORS = (400, 404, 405, 408, 413, 422)


class Right(NamedTuple):
    """A valid request: its path, its body, and the right answers."""

    path: str
    body: bytes
    answers: list[Any]


def sentence(draw: random.Random) -> Any:
    """Return a sentence as a client may send it: raw text or a list of words."""
    words = [word for _ in range(draw.randrange(4)) for word in draw.choice(SCRIPTS).split()]
    odd = ["é" * 150, "\ud800", "\x00", "", "<img src=x>", "a" * 300, "\u202e"]
    words += draw.sample(odd, draw.randrange(3))
    draw.shuffle(words)
    return words if draw.random() < 0.5 else " ".join(words)


def right_requests(model: ServedModel, number: int, draw: random.Random) -> list[Right]:
    """Return valid requests with the answers of the predictors alone: each sentence by itself, in one thread."""
    tasks = {f"/{model.label_task}": model.label, "/log-probabilities": model.log_probabilities, "/embed": None}
    is_served = {"/log-probabilities": model.language_model is not None, "/embed": bool(model.embedders)}
    paths = [path for path in PATHS if path in tasks and is_served.get(path, True)]
    found = []
    for _ in range(number):
        path, given = draw.choice(paths), [sentence(draw) for _ in range(draw.randint(1, 8))]
        task = tasks[path]
        if task == model.label:
            answers = [model.label([each])[0] for each in given]
        elif task is not None:
            answers = [task(model.read([each]))[0] for each in given]
        else:
            embed = model.embedders["average"].embed
            words = [model.read([each])[0] for each in given]
            answers = [{"tokens": each, "vectors": embed([each])[0].tolist()} for each in words]
        found.append(Right(path, json.dumps({"sentences": given}).encode(), answers))
    return found


def wrong_requests(path: str) -> list[tuple[str, str, bytes]]:
    """Return invalid requests, which must get an error: method, path and body."""
    bodies: list[bytes] = [b"", b"{", b"\xff\xfe", b"null", b"[" * 100_000, b"9" * 10_000, b"x" * 3_000_000]
    bodies += [b'{"sentences": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}"]
    many = ((b"0,", b"0"), (b"[],", b"[]"), (b"{},", b"{}"), (b'"",', b'""'))
    bodies += [b'{"sentences": [' + item * (260_000 // len(item)) + last + b"]}" for item, last in many]
    bodies += [b"{" + b",".join(b'"%x":0' % number for number in range(25_000)) + b"}"]
    values: list[Any] = [[], 5, "text", None, {"sentences": "text"}, {"sentences": [5]}, {"sentences": [["a", None]]}]
    values += [{"sentences": ["a"], "more": 1}, {"sentences": ["a"] * 65}, {"sentences": ["w " * 600]}]
    values += [
        {"sentences": ["a" * 501]},
        {"sentences": [["\ud800" * 501]]},
        {"sentences": ["(" * 200_000]},
        {"sentences": [[["a"]]]},
    ]
    posts = [("POST", path, body) for body in [*bodies, *(json.dumps(value).encode() for value in values)]]
    return [*posts, ("GET", path, b""), ("POST", "/nowhere", b"{}"), ("DELETE", "/", b"")]


def difference(found: Any, wanted: Any) -> float:
    """Return the largest difference of numbers, or infinity if anything else differs."""
    if isinstance(wanted, dict) and isinstance(found, dict) and found.keys() == wanted.keys():
        return max((difference(found[key], wanted[key]) for key in wanted), default=0.0)
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return max(map(difference, found, wanted), default=0.0)
    if isinstance(wanted, float) and isinstance(found, float):
        return abs(found - wanted) / max(1.0, abs(wanted))
    return 0.0 if found == wanted else float("inf")


class Load:
    """Sends requests, and collects what the clients found."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.statuses: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.seconds: list[float] = []
        self.difference, self.equal, self.duration = 0.0, 0, 0.0
        self._lock = threading.Lock()

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Return the status and the value of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def ask_right(self, request: Right) -> None:
        """Send a valid request, and compare the answers."""
        start = perf_counter()
        code, value = self.ask("POST", request.path, request.body)
        seconds = perf_counter() - start
        found = difference(value.get("answers"), request.answers)
        with self._lock:
            self.seconds.append(seconds)
            self.statuses[f"right: {code}"] += 1
            self.equal += found == 0
            if code == 200 and found < MOST_DIFFERENCE:
                self.difference = max(self.difference, found)
            else:
                self.wrong.append(f"{request.path} {request.body[:100]!r}: {code}, difference {found}")

    def ask_wrong(self, method: str, path: str, body: bytes) -> None:
        """Send an invalid request, and check that the answer is an error."""
        code, value = self.ask(method, path, body)
        with self._lock:
            self.statuses[f"wrong: {code}"] += 1
            if code not in ERRORS or value.keys() != {"error"} or "Traceback" in value["error"]:
                self.wrong.append(f"{method} {path} {body[:100]!r}: {code} {value}")

    def leave(self, body: bytes) -> None:
        """Send half of a request and close the connection."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.putrequest("POST", "/tag")
        connection.putheader("Content-Length", str(2 * len(body) + 1))
        connection.endheaders(body)
        connection.close()
        with self._lock:
            self.statuses["broken off"] += 1


class Server:
    """The command `serve-elmo` in a process of its own, as users start it."""

    def __init__(self, model: str) -> None:
        command = [sys.executable, "-m", "elmo_plugin", "serve-elmo", model, "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        lines: list[str] = []
        for line in self.process.stderr:
            lines.append(line)
            if found := re.search(r"http://[^/]*:(\d+)/", line):
                self.port = int(found[1])
                break
        else:
            raise ConfigurationError("".join(lines).strip())
        self.log: list[str] = []
        self._reader = threading.Thread(target=self.log.extend, args=[self.process.stderr])
        self._reader.start()

    def memory(self, name: str = "VmRSS") -> float:
        """Return the MiB that the process has in memory, or with `VmHWM` the most that it had."""
        return status(name, self.process.pid) / MIB

    def processor_seconds(self) -> float:
        """Return the processor time of the process, which other programs on the machine hardly change."""
        ticks = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        self._reader.join()
        return code


def one_by_one(server: Server, load: Load, path: str) -> list[str]:
    """Send each invalid request alone, and return what the most expensive one costs the server."""
    seconds = []
    for request in wrong_requests(path):
        before = server.processor_seconds()
        load.ask_wrong(*request)
        seconds.append(server.processor_seconds() - before)
    return ["the most expensive wrong request, s of processor time", f"{max(seconds):.2f}"]


def client(load: Load, right: list[Right], number: int, draw: random.Random) -> None:
    """Send requests one after the other: seven of ten are valid."""
    wrong = wrong_requests(right[0].path)
    for _ in range(number):
        chance = draw.random()
        try:
            if chance < 0.7:
                load.ask_right(draw.choice(right))
            elif chance < 0.97:
                load.ask_wrong(*draw.choice(wrong))
            else:
                load.leave(draw.choice(right).body)
        except (OSError, HTTPException, ValueError) as error:
            load.wrong.append(f"no answer: {error!r}")


def under_load(load: Load, right: list[Right], requests: int, clients: int, seed: str) -> None:
    """Run several clients at the same time."""
    threads = [
        threading.Thread(target=client, args=(load, right, requests // clients, random.Random(f"{seed} {number}")))
        for number in range(clients)
    ]
    start = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.duration += perf_counter() - start


def crowd(server: Server, load: Load, right: list[Right], n_connections: int) -> list[list[str]]:
    """Send valid requests while other connections send nothing or half a header, and wait until those are closed."""
    n_before = len(load.seconds)
    with ExitStack() as stack:
        held = []
        for number in range(n_connections):
            held.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=120)))
            held[-1].sendall(HALF if number % 2 else b"")
        start = perf_counter()
        for request in right[:CROWD_REQUESTS]:
            load.ask_right(request)
        memory = server.memory()
        for connection in held:
            with suppress(ConnectionResetError):
                connection.recv(1)
        closed = perf_counter() - start
    seconds = sorted(load.seconds[n_before:])
    return [
        ["connections without a request", f"{n_connections:,}, closed within {closed:.0f} s"],
        ["a right request among them, median and slowest", f"{_at(seconds, 0.5)} and {_at(seconds, 1)} ms"],
        ["MiB with these connections", f"{memory:,.0f}"],
    ]


def stop_under_load(server: Server, load: Load, right: list[Right], n_clients: int) -> tuple[int, list[list[str]]]:
    """Send SIGTERM while all clients wait for answers. Each gets its answer, or no connection."""
    refused: list[str] = []
    n_before = len(load.seconds)

    def ask(first: int) -> None:
        for request in right[first:] + right[:first]:
            try:
                load.ask_right(request)
            except ConnectionError as error:
                refused.append(type(error).__name__)
                return

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(n_clients)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    start = perf_counter()
    code = server.stop()
    seconds = perf_counter() - start
    for thread in threads:
        thread.join()
    answered = (
        f"{len(load.seconds) - n_before}, then {', '.join(f'{n} {name}' for name, n in Counter(refused).items())}"
    )
    return code, [
        ["SIGTERM under load: exit code and seconds", f"{code}, {seconds:.1f} s"],
        ["SIGTERM under load: answers before the end", answered],
    ]


def measure(args: argparse.Namespace) -> tuple[Table, bool]:
    """Return the table of a run, and whether every answer was right."""
    right = right_requests(load_served(args.model), args.questions, random.Random(0))
    server = Server(args.model)
    load = Load(server.port)
    memory = [server.memory()]
    try:
        alone = one_by_one(server, load, right[0].path)
        before = server.processor_seconds()
        for quarter in range(QUARTERS):
            under_load(load, right, args.requests // QUARTERS, args.clients, str(quarter))
            memory.append(server.memory())
        seconds, n_requests, duration = sorted(load.seconds), sum(load.statuses.values()), load.duration
        processor_seconds = server.processor_seconds() - before
        more = crowd(server, load, right, args.connections)
        peak = server.memory("VmHWM")
        code, stopping = stop_under_load(server, load, right, args.clients)
    finally:
        server.process.kill()
    rows = [
        ["requests", f"{n_requests:,}"],
        ["requests/s", f"{n_requests / duration:.1f}"],
        ["requests per second of the server's processor time", f"{n_requests / processor_seconds:.1f}"],
        ["a right request, median and 99th percentile", f"{_at(seconds, 0.5)} and {_at(seconds, 0.99)} ms"],
        *([f"status, {name}", f"{count:,}"] for name, count in sorted(load.statuses.items())),
        alone,
        ["wrong answers", f"{len(load.wrong):,}"],
        ["equal bit for bit", f"{load.equal:,} of {len(load.seconds):,}"],
        ["largest difference of the others", f"{load.difference:.1e}"],
        ["MiB before, after each quarter, peak", ", ".join(f"{each:,.0f}" for each in [*memory, peak])],
        *more,
        *stopping,
        ["lines in the log of the server", f"{len(server.log)}"],
    ]
    for line in [*load.wrong[:10], *server.log[:20]]:
        print(line.rstrip(), file=sys.stderr)
    is_right = not load.wrong and not server.log and code == 128 + signal.SIGTERM
    return Table("Serving", f"{args.clients} clients at the same time.", ["", ""], rows), is_right


def _at(seconds: list[float], share: float) -> str:
    return f"{1000 * seconds[int(share * (len(seconds) - 1))]:.0f}"


def main(arguments: Optional[list[str]] = None) -> int:
    """Measure and print a table. Return 1 for a wrong answer, and 2 for a model that cannot be served."""
    args = parse(arguments)
    try:
        table, is_right = measure(args)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    print(*machine("benchmarks.serve"), *table.lines(), sep="\n")
    return int(not is_right)


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serve", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="as for `elmo-plugin serve-elmo`")
    add("--requests", type=count, default=2000, metavar="N", help="default: 2000")
    add("--clients", type=count, default=8, metavar="N", help="default: 8")
    add("--connections", type=count, default=1000, metavar="N", help="without a request; default: 1000")
    add("--questions", type=count, default=200, metavar="N", help="different valid requests; default: 200")
    args = parser.parse_args(arguments)
    if args.requests < QUARTERS * args.clients:
        parser.error(
            f"--requests: expected at least {QUARTERS} for each of {args.clients} clients, got {args.requests}"
        )
    return args


if __name__ == "__main__":
    sys.exit(main())
