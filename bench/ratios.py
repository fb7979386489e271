"""Ratios of a report of bench/peers.py, and the means that may be compared."""

import math


def ratio(row, library):
    """How many times as fast as the baseline, or None where the library did not run the shape."""
    return row["libraries"].get(library, {}).get("ratio")


def libraries(rows):
    """Those that have a ratio somewhere, in the order of the report."""
    names = dict.fromkeys(name for row in rows for name in row["libraries"])
    return [name for name in names if any(ratio(row, name) is not None for row in rows)]


def comparable_means(rows):
    """[(number of shapes, {library: geometric mean})], most shapes first.

    A mean over some shapes says nothing beside a mean over others. So there is one entry for each set of shapes that
    is all that some library ran, with every library that ran them all, over these shapes only.
    """
    ran = {name: [index for index, row in enumerate(rows) if ratio(row, name) is not None] for name in libraries(rows)}
    sets = sorted({tuple(shapes) for shapes in ran.values()}, key=lambda shapes: (-len(shapes), shapes))
    return [(len(shapes), {name: math.exp(sum(math.log(ratio(rows[index], name)) for index in shapes) / len(shapes))
                           for name in ran if set(shapes) <= set(ran[name])}) for shapes in sets]


def describe_means(rows):
    """"over 14 shapes jfa 1.83; over 1 shape jfa 1.76, cudnn 1.91", or "none"."""
    parts = []
    for count, means in comparable_means(rows):
        values = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
        parts.append(f"over {count} shape{'s' if count > 1 else ''} {values}")
    return "; ".join(parts) or "none"
