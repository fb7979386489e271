#include "conformance/approximation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace jfa::conformance {
namespace {

constexpr std::uint32_t kThreads = 256, kBlocks = 1024;
constexpr double kSmallestNormal = 0x1p-126;

double reciprocal(double x) { return 1.0 / x; }
double reciprocal_sqrt(double x) { return 1.0 / std::sqrt(x); }
double third(double x) { return x / 3.0; }

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// How many steps from float to float lie between two of them.
std::uint64_t steps_between(float a, float b) {
  const auto ordered = [](float value) {
    const auto bits = static_cast<std::int32_t>(bits_of(value));
    return static_cast<std::int64_t>(bits < 0 ? -(bits & 0x7fffffff) : bits);
  };
  return static_cast<std::uint64_t>(std::abs(ordered(a) - ordered(b)));
}

}  // namespace

const std::vector<Sweep>& sweeps() {
  static const std::vector<Sweep> all = [] {
    std::vector<Sweep> list;
    const auto add = [&](const char* instruction, double (*exact)(double),
                         std::initializer_list<float> starts, double ulp, double absolute, double relative) {
      for (const float start : starts)
        list.push_back({fmt::format("{} from {}", instruction, start), fmt::format("{} %d, %a;", instruction),
                        bits_of(start), exact, ulp, absolute, relative});
    };
    const auto exp2 = [](double x) { return std::exp2(x); };
    const auto log2 = [](double x) { return std::log2(x); };
    const auto sqrt = [](double x) { return std::sqrt(x); };
    const auto sine = [](double x) { return std::sin(x); };
    const auto cosine = [](double x) { return std::cos(x); };
    const auto tanh = [](double x) { return std::tanh(x); };
    add("ex2.approx.ftz.f32", exp2, {1.0f, 0.5f, -1.0f, -0.03125f, -8.0f, 64.0f, -64.0f}, 2, 0, 0);
    add("ex2.approx.f32", exp2, {-1.0f, -128.0f}, 2, 0, 0);
    add("rcp.approx.ftz.f32", reciprocal, {1.0f, -0x1p60f}, 1, 0, 0);
    add("rcp.approx.f32", reciprocal, {1.0f}, 1, 0, 0);
    add("lg2.approx.ftz.f32", log2, {0.5f, 1.0f}, 0, 0x1p-22, 0);
    add("lg2.approx.ftz.f32", log2, {2.0f, 0x1p40f}, 0, 0, 0x1p-22);
    add("lg2.approx.f32", log2, {1.0f}, 0, 0x1p-22, 0);
    add("rsqrt.approx.ftz.f32", reciprocal_sqrt, {1.0f, 2.0f}, 0, 0, 0x1.1p-23);  // 2^-22.9
    add("sqrt.approx.ftz.f32", sqrt, {1.0f, 2.0f}, 0, 0, 0x1p-23);
    add("sin.approx.ftz.f32", sine, {1.0f, 2.0f}, 0, 0x1.6ap-21, 0);  // 2^-20.5
    add("cos.approx.ftz.f32", cosine, {1.0f, 2.0f}, 0, 0x1.6ap-21, 0);
    add("tanh.approx.f32", tanh, {0.5f, 1.0f}, 0, 0, 0x1p-11);
    list.push_back({"div.approx.ftz.f32 by 3 from 1", "div.approx.ftz.f32 %d, %a, 0f40400000;", bits_of(1.0f),
                    third, 2, 0, 0});
    list.push_back({"div.full.ftz.f32 by 3 from 1", "div.full.ftz.f32 %d, %a, 0f40400000;", bits_of(1.0f),
                    third, 2, 0, 0});
    return list;
  }();
  return all;
}

TestKernel sweep_kernel(const Sweep& sweep) {
  TestKernel kernel;
  kernel.grid.x = kBlocks;
  kernel.block.x = kThreads;
  kernel.output_bytes = std::size_t{kSweepRows} * 4;
  kernel.ptx = fmt::format(R"(.visible .entry test(.param .u64 out)
{{
.reg .b32 %index, %block, %a, %d; .reg .b64 %out, %address; .reg .pred %more;
mov.u32 %index, %tid.x;
mov.u32 %block, %ctaid.x;
mad.lo.u32 %index, %block, {0}, %index;
ld.param.u64 %out, [out];
NEXT: add.u32 %a, %index, {1};
{2}
mad.wide.u32 %address, %index, 4, %out;
st.global.b32 [%address], %d;
add.u32 %index, %index, {3};
setp.lt.u32 %more, %index, {4};
@%more bra NEXT;
ret;
}}
)",
                           kThreads, sweep.first_bits, sweep.instruction, kThreads * kBlocks, kSweepRows);
  return kernel;
}

SweepResult judge(const Sweep& sweep, std::span<const std::byte> results) {
  SweepResult result;
  result.digest = digest(results);
  for (std::uint32_t row = 0; row < kSweepRows; ++row) {
    const std::uint32_t input = sweep.first_bits + row;
    float got = 0;
    std::memcpy(&got, results.data() + std::size_t{row} * 4, 4);
    const double exact = sweep.exact(std::bit_cast<float>(input));
    const auto nearest = static_cast<float>(exact);
    if (bits_of(got) == bits_of(nearest)) {
      ++result.nearest;
      continue;
    }
    // What a flush makes of a denormal, and what lies past the largest float, is no error.
    if (std::fabs(exact) < kSmallestNormal && got == 0) continue;
    const double error = std::fabs(got - exact);
    const std::uint64_t ulps = steps_between(got, nearest);
    const double part = sweep.bound_ulp > 0        ? static_cast<double>(ulps) / sweep.bound_ulp
                        : sweep.bound_absolute > 0 ? error / sweep.bound_absolute
                                                   : error / std::fabs(exact) / sweep.bound_relative;
    result.worst_in_bound = std::isnan(part) ? INFINITY : std::max(result.worst_in_bound, part);
    if (ulps > result.worst_ulp) result.worst_ulp = ulps, result.worst_input = input;
  }
  return result;
}

std::string digest(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

}  // namespace jfa::conformance
