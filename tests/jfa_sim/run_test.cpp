// jfa-sim run: buffers in and out, tensor maps, what it reports and what it refuses.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "formats/safetensors.h"
#include "tests/jfa_sim/support.h"

namespace jfa::test {
namespace {

using sim::HostArray;
using Texts = std::vector<std::string>;

constexpr const char* kSchedules[] = {"eager", "lazy", "random"};

struct Axpy {
  TemporaryDirectory directory;
  std::vector<float> x, y;
  Axpy() {
    for (int i = 0; i < 100; ++i) x.push_back(static_cast<float>(i)), y.push_back(1.0f);
    write_npy(directory / "x.npy", float_array({10, 10}, x));
    write_npy(directory / "y.npy", float_array({100}, y));
    write_text(directory / "k.ptx", kAxpy);
  }
  CommandResult run(const Texts& arguments, const Texts& options = {},
                    const Texts& shape = {"--grid", "4", "--block", "32"},
                    const std::string& entry = "axpy") const {
    Texts all{"run", directory / "k.ptx", "--entry", entry};
    all.insert(all.end(), shape.begin(), shape.end());
    for (const std::string& argument : arguments) all.insert(all.end(), {"--arg", argument});
    all.insert(all.end(), options.begin(), options.end());
    return jfa_sim(all);
  }
};

TEST_CASE("buffers go in and come out") {
  const Axpy axpy;
  const std::string in = "in:" + axpy.directory / "x.npy";
  const std::string y = axpy.directory / "y.npy", result_path = axpy.directory / "z.npy";
  const CommandResult result = axpy.run({"f32:-2.5", in, "inout:" + y + "=" + result_path, "u32:99"});
  CHECK_MESSAGE(result.exit_code == 0, result.error);
  CHECK(result.output.find("axpy: no bug found; 4 CTAs, ") == 0);
  const std::vector<float> z = read_floats(result_path);
  REQUIRE(z.size() == 100);
  for (int i = 0; i < 99; ++i) CHECK(z[static_cast<std::size_t>(i)] == 1.0f - 2.5f * static_cast<float>(i));
  CHECK(z[99] == 1.0f);  // beyond n
  CHECK(read_floats(y) == axpy.y);

  // Without a place for the result, an inout file is written over; one zeroed buffer may be named and shared.
  CHECK(axpy.run({"f32:1", in, "inout:" + y, "u32:100"}).exit_code == 0);
  CHECK(read_floats(y)[42] == 43.0f);
  const CommandResult named =
      axpy.run({"f32:3", "buffer:x+4", "buffer:sum", "u32:99"},
               {"--buffer", "x=" + in, "--buffer", "sum=zero:F32[99]=" + result_path});
  CHECK_MESSAGE(named.exit_code == 0, named.error);
  CHECK(read_floats(result_path)[7] == 24.0f);
}

TEST_CASE("other shapes of the same grid give the same result, which JSON tells of") {
  const Axpy axpy;
  const std::string result_path = axpy.directory / "z.npy";
  for (const Texts& shape :
       {Texts{"--grid", "2,1,1", "--block", "64,1"},
        Texts{"--grid", "4,1", "--block", "32,1,1", "--cluster", "2"}, Texts{"--block", "128"}}) {
    const CommandResult result =
        axpy.run({"f32:1", "in:" + axpy.directory / "x.npy", "zero:F32[100]=" + result_path, "u32:100"},
                 {"--json", "--sms", "3"}, shape);
    CHECK_MESSAGE(result.exit_code == 0, result.error);
    const auto json = nlohmann::json::parse(result.output);
    CHECK(json.at("ok") == true);
    CHECK(json.at("entry") == "axpy");
    CHECK(json.at("sms") == 3);
    CHECK(json.at("checks") == true);
    CHECK(json.at("ctas") == (shape[0] == "--block" ? 1 : shape[1][0] - '0'));
    CHECK(json.at("warp_instructions") > 50);
    CHECK(json.at("results").size() == 1);
    CHECK(json.at("results")[0].at("dtype") == "F32");
    CHECK(json.at("results")[0].at("shape") == nlohmann::json({100}));
    CHECK_FALSE(json.contains("report"));
    CHECK(read_floats(result_path)[99] == 99.0f);
  }
}

TEST_CASE("a bug is a report and exit status 1, and no result is written") {
  const Axpy axpy;
  const std::string result_path = axpy.directory / "z.npy";
  const Texts arguments{"f32:1", "in:" + axpy.directory / "x.npy", "zero:F32[100]=" + result_path, "u32:101"};
  const CommandResult text = axpy.run(arguments);
  CHECK(text.exit_code == 1);
  CHECK(text.output.find("out of bounds") == 0);
  CHECK(text.output.find("ld.global.f32 %f1, [%p0];") != std::string::npos);
  CHECK(text.output.find("CTA (3,0,0)") != std::string::npos);
  CHECK_FALSE(std::ifstream(result_path).good());

  for (const char* schedule : kSchedules) {
    const CommandResult json_result = axpy.run(arguments, {"--json", "--schedule", schedule, "--seed", "3"});
    CHECK(json_result.exit_code == 1);
    const auto json = nlohmann::json::parse(json_result.output);
    CHECK(json.at("ok") == false);
    CHECK(json.at("schedule") == schedule);
    CHECK(json.at("seed") == 3);
    CHECK(json.at("results").empty());
    CHECK(json.at("report").at("kind") == "out of bounds");
    CHECK(json.at("report").at("ptx_line") == 12);
    CHECK(json.at("report").at("cta") == nlohmann::json({3, 0, 0}));
    CHECK(json.at("report").at("lane") == 4);
  }
}

TEST_CASE("outputs are refused before the launch, and may be standard output or whatever is there") {
  const Axpy axpy;
  const std::string in = "in:" + axpy.directory / "x.npy";
  const std::string trace = axpy.directory / "trace.json", result_path = axpy.directory / "z.npy";
  const auto run = [&](const std::string& result, const Texts& options) {
    return axpy.run({"f32:1", in, "zero:F32[100]=" + result, "u32:100"}, options);
  };
  for (const CommandResult& refused :
       {run("no/where.npy", {"--trace", trace}), run(result_path, {"--trace", "no/where.npy"})}) {
    CHECK(refused.exit_code == 2);
    CHECK(refused.output.empty());
    CHECK(refused.error == "jfa-sim run: no/where.npy: cannot write: No such file or directory\n");
  }
  CHECK_FALSE(std::ifstream(trace).good());
  CHECK_FALSE(std::ifstream(result_path).good());

  const CommandResult array = run("-", {"--trace", trace});
  CHECK(array.exit_code == 0);
  CHECK(array.error.find("axpy: no bug found") == 0);
  CHECK(sim::parse_npy("stdout", array.output).value().shape == std::vector<std::int64_t>{100});
  CHECK(nlohmann::json::parse(read_text(trace)).contains("traceEvents"));
  CHECK(run(result_path, {"--trace", "/dev/stdout"}).output.find("{") == 0);
  CHECK(run("-", {"--trace", "-"}).error.find("only one output can go to standard output") !=
        std::string::npos);

  std::filesystem::create_symlink("real.npy", axpy.directory / "link.npy");
  CHECK(run(axpy.directory / "link.npy", {}).exit_code == 0);
  CHECK(std::filesystem::is_symlink(axpy.directory / "link.npy"));
  CHECK(read_floats(axpy.directory / "real.npy")[7] == 7.0f);
}

TEST_CASE("a tensor of a type that NumPy lacks goes in, but is refused as a result before the launch") {
  const Axpy axpy;
  const std::vector<float> pairs(200, 1.0f);
  const safetensors::TensorMap tensors{{"c", {"C64", {100}, std::as_bytes(std::span(pairs))}}};
  const std::vector<std::byte> bytes = safetensors::serialize(tensors);
  const std::string file = axpy.directory / "c.safetensors";
  write_text(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const auto run = [&](const std::string& buffer) {
    return axpy.run({"f32:1", "in:" + file + "#c", buffer, "u32:100"});
  };
  CHECK(run("zero:F32[100]").exit_code == 0);
  const CommandResult refused = run("inout:" + file + "#c=" + axpy.directory / "z.npy");
  CHECK(refused.exit_code == 2);
  CHECK(refused.error.find("a result of C64 cannot be written") != std::string::npos);
}

TEST_CASE("a loop without end is a report, too") {
  const Axpy axpy;
  std::string endless = kAxpy;
  endless.insert(endless.find("ret;\n}"), "AGAIN: bra AGAIN;\n");
  write_text(axpy.directory / "k.ptx", endless);
  const CommandResult result = axpy.run(
      {"f32:1", "in:" + axpy.directory / "x.npy", "zero:F32[100]", "u32:100"}, {"--budget", "10000"});
  CHECK(result.exit_code == 1);
  CHECK(result.output.find("10000") != std::string::npos);
}

TEST_CASE("what is asked for wrongly is refused in words that name it") {
  const Axpy axpy;
  const std::string in = "in:" + axpy.directory / "x.npy", out = "out:400";
  const auto refused = [&](const CommandResult& result, const Texts& parts) {
    CAPTURE(result.error);
    CHECK(result.exit_code == 2);
    CHECK(result.output.empty());
    CHECK(result.error.find("jfa-sim") == 0);
    for (const std::string& part : parts) CHECK(result.error.find(part) != std::string::npos);
  };
  const auto with = [&](const std::string& n) { return axpy.run({"f32:1", in, out, n}); };
  refused(axpy.run({"f32:1", in, out}), {"3 arguments", "'axpy' takes 4"});
  refused(with("i64:5"), {"argument 3 ('i64:5')", "8 bytes", "'n'", "takes 4"});
  refused(with("u32:-5"), {"argument 3", "'-5' is no u32"});
  refused(with("u32:"), {"argument 3", "'' is no u32"});
  refused(with("u32:4294967296"), {"argument 3", "'4294967296' is no u32"});
  refused(with("float:5"), {"argument 3", "'float' is no kind of argument"});
  refused(axpy.run({"f32:one", in, out, "u32:5"}), {"argument 0", "'one' is no f32"});
  refused(axpy.run({"f32:1", "in:nowhere.npy", out, "u32:5"}), {"argument 1", "nowhere.npy", "No such file"});
  refused(axpy.run({"f32:1", in + "=z.npy", out, "u32:5"}), {"argument 1", "an input has no result"});
  refused(axpy.run({"f32:1", "buffer:b", out, "u32:5"}), {"argument 1", "no buffer 'b'"});
  refused(axpy.run({"f32:1", in, "out:F33[2]", "u32:5"}), {"argument 2", "'F33[2]'"});
  refused(axpy.run({"f32:1", in, "out:F32[-2]", "u32:5"}), {"argument 2", "'F32[-2]'"});
  refused(axpy.run({"f32:1", in, out, "u32:5"}, {"--buffer", "b=of:4"}),
          {"buffer 'b=of:4'", "'of' is no kind of buffer"});
  refused(axpy.run({"f32:1", in, out, "u32:5"}, {"--buffer", "b=out:4", "--buffer", "b=out:5"}),
          {"two buffers 'b'"});
  refused(axpy.run({"f32:1", in, out, "u32:5"}, {}, {"--grid", "0,1", "--block", "32"}), {"--grid 0,1"});
  refused(axpy.run({"f32:1", in, out, "u32:5"}, {}, {"--block", "1,2,3,4"}), {"--block 1,2,3,4"});
  refused(axpy.run({"f32:1", in, out, "u32:5"}, {}, {"--block", "32", "--cluster", "x"}), {"--cluster x"});
  refused(axpy.run({"f32:1", in, out, "u32:5"}, {}, {"--block", "32"}, "other"), {"entry 'other'", "axpy"});
  refused(axpy.run({"f32:1", in, out, "u32:5"}, {"--schedule", "never"}), {"--schedule", "never"});
  refused(axpy.run({"f32:1", in, out, "u32:5"}, {"--habits", "nobody"}),
          {"--habits", "nobody", "cutlass, triton"});
  refused(axpy.run({"f32:1", in, out, "u32:5"}, {"--source", "nowhere.cu"}), {"nowhere.cu", "No such file"});
  write_text(axpy.directory / "k.ptx", ".version 9.0\n.nonsense\n");
  refused(with("u32:5"), {"PTX line 2", ".nonsense"});
}

TEST_CASE("tensor maps, structs and safetensors") {
  const TemporaryDirectory directory;
  std::vector<float> values;
  for (int i = 0; i < 16 * 10; ++i) values.push_back(static_cast<float>(i));
  const safetensors::TensorMap tensors{{"t", {"F32", {10, 16}, std::as_bytes(std::span(values))}}};
  const std::vector<std::byte> bytes = safetensors::serialize(tensors);
  write_text(directory / "t.safetensors", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  write_text(directory / "maps.json", box_map());
  const auto run = [&](const std::string& wait, const std::string& schedule, const std::string& map = "#m",
                       int column = 12) {
    write_text(directory / "k.ptx", box_kernel(wait));
    return jfa_sim({"run", directory / "k.ptx", "--entry", "box", "--block", "32", "--schedule", schedule,
                    "--buffer", "t=in:" + directory / "t.safetensors#t", "--buffer",
                    "out=out:F32[8,4]=" + directory / "out.npy", "--arg",
                    "map:" + directory / "maps.json" + map, "--arg",
                    fmt::format("struct:buffer:out;i32:{}", column)});
  };
  for (const char* schedule : kSchedules) {
    const CommandResult result = run(kWait, schedule);
    CHECK_MESSAGE(result.exit_code == 0, result.output << result.error);
    const std::vector<float> out = read_floats(directory / "out.npy");
    for (int row = 0; row < 8; ++row)
      for (int column = 0; column < 4; ++column)  // the last two columns lie outside the tensor
        CHECK(out[static_cast<std::size_t>(row * 4 + column)] ==
              (column < 2 ? static_cast<float>(row * 16 + 12 + column) : 0.0f));
    const CommandResult hasty = run("", schedule);
    CHECK(hasty.exit_code == 1);
    CHECK(hasty.output.find("in flight") != std::string::npos);
  }
  // A base 1,024 bytes before the buffer: its tensor has 256 columns more on the left.
  write_text(
      directory / "maps.json",
      R"({"m": {"buffer": "t", "type": "F32", "extents": [270, 10], "strides_bytes": [64], "box": [4, 8],
                       "offset_bytes": -1024}})");
  const CommandResult far = run(kWait, "eager", "#m", 256 + 12);
  CHECK_MESSAGE(far.exit_code == 0, far.output << far.error);
  CHECK(read_floats(directory / "out.npy")[4 * 7 + 1] == 7 * 16 + 13);
  const CommandResult before = run(kWait, "eager", "#m", 128);
  CHECK(before.exit_code == 1);
  CHECK_MESSAGE(before.output.find("global") != std::string::npos, before.output);
  const auto refused = [&](const std::string& maps, const Texts& parts, const std::string& name = "#m") {
    write_text(directory / "maps.json", maps);
    const CommandResult result = run(kWait, "eager", name);
    CAPTURE(result.error);
    CHECK(result.exit_code == 2);
    CHECK(result.error.find("argument 0") != std::string::npos);
    CHECK(result.error.find("maps.json") != std::string::npos);
    for (const std::string& part : parts) CHECK(result.error.find(part) != std::string::npos);
  };
  refused(box_map("[60]"), {"tensor map 'm'", "60"});
  refused(box_map("[64, 64]"), {"2 strides_bytes for 2 extents"});
  refused(box_map("[64]", R"(, "swizzle": 48)"), {"swizzle 48"});
  refused(box_map("[64]", R"(, "offset_bytes": 1.5)"), {"offset_bytes has 1.5"});
  refused(box_map("[64]", R"(, "offset_bytes": 18446744073709551615)"),
          {"offset_bytes has 18446744073709551615"});
  refused(box_map(), {"no tensor map 'q'"}, "#q");
  refused("{", {"parse error"});
  refused(R"({"m": {"buffer": "t", "box": [1], "box": [2]}})", {"names 'box' twice"});
  refused(std::string(100'000, '['), {"nests deeper than 64 levels"});
  refused(R"({"m": {"buffer": "t", "type": "F32", "extents": 7}})", {"tensor map 'm'", "extents is 7"});
  refused(R"({"m": {"buffer": "t", "type": "F32", "extents": [1e39]}})", {"extents has 1e+39"});
  refused(R"({"m": {"buffer": "t", "type": "F32", "extents": [-4]}})", {"extents has -4"});
  refused(R"({"m": {"buffer": "t", "type": "F32", "extents": [4], "box": [4294967304]}})",
          {"box has 4294967304", "4294967295"});
}

}  // namespace
}  // namespace jfa::test
