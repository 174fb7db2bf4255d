from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

import assay.config
from assay.config import compose, convert_to_attrdict, setting_keys

SHIPPED = Path(assay.config.__file__).parent / "yaml"

LR: dict[str, Any] = {
    "auto_lr_scaling": {"auto_scale": False, "base_value": 0.1, "base_lr_batch_size": 256},
    "name": "multistep",
    "update_interval": "epoch",
    "values": [0.1, 0.01, 0.001],
    "milestones": [30, 60],
    "schedulers": [],
    "interval_scaling": [],
    "lengths": [],
    "start_value": 0.1,
    "end_value": 0.0,
    "value": 0.1,
}
SPLIT: dict[str, Any] = {
    "DATA_SOURCES": [],
    "DATA_PATHS": [],
    "LABEL_SOURCES": [],
    "LABEL_PATHS": [],
    "LABEL_TYPE": "standard",
    "BATCHSIZE_PER_REPLICA": 256,
    "TRANSFORMS": [],
    "COLLATE_FUNCTION": "default_collate",
    "DATA_LIMIT": -1,
    "DROP_LAST": False,
    "MMAP_MODE": True,
    "COPY_TO_LOCAL_DISK": False,
    "COPY_DESTINATION_DIR": "",
}
BUFFER = {"world_size": 64, "embedding_dim": 128, "effective_batch_size": 4096}
SWAV: dict[str, Any] = {
    "embedding_dim": 128,
    "num_crops": 2,
    "num_prototypes": [3000],
    "queue": {"queue_length": 0, "local_queue_length": 0, "start_iter": 0},
}
CONTRACT: dict[str, Any] = {
    "VERSION": 1,
    "node_id": 0,
    "engine_name": "train",
    "config": {
        "SEED_VALUE": 0,
        "LOG_FREQUENCY": 10,
        "MULTI_PROCESSING_METHOD": "forkserver",
        "MACHINE": {"DEVICE": "gpu"},
        "MONITOR_PERF_STATS": False,
        "PERF_STAT_FREQUENCY": -1,
        "ROLLING_BTIME_FREQ": -1,
        "DATA": {
            "TRAIN": SPLIT,
            "TEST": SPLIT,
            "NUM_DATALOADER_WORKERS": 4,
            "PIN_MEMORY": True,
        },
        "DISTRIBUTED": {
            "BACKEND": "nccl",
            "NUM_NODES": 1,
            "NUM_PROC_PER_NODE": 8,
            "INIT_METHOD": "tcp",
            "RUN_ID": "auto",
            "NCCL_DEBUG": False,
            "NCCL_SOCKET_NTHREADS": "",
            "MANUAL_GRADIENT_REDUCTION": False,
        },
        "CHECKPOINT": {
            "DIR": ".",
            "APPEND_DISTR_RUN_ID": False,
            "BACKEND": "disk",
            "AUTO_RESUME": True,
            "CHECKPOINT_FREQUENCY": 1,
            "CHECKPOINT_ITER_FREQUENCY": -1,
            "OVERWRITE_EXISTING": False,
            "LATEST_CHECKPOINT_RESUME_FILE_NUM": 1,
        },
        "MODEL": {
            "TRUNK": {"NAME": "resnet"},
            "HEAD": {"PARAMS": []},
            "WEIGHTS_INIT": {
                "PARAMS_FILE": "",
                "STATE_DICT_KEY_NAME": "classy_state_dict",
                "SKIP_LAYERS": ["num_batches_tracked"],
                "REMOVE_PREFIX": "",
                "APPEND_PREFIX": "",
            },
            "FEATURE_EVAL_SETTINGS": {
                "EVAL_MODE_ON": False,
                "FREEZE_TRUNK_ONLY": False,
                "FREEZE_TRUNK_AND_HEAD": False,
                "EXTRACT_TRUNK_FEATURES_ONLY": False,
                "EVAL_TRUNK_AND_HEAD": False,
                "SHOULD_FLATTEN_FEATS": True,
                "LINEAR_EVAL_FEAT_POOL_OPS_MAP": [],
            },
        },
        "OPTIMIZER": {
            "weight_decay": 1e-4,
            "num_epochs": 90,
            "head_optimizer_params": {
                "use_different_lr": False,
                "use_different_wd": False,
                "weight_decay": 1e-4,
            },
            "param_schedulers": {"lr": LR, "lr_head": LR},
        },
        "METERS": {
            "name": "",
            "accuracy_list_meter": {"num_meters": 1, "meter_names": []},
            "mean_ap_list_meter": {"num_meters": 1, "meter_names": []},
        },
        "LOSS": {
            "name": "CrossEntropyLoss",
            "simclr_info_nce_loss": {"buffer_params": BUFFER},
            "multicrop_simclr_info_nce_loss": {"num_crops": 2, "buffer_params": BUFFER},
            "bce_logits_multiple_output_single_target": {"world_size": 1},
            "deepclusterv2_loss": {
                "DROP_LAST": True,
                "BATCHSIZE_PER_REPLICA": 256,
                "num_crops": 2,
            },
            "swav_loss": {**SWAV, "output_dir": ""},
            "swav_momentum_loss": SWAV,
        },
        "SVM": {
            "normalize": True,
            "cls_list": [],
            "loss": "squared_hinge",
            "penalty": "l2",
            "dual": True,
            "max_iter": 2000,
            "cross_val_folds": 3,
            "costs": {"costs_list": [0.1, 0.01], "base": -1.0, "power_range": [4, 20]},
            "force_retrain": False,
            "low_shot": {
                "dataset_name": "voc",
                "sample_inds": [1, 2, 3, 4, 5],
                "k_values": [1, 2, 4, 8, 16, 32, 64, 96],
            },
        },
        "IMG_RETRIEVAL": {
            "RESIZE_IMG": 1024,
            "SPATIAL_LEVELS": 3,
            "N_PCA": 512,
            "DATASET_PATH": "",
            "TRAIN_DATASET_NAME": "Oxford",
            "EVAL_DATASET_NAME": "Paris",
            "EVAL_BINARY_PATH": "",
            "SHOULD_TRAIN_PCA_OR_WHITENING": True,
            "FEATS_PROCESSING_TYPE": "",
            "GEM_POOL_POWER": 4.0,
            "WHITEN_IMG_LIST": "",
        },
        "NEAREST_NEIGHBOR": {"SIGMA": 0.1, "TOPK": 200, "L2_NORM_FEATS": False},
        "TENSORBOARD_SETUP": {
            "USE_TENSORBOARD": False,
            "FLUSH_EVERY_N_MIN": 5,
            "LOG_PARAMS": True,
            "LOG_PARAMS_GRADIENTS": True,
            "LOG_PARAMS_EVERY_N_ITERS": 310,
        },
    },
}
OURS: dict[str, Any] = {
    "config.IMG_RETRIEVAL.TEMP_DIR": "",
    "config.DATA.TEST_FRACTION": 0.4,
    "config.DATA.BAD_IMAGES": "error",
    "config.RUN.OUTPUT_DIR": "runs/svm",
    "config.RUN.FORCE": False,
    "config.RUN.REPORT": True,
    "config.EXTRACT.AMP": "none",
    "config.EXTRACT.CHANNELS_LAST": "auto",
    "config.TRANSFORM.RESIZE": None,
    "config.TRANSFORM.CROP": None,
    "config.TRANSFORM.INTERPOLATION": None,
    "config.TRANSFORM.MEAN": None,
    "config.TRANSFORM.STD": None,
    "config.SVM.ignore_label": "negative",
    "config.OPTIMIZER.param_schedulers.lr.auto_lr_scaling.scaling_type": "linear",
    "config.OPTIMIZER.param_schedulers.lr_head.auto_lr_scaling.scaling_type": "linear",
}


