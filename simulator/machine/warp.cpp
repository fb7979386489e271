// Warps: registers, splits and their reconvergence.
#include <fmt/format.h>

#include <cstring>

#include "simulator/machine/machine.h"
#include "simulator/machine/scheduler.h"

namespace jfa::simulator {
namespace {

// Waits until the other members of a warp-wide instruction stand at it; the scheduler knows it by its type.
class GatherWait : public Wait {
 public:
  GatherWait(const Warp& warp, LaneMask missing, bool aligned)
      : warp_(warp), missing_(missing), aligned_(aligned) {}
  bool ready() const override { return (missing_ & warp_.live()) == 0; }  // those that came merged this split
  std::string describe() const override {
    return fmt::format("lanes {:#010x} of its warp to reach this instruction", missing_ & warp_.live());
  }
  bool gathers() const override { return true; }
  bool needs_convergence() const override { return aligned_; }

 private:
  const Warp& warp_;
  LaneMask missing_;
  bool aligned_;
};

}  // namespace

Step Warp::wait_for(std::unique_ptr<Wait> wait, Resume resume) {
  current().wait = std::move(wait);
  current().wait_since = machine().clock();
  current().resume = resume;
  return Step::kWait;
}

Step Warp::branch(const Instruction& instruction, LaneMask active) {
  Split& s = current();
  if (active == s.mask) {
    s.pc = instruction.target;
    return Step::kMoved;
  }
  int group = s.group;
  if (instruction.reconvergence == kNoPc) {
    // These paths never meet; they stay with their group, which still expects them all.
  } else if (instruction.reconvergence != s.reconvergence) {
    group = -1;
    for (std::size_t g = 0; g < groups_.size() && group < 0; ++g)
      if (!groups_[g].in_use) group = static_cast<int>(g);
    if (group < 0) {
      group = static_cast<int>(groups_.size());
      groups_.emplace_back();
    }
    groups_[static_cast<std::size_t>(group)] = {instruction.reconvergence, s.mask, 0, s.group, true};
  }
  Split taken;
  taken.mask = active;
  taken.pc = instruction.target;
  s.mask &= ~active;
  ++s.pc;
  enter_group(taken, group);
  enter_group(s, group);
  splits.push_back(std::move(taken));
  return Step::kMoved;
}

void Warp::enter_group(Split& split, int group) {
  split.group = group;
  split.reconvergence = group < 0 ? kNoPc : groups_[static_cast<std::size_t>(group)].pc;
}

void Warp::remove_split(std::size_t index) {
  splits.erase(splits.begin() + static_cast<std::ptrdiff_t>(index));
  if (index < current_) --current_;
}

bool Warp::arrive_at_reconvergence() {
  while (current().group >= 0 && current().pc == current().reconvergence) {
    const int group = current().group;
    Group& g = groups_[static_cast<std::size_t>(group)];
    g.arrived |= current().mask;
    if (g.arrived != g.expected) {
      current().parked = true;
      return false;
    }
    for (std::size_t i = splits.size(); i-- > 0;)
      if (i != current_ && splits[i].group == group && splits[i].parked) {
        current().mask |= splits[i].mask;
        remove_split(i);
      }
    g.in_use = false;
    enter_group(current(), g.parent);
  }
  return true;
}

// Groups whose last running lane has left: what is parked there goes on.
void Warp::settle_groups() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].in_use || groups_[g].arrived != groups_[g].expected) continue;
    groups_[g].in_use = false;
    std::size_t first = splits.size();
    for (std::size_t i = splits.size(); i-- > 0;) {
      if (splits[i].group != static_cast<int>(g) || !splits[i].parked) continue;
      if (first < splits.size()) {
        splits[i].mask |= splits[first].mask;
        remove_split(first);
      }
      first = i;
    }
    if (first >= splits.size()) continue;
    splits[first].parked = false;
    enter_group(splits[first], groups_[g].parent);
  }
}

Step Warp::exit(LaneMask lanes) {
  live_ &= ~lanes;
  for (Group& g : groups_) g.expected &= ~lanes;
  current().mask &= ~lanes;
  const bool gone = current().mask == 0;
  if (gone) {
    remove_split(current_);
    current_ = kNoSplit;
  } else {
    ++current().pc;
  }
  settle_groups();
  cta_.note_exit(*this, lanes);
  return gone ? Step::kExit : Step::kMoved;
}

int Warp::common_group(int a, int b) const {
  for (int x = a; x >= 0; x = groups_[static_cast<std::size_t>(x)].parent)
    for (int y = b; y >= 0; y = groups_[static_cast<std::size_t>(y)].parent)
      if (x == y) return x;
  return -1;
}

void Warp::leave_groups(int group, int until, LaneMask lanes) {
  for (; group != until && group >= 0; group = groups_[static_cast<std::size_t>(group)].parent) {
    groups_[static_cast<std::size_t>(group)].expected &= ~lanes;
    groups_[static_cast<std::size_t>(group)].arrived &= ~lanes;
  }
}

