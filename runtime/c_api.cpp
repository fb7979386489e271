// The C interface over the C++ one. No exception leaves it.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <string_view>

#include "base/foreign_text.h"
#include "jfa/attention.h"
#include "jfa/cache.h"
#include "jfa/jfa.h"
#include "jfa/log.h"
#include "jfa/version.h"
#include "runtime/c_structure.h"
#include "runtime/error_names.h"

struct jfa_device {
  jfa::Device device;
};

namespace {

using jfa::ErrorKind;
using jfa::Result;
using jfa::Status;

using jfa::kErrorNames;
static_assert(static_cast<int>(ErrorKind::kInvalidArgument) == JFA_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorKind::kUnsupported) == JFA_UNSUPPORTED);
static_assert(static_cast<int>(ErrorKind::kUnavailable) == JFA_UNAVAILABLE);
static_assert(static_cast<int>(ErrorKind::kCompile) == JFA_COMPILE);
static_assert(static_cast<int>(ErrorKind::kDevice) == JFA_DEVICE);
static_assert(static_cast<int>(ErrorKind::kInternal) == JFA_INTERNAL);

static_assert(static_cast<int>(jfa::LogLevel::kWarning) == JFA_LOG_WARNING);
static_assert(static_cast<int>(jfa::LogLevel::kNotice) == JFA_LOG_NOTICE);
static_assert(static_cast<int>(jfa::LogLevel::kInfo) == JFA_LOG_INFO);
static_assert(static_cast<int>(jfa::LogLevel::kTrace) == JFA_LOG_TRACE);

thread_local Status last_error;

jfa_error fail(ErrorKind kind, const char* message) noexcept {
  try {
    last_error = Status(kind, message);
  } catch (const std::bad_alloc&) {
    last_error = Status(kind, {});  // the kind still says what the words cannot
  }
  return static_cast<jfa_error>(kind);
}

// Runs `act`, which returns a Status, and keeps what it says.
template <class Act>
jfa_error guarded(Act act) noexcept {
  try {
    const Status status = act();
    if (status.ok()) return JFA_OK;
    // A path or a log may hold any bytes, and callers in other languages decode what they get.
    last_error = Status(status.kind(), jfa::valid_utf8(status.message()), jfa::valid_utf8(status.detail()));
    return static_cast<jfa_error>(last_error.kind());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kUnavailable, "out of host memory");
  } catch (const std::exception& error) {
    return fail(ErrorKind::kInternal, error.what());
  }
}

template <class... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return Status::invalid_argument(fmt::format(format, std::forward<Args>(args)...));
}

struct Argument {
  const char* name;
  const void* pointer;
};

Status check_present(std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments)
    if (!argument.pointer) return invalid("{} is null", argument.name);
  return {};
}

// Writes the value of a result, or returns its error.
template <class T, class U>
Status store(const Result<T>& result, U* destination) {
  if (result) *destination = *result;
  return result.status();
}

template <class Enum>
Status convert_enum(std::string_view name, std::int32_t value, std::int32_t count, Enum* out) {
  if (value < 0 || value >= count) return invalid("{} is {}: not one of 0 … {}", name, value, count - 1);
  *out = static_cast<Enum>(value);
  return {};
}

constexpr std::int32_t kDtypes = JFA_FP16 + 1;
constexpr std::int32_t kOffsetTypes = JFA_INT64 + 1;
constexpr std::int32_t kAlignments = JFA_BOTTOM_RIGHT + 1;
constexpr std::int32_t kPasses = JFA_BACKWARD + 1;

// So that a later version may give the field a meaning.
Status check_reserved(std::string_view name, std::int32_t reserved) {
  if (reserved == 0) return {};
  return invalid("{}.reserved is {}: it must be 0", name, reserved);
}

Status convert(const char* name, const jfa_tensor& in, jfa::Tensor* out) {
  *out = {in.address, in.rows, in.heads, in.head_dim, in.row_stride, in.head_stride, jfa::DType::bf16};
  if (in.dtype < 0 || in.dtype >= kDtypes)  // the name is only put together when it is needed
    return convert_enum(fmt::format("{}.dtype", name), in.dtype, kDtypes, &out->dtype);
  out->dtype = static_cast<jfa::DType>(in.dtype);
  return check_reserved(name, in.reserved);
}

Status convert(const jfa_output_gradient& in, jfa::OutputGradient* out) {
  *out = {in.address,    in.rows,        in.heads,      in.head_dim,
          in.row_stride, in.head_stride, in.dim_stride, jfa::DType::bf16};
  if (Status status = check_reserved("output_grad", in.reserved); !status.ok()) return status;
  return convert_enum("output_grad.dtype", in.dtype, kDtypes, &out->dtype);
}

