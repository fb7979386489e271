#include "simulator/instructions/async_copy.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "simulator/async/bulk_copy_groups.h"
#include "simulator/async/mbarrier.h"
#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/async_address.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kMostBytes = 16;

/// Their groups are not those of bulk copies.
class AsyncCopyGroups final : public BulkGroups {
 public:
  using BulkGroups::BulkGroups;
};

struct AsyncCopyOperands {
  AddressOperand destination;  // shared; of mbarrier.arrive: the barrier
  AddressOperand source;       // global
  std::uint32_t bytes = 0;
  Slot source_bytes = kNoSlot;  // kNoSlot: all of them
};

/// What one lane copies; bytes behind source_bytes become zeros.
struct LaneCopy {
  int thread = 0;
  std::uint32_t offset = 0;
  std::uint64_t global = 0;
  std::uint32_t source_bytes = 0;
  std::shared_ptr<BulkProgress> progress;
  std::array<std::byte, kMostBytes> data{};
};

class AsyncCopy final : public AsyncOperation {
 public:
  AsyncCopy(Cta& cta, std::uint32_t bytes, std::vector<LaneCopy> copies, const ProgramPoint& point)
      : AsyncOperation(point), cta_(cta), bytes_(bytes), copies_(std::move(copies)) {}

  bool advance(Machine& machine) override {
    for (LaneCopy& copy : copies_) {
      if (!read_ && copy.source_bytes != 0)
        std::memcpy(copy.data.data(),
                    machine.memory().access(copy.global, copy.source_bytes, 1, false, issue()),
                    copy.source_bytes);
      if (read_) write(copy);
    }
    return std::exchange(read_, true);
  }

  std::string describe() const override {
    return fmt::format("cp.async of {} times {} bytes to shared {:#x}", copies_.size(), bytes_,
                       copies_.front().offset);
  }

 private:
  // Unlike bulk copies these write through the generic proxy, in the name of their thread: a TMA store or an
  // MMA of the bytes needs its proxy fence.
  void write(LaneCopy& copy) {
    SharedMemory& memory = cta_.shared();
    memory.set_flags(copy.offset, bytes_, SharedMemory::kInitialised);
    std::memcpy(memory.data(copy.offset), copy.data.data(), bytes_);
    copy.progress->done = copy.progress->source_read = true;
  }

  Cta& cta_;
  std::uint32_t bytes_;
  std::vector<LaneCopy> copies_;
  bool read_ = false;
};

Step copy(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<AsyncCopyOperands>();
  Cta& cta = warp.cta();
  std::vector<LaneCopy> copies;
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    LaneCopy c;
    c.thread = warp.thread(lane);
    c.offset = own_shared_offset_of(warp, o.destination, lane, point);
    c.global = address_of(warp, o.source, lane);
    c.source_bytes = o.source_bytes == kNoSlot ? o.bytes : warp.lanes<std::uint32_t>(o.source_bytes)[lane];
    if (c.source_bytes > o.bytes)
      fail(ErrorKind::kInvalidOperand, point,
           fmt::format("cp.async of {} bytes with a source of {}", o.bytes, c.source_bytes));
    if (c.offset % o.bytes != 0 || c.global % o.bytes != 0)
      fail_at(ErrorKind::kMisaligned, point, c.offset % o.bytes != 0 ? c.offset : c.global,
              fmt::format("cp.async: shared {:#x} or global {:#x} is not aligned to {} bytes", c.offset,
                          c.global, o.bytes));
    if (c.source_bytes != 0)
      for (Observer* observer : warp.machine().observers())
        observer->read(c.global, c.source_bytes, point, {});
    c.progress = std::make_shared<BulkProgress>();
    c.progress->flight =
        cta.shared().issue(MemoryAccess::kWrite, c.offset, o.bytes, "cp.async", point, /*generic=*/true);
    cta.extension<AsyncCopyGroups>().add(c.thread, c.progress);
    copies.push_back(std::move(c));
  });
  warp.machine().post(std::make_unique<AsyncCopy>(cta, o.bytes, std::move(copies), warp.point(in)));
  return Step::kNext;
}

// --- Completion

Step commit_async_group(Warp& warp, const Instruction&, LaneMask active) {
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (active >> lane & 1) warp.cta().extension<AsyncCopyGroups>().commit(warp.thread(lane));
  return Step::kNext;
}

class AsyncGroupWait final : public Wait {
 public:
  AsyncGroupWait(Warp& warp, LaneMask lanes, std::uint32_t keep) : warp_(warp), lanes_(lanes), keep_(keep) {}
  bool ready() const override {
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes_ >> lane & 1 &&
          !warp_.cta().extension<AsyncCopyGroups>().finished(warp_.thread(lane), keep_, false))
        return false;
    return true;
  }
  std::string describe() const override {
    return fmt::format("all but {} cp.async groups to complete", keep_);
  }

 private:
  Warp& warp_;
  LaneMask lanes_;
  std::uint32_t keep_;
};

