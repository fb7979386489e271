// What tests of races in shared memory share: threads 0 to 63, or more, around some zeroed words.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/simulator/one_op.h"

namespace jfa::simulator::test {

inline const std::string kShared = R"(
  .shared .align 16 .b8 cells[1024];
  .shared .align 8 .b64 bar, other;
  mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; shr.u32 %r2, %r0, 5;
  setp.eq.u32 %p0, %r0, 0;      // thread 0
  setp.eq.u32 %p1, %r2, 1;      // warp 1
  setp.eq.u32 %p2, %r1, 0;      // lane 0
  setp.eq.u32 %p3, %r0, 32;     // thread 32
  shl.b32 %r3, %r0, 2;
  mov.u32 %r4, cells; add.u32 %r5, %r4, %r3;
  st.shared.u32 [%r5], 0;
  bar.sync 0;
)";
inline const std::string kBarrier =
    "@%p0 mbarrier.init.shared.b64 [bar], 1;\n@%p0 mbarrier.init.shared.b64 [other], 32;\nbar.sync 0;\n";
inline const std::string kWait =
    "WAIT: mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;\n@!%p7 bra WAIT;\n";

/// A kernel's body and what is wrong with it.
struct SharedRaceCase {
  std::string name;
  std::string body;
  std::string report;  // a part of it; empty: silent
  ErrorKind kind = ErrorKind::kRace;
};

/// Runs each case behind kShared, on three schedules, and fails the test where it is silent and should not
/// be, or the other way round.
inline void check_shared_races(const std::vector<SharedRaceCase>& cases,
                               const RunShape& shape = {.block = {64, 1, 1}}) {
  for (const SharedRaceCase& c : cases)
    for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kRandom}) {
      RunShape run = shape;
      run.options.schedule = schedule;
      run.options.seed = 3;
      const Run result = run_kernel(kernel_text(kShared + c.body + "\nret;"), 64, run);
      CAPTURE(c.name);
      CAPTURE(std::string(to_string(schedule)));
      CAPTURE(result.failure());
      CHECK(result.result.ok == c.report.empty());
      if (c.report.empty()) continue;
      CHECK(result.result.report.kind == c.kind);
      CHECK(result.result.report.text().find(c.report) != std::string::npos);
    }
}

}  // namespace jfa::simulator::test
