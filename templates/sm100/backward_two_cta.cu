// The entry of clusters of two CTAs for compute capability 10.x.
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
