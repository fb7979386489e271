#include "simulator/async/bulk_copy.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>

#include "simulator/async/bulk_copy_groups.h"
#include "simulator/machine/recorder.h"

namespace jfa::simulator {

BulkArrivals::BulkArrivals(const std::vector<BulkDestination>& destinations, std::uint32_t shared_bytes,
                           std::uint32_t transaction_bytes, const char* what, const ProgramPoint& point,
                           FlightRef also_in_flight)
    : destinations_(destinations) {
  for (const BulkDestination& destination : destinations_) {
    std::vector<FlightRef> flights{
        destination.cta->shared().issue(MemoryAccess::kWrite, destination.offset, shared_bytes, what, point)};
    if (also_in_flight.id != 0) flights.push_back(std::exchange(also_in_flight, {}));
    tracked_.push_back(destination.barrier->track(transaction_bytes, what, point, std::move(flights)));
  }
}

void BulkArrivals::complete() const {
  for (std::size_t i = 0; i < destinations_.size(); ++i) destinations_[i].barrier->settle(tracked_[i]);
}

namespace {

constexpr std::uint32_t kBulkAlignment = 16;

void check_range(const char* name, std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point) {
  if (address % kBulkAlignment != 0)
    fail_at(ErrorKind::kMisaligned, point, address,
            fmt::format("bulk copy: {} {:#x} is not 16-byte aligned", name, address));
  if (bytes % kBulkAlignment != 0 || bytes == 0)
    fail(ErrorKind::kInvalidOperand, point,
         fmt::format("bulk copy: size {} is not a positive multiple of 16", bytes));
}

class BulkLoad final : public AsyncOperation {
 public:
  BulkLoad(std::uint64_t global, std::uint32_t bytes, const std::vector<BulkDestination>& destinations,
           const ProgramPoint& point)
      : AsyncOperation(point),
        global_(global),
        bytes_(bytes),
        arrivals_(destinations, bytes, bytes, kWhat, point,
                  point.cta->machine().observers().issue(MemoryAccess::kRead, global, bytes, kWhat, point)) {}

  bool advance(Machine& machine) override {
    switch (step_++) {
      case 0: {
        const std::byte* source = machine.memory().access(global_, bytes_, kBulkAlignment, false, issue());
        data_.assign(source, source + bytes_);
        return false;
      }
      case 1:
        for (const BulkDestination& destination : arrivals_.destinations()) {
          SharedMemory& memory = destination.cta->shared();
          std::memcpy(memory.data(destination.offset), data_.data(), bytes_);
          memory.note_async_write(destination.offset, bytes_);
        }
        return false;
      default:
        arrivals_.complete();
        return true;
    }
  }

  std::string describe() const override {
    return fmt::format("bulk copy of {} bytes from global {:#x} to shared {:#x}", bytes_, global_,
                       arrivals_.destinations().front().offset);
  }

 private:
  static constexpr const char* kWhat = "bulk copy from global memory";

  std::uint64_t global_;
  std::uint32_t bytes_;
  BulkArrivals arrivals_;
  std::vector<std::byte> data_;
  int step_ = 0;
};

class BulkStore final : public AsyncOperation {
 public:
  BulkStore(Cta& cta, std::uint32_t offset, std::uint64_t global, std::uint32_t bytes,
            std::optional<ReductionKind> reduction, std::uint16_t byte_mask, const ProgramPoint& point)
      : AsyncOperation(point),
        cta_(cta),
        offset_(offset),
        global_(global),
        bytes_(bytes),
        reduction_(reduction),
        byte_mask_(byte_mask),
        progress_(std::make_shared<BulkProgress>()) {
    const char* what = reduction_ ? "bulk reduction to global memory" : "bulk copy to global memory";
    progress_->flight = cta.shared().issue(MemoryAccess::kRead, offset, bytes, what, point);
    cta.shared().check_source(offset, bytes, what, point);
    progress_->written = cta.machine().observers().issue(MemoryAccess::kWrite, global, bytes, what, point,
                                                         reduction_.has_value());
    cta.extension<BulkGroups>().add(point.warp * kWarpSize + point.lane, progress_);
  }

