// Work of a stream as a graph that is launched again and again, as a server would.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>

#include "jfa/attention.h"

namespace jfa::tools {

class GraphReplay {
 public:
  /// Captures what `work` enqueues on `stream`; a simulated device has no graphs, and each replay calls
  /// `work`. Errors: of `work`; kDevice.
  static Result<std::unique_ptr<GraphReplay>> capture(Device& device, Stream stream,
                                                      std::function<Status()> work);
  GraphReplay(const GraphReplay&) = delete;
  GraphReplay& operator=(const GraphReplay&) = delete;
  ~GraphReplay();

  /// Enqueues it on the stream.
  Status operator()();

 private:
  GraphReplay(Device& device, Stream stream, std::function<Status()> work)
      : device_(device), stream_(static_cast<CUstream>(stream)), work_(std::move(work)) {}
  Status record();

  Device device_;
  CUstream stream_;
  std::function<Status()> work_;
  CUgraphExec graph_ = nullptr;
};

}  // namespace jfa::tools
