"""Write a small text of a made-up domain, ships' logs: many plain sentences, and a few with tags."""

import random

draw = random.Random(1)
SYLLABLES = "bar dor el fen gar hol ka lin mor nes or pel ri sal tor wick"


def names(number):
    """Return made-up names; no two are equal."""
    made = {"".join(draw.sample(SYLLABLES.split(), draw.randint(2, 3))).capitalize() for _ in range(2 * number)}
    return sorted(made)[:number]


every = names(450)
draw.shuffle(every)
NAMES = {"PERSON": every[:150], "SHIP": every[150:300], "PORT": every[300:]}
TEMPLATES = [
    "captain PERSON sailed from PORT on the third of may .",
    "the SHIP left PORT with a cargo of salt .",
    "at noon the SHIP was seen off PORT .",
    "PERSON signed on as cook of the SHIP .",
    "we met the SHIP , two days out of PORT .",
    "old PERSON told us that the SHIP had sunk .",
    "the mate , PERSON , was put ashore at PORT .",
    "no wind today ; the SHIP lies at anchor .",
    "PERSON and PERSON went ashore to buy water .",
    "the harbour of PORT was closed by ice .",
    "wrote to PERSON from PORT .",
    "the crew of the SHIP refused to row .",
]


def sentence():
    """Return one sentence's tokens and their tags."""
    tokens = draw.choice(TEMPLATES).split()
    tags = [token if token in NAMES else "O" for token in tokens]
    return [draw.choice(NAMES[token]) if token in NAMES else token for token in tokens], tags


def write_text(path, number):
    with open(path, "w") as file:
        for _ in range(number):
            print(*sentence()[0], file=file)


def write_tags(path, number):
    with open(path, "w") as file:
        for _ in range(number):
            for token, tag in zip(*sentence(), strict=True):
                print(token, tag, file=file)
            print(file=file)


write_text("logs.txt", 6000)
write_text("heldout.txt", 500)
write_tags("train.conll", 20)
write_tags("dev.conll", 200)