Status convert(const char* name, const jfa_offsets& in, jfa::Offsets* out) {
  *out = {in.address, in.count, jfa::OffsetType::int32};
  if (in.type < 0 || in.type >= kOffsetTypes)
    return convert_enum(fmt::format("{}.type", name), in.type, kOffsetTypes, &out->type);
  out->type = static_cast<jfa::OffsetType>(in.type);
  return check_reserved(name, in.reserved);
}

// Sizes in the first version of the header, whatever is added at the end since.
constexpr std::uint64_t kFirstCallBytes = 288;
constexpr std::uint64_t kFirstConfigurationBytes = 56;
constexpr std::uint64_t kFirstCacheStatsBytes = 144;
static_assert(sizeof(jfa_call) >= kFirstCallBytes);
static_assert(sizeof(jfa_configuration) >= kFirstConfigurationBytes);
static_assert(sizeof(jfa_cache_stats) >= kFirstCacheStatsBytes);

// Of a structure's text, which may be null.
Status convert_tuning(const char* text, jfa::Tuning* values, const jfa::Tuning** out) {
  if (!text) return {};
  Result<jfa::Tuning> tuning = jfa::parse_tuning(text);
  if (!tuning) return tuning.status();
  *values = *std::move(tuning);
  *out = values;
  return {};
}

// Of jfa_call and jfa_configuration, which have the same fields for it.
template <class Structure>
Status convert_window(const Structure& in, std::optional<jfa::Window>* out) {
  jfa::Alignment alignment{};
  if (Status status = convert_enum("alignment", in.alignment, kAlignments, &alignment); !status.ok())
    return status;
  if (in.has_window && (in.has_window_left || in.has_window_right)) {
    return in.has_window_left ? invalid("window is {}, and window_left {}", in.window, in.window_left)
                              : invalid("window is {}, and window_right {}", in.window, in.window_right);
  }
  if (!in.has_window && !in.has_window_left && !in.has_window_right) return {};
  jfa::Window window;
  if (in.has_window || in.has_window_left) window.left = in.has_window ? in.window : in.window_left;
  if (in.has_window || in.has_window_right) window.right = in.has_window ? in.window : in.window_right;
  window.alignment = alignment;
  *out = window;
  return {};
}

// What `out` points to lies in `tuning`.
Status convert(const jfa_call& given, jfa::AttentionCall* out, jfa::Tuning* tuning) {
  jfa_call in;
  if (Status status = jfa::read_structure("jfa_call", &given, kFirstCallBytes, &in); !status.ok())
    return status;
  if (Status status = check_reserved("jfa_call", in.reserved); !status.ok()) return status;
  if (Status status = convert("query", in.query, &out->query); !status.ok()) return status;
  if (Status status = convert("key", in.key, &out->key); !status.ok()) return status;
  if (Status status = convert("value", in.value, &out->value); !status.ok()) return status;
  out->broadcast_q = in.broadcast_q != 0;
  if (!out->broadcast_q) {
    if (Status status = convert("query_offset", in.query_offset, &out->query_offset); !status.ok())
      return status;
  }
  if (Status status = convert("key_offset", in.key_offset, &out->key_offset); !status.ok()) return status;
  if (in.has_output_offset) {
    Status status = convert("output_offset", in.output_offset, &out->output_offset.emplace());
    if (!status.ok()) return status;
  }
  if (Status status = convert_window(in, &out->window); !status.ok()) return status;
  if (Status status = check_reserved("jfa_call", in.reserved2); !status.ok()) return status;
  if (in.has_scale) out->scale = in.scale;
  out->deterministic = in.deterministic != 0;
  return convert_tuning(in.tuning, tuning, &out->tuning);
}

Status convert(const jfa_configuration& given, jfa::Configuration* out, jfa::Tuning* tuning) {
  jfa_configuration in;
  if (Status status = jfa::read_structure("jfa_configuration", &given, kFirstConfigurationBytes, &in);
      !status.ok())
    return status;
  if (Status status = convert_enum("pass", in.pass, kPasses, &out->pass); !status.ok()) return status;
  if (Status status = convert_enum("dtype", in.dtype, kDtypes, &out->dtype); !status.ok()) return status;
  out->head_dim = in.head_dim;
  if (Status status = convert_window(in, &out->window); !status.ok()) return status;
  if (Status status = check_reserved("jfa_configuration", in.reserved); !status.ok()) return status;
  out->broadcast_q = in.broadcast_q != 0;
  if (in.groups != 0) out->groups = in.groups;
  if (in.target) out->target = in.target;
  return convert_tuning(in.tuning, tuning, &out->tuning);
}

