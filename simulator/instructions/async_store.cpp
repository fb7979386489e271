#include "simulator/instructions/async_store.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "simulator/async/bulk_copy.h"
#include "simulator/async/mbarrier.h"
#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/async_address.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kMostStoredBytes = 16;
constexpr const char* kReductionName = "red.async";

struct AsyncStoreOperands {
  AddressOperand destination;
  AddressOperand barrier;
  std::vector<Slot> values;
  std::uint32_t element_bytes = 4;
  std::optional<ReductionKind> reduction;
};

struct Value {
  std::uint32_t bytes = 0;
  std::array<std::byte, kMostStoredBytes> data{};
};

class AsyncStore final : public AsyncOperation {
 public:
  AsyncStore(const BulkDestination& destination, const Value& value, const ProgramPoint& point)
      : AsyncOperation(point),
        value_(value),
        arrivals_({destination}, value.bytes, value.bytes, "st.async", point) {}

  bool advance(Machine&) override {
    if (!written_) {
      const BulkDestination& to = arrivals_.destinations().front();
      std::memcpy(to.cta->shared().data(to.offset), value_.data.data(), value_.bytes);
      to.cta->shared().note_async_write(to.offset, value_.bytes);
      written_ = true;
      return false;
    }
    arrivals_.complete();
    return true;
  }

  std::string describe() const override {
    return fmt::format("st.async of {} bytes to shared {:#x}", value_.bytes,
                       arrivals_.destinations().front().offset);
  }

 private:
  Value value_;
  BulkArrivals arrivals_;
  bool written_ = false;
};

// Reductions from many threads may meet in one word, so that their destination is not in flight.
class AsyncReduction final : public AsyncOperation {
 public:
  AsyncReduction(const BulkDestination& destination, const Value& value, ReductionKind kind,
                 const ProgramPoint& point)
      : AsyncOperation(point),
        destination_(destination),
        value_(value),
        kind_(kind),
        tracked_(destination.barrier->track(value.bytes, kReductionName, point, {})) {
    for (const auto& observer : destination.cta->shared().observers())
      observer->issue_reduction(destination.offset, value.bytes, kReductionName, point);
  }

  bool advance(Machine&) override {
    if (!written_) {
      note();
      reduce_elements(kind_.op, kind_.type, destination_.cta->shared().data(destination_.offset),
                      value_.data.data(), value_.bytes);
      written_ = true;
      return false;
    }
    destination_.barrier->settle(tracked_);
    return true;
  }

  std::string describe() const override {
    return fmt::format("red.async of {} bytes to shared {:#x}", value_.bytes, destination_.offset);
  }

 private:
  // A word that many reduce into has no single writer: the barrier's phase stands for all of them.
  void note() const {
    Epoch event = destination_.barrier->event();
    ++event.tick;
    for (const auto& observer : destination_.cta->shared().observers())
      observer->reduce(destination_.offset, value_.bytes, kReductionName, issue(), event);
  }

  BulkDestination destination_;
  Value value_;
  ReductionKind kind_;
  std::uint64_t tracked_;
  bool written_ = false;
};

Step async_store(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<AsyncStoreOperands>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    Value value;
    for (const Slot slot : o.values) {
      const void* register_value = o.element_bytes == 8
                                       ? static_cast<const void*>(warp.lanes<std::uint64_t>(slot) + lane)
                                       : warp.lanes<std::uint32_t>(slot) + lane;
      std::memcpy(value.data.data() + value.bytes, register_value, o.element_bytes);
      value.bytes += o.element_bytes;
    }
    const SharedPlace to = shared_place_of(warp, o.destination, lane, point);
    const SharedPlace barrier = shared_place_of(warp, o.barrier, lane, point);
    if (to.cta != barrier.cta)
      fail(ErrorKind::kInvalidOperand, point,
           fmt::format("the destination is in CTA rank {}, its mbarrier in CTA rank {}", to.cta->rank(),
                       barrier.cta->rank()));
    if (to.offset % value.bytes != 0)
      fail_at(ErrorKind::kMisaligned, point, to.offset,
              fmt::format("shared {:#x} is not aligned to {} bytes", to.offset, value.bytes));
    const BulkDestination destination{to.cta, to.offset,
                                      &barrier.cta->extension<Mbarriers>().at(barrier.offset, point)};
    if (o.reduction)
      warp.machine().post(std::make_unique<AsyncReduction>(destination, value, *o.reduction, point));
    else
      warp.machine().post(std::make_unique<AsyncStore>(destination, value, point));
  });
  return Step::kNext;
}

AsyncStoreOperands decode_operands(Decoder& d, std::string_view type) {
  AsyncStoreOperands o;
  o.element_bytes = type.substr(1) == "64" ? 8 : 4;
  o.destination = d.address(0);
  o.values = d.vector_source(1, static_cast<int>(o.element_bytes) * 8);
  o.barrier = d.address(2);
  return o;
}

void decode_store(Decoder& d) {
  const AsyncStoreOperands o =
      decode_operands(d, d.first_of({"b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}));
  const std::size_t count = d.has("v4") ? 4 : d.has("v2") ? 2 : 1;
  if (o.values.size() != count) d.fail(fmt::format("{} values where {} are written", count, o.values.size()));
  if (count * o.element_bytes > kMostStoredBytes) d.fail("st.async of more than 16 bytes");
  d.emit(async_store).extra = d.attach(o);
}

void decode_reduction(Decoder& d) {
  const std::string_view type = d.first_of({"u32", "s32", "u64", "b32"});
  AsyncStoreOperands o = decode_operands(d, type);
  o.reduction =
      ReductionKind{*reduction_op(d.first_of({"add", "min", "max", "inc", "dec", "and", "or", "xor"})),
                    *reduction_type(type)};
  if (!reduction_exists(o.reduction->op, o.reduction->type)) d.fail("PTX has no such reduction");
  d.emit(async_store).extra = d.attach(o);
}

}  // namespace

void register_async_store(InstructionTable& table) {
  table.add(
      "st.async .(weak)? .shared::cluster.mbarrier::complete_tx::bytes .(v2|v4)? "
      ".(b32|u32|s32|f32|b64|u64|s64|f64)",
      decode_store);
  table.add(
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes "
      ".(add|min|max|inc|dec|and|or|xor) .(u32|s32|u64|b32)",
      decode_reduction);
}

}  // namespace jfa::simulator
