// What tests of races in global memory share: kernels in which CTAs hand each other something.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/simulator/one_op.h"

namespace jfa::simulator::test {

inline const std::string kPrologue = R"(
  .shared .align 16 .b8 cells[256];
  .shared .align 8 .b64 bar;
  .shared .b32 last;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %nctaid.x;
  setp.eq.u32 %p0, %r0, 0;  // the first thread of each CTA
  setp.eq.u32 %p1, %r1, 0;  // CTA 0
)";
inline const std::string kNothingOrders = "nothing orders the two",
                         kNoFence = "without fence.proxy.async behind it";

/// A kernel's body and what is wrong with it.
struct GlobalRaceCase {
  std::string name;
  std::string body;
  std::string report;  // a part of it; empty: silent
};

/// Runs each case with 16 KiB of output, on schedules of every kind, and fails the test where it is silent
/// and should not be, or the other way round.
inline void check_global_races(const std::vector<GlobalRaceCase>& cases, const RunShape& shape) {
  for (const GlobalRaceCase& c : cases)
    for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kRandom, Schedule::kReverse,
                                    Schedule::kStarve, Schedule::kLate}) {
      RunShape run = shape;
      run.options.schedule = schedule;
      run.options.seed = 5;
      const Run result = run_kernel(kernel_text(kPrologue + c.body + "\nret;"), 4096, run);
      CAPTURE(c.name);
      CAPTURE(std::string(to_string(schedule)));
      CAPTURE(result.failure());
      CHECK(result.result.ok == c.report.empty());
      if (c.report.empty()) continue;
      CHECK((result.result.report.kind == ErrorKind::kRace ||
             result.result.report.kind == ErrorKind::kMissingFence));
      CHECK(result.result.report.text().find(c.report) != std::string::npos);
    }
}

inline const RunShape kTwoCtas{.grid = {2, 1, 1}, .block = {32, 1, 1}};

/// CTA 0 writes and sets a flag, CTA 1 waits for it and reads.
inline std::string hand_over(const std::string& set, const std::string& poll, const std::string& behind = {},
                             const std::string& write = "st.global.u32 [%out+64], 7;\n",
                             const std::string& read = "ld.global.u32 %r7, [%out+64];\n") {
  return "@!%p0 bra END;\n@!%p1 bra READ;\n" + write + set + "\nbra END;\nREAD:\nSPIN: " + poll +
         "\nsetp.eq.u32 %p2, %r6, 0;\n@%p2 bra SPIN;\n" + behind + read + "END:\n";
}
inline const std::string kAcquire = "ld.acquire.gpu.global.u32 %r6, [%out];";
inline const std::string kRelaxedLoad = "ld.relaxed.gpu.global.u32 %r6, [%out];";
inline const std::string kRelease = "st.release.gpu.global.u32 [%out], 1;";
inline const std::string kRelaxedStore = "st.relaxed.gpu.global.u32 [%out], 1;";
inline const std::string kFence = "fence.acq_rel.gpu;\n";

}  // namespace jfa::simulator::test
