#include "runtime/backward_launches.h"

#include <iterator>
#include <span>

#include "generator/dtype.h"
#include "generator/workspace.h"
#include "runtime/backward_arguments.h"
#include "runtime/launcher.h"

namespace jfa {
namespace {

std::int64_t ctas_of_threads(const LoadedEntry& entry, std::int64_t threads) {
  return (threads + entry.plan.threads - 1) / entry.plan.threads;
}

// One call's launches, in the order in which they are enqueued.
class BackwardCall {
 public:
  BackwardCall(const Device::Impl& device, const LoadedKernels& kernels, const BackwardLaunches& launches,
               std::uint64_t workspace, CUstream stream)
      : launcher_(device, kernels, stream, launches.watch),
        kernels_(kernels),
        plan_(kernels.plan.backward()),
        launches_(launches),
        two_cta_keys_(two_cta_keys(kernels.plan, kernels.has_clusters())),
        pieces_(pieces_of(launches.map, workspace)),
        workspace_(workspace),
        packed_(needs_packing(launches.tensors.output_grad) ? workspace + launches.map.packed_output_grad
                                                            : 0),
        output_grad_(as_tensor(launches.tensors.output_grad, packed_)) {}

  // Short sequences in one pass, and longer ones by pairs of CTAs, if there are entries for them; the others
  // with keys in place for their gradients and values', and with queries in place for theirs.
  Status launch_by_length() const;
  // All gradients of a shared query in one pass.
  Status launch_broadcast() const;
  // The same by pairs of CTAs.
  Status launch_two_cta_broadcast() const;

 private:
  enum Map { kQuery, kKey, kValue, kOutputGrad, kKeyGrad, kValueGrad, kQueryGrad, kOutput, kMaps };
  // Those of the entry of CTA pairs, in the order of its parameters.
  static constexpr int kTwoCtaMaps = 7;
  // The first `count` of them. query_box_rows: of maps with the query's rows.
  Status encode(int count, int query_box_rows, CUtensorMap (&maps)[kMaps]) const;
  Status encode_two_cta(int query_box_rows, CUtensorMap (&maps)[kTwoCtaMaps]) const;
  Status launch_prepare() const;
  // tile_rows: of the key tiles that are listed.
  Status launch_broadcast_prepare(int tile_rows) const;
  // only_query_tiles: no rows but those of prepare's query tiles, unless all must be packed.
  Status launch_delta(bool only_query_tiles) const;
  Status launch_short(CUtensorMap (&maps)[kMaps]) const;
  // items: for a cluster each, at most.
  Status launch_two_cta(CUtensorMap (&maps)[kTwoCtaMaps], kernel::TwoCtaArguments arguments,
                        std::int64_t items) const;
  Status launch_pair(CUtensorMap (&maps)[kMaps]) const;
  Status launch_sum(std::int64_t parts, std::int64_t partial_rows) const;