def leaves(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {}
        found |= {} if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def test_the_defaults_are_those_of_the_contract_and_ours(defaults: Any) -> None:
    composed = leaves(OmegaConf.to_container(defaults))

    assert composed == leaves(CONTRACT) | OURS


def test_the_schema_knows_each_default_key_and_no_other(defaults: Any) -> None:
    assert set(setting_keys()) == set(leaves(OmegaConf.to_container(defaults)))


@pytest.mark.parametrize("name", ["defaults.yaml", "config/demo.yaml"])
def test_every_key_of_a_shipped_file_has_a_comment(name: str) -> None:
    lines = (SHIPPED / name).read_text(encoding="utf-8").splitlines()
    start = next(
        number for number, line in enumerate(lines) if re.match(r"(VERSION|config):", line)
    )
    bare = [
        line
        for before, line in zip(lines[start:], lines[start + 1 :], strict=False)
        if re.match(r"\s*\w+:\s*\S", line) and "#" not in line and "#" not in before
    ]

    assert bare == []


def test_the_demo_is_the_bundled_model_on_the_bundled_images() -> None:
    _, config = convert_to_attrdict(compose(["config=demo"]))
    layers = config.MODEL.FEATURE_EVAL_SETTINGS.LINEAR_EVAL_FEAT_POOL_OPS_MAP

    assert config.MODEL.TRUNK.NAME == "efficientnet-lite0"
    assert config.DATA.TRAIN.DATA_SOURCES == ["digits"]
    assert config.DATA.TEST.DATA_PATHS == []
    assert [entry if isinstance(entry, str) else entry[0] for entry in layers] == [
        "_avg_pooling",
        "_blocks.10",
    ]
    assert config.TRANSFORM == {
        "RESIZE": [64, 64],
        "CROP": None,
        "INTERPOLATION": "bicubic",
        "MEAN": None,
        "STD": None,
    }
    assert config.SVM.costs.costs_list == [0.1, 1, 10, 100]
    assert config.RUN.OUTPUT_DIR == "runs/demo"
    assert config.MACHINE.DEVICE == "auto"
