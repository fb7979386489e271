// What is checked of the shared memory of a CTA: races, and what engines own of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "simulator/checkers/async_shadow.h"
#include "simulator/checkers/race_shadow.h"
#include "simulator/machine/machine.h"
#include "simulator/machine/observer.h"

namespace jfa::simulator {

class SharedChecks final : public SharedObserver {
 public:
  explicit SharedChecks(Cta& cta);

  void read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
            const MemoryOrder& order) override;
  void write(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point,
             const MemoryOrder& order) override;
  void check_engines(MemoryAccess access, std::uint32_t offset, std::uint32_t bytes,
                     const ProgramPoint& point) override;
  bool replaces_engines(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const override;

  void issue(FlightId id, MemoryAccess access, std::uint32_t offset, std::uint32_t bytes, const char* what,
             const ProgramPoint& point, bool generic) override;
  void end_flight(FlightId id, const Epoch& event) override;
  void check_source(std::uint32_t offset, std::uint32_t bytes, const char* what,
                    const ProgramPoint& point) const override;
  bool may_read(std::uint32_t offset, std::uint32_t bytes, const ProgramPoint& point) const override;
  void issue_reduction(std::uint32_t offset, std::uint32_t bytes, const char* what,
                       const ProgramPoint& point) override;
  void reduce(std::uint32_t offset, std::uint32_t bytes, const char* what, const ProgramPoint& point,
              const Epoch& event) override;
  std::string explain(std::uint32_t offset, std::uint32_t bytes) const override;

  std::unique_ptr<MbarrierObserver> add_barrier(int warps) override;
  void use_barrier(std::uint32_t offset, const Epoch& init, const ProgramPoint& point) const override;

  void exit() override;

 private:
  Cta& cta_;
  RaceShadow races_;
  AsyncShadow flights_;
};

}  // namespace jfa::simulator
