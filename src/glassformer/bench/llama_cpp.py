"""llama.cpp as a contestant, with our weights, through llama-cpp-python and the package gguf."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

import torch

from glassformer.bench.apart import Apart
from glassformer.bench.contest import Answer, Contestant
from glassformer.bench.plain_training import missing
from glassformer.bench.workloads import Decoding, Work
from glassformer.checkpoint.foreign import to_foreign
from glassformer.core.errors import DataError
from glassformer.families.registry import family_named
from glassformer.models.transformer import Transformer

NAME, PACKAGE = "llama.cpp", "llama_cpp"

TYPES = {"float32": "F32", "bf16": "BF16", "int8": "Q8_0"}
"""What weights are stored in there."""


def contestants(work: Work, numbers: str) -> list[Contestant]:
    """Return how it does a piece of work: it writes; in 8 bits beside float32."""
    if not isinstance(work, Decoding):
        return []
    return [Apart(LlamaDecoding(work, each)) for each in (("float32", "int8") if numbers == "float32" else (numbers,))]


class LlamaDecoding:
    """Greedy writing, by the calls of its C interface.

    Args:
        work: What is written.
        numbers: "float32", "bf16" or "int8"; keys and values are then float32, bf16 and float16.
    """

    name = NAME

    def __init__(self, work: Decoding, numbers: str) -> None:
        self.work, self.numbers = work, numbers
        self.setting = "q8_0" if numbers == "int8" else ""

    def unavailable(self) -> str | None:
        """Say what is not installed."""
        return missing(PACKAGE) or missing("gguf")

    def prepare(self) -> None:
        """Write the model and load it."""
        library: Any = import_module(PACKAGE)
        self._library, work = library, self.work
        logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL)  # else every tensor is a line
        library.llama_backend_init()
        with TemporaryDirectory() as folder:
            file = Path(folder) / "model.gguf"
            write(work.build(), file, self.numbers)
            said = library.llama_model_default_params()
            said.use_mmap = False
            self._model = library.llama_model_load_from_file(str(file).encode(), said)
        if not self._model:
            raise DataError("llama.cpp cannot load the model that was written for it")
        said = library.llama_context_default_params()
        said.n_ctx, said.n_seq_max = work.rows * (work.prompt + work.new + 16), work.rows
        said.n_batch = said.n_ubatch = work.rows * work.prompt
        said.n_threads = said.n_threads_batch = torch.get_num_threads()
        said.type_k = said.type_v = {"float32": 0, "bf16": 30, "int8": 1}[self.numbers]  # ggml's F32, BF16, F16
        said.kv_unified = True
        if self.numbers == "float32":
            said.flash_attn_type = 0  # its fused attention rounds to float16, whatever it is given
        self._context = library.llama_init_from_model(self._model, said)
        if not self._context:
            raise DataError("llama.cpp cannot make a context for the model that was written for it")
        self._batch = library.llama_batch_init(work.rows * work.prompt, 0, 1)
        finalize(self, _free, library, self._context, self._model, self._batch).atexit = False
        self._prompts = work.prompts()

    def turn(self) -> int:
        """Write all rows."""
        library, work = self._library, self.work
        library.llama_memory_clear(library.llama_get_memory(self._context), False)
        ids: Sequence[Sequence[int]] = self._prompts
        self._answer: list[list[int]] = [[] for _ in ids]
        start = 0
        for _ in range(work.new):
            places = self._fill(ids, start)
            if library.llama_decode(self._context, self._batch) != 0:
                raise DataError("llama.cpp gives no scores")
            start += len(ids[0])
            chosen = [self._best(place) for place in places]
            for row, token in zip(self._answer, chosen, strict=True):
                row.append(token)
            ids = [[token] for token in chosen]
        return work.tokens

    def answer(self) -> Answer | None:
        """Return the new ids."""
        return self._answer

    def _fill(self, ids: Sequence[Sequence[int]], start: int) -> list[int]:
        """Give the batch new tokens of each row; return where the last of each stands, which alone are scored."""
        batch, place, lasts = self._batch, 0, []
        for row, tokens in enumerate(ids):
            for position, token in enumerate(tokens, start):
                batch.token[place], batch.pos[place] = token, position
                batch.n_seq_id[place], batch.seq_id[place][0] = 1, row
                batch.logits[place] = position == start + len(tokens) - 1
                place += 1
            lasts.append(place - 1)
        batch.n_tokens = place
        return lasts

    def _best(self, place: int) -> int:
        numpy: Any = import_module("numpy")
        scores = self._library.llama_get_logits_ith(self._context, place)
        return int(numpy.ctypeslib.as_array(scores, shape=(self.work.vocab_size,)).argmax())


def _free(library: Any, context: Any, model: Any, batch: Any) -> None:
    """Give back what Python does not know of: hundreds of megabytes."""
    library.llama_batch_free(batch)
    library.llama_free(context)
    library.llama_model_free(model)


def write(model: Transformer, file: Path, numbers: str) -> None:
    """Write a LLaMA-shaped model as a GGUF file without a vocabulary.

    Args:
        model: The model.
        file: Where to.
        numbers: Of the matrices: "float32", "bf16" or "int8" (blocks of 32 with a scale each); norms are float32.
    """
    gguf: Any = import_module("gguf")
    settings, tensors = to_foreign(model, family_named("llama"))
    kind = gguf.GGMLQuantizationType[TYPES[numbers]]
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_vocab_size(settings["vocab_size"])
    writer.add_context_length(settings["max_position_embeddings"])
    writer.add_embedding_length(settings["hidden_size"])
    writer.add_block_count(settings["num_hidden_layers"])
    writer.add_feed_forward_length(settings["intermediate_size"])
    writer.add_head_count(settings["num_attention_heads"])
    writer.add_head_count_kv(settings["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(settings["rms_norm_eps"])
    width = settings["hidden_size"] // settings["num_attention_heads"]
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(model.config.output_stack.blocks[0].attention.rotary.theta)  # type: ignore[union-attr]
    writer.add_tokenizer_model("no_vocab")
    for name, tensor in tensors.items():
        values = tensor.detach().float()
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            values = _interleaved(values, width)
        array, stored = values.numpy(), kind if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(_name(name), gguf.quants.quantize(array, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _interleaved(weight: torch.Tensor, width: int) -> torch.Tensor:
    """Rows of q or k, so that what is turned together stands side by side: llama.cpp turns neighbours."""
    return weight.view(-1, 2, width // 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}

ENDS = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def _name(theirs: str) -> str:
    """What a tensor of the reference library's LLaMA is called in a GGUF file."""
    if theirs in ENDS:
        return ENDS[theirs]
    _, _, layer, part = theirs.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.weight"
