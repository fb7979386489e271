// Streams and events. Work has already run when a call returns, so waiting is only a matter of errors.
#include "simulator/driver/driver.h"

namespace jfa::simulator {

SimulatedDriver::Stream* SimulatedDriver::find_stream(CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return &legacy_stream_;
  if (stream == CU_STREAM_PER_THREAD) return &per_thread_stream_;
  return streams_.find(stream);
}

CUresult SimulatedDriver::take_pending(Stream& stream) {
  const CUresult pending = stream.pending;
  stream.pending = CUDA_SUCCESS;
  return pending;
}

// The legacy default stream waits for every blocking stream.
CUresult SimulatedDriver::synchronise_default_stream() {
  CUresult result = take_pending(legacy_stream_);
  const auto join = [&](Stream& stream) {
    if (result == CUDA_SUCCESS && stream.flags == CU_STREAM_DEFAULT) result = take_pending(stream);
  };
  join(per_thread_stream_);
  streams_.for_each(join);
  return result;
}

CUresult SimulatedDriver::synchronise_all() {
  CUresult result = synchronise_default_stream();
  streams_.for_each([&](Stream& stream) {
    if (result == CUDA_SUCCESS) result = take_pending(stream);
  });
  return result;
}

CUresult SimulatedDriver::cuStreamCreate(CUstream* stream, unsigned int flags) {
  if (stream == nullptr || (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult error = require_context()) return error;
  auto object = std::make_unique<Stream>();
  object->id = next_stream_id_++;
  object->flags = flags;
  *stream = streams_.add(std::move(object));
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuStreamDestroy(CUstream stream) {
  return streams_.remove(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult SimulatedDriver::cuStreamSynchronize(CUstream stream) {
  if (const CUresult error = require_context()) return error;
  Stream* object = find_stream(stream);
  if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return object == &legacy_stream_ ? synchronise_default_stream() : take_pending(*object);
}

CUresult SimulatedDriver::cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = require_context()) return error;
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;  // there are no graphs here
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuStreamGetCtx(CUstream stream, CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (retained_ == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  // The default streams belong to the calling thread's context.
  if (streams_.find(stream) == nullptr) {
    if (const CUresult error = require_context()) return error;
  }
  *context = primary_handle();
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuStreamGetId(CUstream stream, unsigned long long* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = require_context()) return error;
  const Stream* object = find_stream(stream);
  if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *id = object->id;
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (mode == nullptr ||
      (*mode != CU_STREAM_CAPTURE_MODE_GLOBAL && *mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
       *mode != CU_STREAM_CAPTURE_MODE_RELAXED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuEventCreate(CUevent* event, unsigned int flags) {
  constexpr unsigned int kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
  if (event == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = require_context()) return error;
  auto object = std::make_unique<Event>();
  object->flags = flags;
  *event = events_.add(std::move(object));
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuEventDestroy(CUevent event) {
  return events_.remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult SimulatedDriver::cuEventRecord(CUevent event, CUstream stream) {
  if (const CUresult error = require_context()) return error;
  Event* object = events_.find(event);
  if (object == nullptr || find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  object->recorded = true;
  object->stream = stream;
  object->time = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}

CUresult SimulatedDriver::cuEventSynchronize(CUevent event) {
  if (const CUresult error = require_context()) return error;
  const Event* object = events_.find(event);
  if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = object->recorded ? find_stream(object->stream) : nullptr;
  return stream == nullptr ? CUDA_SUCCESS : take_pending(*stream);
}

CUresult SimulatedDriver::cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Event* first = events_.find(start);
  const Event* last = events_.find(end);
  const auto timed = [](const Event* event) {
    return event != nullptr && event->recorded && (event->flags & CU_EVENT_DISABLE_TIMING) == 0;
  };
  if (!timed(first) || !timed(last)) return CUDA_ERROR_INVALID_HANDLE;
  // Time that the simulation took, not what a device would take.
  *milliseconds = std::chrono::duration<float, std::milli>(last->time - first->time).count();
  return CUDA_SUCCESS;
}

}  // namespace jfa::simulator
