"""Compiles the kernels beside this file, without a GPU, into ptx/ and witnesses.json.

    python3 -m venv venv && venv/bin/pip install triton==3.9.0 numpy
    TRITON_DISABLE_LINE_INFO=1 TRITON_DEFAULT_FP_FUSION=1 venv/bin/python tests/witnesses/generate.py

The test reads what the JSON says and nothing else of Triton: which entry, how many threads, how much shared
memory, and, in order, the kernel's parameters.
"""

import json
import pathlib
import re

import kernels
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

HERE = pathlib.Path(__file__).parent
SWIZZLE_BYTES = [0, 32, 64, 128]


def compile_kernel(fn, target, signature, constants, warps, source=ASTSource, **options):
    signature = signature | {name: "constexpr" for name in constants}
    signature = {name: signature[name] for name in fn.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(signature)
               if signature[name] not in ("constexpr", "fp32") and not signature[name].startswith("tensordesc")}
    return triton.compile(source(fn=fn, signature=signature, constexprs=constants, attrs=aligned),
                          target=GPUTarget("cuda", target, 32), options={"num_warps": warps} | options)


def strip(ptx):
    """Without comments, debug sections and locations."""
    ptx = re.sub(r"\n\s*\.section\s+\.debug.*?\n\s*\}", "", ptx, flags=re.S)
    lines = [re.sub(r"\s*//.*", "", line).rstrip() for line in ptx.splitlines()]
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith((".loc", ".file"))]
    return "\n".join(line.strip() if line.startswith((" ", "\t")) else line for line in lines) + "\n"


