// jfa run: what it refuses and how, and that it computes what it says.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <span>
#include <sstream>

#include "formats/safetensors.h"
#include "jfa/version.h"
#include "reference/compare.h"
#include "reference/compare_backward.h"
#include "reference/float16.h"
#include "tests/command_runner.h"
#include "tests/reference/problems.h"
#include "tools/attention_file.h"

namespace jfa::test {
namespace {

using safetensors::TensorMap;

// A small right problem as the tensors of a file, to be spoilt one by one.
struct Tensors {
  explicit Tensors(const Problem& problem) {
    add("query", problem.query, problem.dtype);
    add("key", problem.key, problem.dtype);
    add("value", problem.value, problem.dtype);
    if (!problem.broadcast_q) add("query_offset", problem.query_offset);
    add("key_offset", problem.key_offset);
    if (problem.output_offset) add("output_offset", *problem.output_offset);
  }

  void add(const std::string& name, const HostTensor& tensor, DType dtype) {
    auto& bits = values[name];
    bits.clear();
    for (const float value : tensor.values) bits.push_back(to_bits(dtype, value));
    map[name] = {dtype == DType::bf16 ? "BF16" : "F16",
                 {tensor.rows, tensor.heads, tensor.head_dim},
                 std::as_bytes(std::span(bits))};
  }
  void add(const std::string& name, const std::vector<std::int64_t>& offsets) {
    longs[name] = offsets;
    map[name] = {"I64", {static_cast<std::int64_t>(offsets.size())}, std::as_bytes(std::span(longs[name]))};
  }
  void add_lse_grad(const reference::OutputGradients& incoming) {
    floats = incoming.lse;
    map["lse_grad"] = {
        "F32", {incoming.output.heads, incoming.output.rows}, std::as_bytes(std::span(floats))};
  }
  void write(const std::string& path) const {
    const std::vector<std::byte> bytes = safetensors::serialize(map);
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  std::map<std::string, std::vector<std::uint16_t>> values;
  std::map<std::string, std::vector<std::int64_t>> longs;
  std::vector<float> floats;
  TensorMap map;
};

Problem small_problem(Heads heads = {2, 1}, std::int64_t head_dim = 16) {
  Problem problem = flat_problem({5, 0, 9}, {7, 2, 9}, heads, head_dim);
  randomize(problem, 1);
  return problem;
}

CommandResult jfa_run(const std::string& file, std::vector<std::string> options = {}) {
  std::vector<std::string> arguments{JFA_TOOL, "run", file};
  if (std::find(options.begin(), options.end(), "--device") == options.end()) {
    arguments.insert(arguments.end(), {"--device", "sim:sm_100a"});
  }
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_command(arguments);
}

// On a busy machine a cold cache says that it compiles for long; that is no part of a refusal.
std::string without_compile_notes(const std::string& error) {
  std::istringstream lines(error);
  std::string line, rest;
  while (std::getline(lines, line)) {
    if (!line.starts_with("jfa: still compiling ") && !line.starts_with("jfa: compiled "))
      rest += line + '\n';
  }
  return rest;
}

void check_one_line(const CommandResult& result, const std::vector<std::string>& parts) {
  CAPTURE(result.error);
  CHECK(result.exit_code == 2);
  CHECK(result.output.empty());
  const std::string error = without_compile_notes(result.error);
  CHECK(error.starts_with("jfa run: "));
  CHECK(std::count(error.begin(), error.end(), '\n') == 1);
  for (const std::string& part : parts) {
    CHECK_MESSAGE(result.error.find(part) != std::string::npos, "expected '" << part << "' in it");
  }
}

TEST_CASE("bad files are refused in one line that names argument and value") {
  const TemporaryDirectory directory;
  const std::string path = directory / "bad.safetensors";
  const auto refused = [&](const std::function<void(Tensors&)>& spoil, const std::vector<std::string>& parts,
                           const std::vector<std::string>& options = {},
                           const Problem& problem = small_problem()) {
    Tensors tensors(problem);
    spoil(tensors);
    tensors.write(path);
    check_one_line(jfa_run(path, options), parts);
  };
  const auto nothing = [](Tensors&) {};

  SUBCASE("missing tensors") {
    for (const char* name : {"query", "key", "value", "query_offset", "key_offset"}) {
      refused([&](Tensors& t) { t.map.erase(name); }, {"bad.safetensors", fmt::format("'{}'", name)});
    }
  }
  SUBCASE("dtypes") {
    refused([](Tensors& t) { t.map["key"].dtype = "I16"; }, {"'key'", "I16 [18, 1, 16]"});
    refused([](Tensors& t) { t.map["value"].dtype = "F16"; }, {"'value'", "F16", "BF16"});
    refused([](Tensors& t) { t.map["key_offset"].dtype = "F64"; }, {"'key_offset'", "F64 [4]"});
  }
  SUBCASE("ranks and shapes") {
    refused([](Tensors& t) { t.map["query"].shape = {14, 32}; }, {"'query'", "BF16 [14, 32]"});
    refused([](Tensors& t) { t.map["key_offset"].shape = {2, 2}; }, {"'key_offset'", "I64 [2, 2]"});
    refused([](Tensors& t) { t.map["value"].shape = {9, 2, 16}; }, {"value.heads 2", "key.heads 1"});
    refused([](Tensors& t) { t.map["key"].shape = {36, 1, 8}; }, {"key.head_dim 8", "16"});
    refused(
        [](Tensors& t) {
          t.add("query_offset", std::vector<std::int64_t>{0, 5, 14});
        },
        {"query_offset.count 3", "key_offset.count 4"});
  }
  SUBCASE("head_dim and groups") {
    refused(nothing, {"head_dim 12"}, {}, small_problem({2, 1}, 12));
    refused(nothing, {"head_dim 136"}, {}, small_problem({2, 1}, 136));
    refused(nothing, {"query.heads 3", "key.heads 2"}, {}, small_problem({3, 2}));
  }
  SUBCASE("offsets that lie") {
    refused(
        [](Tensors& t) {
          t.add("key_offset", std::vector<std::int64_t>{0, 7, 5, 18});
        },
        {"key_offset[2] is 5"});
    refused(
        [](Tensors& t) {
          t.add("key_offset", std::vector<std::int64_t>{0, 7, 9, 19});
        },
        {"key_offset[3] is 19"});
    refused(
        [](Tensors& t) {
          t.add("query_offset", std::vector<std::int64_t>{-1, 5, 5, 14});
        },
        {"query_offset[0] is -1"});
    refused(
        [](Tensors& t) {
          t.add("query_offset", std::vector<std::int64_t>{0, 5, 5, INT64_MAX});
        },
        {"query_offset[3] is 9223372036854775807"});
    refused(
        [](Tensors& t) {
          t.add("output_offset", std::vector<std::int64_t>{0, 4, 5, 14});
        },
        {"output_offset[1] is 4"});
    refused(
        [](Tensors& t) {
          t.add("output_offset", std::vector<std::int64_t>{0, 5, 5, -1});
        },
        {"output_offset["});
    refused(
        [](Tensors& t) {
          t.add("output_offset", std::vector<std::int64_t>{0, 5, 5, INT64_MAX});
        },
        {"output_offset[3] is 9223372036854775807"});
  }
  SUBCASE("options") {
    refused(nothing, {"window -1"}, {"--window", "-1"});
    refused(nothing, {"--scale: 'inf' is not a finite number"}, {"--scale", "inf"});
    refused(nothing, {"--scale", "x"}, {"--scale", "x"});
    refused(nothing, {"--window", "1.5"}, {"--window", "1.5"});
    refused(nothing, {"--nonsense"}, {"--nonsense"});
    for (const char* device :
         {"sim:sm_42", "sim:sm_100a?sms=0", "sim:sm_100a?colour=red", "tpu:0", "", "cuda:x", "cuda:-1"}) {
      refused(nothing, {fmt::format("'{}'", device)}, {"--device", device});
    }
  }
}

TEST_CASE("damaged files are refused in one line") {
  const TemporaryDirectory directory;
  const std::string path = directory / "bad.safetensors";
  const auto refused = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    check_one_line(jfa_run(path), parts);
  };
  refused("", {"bad.safetensors", "0 bytes"});
  refused(std::string(8, '\x7f'), {"header length 9187201950435737471"});
  refused(std::string("\x02\0\0\0\0\0\0\0[]", 10), {"not a JSON object"});
  refused(std::string("\x04\0\0\0\0\0\0\0{\n\n\n", 12), {"not JSON"});
  check_one_line(jfa_run(directory / "missing"), {"missing", "No such file"});
  check_one_line(jfa_run(directory.path()), {directory.path().filename()});
}

TEST_CASE("help and usage") {
  const CommandResult help = run_command({JFA_TOOL, "run", "--help"});
  CHECK(help.exit_code == 0);
  for (const char* option :
       {"--device", "--window", "--broadcast-q", "--scale", "--check", "--backward", "query_offset"}) {
    CHECK(help.output.find(option) != std::string::npos);
  }
  CHECK(run_command({JFA_TOOL, "--help"}).output.find("precompile") != std::string::npos);
  CHECK(run_command({JFA_TOOL, "--version"}).output == fmt::format("jfa {}\n", version_and_commit()));
  const CommandResult bare = run_command({JFA_TOOL});
  CHECK(bare.exit_code == 2);
  CHECK(bare.error.find("doctor") != std::string::npos);
  const CommandResult unknown = run_command({JFA_TOOL, "fly"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.error.find("fly") != std::string::npos);
}

// What `-o` wrote, judged here and not by the tool.
void check_written(const std::string& path, const Problem& problem) {
  const Result<safetensors::File> file = safetensors::read(path);
  REQUIRE_MESSAGE(file.ok(), file.status().message());
  const safetensors::TensorView& output = file->contents.tensors.at("output");
  const safetensors::TensorView& lse = file->contents.tensors.at("lse");
  CHECK(output.dtype == (problem.dtype == DType::bf16 ? "BF16" : "F16"));
  CHECK(output.shape == std::vector<std::int64_t>{reference::output_rows(problem), problem.query.heads,
                                                  problem.query.head_dim});
  CHECK(lse.dtype == "F32");
  CHECK(lse.shape == std::vector<std::int64_t>{problem.query.heads, reference::output_rows(problem)});
  std::vector<float> lse_values(static_cast<std::size_t>(lse.element_count()));
  std::copy(lse.data.begin(), lse.data.end(), std::as_writable_bytes(std::span(lse_values)).begin());
  const reference::Comparison comparison =
      reference::judge(problem, tools::to_host_tensor(output, problem.dtype), lse_values);
  CHECK_MESSAGE(comparison.within_tolerance, reference::describe(comparison));
}

TEST_CASE("output and lse are written, and --check agrees") {
  const TemporaryDirectory directory;
  const std::string in = directory / "in.safetensors";
  const std::string out = directory / "out.safetensors";
  Problem problem = small_problem();
  std::vector<std::string> options{"--check", "-o", out};
  SUBCASE("plain") {}
  SUBCASE("rows before the first offset and behind the last") {
    problem.query_offset = {2, 5, 5, 13};
    problem.key_offset = {6, 7, 9, 17};
  }
  SUBCASE("window and scale") {
    problem.window = 2;
    problem.scale = -0.5;
    options.insert(options.end(), {"--window", "2", "--scale", "-0.5"});
  }
  SUBCASE("broadcast_q with output_offset, fp16") {
    problem = flat_broadcast_problem(3, {7, 0, 9}, {2, 2}, 16, DType::fp16);
    randomize(problem, 2);
    problem.output_offset = {1, 4, 8, 12};
    options.emplace_back("--broadcast-q");
  }
  Tensors(problem).write(in);
  const CommandResult result = jfa_run(in, options);
  CAPTURE(result.error);
  CHECK(result.exit_code == 0);
  for (const char* part : {"max abs error", "relative L2", "eager 16-bit", "within tolerance"}) {
    CHECK(result.output.find(part) != std::string::npos);
  }
  check_written(out, problem);
}

reference::OutputGradients gradients_for(const Problem& problem, std::uint64_t seed, bool lse_gradient) {
  reference::OutputGradients incoming;
  incoming.output = HostTensor(reference::output_rows(problem), problem.query.heads, problem.query.head_dim);
  Normal normal(seed);
  for (float& value : incoming.output.values) value = round_to(problem.dtype, static_cast<float>(normal()));
  if (lse_gradient) incoming.lse.resize(static_cast<std::size_t>(incoming.output.rows * problem.query.heads));
  for (float& value : incoming.lse) value = static_cast<float>(normal());
  return incoming;
}

TEST_CASE("--backward writes gradients, and --check agrees with them") {
  const TemporaryDirectory directory;
  const std::string in = directory / "in.safetensors";
  const std::string out = directory / "out.safetensors";
  Problem problem = small_problem();
  std::vector<std::string> options{"--backward", "--check", "-o", out};
  bool lse_gradient = false;
  SUBCASE("plain") {}
  SUBCASE("rows before the first offset and behind the last") {
    problem.query_offset = {2, 5, 5, 13};
    problem.key_offset = {6, 7, 9, 17};
  }
  SUBCASE("the LSE has a gradient too, fp16") {
    problem = flat_broadcast_problem(3, {7, 0, 9}, {2, 2}, 16, DType::fp16);
    randomize(problem, 2);
    options.emplace_back("--broadcast-q");
    lse_gradient = true;
  }
  const reference::OutputGradients incoming = gradients_for(problem, 3, lse_gradient);
  Tensors tensors(problem);
  tensors.add("output_grad", incoming.output, problem.dtype);
  if (lse_gradient) tensors.add_lse_grad(incoming);
  tensors.write(in);
  const CommandResult result = jfa_run(in, options);
  CAPTURE(result.error);
  CHECK(result.exit_code == 0);
  for (const char* part : {"query_grad max abs error", "key_grad max abs error", "value_grad max abs error"})
    CHECK(result.output.find(part) != std::string::npos);
  CHECK(result.output.find("OUT OF TOLERANCE") == std::string::npos);

  check_written(out, problem);
  const Result<safetensors::File> file = safetensors::read(out);
  REQUIRE(file.ok());
  const auto gradient = [&](const char* name) {
    return tools::to_host_tensor(file->contents.tensors.at(name), problem.dtype);
  };
  const reference::BackwardComparison comparison = reference::judge(
      problem, incoming, {gradient("query_grad"), gradient("key_grad"), gradient("value_grad")});
  CHECK_MESSAGE(comparison.within_tolerance(), reference::describe(comparison));
}

TEST_CASE("--backward refuses a bad output_grad or lse_grad by name") {
  const TemporaryDirectory directory;
  const std::string path = directory / "bad.safetensors";
  const Problem problem = small_problem();
  const reference::OutputGradients incoming = gradients_for(problem, 4, true);
  const auto refused = [&](const std::function<void(Tensors&)>& spoil,
                           const std::vector<std::string>& parts) {
    Tensors tensors(problem);
    tensors.add("output_grad", incoming.output, problem.dtype);
    tensors.add_lse_grad(incoming);
    spoil(tensors);
    tensors.write(path);
    check_one_line(jfa_run(path, {"--backward"}), parts);
  };
  refused([](Tensors& t) { t.map.erase("output_grad"); }, {"'output_grad'"});
  refused([](Tensors& t) { t.map["output_grad"].dtype = "F16"; }, {"'output_grad'", "F16", "BF16"});
  refused([](Tensors& t) { t.map["output_grad"].shape = {7, 4, 16}; }, {"output_grad.heads 4"});
  refused([](Tensors& t) { t.map["output_grad"].shape = {28, 1, 16}; }, {"output_grad."});
  refused([](Tensors& t) { t.map["lse_grad"].dtype = "I32"; }, {"'lse_grad'", "not F32"});
  refused([](Tensors& t) { t.map["lse_grad"].shape = {14, 2}; }, {"lse_grad", "[2, 14]"});
}

TEST_CASE("the bundled sample with an output_grad has a backward") {
  const CommandResult result = jfa_run(JFA_SAMPLES "/gradients.safetensors", {"--backward", "--check"});
  CAPTURE(result.error);
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
  CHECK(result.output.find("key_grad") != std::string::npos);
  check_one_line(jfa_run(JFA_SAMPLES "/sentences.safetensors", {"--backward"}),
                 {"has no tensor 'output_grad', which a backward needs"});
}

TEST_CASE("a typo in the output's name costs no run") {
  const TemporaryDirectory directory;
  Tensors(small_problem()).write(directory / "in.safetensors");
  check_one_line(jfa_run(directory / "in.safetensors", {"-o", directory / "no/where"}),
                 {"no/where: cannot write: No such file or directory"});
  check_one_line(jfa_run(directory / "in.safetensors", {"-o", ""}), {"cannot write"});
}

TEST_CASE("results on standard output, with the verdict on stderr or nowhere") {
  const TemporaryDirectory directory;
  const Problem problem = small_problem();
  Tensors(problem).write(directory / "in.safetensors");
  const CommandResult result = jfa_run(directory / "in.safetensors", {"--check", "-o", "-"});
  CAPTURE(result.error);
  CHECK(result.exit_code == 0);
  CHECK(result.error.find("within tolerance") != std::string::npos);
  CHECK(result.error.find("standard output: lse F32") != std::string::npos);
  std::ofstream(directory / "out.safetensors", std::ios::binary) << result.output;
  check_written(directory / "out.safetensors", problem);

  const auto shell = [&](const std::string& redirection) {
    return run_command(
        {"/bin/sh", "-c",
         "cd '" + directory.path().string() + "' && " JFA_TOOL " run in.safetensors --check " + redirection});
  };
  for (const char* closed : {"2>&-", "2>/dev/full"})
    CHECK(shell("-o closed --device sim:sm_100a " + std::string(closed)).exit_code == 0);
  CHECK(read_text(directory / "closed") == result.output);
  // Without a device it is said which one is used.
  CHECK(shell("2>&-").exit_code == 0);
  for (const char* lost : {">&-", ">/dev/full"}) {
    const CommandResult unsaid = shell("--device sim:sm_100a " + std::string(lost));
    CHECK(unsaid.exit_code == 2);
    CHECK(unsaid.error.find("jfa run: standard output: ") != std::string::npos);
  }
}

TEST_CASE("--check takes a NaN that is right for right") {
  const TemporaryDirectory directory;
  Problem problem = small_problem();
  problem.value.at(0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
  Tensors tensors(problem);
  tensors.add("output_grad", gradients_for(problem, 4, false).output, problem.dtype);
  tensors.write(directory / "in.safetensors");
  const CommandResult result = jfa_run(directory / "in.safetensors", {"--check", "--backward"});
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
}

TEST_CASE("a file is not refused for a tensor that nobody asked for") {
  const TemporaryDirectory directory;
  Tensors tensors(small_problem());
  const std::vector<std::byte> bytes(16);
  tensors.map["complex"] = {"C64", {2}, bytes};
  tensors.map["of tomorrow"] = {"F3_E1M1", {7}, bytes};
  tensors.write(directory / "in.safetensors");
  CHECK(jfa_run(directory / "in.safetensors").exit_code == 0);
  tensors.map["key"].dtype = "F3_E1M1";
  tensors.write(directory / "in.safetensors");
  check_one_line(jfa_run(directory / "in.safetensors"), {"tensor 'key' is F3_E1M1 [18, 1, 16], not BF16"});
}

TEST_CASE("no query head beside a key head is as right for the command as for the library") {
  const TemporaryDirectory directory;
  const Problem problem = small_problem({0, 1});
  Tensors tensors(problem);
  tensors.add("output_grad", HostTensor(14, 0, 16), problem.dtype);
  tensors.write(directory / "in.safetensors");
  const CommandResult result = jfa_run(directory / "in.safetensors", {"--backward", "--check"});
  CAPTURE(result.error);
  CHECK(result.exit_code == 0);
}

TEST_CASE("an output_offset that asks for more memory than there is is named") {
  const TemporaryDirectory directory;
  Tensors tensors(small_problem({2048, 1}, 128));
  const std::int64_t far = (std::int64_t{1} << 30) - 1;
  tensors.add("output_offset", std::vector<std::int64_t>{0, 5, 5, far});
  tensors.write(directory / "in.safetensors");
  check_one_line(jfa_run(directory / "in.safetensors"),
                 {"output_offset[3] is 1073741823: no memory for 1073741823 output rows of 2048 heads"});
}

TEST_CASE("without a device option, what is used is said") {
  const TemporaryDirectory directory;
  Tensors(small_problem()).write(directory / "in.safetensors");
  const CommandResult result = run_command({JFA_TOOL, "run", directory / "in.safetensors"});
  CHECK(result.exit_code == 0);
  const bool simulated = result.output.find("on sim:sm_100a") != std::string::npos;
  const bool real = result.output.find("on cuda:0") != std::string::npos;
  CHECK(simulated != real);
  CHECK((result.error.find("no usable GPU") != std::string::npos) == simulated);
}

}  // namespace
}  // namespace jfa::test