void Warp::merge_into_current(std::size_t other) {
  const int common = common_group(current().group, splits[other].group);
  leave_groups(current().group, common, current().mask);
  leave_groups(splits[other].group, common, splits[other].mask);
  current().mask |= splits[other].mask;
  enter_group(current(), common);
  remove_split(other);
}

bool Warp::converge(LaneMask members, const Instruction& instruction, LaneMask active, Step& step) {
  const LaneMask missing = members & live_ & ~active;
  if (missing == 0) return true;
  if ((missing & current().mask) != 0)
    fail(ErrorKind::kDivergence, point(instruction),
         fmt::format("lanes {:#010x} must take part in this instruction, but its guard excludes them",
                     missing & current().mask));
  bool merged = false;
  for (std::size_t i = splits.size(); i-- > 0;) {
    if (i == current_ || splits[i].pc != current().pc || (splits[i].mask & missing) == 0) continue;
    // Another split at the same place: parked there, gathering there, or about to run.
    if (splits[i].wait != nullptr && !splits[i].wait->gathers()) continue;
    merge_into_current(i);
    merged = true;
  }
  if (merged) {
    settle_groups();
    step = Step::kRetry;
    return false;
  }
  step = wait_for(std::make_unique<GatherWait>(*this, missing, instruction.converged), Resume::kRetry);
  return false;
}

void Warp::dissolve_groups() {
  for (Split& s : splits) {
    s.parked = false;
    enter_group(s, -1);
  }
  groups_.clear();
}

void Warp::read(Space space, std::uint64_t address, std::uint32_t bytes, void* out,
                const ProgramPoint& where) {
  std::memcpy(out, locate(space, address, bytes, false, where), bytes);
}

void Warp::write(Space space, std::uint64_t address, std::uint32_t bytes, const void* in,
                 const ProgramPoint& where) {
  std::memcpy(locate(space, address, bytes, true, where), in, bytes);
}

std::byte* Warp::locate(Space space, std::uint64_t address, std::uint32_t bytes, bool write,
                        const ProgramPoint& where, const MemoryOrder& order) {
  if (space == Space::kGeneric) {
    if (in_window(address, kSharedWindow))
      space = Space::kSharedCluster, address -= kSharedWindow;
    else if (in_window(address, kLocalWindow))
      space = Space::kLocal, address -= kLocalWindow;
    else if (in_window(address, kParamWindow))
      space = Space::kParam, address -= kParamWindow;
    else
      space = Space::kGlobal;
  }
  switch (space) {
    case Space::kShared:
    case Space::kSharedCluster: {
      if (address >> 32 != 0)
        fail_at(ErrorKind::kOutOfBounds, where, address, fmt::format("{:#x} is no shared address", address));
      const SharedPlace place = machine().shared_place(cta_, static_cast<std::uint32_t>(address), where);
      if (space == Space::kShared && place.cta != &cta_)
        fail_at(ErrorKind::kOutOfBounds, where, address,
                fmt::format("shared::cta access to {:#x}, which belongs to CTA {} of the cluster", address,
                            place.cta->rank()));
      SharedMemory& shared = place.cta->shared();
      if (write)
        shared.check_write(place.offset, bytes, where, order);
      else
        shared.check_read(place.offset, bytes, where, order);
      return shared.data(place.offset);
    }
    case Space::kLocal:
      if (address + bytes > local_bytes_)
        fail_at(ErrorKind::kOutOfBounds, where, address,
                fmt::format("local address {:#x}: the thread has {} bytes", address, local_bytes_));
      if ((address & (bytes - 1)) != 0)
        fail_at(ErrorKind::kMisaligned, where, address,
                fmt::format("local address {:#x} is not aligned to {}", address, bytes));
      return local(std::max(where.lane, 0)) + address;
    case Space::kParam: {
      const std::vector<std::byte>& parameters = machine().config().parameters;
      if (write) fail_at(ErrorKind::kOutOfBounds, where, address, "parameters cannot be written");
      if (address + bytes > parameters.size())
        fail_at(ErrorKind::kOutOfBounds, where, address,
                fmt::format("parameter address {:#x}: there are {} bytes", address, parameters.size()));
      if ((address & (bytes - 1)) != 0)
        fail_at(ErrorKind::kMisaligned, where, address,
                fmt::format("parameter address {:#x} is not aligned to {}", address, bytes));
      return const_cast<std::byte*>(parameters.data()) + address;
    }
    case Space::kGeneric:
    case Space::kGlobal:
    case Space::kConst:
      break;
  }
  return locate_global(address, bytes, write, where, order);
}

std::byte* Warp::locate_global(std::uint64_t address, std::uint32_t bytes, bool write,
                               const ProgramPoint& where, const MemoryOrder& order) {
  std::byte* const host = machine().memory().access(address, bytes, bytes, write, where);
  for (Observer* observer : machine().observers()) {
    if (write)
      observer->write(address, bytes, where, order);
    else
      observer->read(address, bytes, where, order);
  }
  return host;
}

}  // namespace jfa::simulator