class Generator:
    def __init__(self):
        self.witnesses = []
        (HERE / "ptx").mkdir(exist_ok=True)
        for old in (HERE / "ptx").glob("*.ptx"):
            old.unlink()

    def add(self, name, target, compiled, parameters, problem):
        name = f"{name}_sm{target}"
        metadata = compiled.metadata
        if metadata.profile_scratch_size:
            raise SystemExit(f"{name} wants memory for a profile, which the test does not give")
        if metadata.global_scratch_size:  # of each program
            problem = problem | {"scratch_bytes": metadata.global_scratch_size}
        ptx = strip(compiled.asm["ptx"])
        (HERE / "ptx" / f"{name}.ptx").write_text(ptx)
        threads = int(re.search(r"\.reqntid (\d+)", ptx).group(1))
        self.witnesses.append({
            "name": name, "device": f"sim:sm_{target}a", "entry": metadata.name, "threads": threads,
            "shared_bytes": metadata.shared,
            "parameters": parameters + ["scratch", "scratch"], **problem})
        print(f"{name}: {len(ptx)} bytes")

    def matmul(self, target, type_name, blocks, warps, a_transposed=False, b_transposed=False):
        integers = type_name == "i8"
        constants = dict(zip(("block_m", "block_n", "block_k"), blocks))
        constants["acc_type"] = tl.int32 if integers else tl.float32
        constants["a_m" if a_transposed else "a_k"] = 1
        constants["b_k" if b_transposed else "b_n"] = 1
        signature = {"a": f"*{type_name}", "b": f"*{type_name}", "c": "*i32" if integers else "*fp32"}
        signature |= {x: "i32" for x in ("m", "n", "k", "a_m", "a_k", "b_k", "b_n") if x not in constants}
        compiled = compile_kernel(kernels.matmul, target, signature, constants, warps)
        order = ("T" if a_transposed else "N") + ("T" if b_transposed else "N")
        parameters = [x for x in kernels.matmul.arg_names if x not in constants]
        self.add(f"matmul_{type_name}_{order.lower()}_{'x'.join(map(str, blocks))}", target, compiled, parameters,
                 {"kind": "matmul", "type": type_name, "blocks": blocks, "a_transposed": a_transposed,
                  "b_transposed": b_transposed})

    @staticmethod
    def maps(compiled, names):
        return {name: {"box": meta["block_size"], "swizzle_bytes": SWIZZLE_BYTES[meta["swizzle"]]}
                for name, meta in zip(names, compiled.metadata.tensordesc_meta)}

    @staticmethod
    def map_parameters(name):
        return [f"{name}.map"] + [f"{name}.{field}" for field in ("shape0", "shape1", "stride0", "stride1")]

    def tma_matmul(self, target, blocks, warps, specialize, stages):
        constants = dict(zip(("block_m", "block_n", "block_k"), blocks)) | {"specialize": specialize}
        m, n, k = blocks
        signature = {"a": f"tensordesc<fp16[{m},{k}]>", "b": f"tensordesc<fp16[{n},{k}]>",
                     "c": f"tensordesc<fp16[{m},{n}]>"} | {x: "i32" for x in "mnk"}
        compiled = compile_kernel(kernels.tma_matmul, target, signature, constants, warps, num_stages=stages)
        parameters = [p for name in "abc" for p in self.map_parameters(name)] + ["m", "n", "k"]
        self.add("tma_matmul" + ("_specialized" if specialize else ""), target, compiled, parameters,
                 {"kind": "tma_matmul", "type": "fp16", "blocks": blocks, "a_transposed": False,
                  "b_transposed": True, "maps": self.maps(compiled, "abc")})

    def described_matmul(self, target, blocks, warps, stages):
        constants = dict(zip(("block_m", "block_n", "block_k"), blocks))
        signature = {x: "*fp16" for x in "abc"} | {x: "i32" for x in "mnk"}
        compiled = compile_kernel(kernels.described_matmul, target, signature, constants, warps, num_stages=stages)
        self.add("described_matmul", target, compiled, list("abcmnk"),
                 {"kind": "described_matmul", "type": "fp16", "blocks": blocks, "a_transposed": False,
                  "b_transposed": True})

    def gluon_matmul(self, target, blocks, stages):
        m, n, k = blocks
        layout = lambda width: gl.NVMMASharedLayout(swizzle_byte_width=width, element_bitwidth=16, rank=2)
        describe = lambda shape: f"tensordesc<fp16[{shape[0]},{shape[1]}],{layout(128)!r}>"
        signature = {"a": describe((m, k)), "b": describe((k, n)), "c": describe((m, n)), "k": "i32"}
        compiled = compile_kernel(kernels.gluon_matmul, target, signature, {"stages": stages}, 4,
                                  source=GluonASTSource)
        parameters = [p for name in "abc" for p in self.map_parameters(name)] + ["k"]
        self.add("gluon_matmul", target, compiled, parameters,
                 {"kind": "tma_matmul", "type": "fp16", "blocks": blocks, "a_transposed": False,
                  "b_transposed": False, "maps": self.maps(compiled, "abc")})

    def scaled_matmul(self, formats, scale, group, blocks):
        constants = dict(zip(("block_m", "block_n", "block_k"), blocks))
        constants |= {"a_format": formats[0], "b_format": formats[1], "group": group}
        scale_type = {"e8m0": "*u8", "e4m3": "*fp8e4nv"}[scale]
        signature = {"a": "*u8", "a_scale": scale_type, "b": "*u8", "b_scale": scale_type, "c": "*fp32"}
        signature |= {x: "i32" for x in "mnk"}
        compiled = compile_kernel(kernels.scaled_matmul, 100, signature, constants, 4)
        self.add(f"scaled_matmul_{'_'.join(formats)}_{scale}", 100, compiled, list(signature),
                 {"kind": "scaled_matmul", "formats": formats, "scale": scale, "group": group, "blocks": blocks})

    def gluon_scaled_matmul(self, blocks):
        constants = dict(zip(("block_m", "block_n", "block_k"), blocks))
        signature = {"a": "*fp8e4nv", "a_scale": "*u8", "b": "*fp8e4nv", "b_scale": "*u8", "c": "*fp32", "k": "i32"}
        compiled = compile_kernel(kernels.gluon_scaled_matmul, 100, signature, constants, 4, source=GluonASTSource)
        self.add("gluon_scaled_matmul", 100, compiled, list(signature),
                 {"kind": "scaled_matmul", "formats": ["e4m3", "e4m3"], "scale": "e8m0", "group": 32,
                  "blocks": blocks, "scales_in_blocks": True})

    def attention(self, target, type_name, head_dim, blocks, warps, causal):
        constants = {"causal": causal, "block_m": blocks[0], "block_n": blocks[1], "head_dim": head_dim}
        pointer = f"*{type_name}"
        signature = {"q": pointer, "k": pointer, "v": pointer, "out": "*fp32", "lse": "*fp32", "length": "i32",
                     "scale": "fp32"}
        compiled = compile_kernel(kernels.attention, target, signature, constants, warps)
        self.add(f"attention_{type_name}_d{head_dim}" + ("_causal" if causal else ""), target, compiled,
                 ["q", "k", "v", "out", "lse", "length", "scale"],
                 {"kind": "attention", "type": type_name, "blocks": blocks, "head_dim": head_dim, "causal": causal})

    def reductions(self, target, n, warps):
        signature = {x: "*i32" for x in ("x", "sums", "highest", "places", "ranked", "scanned", "bins")}
        compiled = compile_kernel(kernels.reductions, target, signature, {"n": n}, warps, debug=True)
        self.add(f"reductions_{n}", target, compiled, list(signature), {"kind": "reductions", "n": n})


