"""What a recurrent encoder-decoder with attention makes of the same translation task: equal size, equal time.

A `torch.nn.LSTM` encoder in both directions and a decoder of two `torch.nn.LSTM`, two layers each; the decoder's upper
layer reads what its lower one attends to. One table of embeddings is also the output head. It takes the vocabulary, the
learning-rate curve, the label smoothing and the kind of optimizer (`Muon`, the four gates apart) of a finished run, as
many parameters, and as many seconds; its own are the batches (smaller, for more updates), the learning rate and the
dropout, chosen by validation loss. Greedy and beam search as the run does them.

On one thread the seconds are those of the process, so that whatever else the machine does takes nothing away.

    python bench/lstm_translation.py RUN [--lr 6e-3] [--dropout 0.2] [--seconds S] [--threads N]
"""

from __future__ import annotations

import argparse
import json
import math
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
from glassformer.training.config import TrainingConfig
from glassformer.training.metrics import text_metrics
from glassformer.training.muon import HiddenMatrix, Muon
from glassformer.training.run import kind_for, read_recipe
from glassformer.training.schedule import decayed
from glassformer.training.trainer import batch_order

State = tuple[Tensor, Tensor]
"""h and c of the decoder's two layers. *Shape:* (2, B, D) each."""

BATCH_TOKENS = 1024


class Recurrent(nn.Module):
    """Embedding, LSTM encoder in both directions, LSTM decoder with attention (Luong et al. 2015, "general").

    The decoder attends from its lower layer, and its upper layer reads what was found (Wu et al. 2016, section 3).
    """

    def __init__(self, vocab_size: int, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout, self.width = dropout, width
        self.embedding = nn.Embedding(vocab_size, width)
        self.encoder = nn.LSTM(width, width // 2, 2, batch_first=True, bidirectional=True, dropout=dropout)
        self.lower = nn.LSTM(width, width, batch_first=True)
        self.upper = nn.LSTM(2 * width, width, batch_first=True)
        self.score = nn.Linear(width, width, bias=False)
        self.join = nn.Linear(2 * width, width)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        nn.init.normal_(self.embedding.weight, std=0.05)
        for name, parameter in self.named_parameters():
            if "bias_ih" in name or "bias_hh" in name:
                nn.init.zeros_(parameter)
            if "bias_ih" in name:  # gates: input, forget, cell, output. At first nothing is forgotten.
                nn.init.ones_(parameter.data.chunk(4)[1])

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def embed(self, tokens: Tensor) -> Tensor:
        # Small numbers suit the head, but they would hardly move a gate.
        return self.drop(self.embedding(tokens) * math.sqrt(self.width))

    def encode(self, source: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, Tensor, State]:
        sizes = torch.tensor(lengths)
        packed = pack_padded_sequence(self.embed(source), sizes, batch_first=True, enforce_sorted=False)
        out, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(out, batch_first=True, total_length=source.shape[1])
        keep = torch.arange(source.shape[1]) < sizes.unsqueeze(1)
        # (layer x direction, B, D / 2) -> (layer, B, D)
        h, c = (t.unflatten(0, (2, 2)).transpose(1, 2).flatten(2).contiguous() for t in last)
        return memory, keep, (h, c)

    def decode(self, tokens: Tensor, memory: Tensor, keep: Tensor, state: State) -> tuple[Tensor, State]:
        h, c = state
        x, (h0, c0) = self.lower(self.embed(tokens), (h[:1], c[:1]))
        x = self.drop(x)
        scores = self.score(x) @ memory.transpose(1, 2)  # (B, T, S)
        found = scores.masked_fill(~keep.unsqueeze(1), -torch.inf).softmax(-1) @ memory
        x, (h1, c1) = self.upper(torch.cat((x, found), -1), (h[1:], c[1:]))
        joined = torch.tanh(self.join(torch.cat((found, x), -1)))
        return self.drop(joined), (torch.cat((h0, h1)), torch.cat((c0, c1)))

    def loss(self, batch: Batch, label_smoothing: float) -> Tensor:
        assert batch.source is not None
        states, _ = self.decode(batch.inputs, *self.encode(batch.source, batch.source_lengths))
        flat, labels = states.flatten(0, 1), batch.labels.flatten()
        return fused_head_loss(flat, self.embedding.weight, self.bias, labels, label_smoothing)


def sized(vocab_size: int, parameters: int, dropout: float) -> Recurrent:
    """The widest one with at most so many parameters."""
    width = max(
        width for width in range(32, 1025, 8)
        if sum(p.numel() for p in Recurrent(8, width, 0.0).parameters()) + (vocab_size - 8) * (width + 1) <= parameters
    )  # fmt: skip
    return Recurrent(vocab_size, width, dropout)


def muon(model: Recurrent, config: TrainingConfig, lr: float) -> Muon:
    """The run's optimizer: each gate is a matrix of its own; the table and the biases are moved as Adam does."""
    hidden: list[HiddenMatrix] = []
    for module in model.modules():
        n_gates = 4 if isinstance(module, nn.LSTM) else 1
        matrices = module.parameters(recurse=False) if isinstance(module, nn.LSTM | nn.Linear) else ()
        hidden += [HiddenMatrix(p, (len(p) // n_gates,) * n_gates) for p in matrices if p.ndim == 2]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    others = (list(model.embedding.parameters()), vectors)
    return Muon(hidden, others, lr=lr, momentum=0.95, betas=config.betas, eps=config.eps, weight_decay=0.0)


def train(model: Recurrent, data: TaskData, config: TrainingConfig, lr: float, seconds: float) -> float:
    """Train for so many seconds; the learning rate follows the run's curve over time."""
    order = batch_order(data.train, config.model_copy(update={"batch_tokens": BATCH_TOKENS}))
    optimizer = muon(model, config, lr)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    spent, shown, step = 0.0, 0.0, 0
    model.train()
    for epoch in count():
        for batch in loader(data.train, order, epoch):
            began = clock()
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
            spent += clock() - began
            if spent - shown > 60:
                shown = spent
                print(f"{spent:5.0f} s  update {step}  loss {float(total.detach()) / targets:.3f}", flush=True)
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
            logprobs = torch.log_softmax(states[:, -1] @ model.embedding.weight.t() + model.bias, -1)
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
    parser.add_argument("--lr", type=float, default=6e-3)
    parser.add_argument("--dropout", type=float, default=0.2)
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
        alpha = judging.length_penalty if beam > 1 else 0.0  # of one beam, whatever ends first is best: greedy
        outputs = translate(model, data.test, tokenizer, beam, alpha)
        expected = [target for _, target in data.test.pairs]
        found = text_metrics(("bleu", "chrf"), outputs, expected, judging.bleu_tokenizer)
        print(f"test, beam {beam}: BLEU {found['bleu']:.2f}  chrF {found['chrf']:.2f}")
    print(f"the run, beam {judging.beam}: BLEU {result['test']['bleu']:.2f}  chrF {result['test']['chrf']:.2f}")


if __name__ == "__main__":
    main()
