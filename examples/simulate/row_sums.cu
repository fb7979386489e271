// One CTA sums one row: each thread its columns, then a tree in shared memory. For docs/jfa-sim.md.
extern "C" __global__ void row_sums(const float* rows, float* sums, int columns) {
  __shared__ float partial[64];
  float sum = 0.0f;
#pragma unroll 1
  for (int column = threadIdx.x; column < columns; column += 64) sum += rows[blockIdx.x * columns + column];
  partial[threadIdx.x] = sum;
#pragma unroll 1
  for (int width = 32; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}