  const Launcher launcher_;
  const LoadedKernels& kernels_;
  const BackwardPlan& plan_;
  const BackwardLaunches& launches_;
  const KeyRange two_cta_keys_;  // of sequences that go to pairs of CTAs
  const BackwardPieces pieces_;
  const std::uint64_t workspace_;
  const std::uint64_t packed_;  // address of the packed output gradient; 0: it is taken as it lies
  const Tensor output_grad_;
};

Status BackwardCall::encode(int count, int query_box_rows, CUtensorMap (&maps)[kMaps]) const {
  const int box_rows = kernels_.plan.output_box_rows;
  const OperandPlan& cut = kernels_.plan.operand;
  const ValidCall& valid = launches_.valid;
  const ValidBackward& tensors = launches_.tensors;
  const MapOperand operands[kMaps] = {{"query", valid.query, cut, query_box_rows},
                                      {"key", valid.key, cut, box_rows},
                                      {"value", valid.value, cut, box_rows},
                                      {"output_grad", output_grad_, cut, query_box_rows},
                                      {"key_grad", tensors.key_grad, cut, box_rows},
                                      {"value_grad", tensors.value_grad, cut, box_rows},
                                      {"query_grad", tensors.query_grad, cut, query_box_rows},
                                      {"output", tensors.output, cut, query_box_rows}};
  return launcher_.encode(std::span(operands).first(static_cast<std::size_t>(count)), workspace_, maps);
}

Status BackwardCall::encode_two_cta(int query_box_rows, CUtensorMap (&maps)[kTwoCtaMaps]) const {
  const int box_rows = kernels_.plan.output_box_rows;
  const OperandPlan& rows = kernels_.plan.operand;
  const OperandPlan& columns = plan_.two_cta->columns;
  const ValidCall& valid = launches_.valid;
  const MapOperand operands[kTwoCtaMaps] = {{"query", valid.query, rows, query_box_rows},
                                            {"query", valid.query, columns, query_box_rows},
                                            {"key", valid.key, rows, box_rows},
                                            {"key", valid.key, columns, box_rows},
                                            {"value", valid.value, rows, box_rows},
                                            {"output_grad", output_grad_, rows, query_box_rows},
                                            {"output_grad", output_grad_, columns, query_box_rows}};
  return launcher_.encode(operands, workspace_, maps);
}

Status BackwardCall::launch_prepare() const {
  kernel::BackwardPrepareArguments prepare = prepare_arguments(launches_, pieces_, two_cta_keys_);
  void* pointers[] = {&prepare};
  return launcher_.launch(kernels_.entry(plan_.prepare.name), 1, pointers);
}

Status BackwardCall::launch_broadcast_prepare(int tile_rows) const {
  kernel::BroadcastPrepareArguments prepare = broadcast_prepare_arguments(launches_, pieces_, tile_rows);
  void* pointers[] = {&prepare};
  return launcher_.launch(kernels_.entry(plan_.prepare_broadcast->name), 1, pointers);
}

Status BackwardCall::launch_delta(bool only_query_tiles) const {
  constexpr std::int64_t kThreadsPerRow = 16;
  const LoadedEntry& entry = kernels_.entry(plan_.delta.name);
  const Tensor& output = launches_.tensors.output;
  kernel::DeltaArguments delta = delta_arguments(launches_, pieces_, packed_);
  if (only_query_tiles && packed_ == 0) delta.query_tiles = pieces_.query_tiles;
  void* pointers[] = {&delta};
  const std::int64_t threads = output.rows * output.heads * kThreadsPerRow;
  return launcher_.launch(entry, ctas_for(entry, ctas_of_threads(entry, threads)), pointers);
}

Status BackwardCall::launch_sum(std::int64_t parts, std::int64_t partial_rows) const {
  const LoadedEntry& entry = kernels_.entry(plan_.sum.name);
  const Tensor& query_grad = launches_.tensors.query_grad;
  kernel::SumArguments sum = sum_arguments(launches_, pieces_, parts, partial_rows);
  void* pointers[] = {&sum};
  const std::int64_t pairs = query_grad.rows * query_grad.heads * query_grad.head_dim / 2;
  return launcher_.launch(entry, ctas_for(entry, ctas_of_threads(entry, pairs)), pointers);
}

Status BackwardCall::launch_short(CUtensorMap (&maps)[kMaps]) const {
  const LoadedEntry& entry = kernels_.entry(plan_.short_keys->main.name);
  kernel::ShortArguments arguments = short_arguments(launches_, pieces_);
  void* pointers[] = {&maps[kQuery],   &maps[kKey],        &maps[kValue],
                      &maps[kOutput],  &maps[kOutputGrad], &maps[kQueryGrad],
                      &maps[kKeyGrad], &maps[kValueGrad],  &arguments};
  const std::int64_t items = launches_.map.short_tile_capacity * launches_.valid.key.heads;
  return launcher_.launch(entry, ctas_for(entry, items), pointers);
}

Status BackwardCall::launch_two_cta(CUtensorMap (&maps)[kTwoCtaMaps], kernel::TwoCtaArguments arguments,
                                    std::int64_t items) const {
  const LoadedEntry& entry = kernels_.entry(plan_.two_cta->main.name);
  void* pointers[kTwoCtaMaps + 1];
  for (int i = 0; i < kTwoCtaMaps; ++i) pointers[i] = &maps[i];
  pointers[kTwoCtaMaps] = &arguments;
  return launcher_.launch(entry, ctas_for(entry, items), pointers);
}

Status BackwardCall::launch_pair(CUtensorMap (&maps)[kMaps]) const {
  const ValidCall& valid = launches_.valid;
  const BackwardWorkspaceMap& map = launches_.map;
  kernel::BackwardArguments arguments = backward_arguments(launches_, pieces_);
  void* keys_pointers[] = {&maps[kQuery],   &maps[kKey],       &maps[kValue], &maps[kOutputGrad],
                           &maps[kKeyGrad], &maps[kValueGrad], &arguments};
  const LoadedEntry& keys_entry = kernels_.entry(plan_.keys.name);
  const int keys_ctas = ctas_for(keys_entry, map.key_tile_capacity * valid.key.heads);
  if (Status status = launcher_.launch(keys_entry, keys_ctas, keys_pointers); !status.ok()) return status;

  void* queries_pointers[] = {&maps[kQuery],      &maps[kKey],       &maps[kValue],
                              &maps[kOutputGrad], &maps[kQueryGrad], &arguments};
  const LoadedEntry& queries_entry = kernels_.entry(plan_.queries.name);
  const int queries_ctas = ctas_for(queries_entry, map.query_run_capacity * valid.query.heads);
  return launcher_.launch(queries_entry, queries_ctas, queries_pointers);
}

Status BackwardCall::launch_by_length() const {
  const ValidCall& valid = launches_.valid;
  // No sequence has more keys than there are. Rows without the other side are short, too.
  const bool has_short = plan_.short_keys.has_value();
  const bool has_two_cta = !two_cta_keys_.empty() && valid.key.rows >= two_cta_keys_.least;
  const int one_pass_keys = has_two_cta ? two_cta_keys_.most : kernels_.plan.key_tile;
  const bool has_pair = !has_short || valid.key.rows > one_pass_keys;
  CUtensorMap maps[kMaps], two_cta_maps[kTwoCtaMaps];
  if (Status status = encode(has_short ? kMaps : kOutput, kernels_.plan.output_box_rows, maps); !status.ok())
    return status;
  const int two_cta_rows = two_cta_box_rows(kernels_.plan.spec, valid.query.rows);
  if (has_two_cta) {
    if (Status status = encode_two_cta(two_cta_rows, two_cta_maps); !status.ok()) return status;
  }
  if (Status status = launch_prepare(); !status.ok()) return status;
  if (has_pair || has_two_cta || packed_ != 0) {
    if (Status status = launch_delta(has_short); !status.ok()) return status;
  }
  if (has_short) {
    if (Status status = launch_short(maps); !status.ok()) return status;
  }
  if (has_two_cta) {
    Status status = launch_two_cta(two_cta_maps, two_cta_length_arguments(launches_, pieces_, two_cta_rows),
                                   launches_.map.two_cta_tile_capacity * valid.key.heads);
    if (!status.ok()) return status;
  }
  if (has_pair) {
    if (Status status = launch_pair(maps); !status.ok()) return status;
  }
  if (!kernels_.plan.spec.broadcast_q) return {};
  return launch_sum(launches_.map.query_parts, launches_.map.partial_rows);
}

Status BackwardCall::launch_broadcast() const {
  const ValidCall& valid = launches_.valid;
  const auto slot = static_cast<int>(slot_rows(valid.query.rows));
  CUtensorMap maps[kMaps];
  if (Status status = encode(kQueryGrad, slot, maps); !status.ok()) return status;

  if (Status status = launch_broadcast_prepare(kernels_.plan.key_tile); !status.ok()) return status;
  if (Status status = launch_delta(false); !status.ok()) return status;

  const LoadedEntry& entry = kernels_.entry(plan_.broadcast->main.name);
  const int parts =
      broadcast_parts(entry.resident_ctas, valid.key.heads, launches_.map.broadcast_part_capacity);
  kernel::BroadcastArguments arguments = broadcast_arguments(launches_, pieces_, parts);
  void* pointers[] = {&maps[kQuery],   &maps[kKey],       &maps[kValue], &maps[kOutputGrad],
                      &maps[kKeyGrad], &maps[kValueGrad], &arguments};
  const int ctas = ctas_for(entry, parts * valid.key.heads);
  if (Status status = launcher_.launch(entry, ctas, pointers); !status.ok()) return status;
  return launch_sum(parts, slot);
}

Status BackwardCall::launch_two_cta_broadcast() const {
  const ValidCall& valid = launches_.valid;
  const LoadedEntry& entry = kernels_.entry(plan_.two_cta->main.name);
  const int box_rows = two_cta_box_rows(kernels_.plan.spec, valid.query.rows);
  CUtensorMap maps[kTwoCtaMaps];
  if (Status status = encode_two_cta(box_rows, maps); !status.ok()) return status;
  if (Status status = launch_broadcast_prepare(plan_.two_cta->key_rows); !status.ok()) return status;
  if (Status status = launch_delta(false); !status.ok()) return status;
  const int parts = broadcast_parts(entry.resident_ctas / entry.plan.cluster, valid.key.heads,
                                    launches_.map.two_cta_part_capacity);
  Status status = launch_two_cta(maps, two_cta_broadcast_arguments(launches_, pieces_, box_rows, parts),
                                 parts * valid.key.heads);
  return status.ok() ? launch_sum(parts, slot_rows(valid.query.rows)) : status;
}

}  // namespace

Status launch(const Device::Impl& device, const LoadedKernels& kernels, const BackwardLaunches& launches,
              std::uint64_t workspace, CUstream stream) {
  const BackwardCall call(device, kernels, launches, workspace, stream);
  switch (launches.path) {
    case BackwardPath::kByLength:
      return call.launch_by_length();
    case BackwardPath::kOneCta:
      return call.launch_broadcast();
    case BackwardPath::kTwoCta:
      return call.launch_two_cta_broadcast();
  }
  return Status::internal("a backward takes no path");
}

CUresult clear_tensor(const DriverTable& driver, const Tensor& tensor, CUstream stream) {
  constexpr std::int64_t kMostPitch = 0x7fffffff;  // bytes from row to row that the driver takes
  if (tensor.rows == 0 || tensor.heads == 0) return CUDA_SUCCESS;
  // A rectangle for every head, or one for all of them where they lie side by side.
  const bool dense = tensor.head_stride == tensor.head_dim;
  const std::int64_t columns = dense ? tensor.heads : 1;
  const std::int64_t width = columns * tensor.head_dim * kElementBytes;
  const std::int64_t pitch = tensor.row_stride * kElementBytes;
  const std::int64_t height = pitch <= kMostPitch ? tensor.rows : 1;
  for (std::int64_t row = 0; row < tensor.rows; row += height) {
    for (std::int64_t head = 0; head < tensor.heads; head += columns) {
      const std::int64_t element = row * tensor.row_stride + head * tensor.head_stride;
      const CUresult result =
          driver.cuMemsetD2D8Async(tensor.address + static_cast<std::uint64_t>(element * kElementBytes),
                                   static_cast<std::size_t>(height == 1 ? width : pitch), 0,
                                   static_cast<std::size_t>(width), static_cast<std::size_t>(height), stream);
      if (result != CUDA_SUCCESS) return result;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace jfa
