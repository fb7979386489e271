// A CUDA graph that is captured once and replayed for batches of other lengths: lengths are read on the
// device. Usage: cuda_graph [device], "cuda:0" for a GPU. A simulated device cannot capture
// (cuStreamBeginCapture does not exist for it): there, and the program says so, every replay is a call.
#include <cuda.h>
#include <dlfcn.h>
#include <jfa/attention.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "device_array.h"

using example::Bf16;
using example::DeviceArray;

namespace {

// A program that links libcuda calls it as usual. This one can be built without it, and takes it from where
// jfa has it from.
#define QUOTE(name) #name
#define VERSIONED_NAME(name) QUOTE(name)
#define DRIVER_CALL(name, ...) \
  check(VERSIONED_NAME(name), find<decltype(&::name)>(VERSIONED_NAME(name))(__VA_ARGS__))

template <class Function>
Function find(const char* name) {
  void* const address = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  if (!address) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  return reinterpret_cast<Function>(address);
}

void check(const char* name, CUresult result) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(std::string(name) + ": CUDA error " + std::to_string(static_cast<int>(result)));
}

// What a graph keeps are addresses and sizes, so the buffers are made once, for the largest batch to come.
constexpr std::int64_t kMostRows = 32, kHeads = 2, kHeadDim = 64, kRow = kHeads * kHeadDim;

/// Every output row that a sequence owns is the mean of its sequence's values, which are their row's number.
bool right(const std::vector<std::int32_t>& offset, const std::vector<Bf16>& output) {
  for (std::size_t b = 0; b + 1 < offset.size(); ++b)
    for (std::int64_t row = offset[b]; row < offset[b + 1]; ++row) {
      const double mean = (offset[b] + offset[b + 1] - 1) / 2.0;
      if (std::abs(output[row * kRow] - mean) > mean / 128) return false;
    }
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  jfa::Device device = jfa::Device::open(argc > 1 ? argv[1] : "sim:sm_100a").value();

  std::vector<Bf16> host_value(kMostRows * kRow);
  for (std::size_t i = 0; i < host_value.size(); ++i) {
    const std::size_t row = i / kRow;
    host_value[i] = static_cast<float>(row);
  }
  const DeviceArray<Bf16> query(device, std::vector<Bf16>(host_value.size(), 0)), value(device, host_value);
  DeviceArray<Bf16> output(device, host_value.size());
  DeviceArray<std::int32_t> offset(device,
                                   {0, 0, 0, 0});  // of 3 sequences; those a batch lacks have length 0

  jfa::AttentionCall call;
  call.query = call.key = query.tensor(kHeads, kHeadDim);
  call.value = value.tensor(kHeads, kHeadDim);
  call.query_offset = call.key_offset = offset.offsets();
  const std::uint64_t bytes = jfa::workspace_bytes(call).value();
  const DeviceArray<std::byte> scratch(device, bytes);
  const jfa::Workspace workspace{scratch.address(), bytes};

  CUstream stream = nullptr;
  CUgraphExec replayed = nullptr;
  const auto enqueue = [&] {
    jfa::forward(device, call, output.tensor(kHeads, kHeadDim), /*lse=*/0, workspace, stream).or_throw();
  };
  if (device.simulated()) {
    std::printf(
        "%s: no cuStreamBeginCapture on a simulated device, so each batch is a call instead of a replay\n",
        device.name().c_str());
  } else {
    // Nothing can be compiled or loaded inside a capture, so the kernel is made before.
    jfa::Configuration configuration;
    configuration.head_dim = kHeadDim;
    jfa::prepare(device, configuration).or_throw();

    CUcontext context = nullptr;  // the primary one, in which jfa works
    const int ordinal = std::stoi(device.name().substr(sizeof "cuda:" - 1));
    DRIVER_CALL(cuDevicePrimaryCtxRetain, &context, ordinal);
    DRIVER_CALL(cuCtxSetCurrent, context);
    DRIVER_CALL(cuStreamCreate, &stream,
                CU_STREAM_DEFAULT);  // starts behind the uploads of the default stream
    CUgraph graph = nullptr;
    DRIVER_CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    enqueue();
    DRIVER_CALL(cuStreamEndCapture, stream, &graph);
    DRIVER_CALL(cuGraphInstantiateWithFlags, &replayed, graph, 0);
    DRIVER_CALL(cuGraphDestroy, graph);
  }

  bool all_right = true;
  for (const std::vector<std::int32_t>& batch :
       {std::vector<std::int32_t>{0, 5, 8, 8}, {0, 1, 1, 32}, {0, 0, 0, 0}, {0, 10, 20, 30}}) {
    offset.upload(batch);
    if (replayed) {
      DRIVER_CALL(cuGraphLaunch, replayed, stream);
    } else {
      enqueue();
    }
    jfa::status(device, workspace, stream)
        .or_throw();  // the only one to tell what a replay found in its offsets
    const bool holds = right(batch, output.download());
    std::printf("offsets %d %d %d %d: %s\n", batch[0], batch[1], batch[2], batch[3],
                holds ? "right" : "WRONG");
    all_right = all_right && holds;
  }
  if (replayed) DRIVER_CALL(cuGraphExecDestroy, replayed);
  if (stream) DRIVER_CALL(cuStreamDestroy, stream);
  return all_right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "cuda_graph: %s\n", error.what());
  return 1;
}
