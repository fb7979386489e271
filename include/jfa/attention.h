// Jagged flash attention: the public C++ API. Needs no CUDA header.
//
// A batch holds `batch` sequences, packed without padding. Sequence b owns query rows
// [query_offset[b], query_offset[b+1]) and key/value rows [key_offset[b], key_offset[b+1]); its queries
// attend to its keys only. A query row that sees no key gets output 0 and LSE -inf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/status.h"
#include "jfa/tuning.h"

namespace jfa {

enum class DType : std::uint8_t { bf16, fp16 };
enum class OffsetType : std::uint8_t { int32, int64 };
enum class Pass : std::uint8_t { forward, backward };
/// Where the queries of a sequence stand beside its keys.
enum class Alignment : std::uint8_t {
  top_left,      ///< query i at key i
  bottom_right,  ///< query i at key i + keys - queries: the last query at the last key
};

/// A device tensor [rows, heads, head_dim] whose innermost stride is 1.
/// address: 16-byte aligned device address. Strides are in elements and multiples of 8 (16 bytes), in any
/// order; inputs may have stride 0. Strides of dimensions of extent 1 are ignored. rows < 2^30.
struct Tensor {
  std::uint64_t address = 0;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
  DType dtype = DType::bf16;

  /// A tensor packed as [rows, heads, head_dim].
  static Tensor packed(std::uint64_t address, std::int64_t rows, std::int64_t heads, std::int64_t head_dim,
                       DType dtype) {
    return {address, rows, heads, head_dim, heads * head_dim, head_dim, dtype};
  }
};

/// Where the sequences' rows begin, and behind them where the last one's end: `count` = batch + 1 device
/// integers that never decrease, from 0 up to the tensor's rows. Rows before the first offset and behind the
/// last belong to no sequence, so a piece of a longer batch's offsets, on the same tensors, is a batch.
struct Offsets {
  std::uint64_t address = 0;
  std::int64_t count = 0;
  OffsetType type = OffsetType::int32;
};

/// Which keys a query sees: with the key that it stands at, `left` keys before that and `right` behind it,
/// both inclusive; nullopt: all of that side. Query i stands at key i of its sequence, both counted from 0,
/// or with bottom_right at key i + keys - queries. A query for which all that lies outside its sequence sees
/// no key.
struct Window {
  std::optional<std::int64_t> left;
  std::optional<std::int64_t> right;
  Alignment alignment = Alignment::top_left;

  constexpr Window() = default;
  /// Keeps the pairs with |i - j| <= both. 0 is the diagonal.
  constexpr Window(std::int64_t both)  // NOLINT(google-explicit-constructor)
      : left(both), right(both) {}
  constexpr Window(std::optional<std::int64_t> left, std::optional<std::int64_t> right,
                   Alignment alignment = Alignment::top_left)
      : left(left), right(right), alignment(alignment) {}
  /// Every query sees the key that it stands at and those before it.
  static constexpr Window causal(Alignment alignment = Alignment::top_left) {
    return {std::nullopt, 0, alignment};
  }

