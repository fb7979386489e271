#include "simulator/async/tma.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "simulator/async/bulk_copy_groups.h"
#include "simulator/machine/machine.h"
#include "simulator/machine/recorder.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kSwizzleChunkBytes = 16;  // what a swizzle moves as one

void check(const TensorBox& box, std::uint32_t offset, bool is_store, const ProgramPoint& point) {
  const std::string wrong = check_box(box.map, box.coordinates, offset, is_store);
  if (!wrong.empty())
    fail(offset % 128 != 0 ? ErrorKind::kMisaligned : ErrorKind::kInvalidOperand, point, wrong);
}

// Calls visit(shared offset, box offset, bytes) for the pieces of one row that stay together under the
// swizzle.
template <class Visit>
void for_each_piece(const TensorMap& map, std::uint32_t shared, std::uint32_t bytes, Visit&& visit) {
  if (map.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE && !map.padded) return visit(shared, 0u, bytes);
  const std::uint32_t piece_bytes =
      map.padded ? 2 * map.element_bits : kSwizzleChunkBytes;  // the rest is padding
  for (std::uint32_t at = 0; at < bytes; at += kSwizzleChunkBytes)
    visit(swizzle_shared_address(map.swizzle, shared + at), at, piece_bytes);
}

std::string text(const TensorBox& box) {
  std::string at;
  for (std::uint32_t d = 0; d < box.map.rank; ++d)
    at += fmt::format("{}{}", d ? "," : "", box.coordinates[d]);
  return fmt::format("{}-byte box at ({}) of the tensor at {:#x}", box.map.box_bytes(), at,
                     box.map.global_address);
}

// The box's bytes of global memory in flight; nothing if nobody watches.
FlightRef access_tensor(const TensorBox& box, MemoryAccess access, const char* what,
                        const ProgramPoint& point, bool reduces = false) {
  Observers& observers = point.cta->machine().observers();
  const FlightRef flight = observers.issue();
  if (flight.owner == nullptr) return {};
  const bool writes = access == MemoryAccess::kWrite;
  box.for_each_row([&](const BoxRow& row) {
    const std::uint32_t bytes = writes ? stored_bytes(box.map, row) : row.valid_bytes;
    if (bytes != 0)
      observers.access(flight, access, row.global_address + row.skip_bytes, bytes, what, point, reduces);
  });
  return flight;
}

class TensorLoad final : public AsyncOperation {
 public:
  TensorLoad(const TensorBox& box, const std::vector<BulkDestination>& destinations,
             const ProgramPoint& point)
      : AsyncOperation(point),
        box_(box),
        arrivals_(destinations, box.map.shared_bytes(), box.map.box_bytes(), "TMA load", point,
                  access_tensor(box, MemoryAccess::kRead, "TMA load", point)) {}

  bool advance(Machine& machine) override {
    switch (step_++) {
      case 0:
        read(machine.memory());
        return false;
      case 1:
        for (const BulkDestination& destination : arrivals_.destinations())
          write(destination.cta->shared(), destination.offset);
        return false;
      default:
        arrivals_.complete();
        return true;
    }
  }

  std::string describe() const override {
    return fmt::format("TMA load of the {} to shared {:#x}", text(box_),
                       arrivals_.destinations().front().offset);
  }

 private:
  // Elements outside the tensor are zeros.
  void read(DeviceMemory& memory) {
    data_.assign(std::size_t{box_.map.box_row_bytes()} * box_.map.box_rows(), std::byte{0});
    std::byte* row_data = data_.data();
    const std::uint32_t alignment = std::max(box_.map.element_bits / 8, 1u);
    box_.for_each_row([&](const BoxRow& row) {
      if (row.valid_bytes != 0) {
        const std::byte* from =
            memory.access(row.global_address + row.skip_bytes, row.valid_bytes, alignment, false, issue());
        if (box_.map.padded)
          pad(from, row_data);
        else
          std::memcpy(row_data + row.skip_bytes, from, row.valid_bytes);
      }
      row_data += box_.map.box_row_bytes();
    });
  }

  // A whole row, which padded types are inside the tensor or outside: each piece begins a chunk.
  void pad(const std::byte* from, std::byte* row_data) const {
    const std::uint32_t piece_bytes = 2 * box_.map.element_bits;
    for (std::uint32_t at = 0; at < box_.map.box_row_bytes(); at += kSwizzleChunkBytes, from += piece_bytes)
      std::memcpy(row_data + at, from, piece_bytes);
  }

  void write(SharedMemory& memory, std::uint32_t offset) const {
    const std::uint32_t row_bytes = box_.map.box_row_bytes(), pitch = box_.map.shared_pitch_bytes();
    const bool in_pieces = row_bytes != pitch || box_.map.padded;
    const std::byte* row_data = data_.data();
    for (std::uint32_t row = 0; row < box_.map.box_rows(); ++row, offset += pitch, row_data += row_bytes) {
      for_each_piece(box_.map, offset, row_bytes,
                     [&](std::uint32_t at, std::uint32_t from, std::uint32_t bytes) {
                       std::memcpy(memory.data(at), row_data + from, bytes);
                       if (in_pieces) memory.note_async_write(at, bytes);
                     });
      // A row as wide as its pitch fills it, in whatever order.
      if (!in_pieces) memory.note_async_write(offset, row_bytes);
    }
  }

