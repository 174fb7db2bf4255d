from __future__ import annotations

from typing import Any

import pytest

from assay.config import check, convert_to_attrdict
from assay.errors import ConfigError

# override -> key, what was expected, what was given
WRONG = [
    ("VERSION=2", "VERSION", "expected 1", "given 2"),
    ("VERSION=true", "VERSION", "expected 1", "given true"),
    ("node_id=-1", "node_id", "a whole number of at least 0", "given -1"),
    ("engine_name=''", "engine_name", "text that is not empty", 'given ""'),
    ("config.SEED_VALUE=-1", "config.SEED_VALUE", "from 0 to 4294967295", "given -1"),
    ("config.SEED_VALUE=4294967296", "config.SEED_VALUE", "from 0 to 4294967295", "given 42949672"),
    ("config.SEED_VALUE=true", "config.SEED_VALUE", "a whole number", "given true"),
    ("config.SEED_VALUE=1.0", "config.SEED_VALUE", "a whole number", "given 1.0"),
    ("config.SEED_VALUE=null", "config.SEED_VALUE", "a whole number", "given null"),
    ("config.SEED_VALUE='3'", "config.SEED_VALUE", "a whole number", 'given "3"'),
    ("config.LOG_FREQUENCY=0", "config.LOG_FREQUENCY", "of at least 1", "given 0"),
    ("config.MULTI_PROCESSING_METHOD=frok", "config.MULTI_PROCESSING_METHOD", "fork", "'fork'?"),
    ("config.PERF_STAT_FREQUENCY=0", "config.PERF_STAT_FREQUENCY", "-1 or", "given 0"),
    ("config.RUN.OUTPUT_DIR=''", "config.RUN.OUTPUT_DIR", "a path", 'given ""'),
    ("config.RUN.OUTPUT_DIR=2024", "config.RUN.OUTPUT_DIR", "a path", 'Write "2024", with the'),
    ("config.RUN.FORCE=1", "config.RUN.FORCE", "true or false", "given 1"),
    ("config.MACHINE.DEVICE=tpu", "config.MACHINE.DEVICE", "cuda:N", 'given "tpu"'),
    ("config.MACHINE.DEVICE=cpu:0", "config.MACHINE.DEVICE", "cuda:N", 'given "cpu:0"'),
    ("config.DATA.NUM_DATALOADER_WORKERS=-1", "config.DATA.NUM_DATALOADER_WORKERS", "0", "-1"),
    ("config.DATA.TEST_FRACTION=0", "config.DATA.TEST_FRACTION", "above 0 and below 1", "given 0"),
    ("config.DATA.TEST_FRACTION=1.0", "config.DATA.TEST_FRACTION", "below 1", "given 1.0"),
    ("config.DATA.TEST_FRACTION=nan", "config.DATA.TEST_FRACTION", "above 0", "given .nan"),
    ("config.DATA.BAD_IMAGES=skipp", "config.DATA.BAD_IMAGES", "error or skip", "'skip'?"),
    ("config.DATA.TRAIN.DATA_PATHS=photos", "config.DATA.TRAIN.DATA_PATHS", "a list", '"photos"'),
    ("config.DATA.TEST.DATA_PATHS=[a,3]", "config.DATA.TEST.DATA_PATHS[1]", "a path", "given 3"),
    ("config.DATA.TRAIN.DATA_SOURCES=[vocc]", "config.DATA.TRAIN.DATA_SOURCES[0]", "npy", "'voc'"),
    ("config.DATA.TRAIN.LABEL_TYPE=none", "config.DATA.TRAIN.LABEL_TYPE", "standard", '"none"'),
    ("config.DATA.TRAIN.BATCHSIZE_PER_REPLICA=0", "BATCHSIZE_PER_REPLICA", "at least 1", "given 0"),
    ("config.DATA.TRAIN.TRANSFORMS=[{nam: x}]", "TRANSFORMS[0].name", "missing", "override"),
    ("config.DATA.TRAIN.TRANSFORMS=[Crop]", "TRANSFORMS[0]", "a section", 'given "Crop"'),
    ("config.DATA.TEST.DATA_LIMIT=0", "config.DATA.TEST.DATA_LIMIT", "-1 or", "given 0"),
    ("config.TRANSFORM.RESIZE=0", "config.TRANSFORM.RESIZE", "or null", "given 0"),
    (
        "config.TRANSFORM.RESIZE=[1,2,3]",
        "config.TRANSFORM.RESIZE",
        "a list of 2",
        "given [1, 2, 3]",
    ),
    ("config.TRANSFORM.CROP=no", "config.TRANSFORM.CROP", "none; or null", "Did you mean 'none'?"),
    ("config.TRANSFORM.INTERPOLATION=cubic", "INTERPOLATION", "bicubic", "'bicubic'?"),
    ("config.TRANSFORM.MEAN=[0.5]", "config.TRANSFORM.MEAN", "a list of 3", "given [0.5]"),
    ("config.TRANSFORM.STD=[1,1,0]", "config.TRANSFORM.STD", "from 1e-06", "given [1, 1, 0]"),
    ("config.TRANSFORM.STD=[1,1,1e-320]", "config.TRANSFORM.STD", "from 1e-06 to", "1e-320"),
    ("config.TRANSFORM.MEAN=[1e300,0,0]", "config.TRANSFORM.MEAN", "to 1e+06", "1e+300"),
    ("config.TRANSFORM.RESIZE=10000000000", "config.TRANSFORM.RESIZE", "1 to 16384", "10000000000"),
    ("config.TRANSFORM.CROP=[16385,1]", "config.TRANSFORM.CROP", "1 to 16384", "16385"),
    ("config.EXTRACT.AMP=fp8", "config.EXTRACT.AMP", "none, bf16 or fp16", 'given "fp8"'),
    ("config.EXTRACT.CHANNELS_LAST=maybe", "CHANNELS_LAST", "true or false or auto", '"maybe"'),
    ("config.MODEL.TRUNK.NAME=''", "config.MODEL.TRUNK.NAME", "or null", 'given ""'),
    ("config.MODEL.HEAD.PARAMS=[mlp]", "config.MODEL.HEAD.PARAMS[0]", "a list", 'given "mlp"'),
    ("config.MODEL.WEIGHTS_INIT.SKIP_LAYERS=[1]", "SKIP_LAYERS", "text", "given [1]"),
    (
        "config.MODEL.FEATURE_EVAL_SETTINGS.LINEAR_EVAL_FEAT_POOL_OPS_MAP=[[a,b,c]]",
        "LINEAR_EVAL_FEAT_POOL_OPS_MAP[0]",
        "[NAME, POOL]",
        'given ["a", "b", "c"]',
    ),
    ("config.SVM.loss=hing", "config.SVM.loss", "squared_hinge or hinge", "'hinge'?"),
    ("config.SVM.cross_val_folds=1", "config.SVM.cross_val_folds", "at least 2", "given 1"),
    ("config.SVM.max_iter=1e3", "config.SVM.max_iter", "a whole number", "given 1000.0"),
    ("config.SVM.cls_list=[0,-1]", "config.SVM.cls_list[1]", "at least 0", "given -1"),
    ("config.SVM.costs.costs_list=[0]", "config.SVM.costs.costs_list[0]", "from 1e-12", "given 0"),
    ("config.SVM.costs.costs_list=[1e-320]", "costs_list[0]", "from 1e-12", "given 1e-320"),
    ("config.SVM.costs.costs_list=[1,1e308]", "costs_list[1]", "to 1e+12", "given 1e+308"),
    ("config.SVM.costs.base=1e20", "config.SVM.costs.power_range", "1e-12 to 1e+12", "[4, 20]"),
    ("config.SVM.costs.base=1e-320", "config.SVM.costs.power_range", "1e-12", "[4, 20]"),
    (
        "config.SVM.costs={base: 1, power_range: [0, 1000000000]}",
        "power_range",
        "more than",
        "1000",
    ),
    ("config.SVM.costs.costs_list=[inf]", "config.SVM.costs.costs_list[0]", "from 1e-12", ".inf"),
    ("config.SVM.costs.costs_list=[]", "config.SVM.costs.costs_list", "no cost", "override"),
    ("config.SVM.costs={base: 2, power_range: [3, 3]}", "power_range", "[3, 3] is empty", "END"),
    (
        "config.SVM.costs.power_range=[1]",
        "config.SVM.costs.power_range",
        "a list of 2",
        "given [1]",
    ),
    ("config.SVM.penalty=l1", "config.SVM.loss", "no solver", "dual=true"),
    ("config.SVM.ignore_label=dropp", "config.SVM.ignore_label", "negative or drop", "'drop'?"),
    ("config.SVM.low_shot.dataset_name=coco", "config.SVM.low_shot.dataset_name", "voc07", "coco"),
    ("config.SVM.low_shot.k_values=[]", "config.SVM.low_shot.k_values", "not empty", "given []"),
    ("config.SVM=null", "config.SVM", "a section of keys", "given null"),
    ("config.SVM=fast", "config.SVM", "a section of keys", 'given "fast"'),
    ("config.SVM.max_iter=???", "config.SVM.max_iter", "a value is needed", "max_iter=VALUE"),
    ("config.NEAREST_NEIGHBOR.SIGMA=0", "config.NEAREST_NEIGHBOR.SIGMA", "above 0", "given 0"),
    (
        "config.IMG_RETRIEVAL.FEATS_PROCESSING_TYPE=gen",
        "FEATS_PROCESSING_TYPE",
        "'', rmac",
        "'gem'",
    ),
    ("config.DISTRIBUTED.BACKEND=ncl", "config.DISTRIBUTED.BACKEND", "gloo", "'nccl'?"),
    ("config.DISTRIBUTED.RUN_ID=0", "config.DISTRIBUTED.RUN_ID", "text that is not empty", "0"),
    ("config.CHECKPOINT.CHECKPOINT_FREQUENCY=-2", "CHECKPOINT_FREQUENCY", "-1 or", "given -2"),
    ("config.OPTIMIZER.weight_decay=-1", "config.OPTIMIZER.weight_decay", "at least 0", "-1"),
    (
        "config.OPTIMIZER.param_schedulers.lr.auto_lr_scaling.scaling_type=cubic",
        "lr.auto_lr_scaling.scaling_type",
        "linear or sqrt",
        'given "cubic"',
    ),
    ("config.OPTIMIZER.param_schedulers.lr.name=cosin", "lr.name", "cosine", "'cosine'?"),
    (
        "config.OPTIMIZER.param_schedulers.lr.schedulers=[{name: liner}]",
        "config.OPTIMIZER.param_schedulers.lr.schedulers[0].name",
        "linear",
        "'linear'",
    ),
    ("config.LOSS.swav_loss.num_prototypes=[]", "num_prototypes", "not empty", "given []"),
    ("config.METERS.accuracy_list_meter.num_meters=0", "num_meters", "at least 1", "given 0"),
    ("config.TENSORBOARD_SETUP.FLUSH_EVERY_N_MIN=0", "FLUSH_EVERY_N_MIN", "above 0", "given 0"),
]