  bool operator==(const Window&) const = default;
};

/// One attention, as the user has it. Nothing here is read on the host beyond these fields: lengths live in
/// the offsets on the device, so a captured graph may be replayed with other lengths.
/// A query row that sees no key and a key that no query sees take no part, whatever they hold. NaN or Inf in
/// a row that does may, through a window, reach results of its sequence and heads that do not see it, less
/// than 256 rows away from those that do; an output that is NaN for it is such a row of the backward's. scale
/// * query . key must be below 2^127 in magnitude.
struct AttentionCall {
  Tensor query;          ///< [total_q, Hq, D]; with broadcast_q the one shared sequence [q_len, Hq, D]
  Tensor key;            ///< [total_kv, Hkv, D]; Hq must be a multiple of Hkv
  Tensor value;          ///< [total_kv, Hkv, D]
  Offsets query_offset;  ///< [batch+1]; ignored with broadcast_q
  Offsets key_offset;    ///< [batch+1]
  /// First output row of every sequence, [batch+1]. A sequence has as many output rows as query rows; the
  /// next offset lies behind them. Default: query_offset, or b * q_len with broadcast_q.
  std::optional<Offsets> output_offset;
  /// Which pairs are kept, nullopt: all. A number W keeps those with |i - j| <= W. bottom_right is not to be
  /// had with broadcast_q.
  std::optional<Window> window;
  bool broadcast_q = false;     ///< PMA: every sequence's keys are read by the same query rows
  std::optional<double> scale;  ///< any finite number; default 1 / sqrt(D)
  bool deterministic = false;   ///< the same bits on every run on one GPU model (always so, so far)
  /// Values of knobs of the kernel (docs/tuning.md); read during the call. nullptr: what the device's tuning
  /// database has for such calls, or else the defaults. An empty tuning: the defaults, whatever it has. The
  /// same tuning gives the same bits; another one may round differently.
  const Tuning* tuning = nullptr;
};

/// What a kernel is specialised for; precompilation needs no tensors.
struct Configuration {
  Pass pass = Pass::forward;
  DType dtype = DType::bf16;
  std::int64_t head_dim = 128;  ///< a multiple of 8, 8 … 128
  std::optional<Window> window;
  bool broadcast_q = false;
  std::int64_t groups = 1;  ///< query heads per key/value head, >= 1
  /// sm_100f, sm_100a, sm_103a, sm_90a; PTX alone, for simulated devices: compute_100f, compute_90a
  std::string target = "sm_100f";
  /// As AttentionCall::tuning; nullptr: every tuning that the database has for the configuration, and the
  /// defaults, so that no later call of it meets a kernel that is not loaded.
  const Tuning* tuning = nullptr;
};

/// Device memory the call may scribble on, overlapping nothing. address: 256-byte aligned; 0 = take it from
/// the library's own stream-ordered pool.
struct Workspace {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// A CUstream; nullptr is the device's default stream.
using Stream = void*;

/// A GPU ("cuda:0") or a simulated one ("sim:sm_100a", "sim:sm_100a?sms=4"). A cheap handle: copies share the
/// device. All members may be called from any thread.
class Device {
 public:
  static Result<Device> open(std::string_view name);

  const std::string& name() const;    ///< as given to open()
  const std::string& target() const;  ///< that its kernels are built for: "sm_100f", "compute_100f"
  bool simulated() const;

  /// Has calls without a tuning take the one that a database (docs/tuning.md), a directory or an exported
  /// file, has for calls of nearly their size: batch, totals and heads, nothing that is on the device. What
  /// is damaged in it is left out with a warning. In place of the environment's JFA_TUNING_DB. kUnavailable:
  /// it cannot be read. kInvalidArgument: the device has loaded kernels already.
  Status use_tuning_database(const std::string& path);

  /// 256-byte aligned device memory.
  Result<std::uint64_t> allocate(std::uint64_t bytes);
  Status free(std::uint64_t address);
  Status upload(std::uint64_t destination, const void* source, std::uint64_t bytes);
  Status download(void* destination, std::uint64_t source, std::uint64_t bytes);
  Status fill(std::uint64_t destination, std::uint8_t byte, std::uint64_t bytes);
  /// Waits for the stream's work and returns the first error it met. kInvalidArgument with name, index and
  /// value if a forward() or backward() on the stream has found a bad offset since the last time that was
  /// told; that call computed nothing.
  Status synchronize(Stream stream = nullptr);