jfa::Workspace convert(const jfa_workspace* workspace) {
  return workspace ? jfa::Workspace{workspace->address, workspace->bytes} : jfa::Workspace{};
}

}  // namespace

const char* jfa_error_name(jfa_error error) {
  const bool known = error >= 0 && error < static_cast<jfa_error>(std::size(kErrorNames));
  return known ? kErrorNames[error] : "unknown error";
}

const char* jfa_last_error_message(void) { return last_error.message().c_str(); }
const char* jfa_last_error_detail(void) { return last_error.detail().c_str(); }
const char* jfa_version(void) { return jfa::version(); }
const char* jfa_commit(void) { return jfa::commit(); }

jfa_error jfa_device_open(const char* name, jfa_device** device) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"name", name}, {"device", device}}); !status.ok()) return status;
    Result<jfa::Device> opened = jfa::Device::open(name);
    if (opened) *device = new jfa_device{*opened};
    return opened.status();
  });
}

void jfa_device_close(jfa_device* device) { delete device; }

const char* jfa_device_name(const jfa_device* device) {
  return device ? device->device.name().c_str() : nullptr;
}
const char* jfa_device_target(const jfa_device* device) {
  return device ? device->device.target().c_str() : nullptr;
}
int32_t jfa_device_simulated(const jfa_device* device) { return device && device->device.simulated(); }

jfa_error jfa_allocate(jfa_device* device, uint64_t bytes, uint64_t* address) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"device", device}, {"address", address}}); !status.ok())
      return status;
    return store(device->device.allocate(bytes), address);
  });
}

jfa_error jfa_free(jfa_device* device, uint64_t address) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"device", device}}); !status.ok()) return status;
    return device->device.free(address);
  });
}

jfa_error jfa_upload(jfa_device* device, uint64_t destination, const void* source, uint64_t bytes) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"device", device}}); !status.ok()) return status;
    if (!source && bytes > 0) return invalid("source is null although bytes is {}", bytes);
    return device->device.upload(destination, source, bytes);
  });
}

jfa_error jfa_download(jfa_device* device, void* destination, uint64_t source, uint64_t bytes) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"device", device}}); !status.ok()) return status;
    if (!destination && bytes > 0) return invalid("destination is null although bytes is {}", bytes);
    return device->device.download(destination, source, bytes);
  });
}

jfa_error jfa_fill(jfa_device* device, uint64_t destination, uint8_t byte, uint64_t bytes) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"device", device}}); !status.ok()) return status;
    return device->device.fill(destination, byte, bytes);
  });
}

jfa_error jfa_device_use_tuning_database(jfa_device* device, const char* path) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"device", device}, {"path", path}}); !status.ok()) return status;
    return device->device.use_tuning_database(path);
  });
}

jfa_error jfa_synchronize(jfa_device* device, jfa_stream stream) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"device", device}}); !status.ok()) return status;
    return device->device.synchronize(stream);
  });
}

jfa_error jfa_forward(jfa_device* device, const jfa_call* call, const jfa_tensor* output, uint64_t lse,
                      const jfa_workspace* workspace, jfa_stream stream) {
  return guarded([&]() -> Status {
    Status status = check_present({{"device", device}, {"call", call}, {"output", output}});
    if (!status.ok()) return status;
    jfa::AttentionCall attention;
    jfa::Tuning tuning;
    jfa::Tensor result;
    if (status = convert(*call, &attention, &tuning); !status.ok()) return status;
    if (status = convert("output", *output, &result); !status.ok()) return status;
    return jfa::forward(device->device, attention, result, lse, convert(workspace), stream);
  });
}

jfa_error jfa_workspace_bytes(const jfa_call* call, uint64_t* bytes) {
  return guarded([&]() -> Status {
    Status status = check_present({{"call", call}, {"bytes", bytes}});
    if (!status.ok()) return status;
    jfa::AttentionCall attention;
    jfa::Tuning tuning;
    if (status = convert(*call, &attention, &tuning); !status.ok()) return status;
    return store(jfa::workspace_bytes(attention), bytes);
  });
}

