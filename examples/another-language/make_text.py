"""Write two small Latin books as raw text, with wrapped lines and praenomina, and a small treebank."""

import random
import textwrap
from pathlib import Path

draw = random.Random(1)
ENDINGS = {
    "Fem": {"Sing": ["a", "am", "ae", "ae"], "Plur": ["ae", "as", "arum", "is"]},
    "Masc": {"Sing": ["us", "um", "i", "o"], "Plur": ["i", "os", "orum", "is"]},
}
CASES = ["Nom", "Acc", "Gen", "Dat"]
STEMS = {
    "Fem": "puell femin serv domin regin filiol amic vicin magistr capr aquil column ros fabul epistul coron pecuni "
    "statu tabul sagitt port vi silv insul tub hast cen",
    "Masc": "serv domin fili amic vicin medic nunti popul equ lup taur agn agell hort camp vic mur gladi lud cib numer "
    "vent annul circ fluvi rivul digit ocul ram fum",
}
VERBS = "am laud voc serv par port don cel mut purg nunti monstr lav vit orn salut spect puls port"
CAUSES = ["quod", "dum", "quamquam"]
NAMES = ["M. Claudius", "C. Servius", "P. Titius", "L. Marcius"]


def noun(case, number):
    """Return a noun in a case and a number, with its tag and its features."""
    gender = draw.choice(["Fem", "Masc"])
    word = draw.choice(STEMS[gender].split()) + ENDINGS[gender][number][CASES.index(case)]
    return word, "NOUN", f"Case={case}|Gender={gender}|Number={number}"


def clause():
    """Return a clause: who, whose, to whom, what, and a verb that agrees with its subject."""
    number = draw.choice(["Sing", "Plur"])
    words = [noun("Nom", number)]
    if draw.random() < 0.4:
        words.append(noun("Gen", draw.choice(["Sing", "Plur"])))
    if draw.random() < 0.4:
        words.append(noun("Dat", draw.choice(["Sing", "Plur"])))
    words.append(noun("Acc", draw.choice(["Sing", "Plur"])))
    ending = "at" if number == "Sing" else "ant"
    features = f"Mood=Ind|Number={number}|Person=3|Tense=Pres|VerbForm=Fin"
    return [*words, (draw.choice(VERBS.split()) + ending, "VERB", features)]


def sentence():
    """Return the words of a sentence, each with its tag and its features."""
    words = clause()
    if draw.random() < 0.3:
        words += [(",", "PUNCT", "_"), (draw.choice(CAUSES), "SCONJ", "_"), *clause()]
    return [*words, (".", "PUNCT", "_")]


def book(sentences):
    """Return the text of a book, its lines wrapped."""
    text = []
    for _ in range(sentences):
        words = " ".join(word for word, _, _ in sentence()).replace(" ,", ",").replace(" .", ".")
        name = f"{draw.choice(NAMES)} scribit: " if draw.random() < 0.05 else ""
        text.append(name + words[0].upper() + words[1:])
    return textwrap.fill(" ".join(text), 66) + "\n"


def treebank(sentences):
    """Return sentences in the form of Universal Dependencies."""
    lines = []
    for _ in range(sentences):
        for number, (word, tag, features) in enumerate(sentence(), 1):
            lines.append("\t".join([str(number), word, "_", tag, "_", features, *"____"]))
        lines.append("")
    return "\n".join(lines) + "\n"


Path("raw").mkdir(exist_ok=True)
for name in ("first", "second"):
    Path(f"raw/{name}.txt").write_text(book(3000), encoding="utf-8")
Path("train.conllu").write_text(treebank(40), encoding="utf-8")
Path("dev.conllu").write_text(treebank(200), encoding="utf-8")
