// What jfa-sim reads beside PTX: the first byte says as what the others are read.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "formats/host_array.h"
#include "formats/safetensors.h"
#include "tools/jfa_sim/launch_arguments.h"
#include "tools/jfa_sim/tensor_map_file.h"

namespace {

using namespace jfa;

// Arrays of so many bytes are legal, but no fuzzer wants to clear them.
constexpr std::size_t kMaxDescriptionDigits = 6;

void check_array(const Result<sim::HostArray>& array) {
  if (!array.ok()) {
    if (array.status().message().empty()) std::abort();
    return;
  }
  std::uint64_t bytes = sim::element_bytes(array->dtype).value();
  for (const std::int64_t extent : array->shape) bytes *= static_cast<std::uint64_t>(extent);
  if (bytes != array->bytes.size()) std::abort();
}

void check_map(const std::string& text) {
  const auto buffer = [](std::string_view name) -> Result<sim::BufferPlace> {
    if (name != "b") return Status::invalid_argument("there is no such buffer");
    return sim::BufferPlace{0x10'0000'0000, 4096};
  };
  const auto map = sim::parse_tensor_map("fuzz.json", text, "m", buffer);
  if (map.ok() ? map->size() != 128 : map.status().message().find("fuzz.json") != 0) std::abort();
}

void check_description(const std::string& text) {
  std::size_t digits = 0;
  for (const char c : text) digits += c >= '0' && c <= '9' ? 1 : 0;
  if (digits <= kMaxDescriptionDigits) check_array(sim::empty_array(text));
  const auto dim = sim::parse_dim3(text);
  if (dim && dim->count() == 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'n':
      check_array(sim::parse_npy("fuzz.npy", text));
      break;
    case 'm':
      check_map(text);
      break;
    case 'd':
      check_description(text);
      break;
    case 's':
      (void)safetensors::parse("fuzz.safetensors", std::as_bytes(std::span(text)));
      break;
    default:
      break;
  }
  return 0;
}