// immediate: groups that may stay pending.
Step wait_async_group(Warp& warp, const Instruction& in, LaneMask active) {
  const auto keep = static_cast<std::uint32_t>(in.immediate);
  auto wait = std::make_unique<AsyncGroupWait>(warp, active, keep);
  if (!wait->ready()) return warp.wait_for(std::move(wait), Resume::kRetry);
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (active >> lane & 1)
      warp.cta().extension<AsyncCopyGroups>().observe(warp.thread(lane), keep, false,
                                                      warp.event(LaneMask{1} << lane));
  return Step::kNext;
}

Step wait_all(Warp& warp, const Instruction& in, LaneMask active) {
  commit_async_group(warp, in, active);  // when it runs again: an empty group, which changes nothing
  return wait_async_group(warp, in, active);
}

/// Arrives once every copy that its thread had started is done.
class CopiesArrive final : public AsyncOperation {
 public:
  CopiesArrive(Mbarrier& barrier, std::vector<std::shared_ptr<BulkProgress>> copies, VectorClock clock,
               const ProgramPoint& point)
      : AsyncOperation(point), barrier_(barrier), copies_(std::move(copies)), clock_(std::move(clock)) {}
  bool ready() const override {
    for (const auto& copy : copies_)
      if (!copy->done) return false;
    return true;
  }
  bool advance(Machine&) override {
    std::vector<FlightRef> flights;
    for (const auto& copy : copies_) flights.push_back(copy->flight);
    barrier_.release_on_observation(flights);
    barrier_.arriving().join(clock_);
    barrier_.arrive(1, issue());
    return true;
  }
  std::string describe() const override { return "arrival of cp.async at " + barrier_.where(); }

 private:
  Mbarrier& barrier_;
  std::vector<std::shared_ptr<BulkProgress>> copies_;
  VectorClock clock_;  // of the thread when it asked
};

// small[0]: .noinc
Step mbarrier_arrive(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<AsyncCopyOperands>();
  Cta& cta = warp.cta();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    Mbarrier& barrier =
        cta.extension<Mbarriers>().at(own_shared_offset_of(warp, o.destination, lane, point), point);
    if (in.small[0] == 0) barrier.expect_arrival(point);
    VectorClock clock;
    warp.release(LaneMask{1} << lane, clock);
    warp.machine().post(std::make_unique<CopiesArrive>(
        barrier, cta.extension<AsyncCopyGroups>().unobserved(warp.thread(lane)), std::move(clock), point));
  });
  return Step::kNext;
}

void decode_copy(Decoder& d) {
  AsyncCopyOperands o;
  o.destination = d.address(0);
  o.source = d.address(1);
  const std::int64_t bytes = d.immediate(2);
  if (!(bytes == 16 || (!d.has("cg") && (bytes == 4 || bytes == 8))))
    d.fail("a cp.async of that size does not exist");
  o.bytes = static_cast<std::uint32_t>(bytes);
  const bool policy = d.has("L2::cache_hint");
  if (d.count() > (policy ? 4 : 3)) o.source_bytes = d.source(3, 32);
  if (policy) d.source(d.count() - 1, 64);  // changes nothing here
  d.emit(copy).extra = d.attach(o);
}

}  // namespace

void register_async_copy(InstructionTable& table) {
  table.add(
      "cp.async .(ca|cg) .(shared|shared::cta) .global .(L2::cache_hint)? .(L2::64B|L2::128B|L2::256B)?",
      decode_copy);
  table.add("cp.async.commit_group", [](Decoder& d) { d.emit(commit_async_group); },
            {.synchronises = {{"cp.async commit_group"}}});
  table.add("cp.async.wait_group",
            [](Decoder& d) {
              const std::int64_t keep = d.immediate(0);
              if (keep < 0) d.fail("a negative number of groups");
              d.emit(wait_async_group).immediate = keep;
            },
            {.synchronises = {{"cp.async wait_group", "", {.operand = 0, .only_up = true}}}});
  table.add("cp.async.wait_all", [](Decoder& d) { d.emit(wait_all); },
            {.synchronises = {{"cp.async wait_group"}}});
  table.add("cp.async.mbarrier.arrive .(noinc)? .(shared|shared::cta)? .b64",
            [](Decoder& d) {
              AsyncCopyOperands o;
              o.destination = d.address(0);
              const AsyncCopyOperands* attached = d.attach(o);
              Instruction& in = d.emit(mbarrier_arrive);
              in.extra = attached;
              in.small[0] = d.has("noinc");
            },
            {.synchronises = {{"cp.async mbarrier.arrive"}}});
}

}  // namespace jfa::simulator
