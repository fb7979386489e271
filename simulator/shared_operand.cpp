#include "simulator/shared_operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "simulator/race_shadow.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kChunkBytes = 16;

// Calls function(address, mn, k) for each 16-byte chunk of the rows; (mn, k) is its first element.
template <class Function>
void for_each_chunk(const SharedOperand& operand, std::uint32_t first_row, std::uint32_t row_count,
                    Function function) {
  const bool k_major = operand.major == MatrixMajor::kK;
  const std::uint32_t bytes = operand.bytes_per_element;
  const std::uint32_t mn_step = k_major ? 1 : kChunkBytes / bytes;
  const std::uint32_t k_step = k_major ? kChunkBytes / bytes : 1;
  for (std::uint32_t mn = first_row; mn < first_row + row_count; mn += mn_step) {
    for (std::uint32_t k = 0; k < operand.row_bytes / bytes; k += k_step) {
      function(chunk_address(operand.descriptor, operand.major, mn, k, bytes), mn, k);
    }
  }
}

// The 16 elements of a chunk, a byte each.
void expand_chunk(const std::byte* chunk, std::uint32_t bits, std::byte (&elements)[kChunkBytes]) {
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

void check_chunks(const SharedMemory& shared, const AsyncShadow& shadow,
                  std::span<const std::uint32_t> addresses, std::uint32_t bytes, std::uint32_t chunk_bytes,
                  const char* what, const ProgramPoint& point) {
  if (!shared.checks()) return;
  const std::uint32_t first = addresses.front();
  if (shared.first_uninitialised(first, bytes) < 0 && shared.races()->engine_may_read(first, bytes, point))
    return;
  // Something in the interval is amiss; it counts only if it lies in the operand.
  for (const std::uint32_t address : addresses) shadow.check_source(address, chunk_bytes, what, point);
}

}  // namespace

void SharedOperand::check_row(const char* name, const ProgramPoint& point) const {
  if (major != MatrixMajor::kK || descriptor.swizzle_bytes == 0) return;
  if (descriptor.start_address % descriptor.swizzle_bytes + kMmaStepBytes <= descriptor.swizzle_bytes) return;
  fail_at(ErrorKind::kDescriptor, point, descriptor.start_address,
          fmt::format(
              "the {} operand starts at shared {:#x}: {} bytes of K from there cross the end of its {}-byte "
              "swizzled row",
              name, descriptor.start_address, kMmaStepBytes, descriptor.swizzle_bytes));
}

void SharedOperand::read(const SharedMemory& shared, std::uint16_t* row_words) const {
  auto* rows_out = reinterpret_cast<std::byte*>(row_words);
  for_each_chunk(*this, 0, rows, [&](std::uint32_t address, std::uint32_t mn, std::uint32_t k) {
    const std::byte* chunk = shared.data(address);
    std::byte expanded[kChunkBytes];
    if (packed_bits < 8) {
      expand_chunk(chunk, packed_bits, expanded);
      chunk = expanded;
    }
    if (major == MatrixMajor::kK) {
      std::memcpy(rows_out + mn * kMmaStepBytes + k * bytes_per_element, chunk, kChunkBytes);
      return;
    }
    for (std::uint32_t i = 0; i < kChunkBytes / bytes_per_element; ++i)
      std::memcpy(rows_out + (mn + i) * kMmaStepBytes + k * bytes_per_element, chunk + i * bytes_per_element,
                  bytes_per_element);
  });
}

void SharedOperand::begin(Cta& cta, std::uint32_t first_row, std::uint32_t row_count, const char* what,
                          const ProgramPoint& point, std::vector<FlightRef>& flights) const {
  constexpr std::uint32_t kGapBytes = 256;  // pieces closer than two swizzled rows are one interval
  std::vector<std::uint32_t> addresses;
  for_each_chunk(*this, first_row, row_count,
                 [&](std::uint32_t address, std::uint32_t, std::uint32_t) { addresses.push_back(address); });
  if (!std::is_sorted(addresses.begin(), addresses.end())) std::sort(addresses.begin(), addresses.end());
  AsyncShadow& shadow = cta.extension<AsyncShadow>();
  for (std::size_t i = 0; i < addresses.size();) {
    std::size_t end = i + 1;
    while (end < addresses.size() && addresses[end] <= addresses[end - 1] + kGapBytes) ++end;
    const std::uint32_t bytes = addresses[end - 1] + kChunkBytes - addresses[i];
    flights.push_back({&shadow, shadow.begin(AsyncShadow::Access::kRead, addresses[i], bytes, what, point)});
    check_chunks(cta.shared(), shadow, std::span(addresses).subspan(i, end - i), bytes, 2 * packed_bits, what,
                 point);
    i = end;
  }
}

}  // namespace jfa::simulator
