// Whether a plan fits its target. Whatever a plan file asks for, a kernel that does not fit, or whose regions
// overlap, is refused here by name and number.
#include <fmt/format.h>

#include <algorithm>

#include "generator/plan/family.h"

namespace jfa {
namespace {

// What tensor memory is read and written by.
constexpr int kTensorColumnStep = 16;
constexpr int kControlAlignmentBytes = 16;
// What a thread may set its registers to.
constexpr int kLeastRegisters = 24;
constexpr int kMostRegisters = 256;
constexpr int kRegisterStep = 8;

class EntryCheck {
 public:
  EntryCheck(const KernelPlan& plan, const EntryPlan& entry)
      : plan_(plan), entry_(entry), limits_(row_of(plan.spec.target).family->limits) {}

  Status all() const {
    for (Status status : {stages(), threads(), registers(), shared_memory(), tensor_memory()})
      if (!status.ok()) return status;
    return {};
  }

 private:
  template <class... Arguments>
  Status refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    return Status::unsupported(fmt::format("{}: {}: {}", name(plan_), entry_.name,
                                           fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

  int role_threads() const {
    int threads = 0;
    for (const WarpRole& role : entry_.roles) threads += kWarpThreads * role.warps;
    return threads;
  }

  Status stages() const {
    for (const StageCount& stage : entry_.stages) {
      if (stage.count < stage.least)
        return refuse("{} {} is below the least, {}: {} bytes of shared memory hold no more", stage.name,
                      stage.count, stage.least, limits_.shared_bytes);
    }
    return {};
  }

  Status threads() const {
    const int threads = role_threads();
    if (threads != entry_.threads)
      return refuse("threads {} are not those of its roles, {}", entry_.threads, threads);
    if (threads > limits_.threads) return refuse("threads {} of {}", threads, limits_.threads);
    return {};
  }

  // Roles pass on among them what the CTA starts with, which is the same for every thread: for more than that
  // they would wait for ever.
  Status registers() const {
    int registers = 0;
    for (const WarpRole& role : entry_.roles) {
      if (role.registers == 0) continue;
      if (role.registers < kLeastRegisters || role.registers > kMostRegisters ||
          role.registers % kRegisterStep != 0)
        return refuse("registers {} of role {} are no multiple of {} from {} to {}", role.registers,
                      role.type, kRegisterStep, kLeastRegisters, kMostRegisters);
      registers += kWarpThreads * role.warps * role.registers;
    }
    if (registers == 0) return {};
    const int threads = role_threads();
    const int share = limits_.registers / threads / kRegisterStep * kRegisterStep;
    const int start = threads * std::min(share, kMostRegisters);
    if (registers > start)
      return refuse("registers {} of the {} that {} threads start with", registers, start, threads);
    return {};
  }

  Status shared_memory() const {
    const int bytes = entry_.shared_map.empty() ? 0 : kTileAlignmentBytes + end_of(entry_.shared_map);
    if (bytes != entry_.shared_bytes)
      return refuse("shared memory {} bytes are not those of its regions, {}", entry_.shared_bytes, bytes);
    if (bytes > limits_.shared_bytes)
      return refuse("shared memory {} bytes of {}", bytes, limits_.shared_bytes);
    for (const Region& region : entry_.shared_map) {
      const int alignment =
          region.element == RegionElement::kBytes ? kControlAlignmentBytes : kTileAlignmentBytes;
      if (region.begin % alignment != 0)
        return refuse("{} begins at byte {}, no multiple of {}", region.type, region.begin, alignment);
    }
    return no_overlap(entry_.shared_map, "byte");
  }

  Status tensor_memory() const {
    if (plan_.tensor_memory_columns > limits_.tensor_columns)
      return refuse("tensor memory {} columns of {}", plan_.tensor_memory_columns, limits_.tensor_columns);
    for (const Region& region : entry_.tensor_map) {
      if (region.end() > plan_.tensor_memory_columns)
        return refuse("{} ends at column {} of {}", region.type, region.end(), plan_.tensor_memory_columns);
      if (region.begin % kTensorColumnStep != 0)
        return refuse("{} begins at column {}, no multiple of {}", region.type, region.begin,
                      kTensorColumnStep);
    }
    return no_overlap(entry_.tensor_map, "column");
  }

  // A region that lies over another must lie in it, and counts as part of it.
  Status no_overlap(const std::vector<Region>& map, const char* unit) const {
    for (const Region& region : map) {
      if (std::ranges::count(map, region.type, &Region::type) > 1)
        return refuse("{} is the name of two regions", region.type);
      if (region.begin < 0) return refuse("{} begins at {} {}", region.type, unit, region.begin);
      if (region.over.empty()) continue;
      const auto under = std::ranges::find(map, region.over, &Region::type);
      if (under == map.end()) return refuse("{} lies over {}, which is not there", region.type, region.over);
      if (region.begin < under->begin || region.end() > under->end())
        return refuse("{}, {}s {} to {}, does not lie in {}, {}s {} to {}", region.type, unit, region.begin,
                      region.end(), under->type, unit, under->begin, under->end());
    }
    for (auto left = map.begin(); left != map.end(); ++left) {
      for (auto right = std::next(left); right != map.end(); ++right) {
        if (left->over == right->type || right->over == left->type) continue;
        if (left->begin < right->end() && right->begin < left->end())
          return refuse("{}, {}s {} to {}, overlaps {}, {}s {} to {}", left->type, unit, left->begin,
                        left->end(), right->type, unit, right->begin, right->end());
      }
    }
    return {};
  }

  const KernelPlan& plan_;
  const EntryPlan& entry_;
  const DeviceLimits& limits_;
};

}  // namespace

Status check_fit(const KernelPlan& plan) {
  if (plan.query_tile != plan.key_tile)
    return Status::unsupported(
        fmt::format("{}: query tiles of {} rows, key tiles of {}: the work list counts both sides alike",
                    name(plan), plan.query_tile, plan.key_tile));
  for (const EntryPlan* entry : entries_of(plan))
    if (Status status = EntryCheck(plan, *entry).all(); !status.ok()) return status;
  return {};
}

}  // namespace jfa
