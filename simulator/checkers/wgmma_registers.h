// Registers that wgmma owns. From the instruction that starts a product until its warp has waited for it, the
// accumulator and an A operand in registers belong to the tensor core; and what a warp did to them before has
// to be fenced. Both are checked by what instructions name, so the verdict is the same on every schedule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/machine/observer.h"
#include "simulator/machine/program.h"

namespace jfa::simulator {

/// The registers of one warp that some wgmma of the entry names, by their index in RegisterWatch.
class WgmmaRegisters {
 public:
  using Indices = RegisterObserver::Indices;
  using Product = RegisterObserver::Product;

  explicit WgmmaRegisters(const RegisterWatch& watch) : watch_(watch), states_(watch.names.size()) {}

  /// Another instruction reads or writes registers. Throws kInFlight if one of them belongs to a product.
  void access(const Indices& registers, const ProgramPoint& point);
  /// wgmma.fence: accesses so far are ordered before the products behind it.
  void fence() { ++epoch_; }
  /// A product takes its registers. Throws kMissingFence, or kInFlight if another product has them and does
  /// not order itself with this one.
  void take(const Product& product);
  /// The warp has waited for all products up to this one.
  void release(std::uint64_t sequence);

 private:
  struct State {
    std::uint64_t accumulator_of = 0;  // sequence of the product that owns it; 0: none
    std::uint64_t operand_of = 0;      // of the last that reads it
    std::uint32_t accessed = 1;  // epoch of the last access; before the first fence all count as accessed
    std::uint32_t shaped = 0;    // epoch of the last product that accumulated here …
    std::uint32_t shape = 0;     // … and its shape
  };
  const Product& find(std::uint64_t sequence) const;
  [[noreturn]] void refuse_owned(std::uint16_t index, const char* what, const ProgramPoint& point) const;
  [[noreturn]] void refuse_unfenced(std::uint16_t index, const char* role, const char* why,
                                    const ProgramPoint& point) const;

  const RegisterWatch& watch_;
  std::vector<State> states_;
  std::vector<Product> products_;  // in flight
  std::uint32_t epoch_ = 1;
};

}  // namespace jfa::simulator
