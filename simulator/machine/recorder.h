// What the warps of a run did, in order: every instruction, and of those that synchronise or start work
// beside the warps what it was about. The timing model plays machine code along it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "simulator/machine/machine.h"

namespace jfa::simulator::timing {

/// Something that is waited for: one phase of an mbarrier, one round of a named barrier or of a cluster's.
struct PhaseKey {
  std::uint32_t cta = 0;     // linear index in the grid; of a cluster's barrier: its first CTA
  std::uint32_t object = 0;  // offset in shared memory, or one of the following
  std::uint64_t number = 0;
  static constexpr std::uint32_t kNamedBarrier = 0x8000'0000, kClusterBarrier = 0xc000'0000;

  auto operator<=>(const PhaseKey&) const = default;
};

/// What one instruction was about; it may be several of these.
struct Detail {
  enum class Kind : std::uint8_t {
    arrive,       // at a phase; of tcgen05.commit: once the thread's products are done
    wait,         // for a phase that was complete then
    transaction,  // a copy into shared memory, whose bytes the phase gets
    store,        // a copy out of shared memory
    product,
    access,  // of shared memory, by the lanes
  };
  std::uint32_t at = 0;  // index into the warp's instructions
  Kind kind = Kind::arrive;
  bool first_touch = false;  // transaction: nobody in the grid has read these bytes before
  bool remote = false;       // access: of another CTA's shared memory
  PhaseKey phase;
  std::uint32_t bytes = 0;  // of an access: what its rounds over the banks could have moved
  // product
  std::uint16_t m = 0, n = 0;
  std::uint8_t cta_group = 1;
  bool a_in_tensor_memory = false;
};

struct RecordedWarp {
  std::vector<std::uint32_t> instructions;  // indices into Entry::code
  std::vector<std::uint8_t> lanes;          // that took part
  std::vector<Detail> details;              // by `at`
};

struct RecordedCta {
  std::uint32_t index = 0;  // linear, in the grid
  std::uint32_t rank = 0;   // in its cluster
  int sm = 0;
  std::vector<RecordedWarp> warps;
};

/// Of one grid: the CTAs below a limit. The schedule has to be eager.
class Recorder {
 public:
  /// Details are kept of CTAs whose linear index is below `ctas`.
  explicit Recorder(std::uint32_t ctas) : most_ctas_(ctas) {}

  /// What was recorded, by linear index.
  std::map<std::uint32_t, RecordedCta> take() { return std::exchange(ctas_, {}); }

  // --- For the machine.
  void begin(const Warp& warp, std::uint32_t pc, LaneMask active);
  /// The instruction that began last in this warp did nothing: it runs again.
  void take_back(const Warp& warp);
  void arrived(const ProgramPoint& point, const Cta& owner, std::uint32_t object, std::uint64_t number);
  void waited(const ProgramPoint& point, const Cta& owner, std::uint32_t object, std::uint64_t number);
  void copies_in(const ProgramPoint& point, const Cta& owner, std::uint32_t object, std::uint64_t number,
                 std::uint32_t bytes);
  void copies_out(const ProgramPoint& point, std::uint32_t bytes);
  /// The copy that `point` is about to start reads these bytes of global memory.
  void reads_global(const ProgramPoint& point, std::uint64_t place);
  void accesses_shared(const ProgramPoint& point, LaneMask active,
                       const std::uint64_t (&addresses)[kWarpSize], std::uint32_t bytes, bool cluster);
  void multiplies(const ProgramPoint& point, Detail product);

 private:
  RecordedWarp* find(const Cta* cta, int warp);
  void add(const ProgramPoint& point, Detail detail);

  std::uint32_t most_ctas_;
  std::map<std::uint32_t, RecordedCta> ctas_;
  std::set<std::uint64_t> touched_;
  bool first_touch_ = false;  // of the copy that is being started
};

/// Linear index of a CTA in its grid.
std::uint32_t linear_index(const Cta& cta);

}  // namespace jfa::simulator::timing
