// Elements of 4, 6 and 8 bits in programs around tcgen05.mma: what they are and where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "simulator/machine/float_format.h"
#include "simulator/tensor_core/instruction_descriptor.h"

namespace jfa::test {

const simulator::FloatFormat& float_format(simulator::MmaElement type);

/// Its code in an instruction descriptor.
std::uint32_t type_code(simulator::MmaElement type, simulator::MmaKind kind);

/// Puts the bits of element (row, k) where the shared-memory descriptor says: packed, or 16 in the first
/// bytes of every 16.
void store_element(std::vector<std::byte>& image, simulator::MmaKind kind, simulator::MmaElement type,
                   simulator::MatrixMajor major, std::uint64_t descriptor, std::uint32_t row, std::uint32_t k,
                   std::uint32_t bits);

/// Puts the bits of element k of A into the cells of its lane.
void store_tensor_element(std::uint32_t* cells, simulator::MmaKind kind, simulator::MmaElement type,
                          std::uint32_t k, std::uint32_t bits);

/// One of the small multiples of 1/2 that every type has.
double small_value(std::mt19937& random, simulator::MmaElement type);

}  // namespace jfa::test
