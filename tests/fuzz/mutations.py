"""Damage for valid inputs: of bytes, of JSON, and of the members of folders, zip and tar files."""

import io
import json
import re
import tarfile
import zipfile
from contextlib import suppress
from random import Random
from typing import Any

Files = dict[str, bytes]
"""The files of a folder by their names."""

SIZES = [*(2**bits + step for bits in (0, 7, 8, 15, 16, 31, 32, 63, 64) for step in (-1, 0, 1)), 10**12, 255, 262, 1000]
WORDS = (
    *("NaN", "-Infinity", "1e999", "-1", "0", "true", "null", "1" * 5000, "\\ud800", "\\u0000", "{}", "[]", '""'),
    *("../../outside", "/etc/passwd", "/dev/zero", "/dev/stdin", "~", ".", "a" * 5000, "http://[", "file:///dev/zero"),
    *("\0", "\r\n", "\n\n", "\ufeff", "\u2028", "\x85", "\x1a", "\t", '"', "'", "\\", "é", "🙂", "%s%n", "$(id)"),
)
CHANGES = ("flip", "cut", "truncate", "repeat", "splice", "noise", "binary number", "decimal number", "word")
LONGEST_JSON = 2**18
"""Characters; a longer text is not changed further. One change makes it 101 times as long at most."""
DEEP = "@deep"
"""A place in JSON for lists in lists, which `json.dumps` could not write."""


