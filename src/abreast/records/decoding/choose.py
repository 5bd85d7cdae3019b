"""The choice of a loader's painters: threads of its process, other processes, or a GPU. Each is made when first needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from os import fspath

from abreast.errors import DataError
from abreast.records.decoding.decode_process import ProcessSettings
from abreast.records.decoding.gpu_choice import Choice, Decoder, find_gpu
from abreast.records.decoding.gpu_painters import Gpu
from abreast.records.decoding.painters import Batches, Painters, Threads
from abreast.records.decoding.processes import ProcessPool


class Decoding:
    """Makes the painters of each iteration over batches. Raises `AbreastError`."""

    def __init__(self, decoder: Decoder, batches: Batches, num_threads: int, num_workers: int) -> None:
        if num_workers and decoder == "gpu":
            hint = "worker processes decode on the CPU: leave out one of the two"
            raise DataError(f'num_workers={num_workers} with decoder="gpu" is not allowed', hint)
        self._batches = batches
        self._num_threads = num_threads
        self._num_workers = num_workers
        self._processes: ProcessPool | None = None
        self._gpu: Gpu | None = None
        self._find_gpu = partial(find_gpu, batches.sizes.records[0])
        self._choice = Choice(decoder, self._find_gpu)

    @property
    def decoder(self) -> Decoder:
        """Either "cpu" or "gpu", or "auto" until it is decided."""
        return self._choice.decoder

    def decided(self, images_per_second: Callable[[Painters], float]) -> Decoder:
        """Either "cpu" or "gpu". If it is still "auto", both rates are measured now, and the faster one is chosen."""
        if self.decoder == "auto":
            self._choice.decide(
                lambda decoder: images_per_second(self._of(decoder)), fspath(self._batches.sizes.records[0].folder)
            )
            self._close(keep=self.decoder)
        return self.decoder

    def painters(self) -> Painters:
        """Painters for one iteration, after `decided`."""
        return self._of(self.decoder)

    def restore(self, decoder: str | None) -> None:
        """Use the decoder of a saved state, unless the user chose one."""
        self._choice.restore(decoder)

    def close(self) -> None:
        """End the processes and free the GPU's memory, after the work that has begun."""
        self._close(keep=None)

    def _close(self, keep: Decoder | None) -> None:
        if self._processes is not None and keep != "cpu":
            self._processes.close()
            self._processes = None
        if self._gpu is not None and keep != "gpu":
            self._gpu.close()
            self._gpu = None

    def _of(self, decoder: Decoder) -> Painters:
        if decoder == "gpu":
            self._gpu = self._gpu or Gpu(self._batches, self._num_threads, self._find_gpu())
            return self._gpu.painters()
        if self._num_workers:
            self._processes = self._processes or self._made_processes()
            return self._processes.lend()
        return Threads(self._batches, self._num_threads)

    def _made_processes(self) -> ProcessPool:
        """Processes that divide the threads among them."""
        sizes = self._batches.sizes
        setup = ProcessSettings(
            folders=[os.path.abspath(records.folder) for records in sizes.records],
            data_sets=sizes.data_sets,
            image_shape=self._batches.image_shape,
            block_bytes=self._batches.block_bytes,
            antialias=self._batches.antialias,
            num_threads=-(-self._num_threads // self._num_workers),
        )
        return ProcessPool(setup, self._num_workers, self._batches.keep_batches)
