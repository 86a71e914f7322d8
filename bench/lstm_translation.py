"""What a recurrent encoder-decoder with attention makes of the same translation task: equal size, equal time.

A `torch.nn.LSTM` encoder in both directions, a `torch.nn.LSTM` decoder that attends to it, two layers each, one table
of embeddings that is also the output head. It takes the vocabulary, the batches, the learning-rate curve and the label
smoothing of a finished run, as many parameters, and as many seconds; its own are the optimizer (AdamW), the learning
rate and the dropout, chosen by validation loss. Greedy and beam search as the run does them.

    python bench/lstm_translation.py RUN [--lr 2e-3] [--dropout 0.3] [--seconds S] [--threads N]
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import count
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.checkpoint.native import TOKENIZER_FILE
from glassformer.data.batch import Batch
from glassformer.data.source import loader
from glassformer.models.fused_loss import fused_head_loss
from glassformer.tasks.task import Split, TaskData
from glassformer.text.tokenizer import TextTokenizer
from glassformer.training.metrics import text_metrics
from glassformer.training.run import kind_for, read_recipe
from glassformer.training.schedule import decayed
from glassformer.training.trainer import batch_order

State = list[tuple[Tensor, Tensor]]


class Recurrent(nn.Module):
    """Embedding, LSTM encoder in both directions, LSTM decoder with attention (Luong et al. 2015, "general")."""

    def __init__(self, vocab_size: int, width: int, dropout: float, n_layers: int = 2) -> None:
        super().__init__()
        self.dropout, self.n_layers, half = dropout, n_layers, width // 2
        self.embedding = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.embedding.weight, std=0.05)
        self.encoder = nn.LSTM(width, half, n_layers, batch_first=True, bidirectional=True, dropout=dropout)
        self.decoder = nn.LSTM(width, width, n_layers, batch_first=True, dropout=dropout)
        self.score = nn.Linear(width, width, bias=False)
        self.join = nn.Linear(2 * width, width)

    def encode(self, source: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        x = F.dropout(self.embedding(source), self.dropout, self.training)
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        out, (h, c) = self.encoder(packed)
        memory, _ = pad_packed_sequence(out, batch_first=True, total_length=source.shape[1])
        keep = torch.arange(source.shape[1]) < torch.tensor(lengths).unsqueeze(1)
        both = [t.view(self.n_layers, 2, *t.shape[1:]).transpose(1, 2).flatten(2) for t in (h, c)]
        return memory, keep, (both[0].contiguous(), both[1].contiguous())

    def decode(
        self, tokens: Tensor, memory: Tensor, keep: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        out, state = self.decoder(F.dropout(self.embedding(tokens), self.dropout, self.training), state)
        scores = self.score(out) @ memory.transpose(1, 2)  # (B, T, S)
        weights = scores.masked_fill(~keep.unsqueeze(1), -torch.inf).softmax(-1)
        joined = torch.tanh(self.join(torch.cat((weights @ memory, out), -1)))
        return F.dropout(joined, self.dropout, self.training), state

    def loss(self, batch: Batch, label_smoothing: float) -> Tensor:
        assert batch.source is not None
        states, _ = self.decode(batch.inputs, *self.encode(batch.source, batch.source_lengths))
        flat, labels = states.flatten(0, 1), batch.labels.flatten()
        return fused_head_loss(flat, self.embedding.weight, None, labels, label_smoothing)


def sized(vocab_size: int, parameters: int, dropout: float) -> Recurrent:
    """The widest one with at most so many parameters."""
    width = max(
        width for width in range(32, 1025, 8)
        if sum(p.numel() for p in Recurrent(8, width, 0.0).parameters()) + (vocab_size - 8) * width <= parameters
    )  # fmt: skip
    return Recurrent(vocab_size, width, dropout)


def train(model: Recurrent, data: TaskData, config, lr: float, seconds: float) -> float:  # type: ignore[no-untyped-def]
    """Train for so many seconds with the run's batches; the learning rate follows the run's curve over time."""
    order = batch_order(data.train, config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=config.betas, eps=1e-8, weight_decay=0.0, fused=True)
    spent, shown, step = 0.0, 0.0, 0
    model.train()
    for epoch in count():
        for batch in loader(data.train, order, epoch):
            began = time.perf_counter()
            step += 1
            share, warm = spent / seconds, config.warmup_steps / config.max_steps
            rate = share / warm if share < warm else decayed(config.schedule, (share - warm) / (1 - warm), 0.0)
            for group in optimizer.param_groups:
                group["lr"] = lr * max(rate, 1e-3)
            optimizer.zero_grad(set_to_none=True)
            total = model.loss(batch, config.label_smoothing)
            targets = int((batch.labels != -100).sum())
            (total / targets).backward()
            nn.utils.clip_grad_norm_(model.parameters(), config.clip or 1.0)
            optimizer.step()
            spent += time.perf_counter() - began
            if spent - shown > 60:
                shown = spent
                print(f"{spent:5.0f} s  update {step}  loss {float(total) / targets:.3f}", flush=True)
            if spent >= seconds:
                print(f"{spent:5.0f} s  {step} updates, {epoch + 1} epochs")
                return spent
    raise AssertionError("epochs do not end")


@torch.no_grad()
def valid_loss(model: Recurrent, split: Split) -> float:
    model.eval()
    total, targets = 0.0, 0
    for begin in range(0, len(split.source), 64):
        batch = split.source.batch(range(begin, min(begin + 64, len(split.source))), 0)
        total += float(model.loss(batch, 0.0))
        targets += int((batch.labels != -100).sum())
    return total / targets


@torch.no_grad()
def translate(model: Recurrent, split: Split, tokenizer: TextTokenizer, beam: int, alpha: float) -> list[str]:
    """One sentence after the other: its beams are the batch. log P / n^alpha, the end token counted."""
    model.eval()
    bos, eos, texts = tokenizer.bos_id, tokenizer.eos_id, []
    for text, _ in split.pairs:
        source = torch.tensor([[*tokenizer.encode(text), eos]])
        memory, keep, state = model.encode(source, (source.shape[1],))
        live: list[tuple[float, list[int]]] = [(0.0, [])]
        ended: list[tuple[float, list[int]]] = []
        tokens = torch.tensor([[bos]])
        limit = 2 * source.shape[1] + 10
        for n in range(1, limit + 1):
            rows = len(live)
            states, state = model.decode(tokens, memory.expand(rows, -1, -1), keep.expand(rows, -1), state)
            logprobs = torch.log_softmax(states[:, -1] @ model.embedding.weight.t(), -1)
            totals = logprobs + torch.tensor([[score] for score, _ in live])
            values, ids = totals.flatten().topk(2 * beam)
            kept: list[tuple[float, list[int], int]] = []
            for value, index in zip(values.tolist(), ids.tolist(), strict=True):
                parent, token = divmod(index, logprobs.shape[1])
                if len(kept) == beam:
                    break
                if token == eos:
                    ended.append((value / n**alpha, live[parent][1]))
                else:
                    kept.append((value, [*live[parent][1], token], parent))
            live = [(value, text) for value, text, _ in kept]
            if ended and max(ended)[0] >= live[0][0] / limit**alpha:
                break
            parents = torch.tensor([parent for _, _, parent in kept])
            state = (state[0][:, parents], state[1][:, parents])
            tokens = torch.tensor([[text[-1]] for _, text in live])
        best = max(ended or [(live[0][0], live[0][1])])[1]
        texts.append(tokenizer.decode(best))
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--seconds", type=float, help="of training; the run's own when not given")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    recipe = read_recipe(options.run)
    result = json.loads((options.run / "result.json").read_text(encoding="utf-8"))
    torch.set_num_threads(options.threads or result["threads"])
    torch.manual_seed(recipe.training.seed)
    tokenizer = TextTokenizer.load(options.run / TOKENIZER_FILE)
    data = recipe.task.build(kind_for(recipe), tokenizer)
    assert data.test is not None, "the run has a test split"
    model = sized(tokenizer.vocab_size, result["parameters"], options.dropout)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"LSTM: {parameters:,} parameters (the run: {result['parameters']:,})")
    train(model, data, recipe.training, options.lr, options.seconds or result["train_seconds"])
    print(f"valid loss {valid_loss(model, data.valid):.4f} (the run: {result['valid']['loss']:.4f})")
    judging = data.judging
    for beam in dict.fromkeys((1, judging.beam)):
        outputs = translate(model, data.test, tokenizer, beam, judging.length_penalty)
        expected = [target for _, target in data.test.pairs]
        found = text_metrics(("bleu", "chrf"), outputs, expected, judging.bleu_tokenizer)
        print(f"test, beam {beam}: BLEU {found['bleu']:.2f}  chrF {found['chrf']:.2f}")
    print(f"the run, beam {judging.beam}: BLEU {result['test']['bleu']:.2f}  chrF {result['test']['chrf']:.2f}")


if __name__ == "__main__":
    main()
