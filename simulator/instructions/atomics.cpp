// atom and red: global, shared and generic, with their operations; vectors of floats.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "simulator/instructions/lanes.h"
#include "simulator/instructions/scope.h"
#include "simulator/machine/float_format.h"

namespace jfa::simulator {
namespace {

// Combines memory's old value with an operand (and a second one for cas).
using Update = u64 (*)(u64 old, u64 b, u64 c);

template <class T, auto f>
u64 with(u64 old, u64 b, u64) {
  return Lane<T>::put(f(Lane<T>::get(static_cast<typename Lane<T>::Storage>(old)),
                        Lane<T>::get(static_cast<typename Lane<T>::Storage>(b))));
}

u64 exchange(u64, u64 b, u64) { return b; }
u64 compare_and_swap(u64 old, u64 b, u64 c) { return old == b ? c : old; }
u64 increment(u64 old, u64 b, u64) { return static_cast<u32>(old) >= static_cast<u32>(b) ? 0 : old + 1; }
u64 decrement(u64 old, u64 b, u64) {
  return old == 0 || static_cast<u32>(old) > static_cast<u32>(b) ? static_cast<u32>(b) : old - 1;
}
u64 bits_of_sum(float sum) { return std::isnan(sum) ? 0x7fffffffu : std::bit_cast<u32>(sum); }
u64 add_f32(u64 old, u64 b, u64) {
  return bits_of_sum(std::bit_cast<float>(static_cast<u32>(old)) + std::bit_cast<float>(static_cast<u32>(b)));
}
u64 add_f32_ftz(u64 old, u64 b, u64) {  // global memory flushes subnormals
  const float sum = flush_to_zero(std::bit_cast<float>(static_cast<u32>(old))) +
                    flush_to_zero(std::bit_cast<float>(static_cast<u32>(b)));
  return bits_of_sum(flush_to_zero(sum));
}
u64 add_f64(u64 old, u64 b, u64) {
  return std::bit_cast<u64>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
}
u64 add_f64_global(u64 old, u64 b, u64 c) {  // in global memory a NaN stays as it is, even a signalling one
  for (const u64 bits : {b, old})
    if (std::isnan(std::bit_cast<double>(bits))) return bits;
  return add_f64(old, b, c);
}

template <const FloatFormat& format>
u64 add_half(u64 old, u64 b, u64) {
  const double sum = decode_float(static_cast<u32>(old), format) + decode_float(static_cast<u32>(b), format);
  return encode_float(sum, format, Rounding::kNearest);
}
template <const FloatFormat& format>
u64 add_half2(u64 old, u64 b, u64 c) {
  return add_half<format>(old & 0xffff, b & 0xffff, c) | add_half<format>(old >> 16, b >> 16, c) << 16;
}

struct Atomic {
  Space space = Space::kGeneric;
  AddressOperand address;
  int bytes = 4;
  Update combine = nullptr;
  std::vector<Slot> results;  // empty for red
  std::vector<Slot> operands;
  Slot second = kNoSlot;  // cas
  MemoryOrder order;
};

u64 get(Warp& warp, Slot slot, int lane, int bytes) {
  return bytes == 8 ? warp.lanes<u64>(slot)[lane] : warp.lanes<u32>(slot)[lane] & (~0ull >> (64 - bytes * 8));
}
void put(Warp& warp, Slot slot, int lane, int bytes, u64 value) {
  if (slot == kNoSlot) return;
  if (bytes == 8)
    warp.lanes<u64>(slot)[lane] = value;
  else
    warp.lanes<u32>(slot)[lane] = static_cast<u32>(value);
}

Step atomic(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& a = in.data<Atomic>();
  const std::size_t count = a.operands.size();
  const auto bytes = static_cast<std::size_t>(a.bytes);
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(active >> i & 1)) continue;
    const u64 base =
        a.address.is_64_bit ? warp.lanes<u64>(a.address.base)[i] : warp.lanes<u32>(a.address.base)[i];
    const u64 address = base + static_cast<u64>(a.address.displacement);
    const ProgramPoint point = warp.point(in, i);
    const u32 all_bytes = static_cast<u32>(bytes * count);
    warp.locate(a.space, address, all_bytes, false, point, a.order);  // it reads, too
    std::byte* memory = warp.locate(a.space, address, all_bytes, true, point, a.order);
    for (std::size_t k = 0; k < count; ++k) {
      u64 old = 0;
      std::memcpy(&old, memory + k * bytes, bytes);
      const u64 second = a.second == kNoSlot ? 0 : get(warp, a.second, i, a.bytes);
      const u64 fresh = a.combine(old, get(warp, a.operands[k], i, a.bytes), second);
      std::memcpy(memory + k * bytes, &fresh, bytes);
      if (!a.results.empty()) put(warp, a.results[k], i, a.bytes, old);
    }
  }
  return Step::kNext;
}

