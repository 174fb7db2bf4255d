from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config import AttrDict, assert_losses
from assay.errors import ConfigError

SWAV = {
    "embedding_dim": 1,
    "num_crops": 2,
    "num_prototypes": [1],
    "queue": {"queue_length": 3840, "local_queue_length": 0, "start_iter": 0},
}
SWAV_HEAD = ["swav_head", {"dims": [2048, 2048, 128], "num_clusters": [3000, 500]}]


def config_with(loss: str, section: dict[str, Any] | None = None, **changed: Any) -> AttrDict:
    """2 machines with 4 ranks each, and 32 images a rank: 256 images a step."""
    config = AttrDict(
        {
            "DATA": {
                "TRAIN": {
                    "BATCHSIZE_PER_REPLICA": 32,
                    "DROP_LAST": False,
                    "TRANSFORMS": [{"name": "Flip"}, {"name": "Crops", "total_num_crops": 8}],
                    "COLLATE_FUNCTION": "default_collate",
                }
            },
            "DISTRIBUTED": {"NUM_NODES": 2, "NUM_PROC_PER_NODE": 4, "RUN_ID": "host:1"},
            "CHECKPOINT": {"DIR": "/checkpoints", "APPEND_DISTR_RUN_ID": False},
            "MODEL": {"HEAD": {"PARAMS": [SWAV_HEAD]}},
            "LOSS": {"name": loss, loss: section or {}},
        }
    )
    for key, value in changed.items():
        config.DATA.TRAIN[key] = value
    return config


@pytest.mark.parametrize("loss", ["simclr_info_nce_loss", "my_simclr_info_nce_loss"])
def test_simclr_sees_two_views_of_each_image_of_all_ranks(loss: str) -> None:
    cfg = config_with(loss, {"temperature": 0.1, "buffer_params": {"embedding_dim": 128}})

    assert assert_losses(cfg) is cfg

    assert cfg.LOSS[loss] == {
        "temperature": 0.1,
        "buffer_params": {"embedding_dim": 128, "world_size": 8, "effective_batch_size": 512},
    }
    assert cfg.DATA.TRAIN.COLLATE_FUNCTION == "default_collate"


def test_multicrop_simclr_counts_images_and_takes_the_crops_of_the_transform() -> None:
    cfg = assert_losses(config_with("multicrop_simclr_info_nce_loss"))

    assert cfg.LOSS.multicrop_simclr_info_nce_loss == {
        "num_crops": 8,
        "buffer_params": {"world_size": 8, "effective_batch_size": 256},
    }
    assert cfg.DATA.TRAIN.COLLATE_FUNCTION == "multicrop_collator"


def test_bce_takes_the_number_of_ranks() -> None:
    cfg = assert_losses(config_with("bce_logits_multiple_output_single_target"))

    assert cfg.LOSS.bce_logits_multiple_output_single_target == {"world_size": 8}


@pytest.mark.parametrize("drop_last", [True, False])
def test_deepcluster_takes_the_batches_of_the_data(drop_last: bool) -> None:
    cfg = assert_losses(config_with("deepclusterv2_loss", DROP_LAST=drop_last))

    assert cfg.LOSS.deepclusterv2_loss == {
        "DROP_LAST": drop_last,
        "BATCHSIZE_PER_REPLICA": 32,
        "num_crops": 8,
    }
    assert cfg.DATA.TRAIN.COLLATE_FUNCTION == "multicrop_collator"


@pytest.mark.parametrize("collator", ["multicrop_collator", "multicrop_mixup_collator"])
def test_swav_takes_head_crops_folder_and_whole_batches_in_its_queue(collator: str) -> None:
    cfg = assert_losses(config_with("swav_loss", {**SWAV}, COLLATE_FUNCTION=collator))

    assert cfg.LOSS.swav_loss == {
        "embedding_dim": 128,
        "num_crops": 8,
        "num_prototypes": [3000, 500],
        "output_dir": "/checkpoints",
        "queue": {"queue_length": 3840, "local_queue_length": 480, "start_iter": 0},
    }
    assert collator == cfg.DATA.TRAIN.COLLATE_FUNCTION


def test_momentum_swav_has_its_collator_set_and_needs_no_folder() -> None:
    cfg = assert_losses(config_with("swav_momentum_loss", SWAV))

    assert cfg.LOSS.swav_momentum_loss.num_prototypes == [3000, 500]
    assert "output_dir" not in cfg.LOSS.swav_momentum_loss
    assert cfg.DATA.TRAIN.COLLATE_FUNCTION == "multicrop_collator"


def test_the_prototypes_are_a_copy_of_the_heads() -> None:
    cfg = assert_losses(config_with("swav_momentum_loss", SWAV))

    cfg.LOSS.swav_momentum_loss.num_prototypes.append(1)

    assert cfg.MODEL.HEAD.PARAMS[0][1].num_clusters == [3000, 500]


