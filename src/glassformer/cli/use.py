"""`eval`, `generate` and `score`: a trained model at work."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.options import (
    Device,
    Json,
    Model,
    Precision,
    RunFolder,
    Threads,
    compile_operators,
    open_model,
    place,
)
from glassformer.cli.words import counted, echo_json, given, metrics_line, named_as_options, note

if TYPE_CHECKING:
    from glassformer.checkpoint.loading import Loaded
    from glassformer.generation.config import BeamConfig, GenerationConfig

DataSets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="task.KEY=VALUE", help="Measure on other data, such as task.text=FILE. Repeatable."),
]


def evaluate(
    run: RunFolder,
    sets: DataSets = None,
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Measure a run's model on its test data, or on other data.

    Where the run has no test data it is measured on its validation data.
    """
    from glassformer.cli.waiting import waiting

    with waiting("evaluating") as advanced:
        from glassformer.training.run import evaluate_run

        where = place(device, threads)
        split, metrics = evaluate_run(run, sets or [], device=where, precision=precision, advanced=advanced)
    if as_json:
        echo_json({"split": split, **metrics})
    else:
        typer.echo(f"{split}: {metrics_line(metrics)}")
        if metrics.get("unknown"):
            note(f"{counted(int(metrics['unknown']), 'token')} of the data unknown to this model")


