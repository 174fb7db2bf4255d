"""Every error that assay raises on purpose.

Each class is both an :class:`AssayError` and the built-in that a caller would expect, so
``except ValueError`` written years ago still works::

    AssayError
    ├── ConfigError       (ValueError)         a setting is unknown, of a wrong type or out of range
    ├── ModelError        (ValueError)         a model, layer or weights file cannot be used
    ├── DataError         (ValueError)         images, labels or arrays cannot be used
    │   ├── ImageError                         image files that cannot be read, all of them named
    │   └── ShardError                         feature shards missing or contradicting each other
    ├── MetricError       (ValueError)         scores or targets for which a metric is not defined
    ├── CheckpointError   (RuntimeError)       a checkpoint cannot be found, verified or read
    ├── DumpError         (ValueError)         data cannot be dumped, or a dump cannot be read
    │   ├── DumpMismatchError                  a comparison found differences
    │   └── MissingDumpError  (FileNotFoundError)  there is no dump to compare with
    ├── OutputError       (OSError)            a result cannot be written
    ├── LaunchError       (RuntimeError)       a rank failed, or its variables make no sense
    ├── InstrumentError   (RuntimeError, AssertionError)  an instrument is used against its rules
    ├── CompatError       (ImportError)        a name of another package cannot be had here
    └── MissingExtraError (ImportError)        an optional package is not installed

    AssayWarning          (UserWarning)        the run goes on, yet its reader should know

A message says what is wrong, where, and how to mend it.
"""

from __future__ import annotations

__all__ = [
    "AssayError",
    "AssayWarning",
    "CheckpointError",
    "CompatError",
    "ConfigError",
    "DataError",
    "DumpError",
    "DumpMismatchError",
    "ImageError",
    "InstrumentError",
    "LaunchError",
    "MetricError",
    "MissingDumpError",
    "MissingExtraError",
    "ModelError",
    "OutputError",
    "ShardError",
    "nearest_names",
]

from collections.abc import Iterable


class AssayError(Exception):
    """Base of all errors that assay raises on purpose."""


class ConfigError(AssayError, ValueError):
    """A setting is unknown, of a wrong type or out of range."""


class ModelError(AssayError, ValueError):
    """A model, layer or weights file cannot be used."""


class DataError(AssayError, ValueError):
    """Images, labels or arrays cannot be used."""


class ImageError(DataError):
    """Image files that cannot be read; the message names each with its reason."""


class ShardError(DataError):
    """Feature shards that are missing or contradict each other."""


class MetricError(AssayError, ValueError):
    """Scores or targets for which a metric is not defined."""


class CheckpointError(AssayError, RuntimeError):
    """A checkpoint cannot be found, verified or read; the message names the file and its fault."""


class DumpError(AssayError, ValueError):
    """Data cannot be dumped, or a dump cannot be read."""


class DumpMismatchError(DumpError):
    """A comparison of two dumps found differences; the message names them, the worst first."""


class MissingDumpError(DumpError, FileNotFoundError):
    """There is no dump to compare with."""


class OutputError(AssayError, OSError):
    """A result cannot be written."""


class LaunchError(AssayError, RuntimeError):
    """A rank failed, or the variables that describe the ranks contradict each other."""


class InstrumentError(AssayError, RuntimeError, AssertionError):
    """An instrument (stopwatch, ranges, dumper) is used against its rules."""


class CompatError(AssayError, ImportError):
    """A dotted name of another package is unknown here, or that package is really installed."""


class MissingExtraError(AssayError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class AssayWarning(UserWarning):
    """The run goes on, yet its reader should know."""


def nearest_names(wanted: str, known: Iterable[str], count: int = 3) -> str:
    """A hint for an error about an unknown name: its nearest neighbours, or nothing.

    >>> nearest_names("layr3", ["layer2", "layer3", "fc"])
    " Did you mean 'layer3' or 'layer2'?"
    >>> nearest_names("zzz", ["layer2"])
    ''
    """
    import difflib

    near = difflib.get_close_matches(wanted, list(known), n=count, cutoff=0.6)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
