"""Forward passes of a frozen model: the same bits for an image whoever computes them.

What the bits of a float32 feature depend on was measured on CPUs (oneDNN and MKL, AVX-512) with
EfficientNet-Lite0, ResNet-18, ViT-B/32 and single layers:

- on the *size of the batch*: another size takes other kernels, which add in another order;
- on the *number of threads* within an operation, in some layers (Linear(1280, 1000), 1x1
  convolutions over few pixels): they cut a sum in other places;
- not on the place in the batch, nor on the other images of it. (The one exception met is a
  matrix product with a single output column.)

So every pass has a batch of the same size, and on a CPU every operation has one thread: several
threads work on several batches at once instead. That is also the faster way under load, as no
thread waits for another in mid-operation.
"""

from __future__ import annotations

import contextlib
import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from assay.errors import ConfigError
from assay.features.layer_spec import LayerSpec
from assay.features.layer_taps import LayerTaps

__all__ = ["Precision", "frozen_forward", "in_order", "prefers_channels_last", "resolve_device"]

Precision = Literal["bf16", "fp16"]
Features = dict[str, npt.NDArray[np.float32]]  # layer -> (N, D)

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def resolve_device(name: str, rank: int) -> torch.device:
    """The device that a name means to a rank.

    "auto" is the accelerator if there is one, else the CPU; "gpu" the accelerator. Where a name has
    no index, ranks take the devices in turn.

    Raises:
        ConfigError: no such device here.
    """
    accelerator = _accelerator()
    if name in ("auto", "gpu"):
        if accelerator is None and name == "gpu":
            raise ConfigError(
                'Device "gpu": PyTorch finds no accelerator here. Use "auto" or "cpu".'
            )
        name = accelerator or "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(
            f'Device {name!r} is not known to PyTorch. Use "auto", "cpu", or a name like "cuda:0".'
        ) from error
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != accelerator:
        raise ConfigError(
            f"Device {name!r}: PyTorch finds {accelerator or 'no accelerator'} here. "
            f'Use "auto" or "cpu".'
        )
    count = _device_count(device.type)
    if device.index is None:
        return torch.device(device.type, rank % count)
    if device.index >= count:
        raise ConfigError(f"Device {name!r}: there are {count}, counted from 0.")
    return device


def prefers_channels_last(module: nn.Module) -> bool:
    """Whether the model is faster with channels last: if it has 2-D convolutions."""
    return any(isinstance(layer, nn.Conv2d) for layer in module.modules())


@contextlib.contextmanager
def frozen_forward(
    module: nn.Module,
    specs: Sequence[LayerSpec],
    *,
    device: torch.device,
    amp: Precision | None,
    channels_last: bool,
) -> Iterator[Callable[[Tensor], Features]]:
    """A function from pixels (N, 3, H, W) to the layers' features (N, D) float32, on the CPU.

    It works on a copy of the module, and may be called from several threads at once. Within the
    block, operations on a CPU have one thread each.

    Raises:
        ModelError: a layer is not there, or gives nothing that can be pooled (when called).
    """
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    frozen = copy.deepcopy(module).eval()
    frozen = frozen.to(device=device, memory_format=memory_format)  # type: ignore[call-overload]
    with LayerTaps(frozen, specs) as taps, _one_thread_per_operation(device):

        def forward(pixels: Tensor) -> Features:
            # Both modes belong to the calling thread.
            with torch.inference_mode(), _autocast(device, amp):
                features = taps.features_of(
                    pixels.to(device, non_blocking=True, memory_format=memory_format)
                )
                return {name: rows.cpu().numpy() for name, rows in features.items()}

        yield forward


def in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item], num_threads: int
) -> Iterator[tuple[_Item, _Result]]:
    """Each item with its result, in order; up to ``num_threads`` calls run at once.

    Items are taken as threads come free, so no more than ``num_threads + 1`` are held at a time.
    """
    waiting: deque[tuple[_Item, Future[_Result]]] = deque()
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="assay-forward")
    try:
        for item in items:
            waiting.append((item, pool.submit(function, item)))
            while len(waiting) > num_threads or (waiting and waiting[0][1].done()):
                done, future = waiting.popleft()
                yield done, future.result()
        while waiting:
            done, future = waiting.popleft()
            yield done, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _accelerator() -> str | None:
    """The type of the accelerator that can be used here, such as "cuda"."""
    accelerator: Any = getattr(torch, "accelerator", None)  # since PyTorch 2.6
    if accelerator is not None:
        return accelerator.current_accelerator().type if accelerator.is_available() else None
    return "cuda" if torch.cuda.is_available() else None


def _device_count(kind: str) -> int:
    module: Any = getattr(torch, kind)
    return int(module.device_count())


def _autocast(
    device: torch.device, amp: Precision | None
) -> contextlib.AbstractContextManager[Any]:
    if amp is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, _DTYPES[amp])


@contextlib.contextmanager
def _one_thread_per_operation(device: torch.device) -> Iterator[None]:
    if device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