def generate(
    model: Model,
    prompt: Annotated[
        str,
        typer.Argument(metavar="PROMPT", help="The text to go on from, or to transform; - reads it from stdin."),
    ] = "",
    max_new_tokens: Annotated[int, typer.Option(metavar="N", help="Most tokens to write.")] = 256,
    min_new_tokens: Annotated[int, typer.Option(metavar="N", help="Fewest tokens to write.")] = 0,
    temperature: Annotated[float, typer.Option(metavar="T", help="0 = always the most probable token.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Draw from the K most probable tokens only.")] = None,
    top_p: Annotated[
        float | None,
        typer.Option(metavar="P", help="Draw from the fewest tokens whose probabilities sum to P, from 0 to 1."),
    ] = None,
    repetition_penalty: Annotated[
        float, typer.Option(metavar="R", help="Above 1: tokens already written are less likely.")
    ] = 1.0,
    stop: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="End before this text. Repeatable.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the sampling.")] = 0,
    when_full: Annotated[
        str,
        typer.Option(metavar="WAY", help="When the context is full: stop, or slide (forget the older half and go on)."),
    ] = "stop",
    stream: Annotated[bool, typer.Option("--stream", help="Print each character as soon as it is certain.")] = False,
    probs: Annotated[int, typer.Option(metavar="K", help="Show the K most probable tokens of every step.")] = 0,
    beam: Annotated[
        int, typer.Option(metavar="N", min=1, help="Search with N beginnings side by side; 1 = token by token.")
    ] = 1,
    length_penalty: Annotated[
        float | None,
        typer.Option(metavar="A", help="Of a search: 0 favours short texts, 1 compares means.", show_default=False),
    ] = None,
    cache: Annotated[
        bool, typer.Option(help="Keep keys and values of earlier tokens; never changes the result.")
    ] = True,
    prefill_chunk: Annotated[
        int, typer.Option(metavar="N", help="Read the prompt N tokens at a time, to save memory; 0 = all at once.")
    ] = 1024,
    fast: Annotated[
        Literal["auto", "on", "off"],
        typer.Option(
            help="off: the model as it is written; auto: by code of our own where that is faster, and compiled where it"
            " pays (8,000 tokens); on: compiled from the first step on (a minute)."
        ),
    ] = "auto",
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Write on from a prompt, answer it with an encoder-decoder, or fill the masks in it with an encoder.

    A masked token is written as the model's own mask token, "[MASK]" or "<mask>".
    """
    with named_as_options():
        config = _config(
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
                "prefill_chunk": prefill_chunk,
                "when_full": when_full,
                "top": probs,
                "fast": fast,
            }
        )
    idle = [name for name, used in (("--top-k", top_k), ("--top-p", top_p), ("--seed", seed)) if used]
    if temperature == 0 and idle:
        note(f"without effect at temperature 0, which takes the most probable token: {', '.join(idle)}")
    if stream and (as_json or probs):
        note(f"without effect together with {'--json' if as_json else '--probs'}: --stream")
    if beam == 1 and length_penalty is not None:
        note("without effect without --beam: --length-penalty")
    if beam > 1:
        _refuse_with_beam(
            {
                "--temperature": temperature != 0,
                "--repetition-penalty": repetition_penalty != 1,
                "--stop": stop,
                "--stream": stream,
                "--probs": probs,
                "--when-full": when_full != "stop",
                "--fast": fast == "on",
            }
        )
    text = given(prompt)
    loaded = open_model(model, device, threads, precision)
    _note_unknown(loaded, text)
    if loaded.model.decoder is None:
        writing = {
            "--temperature": temperature != 0, "--stop": stop, "--stream": stream, "--beam": beam > 1,
            "--fast": fast == "on",
        }  # fmt: skip
        idle = [name for name, used in writing.items() if used]
        _fill(loaded, text, probs, as_json)  # or it says why not
        if idle:
            note(f"without effect on a model that fills masks: {', '.join(idle)}")
        return
    if fast != "off":
        compile_operators(loaded.model.device)
    if beam > 1:
        _search(loaded, text, _beam_config(config, beam, length_penalty), as_json)
    elif stream and not as_json and not probs:
        _stream(loaded, text, config)
    else:
        _write(loaded, text, config, as_json)


def score(
    model: Model,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="The text to score; with --target, what the encoder reads; - reads it from stdin."
        ),
    ],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The output to score, for an encoder-decoder.")
    ] = None,
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
) -> None:
    """Print the log-probability of a text, token by token.

    In nats: 0 is certain, and the more negative, the less probable.
    """
    from glassformer.cli.waiting import waiting

    source = given(text)
    judged = None if target is None else given(target)
    loaded = open_model(model, device, threads, precision)
    with waiting("scoring"):
        from glassformer.generation.text import score_text

        scored = score_text(loaded, source, judged)
    _note_unknown(loaded, source if judged is None else judged)
    if not scored.tokens:
        note("nothing is scored: the first token of a text has nothing before it to be told from")
    labels = [loaded.tokenizer.label(token) for token in scored.tokens]
    if as_json:
        columns = zip(labels, scored.tokens, scored.logprobs, strict=True)
        tokens = [{"token": label, "id": token, "logprob": logprob} for label, token, logprob in columns]
        echo_json({"total": scored.total, "tokens": tokens})
        return
    for label, logprob in zip(labels, scored.logprobs, strict=True):
        typer.echo(f"{logprob:10.4f}  {label}")
    typer.echo(f"{scored.total:10.4f}  in all, {counted(len(labels), 'token')}")


def _config(settings: Mapping[str, Any]) -> GenerationConfig:
    from glassformer.generation.config import GenerationConfig

    return GenerationConfig.parse(settings)


def _refuse_with_beam(used: Mapping[str, Any]) -> None:
    idle = [option for option, value in used.items() if value]
    if idle:
        raise typer.BadParameter(f"a search (--beam) takes no {', '.join(idle)}; leave one or the other out")


def _beam_config(config: GenerationConfig, beam: int, penalty: float | None) -> BeamConfig:
    from glassformer.generation.config import BeamConfig

    both = config.model_dump(include={"max_new_tokens", "min_new_tokens", "use_cache", "prefill_chunk", "fast"})
    settings = both | {"beam": beam}
    with named_as_options():
        return BeamConfig.parse(settings if penalty is None else settings | {"length_penalty": penalty})


def _search(loaded: Loaded, text: str, config: BeamConfig, as_json: bool) -> None:
    from glassformer.cli.waiting import waiting

    with waiting("searching"):
        from glassformer.generation.text import beam_texts

        [[best, *_]] = beam_texts(loaded, [text], config)
    if as_json:
        echo_json({"text": best.text, "tokens": best.tokens, "stop_reason": best.stop_reason, "score": best.score})
        return
    typer.echo(best.text)
    _say_why(best.stop_reason, loaded)


def _fill(loaded: Loaded, text: str, top: int, as_json: bool) -> None:
    from glassformer.generation.fill import fill_masks

    filled = fill_masks(loaded, text, max(top, 1))
    label = loaded.tokenizer.label
    if as_json:
        shown = [[{"token": label(i), "id": i, "p": p} for i, p in each] for each in filled.candidates]
        echo_json({"text": filled.text, "tokens": filled.tokens, "top": shown})
        return
    typer.echo(filled.text)
    for each in filled.candidates if top else ():
        typer.echo("  " + "  ".join(f"{label(i)} {100 * p:.1f} %" for i, p in each))


def _stream(loaded: Loaded, text: str, config: GenerationConfig) -> None:
    from glassformer.cli.waiting import waiting
    from glassformer.generation.text import stream_text

    reason = None
    steps = stream_text(loaded, text, config)
    _note_compiling(config, loaded.model.can_cache)
    with waiting("reading"):
        first = next(steps)
    for step in chain((first,), steps):
        typer.echo(step.text, nl=False)
        sys.stdout.flush()
        reason = step.stop_reason or reason
    typer.echo("")
    _say_why(reason, loaded)


def _write(loaded: Loaded, text: str, config: GenerationConfig, as_json: bool) -> None:
    from glassformer.cli.waiting import waiting
    from glassformer.generation.text import stream_text

    steps = []
    coming = stream_text(loaded, text, config)
    _note_compiling(config, loaded.model.can_cache)
    with waiting("writing") as advanced:
        for step in coming:
            steps.append(step)
            advanced(len(steps), config.max_new_tokens)
    reason = steps[-1].stop_reason
    label = loaded.tokenizer.label
    written = [step for step in steps if step.token is not None]
    shown = "".join(step.text for step in steps)
    if as_json:
        content: dict[str, Any] = {
            "text": shown,
            "tokens": [step.token for step in written],
            "stop_reason": reason,
        }
        if config.top:
            content["top"] = [[{"token": label(i), "id": i, "p": p} for i, p in step.top] for step in written]
        echo_json(content)
        return
    typer.echo(shown)
    if config.top:
        for step in written:
            assert step.token is not None, "filtered above"
            candidates = "  ".join(f"{label(i)} {100 * p:.1f} %" for i, p in step.top)
            typer.echo(f"  {label(step.token):<8} {candidates}")
    _say_why(reason, loaded)


def _note_compiling(config: GenerationConfig, can_cache: bool) -> None:
    """Say what "on" will take; where there is no compiler, whatever needs it says so."""
    from glassformer.core.compilers import no_compiler

    if config.fast != "on":
        return
    if not config.use_cache:
        note("without effect together with --no-cache: --fast")
    elif not can_cache:
        note("without effect on a model that reads all anew for each token, since it is not causal: --fast")
    elif config.max_new_tokens < 2:
        note("without effect below 2 new tokens, for the first one comes from reading: --fast")
    elif no_compiler() is None:
        note("the steps are compiled first: after the first token, that takes up to a minute")


def _say_why(reason: str | None, loaded: Loaded) -> None:
    """Say why the text ends where a reader would wonder."""
    if reason == "context":
        note(f"the context of {loaded.model.max_positions} tokens is full; --when-full slide goes on")


def _note_unknown(loaded: Loaded, text: str) -> None:
    """Say it where a model cannot tell characters or words from each other; the name of the mask token is no text."""
    if loaded.model.decoder is None and "mask" in loaded.tokenizer.roles:
        text = text.replace(loaded.tokenizer.roles["mask"], " ")
    number = loaded.tokenizer.n_unknown(loaded.tokenizer.encode(text))
    if number:
        note(f"{counted(number, 'token')} of the text {'is' if number == 1 else 'are'} unknown to this model")
