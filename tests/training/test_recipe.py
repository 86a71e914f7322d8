from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from glassformer.core.attention_config import PatternConfig
from glassformer.core.errors import ConfigError
from glassformer.core.position_config import LinearScaling
from glassformer.models.transformer import Transformer
from glassformer.training.objective import objective
from glassformer.training.recipe import (
    Recipe,
    describe_recipe,
    load_recipe,
    make_recipe,
    parse_yaml,
    recipe_names,
    to_yaml,
)
from glassformer.training.run import kind_for, resolve, train

from .tiny import write_pairs, write_table


def same(one: Recipe, other: Recipe) -> bool:
    return (one.task, one.model, one.training) == (other.task, other.model, other.training)


def with_data(name: str, folder: Path) -> list[str]:
    """What a user adds to a shipped recipe that has no data of its own: a folder or a file, here a small one."""
    pairs = write_pairs(folder, 60)
    table = write_table(folder, 60).read_text("utf-8")
    if name == "multi30k":
        for part in ("val", "test_2016_flickr"):
            write_pairs(folder, source=f"{part}.de", target=f"{part}.en")
        write_pairs(folder, 60, source="train.de", target="train.en")
        return [f"task.data={folder}"]
    if name == "chnsenticorp":
        for part in ("train", "dev", "test"):
            (folder / f"{part}.tsv").write_text(table.replace("text", "text_a", 1), "utf-8")
        return [f"task.data={folder}"]
    if name == "trec":
        rows = [line.split("\t") for line in table.splitlines()[1:]]
        for part in ("train", "test"):
            (folder / f"TREC.{part}.all").write_text("".join(f"{label} {text}\n" for text, label in rows), "latin-1")
        return [f"task.data={folder}"]
    if name == "zh_en":
        (folder / "pairs.tsv").write_text("".join(f"cat {n}\t我{chr(0x4E00 + n)}\n" for n in range(40)), "utf-8")
        return [f"task.data={folder / 'pairs.tsv'}", "task.valid_size=5", "task.test_size=5"]
    return {
        "translation": [f"task.{side}={file}" for side, file in pairs.items()]
        + ["task.valid_size=5", "task.test_size=5"],
        "classification": [f"task.train={folder / 'table.tsv'}"],
        "matching": ["task.made_size=60"],
    }.get(name, [])


@pytest.mark.parametrize("name", recipe_names())
def test_shipped_recipe_is_readable_described_and_comes_back_from_its_run_folder(name, tmp_path):
    recipe = load_recipe(name, with_data(name, tmp_path))
    assert len(describe_recipe(name)) > 20
    assert not describe_recipe(name).startswith("#")
    config = resolve(recipe.model, recipe.task.build(kind_for(recipe)))
    settings = parse_yaml(to_yaml(recipe, config), "config.yaml")
    assert type(config).parse(settings.pop("resolved")) == config
    assert same(make_recipe(settings), recipe)