struct Operation {
  const char* name;
  const char* types;
  Update combine;
};

template <class T>
constexpr Update kMin = with<T, [](T a, T b) { return std::min(a, b); }>;
template <class T>
constexpr Update kMax = with<T, [](T a, T b) { return std::max(a, b); }>;

const Operation kOperations[] = {
    {"add", "(u32|s32)", with<u32, [](u32 a, u32 b) { return a + b; }>},
    {"add", "(u64|s64)", with<u64, [](u64 a, u64 b) { return a + b; }>},
    {"and", "(b32|b64)", [](u64 old, u64 b, u64) { return old & b; }},
    {"or", "(b32|b64)", [](u64 old, u64 b, u64) { return old | b; }},
    {"xor", "(b32|b64)", [](u64 old, u64 b, u64) { return old ^ b; }},
    {"inc", "u32", increment},
    {"dec", "u32", decrement},
    {"min", "u32", kMin<u32>},
    {"min", "s32", kMin<s32>},
    {"min", "u64", kMin<u64>},
    {"min", "s64", kMin<s64>},
    {"max", "u32", kMax<u32>},
    {"max", "s32", kMax<s32>},
    {"max", "u64", kMax<u64>},
    {"max", "s64", kMax<s64>},
    {"exch", "(b32|b64)", exchange},
    {"cas", "(b16|b32|b64)", compare_and_swap},
    {"add", "f32", add_f32},
    {"add", "f64", add_f64},
    {"add.noftz", "f16", add_half<kFloat16>},
    {"add.noftz", "bf16", add_half<kBfloat16>},
    {"add.noftz", "f16x2", add_half2<kFloat16>},
    {"add.noftz", "bf16x2", add_half2<kBfloat16>},
};

int bits_of(std::string_view type) {
  if (type == "f16x2" || type == "bf16x2") return 32;
  if (type == "bf16") return 16;
  return std::stoi(std::string(type.substr(1)));
}

void decode_atomic(Decoder& d, Update combine, bool returns) {
  Atomic a;
  a.space = d.has("global")                           ? Space::kGlobal
            : d.has("shared::cluster")                ? Space::kSharedCluster
            : d.has("shared") || d.has("shared::cta") ? Space::kShared
                                                      : Space::kGeneric;
  a.order.strong = a.order.updates = true;
  a.order.acquires = d.has("acquire") || d.has("acq_rel");
  a.order.releases = d.has("release") || d.has("acq_rel");
  a.order.scope = scope_of(d);
  const bool is_shared = a.space == Space::kShared || a.space == Space::kSharedCluster;
  a.combine = is_shared            ? combine
              : combine == add_f32 ? add_f32_ftz
              : combine == add_f64 ? add_f64_global
                                   : combine;
  const int bits = bits_of(d.first_of(
      {"u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64", "b16", "f16", "bf16", "f16x2", "bf16x2"}));
  a.bytes = bits / 8;
  const int first = returns ? 1 : 0;
  a.address = d.address(first);
  a.operands = d.vector_source(first + 1, bits);
  if (combine == compare_and_swap) a.second = d.source(first + 2, bits);
  if (d.has("L2::cache_hint")) d.source(first + (combine == compare_and_swap ? 3 : 2), 64);
  if (returns) {
    a.results = d.vector_destination(0, bits);
    if (a.results.size() != a.operands.size()) d.fail("vectors of different sizes");
  }
  if (a.operands.size() > 1 && a.space != Space::kGlobal) d.fail("vector atomics are for .global only");
  const Atomic* data = d.attach(std::move(a));
  d.emit(atomic).extra = data;
}

}  // namespace

void register_atomics(InstructionTable& t) {
  const std::string head =
      " .(relaxed|acquire|release|acq_rel)? .(cta|cluster|gpu|sys)? "
      ".(global|shared|shared::cta|shared::cluster)? ";
  for (const Operation& o : kOperations) {
    const Update combine = o.combine;
    const std::string tail = std::string(".") + o.name + " .L2::cache_hint? .(v2|v4|v8)? ." + o.types;
    t.add("atom" + head + tail, [combine](Decoder& d) { decode_atomic(d, combine, true); });
    t.add("red" + head + tail, [combine](Decoder& d) { decode_atomic(d, combine, false); });
  }
}

}  // namespace jfa::simulator