  struct Impl;
  Impl& impl() const { return *impl_; }
  explicit Device(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

/// Enqueues the attention of `call` on `stream`.
/// output: [output rows, Hq, D], the query's dtype; rows that no sequence owns stay untouched. It overlaps
/// neither itself nor anything else that the call uses; without broadcast_q and output_offset it may be the
/// query itself, with the same address and strides.
/// lse: device address of fp32 [Hq, output rows], natural logarithm, overlapping nothing; 0 if not wanted.
/// Errors: kInvalidArgument names the argument and its value, before anything is launched. Bad offsets are
/// found on the device, where such a call computes nothing: Device::synchronize(stream) tells it, or the next
/// forward() or backward() on the stream, which then does nothing but return kInvalidArgument with name,
/// index and value of the first bad offset; both tell it once. A call that the host can see has nothing to
/// compute (no batch, rows or heads) does not look at its offsets. JFA_CHECK_OFFSETS=1 has every call wait
/// for its stream and tell its own. Of a call that is captured into a graph, and on a device that does not
/// map host memory, only status() tells; a process's streams beyond the first 4096 of a device tell for one
/// another.
Status forward(Device& device, const AttentionCall& call, const Tensor& output, std::uint64_t lse,
               Workspace workspace = {}, Stream stream = nullptr);

/// Bytes of workspace that forward() needs for `call`. Output rows: total_q, or batch * q_len.
Result<std::uint64_t> workspace_bytes(const AttentionCall& call);

/// The gradient that flows into an attention's output: [rows, heads, head_dim] like the output, but with any
/// strides, in elements, also 0 or negative (an expanded scalar, a transposed view), and any base that is a
/// multiple of 2 bytes. Unless its innermost stride is 1, its base 16-byte aligned and its other strides
/// multiples of 8, a packed copy is made in the workspace.
struct OutputGradient {
  std::uint64_t address = 0;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t dim_stride = 1;
  DType dtype = DType::bf16;

  /// One laid out like a Tensor.
  static OutputGradient of(const Tensor& tensor) {
    return {tensor.address,     tensor.rows, tensor.heads, tensor.head_dim, tensor.row_stride,
            tensor.head_stride, 1,           tensor.dtype};
  }
};

/// Enqueues the gradients of the attention of `call` on `stream`; the same bits on every run.
/// Probabilities are made of the LSE. Beside roundings to 16 bits, their relative error is at most e^x - 1
/// with x = 5 * 2^-24 * max(|score|, |LSE|); beyond |LSE| = 1.2e7 all that holds is that none passes 1.
/// output, lse: what forward() gave for the same call. lse: fp32 [Hq, output rows].
/// output_grad: [output rows, Hq, D]. lse_grad: fp32 [Hq, output rows], or 0 if the LSE has no gradient.
/// query_grad, key_grad, value_grad: like query, key and value, overlapping nothing (views into one buffer
/// may lie between one another). Every row is written: rows that no sequence owns, query rows without a key
/// and keys that no query sees get 0. With broadcast_q, query_grad is the sum over the batch. Errors: as
/// forward().
Status backward(Device& device, const AttentionCall& call, const Tensor& output, std::uint64_t lse,
                const OutputGradient& output_grad, std::uint64_t lse_grad, const Tensor& query_grad,
                const Tensor& key_grad, const Tensor& value_grad, Workspace workspace = {},
                Stream stream = nullptr);

/// Bytes of workspace that backward() needs for `call` and an output gradient of that shape and layout.
Result<std::uint64_t> backward_workspace_bytes(const AttentionCall& call, const OutputGradient& output_grad);

/// Reads what the kernels of the last call wrote into its workspace, after synchronising `stream`:
/// kInvalidArgument with offset name, index and value if an offset was bad (nothing was computed then), which
/// synchronize() and the next call then do not tell again. workspace: the one that the caller gave to
/// forward() or backward(). The only one to tell what the replay of a captured call found.
Status status(Device& device, Workspace workspace, Stream stream = nullptr);

/// Whether a kernel exists for the configuration; the error names the field and its value.
Status supported(const Configuration& configuration);

/// Every head_dim that supported() accepts.
std::vector<std::int64_t> supported_head_dims();

/// Compiles and loads the kernel ahead of the first call, which a call inside a stream capture depends on.
/// The device's own target takes the place of configuration.target.
Status prepare(Device& device, const Configuration& configuration);

}  // namespace jfa