@pytest.mark.parametrize("name", recipe_names())
def test_untrained_model_of_a_shipped_recipe_finds_every_answer_as_likely(name, tmp_path):
    """The loss at the start is near ln V, or near ln C where C labels are possible.

    It is what a user is told to expect, and a first check that all is well.

    A tied table drawn as N(0, 1/D) would be far off: logits of standard deviation 1 add 1/2, and where the stream still
    holds the current token's own vector times sqrt(D), that token alone gets a logit near sqrt(D).
    """
    recipe = load_recipe(name, with_data(name, tmp_path))
    data = recipe.task.build(kind_for(recipe))
    config = resolve(recipe.model, data)
    assert config.head is not None
    for seed in range(2):
        model = Transformer(config, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            loss = objective(model, data.train.batch(range(16), 0))
        assert float(loss.mean) == pytest.approx(math.log(config.head.vocab_size), abs=0.2), seed


def test_values_mean_what_their_setting_says(tmp_path):
    """`1e-3` is a number, `no` is a word where a word may stand and False where a truth may."""
    file = tmp_path / "own.yaml"
    file.write_text(
        "task: {name: copy, alphabet: no, min_length: 1}\n"
        "model: {preset: small, tied: no, d_ff: 64}\n"
        "training: {lr: 1e-3, max_steps: 5, warmup: 0, eval_every: none}\n",
        encoding="utf-8",
    )
    recipe = load_recipe(file)
    assert recipe.task.alphabet == "no"
    assert recipe.model.tied is False
    assert (recipe.model.d_ff, recipe.model.d_model) == (64, 128)
    assert recipe.training.lr == 0.001
    assert recipe.training.eval_every is None
    again = make_recipe(yaml_round_trip(recipe))
    assert same(again, recipe)


def yaml_round_trip(recipe: Recipe) -> dict[str, Any]:
    settings = parse_yaml(to_yaml(recipe, resolve(recipe.model, recipe.task.build())), "config.yaml")
    settings.pop("resolved")
    return settings


def test_recipe_made_in_python_comes_back_from_its_run_folder():
    recipe = make_recipe(
        {
            "task": {"name": "sort", "alphabet": "一二三 '\"\\#:\t", "epoch_size": 7, "test_size": 5, "valid_size": 5},
            "model": {"preset": "small", "tied": True, "dropout": 0.0, "attention": {"scale": 0.5, "window": None}},
            "training": {"lr": 1e-3, "betas": (0.9, 0.99), "eps": 1e-12, "clip": None, "max_steps": 3, "warmup": 1},
        }
    )
    assert same(make_recipe(yaml_round_trip(recipe)), recipe)


def test_edits_win_over_the_recipe_and_the_preset():
    recipe = load_recipe(
        "reverse",
        [
            "training.max_steps=7",
            "training.lr=5e-4",
            "training.betas=0.8,0.9",
            "model.d_model=64",
            "model.attention.scale=none",
            "task.alphabet=ab=c",
            " training.seed =3",
        ],
    )
    assert (recipe.training.max_steps, recipe.training.lr, recipe.training.betas) == (7, 5e-4, (0.8, 0.9))
    assert (recipe.model.d_model, recipe.model.attention.scale, recipe.task.alphabet) == (64, "none", "ab=c")
    assert recipe.training.seed == 3
    assert recipe.model.n_layers == 2  # of the preset


def test_edit_of_one_inner_setting_keeps_its_neighbours():
    """With a preset and without: the embedding's other settings stay what they are by default."""
    for name in ("reverse", "language_model"):
        before = load_recipe(name).model.init.embedding
        after = load_recipe(name, ["model.init.embedding.std=0.03"]).model.init.embedding
        assert after == before.model_copy(update={"std": 0.03})
        assert load_recipe(name, ["model.attention.window=5"]).model.attention.window == 5


def test_list_is_said_in_brackets_as_in_the_file():
    recipe = load_recipe("reverse", ["model.attention.window_layers=[0, 2]", "training.betas=[0.8,0.9]"])
    assert (recipe.model.attention.window_layers, recipe.training.betas) == ((0, 2), (0.8, 0.9))
    with pytest.raises(ConfigError, match=r"model\.attention\.window_layers is '\[0'"):
        load_recipe("reverse", ["model.attention.window_layers=[0"])


def test_setting_inside_of_what_is_none_is_the_first_one():
    """A run folder's recipe says none of what is not there."""
    settings = {"task": {"name": "reverse"}, "model": {"attention": {"pattern": "null"}, "rotary": {"scaling": "none"}}}
    edits = ["model.attention.pattern.block=4", "model.rotary.scaling.kind=linear", "model.rotary.scaling.factor=2"]
    model = make_recipe(settings, edits).model
    assert model.attention.pattern == PatternConfig(block=4)
    assert model.rotary.scaling == LinearScaling(factor=2.0)


def test_edits_do_not_reach_back_into_the_settings_they_edit():
    settings = {"task": {"name": "copy"}, "model": {"preset": "small", "attention": {"window": "3"}}, "training": {}}
    copy = yaml.safe_load(yaml.safe_dump(settings))
    make_recipe(settings, ["model.attention.window=5", "training.seed=1", "task.seed=4"])
    assert settings == copy


def test_no_section_is_needed_but_the_task():
    recipe = make_recipe({"task": {"name": "copy"}})
    assert recipe.training.max_steps == 1000
    assert same(make_recipe({"task": {"name": "copy"}, "model": None, "training": ""}), recipe)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ("training.max_step=5", "training.max_step is not a setting; did you mean 'max_steps'?"),
        ("model.dmodel=5", "model.dmodel is not a setting; did you mean 'd_model'?"),
        ("model.attention.widow=5", r"model.attention.widow is not a setting; did you mean 'window'\?"),
        ("task.alfabet=ab", "task.alfabet is not a setting; did you mean 'alphabet'?"),
        ("modle.d_model=5", "modle.d_model does not start with a section of a recipe; did you mean 'model'?"),
        ("model=tiny", "'model=tiny' is not a setting; write it as section.key=value"),
        ("training.max_steps", "'training.max_steps' is not a setting; write it as section.key=value"),
        ("=5", "'=5' is not a setting"),
        ("", "'' is not a setting"),
        ("training.lr.x=1", "training.lr.x: lr is a value and has no settings inside"),
        ("model.preset=smal", "unknown preset 'smal'; did you mean 'small'?"),
        ("task.name=revers", "task.name is 'revers', which is not a task; did you mean 'reverse'?"),
        ("task.text=book.txt", "task.text is not a setting"),
        ("model.n_heads=3", "d_model 128 cannot be shared out to n_heads 3: choose n_heads from"),
        ("task.min_length=30", "min_length 30 is above max_length 20"),
        ("task.alphabet=aba", "alphabet 'aba' holds a symbol twice"),
        ("training.=5", "is not a setting"),
        ("training.max_steps=", "training.max_steps is ''"),
    ],
)
def test_mistake_in_an_edit_is_named_with_what_was_meant(edit, message):
    with pytest.raises(ConfigError) as caught:
        load_recipe("reverse", [edit])
    assert message.replace("\\", "") in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": {"name": "copy"}}, "tasks is not a section of a recipe; did you mean 'task'?"),
        (
            {},
            "task.name is missing; choose one of classification, copy, dates, language_model, matching, reverse, ",
        ),
        ({"task": "copy"}, "task is 'copy'; a section holds settings"),
        ({"task": {"name": "copy"}, "training": ["lr"]}, "training is ['lr']; a section holds settings"),
        ({"task": {"name": "copy"}, "model": {"attention": "sdpa"}}, "model.attention is 'sdpa'"),
    ],
)
def test_mistake_in_a_section_is_named(settings, message):
    with pytest.raises(ConfigError) as caught:
        make_recipe(settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"task: {name: copy", "is not readable YAML"),
        (b"- task\n- model\n", "holds no sections; a recipe has task, model, training"),
        (b"", "holds no sections"),
        (b"just text", "holds no sections"),
        (b"task: {name: c\xff}", r"is not UTF-8 (byte 14)"),
        (b"task: !!python/object/apply:os.getcwd []\n", ""),
    ],
)
def test_file_that_is_no_recipe_is_refused(tmp_path: Path, content: bytes, message: str):
    file = tmp_path / "own.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_recipe(file)
    assert message in str(caught.value)


