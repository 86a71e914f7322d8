"""How a model is trained."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from glassformer.core.errors import ConfigError
from glassformer.core.metric import known_metric
from glassformer.core.settings import Config


class TrainingConfig(Config):
    """Steps, optimizer, schedule, and what is done beside them.

    Attributes:
        max_steps: Updates of the parameters.
        batch_size: Rows of a batch.
        batch_tokens: Tokens of a batch on its longer side, padding included; rows of like length go together, and
            `batch_size` does not count. None = `batch_size` counts. For data whose lengths are known beforehand.
        accumulate: Batches whose gradients make one update.
        seed: Of the initial values, the order of the data and dropout.
        optimizer: "adamw", "adam", "sgd" or "muon".
        lr: Peak learning rate; None is possible with schedule=paper, whose formula has its own.
        betas: Adam's two decay rates.
        eps: Added to Adam's denominator.
        momentum: Of sgd, and of muon, for which 0.95 is usual.
        weight_decay: Of matrices; gains and offsets are not decayed.
        schedule: "paper" (warm-up, then step^-1/2), "cosine", "linear" or "constant".
        warmup: Updates of rising learning rate: a number from 1, or a share of max_steps below 1.
        final_lr: What cosine and linear go down to, as a share of the peak.
        clip: Largest norm of the gradient; None = unlimited.
        label_smoothing: Mass of the target that is spread over the vocabulary.
        eval_every: Updates between evaluations; None = only at the end.
        log_every: Updates between lines of metrics.
        save_every: Updates between saved states; None = only at evaluations and at the end.
        norms_every: Updates between looks at the norm of every layer; None = never.
        patience: Evaluations without a better `select_by` after which training ends; None = never.
        average: Share of max_steps, at the end, over whose updates the weights are averaged; from then on the mean is
            what is judged and kept. 0 = never.
        select_by: What decides which model is kept: a metric such as "loss" or "bleu", or "last" for the last one.
        precision: "auto", "float32", "bf16" or "fp16"; the parameters are float32 always.
        device: "auto", "cpu", "cuda" or "mps".
        threads: Threads of a CPU; None = torch's choice; "auto" = one or that many, whichever makes an update of the
            first batch sooner. A resumed run keeps the number.
        compile: Whether forward and backward pass go through `torch.compile`: "off", "on", or "auto" = if measured to
            be faster, where compiling takes at most a tenth of the time to come. The last digits differ, so with "auto"
            two runs of one seed may. A resumed run keeps what was chosen.
        language: Of report.html: "en" or "zh".
        workers: Processes that prepare batches; 0 = the training process itself.
    """

    max_steps: int = Field(1000, ge=1)
    batch_size: int = Field(64, ge=1)
    batch_tokens: int | None = Field(None, ge=1)
    accumulate: int = Field(1, ge=1)
    seed: int = Field(0, ge=0, lt=2**63)
    optimizer: Literal["adamw", "adam", "sgd", "muon"] = "adamw"
    lr: float | None = Field(1e-3, gt=0)
    betas: tuple[float, float] = Field((0.9, 0.98), strict=False)
    eps: float = Field(1e-9, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    schedule: Literal["paper", "cosine", "linear", "constant"] = "cosine"
    warmup: float = Field(0.05, ge=0)
    final_lr: float = Field(0.0, ge=0, le=1)
    clip: float | None = Field(1.0, gt=0)
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    eval_every: int | None = Field(None, ge=1)
    log_every: int = Field(10, ge=1)
    save_every: int | None = Field(None, ge=1)
    norms_every: int | None = Field(50, ge=1)
    patience: int | None = Field(None, ge=1)
    average: float = Field(0.0, ge=0, le=1)
    select_by: str = "loss"
    precision: Literal["auto", "float32", "bf16", "fp16"] = "auto"
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    threads: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] | None = None
    compile: Literal["auto", "on", "off"] = "off"
    workers: int = Field(0, ge=0)
    language: Literal["en", "zh"] = "en"

    @field_validator("betas", mode="before")
    @classmethod
    def _betas_from_text(cls, value: Any) -> Any:
        """On the command line two numbers are one text: `--set training.betas=0.9,0.95`."""
        return tuple(value.strip("[] ").split(",")) if isinstance(value, str) else value

    @field_validator("select_by")
    @classmethod
    def _it_can_select(cls, name: str) -> str:
        if name != "last" and not known_metric(name).judges:
            raise ConfigError(f"{name} does not say which of two models is better; choose another metric, or last")
        return name

    @property
    def average_from(self) -> int:
        """The first update whose weights are part of the average; after max_steps if there is none."""
        averaged = max(1, round(self.average * self.max_steps)) if self.average else 0
        return self.max_steps + 1 - averaged

    @property
    def warmup_steps(self) -> int:
        """Updates of rising learning rate."""
        return round(self.warmup * self.max_steps) if self.warmup < 1 else int(self.warmup)

    @model_validator(mode="after")
    def _numbers_fit(self) -> Self:
        if self.warmup >= 1 and self.warmup != int(self.warmup):
            raise ConfigError(f"warmup is {self.warmup}: give whole updates from 1, or a share of max_steps below 1")
        if self.warmup_steps > self.max_steps and self.schedule != "paper":
            raise ConfigError(f"warmup takes {self.warmup_steps} updates, but max_steps is only {self.max_steps}")
        if self.lr is None and self.schedule != "paper":
            raise ConfigError(f"schedule={self.schedule} needs lr; only schedule=paper has a rate of its own")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas are {self.betas}; both must be from 0 to below 1")
        if self.patience is not None and self.eval_every is None:
            raise ConfigError("patience counts evaluations; set eval_every as well")
        return self