# override -> the key that is unknown, the nearest known
UNKNOWN = [
    ("config.SVM.maxiter=3", "config.SVM.maxiter", "config.SVM.max_iter"),
    ("config.SVN.max_iter=3", "config.SVN.max_iter", "config.SVM.max_iter"),
    ("config.svm.MAX_ITER=3", "config.svm.MAX_ITER", "config.SVM.max_iter"),
    ("SVM.max_iter=3", "SVM.max_iter", "config.SVM.max_iter"),
    ("config.SVM.costs_list=[1]", "config.SVM.costs_list", "config.SVM.costs.costs_list"),
    ("config.MODEL.NAME=x", "config.MODEL.NAME", "config.MODEL.TRUNK.NAME"),
    ("config.OUTPUT_DIR=x", "config.OUTPUT_DIR", "config.RUN.OUTPUT_DIR"),
    ("config.SEED=1", "config.SEED", "config.SEED_VALUE"),
    ("config.DATA.TRAIN.BATCH_SIZE=1", "BATCH_SIZE", "config.DATA.TRAIN.BATCHSIZE_PER_REPLICA"),
    ("VERSON=1", "VERSON", "VERSION"),
    ("+config.EXTRACT.fast=1", "config.EXTRACT.fast", "config.EXTRACT has AMP and CHANNELS_LAST"),
    ("config.SVM={a: 1}", "config.SVM.a", "config.SVM has normalize"),
]


