// jfa-sim coverage and mutate, the files of arrays, and the page docs/jfa-sim.md: its commands are run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/jfa_sim/support.h"

namespace jfa::test {
namespace {

TEST_CASE("coverage lists the table, and what a file lacks") {
  const CommandResult table = jfa_sim({"coverage"});
  CHECK(table.exit_code == 0);
  CHECK(table.output.find("mbarrier.init") != std::string::npos);
  CHECK(table.output.find("Not supported:") != std::string::npos);
  CHECK(table.output.find("textures and surfaces:\n    tex tld4") != std::string::npos);
  const auto json = nlohmann::json::parse(jfa_sim({"coverage", "--json"}).output);
  CHECK(json.at("rows").size() > 200);
  for (const auto& [family, missing] : json.at("not_supported").items())
    for (const auto& instruction : missing.items())
      CHECK_MESSAGE(instruction.value() != "", instruction.key());

  const TemporaryDirectory directory;
  write_text(directory / "k.ptx", kAxpy);
  CHECK(jfa_sim({"coverage", directory / "k.ptx"}).exit_code == 0);
  std::string unknown = kAxpy;
  unknown.insert(unknown.find("ret;\n}"), "frobnicate.b32 %i, %n;\n");
  write_text(directory / "k.ptx", unknown);
  const CommandResult result = jfa_sim({"coverage", directory / "k.ptx"});
  CHECK(result.exit_code == 1);
  CHECK(result.output.find("frobnicate.b32: 1 times, first in line 15") != std::string::npos);
  const auto in_json = nlohmann::json::parse(jfa_sim({"coverage", "--json", directory / "k.ptx"}).output);
  CHECK(in_json.at("loads") == false);
  CHECK(in_json.at("unknown")[0].at("ptx_line") == 15);
  CHECK(jfa_sim({"coverage", directory / "none.ptx"}).exit_code == 2);
}

TEST_CASE("mutants of a kernel from the command line") {
  const TemporaryDirectory directory;
  const std::vector<float> values(16 * 10, 2.0f);
  write_npy(directory / "t.npy", float_array({10, 16}, values));
  write_text(directory / "maps.json", box_map());
  const auto mutate = [&](const std::string& ptx, bool json) {
    write_text(directory / "k.ptx", ptx);
    std::vector<std::string> arguments{"mutate",   directory / "k.ptx",
                                       "--entry",  "box",
                                       "--block",  "32",
                                       "--buffer", "t=in:" + directory / "t.npy",
                                       "--buffer", "out=out:F32[8,4]",
                                       "--arg",    "map:" + directory / "maps.json#m",
                                       "--arg",    "struct:buffer:out;i32:0"};
    if (json) arguments.push_back("--json");
    return jfa_sim(arguments);
  };
  const CommandResult result = mutate(box_kernel(kWait), true);
  CHECK_MESSAGE(result.exit_code == 1, result.error);
  const auto json = nlohmann::json::parse(result.output);
  CHECK(json.at("compared_buffers").size() == 2);
  CHECK(json.at("unreached").empty());
  CHECK(json.at("mutants").size() > 8);
  for (const auto& mutant : json.at("mutants")) {
    // The cluster's fence may go, as there is no cluster; and whether one warp needs its barrier is a fine
    // point.
    CAPTURE(mutant.dump());
    const auto& operation = mutant.at("operation");
    if (operation == "fence.mbarrier_init") CHECK(mutant.at("killed") == false);
    if (operation != "fence.mbarrier_init" && operation != "bar") CHECK(mutant.at("killed") == true);
  }
  const CommandResult text = mutate(box_kernel(kWait), false);
  CHECK(text.output.find("Survivors:\nfence.mbarrier_init, deleted: box, PTX line 14") != std::string::npos);

  const CommandResult broken = mutate(box_kernel(""), false);
  CHECK(broken.exit_code == 2);
  CHECK(broken.error.find("in flight") != std::string::npos);
}

TEST_CASE("model times want the machine code of the PTX") {
  const TemporaryDirectory directory;
  write_text(directory / "k.ptx", kAxpy);
  const std::vector<std::string> arguments{"time",    directory / "k.ptx",
                                           "--entry", "axpy",
                                           "--block", "32",
                                           "--arg",   "f32:2",
                                           "--arg",   "u64:0",
                                           "--arg",   "u64:0",
                                           "--arg",   "u32:0"};
  const CommandResult without = jfa_sim(arguments);
  CHECK(without.exit_code == 2);
  CHECK_MESSAGE(without.error.find("--cubin") != std::string::npos, without.error);
  std::vector<std::string> with = arguments;
  with.insert(with.end(), {"--cubin", directory / "k.ptx"});
  const CommandResult wrong = jfa_sim(with);
  CHECK(wrong.exit_code == 2);
  CHECK_MESSAGE(wrong.error.find("not an ELF file") != std::string::npos, wrong.error);
}

TEST_CASE("mutants of a kernel that leaves out a rule of PTX") {
  const TemporaryDirectory directory;
  write_text(directory / "k.ptx", R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry leaves_bytes() {
  .reg .pred %p;
  .reg .b32 %t;
  .shared .align 8 .b8 bar[8];
  mov.u32 %t, %tid.x;
  setp.ne.u32 %p, %t, 0;
  @%p bra DONE;
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
DONE:
  ret;
}
)");
  const auto mutate = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments{"mutate",       directory / "k.ptx", "--entry",
                                       "leaves_bytes", "--block",           "32"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return jfa_sim(arguments);
  };
  const CommandResult strict = mutate({});
  CHECK(strict.exit_code == 2);
  CHECK_MESSAGE(strict.error.find("the CTA has exited") != std::string::npos, strict.error);
  CHECK(mutate({"--habits", "cutlass"}).exit_code != 2);
  CHECK(mutate({"--exit-bytes", "0"}).exit_code != 2);
  CHECK(mutate({"--habits", "cutlass", "--exit-bytes", "1"}).exit_code == 2);
}

TEST_CASE("npy files that are not right are refused") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.npy";
  write_npy(path, float_array({2, 3}, {1, 2, 3, 4, 5, 6}));
  const std::string good = read_text(path);
  CHECK(good.size() % 64 == 24);  // the header is padded to 64
  CHECK(sim::read_npy(path).value().shape == std::vector<std::int64_t>{2, 3});
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto array = sim::read_npy(path);
    CHECK_FALSE(array.ok());
    CHECK(array.status().message().find("a.npy") != std::string::npos);
  };
  for (const std::size_t length : {0, 5, 9, 11, 60, 150})
    refused(good.substr(0, std::min(length, good.size() - 1)));
  std::string bad = good;
  bad.replace(bad.find("False"), 5, "True ");
  refused(bad);
  bad = good;
  bad.replace(bad.find("<f4"), 3, ">f4");
  refused(bad);
  bad = good;
  bad.replace(bad.find("(2, 3)"), 6, "(2,-3)");
  refused(bad);
}

