"""Notices that weights are no longer those that a file was made of."""
from __future__ import annotations

from typing import Sequence

import torch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


class Watch:
    """The state of a list of tensors when it was made.

    A replaced tensor has another address: the old memory is kept, so that none takes its place. One that
    changes in place has another version. `weight.data.copy_()` and NumPy leave the version as it is, so a
    few elements of each tensor are compared, too.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._kept = [tensor.detach() for tensor in tensors]
        self._pointers = [tensor.data_ptr() for tensor in tensors]
        self._tracked = [i for i, tensor in enumerate(tensors) if not tensor.is_inference()]
        self._versions = [tensors[i]._version for i in self._tracked]
        by_size: dict[int, list[torch.Tensor]] = {}
        for tensor in self._kept:
            if tensor.numel() and tensor.is_contiguous() and tensor.element_size() in _INTEGERS:
                flat = tensor.view(-1) if tensor.dim() else tensor.reshape(1)
                size = tensor.element_size()
                flat = flat.view(torch.uint8) if tensor.dtype == torch.bool else flat
                by_size.setdefault(size, []).append(
                    flat.view(_INTEGERS[size])[:: max(1, (flat.numel() - 1) // 2)])
        self._views = list(by_size.values())
        self._samples = [torch.cat(views) for views in self._views]

    def changed(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether any of the tensors differs from what it was."""
        if [tensor.data_ptr() for tensor in tensors] != self._pointers:
            return True
        if [tensors[i]._version for i in self._tracked] != self._versions:
            return True
        return any(not torch.equal(torch.cat(views), samples)
                   for views, samples in zip(self._views, self._samples))
