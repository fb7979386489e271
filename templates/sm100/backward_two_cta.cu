// The entry of clusters of two CTAs for compute capability 10.x.
namespace jfa::kernel::two_cta {

// What no chunk writes is read with the rest.
__device__ inline void clear_score_grads(Config::RoundedScoreGrads::Stage score_grads) {
  for (int byte = threadIdx.x * 16; byte < score_grads.kBytes; byte += blockDim.x * 16)
    st_shared_v4(score_grads.address + byte, 0, 0, 0, 0);
  fence_proxy_async_shared();
}

template <class Work>
__device__ inline void run(const Shared<typename Work::Tile>& shared, const TwoCtaArguments& arguments,
                           const Maps& maps) {
  auto& pipeline = shared.control->pipeline;
  TensorMemory* const address = &shared.control->tensor_memory;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    init_pipeline(pipeline);
    fence_mbarrier_init();
  }
  clear_score_grads(shared.score_grads[0]);
  barrier_cluster();  // the peer runs, and its barriers are there
  if (warp == Config::DrawWarps::kFirst) {
    tcgen05_alloc<kCtas>(address, config::kTensorMemoryColumns);
    tcgen05_relinquish_alloc_permit<kCtas>();
  }
  __syncthreads();
  const TensorMemory memory = *address;
  if (warp == Config::LoadWarps::kFirst) {
    if (elect_sync()) load<Work>(shared, arguments, maps);
  } else if (warp == Config::DrawWarps::kFirst) {
    if (elect_sync()) Work::draw(pipeline.queue, arguments);
  } else if (warp == Config::StatsWarps::kFirst) {
    load_stats<Work>(shared, arguments);
  } else if (warp == Config::MultiplyWarps::kFirst) {
    if (cluster_ctarank() == 0 && elect_sync()) {
      Products<typename Work::Tile> products(shared, memory);
      for_each_step<Work>(pipeline.queue, arguments, take_item<typename Work::Tile>,
                          [&](const Step& step) { products.step(step); });
      products.end();
    }
  } else if (warp < Config::AttendWarps::kEnd) {
    attend<Work>(shared, memory, arguments);
  } else {
    unload<Work>(shared, memory, arguments);
  }
  __syncwarp();
  tcgen05_fence_before_thread_sync();
  barrier_cluster();  // neither CTA signals the other any more
  if (warp == Config::DrawWarps::kFirst) tcgen05_dealloc<kCtas>(memory, config::kTensorMemoryColumns);
}

}  // namespace jfa::kernel::two_cta

extern "C" __global__ void __cluster_dims__(jfa::kernel::config::TwoCta::kCluster)
    __launch_bounds__(jfa::kernel::config::TwoCta::kThreads, jfa::kernel::config::TwoCta::kCtas)
        jfa_backward_two_cta(const __grid_constant__ jfa::kernel::TensorMap query,
                             const __grid_constant__ jfa::kernel::TensorMap query_columns,
                             const __grid_constant__ jfa::kernel::TensorMap key,
                             const __grid_constant__ jfa::kernel::TensorMap key_columns,
                             const __grid_constant__ jfa::kernel::TensorMap value,
                             const __grid_constant__ jfa::kernel::TensorMap output_grad,
                             const __grid_constant__ jfa::kernel::TensorMap output_grad_columns,
                             const __grid_constant__ jfa::kernel::TwoCtaArguments arguments) {
  using namespace jfa::kernel;
  using namespace jfa::kernel::two_cta;
  extern __shared__ unsigned char shared_bytes[];
  run<Work>(carve<Work::Tile>(shared_bytes), arguments,
            {&query, &query_columns, &key, &key_columns, &value, &output_grad, &output_grad_columns});
}
