#include "simulator/shared_operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kChunkBytes = 16;
constexpr std::uint32_t kChunkElements = 8;

// Calls function(address, mn, k) for each 16-byte chunk of the rows; (mn, k) is its first element.
template <class Function>
void for_each_chunk(const SharedOperand& operand, std::uint32_t first_row, std::uint32_t row_count,
                    Function function) {
  const bool k_major = operand.major == MatrixMajor::kK;
  const std::uint32_t mn_step = k_major ? 1 : kChunkElements;
  const std::uint32_t k_step = k_major ? kChunkElements : 1;
  for (std::uint32_t mn = first_row; mn < first_row + row_count; mn += mn_step) {
    for (std::uint32_t k = 0; k < kMmaK; k += k_step) {
      function(chunk_address(operand.descriptor, operand.major, mn, k), mn, k);
    }
  }
}

void check_chunks(const SharedMemory& shared, const AsyncShadow& shadow,
                  std::span<const std::uint32_t> addresses, std::uint32_t bytes, const char* what,
                  const ProgramPoint& point) {
  if (!shared.checks()) return;
  const std::uint32_t first = addresses.front();
  if (shared.first_uninitialised(first, bytes) < 0 && shared.unfenced_writer(first, bytes) < 0) return;
  // Something in the interval is amiss; it counts only if it lies in the operand.
  for (const std::uint32_t address : addresses) shadow.check_source(address, kChunkBytes, what, point);
}

}  // namespace

void SharedOperand::check_row(const char* name, const ProgramPoint& point) const {
  constexpr std::uint32_t kStepBytes = kMmaK * sizeof(std::uint16_t);
  if (major != MatrixMajor::kK || descriptor.swizzle_bytes == 0) return;
  if (descriptor.start_address % descriptor.swizzle_bytes + kStepBytes <= descriptor.swizzle_bytes) return;
  fail_at(ErrorKind::kDescriptor, point, descriptor.start_address,
          fmt::format(
              "the {} operand starts at shared {:#x}: {} bytes of K from there cross the end of its {}-byte "
              "swizzled row",
              name, descriptor.start_address, kStepBytes, descriptor.swizzle_bytes));
}

void SharedOperand::read(const SharedMemory& shared, std::uint16_t* elements) const {
  for_each_chunk(*this, 0, rows, [&](std::uint32_t address, std::uint32_t mn, std::uint32_t k) {
    std::uint16_t chunk[kChunkElements];
    std::memcpy(chunk, shared.data(address), kChunkBytes);
    for (std::uint32_t i = 0; i < kChunkElements; ++i) {
      const std::uint32_t row = major == MatrixMajor::kK ? mn : mn + i;
      const std::uint32_t column = major == MatrixMajor::kK ? k + i : k;
      elements[row * kMmaK + column] = chunk[i];
    }
  });
}

void SharedOperand::begin(Cta& cta, std::uint32_t first_row, std::uint32_t row_count, const char* what,
                          const ProgramPoint& point, std::vector<FlightRef>& flights) const {
  constexpr std::uint32_t kGapBytes = 256;  // pieces closer than two swizzled rows are one interval
  std::vector<std::uint32_t> addresses;
  for_each_chunk(*this, first_row, row_count,
                 [&](std::uint32_t address, std::uint32_t, std::uint32_t) { addresses.push_back(address); });
  std::sort(addresses.begin(), addresses.end());
  AsyncShadow& shadow = cta.extension<AsyncShadow>();
  for (std::size_t i = 0; i < addresses.size();) {
    std::size_t end = i + 1;
    while (end < addresses.size() && addresses[end] <= addresses[end - 1] + kGapBytes) ++end;
    const std::uint32_t bytes = addresses[end - 1] + kChunkBytes - addresses[i];
    flights.push_back({&shadow, shadow.begin(AsyncShadow::Access::kRead, addresses[i], bytes, what, point)});
    check_chunks(cta.shared(), shadow, std::span(addresses).subspan(i, end - i), bytes, what, point);
    i = end;
  }
}

}  // namespace jfa::simulator
