// Kernels around tensor copies: what the tests of TMA share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/simulator/async.h"

namespace jfa::simulator {

struct MapArguments {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  std::vector<cuuint64_t> dim{64, 128};
  std::vector<cuuint64_t> stride{128};
  std::vector<cuuint32_t> box{64, 128};
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
};

/// Makes the run's map, of a tensor at the address.
void set_map(PtxRun& run, std::uint64_t address, const MapArguments& a);

// Pieces of kernels, to be put one behind the other.
extern const std::string kPrologue;  ///< thread 0 owns barrier `bar`, of one arrival
extern const std::string kLoad;      ///< of 16 KiB to `tile`
extern const std::string kWait;      ///< for the barrier's first phase
extern const std::string kCopyOut;   ///< 128 threads copy tile[0 … 16 KiB) to the output as it lies
extern const std::string kFill;      ///< 128 threads fill tile[0 … 16 KiB): word i holds i
extern const std::string kFence;     ///< of the asynchronous proxy
extern const std::string kSync;
extern const std::string kStore;     ///< of 16 KiB from `tile`, a committed group
extern const std::string kWaitRead;  ///< until the group has read

struct Mistake {
  std::string name;
  std::string body;
  ErrorKind kind;
  std::string part;  ///< of the report
};

/// Checks that each fails on every schedule.
void check_mistakes(const std::vector<Mistake>& mistakes, std::uint32_t threads = 128);

/// Runs on every schedule, and then `check` each time; the output holds 0xee before.
void check_runs(PtxRun& run, std::uint32_t threads, const std::function<void()>& check,
                std::uint32_t ctas = 1);

}  // namespace jfa::simulator
