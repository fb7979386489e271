"""Kernels written for this repository in Triton and Gluon: a second compiler for the simulator to agree with."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_scaled,
    tma,
)


@triton.jit
def matmul(a, b, c, m, n, k, a_m, a_k, b_k, b_n, block_m: tl.constexpr, block_n: tl.constexpr,
           block_k: tl.constexpr, acc_type: tl.constexpr):
    """C[m, n] = A[m, k] B[k, n]; the strides say which operand is transposed."""
    rows = tl.program_id(0) * block_m + tl.arange(0, block_m)
    columns = tl.program_id(1) * block_n + tl.arange(0, block_n)
    acc = tl.zeros((block_m, block_n), dtype=acc_type)
    for start in range(0, k, block_k):
        depth = start + tl.arange(0, block_k)
        x = tl.load(a + rows[:, None] * a_m + depth[None, :] * a_k,
                    mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        y = tl.load(b + depth[:, None] * b_k + columns[None, :] * b_n,
                    mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=acc_type)
    tl.store(c + rows[:, None] * n + columns[None, :], acc, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def tma_matmul(a, b, c, m, n, k, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
               specialize: tl.constexpr):
    """C[m, n] = A[m, k] B[n, k]^T through tensor maps, one tile a program after the other."""
    tiles_n = tl.cdiv(n, block_n)
    tiles = tl.cdiv(m, block_m) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=False, warp_specialize=specialize):
        row = tile // tiles_n * block_m
        column = tile % tiles_n * block_n
        acc = tl.zeros((block_m, block_n), dtype=tl.float32)
        for start in range(0, k, block_k):
            x = a.load([row, start])
            y = b.load([column, start])
            acc = tl.dot(x, y.T, acc)
        c.store([row, column], acc.to(c.dtype))


@triton.jit
def described_matmul(a, b, c, m, n, k, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr):
    """The same through tensor maps that each program makes for itself."""
    a_map = tl.make_tensor_descriptor(a, [m, k], [k, 1], [block_m, block_k])
    b_map = tl.make_tensor_descriptor(b, [n, k], [k, 1], [block_n, block_k])
    c_map = tl.make_tensor_descriptor(c, [m, n], [n, 1], [block_m, block_n])
    tiles_n = tl.cdiv(n, block_n)
    tiles = tl.cdiv(m, block_m) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        row = tile // tiles_n * block_m
        column = tile % tiles_n * block_n
        acc = tl.zeros((block_m, block_n), dtype=tl.float32)
        for start in range(0, k, block_k):
            acc = tl.dot(a_map.load([row, start]), b_map.load([column, start]).T, acc)
        c_map.store([row, column], acc.to(tl.float16))


@triton.jit
def scaled_matmul(a, a_scale, b, b_scale, c, m, n, k, a_format: tl.constexpr, b_format: tl.constexpr,
                  group: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr):
    """C[m, n] = A[m, k] B[n, k]^T, each `group` elements along k with a scale factor; e2m1 lies two in a byte."""
    a_pack: tl.constexpr = 2 if a_format == "e2m1" else 1
    b_pack: tl.constexpr = 2 if b_format == "e2m1" else 1
    rows = tl.program_id(0) * block_m + tl.arange(0, block_m)
    columns = tl.program_id(1) * block_n + tl.arange(0, block_n)
    acc = tl.zeros((block_m, block_n), dtype=tl.float32)
    for start in range(0, k, block_k):
        a_depth = start // a_pack + tl.arange(0, block_k // a_pack)
        b_depth = start // b_pack + tl.arange(0, block_k // b_pack)
        groups = start // group + tl.arange(0, block_k // group)
        x = tl.load(a + rows[:, None] * (k // a_pack) + a_depth[None, :], mask=rows[:, None] < m, other=0)
        y = tl.load(b + columns[None, :] * (k // b_pack) + b_depth[:, None], mask=columns[None, :] < n, other=0)
        x_scale = tl.load(a_scale + tl.minimum(rows, m - 1)[:, None] * (k // group) + groups[None, :])
        y_scale = tl.load(b_scale + tl.minimum(columns, n - 1)[:, None] * (k // group) + groups[None, :])
        acc = tl.dot_scaled(x, x_scale, a_format, y, y_scale, b_format, acc)
    tl.store(c + rows[:, None] * n + columns[None, :], acc, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def attention(q, k, v, out, lse, length, scale, causal: tl.constexpr, block_m: tl.constexpr,
              block_n: tl.constexpr, head_dim: tl.constexpr):
    """One head of [length, head_dim] a program in axis 1; an online softmax in base 2."""
    head = tl.program_id(1).to(tl.int64) * length
    rows = tl.program_id(0) * block_m + tl.arange(0, block_m)
    dims = tl.arange(0, head_dim)
    query = tl.load(q + (head + rows[:, None]) * head_dim + dims[None, :], mask=rows[:, None] < length, other=0.0)
    highest = tl.full((block_m,), -1.0e30, dtype=tl.float32)
    total = tl.zeros((block_m,), dtype=tl.float32)
    acc = tl.zeros((block_m, head_dim), dtype=tl.float32)
    end = tl.minimum(length, (tl.program_id(0) + 1) * block_m) if causal else length
    for start in range(0, end, block_n):
        columns = start + tl.arange(0, block_n)
        key = tl.load(k + (head + columns[None, :]) * head_dim + dims[:, None],
                      mask=columns[None, :] < length, other=0.0)
        scores = tl.dot(query, key) * (scale * 1.4426950408889634)
        keep = columns[None, :] < length
        if causal:
            keep = keep & (columns[None, :] <= rows[:, None])
        scores = tl.where(keep, scores, -1.0e30)
        fresh = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.math.exp2(scores - fresh[:, None])
        decay = tl.math.exp2(highest - fresh)
        total = total * decay + tl.sum(weights, 1)
        value = tl.load(v + (head + columns[:, None]) * head_dim + dims[None, :],
                        mask=columns[:, None] < length, other=0.0)
        acc = tl.dot(weights.to(value.dtype), value, acc * decay[:, None])
        highest = fresh
    tl.store(out + (head + rows[:, None]) * head_dim + dims[None, :], acc / total[:, None],
             mask=rows[:, None] < length)
    tl.store(lse + head + rows, (highest + tl.math.log2(total)) * 0.6931471805599453, mask=rows < length)


@triton.jit
def reductions(x, sums, highest, places, ranked, scanned, bins, n: tl.constexpr):
    """Rows of n: reductions, a scan, a sort and a histogram by atomics; shuffles, votes and shared memory."""
    row = tl.program_id(0)
    lanes = tl.arange(0, n)
    value = tl.load(x + row * n + lanes)
    tl.store(sums + row, tl.sum(value, 0))
    best, place = tl.max(value, 0, return_indices=True)
    tl.store(highest + row, best)
    tl.store(places + row, place)
    tl.store(ranked + row * n + lanes, tl.sort(value))
    tl.store(scanned + row * n + lanes, tl.cumsum(value, 0))
    tl.atomic_add(bins + (value & 15), 1)
    tl.device_assert(best >= value)


@gluon.jit
def gluon_matmul(a, b, c, k, stages: gl.constexpr):
    """C[m, n] = A[m, k] B[k, n]: TMA and tcgen05.mma by hand, in a ring of `stages` buffers."""
    block_m: gl.constexpr = a.block_type.shape[0]
    block_n: gl.constexpr = b.block_type.shape[1]
    block_k: gl.constexpr = a.block_type.shape[1]
    dtype: gl.constexpr = a.dtype
    row = gl.program_id(0) * block_m
    column = gl.program_id(1) * block_n

    xs = gl.allocate_shared_memory(dtype, [stages, block_m, block_k], a.layout)
    ys = gl.allocate_shared_memory(dtype, [stages, block_k, block_n], b.layout)
    full = mbarrier.allocate_mbarrier(batch=stages)
    free = mbarrier.allocate_mbarrier(batch=stages)
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(stages):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    mbarrier.init(done, count=1)

    tmem: gl.constexpr = TensorMemoryLayout([block_m, block_n], col_stride=1)
    acc = allocate_tensor_memory(gl.float32, [block_m, block_n], tmem)

    steps = gl.cdiv(k, block_k)
    for step in range(0, steps + stages - 1):
        if step < steps:
            stage = step % stages
            if step >= stages:
                mbarrier.wait(free.index(stage), (step // stages - 1) & 1)
            mbarrier.expect(full.index(stage), a.nbytes_per_cta + b.nbytes_per_cta)
            tma.async_load(a, [row, step * block_k], full.index(stage), xs.index(stage))
            tma.async_load(b, [step * block_k, column], full.index(stage), ys.index(stage))
        ready = step - (stages - 1)
        if ready >= 0:
            stage = ready % stages
            mbarrier.wait(full.index(stage), (ready // stages) & 1)
            tcgen05_mma(xs.index(stage), ys.index(stage), acc, use_acc=ready > 0)
            tcgen05_commit(free.index(stage))
    tcgen05_commit(done)
    mbarrier.wait(done, 0)

    result = acc.load(acc.get_reg_layout())
    staged = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    staged.store(gl.convert_layout(result.to(c.dtype), gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])))
    fence_async_shared()
    gl.barrier()
    tma.async_store(c, [row, column], staged)
    tma.store_wait(0)


@gluon.jit
def gluon_scaled_matmul(a, a_scale, b, b_scale, c, k, block_m: gl.constexpr, block_n: gl.constexpr,
                        block_k: gl.constexpr):
    """C[block_m, block_n] = A[m, k] B[n, k]^T of e4m3 with a scale factor for 32 elements. The factors lie in
    blocks of 128 rows by 4 as tcgen05.cp copies them: [k / 128][rows / 128][32][4][4]."""
    wide: gl.constexpr = gl.BlockedLayout([1, 16], [4, 8], [gl.num_warps(), 1], [1, 0])
    flat: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    operand: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=8, rank=2)
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    x = gl.allocate_shared_memory(a.dtype.element_ty, [block_m, block_k], operand)
    y = gl.allocate_shared_memory(b.dtype.element_ty, [block_n, block_k], operand)
    x_scale = gl.allocate_shared_memory(gl.uint8, [block_m * block_k // 32], plain)
    y_scale = gl.allocate_shared_memory(gl.uint8, [block_n * block_k // 32], plain)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    tmem: gl.constexpr = TensorMemoryLayout([block_m, block_n], col_stride=1)
    acc = allocate_tensor_memory(gl.float32, [block_m, block_n], tmem)
    scales: gl.constexpr = TensorMemoryScalesLayout()
    x_factors = allocate_tensor_memory(gl.uint8, [block_m, block_k // 32], scales)
    y_factors = allocate_tensor_memory(gl.uint8, [block_n, block_k // 32], scales)

    rows = gl.arange(0, block_m, gl.SliceLayout(1, wide))
    columns = gl.arange(0, block_n, gl.SliceLayout(1, wide))
    depth = gl.arange(0, block_k, gl.SliceLayout(0, wide))
    x_places = gl.arange(0, block_m * block_k // 32, flat)
    y_places = gl.arange(0, block_n * block_k // 32, flat)
    for step in range(0, k // block_k):
        x.store(gl.load(a + rows[:, None] * k + step * block_k + depth[None, :]))
        y.store(gl.load(b + columns[:, None] * k + step * block_k + depth[None, :]))
        x_scale.store(gl.load(a_scale + step * (block_m * block_k // 32) + x_places))
        y_scale.store(gl.load(b_scale + step * (block_n * block_k // 32) + y_places))
        fence_async_shared()
        gl.barrier()
        tcgen05_copy(blocks_as_rows(x_scale, block_m, block_k // 32), x_factors)
        tcgen05_copy(blocks_as_rows(y_scale, block_n, block_k // 32), y_factors)
        tcgen05_mma_scaled(x, y.permute((1, 0)), acc, x_factors, y_factors, "e4m3", "e4m3", use_acc=step > 0)
        tcgen05_commit(done)
        mbarrier.wait(done, step & 1)

    out: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0])
    result = gl.convert_layout(acc.load(acc.get_reg_layout()), out)
    c_rows = gl.arange(0, block_m, gl.SliceLayout(1, out))
    c_columns = gl.arange(0, block_n, gl.SliceLayout(0, out))
    gl.store(c + c_rows[:, None] * block_n + c_columns[None, :], result)


@gluon.jit
def blocks_as_rows(factors, rows: gl.constexpr, groups: gl.constexpr):
    """The blocks as a matrix [rows, groups]."""
    blocks = factors.reshape((rows // 128, groups // 4, 32, 4, 4))
    return blocks.permute((0, 3, 2, 1, 4)).reshape((rows, groups))
