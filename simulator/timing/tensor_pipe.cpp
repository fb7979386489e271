#include "simulator/timing/tensor_pipe.h"

#include <fmt/format.h>

#include <algorithm>

namespace jfa::simulator::timing {
namespace {

// Bytes of a row of an operand.
constexpr double kRowBytes = 32;

// Cycles from the end of a product's arithmetic until its commit has arrived, of kinds f16, tf32, f8f6f4.
struct Tails {
  double shared_64 = 120;        // A of 64 rows out of shared memory
  double shared_128 = 136;       // of 128 rows
  double tensor = 104;           // A out of tensor memory
  double pair_shared_128 = 144;  // pairs, by M
  double pair_shared_256 = 165;
  double pair_tensor_128 = 141;
  double pair_tensor_256 = 133;
};
constexpr Tails kTails;
// A pair of M = 128 out of shared memory also waits for n / 8 cycles of B, up to so many.
constexpr double kMostPairWait = 16;
// What the other kinds take more, alone and in pairs.
constexpr double kIntegerExtra = -1, kPairIntegerExtra = -3;
constexpr double kScaledExtra = 1, kPairScaledExtra = 3;
// Scaled kinds with A out of tensor memory take so much more instead.
constexpr double kScaledTensorExtra = 3;
// A's bytes count for more where two CTAs read for one product.
constexpr double kPairShare = 1.1;
constexpr double kLeastInterval = 17;

double tail(const ProductShape& shape) {
  const bool large = shape.m > (shape.cta_group == 1 ? 64 : 128);
  if (shape.cta_group == 1)
    return shape.a_in_tensor_memory ? kTails.tensor : large ? kTails.shared_128 : kTails.shared_64;
  if (shape.a_in_tensor_memory) return large ? kTails.pair_tensor_256 : kTails.pair_tensor_128;
  return large ? kTails.pair_shared_256 : kTails.pair_shared_128;
}

double extra(const ProductShape& shape) {
  const bool pair = shape.cta_group == 2;
  switch (shape.kind) {
    case ProductShape::Kind::integer:
      return pair ? kPairIntegerExtra : kIntegerExtra;
    case ProductShape::Kind::scaled:
      return pair ? kPairScaledExtra : shape.a_in_tensor_memory ? kScaledTensorExtra : kScaledExtra;
    case ProductShape::Kind::floating:
      break;
  }
  return 0;
}

}  // namespace

ProductTime product_time(const ProductShape& shape, double shared_bytes) {
  const bool pair = shape.cta_group == 2;
  const bool half = pair && shape.m <= 128;  // each CTA has 64 rows
  const double rows = static_cast<double>(shape.m) / shape.cta_group;
  const double columns = static_cast<double>(shape.n) / shape.cta_group;
  const double arithmetic = shape.n / (half ? 4.0 : 2.0);
  const double a_bytes = shape.a_in_tensor_memory ? 0 : rows * kRowBytes;
  const double b_bytes = columns * kRowBytes;
  const double reading = ((pair ? kPairShare : 1.0) * a_bytes + b_bytes) / shared_bytes;
  ProductTime time;
  time.shared_bytes = a_bytes + b_bytes;
  time.interval = std::max({arithmetic, reading, kLeastInterval});
  const double wait = half && !shape.a_in_tensor_memory ? std::min(shape.n / 8.0, kMostPairWait) : 0;
  time.latency = arithmetic + wait + tail(shape) + extra(shape);
  return time;
}

std::string product_laws_text() {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", kTails.shared_64, kTails.shared_128,
                     kTails.tensor, kTails.pair_shared_128, kTails.pair_shared_256, kTails.pair_tensor_128,
                     kTails.pair_tensor_256, kMostPairWait, kIntegerExtra, kPairIntegerExtra, kScaledExtra,
                     kPairScaledExtra, kScaledTensorExtra, kPairShare, kLeastInterval);
}

}  // namespace jfa::simulator::timing