def mutate(random: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return the bytes after one to four changes; `other` is what parts of are put in."""
    for _ in range(random.choice((1, 1, 2, 4))):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice((1, 2, 4, 8, 16, 100, 1000, len(data))))
        old, new = data[start:end], b""
        change = random.choice(CHANGES)
        if change == "flip":
            new = bytes([(old[:1] or b"\0")[0] ^ 1 << random.randrange(8)]) + old[1:]
        elif change == "truncate":
            end = len(data)
        elif change == "repeat":
            new = old * (random.choice((2, 3, 50)) if len(old) < 5000 else 1)
        elif change == "splice":
            first = random.randrange(len(other) + 1)
            new = other[first : first + len(old)]
        elif change == "noise":
            new = random.randbytes(random.choice((1, 4, 40)))
        elif change == "binary number":
            width = random.choice((1, 2, 4, 8))
            number = random.choice((*SIZES, len(data), start, random.randrange(2**16))) % 2 ** (8 * width)
            new, end = number.to_bytes(width, random.choice(("little", "big"))), start + width
        elif change == "decimal number" and (found := re.compile(rb"\d+").search(data, start)):
            start, end = found.span()
            new = str(random.choice((*SIZES, -1, 0.5, -0.0, 10**400))).encode()
        elif change == "word":
            new, end = random.choice(WORDS).encode(), random.choice((start, end))
        data = data[:start] + new + data[end:]
    return data


def mutate_json(random: Random, text: bytes, other: bytes = b"{}") -> bytes:
    """Return a JSON text after one to four changes of its values and keys."""
    try:
        content, donor = json.loads(text), json.loads(other)
    except (ValueError, RecursionError):
        return mutate(random, text, other)
    holder = {"": content}
    for _ in range(random.choice((1, 1, 2, 4))):
        if len(json.dumps(holder)) <= LONGEST_JSON:  # copies of copies grow fast
            _change_value(random, holder, donor)
    written = json.dumps(holder[""], ensure_ascii=random.random() < 0.8)
    if DEEP in written:
        depth, (begin, end) = random.choice((50, 900, 1100, 30_000)), random.choice(("[]", ('{"a":', "}")))
        written = written.replace(f'"{DEEP}"', begin * depth + "1" + end * depth, 1)
    if random.random() < 0.05:  # a key twice
        written = re.sub(r'("\w+":)', rf"\g<1> {random.choice(WORDS[:7])}, \g<1>", written, count=1)
    return written.encode("utf-8", "surrogatepass")


def _change_value(random: Random, holder: dict[str, Any], donor: Any) -> None:
    places = list(_places(holder))
    block, key = random.choice(places[1:] if len(places) > 1 and random.random() < 0.95 else places)
    kind = random.randrange(6)
    if kind == 0 and block is not holder:
        del block[key]
    elif kind == 1 and isinstance(block, dict) and block is not holder:
        block[random.choice([*WORDS, str(key) + "x"])] = block.pop(key)
    elif kind == 2 and isinstance(block, list) and len(places) < 10_000:  # lists in lists grow fast
        block.extend(block[:] * random.choice((1, 3, 100)))
    elif kind in (3, 4):
        other, other_key = random.choice((places[1:] or places) if kind == 3 else list(_places({"": donor})))
        block[key] = json.loads(json.dumps(other[other_key]))
    else:
        size = random.choice(SIZES)
        block[key] = random.choice(
            (
                *(None, True, False, "", [], {}, 0, -1, 0.5, 1e308, float("nan"), float("inf"), -0.0, "\ud800", "\0"),
                *(size, -size, str(size), 10**400, [size] * 3, [[]], {"": None}),
                *(random.choice(WORDS), "word " * 1000, DEEP),
            )
        )


def _places(block: Any) -> Any:
    """Yield each object and list with each of its keys."""
    unread = [block]
    while unread:
        block = unread.pop()
        for key, value in list(block.items() if isinstance(block, dict) else enumerate(block)):
            yield block, key
            if isinstance(value, dict | list):
                unread.append(value)


def mutate_files(random: Random, files: Files, others: list[Files]) -> Files:
    """Return a folder in which a file is damaged, missing or another one."""
    files, donor = dict(files), random.choice(others)
    name = random.choice(list(files))
    other = donor.get(name, random.choice(list(donor.values())))
    chance = random.random()
    if chance < 0.05:
        del files[name]
    else:
        files[name] = other if chance < 0.1 else mutate_content(random, files[name], other)
    return files


def mutate_content(random: Random, data: bytes, other: bytes) -> bytes:
    """Return a file that is damaged in a way that its format cannot notice at once."""
    if data[:1] in b"{[" and random.random() < 0.7:
        return mutate_json(random, data, other)
    if data[:2] == b"PK" and random.random() < 0.8:  # a pickle of torch
        with suppress(Exception), zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
            name = random.choice(list(members))
            members[name] = mutate(random, members[name], random.choice(list(members.values())))
            return zip_files(members)
    return mutate(random, data, other)


def zip_files(files: Files, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return stream.getvalue()


def mutate_zip(random: Random, files: Files, others: list[Files]) -> bytes:
    """Return a zip file with damage inside or of its own structures."""
    if random.random() < 0.7:
        files = mutate_files(random, files, others)
    if random.random() < 0.1 and files:
        name = random.choice(list(files))
        odd = ("../" + name, "/" + name, "//" + name, "a//" + name, name + "/", "deep/" * 9000 + name, "\0", "")
        files[random.choice(odd)] = files.pop(name)
    data = zip_files(files, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return mutate(random, data) if random.random() < 0.3 else data


def mutate_tar(random: Random, files: Files, others: list[Files]) -> bytes:
    """Return a tar file with damage inside, with members that are no files, and with other names."""
    if random.random() < 0.7:
        files = mutate_files(random, files, others)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), random.choice((0o644, 0, 0o7777))
            if random.random() < 0.05:
                kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, b"S", b"L")
                info.size, info.type = 0, random.choice(kinds)
                info.linkname = random.choice(("../../outside", "/etc/passwd", "weights.th", name, "config.json"))
            if random.random() < 0.05:
                info.name = random.choice((f"../{name}", f"/tmp/{name}", f"./{name}", f"a/../../{name}", name * 40))
            archive.addfile(info, io.BytesIO(data) if info.size else None)
    data = stream.getvalue()
    return mutate(random, data) if random.random() < 0.3 else data