  TensorBox box_;
  BulkArrivals arrivals_;
  std::vector<std::byte> data_;  // rows without gaps
  int step_ = 0;
};

class TensorStore final : public AsyncOperation {
 public:
  TensorStore(const TensorBox& box, Cta& cta, std::uint32_t offset, std::optional<ReductionKind> reduction,
              const ProgramPoint& point)
      : AsyncOperation(point),
        box_(box),
        cta_(cta),
        offset_(offset),
        reduction_(reduction),
        progress_(std::make_shared<BulkProgress>()) {
    const char* what = reduction_ ? "TMA reduction" : "TMA store";
    const SharedMemory& shared = cta.shared();
    progress_->flight = cta.shared().issue(MemoryAccess::kRead, offset, box.map.shared_bytes(), what, point);
    if (!shared.may_read(offset, box.map.shared_bytes(), point)) check_rows(shared, what, point);
    progress_->written = access_tensor(box, MemoryAccess::kWrite, what, point, reduction_.has_value());
    cta.extension<BulkGroups>().add(point.warp * kWarpSize + point.lane, progress_);
  }

  bool advance(Machine& machine) override {
    if (!progress_->source_read) {
      read();
      progress_->source_read = true;
      return false;
    }
    write(machine.memory());
    progress_->done = true;
    return true;
  }

  std::string describe() const override {
    return fmt::format("TMA {} of the {} from shared {:#x}", reduction_ ? "reduction" : "store", text(box_),
                       offset_);
  }

 private:
  // Rows that will be dropped may hold anything.
  void check_rows(const SharedMemory& shared, const char* what, const ProgramPoint& point) const {
    box_.for_each_row([&](const BoxRow& row) {
      for_each_piece(box_.map, offset_ + row.shared_offset, stored_bytes(box_.map, row),
                     [&](std::uint32_t at, std::uint32_t, std::uint32_t bytes) {
                       if (bytes != 0) shared.check_source(at, bytes, what, point);
                     });
    });
  }
  void read() {
    data_.resize(box_.map.box_bytes());
    const std::uint32_t row_bytes = box_.map.box_row_bytes(), pitch = box_.map.shared_pitch_bytes();
    std::byte* row_data = data_.data();
    std::uint32_t offset = offset_;
    for (std::uint32_t row = 0; row < box_.map.box_rows(); ++row, offset += pitch, row_data += row_bytes)
      for_each_piece(box_.map, offset, row_bytes,
                     [&](std::uint32_t at, std::uint32_t to, std::uint32_t bytes) {
                       std::memcpy(row_data + to, cta_.shared().data(at), bytes);
                     });
  }

  void write(DeviceMemory& memory) const {
    const std::byte* row_data = data_.data();
    box_.for_each_row([&](const BoxRow& row) {
      if (const std::uint32_t bytes = stored_bytes(box_.map, row)) {
        std::byte* to = memory.access(row.global_address, bytes, kSwizzleChunkBytes, true, issue());
        if (reduction_)
          reduce_elements(reduction_->op, reduction_->type, to, row_data, bytes);
        else
          std::memcpy(to, row_data, bytes);
      }
      row_data += box_.map.box_row_bytes();
    });
  }

  TensorBox box_;
  Cta& cta_;
  std::uint32_t offset_;
  std::optional<ReductionKind> reduction_;
  std::shared_ptr<BulkProgress> progress_;
  std::vector<std::byte> data_;  // rows without gaps
};

// A number for what a box reads: equal for equal boxes of one map.
std::uint64_t place_of(const TensorBox& box) {
  std::uint64_t place = box.map.global_address;
  const auto mix = [&](std::uint64_t value) { place = (place ^ value) * 0x9e3779b97f4a7c15u; };
  for (const auto coordinate : box.coordinates) mix(static_cast<std::uint64_t>(coordinate) + 1);
  if (box.gathered)
    for (const auto row : *box.gathered) mix(static_cast<std::uint64_t>(row) + 1);
  return place;
}

}  // namespace

void start_tensor_load(Machine& machine, const TensorBox& box,
                       const std::vector<BulkDestination>& destinations, const ProgramPoint& point) {
  for (const BulkDestination& destination : destinations) check(box, destination.offset, false, point);
  if (timing::Recorder* recorder = machine.recorder()) recorder->reads_global(point, place_of(box));
  machine.post(std::make_unique<TensorLoad>(box, destinations, point));
}

void start_tensor_store(Machine& machine, const TensorBox& box, Cta& cta, std::uint32_t offset,
                        std::optional<ReductionOp> reduction, const ProgramPoint& point) {
  check(box, offset, true, point);
  std::optional<ReductionKind> kind;
  if (reduction) {
    const auto type = reduction_type(box.map, *reduction);
    if (!type || !reduction_exists(*reduction, *type))
      fail(ErrorKind::kInvalidOperand, point,
           fmt::format("the tensor map's data type {} has no such reduction", int(box.map.data_type)));
    kind = ReductionKind{*reduction, *type};
  }
  if (timing::Recorder* recorder = machine.recorder())
    recorder->copies_out(point, static_cast<std::uint32_t>(box.map.box_bytes()));
  machine.post(std::make_unique<TensorStore>(box, cta, offset, kind, point));
}

}  // namespace jfa::simulator
