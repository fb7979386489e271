#include "simulator/tensor_core/mma_sparse.h"

#include <fmt/format.h>

#include <cstring>

#include "simulator/tensor_core/metadata_nibble.h"
#include "simulator/tensor_core/mma.h"
#include "simulator/tensor_core/tensor_memory_state.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kTf32Elements = 8, kByteElements = 32;

}  // namespace

MetadataPlace metadata_place(std::uint32_t elements, std::uint32_t m, std::uint32_t k) {
  if (elements == kByteElements) return {m, k / 4};
  // Cells hold half of the elements of two rows eight apart; the other half lies eight lanes up.
  const std::uint32_t along_k = elements == kTf32Elements ? k / 2 : k / 4;  // of eight nibbles
  return {m % 8 + 16 * (m / 16) + 8 * (along_k / 4), m / 8 % 2 * 4 + along_k % 4};
}

MetadataPlace SparseMetadata::place(std::uint32_t m, std::uint32_t k) const {
  MetadataPlace place = metadata_place(elements, m, k);
  if (half_datapath) place.lane += m / kTensorBlockLanes * kTensorBlockLanes;
  place.lane += lane;
  return place;
}

std::uint32_t SparseMetadata::nibble(Cta& cta, std::uint32_t m, std::uint32_t k,
                                     const ProgramPoint& point) const {
  TensorMemory& memory = cta.extension<CtaTensorMemory>().memory();
  const MetadataPlace at = place(m, k);
  const std::uint32_t cell_column = column + at.nibble / 8;
  const auto read_at = [&](std::uint32_t from) {
    return memory.cell(from, cell_column) >> at.nibble % 8 * 4 & 0xf;
  };
  const std::uint32_t value = read_at(at.lane);
  for (std::uint32_t other = at.lane + rows; other < kTensorLanes && !half_datapath; other += rows)
    if (read_at(other) != value)
      fail_at(ErrorKind::kTensorMemory, point, TensorAddress(other, cell_column).bits(),
              fmt::format("the sparse metadata of row {} differs between lanes {} and {} of column {}: every "
                          "{} lanes must have it",
                          m, at.lane, other, cell_column, rows));
  return value;
}

void SparseMetadata::read(Cta& cta, std::vector<std::uint8_t>& positions, const ProgramPoint& point) const {
  const std::uint32_t group = metadata_group(kMmaStepBytes / elements);
  for (std::uint32_t m = 0; m < rows; ++m)
    for (std::uint32_t k = 0; k < 2 * elements; k += group) {
      const std::uint32_t bits = nibble(cta, m, k, point);
      const MetadataNibble kept = decode_metadata_nibble(bits, group, /*ascending=*/true);
      if (kept.wrong != nullptr) {
        const MetadataPlace at = place(m, k);
        fail_at(ErrorKind::kInvalidOperand, point, TensorAddress(at.lane, column + at.nibble / 8).bits(),
                fmt::format("the sparse metadata of row {}, k = {} … {} is {:#x}: {}", m, k * unit,
                            (k + group) * unit - 1, bits, kept.wrong));
      }
      for (std::uint32_t i = 0; i < kept.count; ++i)
        positions.push_back(static_cast<std::uint8_t>(k + kept.positions[i]));
    }
}

SparseMetadata sparse_metadata(std::uint32_t address_bits, const MmaForm& form,
                               const InstructionDescriptor& instruction, const ProgramPoint& point) {
  const TensorAddress address(address_bits);
  if (address.column % 2 != 0)
    fail_at(
        ErrorKind::kTensorMemory, point, address_bits,
        fmt::format("the sparse metadata at tensor memory {:#010x}: its column must be even", address_bits));
  return {address.lane, address.column + instruction.sparsity_selector,
          kMmaStepBytes / element_bytes(instruction.a_type),
          instruction.m / static_cast<std::uint32_t>(form.cta_group), is_packed_f4(form.kind) ? 2u : 1u};
}

void gather_step(std::span<const std::uint16_t> first_step, std::span<const std::uint16_t> second_step,
                 std::span<const std::uint8_t> positions, std::uint32_t bytes,
                 std::vector<std::uint16_t>& gathered) {
  gathered.resize(first_step.size());
  const std::uint32_t elements = kMmaStepBytes / bytes;
  for (std::size_t row = 0; row < first_step.size(); row += kMmaK)
    for (std::size_t i = 0; i < elements; ++i) {
      const bool second = positions[i] >= elements;
      const auto* step = reinterpret_cast<const std::byte*>(&(second ? second_step : first_step)[row]);
      std::memcpy(reinterpret_cast<std::byte*>(&gathered[row]) + i * bytes,
                  step + (positions[i] - (second ? elements : 0)) * bytes, bytes);
    }
}

SharedOperand second_step(const SharedOperand& b, const ProgramPoint& point) {
  b.check_row("B", point, 2 * kMmaStepBytes);
  SharedOperand second = b;
  second.descriptor = next_step(b.descriptor, b.major, b.bytes_per_element);
  return second;
}

MatrixDescriptor next_step(MatrixDescriptor descriptor, MatrixMajor major, std::uint32_t bytes_per_element) {
  const bool swizzled = descriptor.swizzle_bytes != 0;
  if (major == MatrixMajor::kK) {
    descriptor.start_address += swizzled ? kMmaStepBytes : 2 * descriptor.leading_byte_offset;
    return descriptor;
  }
  const std::uint32_t rows = descriptor.swizzle_atom_bytes == 32 ? 4 : 8;  // along k, of a group
  const std::uint32_t groups = kMmaStepBytes / bytes_per_element / rows;
  descriptor.start_address +=
      groups * (swizzled ? descriptor.stride_byte_offset : descriptor.leading_byte_offset);
  return descriptor;
}

}  // namespace jfa::simulator
