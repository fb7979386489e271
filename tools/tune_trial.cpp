#include "tools/tune_trial.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "base/foreign_text.h"
#include "reference/float16.h"

namespace jfa::tools {
namespace {

constexpr std::uint8_t kStale = 0xff;
// Of a tensor that is larger, so many pieces are compared. Bytes of a piece: rows of a few tiles.
constexpr std::uint64_t kWholeBytes = 4ull << 20;
constexpr std::uint64_t kPieceBytes = 64ull << 10;
constexpr std::uint64_t kPieces = kWholeBytes / kPieceBytes;
constexpr std::size_t kPieceElements = kPieceBytes / 2;
// Two results that are both right differ by a few roundings to 16 bits of the weights and of the result.
constexpr double kRoundings = 4;

std::uint64_t tensor_bytes(const Tensor& tensor) {
  return 2 * static_cast<std::uint64_t>(tensor.rows * tensor.heads * tensor.head_dim);
}

constexpr std::pair<std::string_view, Sabotage> kSabotages[] = {
    {"none", Sabotage::kNone},   {"crash", Sabotage::kCrash}, {"hang", Sabotage::kHang},
    {"wrong", Sabotage::kWrong}, {"stale", Sabotage::kStale}, {"slow-compile", Sabotage::kSlowCompile},
};

}  // namespace

Result<Sabotage> parse_sabotage(std::string_view text) {
  for (const auto& [name, sabotage] : kSabotages)
    if (name == text) return sabotage;
  return Status::invalid_argument(fmt::format("sabotage '{}' is none", shown(text)));
}

std::string difference(const std::vector<std::uint16_t>& usual, const std::vector<std::uint16_t>& own,
                       DType dtype) {
  if (usual.size() != own.size()) return fmt::format("{} elements, not {}", own.size(), usual.size());
  double all_squares = 0;
  for (const std::uint16_t bits : usual) {
    const double value = to_float(dtype, bits);
    if (std::isfinite(value)) all_squares += value * value;
  }
  const double mean_square = usual.empty() ? 0 : all_squares / static_cast<double>(usual.size());
  const double allowed = kRoundings * unit_roundoff(dtype);
  for (std::size_t begin = 0; begin < usual.size(); begin += kPieceElements) {
    const std::size_t end = std::min(usual.size(), begin + kPieceElements);
    double squares = 0, errors = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (usual[i] == own[i]) {
        const double value = to_float(dtype, usual[i]);
        if (std::isfinite(value)) squares += value * value;
        continue;
      }
      const double right = to_float(dtype, usual[i]), value = to_float(dtype, own[i]);
      if (!std::isfinite(right) || !std::isfinite(value))
        return fmt::format("element {} of those compared is {}, but {} with the defaults{}", i, value, right,
                           std::isnan(value) ? ": it was not written, or is wrong" : "");
      squares += right * right;
      errors += (value - right) * (value - right);
    }
    // Pieces of next to nothing may be all rounding.
    const double scale = std::max(squares, 0.01 * mean_square * static_cast<double>(end - begin));
    if (errors > allowed * allowed * scale)
      return fmt::format("elements {} to {} of those compared differ by {:.2g} of their norm, above {:.2g}",
                         begin, end - 1, std::sqrt(errors / scale), allowed);
  }
  return {};
}

Result<std::unique_ptr<TuneTrials>> TuneTrials::make(Device& device, const std::vector<BenchShape>& shapes,
                                                     Pass pass) {
  std::unique_ptr<TuneTrials> trials(new TuneTrials(device, pass));
  Result<std::unique_ptr<BenchTimer>> timer = BenchTimer::make(device, 1);
  if (!timer) return timer.status();
  trials->timer_ = std::move(*timer);
  Result<TuneProbe> probe = TuneProbe::make(device, shapes.front(), pass);
  if (!probe) return probe.status();
  trials->probe_ = std::make_unique<TuneProbe>(std::move(*probe));
  const Tuning defaults;
  for (const BenchShape& shape : shapes) {
    BenchProblem problem = draw(shape);
    Result<BenchTensors> tensors = BenchTensors::make(device, problem, pass);
    if (!tensors) return tensors.status();
    auto made = std::make_unique<Shape>(Shape{std::move(problem), std::move(*tensors), {}});
    if (pass == Pass::backward) {
      BenchTensors& of_shape = made->tensors;
      of_shape.call.tuning = &defaults;
      Status status = forward(device, of_shape.call, of_shape.output, of_shape.lse, of_shape.workspace);
      if (status.ok()) status = jfa::status(device, of_shape.workspace);
      of_shape.call.tuning = nullptr;
      if (!status.ok()) return status;
    }
    trials->shapes_.push_back(std::move(made));
  }
  if (Status status = trials->probe_->check(defaults); !status.ok())
    return Status(status.kind(), "the defaults: " + status.message(), status.detail());
  trials->usual_probe_ = trials->probe_->bits();
  for (const auto& shape : trials->shapes_) {
    Result<Sample> usual = trials->run_poisoned(*shape, defaults, Sabotage::kNone);
    if (!usual) return usual.status();
    shape->usual = std::move(*usual);
  }
  return trials;
}