  bool advance(Machine& machine) override {
    if (!progress_->source_read) {
      const std::byte* source = cta_.shared().data(offset_);
      data_.assign(source, source + bytes_);
      progress_->source_read = true;
      return false;
    }
    std::byte* destination = machine.memory().access(global_, bytes_, kBulkAlignment, true, issue());
    if (reduction_) {
      reduce_elements(reduction_->op, reduction_->type, destination, data_.data(), bytes_);
    } else {
      for (std::uint32_t i = 0; i < bytes_; ++i)
        if (byte_mask_ >> (i % 16) & 1) destination[i] = data_[i];
    }
    progress_->done = true;
    return true;
  }

  std::string describe() const override {
    return fmt::format("bulk {} of {} bytes from shared {:#x} to global {:#x}",
                       reduction_ ? "reduction" : "copy", bytes_, offset_, global_);
  }

 private:
  Cta& cta_;
  std::uint32_t offset_;
  std::uint64_t global_;
  std::uint32_t bytes_;
  std::optional<ReductionKind> reduction_;
  std::uint16_t byte_mask_;
  std::shared_ptr<BulkProgress> progress_;
  std::vector<std::byte> data_;
};

class BulkPeerCopy final : public AsyncOperation {
 public:
  BulkPeerCopy(Cta& cta, std::uint32_t offset, std::uint32_t bytes, const BulkDestination& destination,
               const ProgramPoint& point)
      : AsyncOperation(point),
        cta_(cta),
        offset_(offset),
        bytes_(bytes),
        arrivals_({destination}, bytes, bytes, kWhat, point, start_reading(cta, offset, bytes, point)) {}

  bool advance(Machine&) override {
    switch (step_++) {
      case 0:
        data_.assign(cta_.shared().data(offset_), cta_.shared().data(offset_) + bytes_);
        return false;
      case 1: {
        const BulkDestination& to = arrivals_.destinations().front();
        std::memcpy(to.cta->shared().data(to.offset), data_.data(), bytes_);
        to.cta->shared().note_async_write(to.offset, bytes_);
        return false;
      }
      default:
        arrivals_.complete();
        return true;
    }
  }

  std::string describe() const override {
    const BulkDestination& to = arrivals_.destinations().front();
    return fmt::format("bulk copy of {} bytes from shared {:#x} to shared {:#x} of CTA rank {}", bytes_,
                       offset_, to.offset, to.cta->rank());
  }

 private:
  static constexpr const char* kWhat = "bulk copy between CTAs";
  static FlightRef start_reading(Cta& cta, std::uint32_t offset, std::uint32_t bytes,
                                 const ProgramPoint& point) {
    const FlightRef flight = cta.shared().issue(MemoryAccess::kRead, offset, bytes, kWhat, point);
    cta.shared().check_source(offset, bytes, kWhat, point);
    return flight;
  }

  Cta& cta_;
  std::uint32_t offset_;
  std::uint32_t bytes_;
  BulkArrivals arrivals_;
  std::vector<std::byte> data_;
  int step_ = 0;
};

}  // namespace

void start_bulk_load(Machine& machine, std::uint64_t global, std::uint32_t bytes,
                     const std::vector<BulkDestination>& destinations, const ProgramPoint& point) {
  check_range("global address", global, bytes, point);
  for (const BulkDestination& destination : destinations)
    check_range("shared address", destination.offset, bytes, point);
  if (timing::Recorder* recorder = machine.recorder()) recorder->reads_global(point, global);
  machine.post(std::make_unique<BulkLoad>(global, bytes, destinations, point));
}

void start_bulk_store(Machine& machine, Cta& cta, std::uint32_t offset, std::uint64_t global,
                      std::uint32_t bytes, std::optional<ReductionKind> reduction, std::uint16_t byte_mask,
                      const ProgramPoint& point) {
  check_range("global address", global, bytes, point);
  check_range("shared address", offset, bytes, point);
  if (timing::Recorder* recorder = machine.recorder()) recorder->copies_out(point, bytes);
  machine.post(std::make_unique<BulkStore>(cta, offset, global, bytes, reduction, byte_mask, point));
}

void start_bulk_peer_copy(Machine& machine, Cta& cta, std::uint32_t offset, std::uint32_t bytes,
                          const BulkDestination& destination, const ProgramPoint& point) {
  check_range("source", offset, bytes, point);
  check_range("destination", destination.offset, bytes, point);
  machine.post(std::make_unique<BulkPeerCopy>(cta, offset, bytes, destination, point));
}

}  // namespace jfa::simulator