jfa_error jfa_backward(jfa_device* device, const jfa_call* call, const jfa_tensor* output, uint64_t lse,
                       const jfa_output_gradient* output_grad, uint64_t lse_grad,
                       const jfa_tensor* query_grad, const jfa_tensor* key_grad, const jfa_tensor* value_grad,
                       const jfa_workspace* workspace, jfa_stream stream) {
  return guarded([&]() -> Status {
    Status status = check_present({{"device", device},
                                   {"call", call},
                                   {"output", output},
                                   {"output_grad", output_grad},
                                   {"query_grad", query_grad},
                                   {"key_grad", key_grad},
                                   {"value_grad", value_grad}});
    if (!status.ok()) return status;
    jfa::AttentionCall attention;
    jfa::Tuning tuning;
    jfa::OutputGradient gradient;
    jfa::Tensor result, query, key, value;
    if (status = convert(*call, &attention, &tuning); !status.ok()) return status;
    if (status = convert("output", *output, &result); !status.ok()) return status;
    if (status = convert(*output_grad, &gradient); !status.ok()) return status;
    if (status = convert("query_grad", *query_grad, &query); !status.ok()) return status;
    if (status = convert("key_grad", *key_grad, &key); !status.ok()) return status;
    if (status = convert("value_grad", *value_grad, &value); !status.ok()) return status;
    return jfa::backward(device->device, attention, result, lse, gradient, lse_grad, query, key, value,
                         convert(workspace), stream);
  });
}

jfa_error jfa_backward_workspace_bytes(const jfa_call* call, const jfa_output_gradient* output_grad,
                                       uint64_t* bytes) {
  return guarded([&]() -> Status {
    Status status = check_present({{"call", call}, {"output_grad", output_grad}, {"bytes", bytes}});
    if (!status.ok()) return status;
    jfa::AttentionCall attention;
    jfa::Tuning tuning;
    jfa::OutputGradient gradient;
    if (status = convert(*call, &attention, &tuning); !status.ok()) return status;
    if (status = convert(*output_grad, &gradient); !status.ok()) return status;
    return store(jfa::backward_workspace_bytes(attention, gradient), bytes);
  });
}

jfa_error jfa_status(jfa_device* device, const jfa_workspace* workspace, jfa_stream stream) {
  return guarded([&]() -> Status {
    Status status = check_present({{"device", device}, {"workspace", workspace}});
    if (!status.ok()) return status;
    return jfa::status(device->device, convert(workspace), stream);
  });
}

jfa_error jfa_supported(const jfa_configuration* configuration) {
  return guarded([&]() -> Status {
    Status status = check_present({{"configuration", configuration}});
    if (!status.ok()) return status;
    jfa::Configuration wanted;
    jfa::Tuning tuning;
    if (status = convert(*configuration, &wanted, &tuning); !status.ok()) return status;
    return jfa::supported(wanted);
  });
}

jfa_error jfa_supported_head_dims(int64_t* head_dims, size_t capacity, size_t* count) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"count", count}}); !status.ok()) return status;
    if (!head_dims && capacity > 0) return invalid("head_dims is null although capacity is {}", capacity);
    const std::vector<std::int64_t> supported = jfa::supported_head_dims();
    std::copy_n(supported.begin(), std::min(capacity, supported.size()), head_dims);
    *count = supported.size();
    return {};
  });
}

jfa_error jfa_prepare(jfa_device* device, const jfa_configuration* configuration) {
  return guarded([&]() -> Status {
    Status status = check_present({{"device", device}, {"configuration", configuration}});
    if (!status.ok()) return status;
    jfa::Configuration wanted;
    jfa::Tuning tuning;
    if (status = convert(*configuration, &wanted, &tuning); !status.ok()) return status;
    return jfa::prepare(device->device, wanted);
  });
}

jfa_error jfa_set_log_callback(jfa_log_callback callback, void* user, int32_t level) {
  return guarded([&]() -> Status {
    if (!callback) return jfa::set_log_callback({});
    if (level < JFA_LOG_WARNING || level > JFA_LOG_TRACE)
      return invalid("level is {}: not one of {} … {}", level, +JFA_LOG_WARNING, +JFA_LOG_TRACE);
    return jfa::set_log_callback(
        [callback, user](jfa::LogLevel of, std::string_view message) {
          callback(static_cast<int32_t>(of), std::string(message).c_str(), user);
        },
        static_cast<jfa::LogLevel>(level));
  });
}

jfa_error jfa_read_cache_stats(jfa_cache_stats* stats) {
  return guarded([&]() -> Status {
    if (Status status = check_present({{"stats", stats}}); !status.ok()) return status;
    const Result<jfa::CacheStats> counted = jfa::cache_stats();
    if (!counted) return counted.status();
    const jfa::CacheStats& from = *counted;
    const jfa_cache_stats filled{sizeof filled,       from.memory_hits,     from.directory_hits,
                                 from.read_only_hits, from.bundle_hits,     from.shared,
                                 from.misses,         from.compiles,        from.compile_failures,
                                 from.published,      from.published_bytes, from.publish_failures,
                                 from.lock_waits,     from.lock_timeouts,   from.damaged,
                                 from.evicted,        from.evicted_bytes,   from.compile_ms};
    return jfa::write_structure("jfa_cache_stats", filled, kFirstCacheStatsBytes, stats);
  });
}