Status TuneTrials::enqueue(const Shape& shape, const Tuning& tuning) {
  const BenchTensors& tensors = shape.tensors;
  AttentionCall call = tensors.call;
  call.tuning = &tuning;
  if (pass_ == Pass::forward)
    return forward(device_, call, tensors.output, tensors.lse, tensors.workspace, timer_->stream());
  return backward(device_, call, tensors.output, tensors.lse, tensors.output_grad, 0, tensors.query_grad,
                  tensors.key_grad, tensors.value_grad, tensors.backward_workspace, timer_->stream());
}

std::vector<const Tensor*> TuneTrials::outputs(const Shape& shape) const {
  const BenchTensors& tensors = shape.tensors;
  if (pass_ == Pass::forward) return {&tensors.output};
  return {&tensors.query_grad, &tensors.key_grad, &tensors.value_grad};
}

Status TuneTrials::poison(const Shape& shape) {
  for (const Tensor* output : outputs(shape)) {
    if (Status status = device_.fill(output->address, kStale, tensor_bytes(*output)); !status.ok())
      return status;
  }
  return {};
}

Result<TuneTrials::Sample> TuneTrials::sample(const Shape& shape, bool wrong) {
  Sample sample;
  for (const Tensor* output : outputs(shape)) {
    const std::uint64_t bytes = tensor_bytes(*output);
    const std::uint64_t pieces = bytes <= kWholeBytes ? 1 : kPieces;
    const std::uint64_t piece_bytes = pieces == 1 ? bytes : kPieceBytes;
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      // From the first bytes to the last ones, whole elements.
      const std::uint64_t from = pieces == 1 ? 0 : (bytes - piece_bytes) / (pieces - 1) * piece / 2 * 2;
      const std::size_t at = sample.size();
      sample.resize(at + piece_bytes / 2);
      Status status = device_.download(sample.data() + at, output->address + from, piece_bytes);
      if (!status.ok()) return status;
    }
  }
  if (wrong && !sample.empty()) sample[sample.size() / 2] ^= 0x4000;  // an exponent's highest bit
  return sample;
}

Result<TuneTrials::Sample> TuneTrials::run_poisoned(const Shape& shape, const Tuning& tuning,
                                                    Sabotage sabotage) {
  Status status = poison(shape);
  if (status.ok() && sabotage != Sabotage::kStale) {
    status = enqueue(shape, tuning);
    const Workspace& workspace =
        pass_ == Pass::forward ? shape.tensors.workspace : shape.tensors.backward_workspace;
    if (status.ok()) status = jfa::status(device_, workspace, timer_->stream());
  }
  if (!status.ok()) return status;
  return sample(shape, sabotage == Sabotage::kWrong);
}

Result<bool> TuneTrials::check(const Tuning& tuning, Sabotage sabotage) {
  if (sabotage == Sabotage::kCrash) (void)raise(SIGSEGV);
  while (sabotage == Sabotage::kHang) pause();
  if (Status status = probe_->check(tuning); !status.ok()) return status;
  bool same_bits = probe_->bits() == usual_probe_;
  for (const auto& shape : shapes_) {
    const Result<Sample> own = run_poisoned(*shape, tuning, sabotage);
    if (!own) return own.status();
    same_bits = same_bits && *own == shape->usual;
    const std::string differs = difference(shape->usual, *own, shape->problem.shape.dtype);
    if (!differs.empty())
      return Status::unavailable(fmt::format("{}: {}", shape->problem.shape.name, differs));
  }
  return same_bits;
}

Result<double> TuneTrials::time_ms(const Tuning& tuning, std::size_t index) {
  std::unique_ptr<GraphReplay>& replay = replays_[{tuning, index}];
  if (!replay) {
    const Shape& shape = *shapes_[index];
    Result<std::unique_ptr<GraphReplay>> made = GraphReplay::capture(
        device_, timer_->stream(), [this, &shape, tuning] { return enqueue(shape, tuning); });
    if (!made) return made.status();
    replay = std::move(*made);
  }
  return timer_->measure_once_ms([&] { return (*replay)(); });
}

Status TuneTrials::confirm(const Tuning& tuning) {
  for (std::size_t index = 0; index < shapes_.size(); ++index) {
    const Shape& shape = *shapes_[index];
    if (Status status = poison(shape); !status.ok()) return status;
    if (const Result<double> ms = time_ms(tuning, index); !ms) return ms.status();
    const Result<Sample> own = sample(shape);
    if (!own) return own.status();
    const std::string differs = difference(shape.usual, *own, shape.problem.shape.dtype);
    if (!differs.empty())
      return Status::unavailable(fmt::format("{}, replayed: {}", shape.problem.shape.name, differs));
  }
  return {};
}

}  // namespace jfa::tools
