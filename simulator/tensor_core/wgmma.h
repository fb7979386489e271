// wgmma: products that a warpgroup, four warps, issues together. Each warp goes on as soon as it has issued
// its quarter; the product runs, beside the warps, once all four have.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "simulator/machine/flight.h"
#include "simulator/machine/machine.h"
#include "simulator/machine/observer.h"
#include "simulator/tensor_core/mma.h"
#include "simulator/tensor_core/register_metadata.h"
#include "simulator/tensor_core/shared_operand.h"

namespace jfa::simulator {

inline constexpr int kWarpgroupWarps = 4;
inline constexpr std::uint32_t kWgmmaM = 64;

/// One wgmma.mma_async instruction as decoded.
struct WgmmaInstruction {
  std::uint32_t n = 8;
  MmaElement a_type = MmaElement::kF16;
  MmaElement b_type = MmaElement::kF16;
  bool saturate = false;  // integers
  MmaAccumulator accumulator = MmaAccumulator::kF32;
  std::vector<Slot> d;  // n / 2 registers of f32 or s32, n / 4 of f16 pairs
  std::vector<Slot> a;  // four registers, or none: A lies in shared memory
  Slot a_descriptor = kNoSlot;
  Slot b_descriptor = kNoSlot;
  std::optional<RegisterMetadata> metadata;  // of a sparse A: each warp's has its 16 rows
  Slot scale_d = kNoSlot;                    // predicate; false: D = A * B
  bool negate_a = false;
  bool negate_b = false;
  MatrixMajor a_major = MatrixMajor::kK;
  MatrixMajor b_major = MatrixMajor::kK;
  RegisterObserver::Indices watched_d, watched_a;  // the registers' indices in RegisterWatch
};

/// One product, from its issue by the first warp until a warp has observed its completion.
struct WgmmaProduct {
  const WgmmaInstruction* instruction = nullptr;
  ProgramPoint point;  // of the first warp
  std::uint64_t sequence = 0;
  std::uint64_t a_descriptor = 0, b_descriptor = 0;
  bool accumulate = false;
  SharedOperand a, b;
  SharedOperand b_second;               // sparse forms: B's second half along k,
  std::vector<std::uint8_t> positions;  // and which k each element of A stands for, row by row
  std::uint32_t issued = 0;             // by these warps of the warpgroup, a bit each
  std::uint64_t group = 0;              // number of the commit group, from 1; 0: not committed
  bool done = false;
  std::vector<FlightRef> flights;  // of operands in shared memory
};

/// The warpgroups of a CTA.
class Warpgroups : public Extension {
 public:
  explicit Warpgroups(Cta& cta);

  /// The warp's quarter of a product. Throws if the operands differ from those of the warpgroup's other
  /// warps, or are not allowed; and what observers throw.
  void issue(Warp& warp, const WgmmaInstruction& instruction, LaneMask active, const ProgramPoint& point);
  /// The warp's products since its last commit become a group.
  void commit(Warp& warp, const ProgramPoint& point);
  /// Whether all but the latest `pending` groups of the warp are complete.
  bool complete(const Warp& warp, std::size_t pending) const;
  /// After that: their registers are the warp's again, and their operands may be overwritten.
  void observe(Warp& warp, std::size_t pending);
  /// What complete() waits for, for reports.
  std::string describe_pending(const Warp& warp, std::size_t pending) const;

  void on_exit() override;

 private:
  using ProductPtr = std::shared_ptr<WgmmaProduct>;
  struct WarpState {
    std::uint64_t issued = 0;  // products
    std::uint64_t commits = 0;
    std::vector<ProductPtr> uncommitted;
    std::deque<std::vector<ProductPtr>> groups;  // not observed, oldest first
  };
  struct Warpgroup {
    std::uint64_t complete_issues = 0;  // products that all four warps have issued
    std::deque<ProductPtr> open;        // the others, in order
    Epoch event;                        // a product's completion: the tick is its sequence number
    std::map<Slot, char> queues;  // products into one accumulator run in order: an address names a queue
  };
  WarpState& state(const Warp& warp) { return warps_[static_cast<std::size_t>(warp.index())]; }
  const WarpState& state(const Warp& warp) const { return warps_[static_cast<std::size_t>(warp.index())]; }
  ProductPtr open_product(Warp& warp, const WgmmaInstruction& instruction, LaneMask active,
                          const ProgramPoint& point);
  void post(int warpgroup, const ProductPtr& product);
  std::string missing_warps(int warpgroup, const WgmmaProduct& product) const;

  Cta& cta_;
  std::vector<WarpState> warps_;
  std::vector<Warpgroup> warpgroups_;
};

/// The handler of instructions that use watched registers: checks, then runs their own.
Step run_watched(Warp& warp, const Instruction& instruction, LaneMask active);

}  // namespace jfa::simulator
