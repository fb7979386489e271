// Tensor maps that kernels make or change: tensormap.replace, tensormap.cp_fenceproxy and the fences of the
// tensormap proxy.
#include <doctest/doctest.h>

#include "tests/simulator/tma_support.h"

namespace jfa::simulator::tensormap_test {

namespace {

constexpr std::uint64_t kTileBytes = 16384;

// The map in shared memory, behind the tile, and in global memory, behind the copied tile.
const std::string kSharedMap = "[tile+16384]";
const std::string kGlobalMap = "[%map]";
const std::string kSetGlobalMap = "add.u64 %map, %out, 65536;\n";

std::string replace(const std::string& field, const std::string& operands,
                    const std::string& map = kSharedMap) {
  const bool wide = field == "global_address" || field == "global_stride";
  return "@%first tensormap.replace.tile." + field + (map == kSharedMap ? ".shared::cta" : ".global") +
         (wide ? ".b1024.b64 " : ".b1024.b32 ") + map + ", " + operands + ";\n";
}

struct Setting {
  std::string field, operands;
};

// What Triton sets of a map of 64×128 bf16 at %in, rows of 128 bytes, boxes of the whole under the 128-byte
// swizzle.
std::vector<Setting> whole_map() {
  return {{"global_address", "%in"},  {"rank", "1"},
          {"box_dim", "0, 64"},       {"box_dim", "1, 128"},
          {"global_dim", "0, 64"},    {"global_dim", "1, 128"},
          {"global_stride", "0, %a"}, {"element_stride", "0, 1"},
          {"element_stride", "1, 1"}, {"elemtype", "10"},
          {"swizzle_mode", "3"}};
}

std::string replace_all(const std::vector<Setting>& settings) {
  std::string text = "mov.b64 %a, 128;\n";
  for (const Setting& s : settings) text += replace(s.field, s.operands);
  return text;
}

// The first warp does `body` alone.
std::string first_warp(const std::string& body) {
  return "setp.ge.u32 %q, %t, 32;\n@%q bra OTHERS;\n" + body + "OTHERS: bar.sync 0;\n";
}

const std::string kWordOfMap = "shl.b32 %r2, %t, 2;\nmov.u32 %r1, tile;\nadd.u32 %r1, %r1, %r2;\n";
const std::string kZeros = kWordOfMap + "st.shared.u32 [%r1+16384], 0;\nbar.warp.sync 0xffffffff;\n";
// Of the map that was passed by value.
const std::string kCopyOfMap =
    kWordOfMap +
    "cvt.u64.u32 %b, %r2;\nadd.u64 %b, %map, %b;\nld.u32 %r3, [%b];\nst.shared.u32 [%r1+16384], %r3;\n"
    "bar.warp.sync 0xffffffff;\n";
const std::string kPublish =
    "bar.warp.sync 0xffffffff;\ntensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
    ".sync.aligned [%map], [tile+16384], 128;\n";
const std::string kAcquire = "fence.proxy.tensormap::generic.acquire.gpu [%map], 128;\n";
const std::string kRelease = "fence.proxy.tensormap::generic.release.gpu;\n";

std::string load_through(const std::string& make) {
  return kPrologue + first_warp(make) + kLoad + kWait + kCopyOut;
}

void fill_input(PtxRun& run) {
  for (std::uint32_t i = 0; i < PtxRun::kBytes / 4; ++i) run.input<std::uint32_t>()[i] = i * 2654435761u;
}

std::vector<std::byte> loaded(PtxRun& run) {
  std::vector<std::byte> tile(kTileBytes);
  std::memcpy(tile.data(), run.memory.host(run.out, kTileBytes), kTileBytes);
  return tile;
}

// What a kernel that makes its own map loads is what the host's map at `offset` of the input gives.
void check_loads_as(const std::string& make, std::uint64_t offset, const MapArguments& host) {
  PtxRun expected(kPrologue + kLoad + kWait + kCopyOut);
  fill_input(expected);
  set_map(expected, expected.in + offset, host);
  REQUIRE(expected.launch(128).ok);
  PtxRun run(load_through(make));
  fill_input(run);
  set_map(run, run.in, {});
  check_runs(run, 128, [&] { CHECK(loaded(run) == loaded(expected)); });
}

std::vector<Setting> without(const std::string& field, const std::string& start) {
  std::vector<Setting> left;
  for (const Setting& s : whole_map())
    if (s.field != field || !s.operands.starts_with(start)) left.push_back(s);
  return left;
}

}  // namespace

TEST_CASE("a map made of zeros loads as the host's does") {
  std::vector<Setting> settings = whole_map();
  check_loads_as(kZeros + replace_all(settings) + kSetGlobalMap + kPublish + kAcquire, 0, {});
  for (const char* field : {"interleave_layout", "swizzle_atomicity", "fill_mode"})
    settings.push_back({field, "0"});
  check_loads_as(kZeros + replace_all(settings) + kSetGlobalMap + kPublish + kAcquire, 0, {});
}

TEST_CASE("a map made of zeros stores as the host's does") {
  const std::string store = kFence + kSync + kStore + "@%first cp.async.bulk.wait_group 0;\n";
  PtxRun expected(kPrologue + kFill + store);
  set_map(expected, expected.out, {});
  REQUIRE(expected.launch(128).ok);
  std::vector<Setting> settings = whole_map();
  settings[0].operands = "%out";
  PtxRun run(kPrologue + kFill +
             first_warp(kZeros + replace_all(settings) + kSetGlobalMap + kPublish + kAcquire) + store);
  check_runs(run, 128, [&] { CHECK(loaded(run) == loaded(expected)); });
}

TEST_CASE("a grouped GEMM's map: address, extents and stride of the host's are replaced, and again") {
  const std::string change = "add.u64 %a, %in, 32768;\n" + replace("global_address", "%a") +
                             "mov.u32 %r4, 100;\n" + replace("global_dim", "1, %r4") + "mov.b64 %a, 256;\n" +
                             replace("global_stride", "0, %a");
  const std::string first = "add.u64 %a, %in, 64;\n" + replace("global_address", "%a");
  MapArguments host;
  host.dim = {64, 100};
  host.stride = {256};
  check_loads_as(kCopyOfMap + kSetGlobalMap + change + kPublish + kAcquire, 32768, host);
  check_loads_as(kCopyOfMap + kSetGlobalMap + first + kPublish + kAcquire + change + kPublish + kAcquire,
                 32768, host);
}

TEST_CASE("a map changed where it lies in global memory") {
  const std::string first_map = kCopyOfMap + kSetGlobalMap + kPublish;
  check_loads_as(first_map + "add.u64 %a, %in, 4096;\n" + replace("global_address", "%a", kGlobalMap) +
                     "@%first " + kRelease + "@%first " + kAcquire,
                 4096, {});
}

TEST_CASE("a rank below the host's leaves its other dimensions out") {
  PtxRun run(kPrologue +
             first_warp(kCopyOfMap + kSetGlobalMap + replace("rank", "0") + replace("global_dim", "0, 48") +
                        kPublish + kAcquire) +
             R"(
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    @%first cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%map, {0}], [bar];
  )" + kWait +
             "cvt.u64.u32 %a, %r2;\nsetp.lt.u32 %q, %t, 32;\nadd.u64 %a, %out, %a;\n"
             "@%q ld.shared.u32 %r4, [%r1];\n@%q st.global.u32 [%a], %r4;\n");
  fill_input(run);
  set_map(run, run.in, {});
  check_runs(run, 128, [&] {
    for (std::uint32_t i = 0; i < 32; ++i)
      CHECK(run.output<std::uint32_t>(i) == (i < 24 ? run.input<std::uint32_t>()[i] : 0));
  });
}

