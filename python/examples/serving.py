"""Serves requests of any lengths from one captured CUDA graph.

    python3 serving.py                  # on a simulated GPU, at toy size
    python3 serving.py --device cuda    # on a GPU: captured once, replayed for every batch

The graph's tensors have room for a fixed number of tokens and sequences. A batch is copied into them, its offsets say
where its sequences are, and sequences that are not there have length 0: jfa reads offsets on the device, so nothing is
captured again and no time is spent on room that is not used. There is no graph of a simulated GPU: that run calls the
same function on the same tensors instead of replaying it. Both compare every answer with a call of its own.
"""

import argparse
import contextlib

import torch

import jfa

HEADS, HEAD_DIM = 2, 16


class Server:
    """Attention of up to `sequences` sequences of `tokens` tokens together."""

    def __init__(self, tokens, sequences, device):
        shape = tokens, 3, HEADS, HEAD_DIM
        self.qkv = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        self.offsets = torch.zeros(sequences + 1, dtype=torch.int32, device=device)
        self.output = None
        self.replay = self._capture() if self.qkv.is_cuda else self._run

    @torch.no_grad()
    def _run(self):
        query, key, value = self.qkv.unbind(1)
        self.output = jfa.attention(query, key, value, self.offsets, self.offsets)

    def _capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._run()  # compiles and loads the kernels, which a capture cannot
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._run()
        return graph.replay

    def serve(self, requests):
        """The outputs of requests, each qkv [length, 3, HEADS, HEAD_DIM]."""
        lengths = torch.zeros(len(self.offsets) - 1, dtype=torch.int32)
        lengths[:len(requests)] = torch.tensor([len(request) for request in requests])
        total = int(lengths.sum())
        torch.cat(requests, out=self.qkv[:total])
        self.offsets.copy_(jfa.offsets_of(lengths))
        self.replay()
        return self.output[:total].split([len(request) for request in requests])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="sim:sm_100a", help="sim:sm_100a, sim:sm_90a, cuda, cuda:1, …")
    options = parser.parse_args(arguments)
    simulated = options.device.startswith("sim:")
    device = "cpu" if simulated else options.device
    longest, sequences = (12, 4) if simulated else (2000, 64)
    torch.manual_seed(0)
    with jfa.simulate(options.device) if simulated else contextlib.nullcontext():
        server = Server(longest * sequences, sequences, device)
        for batch in range(5):
            lengths = torch.randint(1, longest + 1, (int(torch.randint(1, sequences + 1, ())),)).tolist()
            requests = [torch.randn(length, 3, HEADS, HEAD_DIM, device=device).bfloat16() for length in lengths]
            answers = [answer.clone() for answer in server.serve(requests)]
            for request, answer in zip(requests, answers):
                offsets = jfa.offsets_of([len(request)]).to(device)
                alone = jfa.attention(*request.unbind(1), offsets, offsets)
                torch.testing.assert_close(answer, alone, atol=1e-2, rtol=1e-2)
            how = "called" if simulated else "replayed"
            print(f"batch {batch}: {how} for lengths {lengths}, as each request alone", flush=True)


if __name__ == "__main__":
    main()
