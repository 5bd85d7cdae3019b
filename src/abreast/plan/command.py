"""`abreast plan`: its options, and the plan or the list of names that it prints."""

from __future__ import annotations

import argparse
import json

from abreast.options import add_option
from abreast.plan.from_options import make_plan
from abreast.plan.names import names_as_data, names_text
from abreast.plan.report import as_data, text
from abreast.plan.software import EXCHANGES, SOFTWARE
from abreast.stderr import tell
from abreast.stdout import say
from abreast.whole_file import writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--list", action="store_true", help="list the models, machines, exchanges and software by name")
    parser.add_argument("--model", metavar="NAME", help="a well-known model, as resnet50 or bert_large")
    parser.add_argument("--parameters", metavar="N", type=float, help="parameters of another model, as 25.6e6")
    parser.add_argument("--tensors", metavar="N", type=int, help="its gradient tensors (default: guessed)")
    parser.add_argument(
        "--machine",
        metavar="NAME",
        help="a machine that ships, or a JSON file: written by `abreast machine`, or by hand",
    )
    parser.add_argument("--devices", metavar="N", type=int, help="the most devices to plan for (default: one host)")
    parser.add_argument("--hosts", metavar="N", type=int, help="hosts for these devices (default: as few as possible)")
    parser.add_argument(
        "--batch", metavar="ROWS", type=float, help="rows of one device in a step (default: as measured, or 32)"
    )
    add_option(
        parser, "--step-time", metavar="TIME", help="step time of one device with that batch, as 125ms or 0.125s"
    )
    add_option(
        parser, "--step-from", metavar="FILE", help="read the step time from the last line of a file of `abreast bench`"
    )
    parser.add_argument(
        "--measured",
        metavar="FILE",
        help="lines of `abreast bench`, to show beside the prediction; they give the step time too",
    )
    parser.add_argument("--precision", default="fp32", metavar="NAME", help="fp32, tf32, fp16 or bf16 (default: fp32)")
    parser.add_argument("--exchange", default="ring", metavar="NAME", help=f"{', '.join(EXCHANGES)} (default: ring)")
    parser.add_argument("--software", default="ddp", metavar="NAME", help=f"{', '.join(SOFTWARE)} (default: ddp)")
    parser.add_argument(
        "--gradients", default="fp32", metavar="FORMAT", help="fp32, fp16, bf16, 1-bit, top-k:0.01, powersgd:4"
    )
    parser.add_argument("--accumulate", metavar="N", type=int, default=1, help="steps per exchange (default: 1)")
    add_option(
        parser,
        "--sync-every",
        metavar="N",
        type=int,
        default=1,
        help="updates per exchange of the weights (default: 1)",
    )
    add_option(
        parser,
        "--bucket-mb",
        metavar="MB",
        type=float,
        default=25,
        help="size of a bucket in 10^6 bytes; 0 sends each tensor alone (default: 25)",
    )
    add_option(parser, "--no-overlap", action="store_true", help="exchange after the backward pass")
    add_option(parser, "--one-process", action="store_true", help="one process drives all devices of a host")
    add_option(parser, "--no-staging", action="store_true", help="copy each batch when its step begins")
    add_option(parser, "--row-bytes", metavar="BYTES", type=float, default=0.0, help="size of the input of one row")
    add_option(
        parser,
        "--input-rate",
        metavar="ROWS",
        type=float,
        help="rows per second from the input pipeline of one host",
    )
    parser.add_argument(
        "--strong", action="store_true", help="the devices share one batch, instead of each having its own"
    )
    parser.add_argument(
        "--stragglers", metavar="SPREAD", type=float, default=0.0, help="spread of the replicas' step times, as 0.1"
    )
    add_option(
        parser,
        "--slow-link",
        metavar="TIMES",
        type=float,
        default=1.0,
        help="the link of one device is TIMES as slow",
    )
    add_option(
        parser,
        "--slow-network",
        metavar="TIMES",
        type=float,
        default=1.0,
        help="the network of one host is TIMES as slow",
    )
    add_option(
        parser, "--lost", metavar="SHARE", type=float, default=0.0, help="share of transfers that fail and are repeated"
    )
    add_option(parser, "--epoch-rows", metavar="N", type=float, help="rows of an epoch, for its price")
    parser.add_argument("--price", metavar="PRICE", help='price of one device for one hour, as 2.50 or "2.50 EUR"')
    parser.add_argument("--html", metavar="FILE", help="also write the plan as a page")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def run(options: argparse.Namespace) -> int:
    if options.list:
        say(json.dumps(names_as_data(), indent=2) if options.json else names_text())
        return 0
    target = None if options.html is None else writable(options.html)
    plan = make_plan(options)
    say(json.dumps(as_data(plan), indent=2) if options.json else text(plan))
    if target is not None:
        from abreast.plan.page import write_page  # drawing modules load slowly

        write_page(plan, target)
        tell(f"wrote {options.html}")
    return 0
