// What the tests of jfa-sim share: two kernels, and how the command is run.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "formats/host_array.h"
#include "tests/command_runner.h"

namespace jfa::test {

/// y = a·x + y in the first n of them.
inline constexpr const char* kAxpy = R"(.version 9.0
.target sm_100a
.address_size 64
.visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .b32 %i, %n, %t<4>; .reg .f32 %f<4>; .reg .b64 %p<4>; .reg .pred %q;
mov.u32 %i, %ctaid.x; mov.u32 %t0, %ntid.x; mov.u32 %t1, %tid.x;
mad.lo.u32 %i, %i, %t0, %t1;
ld.param.u32 %n, [n]; setp.ge.u32 %q, %i, %n; @%q ret;
ld.param.f32 %f0, [a]; ld.param.u64 %p0, [x]; ld.param.u64 %p1, [y];
mad.wide.u32 %p0, %i, 4, %p0; mad.wide.u32 %p1, %i, 4, %p1;
ld.global.f32 %f1, [%p0]; ld.global.f32 %f2, [%p1];
fma.rn.f32 %f3, %f0, %f1, %f2;
st.global.f32 [%p1], %f3;
ret;
}
)";

/// A box of 4 × 8 floats goes through a tensor map to shared memory and on to global; `wait` stands before
/// the reads. The map comes by value, the destination and the box's first column in a struct.
inline std::string box_kernel(const std::string& wait) {
  return R"(.version 9.0
.target sm_100a
.address_size 64
.visible .entry box(.param .align 64 .b8 map[128], .param .align 8 .b8 s[16])
{
.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;
.shared .align 128 .b8 tile[128];
.shared .align 8 .b64 full;
mov.u32 %r0, %tid.x;
setp.eq.u32 %p0, %r0, 0;
mov.u32 %r1, full;
mov.u32 %r2, tile;
@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.b64 %rd0, map;
cvta.param.u64 %rd0, %rd0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;
ld.param.u32 %r3, [s+8];
@%p0 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd0, {%r3, 0}], [%r1];
)" + wait +
         R"(
shl.b32 %r4, %r0, 2;
add.u32 %r5, %r2, %r4;
ld.shared.b32 %r6, [%r5];
ld.param.u64 %rd1, [s];
mad.wide.u32 %rd2, %r0, 4, %rd1;
st.global.b32 [%rd2], %r6;
ret;
}
)";
}
inline constexpr const char* kWait =
    "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n@!%p1 bra WAIT;";

/// The map that box_kernel takes: 10 rows of 14 floats, 16 apart.
inline std::string box_map(const std::string& strides = "[64]", const std::string& more = "") {
  return R"({"m": {"buffer": "t", "type": "F32", "extents": [14, 10], "strides_bytes": )" + strides +
         R"(, "box": [4, 8])" + more + "}}";
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline void write_npy(const std::string& path, const sim::HostArray& array) {
  write_text(path, sim::npy_bytes(array).value());
}

inline sim::HostArray float_array(std::vector<std::int64_t> shape, const std::vector<float>& values) {
  sim::HostArray array{"F32", std::move(shape), std::vector<std::byte>(values.size() * sizeof(float))};
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

inline std::vector<float> read_floats(const std::string& path) {
  const sim::HostArray array = sim::read_npy(path).value();
  REQUIRE(array.dtype == "F32");
  std::vector<float> values(array.bytes.size() / sizeof(float));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

inline CommandResult jfa_sim(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), JFA_SIM_TOOL);
  return run_command(arguments);
}

}  // namespace jfa::test
