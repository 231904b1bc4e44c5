"""BERT and GPT-2 of the size of `english-tiny`, trained by transformers' own `Trainer` on word pieces of the text.

The recipe is that of transformers' examples `run_mlm.py` and `run_clm.py`: the text is joined and cut into blocks. The
learning rate is higher than theirs, because a small model is trained from scratch. It rises for 6 % of the steps, and
for BERT for `MASKED_WARMUP` at least: with 38 its loss stayed on a plateau.
"""

import math
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from experiments.why_elmo.training import Training
from experiments.why_elmo.vectors import Embed

WORD_PIECES = 12000
BLOCK = 128
MASKED_WARMUP = 173
SPECIAL = {
    name: f"[{name[:-6].upper()}]" for name in ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
}


def tokenizer(training: Training) -> PreTrainedTokenizerFast:
    """Return word pieces trained on the text, with case. They are trained once."""
    folder = training.folder / "tokenizer"
    if not folder.exists():
        pieces = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        pieces.normalizer = normalizers.NFC()
        pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        pieces.decoder = decoders.WordPiece()
        special = list(SPECIAL.values())
        pieces.train(
            [str(path) for path in training.shards()],
            trainers.WordPieceTrainer(vocab_size=WORD_PIECES, special_tokens=special),
        )
        ids = [(token, pieces.token_to_id(token)) for token in special]
        pieces.post_processor = processors.BertProcessing(ids[3], ids[2])
        PreTrainedTokenizerFast(tokenizer_object=pieces, **SPECIAL).save_pretrained(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def blocks(files: list[Path], pieces: PreTrainedTokenizerFast) -> torch.Tensor:
    """Return the text as blocks of piece ids. (blocks, BLOCK)"""
    ids: list[int] = []
    for file in files:
        for encoding in pieces(file.read_text(encoding="utf-8").splitlines())["input_ids"]:
            ids += encoding
    return torch.tensor(ids[: len(ids) // BLOCK * BLOCK]).view(-1, BLOCK)


def train(
    training: Training, model: PreTrainedModel, pieces: PreTrainedTokenizerFast, masked: bool
) -> dict[str, float]:
    """Train a model for as many steps as fit in the budget, and return its loss on a held-out sample."""
    text = [{"input_ids": block} for block in blocks(training.shards(), pieces)]
    heldout = [{"input_ids": block} for block in blocks([training.text / "heldout_sample.txt"], pieces)]
    untrained = {name: value.clone() for name, value in model.state_dict().items()}

    def trainer(steps: int, folder: Path, warmup: int = 0) -> Trainer:
        arguments = TrainingArguments(
            str(folder),
            use_cpu=True,
            max_steps=steps,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,  # 4,096 word pieces a step
            bf16=True,
            learning_rate=1e-3,
            weight_decay=0.01,
            warmup_steps=warmup,
            save_steps=50,
            save_total_limit=2,
            logging_steps=50,
            report_to="none",
            disable_tqdm=True,
            seed=1,
        )
        collator = DataCollatorForLanguageModeling(pieces, mlm=masked)
        return Trainer(model, arguments, data_collator=collator, train_dataset=text, eval_dataset=heldout)

    def train_steps(steps: int, folder: Path) -> None:
        trainer(steps, folder).train()
        model.load_state_dict(untrained)

    steps = training.steps(train_steps)
    training.start_clock()
    folder = training.folder / "run"
    training_run = trainer(steps, folder, max(math.ceil(0.06 * steps), MASKED_WARMUP if masked else 0))
    training_run.train(resume_from_checkpoint=any(folder.glob("checkpoint-*")))
    training_run.save_model(str(training.folder / "model"))
    pieces.save_pretrained(training.folder / "model")
    return {"steps": steps, "weights": model.num_parameters(), **training_run.evaluate()}


def train_bert(training: Training) -> dict[str, float]:
    """Train BERT as a masked language model."""
    pieces = tokenizer(training)
    sizes = BertConfig(
        vocab_size=len(pieces),
        hidden_size=256,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=512,
        pad_token_id=pieces.pad_token_id,
    )
    torch.manual_seed(1)
    return train(training, BertForMaskedLM(sizes), pieces, masked=True)


def train_gpt(training: Training) -> dict[str, float]:
    """Train GPT-2 as a causal language model."""
    pieces = tokenizer(training)
    sizes = GPT2Config(
        vocab_size=len(pieces),
        n_embd=256,
        n_layer=6,
        n_head=4,
        n_positions=512,
        bos_token_id=pieces.cls_token_id,
        eos_token_id=pieces.sep_token_id,
    )
    torch.manual_seed(1)
    return train(training, GPT2LMHeadModel(sizes), pieces, masked=False)


def embedder(training: Training) -> Embed:
    """Return a function that embeds by all layers, a word by the mean of its pieces."""
    pieces = PreTrainedTokenizerFast.from_pretrained(training.folder / "model")
    model = AutoModel.from_pretrained(training.folder / "model").eval()

    def embed_one(words: list[str]) -> np.ndarray:
        encoding = pieces(words, is_split_into_words=True, return_tensors="pt")
        if encoding["input_ids"].size(1) > BLOCK and len(words) > 1:  # longer than any text of the training
            half = len(words) // 2
            return np.concatenate([embed_one(words[:half]), embed_one(words[half:])], axis=1)
        ids, mask = encoding["input_ids"][:, :BLOCK], encoding["attention_mask"][:, :BLOCK]
        with torch.no_grad():
            states = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        layers = torch.cat(states)  # (L, pieces, D)
        owners = torch.tensor([-1 if word is None else word for word in encoding.word_ids()[:BLOCK]])  # (pieces,)
        members = (owners == torch.arange(len(words)).unsqueeze(1)).float()  # (T, pieces)
        return (members @ layers / members.sum(dim=1, keepdim=True).clamp(min=1)).numpy()  # (L, T, D)

    return lambda sentences: [embed_one(words) for words in sentences]
