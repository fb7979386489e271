"""Trains a pooling layer (PMA: a few learned queries read every token of a sequence) on jagged sequences.

    python3 pooling.py                       # on a simulated GPU, at toy size: under a minute
    python3 pooling.py --device cuda         # on a GPU
    python3 pooling.py --picture loss.png    # and draws the loss; needs matplotlib

The data: sequences of 1 to 12 tokens, one of which carries a marker; the class is what that token says. A mean of the
tokens hardly tells; attention finds the marker.
"""

import argparse
import contextlib

import torch

import jfa

FEATURES, CLASSES, LONGEST = 16, 4, 12


def make_batch(sequences, generator, device):
    """(tokens [total, FEATURES], offsets [sequences + 1], classes [sequences])."""
    lengths = torch.randint(1, LONGEST + 1, (sequences,), generator=generator)
    offsets = jfa.offsets_of(lengths)
    tokens = torch.randn(int(offsets[-1]), FEATURES, generator=generator)
    says = torch.randint(CLASSES, (len(tokens),), generator=generator)
    tokens[:, :CLASSES] = torch.nn.functional.one_hot(says, CLASSES).float()
    marked = offsets[:-1] + (torch.rand(sequences, generator=generator) * lengths).long()
    tokens[:, CLASSES] = 0
    tokens[marked, CLASSES] = 3
    return tokens.to(device), offsets.to(device), says[marked].to(device)


class PoolingClassifier(torch.nn.Module):
    def __init__(self, seeds=4, heads=2, head_dim=16):
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        self.seeds = torch.nn.Parameter(torch.randn(seeds, heads, head_dim))
        self.project = torch.nn.Linear(FEATURES, 2 * heads * head_dim)
        self.classify = torch.nn.Linear(seeds * heads * head_dim, CLASSES)

    def forward(self, tokens, offsets):
        key, value = self.project(tokens).unflatten(1, (2, self.heads, self.head_dim)).unbind(1)
        pooled = jfa.attention(self.seeds, key, value, key_offset=offsets, broadcast_q=True)  # [sequences * seeds, …]
        return self.classify(pooled.view(len(offsets) - 1, -1))


def train(device, steps, sequences):
    """The loss of every step."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    data = [make_batch(sequences, generator, device) for _ in range(8)]
    model = PoolingClassifier().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        tokens, offsets, classes = data[step % len(data)]
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(tokens, offsets), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 9:
            print(f"step {step + 1}: loss {losses[-1]:.3f}", flush=True)
    return losses


def draw(losses, file, title):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    axes.plot(range(1, len(losses) + 1), losses)
    axes.set(xlabel="step", ylabel="cross entropy", ylim=(0, None), title=title)
    axes.grid(alpha=0.3)
    figure.savefig(file, dpi=120)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="sim:sm_100a", help="sim:sm_100a, sim:sm_90a, cuda, cuda:1, …")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--sequences", type=int, help="of one batch; default: 16 simulated, 1024 on a GPU")
    parser.add_argument("--picture", help="PNG file for the loss")
    options = parser.parse_args(arguments)
    simulated = options.device.startswith("sim:")
    with jfa.simulate(options.device) if simulated else contextlib.nullcontext():
        losses = train("cpu" if simulated else options.device, options.steps,
                       options.sequences or (16 if simulated else 1024))
    if options.picture:
        draw(losses, options.picture, f"a pooling layer on {options.device}")
    return losses


if __name__ == "__main__":
    main()