TEST_CASE("values and maps that are wrong, by field") {
  const auto loads = [](const std::string& make) {
    return load_through(make + kSetGlobalMap + kPublish + kAcquire);
  };
  const auto changed = [&](const std::string& field, const std::string& operands) {
    return loads(kCopyOfMap + "mov.b64 %a, 264;\n" + replace(field, operands));
  };
  check_mistakes({
      {"rank", changed("rank", "5"), ErrorKind::kDescriptor, "rank = 5 is not in 0..4"},
      {"box", changed("box_dim", "1, 257"), ErrorKind::kDescriptor, "box_dim[1] = 257 is not in 1..256"},
      {"element stride", changed("element_stride", "1, 9"), ErrorKind::kDescriptor,
       "element_stride[1] = 9 is not in 1..8"},
      {"type", changed("elemtype", "16"), ErrorKind::kDescriptor, "elemtype = 16 is not in 0..15"},
      {"extent", changed("global_dim", "1, 0"), ErrorKind::kDescriptor, "globalDim[1] = 0 is not in 1..2^32"},
      {"stride", changed("global_stride", "0, %a"), ErrorKind::kDescriptor,
       "globalStrides[0] = 264 is not a multiple of 16"},
      {"address", changed("global_address", "%a"), ErrorKind::kDescriptor,
       "globalAddress = 0x108 is not 16-byte aligned"},
      {"box beyond the swizzle", changed("elemtype", "7"), ErrorKind::kDescriptor,
       "more than the swizzle's 128"},
      {"swizzle", changed("swizzle_atomicity", "2"), ErrorKind::kDescriptor, "flipped halves"},
      {"swizzle and atomicity",
       loads(kCopyOfMap + replace("swizzle_mode", "2") + replace("swizzle_atomicity", "1")),
       ErrorKind::kDescriptor, "swizzle_mode = 2 with swizzle_atomicity = 1"},
      {"interleaved", changed("interleave_layout", "1"), ErrorKind::kDescriptor, "interleaved layout"},
      {"NaN", changed("fill_mode", "1"), ErrorKind::kDescriptor, "NaN fill"},
      {"a fourth dimension", changed("rank", "3"), ErrorKind::kDescriptor, "nothing has set its box_dim[2]"},
      {"other bytes", loads(kZeros + "@%first st.shared.u32 [tile+16400], 1;\n" + replace("rank", "1")),
       ErrorKind::kDescriptor, "not a tensor map"},
      {"an ordinary store",
       loads(kCopyOfMap + "@%first st.shared.u32 [tile+16400], 1;\n" + replace("rank", "1")),
       ErrorKind::kDescriptor, "changed by something else"},
      {"nothing there", loads(replace("rank", "1")), ErrorKind::kUninitialised, "tile+16384"},
      {"misaligned", loads(kZeros + replace("rank", "1", "[tile+16392]")), ErrorKind::kMisaligned,
       "64-byte aligned"},
  });
}

