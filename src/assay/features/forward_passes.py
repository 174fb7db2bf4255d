"""Forward passes of a frozen model: the same bits for an image whoever computes them.

What the bits of a float32 feature depend on was measured on CPUs (oneDNN and MKL, AVX-512) with
EfficientNet-Lite0, ResNet-18, ViT-B/32 and single layers:

- on the *number of images in a pass*: another number takes other kernels, which add in another
  order;
- on the *number of threads* within an operation, in some layers (Linear(1280, 1000), 1x1
  convolutions over few pixels): they cut a sum in other places;
- not on the place in the batch, nor on the other images of it, with two exceptions: a matrix
  product with a single output column, and (MKL on AMD) one whose rows are no multiple of 8 long
  and that has at most 11 columns.

So every pass has the same number of images, the last one padded with copies; rows of an odd length
get zeros behind them in linear layers; and on a CPU every operation has one thread, while several
threads each run a pass of their own. That is the faster way, too: no thread waits for another in
mid-operation. On a CPU a pass takes few images, as it is slower where activations outgrow the
caches and malloc hands out fresh pages for each.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from assay.errors import ConfigError, ModelError
from assay.features.extract_options import Precision
from assay.features.image_batches import ImageBatch
from assay.features.layer_spec import LayerSpec
from assay.features.layer_taps import LayerTaps
from assay.runtime.signals import Terminated

__all__ = [
    "Features",
    "Precision",
    "frozen_forward",
    "prefers_channels_last",
    "resolve_device",
    "run_passes",
]

Features = dict[str, npt.NDArray[np.float32]]  # layer -> (N, D)

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_ROW_MULTIPLE = 8
_PIXELS_PER_PASS = 4 * 224 * 224  # on a CPU; measured: 32 of 64 x 64 and 4 of 224 x 224 are best


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
        ModelError: the module cannot be copied; a layer is not there, or gives nothing that can be
            pooled (when called).
    """
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    frozen = _copy(module).eval()
    frozen = frozen.to(device=device, memory_format=memory_format)  # type: ignore[call-overload]
    if device.type == "cpu":
        _pad_odd_rows(frozen)
    with LayerTaps(frozen, specs) as taps, _one_thread_per_operation(device):

        def forward(pixels: Tensor) -> Features:
            # Both modes belong to the calling thread.
            with torch.inference_mode(), _autocast(device, amp):
                features = taps.features_of(
                    pixels.to(device, non_blocking=True, memory_format=memory_format)
                )
                return {name: rows.cpu().numpy() for name, rows in features.items()}

        yield forward


def run_passes(
    forward: Callable[[Tensor], Features],
    batches: Iterable[ImageBatch],
    *,
    device: torch.device,
    batch_size: int,
    num_threads: int,
) -> Generator[tuple[ImageBatch, Features], None, None]:
    """Each batch with its features, in order; up to ``num_threads`` passes run at once.

    A batch without images has no features. Batches are taken as they are needed to keep the threads
    busy, and at least one beyond the one that is waited for. Closing the iterator ends the threads.

    Args:
        forward: one pass, see :func:`frozen_forward`.
        batch_size: the most images that a batch may have. All passes have as many images on an
            accelerator, and at most as many on a CPU.
    """
    waiting: deque[tuple[ImageBatch, list[Future[Features]]]] = deque()
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="assay-forward")

    def head() -> tuple[ImageBatch, Features]:
        batch, passes = waiting.popleft()
        return batch, _join([future.result() for future in passes])

    try:
        for batch in batches:
            passes = [] if batch.pixels is None else _passes(batch.pixels, device, batch_size)
            waiting.append((batch, [pool.submit(forward, pixels) for pixels in passes]))
            while waiting and (
                sum(len(passes) for _, passes in waiting) - len(waiting[0][1]) >= num_threads
                or all(future.done() for future in waiting[0][1])
            ):
                yield head()
        while waiting:
            yield head()
    finally:
        pool.shutdown(cancel_futures=True)


def _copy(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Terminated:
        raise
    except (Exception, SystemExit) as error:  # the user's code: anything may come
        raise ModelError(
            f"The model cannot be copied by copy.deepcopy, which keeps the one that was given as "
            f"it is: {type(error).__name__}: {error}. Keep locks, files and tensors with a "
            f"gradient history out of its attributes, or give it a __deepcopy__."
        ) from error


def _passes(pixels: Tensor, device: torch.device, batch_size: int) -> list[Tensor]:
    """The images in parts of always the same number; the last image fills up the last part."""
    size = batch_size
    if device.type == "cpu":
        size = max(1, min(size, _PIXELS_PER_PASS // (pixels.shape[-2] * pixels.shape[-1])))
    count = len(pixels)
    if count == size:
        return [pixels]
    # Copies, not views: each begins at an address that suits the widest vectors.
    starts = range(0, count, size)
    return [pixels[torch.arange(start, start + size).clamp(max=count - 1)] for start in starts]


def _pad_odd_rows(module: nn.Module) -> None:
    """Let linear layers, in place, multiply rows whose length is a multiple of 8: see above."""
    for layer in module.modules():
        # A forward of the layer's own, in a subclass or set on it, may mean something else.
        if type(layer) is not nn.Linear or "forward" in vars(layer):
            continue
        if layer.in_features % _ROW_MULTIPLE:
            padded = functools.partial(_padded_linear, layer)
            layer.forward = padded  # type: ignore[method-assign]


def _padded_linear(layer: nn.Linear, rows: Tensor) -> Tensor:
    weight = layer.weight
    if rows.shape[-1] == layer.in_features:  # else the error below names the true shapes
        zeros = (0, -layer.in_features % _ROW_MULTIPLE)
        rows, weight = nn.functional.pad(rows, zeros), nn.functional.pad(weight, zeros)
    return nn.functional.linear(rows, weight, layer.bias)


def _join(parts: list[Features]) -> Features:
    if not parts:
        return {}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


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