@given(length=st.integers(0, 10**6), batch=st.integers(1, 300), nodes=st.integers(1, 5))
def test_a_queue_holds_whole_batches_shared_out_evenly(length: int, batch: int, nodes: int) -> None:
    section = {**SWAV, "queue": {"queue_length": length, "local_queue_length": 0}}
    cfg = config_with("swav_momentum_loss", section, BATCHSIZE_PER_REPLICA=batch)
    cfg.DISTRIBUTED.NUM_NODES = nodes

    queue = assert_losses(cfg).LOSS.swav_momentum_loss.queue

    assert 0 <= length - queue.queue_length < batch * nodes * 4
    assert queue.queue_length % (batch * nodes * 4) == 0
    assert queue.local_queue_length * nodes * 4 == queue.queue_length


def test_a_queue_that_is_cut_to_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    section = {**SWAV, "queue": {"queue_length": 255}}

    with caplog.at_level(logging.INFO, logger="assay"):
        cfg = assert_losses(config_with("swav_momentum_loss", section))

    assert cfg.LOSS.swav_momentum_loss.queue.queue_length == 0
    assert "255 is less than a batch of all ranks (256 images), so there is no queue" in caplog.text


@pytest.mark.parametrize("transforms", [[], [{"name": "Flip"}], ["Flip"]])
def test_without_a_transform_that_counts_crops_the_loss_keeps_its_own(
    transforms: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    cfg = config_with("deepclusterv2_loss", {"num_crops": 6}, TRANSFORMS=transforms)

    with caplog.at_level(logging.INFO, logger="assay"):
        assert_losses(cfg)

    assert cfg.LOSS.deepclusterv2_loss.num_crops == 6
    assert "says total_num_crops, so it stays 6" in caplog.text


def test_the_folder_of_a_run_with_an_id_is_named_after_it() -> None:
    cfg = config_with("swav_loss", SWAV, COLLATE_FUNCTION="multicrop_collator")
    cfg.CHECKPOINT = {"DIR": "", "APPEND_DISTR_RUN_ID": True}

    assert assert_losses(cfg).LOSS.swav_loss.output_dir == "host:1"


def test_any_other_loss_is_left_alone() -> None:
    cfg = AttrDict({"LOSS": {"name": "CrossEntropyLoss"}})

    assert assert_losses(cfg) == {"LOSS": {"name": "CrossEntropyLoss"}}


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        ([], "needs one head, swav_head; given none"),
        ([SWAV_HEAD, SWAV_HEAD], "given swav_head, swav_head"),
        ([["mlp", {"dims": [1, 2]}]], "given mlp"),
        (["mlp"], "given mlp"),
        ([["swav_head"]], "[0][1].num_clusters: this key is needed"),
        ([["swav_head", {"num_clusters": [3]}]], "[0][1].dims: this key is needed"),
        ([["swav_head", {"num_clusters": [3], "dims": []}]], "[0][1].dims: expected a list"),
    ],
)
@pytest.mark.parametrize("loss", ["swav_loss", "swav_momentum_loss"])
def test_a_head_that_does_not_fit_swav_is_named(loss: str, heads: list[Any], words: str) -> None:
    cfg = config_with(loss, SWAV, COLLATE_FUNCTION="multicrop_collator")
    cfg.MODEL.HEAD.PARAMS = heads

    with pytest.raises(ConfigError) as caught:
        assert_losses(cfg)

    assert "config.MODEL.HEAD.PARAMS" in str(caught.value)
    assert words in str(caught.value)


def test_all_faults_come_in_one_error_and_nothing_is_changed() -> None:
    cfg = config_with("swav_loss", {**SWAV, "queue": {"queue_length": -1}})
    cfg.MODEL.HEAD.PARAMS = []
    del cfg.CHECKPOINT
    cfg.DATA.TRAIN.TRANSFORMS = [{"name": "Crops", "total_num_crops": "8"}]
    before = copy.deepcopy(cfg)

    with pytest.raises(ConfigError) as caught:
        assert_losses(cfg)

    message = str(caught.value)
    assert message.startswith("5 settings are wrong:")
    assert "config.DATA.TRAIN.COLLATE_FUNCTION: swav_loss needs multicrop_collator or" in message
    assert "config.LOSS.swav_loss.queue.queue_length: expected a whole number of" in message
    assert "config.CHECKPOINT.DIR: this key is needed" in message
    assert "config.DATA.TRAIN.TRANSFORMS[0].total_num_crops: expected a whole number" in message
    assert cfg == before


@pytest.mark.parametrize("key", ["LOSS", "DISTRIBUTED"])
def test_a_missing_section_is_named(key: str) -> None:
    cfg = config_with("simclr_info_nce_loss")
    del cfg[key]

    with pytest.raises(ConfigError, match=rf"config\.{key}\.\w+: this key is needed"):
        assert_losses(cfg)
