#include "simulator/tensor_core/shared_operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "simulator/tensor_core/operand_layout.h"

namespace jfa::simulator {
namespace {

// The 16 elements of a chunk, a byte each.
void expand_chunk(const std::byte* chunk, std::uint32_t bits, std::byte (&elements)[kOperandChunkBytes]) {
  std::uint32_t pool = 0, pooled_bits = 0;
  for (std::byte& element : elements) {
    if (pooled_bits < bits) {
      pool |= std::to_integer<std::uint32_t>(*chunk++) << pooled_bits;
      pooled_bits += 8;
    }
    element = static_cast<std::byte>(pool & ((1u << bits) - 1));
    pool >>= bits;
    pooled_bits -= bits;
  }
}

// The elements of a chunk of several rows go to one place in each.
template <std::uint32_t kElementBytes>
void spread_chunk(const std::byte* chunk, std::byte* to) {
  for (std::uint32_t i = 0; i < kOperandChunkBytes / kElementBytes; ++i)
    std::memcpy(to + i * kMmaStepBytes, chunk + i * kElementBytes, kElementBytes);
}

// What lies in an interval of the layout is amiss; it counts only if it lies in the operand.
void check_chunks(const OperandLayout& layout, const OperandLayout::Interval& interval,
                  const SharedMemory& memory, std::uint32_t chunk_bytes, const char* what,
                  const ProgramPoint& point) {
  std::vector<std::uint32_t> chunks = layout.chunks;
  std::sort(chunks.begin(), chunks.end());
  for (const std::uint32_t chunk : chunks)
    if (chunk - interval.begin < interval.bytes) memory.check_source(chunk, chunk_bytes, what, point);
}

}  // namespace

void SharedOperand::check_row(const char* name, const ProgramPoint& point, std::uint32_t bytes) const {
  if (major != MatrixMajor::kK || descriptor.swizzle_bytes == 0) return;
  if (descriptor.start_address % descriptor.swizzle_bytes + bytes <= descriptor.swizzle_bytes) return;
  fail_at(ErrorKind::kDescriptor, point, descriptor.start_address,
          fmt::format(
              "the {} operand starts at shared {:#x}: {} bytes of K from there cross the end of its {}-byte "
              "swizzled row",
              name, descriptor.start_address, bytes, descriptor.swizzle_bytes));
}

void SharedOperand::read(Cta& cta, std::uint16_t* row_words) const {
  auto* const rows_out = reinterpret_cast<std::byte*>(row_words);
  const bool k_major = major == MatrixMajor::kK;
  const std::uint32_t elements = kOperandChunkBytes / bytes_per_element;
  const auto spread = bytes_per_element == 1   ? spread_chunk<1>
                      : bytes_per_element == 2 ? spread_chunk<2>
                                               : spread_chunk<4>;
  const std::uint32_t* address = cta.machine().extension<OperandLayouts>().of(*this, 0, rows).chunks.data();
  for (std::uint32_t mn = 0; mn < rows; mn += k_major ? 1 : elements) {
    for (std::uint32_t k = 0; k < row_bytes / bytes_per_element; k += k_major ? elements : 1) {
      const std::byte* chunk = cta.shared().data(*address++);
      std::byte expanded[kOperandChunkBytes];
      if (packed_bits < 8) {
        expand_chunk(chunk, packed_bits, expanded);
        chunk = expanded;
      }
      std::byte* const to = rows_out + mn * kMmaStepBytes + k * bytes_per_element;
      if (k_major)
        std::memcpy(to, chunk, kOperandChunkBytes);
      else
        spread(chunk, to);
    }
  }
}

void SharedOperand::begin(Cta& cta, std::uint32_t first_row, std::uint32_t row_count, const char* what,
                          const ProgramPoint& point, std::vector<FlightRef>& flights) const {
  const OperandLayout& layout = cta.machine().extension<OperandLayouts>().of(*this, first_row, row_count);
  SharedMemory& memory = cta.shared();
  for (const OperandLayout::Interval& i : layout.intervals) {
    flights.push_back(memory.issue(MemoryAccess::kRead, i.begin, i.bytes, what, point));
    if (!memory.may_read(i.begin, i.bytes, point))
      check_chunks(layout, i, memory, 2 * packed_bits, what, point);
  }
}

}  // namespace jfa::simulator