def test_recipe_that_is_none_names_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown recipe 'shakespear'; did you mean 'shakespeare'\?"):
        load_recipe("shakespear")
    with pytest.raises(ConfigError, match=r"cannot read the recipe .*own\.yml: No such file"):
        load_recipe(tmp_path / "own.yml")
    with pytest.raises(
        ConfigError, match=r"unknown recipe .*; known: chnsenticorp, classification, copy, dates, demo, "
    ):
        load_recipe("?")


def test_recipe_says_what_it_lacks_until_it_is_named(tmp_path):
    assert load_recipe("reverse").missing is None
    recipe = load_recipe("multi30k")
    assert "--set task.data=DIR, a folder that holds train" in str(recipe.missing)
    with pytest.raises(ConfigError, match="the recipe multi30k brings no data"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert load_recipe("multi30k", ["task.data=somewhere"]).missing is None
    assert load_recipe("multi30k", ["task.source=a", "task.target=b"]).missing is None, "files of one's own"
    assert load_recipe("shakespeare", ["task.context=8"]).missing is not None
    assert load_recipe("shakespeare", ["task.text=none"]).missing is None, "asked for by name"
    (tmp_path / "own.yaml").write_text("needs: data\ntask: {name: reverse}\n", "utf-8")
    with pytest.raises(ConfigError, match="needs is 'data'"):
        load_recipe(tmp_path / "own.yaml")


def test_number_of_rows_that_is_asked_for_counts():
    """Recipes for texts of unequal length count tokens; whoever says rows means rows."""
    assert load_recipe("classification").training.batch_tokens is not None
    changed = load_recipe("classification", ["training.batch_size=16"])
    assert (changed.training.batch_size, changed.training.batch_tokens) == (16, None)
    both = load_recipe("classification", ["training.batch_size=16", "training.batch_tokens=512"])
    assert both.training.batch_tokens == 512
