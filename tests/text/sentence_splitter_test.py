"""Where sentences end, in several languages, and that no character is lost."""

import random

import pytest

from elmo_plugin.text import SentenceSplitter
from elmo_plugin.text.tokenizer import LONGEST_UNCUT

SENTENCES = [
    ("en", ["i went home.", "it was late."]),
    ("en", ['"Why?" asked he.', '"Go!', 'I will," he said.', "(He left.)", "Then he went."]),
    ("en", ["See Fig. 2 and No. 5, pp. 3 and vol. 3.", "Mr. Orrin knew.", "The dogs' house was empty."]),
    ("en", ["Well... that is all!", "Was it?", "‘Yes,’ he said.", "“No.”"]),
    (
        "en",
        ["She wrote to me.", "John said no.", "No.", "Anna loves art.", "So good!!", "I went.", "See No. 5, art. 3."],
    ),
    ("en", ["“No.”", "(He left (in a car).)", "[He came!]", "“Oh?”", '("Why?")', "(See [2].)", "He met A. (he said.)"]),
    ("en", ["It rained (he left.) then he went.", "(He left!) and went."]),
    ("zh", ["他来了。", "（他走了。）", "【她走了！】", "然后。"]),
    ("hi", ["वह आया।", "(वह गया।)", "फिर वह आई।"]),
    ("de", ["»Komm!« sagte er.", "„Nein.“", "Der 2. Band kam am 3. Mai, z. B. so.", "Im Jahr 1990.", "Dann ging er."]),
    pytest.param(
        "fr",
        [
            "M. Dupont est venu.",
            "Il vit A. Dumas et M. Orrin.",
            "« Viens ! » dit-il.",
            "« Pourquoi ? »",
            "— Non ! cria-t-il.",
            "— Oui, M. Dupont, art. 5.",
        ],
        marks=pytest.mark.slow,  # spaCy makes its rules for French in seconds
    ),
    ("ru", ["А. С. Пушкин родился.", "Б. Иванов знал М. Горького.", "(Он ушёл.)", "Да."]),
    ("it", ["A. Manzoni scrisse.", "Così G. Verga.", "Sì."]),
    ("pt", ["Ver pág. 5 e Pág. 7.", "Fim."]),
    (
        "la",
        ["quid C. Caesar fecit?", "a. d. V Kal. Mart. Cn. Pompeius, Ti. Gracchus L. f. venit.", "abiit P. Valerius."],
    ),
    ("ja", ["今日は雨。", "帰ろう！"]),
    ("xx", ["今日は雨。", "帰ろう！"]),
    ("zh", ["他来了。", "她走了！"]),
    ("el", ["Τι κάνεις;", "Καλά."]),
    ("hi", ["यह है।", "वह था।"]),
    ("ar", ["من أنت؟", "أنا هنا."]),
    ("hy", ["Բարեւ։", "Ինչպես ես։"]),
    ("am", ["ሰላም።", "እንዴት ነህ።"]),
    ("km", ["សួស្តី។", "តើអ្នក។"]),
    ("bo", ["ང་ཡིན།", "ཁྱོད་རེད།"]),
    ("cy", ["Mae hen wlad.", "Mae hi."]),
]


@pytest.mark.parametrize(("language", "sentences"), SENTENCES)
def test_sentences_of_many_languages_end_where_they_end(language: str, sentences: list[str]) -> None:
    joint = "" if language in ("ja", "xx", "zh") else " "
    splitter = SentenceSplitter("xx" if language == "ja" else language)  # the tokens of Japanese need a library
    assert [sentence.strip() for sentence in splitter.split(joint.join(sentences))] == sentences


def test_a_dash_alone_belongs_to_the_sentence_after_it_and_other_marks_to_the_one_before() -> None:
    splitter = SentenceSplitter("en")
    assert [text.strip() for text in splitter.split("He came. — Then he left. ...")] == [
        "He came.",
        "— Then he left. ...",
    ]


def test_a_text_in_parts_has_the_sentences_of_the_whole_and_loses_nothing() -> None:
    generator = random.Random(1)
    text = " ".join(f"Word {number} is “here”, isn't it?" for number in range(3000))
    cuts = sorted(generator.sample(range(len(text)), 500))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    splitter = SentenceSplitter("en")
    sentences = list(splitter.sentences(parts))
    assert len(sentences) == 3000 and sentences == list(splitter.sentences([f"{text}\n"]))
    assert "".join("".join(tokens) for tokens in sentences) == text.replace(" ", "")


def test_a_text_without_ends_is_cut_at_white_space() -> None:
    text = "word and " * (LONGEST_UNCUT // 4)
    sentences = list(SentenceSplitter("en").sentences(text[start : start + 50] for start in range(0, len(text), 50)))
    assert len(sentences) > 1 and {word for tokens in sentences for word in tokens} == {"word", "and"}
    assert sum(map(len, sentences)) == 2 * (LONGEST_UNCUT // 4)
