#include "tools/device_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <new>

#include "tools/device_buffer.h"
#include "tools/progress.h"

namespace jfa::tools {
namespace {

constexpr std::int64_t kRowLimit = std::int64_t{1} << 30;

// "output_offset[2] is 536870917", the value that the rows of the output hang on.
std::string last_output_offset(const AttentionFile& file) {
  return fmt::format("output_offset[{}] is {}", file.output_offset->element_count() - 1,
                     offsets_of(*file.output_offset).back());
}

// Rows of the output: as many as output_offset asks for, or one for every query row. Whether the offsets are
// right the device decides; here they must only not ask for absurd amounts of memory.
Result<std::int64_t> output_rows_of(const AttentionFile& file, const RunRequest& request) {
  if (!file.output_offset) {
    const std::int64_t batch = file.key_offset->element_count() - 1;
    const std::int64_t rows = file.query->shape[0];
    if (!request.broadcast_q) return rows;
    if (rows == 0 || batch < kRowLimit / rows) return batch * rows;
    return Status::invalid_argument(
        fmt::format("a batch of {} times query rows {} makes 2^30 output rows or more", batch, rows));
  }
  const std::int64_t last = offsets_of(*file.output_offset).back();
  if (last < kRowLimit) return std::max<std::int64_t>(last, 0);
  return Status::invalid_argument(last_output_offset(file) + ": not below 2^30 rows");
}

// Bytes of the output and the LSE, or as many as there can be.
std::uint64_t output_bytes(const AttentionFile& file, std::int64_t rows) {
  const std::uint64_t row_bytes = 2 * static_cast<std::uint64_t>(file.query->shape[2]) + sizeof(float);
  std::uint64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(rows, file.query->shape[1], &bytes) ||
                        __builtin_mul_overflow(bytes, row_bytes, &bytes);
  return overflow ? std::numeric_limits<std::uint64_t>::max() : bytes;
}

std::uint64_t machine_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

Status no_memory(const AttentionFile& file, std::int64_t rows) {
  return Status::unavailable(fmt::format("{}no memory for {} output rows of {} heads and head_dim {}",
                                         file.output_offset ? last_output_offset(file) + ": " : "", rows,
                                         file.query->shape[1], file.query->shape[2]));
}

TensorBits zeros(std::int64_t rows, std::int64_t heads, std::int64_t head_dim) {
  return {{rows, heads, head_dim},
          std::vector<std::uint16_t>(static_cast<std::size_t>(rows * heads * head_dim))};
}

// One run: the memory it takes on the device, and the calls.
class DeviceRun {
 public:
  DeviceRun(Device& device, const AttentionFile& file, const RunRequest& request, std::string_view command)
      : device_(device), file_(file), request_(request), command_(command) {}

  Result<RunResult> run() {
    Status status = upload_inputs();
    if (status.ok()) status = run_forward();
    if (status.ok() && request_.backward) status = run_backward();
    if (!status.ok()) return status;
    return std::move(result_);
  }

 private:
  Status upload(const void* bytes, std::uint64_t count, std::uint64_t& address) {
    Result<DeviceBuffer> buffer = DeviceBuffer::upload(device_, bytes, count);
    if (!buffer) return buffer.status();
    address = buffer->address();
    buffers_.push_back(std::move(*buffer));
    return {};
  }
  template <class Element>
  Status upload(const std::vector<Element>& elements, std::uint64_t& address) {
    return upload(elements.data(), elements.size() * sizeof(Element), address);
  }
  Status upload(const safetensors::TensorView& view, Tensor& tensor) {
    tensor = Tensor::packed(0, view.shape[0], view.shape[1], view.shape[2], file_.dtype);
    return upload(view.data.data(), view.data.size(), tensor.address);
  }
  Status upload(const safetensors::TensorView& view, Offsets& offsets) {
    offsets.count = view.element_count();
    offsets.type = offset_type(view);
    return upload(view.data.data(), view.data.size(), offsets.address);
  }
  template <class Element>
  Status download(std::vector<Element>& elements, std::uint64_t address) {
    return device_.download(elements.data(), address, elements.size() * sizeof(Element));
  }

  Status upload_inputs() {
    call_.window = request_.window;
    call_.broadcast_q = request_.broadcast_q;
    call_.scale = request_.scale;
    Status status = upload(*file_.query, call_.query);
    if (status.ok()) status = upload(*file_.key, call_.key);
    if (status.ok()) status = upload(*file_.value, call_.value);
    if (status.ok()) status = upload(*file_.key_offset, call_.key_offset);
    if (status.ok() && file_.query_offset) status = upload(*file_.query_offset, call_.query_offset);
    if (status.ok() && file_.output_offset)
      status = upload(*file_.output_offset, call_.output_offset.emplace());
    return status;
  }