def fault_of(defaults: Any, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        convert_to_attrdict(defaults, overrides)
    return str(caught.value)


@pytest.mark.parametrize(("override", "key", "expected", "given"), WRONG)
def test_a_wrong_value_is_named_with_what_would_be_right(
    defaults: Any, override: str, key: str, expected: str, given: str
) -> None:
    start, _, rest = fault_of(defaults, override).partition(": ")

    assert start.endswith(key)
    assert expected in rest
    assert given in rest
    assert f"override '{override}'" in rest


@pytest.mark.parametrize(("override", "key", "nearest"), UNKNOWN)
def test_an_unknown_key_is_named_with_the_nearest_known(
    defaults: Any, override: str, key: str, nearest: str
) -> None:
    message = fault_of(defaults, override)

    assert f"{key}: there is no such setting (override '{override}')" in message
    assert nearest in message


@pytest.mark.parametrize("override", ["~config.SVM.max_iter", "~config.SVM", "~config.DATA.TEST"])
def test_a_key_that_is_taken_out_and_needed_is_named(defaults: Any, override: str) -> None:
    message = fault_of(defaults, override)

    assert f"{override[1:]}: this key is missing (override '{override}')" in message


UNFIT = [
    ("config", "KEY=VALUE"),
    ("config.SVM.max_iter", "KEY=VALUE"),
    ("config.SVM.cls_list=[1,", "cannot be read"),
    ("config.RUN.OUTPUT_DIR=http://x/?a=b", "quotes"),
    ("--max-iter=3", "cannot be read"),
    ("config.SVM.max_iter=1,2", "several values"),
    ("config.SVM.max_iter=choice(1,2)", "several values"),
    ("config.SVM.max_iter=range(1,3)", "several values"),
    ("hydra.run.dir=x", "Hydra's own"),
    ("hydra/job_logging=none", "Hydra's own"),
    ("+nogroup/x=3", "no group"),
    ("config.SVM.max_iter@x=3", "no group"),
    ("+config.SVM.max_iter=3", "write config.SVM.max_iter=3"),
    ("~config.SVN", "Did you mean config.SVM"),
    ("~config.SVM.max_iter=7", "another value"),
    ("~config.SVM.low_shot.k_values.0", "item of a list"),
    ("config.SVM.low_shot.k_values.99=1", "out of range"),
    ("config.SVM.low_shot.k_values.x=1", "cannot be set"),
    ("config.SVM.cls_list={a: 1}", "cannot be set"),
    ("config.RUN.OUTPUT_DIR=${", "cannot be"),
]


@pytest.mark.parametrize(("override", "words"), UNFIT)
def test_an_override_that_cannot_be_followed_is_quoted(
    defaults: Any, override: str, words: str
) -> None:
    message = fault_of(defaults, override)

    assert message.startswith(f"override '{override}': ")
    assert words in message


RIGHT = [
    "config.DATA.TEST_FRACTION=0.999",
    "config.OPTIMIZER.weight_decay=0",
    "config.IMG_RETRIEVAL.GEM_POOL_POWER=inf",
    "config.TRANSFORM.RESIZE=256",
    "config.TRANSFORM.CROP=[224,192]",
    "config.TRANSFORM.CROP=none",
    "config.MACHINE.DEVICE=cuda:1",
    "config.MACHINE.DEVICE=auto",
    "config.EXTRACT.CHANNELS_LAST=false",
    "config.MODEL.TRUNK.NAME=null",
    "config.MODEL.WEIGHTS_INIT.SKIP_LAYERS=null",
    "config.DISTRIBUTED.RUN_ID=29500",
    "config.DISTRIBUTED.NCCL_SOCKET_NTHREADS=4",
    "config.SVM.costs={costs_list: [], base: 2.0}",
    "config.SVM.low_shot.dataset_name=places205",
    "config.MODEL.FEATURE_EVAL_SETTINGS.LINEAR_EVAL_FEAT_POOL_OPS_MAP=[a,[b,max],[c,[A,[[1,1]]]]]",
]


@pytest.mark.parametrize("override", RIGHT)
def test_what_stands_at_the_edge_of_a_rule_is_allowed(defaults: Any, override: str) -> None:
    convert_to_attrdict(defaults, [override])


def test_several_faults_come_in_one_error_each_once(defaults: Any) -> None:
    message = fault_of(
        defaults, "config.SVM.max_iter=0", "config.SVM.foo=1", "config.RUN.FORCE=no way"
    )

    assert message.startswith("3 settings are wrong:\n  - ")
    assert len(message.splitlines()) == 4


def test_a_secret_is_not_repeated_in_the_error(defaults: Any) -> None:
    message = fault_of(defaults, "config.RUN.api_key=hunter2", "config.SVM.password={a: hunter3}")

    assert "hunter" not in message
    assert "config.RUN.api_key" in message


def test_check_says_where_a_value_comes_from_if_it_is_told(defaults: Any) -> None:
    cfg, _ = convert_to_attrdict(defaults)
    check(cfg, {})
    cfg.config.SVM.max_iter = 0
    cfg.config.SVM.costs.costs_list = [0]

    with pytest.raises(ConfigError) as caught:
        check(cfg, {"config.SVM.max_iter": "a.yaml:3", "config.SVM.costs.costs_list": "b.yaml:4"})

    assert "max_iter: expected a whole number of at least 1, given 0 (a.yaml:3)." in str(
        caught.value
    )
    expected = "costs_list[0]: expected a number from 1e-12 to 1e+12, given 0 (b.yaml:4)."
    assert expected in str(caught.value)
