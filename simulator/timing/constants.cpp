#include "simulator/timing/constants.h"

#include <fmt/format.h>

#include <cstdint>

#include "simulator/timing/tensor_pipe.h"

namespace jfa::simulator::timing {
namespace {

using C = Constants;
using enum Origin;

// Sources: "ptxas": stall counts between instructions of one kind in the compiler's own schedules; "umma":
// the 264 latencies and 264 throughputs of tcgen05.mma in SemiAnalysisAI/microbench-blackwell (17c0d5d);
// "FA4": the paper and notes of FlashAttention-4; "Hopper": what was measured on an H200, taken for
// Blackwell.
constexpr ConstantRow kConstantRows[] = {
    {"mufu_latency", &C::mufu_latency, 18, 20, 40, guessed,
     "Hopper 18 to 24; ptxas leaves it to a scoreboard"},
    {"fixed_latency", &C::fixed_latency, 4, 4, 4, machine_code, "ptxas; of what takes no scoreboard"},
    {"uniform_latency", &C::uniform_latency, 13, 20, 25, guessed, "ptxas: 13 from R2UR to its use"},
    {"vote_latency", &C::vote_latency, 10, 15, 25, guessed, "votes, shuffles and warp reductions"},
    {"shared_latency", &C::shared_latency, 24, 29, 33, measured, "Hopper: 29 to the first use"},
    {"remote_latency", &C::remote_latency, 150, 200, 250, measured,
     "beyond it, of another CTA of the cluster"},
    {"global_latency", &C::global_latency, 300, 600, 800, guessed, "a thread's load from L2 or HBM"},
    {"constant_latency", &C::constant_latency, 20, 25, 40, guessed, "LDC, LDCU"},
    {"branch_cycles", &C::branch_cycles, 0, 0, 5, guessed, "beyond the stall count of a taken branch"},
    {"mbarrier_try_latency", &C::mbarrier_try_latency, 20, 30, 40, measured,
     "a wait whose phase is complete"},
    {"mbarrier_arrive_latency", &C::mbarrier_arrive_latency, 15, 20, 30, measured, "until the count is down"},
    {"mbarrier_wake_latency", &C::mbarrier_wake_latency, 10, 40, 62, measured,
     "beyond the arrival; together 30 to 92 from arrive to a thread that waits"},
    {"barrier_latency", &C::barrier_latency, 15, 20, 30, measured, "bar.sync behind its last warp"},
    {"fence_latency", &C::fence_latency, 10, 20, 40, guessed, "proxy fences, MEMBAR of the CTA"},
    {"tensor_load_latency", &C::tensor_load_latency, 30, 60, 100, guessed, "tcgen05.ld beyond its transfer"},
    {"tensor_store_latency", &C::tensor_store_latency, 20, 30, 50, guessed, "tcgen05.st until wait::st"},
    {"tensor_memory_bytes", &C::tensor_memory_bytes, 64, 64, 64, measured, "a cycle and SM quarter"},
    {"product_issue", &C::product_issue, 4, 11, 12, measured, "between two tcgen05.mma of a thread"},
    {"product_to_pipe", &C::product_to_pipe, 0, 0, 0, measured, "umma: the latency has it"},
    {"commit_latency", &C::commit_latency, 0, 0, 10, measured, "umma: the latency has it"},
    {"pair_commit_extra", &C::pair_commit_extra, 0, 32, 60, guessed,
     "the arrival at the other CTA of a pair"},
    {"shared_bytes", &C::shared_bytes, 128, 128, 128, measured, "a cycle and SM; FA4, umma"},
    {"copy_issue", &C::copy_issue, 20, 30, 40, measured, "between two copies of the TMA"},
    {"copy_latency", &C::copy_latency, 400, 460, 700, measured,
     "a copy out of L2 until its first bytes are there"},
    {"copy_bytes", &C::copy_bytes, 128, 64, 40, guessed, "a cycle and SM out of L2"},
    {"hbm_latency", &C::hbm_latency, 600, 800, 1200, measured, "the same out of HBM"},
    {"hbm_bytes", &C::hbm_bytes, 29.2, 26.2, 24, measured,
     "a cycle and SM when all 148 read: 8 TB/s by the data sheet, 7.2 reached"},
    {"store_latency", &C::store_latency, 300, 500, 800, guessed,
     "a copy to global memory until it is complete"},
    {"clock_ghz", &C::clock_ghz, 1.965, 1.856, 1.6, measured,
     "2.25 PFLOP/s of bf16 are 1.856; power may take it to 1.6"},
};

}  // namespace

std::string_view to_string(ConstantSet set) {
  return set == ConstantSet::low ? "low" : set == ConstantSet::nominal ? "nominal" : "high";
}

std::string_view to_string(Origin origin) {
  return origin == machine_code ? "machine code" : origin == measured ? "measured" : "guessed";
}

std::span<const ConstantRow> constant_rows() { return kConstantRows; }

Constants constants(ConstantSet set) {
  Constants result;
  for (const ConstantRow& row : kConstantRows)
    result.*row.member = set == ConstantSet::low       ? row.low
                         : set == ConstantSet::nominal ? row.nominal
                                                       : row.high;
  return result;
}

std::string constants_hash() {
  std::string text;
  for (const ConstantRow& row : kConstantRows)
    text += fmt::format("{} {} {} {}\n", row.name, row.low, row.nominal, row.high);
  text += product_laws_text();
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619u;
  return fmt::format("{:08x}", hash);
}

}  // namespace jfa::simulator::timing
