#include "simulator/checkers/attach.h"

#include <utility>

#include "simulator/checkers/global_race_shadow.h"
#include "simulator/checkers/register_checks.h"
#include "simulator/checkers/shared_checks.h"
#include "simulator/checkers/tensor_map_proxy.h"
#include "simulator/checkers/tensor_memory_shadow.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

class GridChecks final : public Observer {
 public:
  explicit GridChecks(Machine& machine) : options_(machine.config().options), races_(machine) {}

  void add_cluster(std::shared_ptr<HappensBefore> order) override { races_.add_cluster(std::move(order)); }
  std::unique_ptr<SharedObserver> add_cta(Cta& cta) override { return std::make_unique<SharedChecks>(cta); }
  std::unique_ptr<TensorObserver> add_tensor_memory(Sm&) override {
    return std::make_unique<TensorMemoryShadow>(options_);
  }
  std::unique_ptr<RegisterObserver> add_warp(Warp& warp) override {
    return std::make_unique<RegisterChecks>(warp.machine().entry().watch, options_.load_waits);
  }

  void read(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
            const MemoryOrder& order) override {
    races_.read(address, bytes, point, order);
  }
  void write(std::uint64_t address, std::uint32_t bytes, const ProgramPoint& point,
             const MemoryOrder& order) override {
    races_.write(address, bytes, point, order);
  }
  void issue(FlightId id) override { races_.begin(id); }
  void access(FlightId id, MemoryAccess access, std::uint64_t address, std::uint32_t bytes, const char* what,
              const ProgramPoint& point, bool reduces) override {
    races_.access(id, access, address, bytes, what, point, reduces);
  }
  void end_flight(FlightId id, const Epoch& event) override { races_.end(id, event); }

  void change_map(const Warp& warp, int lane, std::uint64_t address, bool released) override {
    maps_.change(warp, lane, address, released);
  }
  void release_maps(const Warp& warp, LaneMask lanes) override { maps_.release(warp, lanes); }
  void acquire_map(const Warp& warp, int lane, std::uint64_t address) override {
    maps_.acquire(warp, lane, address);
  }
  void use_map(const Warp& warp, std::uint64_t address, const ProgramPoint& point) const override {
    maps_.check_use(warp, address, point);
  }

 private:
  const RunOptions& options_;
  GlobalRaceShadow races_;
  TensorMapProxy maps_;
};

}  // namespace

std::unique_ptr<Observer> make_checkers(Machine& machine) { return std::make_unique<GridChecks>(machine); }

}  // namespace jfa::simulator
