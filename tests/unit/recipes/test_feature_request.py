"""What a run needs is asked for at once, with what there is to choose from."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.config import AttrDict, compose, convert_to_attrdict
from assay.errors import ConfigError, ModelError
from assay.recipes.feature_request import open_model, read_feature_request
from assay.recipes.frozen_features import frozen_features
from assay.report.progress import ProgressView

LAYERS = "config.MODEL.FEATURE_EVAL_SETTINGS.LINEAR_EVAL_FEAT_POOL_OPS_MAP"


def settings(*overrides: str) -> AttrDict:
    named = ["config.MODEL.TRUNK.NAME='torchvision:resnet18'", "config.DATA.TRAIN.DATA_PATHS=[a]"]
    return convert_to_attrdict(compose([*named, "config.MACHINE.DEVICE=cpu", *overrides]))[1]


def test_a_model_without_layers_has_its_layers_named() -> None:
    with pytest.raises(ConfigError, match=r"--layers A,B.*of torchvision:resnet18 are conv1, .*fc"):
        read_feature_request(settings())


def test_without_a_model_there_are_no_layers_to_name() -> None:
    with pytest.raises(ConfigError, match="No model is named") as caught:
        read_feature_request(settings("config.MODEL.TRUNK.NAME=null"))

    assert "Those of" not in str(caught.value)


def test_an_unknown_layer_is_refused_as_soon_as_the_model_is_there() -> None:
    request = read_feature_request(
        settings(f"{LAYERS}=[layr4]", "config.MODEL.WEIGHTS_INIT.PARAMS_FILE=random")
    )

    with pytest.raises(ModelError, match=r"no layer 'layr4'.*Did you mean 'layer4'"):
        open_model(request)


def test_a_request_that_cannot_be_leaves_no_folder(tmp_path: Path) -> None:
    config = settings(f"config.RUN.OUTPUT_DIR='{tmp_path}/out'", f"{LAYERS}=[]")
    opening = frozen_features(config, nproc=1, view=ProgressView(), environ={})

    with pytest.raises(ConfigError), opening:
        pytest.fail("there is no layer")

    assert not list(tmp_path.iterdir())