TEST_CASE("every element type goes to a file and back") {
  const TemporaryDirectory directory;
  for (const char* dtype :
       {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}) {
    sim::HostArray array = sim::empty_array(fmt::format("{}[3,5]", dtype)).value();
    for (std::size_t i = 0; i < array.bytes.size(); ++i) array.bytes[i] = static_cast<std::byte>(i);
    write_npy(directory / "a.npy", array);
    const sim::HostArray again = sim::read_array(directory / "a.npy").value();
    CHECK(again.dtype == dtype);
    CHECK(again.shape == array.shape);
    CHECK(again.bytes == array.bytes);
  }
}

// --- docs/jfa-sim.md

struct Block {
  std::string commands, output;
};

// The ```sh blocks of a page, each with the ```text block behind it, if there is one.
std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::istringstream lines(page);
  std::string line, *into = nullptr;
  while (std::getline(lines, line)) {
    if (line == "```sh") {
      blocks.emplace_back();
      into = &blocks.back().commands;
    } else if (line == "```text" && !blocks.empty()) {
      into = &blocks.back().output;
    } else if (line.starts_with("```")) {
      into = nullptr;
    } else if (into != nullptr) {
      *into += line + "\n";
    }
  }
  return blocks;
}

// Whether the lines shown are the beginnings of the output's, in order; lines may be left out where `…`
// stands.
bool shows(const std::string& shown, const std::string& output) {
  std::istringstream wanted(shown), lines(output);
  std::string want, line;
  bool skipping = false;
  while (std::getline(wanted, want)) {
    if (want == "…") {
      skipping = true;
      continue;
    }
    bool found = false;
    while (!found && std::getline(lines, line)) {
      found = line.starts_with(want);
      if (!found && !skipping) return false;
    }
    if (!found) return false;
    skipping = false;
  }
  return true;
}

TEST_CASE("the commands of docs/jfa-sim.md print what the page shows") {
  const TemporaryDirectory directory;
  const std::filesystem::path root = std::filesystem::current_path();
  std::filesystem::copy(root / "examples", directory.path() / "examples",
                        std::filesystem::copy_options::recursive);
  const std::vector<Block> blocks = blocks_of(read_text("docs/jfa-sim.md"));
  CHECK(blocks.size() >= 4);
  const std::string folder = std::filesystem::path(JFA_SIM_TOOL).parent_path().string();
  for (const Block& block : blocks) {
    CAPTURE(block.commands);
    const CommandResult result = run_command(
        {"/bin/sh", "-c",
         fmt::format("cd '{}' && PATH='{}':$PATH\n{}", directory.path().string(), folder, block.commands)});
    CAPTURE(result.output);
    CAPTURE(result.error);
    CHECK(result.exit_code != 2);
    CHECK(result.exit_code != 127);
    CHECK(shows(block.output, result.output));
  }
}

}  // namespace
}  // namespace jfa::test
