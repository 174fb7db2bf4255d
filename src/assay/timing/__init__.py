"""Where the time goes: a stopwatch, timers with a device's view, and NVTX ranges.

None of these imports torch before it is needed. Ranges in Numba code are in
:mod:`assay.timing.numba_nvtx`, which is imported by itself.
"""

from __future__ import annotations

from assay.timing.chrome_trace import Trace, TraceEvent, trace_to_dict
from assay.timing.durations import Bin, Statistics
from assay.timing.exports import (
    summary_from_dict,
    summary_to_csv,
    summary_to_dict,
    write_chrome_trace,
    write_summary_csv,
    write_summary_json,
)
from assay.timing.nvtx import NVTXRangeWrapper
from assay.timing.perf_stats import PerfMetric, PerfStats, PerfTimer
from assay.timing.rank_summary import RankSummary, reduce_ranks, summarize_over_ranks
from assay.timing.stopwatch import Stopwatch
from assay.timing.summary import Measurement, OneTime, Summary
from assay.timing.table import summary_table

__all__ = [
    "Bin",
    "Measurement",
    "NVTXRangeWrapper",
    "OneTime",
    "PerfMetric",
    "PerfStats",
    "PerfTimer",
    "RankSummary",
    "Statistics",
    "Stopwatch",
    "Summary",
    "Trace",
    "TraceEvent",
    "reduce_ranks",
    "summarize_over_ranks",
    "summary_from_dict",
    "summary_table",
    "summary_to_csv",
    "summary_to_dict",
    "trace_to_dict",
    "write_chrome_trace",
    "write_summary_csv",
    "write_summary_json",
]
