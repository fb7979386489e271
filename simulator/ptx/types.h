// Small types that every part of the simulator shares.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace jfa::simulator {

inline constexpr int kWarpSize = 32;

/// One bit a lane.
using LaneMask = std::uint32_t;
inline constexpr LaneMask kAllLanes = 0xffffffffu;

/// Where a register lives in its warp's register file: a byte offset. See Warp::lanes and Warp::predicate.
/// Immediates, symbol addresses and special registers have slots too, filled when the warp starts, so that a
/// handler never asks what kind of operand it has.
using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = 0xffffffffu;  // the sink `_`, or an absent operand

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

/// The spaces of PTX. kGeneric addresses are told apart by the windows below.
enum class Space : std::uint8_t { kGeneric, kGlobal, kShared, kSharedCluster, kLocal, kParam, kConst };

// Generic windows, each 4 GiB. Device memory lies below them all.
inline constexpr std::uint64_t kSharedWindow = 0x7f00'0000'0000;
inline constexpr std::uint64_t kLocalWindow = 0x7f10'0000'0000;
inline constexpr std::uint64_t kParamWindow = 0x7f20'0000'0000;
inline constexpr std::uint64_t kWindowBytes = 0x1'0000'0000;

// A 32-bit shared::cluster address: CTA-relative offset in bits 23:0, rank of the CTA in its cluster above. A
// CTA's own shared addresses carry its rank (measured on an H200).
inline constexpr std::uint32_t kSharedOffsetMask = 0x00ff'ffffu;
inline constexpr int kSharedRankShift = 24;
/// The system keeps the first bytes of every CTA's shared memory.
inline constexpr std::uint32_t kReservedSharedBytes = 1024;

constexpr bool in_window(std::uint64_t address, std::uint64_t window) {
  return address - window < kWindowBytes;
}

/// Which path an access takes to memory: ld/st and friends, or the asynchronous engines.
enum class Proxy : std::uint8_t { kGeneric, kAsync };

}  // namespace jfa::simulator
