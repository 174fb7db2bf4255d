from __future__ import annotations

import pytest

from assay import errors


@pytest.mark.parametrize(
    ("error", "built_in"),
    [
        (errors.ConfigError, ValueError),
        (errors.ModelError, ValueError),
        (errors.ImageError, ValueError),
        (errors.ShardError, ValueError),
        (errors.MetricError, ValueError),
        (errors.CheckpointError, RuntimeError),
        (errors.DumpMismatchError, ValueError),
        (errors.MissingDumpError, ValueError),
        (errors.MissingDumpError, FileNotFoundError),
        (errors.OutputError, OSError),
        (errors.LaunchError, RuntimeError),
        (errors.InstrumentError, AssertionError),
        (errors.InstrumentError, RuntimeError),
        (errors.CompatError, ImportError),
        (errors.MissingExtraError, ImportError),
    ],
)
def test_each_error_is_also_the_built_in_that_callers_expect(
    error: type[Exception], built_in: type[Exception]
) -> None:
    assert issubclass(error, built_in)
    assert issubclass(error, errors.AssayError)


def test_every_error_stands_in_the_tree_of_the_docstring() -> None:
    assert errors.__doc__ is not None
    for name in errors.__all__:
        if isinstance(getattr(errors, name), type):
            assert name in errors.__doc__
