// The constants of the timing model: one table, with where each is from and how far it may be off.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace jfa::simulator::timing {

/// Cycles are SM clocks, rates are bytes a cycle and SM.
struct Constants {
  // Threads.
  double mufu_latency = 0, fixed_latency = 0, uniform_latency = 0, vote_latency = 0;
  double shared_latency = 0, remote_latency = 0, global_latency = 0, constant_latency = 0, branch_cycles = 0;
  // mbarriers, named barriers, fences.
  double mbarrier_try_latency = 0, mbarrier_arrive_latency = 0, mbarrier_wake_latency = 0;
  double barrier_latency = 0, fence_latency = 0;
  // Tensor memory.
  double tensor_load_latency = 0, tensor_store_latency = 0, tensor_memory_bytes = 0;
  // Tensor core.
  double product_issue = 0, product_to_pipe = 0, commit_latency = 0, pair_commit_extra = 0;
  // Memory.
  double shared_bytes = 0, copy_issue = 0, copy_latency = 0, copy_bytes = 0, hbm_latency = 0, hbm_bytes = 0;
  double store_latency = 0;
  double clock_ghz = 0;
};

/// How sure a constant is.
enum class Origin : unsigned char {
  machine_code,  // the compiler's own schedules say it
  measured,      // on a B200, published
  guessed,       // nobody has measured it; the range says how far it may be off
};

struct ConstantRow {
  std::string_view name;
  double Constants::*member;
  double low, nominal, high;  // low: the one that makes programs fast
  Origin origin;
  std::string_view source;
};

enum class ConstantSet : unsigned char { low, nominal, high };
inline constexpr ConstantSet kConstantSets[] = {ConstantSet::low, ConstantSet::nominal, ConstantSet::high};
std::string_view to_string(ConstantSet set);
std::string_view to_string(Origin origin);

std::span<const ConstantRow> constant_rows();
Constants constants(ConstantSet set);
/// Of all names and values, and of the laws of the tensor pipe: 8 hexadecimal digits. Frozen: docs/timing.md
/// says it beside the errors that were found with it.
std::string constants_hash();

}  // namespace jfa::simulator::timing
