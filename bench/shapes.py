"""The shapes of shapes.json with their lengths drawn, and the work that they are."""

import json
from dataclasses import dataclass, field

import torch


def _draw_lengths(generator, batch, longest, fill):
    if fill >= 1:
        return torch.full((batch,), longest)
    low, high = (int((2 * fill - 1) * longest), longest) if fill >= 0.5 else (1, int(2 * fill * longest))
    return torch.randint(max(low, 0), max(high, 1) + 1, (batch,), generator=generator)


def _offsets(lengths):
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32)


@dataclass(frozen=True)
class Window:
    """What a query sees beside the key that it stands at; None: all of that side."""

    left: int | None
    right: int | None
    at_ends: bool = False  # query i stands at key i + keys - queries, not at key i

    @classmethod
    def of(cls, value):
        """Of a shapes file: a number, or text as the command's --window takes it; None without a window."""
        if value is None or isinstance(value, int):
            return None if value is None else cls(value, value)
        words = value.removesuffix(":bottom_right").split(":")
        sides = ["all", "0"] if words == ["causal"] else words * 2 if len(words) == 1 else words
        left, right = (None if side == "all" else int(side) for side in sides)
        return cls(left, right, value.endswith(":bottom_right"))

    def seen(self, place, keys):
        """(first, last) key that queries at these places see; none if first > last."""
        first = torch.zeros_like(place) if self.left is None else (place - self.left).clamp(min=0)
        last = keys - 1 + torch.zeros_like(place)
        return first, last if self.right is None else torch.minimum(place + self.right, last)


def _pairs(query_lengths, key_lengths, window):
    """(query, key) pairs of one head."""
    if window is None:
        return int((query_lengths * key_lengths).sum())
    pairs = 0
    for queries, keys in zip(query_lengths.tolist(), key_lengths.tolist()):
        first, last = window.seen(torch.arange(queries) + (keys - queries if window.at_ends else 0), keys)
        pairs += int((last - first + 1).clamp(min=0).sum())
    return pairs


@dataclass
class Problem:
    name: str
    kind: str  # "self", "cross", or "pma": one query shared by the batch
    batch: int
    heads: int
    groups: int  # query heads per key head
    head_dim: int
    window: Window | None
    query_lengths: torch.Tensor
    key_lengths: torch.Tensor
    pairs: int = field(init=False)

    def __post_init__(self):
        self.pairs = _pairs(self.query_lengths, self.key_lengths, self.window)

    @property
    def key_heads(self):
        return self.heads // self.groups

    @property
    def shared_query(self):
        return self.kind == "pma"

    @property
    def query_rows(self):
        """Of the query tensor."""
        return int(self.query_lengths[0]) if self.shared_query else self.output_rows

    @property
    def output_rows(self):
        return int(self.query_lengths.sum())

    @property
    def key_rows(self):
        return int(self.key_lengths.sum())

    @property
    def query_offset(self):
        return _offsets(self.query_lengths)

    @property
    def key_offset(self):
        return _offsets(self.key_lengths)

    @property
    def self_attention(self):
        """Queries and keys have the same lengths, so that it is one where a window counts from."""
        return bool((self.query_lengths == self.key_lengths).all())

    @property
    def dense(self):
        """All sequences are as long as each other."""
        return all(int(lengths.min()) == int(lengths.max()) for lengths in (self.query_lengths, self.key_lengths))

    def flops(self, direction):
        """4 * head_dim for every pair and head; 2.5 times that backward."""
        return 4 * self.head_dim * self.pairs * self.heads * (1 if direction == "forward" else 2.5)

    def bytes(self, direction):
        """What must move once: a shared query counts once."""
        query, output = (2 * rows * self.heads * self.head_dim for rows in (self.query_rows, self.output_rows))
        key = 2 * self.key_rows * self.key_heads * self.head_dim
        if direction == "forward":
            return query + output + 2 * key
        return 2 * query + 2 * output + 4 * key + 4 * self.output_rows * self.heads


def load(path):
    """The problems of a shapes file, in its order."""
    with open(path) as file:
        shapes = json.load(file)["shapes"]
    problems = []
    for shape in shapes:
        generator = torch.Generator().manual_seed(shape.get("seed", 17))
        batch = shape["batch"]
        key_lengths = _draw_lengths(generator, batch, shape["max_kv"], shape["fill_kv"])
        if shape["kind"] == "pma":
            query_lengths = torch.full((batch,), shape["q_len"])
        elif shape["kind"] == "self":
            query_lengths = key_lengths
        else:
            query_lengths = _draw_lengths(generator, batch, shape["max_q"], shape["fill_q"])
        problems.append(Problem(shape["name"], shape["kind"], batch, shape["heads"], shape.get("groups", 1),
                                shape["head_dim"], Window.of(shape.get("window")), query_lengths, key_lengths))
    return problems