TEST_CASE("a map that lacks a field is refused when it is used") {
  for (const Setting& left_out : whole_map()) {
    CAPTURE(left_out.field);
    const std::string ordinal = left_out.operands.substr(0, left_out.operands.find(','));
    const bool has_ordinal = ordinal != left_out.operands;
    // Without its rank the map has one dimension, and nothing is missing before that.
    const std::string name = has_ordinal ? left_out.field + "[" + ordinal + "]" : left_out.field;
    check_mistakes({{name,
                     load_through(kZeros + replace_all(without(left_out.field, has_ordinal ? ordinal : "")) +
                                  kSetGlobalMap + kPublish + kAcquire),
                     ErrorKind::kDescriptor, "nothing has set its " + name}});
  }
}

TEST_CASE("fences that are missing") {
  const std::string make = kZeros + replace_all(whole_map()) + kSetGlobalMap;
  const std::string in_place = kCopyOfMap + kSetGlobalMap + kPublish + kAcquire + "add.u64 %a, %in, 4096;\n" +
                               replace("global_address", "%a", kGlobalMap);
  check_mistakes({
      {"no acquire", load_through(make + kPublish), ErrorKind::kMissingFence, "generic.acquire"},
      {"the acquire before the change", load_through(make + kAcquire + kPublish), ErrorKind::kMissingFence,
       "generic.acquire"},
      {"the acquire of another map",
       load_through(make + kPublish + "fence.proxy.tensormap::generic.acquire.gpu [%map+128], 128;\n"),
       ErrorKind::kMissingFence, "generic.acquire"},
      {"an acquire that nothing orders before the use",
       kPrologue + first_warp(make + kPublish) + "setp.eq.u32 %q, %t, 33;\n@%q " + kAcquire + kLoad + kWait,
       ErrorKind::kMissingFence, "generic.acquire"},
      {"no release", load_through(in_place + kAcquire), ErrorKind::kMissingFence, "generic.release"},
      {"the release of another thread",
       load_through(in_place + "setp.eq.u32 %q, %t, 5;\n@%q " + kRelease + "bar.warp.sync 0xffffffff;\n" +
                    kAcquire),
       ErrorKind::kMissingFence, "generic.release"},
  });
}

TEST_CASE("an acquire by one thread serves those that it synchronises with") {
  check_loads_as(kZeros + replace_all(whole_map()) + kSetGlobalMap + kPublish +
                     "setp.eq.u32 %q, %t, 7;\n@%q " + kAcquire,
                 0, {});
}

TEST_CASE("what decoding refuses") {
  const auto message = [](const std::string& line, const std::string& target) {
    DeviceMemory memory;
    auto module = Module::load(".version 8.7\n.target " + target +
                                   "\n.address_size 64\n.visible .entry test()\n{\n.reg .b64 %a;\n"
                                   ".reg .b32 %r;\n.shared .align 128 .b8 m[128];\n" +
                                   line + "\nret;\n}\n",
                               memory);
    return module.ok() ? std::string() : module.status().message() + module.status().detail();
  };
  struct Case {
    std::string line, target, part;
  };
  const std::string r = "tensormap.replace.tile.";
  for (const Case& c : std::vector<Case>{
           {r + "global_dim.shared::cta.b1024.b32 [m], 5, %r;", "sm_90a", "ordinals 0..4, not 5"},
           {r + "global_stride.shared::cta.b1024.b64 [m], 4, %a;", "sm_90a", "ordinals 0..3, not 4"},
           {r + "elemtype.shared::cta.b1024.b32 [m], %r;", "sm_90a", "takes an immediate"},
           {r + "swizzle_mode.shared::cta.b1024.b32 [m], 4;", "sm_100a", "sm_103a"},
           {r + "swizzle_atomicity.shared::cta.b1024.b32 [m], 0;", "sm_90a", "sm_100"},
           {r + "rank.shared::cta.b1024.b32 [m], 0;", "sm_90", "sm_90a"},
           {"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a], "
            "[m], 64;",
            "sm_90a", "the size of a tensor map is 128, not 64"},
           {r + "global_address.shared::cta.b1024.b32 [m], %r;", "sm_90a", "global_address"}}) {
    CAPTURE(c.line);
    CHECK(message(c.line, c.target).find(c.part) != std::string::npos);
  }
  CHECK(message(r + "rank.global.b1024.b32 [%a], 0;", "sm_90a") == "");
  CHECK(message(r + "swizzle_atomicity.b1024.b32 [%a], 3;", "sm_100a") == "");
}

}  // namespace jfa::simulator::tensormap_test