  Result<Workspace> allocate_workspace(const Result<std::uint64_t>& bytes) {
    if (!bytes) return bytes.status();
    Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device_, *bytes);
    if (!buffer) return buffer.status();
    const Workspace workspace{buffer->address(), *bytes};
    buffers_.push_back(std::move(*buffer));
    return workspace;
  }

  // Apart from the call, so that its time is not taken for the kernel's; the library reports slow
  // compilations.
  Status prepare(Pass pass) {
    Configuration configuration{pass, file_.dtype, call_.query.head_dim, request_.window,
                                request_.broadcast_q};
    // As the call itself has it: without a head there is no group, and none is wrong.
    if (call_.query.heads > 0 && call_.key.heads > 0)
      configuration.groups = call_.query.heads / call_.key.heads;
    configuration.target = device_.target();
    return jfa::prepare(device_, configuration);
  }

  Status run_forward() {
    const Result<std::int64_t> rows = output_rows_of(file_, request_);
    if (!rows) return rows.status();
    // Where memory is promised that there is not, its use would end the process.
    if (output_bytes(file_, *rows) > machine_bytes()) return no_memory(file_, *rows);
    const Result<Workspace> workspace = allocate_workspace(workspace_bytes(call_));
    if (!workspace) return workspace.status();
    // Zeros: what rows that no sequence owns are to hold in the file.
    result_.output = zeros(*rows, call_.query.heads, call_.query.head_dim);
    result_.lse.resize(static_cast<std::size_t>(call_.query.heads * *rows));
    output_ = Tensor::packed(0, *rows, call_.query.heads, call_.query.head_dim, file_.dtype);
    Status status = upload(result_.output.bits, output_.address);
    if (status.ok()) status = upload(result_.lse, lse_);
    if (status.ok()) status = prepare(Pass::forward);
    if (!status.ok()) return status;
    {
      const Progress progress(command_, fmt::format("running on {}", device_.name()));
      status = forward(device_, call_, output_, lse_, *workspace);
      if (status.ok()) status = jfa::status(device_, *workspace);
    }
    if (status.ok()) status = download(result_.output.bits, output_.address);
    if (status.ok()) status = download(result_.lse, lse_);
    return status;
  }

  Status run_backward() {
    Tensor output_grad;
    std::uint64_t lse_grad = 0;
    Status status = upload(*file_.output_grad, output_grad);
    if (status.ok() && file_.lse_grad) {
      if (file_.lse_grad->shape != std::vector<std::int64_t>{output_.heads, output_.rows}) {
        return Status::invalid_argument(fmt::format("lse_grad is {}, but the LSE is [{}, {}]",
                                                    safetensors::describe(*file_.lse_grad), output_.heads,
                                                    output_.rows));
      }
      status = upload(file_.lse_grad->data.data(), file_.lse_grad->data.size(), lse_grad);
    }
    if (!status.ok()) return status;
    const OutputGradient incoming = OutputGradient::of(output_grad);
    const Result<Workspace> workspace = allocate_workspace(backward_workspace_bytes(call_, incoming));
    if (!workspace) return workspace.status();
    Tensor gradients[3];
    const struct {
      const Tensor& of;
      TensorBits& result;
    } wanted[] = {
        {call_.query, result_.query_grad}, {call_.key, result_.key_grad}, {call_.value, result_.value_grad}};
    for (std::size_t i = 0; i < std::size(gradients); ++i) {
      gradients[i] = wanted[i].of;
      wanted[i].result = zeros(wanted[i].of.rows, wanted[i].of.heads, wanted[i].of.head_dim);
      status = upload(wanted[i].result.bits, gradients[i].address);
      if (!status.ok()) return status;
    }
    status = prepare(Pass::backward);
    if (!status.ok()) return status;
    {
      const Progress progress(command_, fmt::format("running the backward on {}", device_.name()));
      status = backward(device_, call_, output_, lse_, incoming, lse_grad, gradients[0], gradients[1],
                        gradients[2], *workspace);
      if (status.ok()) status = jfa::status(device_, *workspace);
    }
    for (std::size_t i = 0; i < std::size(gradients) && status.ok(); ++i)
      status = download(wanted[i].result.bits, gradients[i].address);
    return status;
  }

  Device& device_;
  const AttentionFile& file_;
  const RunRequest& request_;
  std::string_view command_;
  std::vector<DeviceBuffer> buffers_;
  AttentionCall call_;
  Tensor output_;
  std::uint64_t lse_ = 0;
  RunResult result_;
};

}  // namespace

Result<RunResult> run_on_device(Device& device, const AttentionFile& file, const RunRequest& request,
                                std::string_view command) {
  try {
    return DeviceRun(device, file, request, command).run();
  } catch (const std::bad_alloc&) {
    return no_memory(file, output_rows_of(file, request).value());
  }
}

}  // namespace jfa::tools
