"""Write sentences in which "play", "bank" and "ship" are used in several ways; then the same sentences with tags."""

import random
from itertools import product

SUBJECTS = ["the captain", "an old sailor", "my sister", "the teacher", "their neighbour", "a young man"]
USES = [
    "went to the play in the evening",
    "will play with the children",
    "wrote a play about a king",
    "can play the piano",
    "liked the play at the theatre",
    "let them play in the garden",
    "sat on the bank of the river",
    "took money to the bank",
    "fished from the bank of the stream",
    "borrowed from the bank in town",
    "sailed on the ship to the north",
    "will ship the goods by rail",
    "left the ship in the harbour",
    "can ship the books to London",
]
TAGS = {
    "DET": "the an my their a",
    "ADP": "to in on of with at from by about",
    "AUX": "will can",
    "VERB": "went wrote liked let sat took fished borrowed sailed left",
    "ADJ": "old young",
    "PRON": "them",
    "PUNCT": ".",
}
TAG_OF = {word: tag for tag, words in TAGS.items() for word in words.split()}
VERBS = {"will play", "can play", "them play", "will ship", "can ship"}  # elsewhere both are nouns


def tag(words):
    for before, word in zip(["", *words[:-1]], words, strict=True):
        yield word, "VERB" if f"{before} {word}" in VERBS else TAG_OF.get(word, "NOUN")


def write_tags(path, sentences):
    with open(path, "w") as file:
        for sentence in sentences:
            for word, label in tag(sentence.split()):
                print(word, label, sep="\t", file=file)
            print(file=file)


sentences = [f"{subject} {use} ." for use, subject in product(USES, SUBJECTS)]
random.Random(1).shuffle(sentences)
with open("sentences.txt", "w") as file:
    print(*sentences, sep="\n", file=file)
write_tags("train.conll", sentences[::2])
write_tags("dev.conll", sentences[1::2])
