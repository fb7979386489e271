// Registers of a warp that the tensor core owns, of either generation.
#pragma once

#include "simulator/checkers/loaded_registers.h"
#include "simulator/checkers/wgmma_registers.h"
#include "simulator/machine/observer.h"

namespace jfa::simulator {

class RegisterChecks final : public RegisterObserver {
 public:
  /// `load_waits`: RunOptions.
  RegisterChecks(const RegisterWatch& watch, bool load_waits)
      : products_(watch), loads_(watch), load_waits_(load_waits) {}

  void access(const Indices& registers, const ProgramPoint& point) override {
    products_.access(registers, point);
  }
  void access_loaded(const Indices& registers, const ProgramPoint& point) override {
    loads_.access(registers, point);
  }
  void fence() override { products_.fence(); }
  void take(const Product& product) override { products_.take(product); }
  void release(std::uint64_t sequence) override { products_.release(sequence); }
  void load(const Indices& registers, const ProgramPoint& point) override {
    if (load_waits_) loads_.load(registers, point);
  }
  void wait_loads() override { loads_.release(); }

 private:
  WgmmaRegisters products_;
  LoadedRegisters loads_;
  bool load_waits_;
};

}  // namespace jfa::simulator
