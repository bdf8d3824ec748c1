"""The arguments by which commands are told what to feed a model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from profiler.graph.feeds import Feeds, parse_input_shapes, read_feeds, resolve_feeds
from profiler.values import TensorSlot


def add_feed_arguments(parser: ArgumentParser) -> None:
    """Add ``--feed`` and ``--input``."""
    parser.add_argument(
        "--feed", type=Path, metavar="FILE.npz", help="real inputs, one array for each"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME:1x3x224x224",
        help="shape of an input with free axes; may be given several times",
    )


def feeds_of(options: Namespace, slots: Sequence[TensorSlot]) -> tuple[Feeds, bool]:
    """Return the feeds that the arguments ask for, and whether all of them are the user's own.

    Raises:
        FeedError: Unknown names, shapes that do not fit, or free axes that nothing fixes.
    """
    given = read_feeds(options.feed) if options.feed else {}
    feeds = resolve_feeds(slots, given, parse_input_shapes(options.input))
    return feeds, given.keys() >= feeds.keys()
