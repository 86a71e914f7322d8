"""`eval`, `generate` and `score`: a trained model at work."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from glassformer.cli.options import (
    Device,
    Json,
    Model,
    Precision,
    RunFolder,
    Sets,
    Threads,
    open_model,
    place,
)


def evaluate(
    run: RunFolder,
    sets: Sets = None,
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Measure a run's model on its test data, or on other data with --set task.KEY=VALUE."""
    from glassformer.cli.display import metrics_line
    from glassformer.cli.waiting import waiting
    from glassformer.training.run import evaluate_run

    where = place(device, threads)
    with waiting("evaluating") as advanced:
        split, metrics = evaluate_run(run, sets or [], device=where, precision=precision, advanced=advanced)
    if as_json:
        typer.echo(json.dumps({"split": split, **metrics}))
    else:
        typer.echo(f"{split}: {metrics_line(metrics)}")


def generate(
    model: Model,
    prompt: Annotated[str, typer.Argument(help="The text to go on from, or to transform; - reads it from stdin.")] = "",
    max_new_tokens: Annotated[int, typer.Option(min=0, help="Most tokens to write.")] = 256,
    min_new_tokens: Annotated[int, typer.Option(min=0, help="Fewest tokens to write.")] = 0,
    temperature: Annotated[float, typer.Option(help="0 = always the most probable token.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the K most probable tokens only.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest tokens whose probabilities sum to P.")
    ] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: tokens already written are less likely.")] = 1.0,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text. Repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the drawing.")] = 0,
    when_full: Annotated[
        str, typer.Option(help="When the context is full: stop, or slide (forget the older half and go on).")
    ] = "stop",
    stream: Annotated[bool, typer.Option("--stream", help="Print each character as soon as it is certain.")] = False,
    probs: Annotated[int, typer.Option(min=0, metavar="K", help="Show the K most probable tokens of every step.")] = 0,
    cache: Annotated[
        bool, typer.Option(help="Keep keys and values of earlier tokens; never changes the result.")
    ] = True,
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Write: go on from a prompt, or transform it where the model is an encoder-decoder."""
    from glassformer.generation.config import GenerationConfig
    from glassformer.generation.text import generate_text, stream_text

    config = GenerationConfig.parse(
        {
            "max_new_tokens": max_new_tokens,
            "min_new_tokens": min_new_tokens,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "repetition_penalty": repetition_penalty,
            "stop": tuple(stop or ()),
            "seed": seed,
            "use_cache": cache,
            "when_full": when_full,
            "top": probs,
        }
    )
    if temperature == 0 and (top_k or top_p is not None or seed):
        typer.echo(
            "note: --top-k, --top-p and --seed have no effect at temperature 0, which always takes the best", err=True
        )
    loaded = open_model(model, device, threads, precision)
    text = sys.stdin.read().removesuffix("\n") if prompt == "-" else prompt
    if stream and not as_json and not probs:
        reason = None
        for step in stream_text(loaded, text, config):
            typer.echo(step.text, nl=False)
            sys.stdout.flush()
            reason = step.stop_reason or reason
        typer.echo("")
        _say_why(reason, loaded.model.max_positions)
        return
    written = generate_text(loaded, text, config)
    label = loaded.tokenizer.label
    if as_json:
        content: dict[str, Any] = {
            "text": written.text,
            "tokens": list(written.tokens),
            "stop_reason": written.stop_reason,
        }
        if probs:
            content["top"] = [[{"token": label(i), "id": i, "p": p} for i, p in step] for step in written.top]
        typer.echo(json.dumps(content, ensure_ascii=False))
        return
    typer.echo(written.text)
    for token, candidates in zip(written.tokens, written.top, strict=False):
        typer.echo(f"  {label(token):<8} " + "  ".join(f"{label(i)} {100 * p:.1f} %" for i, p in candidates))
    _say_why(written.stop_reason, loaded.model.max_positions)


def score(
    model: Model,
    text: Annotated[str, typer.Argument(help="The text to score; with --target, what the encoder reads.")],
    target: Annotated[str | None, typer.Option(help="The output to score, for an encoder-decoder.")] = None,
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Print the log-probability of a text, token by token and in all (nats)."""
    from glassformer.generation.text import score_text

    loaded = open_model(model, device, threads, precision)
    scored = score_text(loaded, text, target)
    labels = [loaded.tokenizer.label(token) for token in scored.tokens]
    if as_json:
        content = {
            "total": scored.total,
            "tokens": [
                {"token": label, "id": token, "logprob": logprob}
                for label, token, logprob in zip(labels, scored.tokens, scored.logprobs, strict=True)
            ],
        }
        typer.echo(json.dumps(content, ensure_ascii=False))
        return
    for label, logprob in zip(labels, scored.logprobs, strict=True):
        typer.echo(f"{logprob:10.4f}  {label}")
    typer.echo(f"{scored.total:10.4f}  in all, {len(labels)} tokens")


def _say_why(reason: str | None, limit: int | None) -> None:
    """Say why the text ends where a reader would wonder."""
    if reason == "context":
        typer.echo(f"(the context of {limit} tokens is full; --when-full slide goes on)", err=True)
