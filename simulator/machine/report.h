// What went wrong in a simulated kernel: where, who, and in words.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace jfa::simulator {

class Cta;
struct Instruction;

enum class ErrorKind {
  kUnknownInstruction,
  kMalformedPtx,
  kOutOfBounds,
  kUseAfterFree,
  kMisaligned,
  kUninitialised,  // shared or tensor memory read before anything was written there
  kInFlight,       // bytes of an asynchronous operation touched before its completion was observed
  kRace,           // nothing orders two accesses of the same bytes, one of them a write
  kMissingFence,   // ordered, but without the proxy or tcgen05 fence
  kBarrier,        // mbarrier or bar misuse
  kTransaction,    // mbarrier transaction count
  kTensorMemory,   // allocation, lifetime, lane quarter
  kDescriptor,     // tensor map, matrix or instruction descriptor
  kDivergence,     // .aligned executed by a part of a warp
  kDeadlock,
  kLivelock,  // instruction budget spent
  kTrap,
  kLaunch,          // grid, block, shared memory or parameters do not fit the entry
  kInvalidOperand,  // a value the instruction does not allow
};

const char* to_string(ErrorKind kind);

/// A point in a running kernel. Cheap to copy; text is made only when a report needs it.
struct ProgramPoint {
  const Instruction* instruction = nullptr;
  const Cta* cta = nullptr;
  int warp = -1;  // index in the CTA
  int lane = -1;  // -1: the whole warp

  /// "mbarrier.try_wait… (PTX line 120, kernel.cu:57 `wait(full)`) by CTA (1,0,0) warp 3 lane 0".
  std::string describe() const;
};

struct Report {
  ErrorKind kind = ErrorKind::kTrap;
  std::string message;      // one line
  std::string detail;       // more lines: the other program point, who waits for what
  std::string instruction;  // the PTX statement
  int ptx_line = 0;         // 0: unknown
  std::string source_file;  // through .loc; empty: unknown
  int source_line = 0;
  std::string source_text;  // the line itself, if the kernel's source is known
  std::string entry;
  int cta[3] = {-1, -1, -1};
  int warp = -1;
  int lane = -1;
  bool has_address = false;
  std::uint64_t address = 0;

  /// The whole report for a person, several lines.
  std::string text() const;
};

/// Thrown by anything that finds a defect in the kernel; ends the launch, which returns the report.
class SimulationError : public std::runtime_error {
 public:
  explicit SimulationError(Report report) : std::runtime_error(report.message), report_(std::move(report)) {}
  const Report& report() const { return report_; }
  Report& report() { return report_; }

 private:
  Report report_;
};

/// Throws a SimulationError about `point`.
[[noreturn]] void fail(ErrorKind kind, const ProgramPoint& point, std::string message,
                       std::string detail = {});
/// The same, about a byte address.
[[noreturn]] void fail_at(ErrorKind kind, const ProgramPoint& point, std::uint64_t address,
                          std::string message, std::string detail = {});

}  // namespace jfa::simulator
