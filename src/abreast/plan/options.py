"""The options of `abreast plan`. Imports `software`, and no NumPy, which other commands do not need."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from abreast.plan.software import EXCHANGES, SOFTWARE


def add_arguments(parser: argparse.ArgumentParser, add: Callable[..., None]) -> None:
    """All options; `add` also takes their spellings with `_`."""
    parser.add_argument("--model", metavar="NAME", help="a well-known model, as resnet50 or bert_large")
    parser.add_argument("--parameters", metavar="N", type=float, help="parameters of another model, as 25.6e6")
    parser.add_argument("--tensors", metavar="N", type=int, help="its gradient tensors (default: guessed)")
    parser.add_argument(
        "--machine",
        metavar="NAME",
        required=True,
        help="one that ships, or a JSON file: of `abreast machine`, or one that describes it",
    )
    parser.add_argument("--devices", metavar="N", type=int, help="the most devices to plan for (default: one host)")
    parser.add_argument("--hosts", metavar="N", type=int, help="hosts of that many devices (default: as few as can be)")
    parser.add_argument(
        "--batch", metavar="ROWS", type=float, help="rows of one device in a step (default: those measured, or 32)"
    )
    add(parser, "--step-time", metavar="TIME", help="of one device with that batch, as 125ms or 0.125s")
    add(parser, "--step-from", metavar="FILE", help="take it from the last line of a file of `abreast bench`")
    parser.add_argument(
        "--measured",
        metavar="FILE",
        help="lines of `abreast bench`, to stand beside the prediction; gives the step too",
    )
    parser.add_argument("--precision", default="fp32", metavar="NAME", help="fp32, tf32, fp16 or bf16 (default: fp32)")
    parser.add_argument("--exchange", default="ring", metavar="NAME", help=f"{', '.join(EXCHANGES)} (default: ring)")
    parser.add_argument("--software", default="ddp", metavar="NAME", help=f"{', '.join(SOFTWARE)} (default: ddp)")
    parser.add_argument(
        "--gradients", default="fp32", metavar="FORMAT", help="fp32, fp16, bf16, 1-bit, top-k:0.01, powersgd:4"
    )
    parser.add_argument("--accumulate", metavar="N", type=int, default=1, help="steps per exchange (default: 1)")
    add(
        parser,
        "--sync-every",
        metavar="N",
        type=int,
        default=1,
        help="updates per exchange of the weights (default: 1)",
    )
    add(
        parser,
        "--bucket-mb",
        metavar="MB",
        type=float,
        default=25,
        help="of 10^6 bytes; 0 sends each tensor (default: 25)",
    )
    add(parser, "--no-overlap", action="store_true", help="exchange after the backward pass")
    add(parser, "--one-process", action="store_true", help="one process drives all devices of a host")
    add(parser, "--no-staging", action="store_true", help="copy each batch when its step begins")
    add(parser, "--row-bytes", metavar="BYTES", type=float, default=0.0, help="input of one row")
    add(
        parser,
        "--input-rate",
        metavar="ROWS",
        type=float,
        help="rows per second that the input pipeline of a host gives",
    )
    parser.add_argument(
        "--strong", action="store_true", help="the devices share one batch, instead of each having its own"
    )
    parser.add_argument(
        "--stragglers", metavar="SPREAD", type=float, default=0.0, help="of replicas' step times, as 0.1"
    )
    add(
        parser,
        "--slow-link",
        metavar="TIMES",
        type=float,
        default=1.0,
        help="one device's link is so many times as slow",
    )
    add(parser, "--slow-network", metavar="TIMES", type=float, default=1.0, help="one host's network is")
    add(
        parser, "--lost", metavar="SHARE", type=float, default=0.0, help="share of transfers that fail and are repeated"
    )
    add(parser, "--epoch-rows", metavar="N", type=float, help="rows of an epoch, for its price")
    parser.add_argument("--price", metavar="PRICE", type=float, help="of one device for one hour")
    parser.add_argument("--html", metavar="FILE", help="write a page of the plan too")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
