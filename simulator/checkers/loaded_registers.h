// Registers of tcgen05.ld: until its warp has executed wait::ld, they belong to the load. Checked by what
// instructions name, so the verdict is the same on every schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/machine/observer.h"
#include "simulator/machine/program.h"

namespace jfa::simulator {

/// The registers of one warp that some tcgen05.ld of the entry names, by their index in RegisterWatch.
class LoadedRegisters {
 public:
  using Indices = RegisterObserver::Indices;

  explicit LoadedRegisters(const RegisterWatch& watch) : watch_(watch), loading_(watch.names.size()) {}

  /// Another instruction reads or writes registers. Throws kInFlight if one of them belongs to a load.
  void access(const Indices& registers, const ProgramPoint& point) const;
  void load(const Indices& registers, const ProgramPoint& point);
  /// The warp has waited for its loads.
  void release();

 private:
  const RegisterWatch& watch_;
  std::vector<std::uint32_t> loading_;  // by register: the load that owns it, + 1; 0: none
  std::vector<ProgramPoint> loads_;     // until wait::ld
};

}  // namespace jfa::simulator