def main():
    g = Generator()
    for target in (100, 90):
        g.matmul(target, "fp16", (128, 64, 64), 4)
        g.matmul(target, "fp16", (64, 32, 64), 4, a_transposed=True)
        g.matmul(target, "bf16", (64, 64, 32), 4, b_transposed=True)
        g.matmul(target, "bf16", (128, 32, 32), 4, a_transposed=True, b_transposed=True)
        g.matmul(target, "fp8e4nv", (128, 32, 64), 4, b_transposed=True)
        g.matmul(target, "fp8e5", (64, 32, 64), 4, b_transposed=True)
        g.matmul(target, "fp32", (64, 32, 32), 4, b_transposed=True)
        g.matmul(target, "i8", (128, 32, 64), 4, b_transposed=True)
        g.matmul(target, "fp16", (256, 32, 32), 8)
        # Too small for the asynchronous tensor core: mma.sync and ldmatrix.
        g.matmul(target, "fp16", (16, 16, 32), 1)
        g.matmul(target, "bf16", (32, 32, 32), 4, a_transposed=True, b_transposed=True)
        g.matmul(target, "fp32", (16, 16, 16), 1)
        g.matmul(target, "i8", (16, 16, 32), 1, b_transposed=True)
        g.matmul(target, "fp8e5", (16, 16, 32), 1, b_transposed=True)
        g.tma_matmul(target, (128, 64, 64), 4, False, 3)
        g.described_matmul(target, (128, 64, 64), 4, 3)
        g.attention(target, "bf16", 64, (128, 64), 4, False)
        g.attention(target, "fp16", 32, (64, 32), 4, True)
        g.reductions(target, 256, 4)
    g.tma_matmul(100, (128, 64, 64), 4, True, 3)
    g.gluon_matmul(100, (128, 64, 64), 2)
    for formats in (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e2m1", "e4m3")):
        g.scaled_matmul(formats, "e8m0", 32, (128, 64, 128))
    g.scaled_matmul(("e2m1", "e2m1"), "e4m3", 16, (128, 64, 128))
    g.gluon_scaled_matmul((128, 128, 128))
    lines = ",\n  ".join(json.dumps(witness) for witness in g.witnesses)
    (HERE / "witnesses.json").write_text(
        f'{{"made_with": "triton {triton.__version__}",\n "witnesses": [\n  {lines}\n ]}}\n')


main()
