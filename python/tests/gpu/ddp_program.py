"""One rank of test_ddp.py: half of a batch each, gradients averaged, compared with the whole batch at once."""

import torch
import torch.distributed as dist

import jfa

LENGTHS = [[37, 128, 0, 200], [5, 64, 300, 1]]
HEADS, HEAD_DIM, SEEDS = 2, 64, 16


class Pooling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seeds = torch.nn.Parameter(torch.randn(SEEDS, HEADS, HEAD_DIM))
        self.project = torch.nn.Linear(HEAD_DIM, 2 * HEADS * HEAD_DIM, bias=False)

    def forward(self, values, offsets):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            key, value = self.project(values).unflatten(1, (2, HEADS, HEAD_DIM)).unbind(1)
            return jfa.attention(self.seeds, key, value, None, offsets, broadcast_q=True).float().square().sum()


def main():
    two = torch.cuda.device_count() > 1
    dist.init_process_group("nccl" if two else "gloo")
    rank = dist.get_rank()
    torch.cuda.set_device(rank if two else 0)
    torch.manual_seed(1)
    data = [(torch.randn(sum(lengths), HEAD_DIM).cuda(), jfa.offsets_of(lengths).cuda()) for lengths in LENGTHS]
    model = Pooling().cuda()
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    parallel(*data[rank]).backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    (sum(model(*part) for part in data) / 2).backward()
    for gradient, parameter in zip(found, model.parameters()):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-2 * float(parameter.grad.abs().max()), rtol=1e-2)
    if rank == 0:
        print(f"two ranks on {'two GPUs by nccl' if two else 'one GPU by gloo'}: gradients agree", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
