// An operand of a tensor core instruction that lies in shared memory, one step of K: where its elements are,
// and what who watches is told of its reading.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/machine/flight.h"
#include "simulator/machine/machine.h"
#include "simulator/tensor_core/matrix_descriptor.h"
#include "simulator/tensor_core/mma.h"

namespace jfa::simulator {

/// `rows` rows (of A, or columns of B) of one step, 32 bytes, in one CTA's shared memory.
struct SharedOperand {
  MatrixDescriptor descriptor;
  MatrixMajor major = MatrixMajor::kK;
  std::uint32_t rows = 0;
  std::uint32_t bytes_per_element = 2;
  std::uint32_t packed_bits = 8;  // 4 or 6: the 16 elements of a chunk lie in its first 8 or 12 bytes
  std::uint32_t row_bytes =
      kMmaStepBytes;  // less of a row is moved, but it is read to where a whole one would lie

  /// Throws kDescriptor if so many bytes of K run over the end of their swizzled row: what lies there is not
  /// documented.
  void check_row(const char* name, const ProgramPoint& point, std::uint32_t bytes = kMmaStepBytes) const;

  /// Reads all rows, 16 words each. Elements of 4 or 6 bits get a byte each.
  void read(Cta& cta, std::uint16_t* row_words) const;

  /// Checks rows [first_row, first_row + row_count), multiples of 8, and puts them in flight, as few
  /// intervals. what: "the A operand of tcgen05.mma".
  void begin(Cta& cta, std::uint32_t first_row, std::uint32_t row_count, const char* what,
             const ProgramPoint& point, std::vector<FlightRef>& flights) const;
};

}  // namespace jfa::simulator
