"""glassformer: a Transformer you can see through.

    import glassformer as gf

    run = gf.train(gf.load_recipe("reverse", ["training.max_steps=300"]))
    loaded = gf.load(run.folder)

Names are imported when they are first used, so that `import glassformer` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from glassformer.version import __version__

if TYPE_CHECKING:
    from glassformer.checkpoint.convert import convert as convert
    from glassformer.checkpoint.loading import Loaded as Loaded
    from glassformer.checkpoint.loading import load as load
    from glassformer.checkpoint.loading import load_transformer as load_transformer
    from glassformer.checkpoint.native import load_model as load_model
    from glassformer.checkpoint.native import save_model as save_model
    from glassformer.checkpoint.torch_modules import from_torch as from_torch
    from glassformer.checkpoint.torch_modules import load_torch as load_torch
    from glassformer.checkpoint.torch_modules import torch_state as torch_state
    from glassformer.core.cache import KVCache as KVCache
    from glassformer.core.call import Memory as Memory
    from glassformer.core.config import TransformerConfig as TransformerConfig
    from glassformer.core.errors import GlassformerError as GlassformerError
    from glassformer.core.mask import Mask as Mask
    from glassformer.core.places import Places as Places
    from glassformer.core.tape import Patch as Patch
    from glassformer.core.tape import Tape as Tape
    from glassformer.diagnosis.check import check as check
    from glassformer.diagnosis.watch import watch as watch
    from glassformer.families.registry import preset as preset
    from glassformer.generation.answer import answer_texts as answer_texts
    from glassformer.generation.config import BeamConfig as BeamConfig
    from glassformer.generation.config import GenerationConfig as GenerationConfig
    from glassformer.generation.embed import embed_texts as embed_texts
    from glassformer.generation.fill import fill_masks as fill_masks
    from glassformer.generation.text import beam_texts as beam_texts
    from glassformer.generation.text import generate_text as generate_text
    from glassformer.generation.text import generate_texts as generate_texts
    from glassformer.generation.text import score_text as score_text
    from glassformer.generation.text import stream_text as stream_text
    from glassformer.kernels.attend import attend as attend
    from glassformer.models.arguments import ModelArguments as ModelArguments
    from glassformer.models.output import Loss as Loss
    from glassformer.models.transformer import Transformer as Transformer
    from glassformer.training.recipe import load_recipe as load_recipe
    from glassformer.training.run import resume as resume
    from glassformer.training.run import train as train

_WHERE = {
    "Loaded": "checkpoint.loading",
    "load": "checkpoint.loading",
    "convert": "checkpoint.convert",
    "load_transformer": "checkpoint.loading",
    "load_model": "checkpoint.native",
    "save_model": "checkpoint.native",
    "from_torch": "checkpoint.torch_modules",
    "load_torch": "checkpoint.torch_modules",
    "torch_state": "checkpoint.torch_modules",
    "KVCache": "core.cache",
    "Memory": "core.call",
    "TransformerConfig": "core.config",
    "GlassformerError": "core.errors",
    "Mask": "core.mask",
    "Places": "core.places",
    "Patch": "core.tape",
    "Tape": "core.tape",
    "check": "diagnosis.check",
    "watch": "diagnosis.watch",
    "preset": "families.registry",
    "BeamConfig": "generation.config",
    "GenerationConfig": "generation.config",
    "embed_texts": "generation.embed",
    "fill_masks": "generation.fill",
    "answer_texts": "generation.answer",
    "beam_texts": "generation.text",
    "generate_text": "generation.text",
    "generate_texts": "generation.text",
    "score_text": "generation.text",
    "stream_text": "generation.text",
    "attend": "kernels.attend",
    "ModelArguments": "models.arguments",
    "Loss": "models.output",
    "Transformer": "models.transformer",
    "load_recipe": "training.recipe",
    "resume": "training.run",
    "train": "training.run",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    value = getattr(import_module(f"glassformer.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
