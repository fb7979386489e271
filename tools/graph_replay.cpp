#include "tools/graph_replay.h"

#include <dlfcn.h>

#include "runtime/device.h"

namespace jfa::tools {
namespace {

// Calls that the library itself has no use for, and simulated devices have not.
struct GraphCalls {
  decltype(&::cuStreamBeginCapture) begin_capture = nullptr;
  decltype(&::cuStreamEndCapture) end_capture = nullptr;
  decltype(&::cuGraphInstantiateWithFlags) instantiate = nullptr;
  decltype(&::cuGraphLaunch) launch = nullptr;
  decltype(&::cuGraphDestroy) destroy = nullptr;
  decltype(&::cuGraphExecDestroy) destroy_executable = nullptr;

  bool complete() const {
    return begin_capture && end_capture && instantiate && launch && destroy && destroy_executable;
  }
};

// The name after cuda.h's macros have put the version on.
#define JFA_GRAPH_QUOTE(name) #name
#define JFA_GRAPH_NAME(name) JFA_GRAPH_QUOTE(name)
#define JFA_GRAPH_CALL(field, name) \
  calls.field = reinterpret_cast<decltype(calls.field)>(dlsym(library, JFA_GRAPH_NAME(name)))

const GraphCalls& graph_calls() {
  static const GraphCalls known = [] {
    GraphCalls calls;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // open already, for the device
    if (!library) return calls;
    JFA_GRAPH_CALL(begin_capture, cuStreamBeginCapture);
    JFA_GRAPH_CALL(end_capture, cuStreamEndCapture);
    JFA_GRAPH_CALL(instantiate, cuGraphInstantiateWithFlags);
    JFA_GRAPH_CALL(launch, cuGraphLaunch);
    JFA_GRAPH_CALL(destroy, cuGraphDestroy);
    JFA_GRAPH_CALL(destroy_executable, cuGraphExecDestroy);
    return calls;
  }();
  return known;
}

}  // namespace

Result<std::unique_ptr<GraphReplay>> GraphReplay::capture(Device& device, Stream stream,
                                                          std::function<Status()> work) {
  std::unique_ptr<GraphReplay> replay(new GraphReplay(device, stream, std::move(work)));
  if (device.simulated()) return replay;
  if (!graph_calls().complete()) return Status::unavailable("the CUDA driver lacks the calls of graphs");
  if (Status status = replay->record(); !status.ok()) return status;
  return replay;
}

Status GraphReplay::record() {
  const GraphCalls& calls = graph_calls();
  const auto call = [&](auto act) { return device_.impl().with_context("capturing a graph", act); };
  Status status = call([&] { return calls.begin_capture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL); });
  if (!status.ok()) return status;
  status = work_();
  CUgraph graph = nullptr;  // the capture is ended in any case
  const Status ended = call([&] { return calls.end_capture(stream_, &graph); });
  if (status.ok()) status = ended;
  if (status.ok()) status = call([&] { return calls.instantiate(&graph_, graph, 0); });
  if (graph) (void)call([&] { return calls.destroy(graph); });  // the executable lives on
  return status;
}

GraphReplay::~GraphReplay() {
  // Nothing can be done about a failure here; an earlier call has reported it.
  if (graph_) (void)device_.impl().with_context("", [&] { return graph_calls().destroy_executable(graph_); });
}

Status GraphReplay::operator()() {
  if (!graph_) return work_();
  return device_.impl().with_context("launching a graph",
                                     [&] { return graph_calls().launch(graph_, stream_); });
}

}  // namespace jfa::tools
