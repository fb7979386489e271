// The lint over cubins written by hand: what it reads, what it counts, and what it refuses.
#include "tools/lint/lint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "machine_code/cubin.h"
#include "machine_code/instruction.h"
#include "machine_code/loops.h"
#include "tests/lint/code.h"

namespace jfa::lint {
namespace {

using test::Bits, test::branch, test::exponential, test::guarded, test::instruction, test::waits_for,
    test::writes;

constexpr unsigned kExit = 0x94d, kFfma = 0x223, kFfma2 = 0x249, kIsetp = 0x20c, kFsel = 0x208, kLdtm = 0x9ee,
                   kNop = 0x918, kPoll = 0x5a7, kR2ur = 0x2ca, kMaximum = 0x276, kStg = 0x986;

LoopFigures only_loop(const std::vector<Bits>& code) {
  const std::string cubin = test::cubin_of({{"entry", code, {}}});
  const Figures figures = lint("cubin", cubin).value();
  REQUIRE(figures.entries.size() == 1);
  REQUIRE(figures.entries[0].loops.size() == 1);
  return figures.entries[0].loops[0];
}

// A loop of these instructions.
std::vector<Bits> looped(std::vector<Bits> code) {
  const int count = static_cast<int>(code.size());
  code.push_back(guarded(branch(count, 0), 0));
  code.push_back(instruction(kExit));
  return code;
}

std::string error_of(const std::string& cubin) { return lint("file.cubin", cubin).status().message(); }

TEST_CASE("every entry is read, with its instructions' control words") {
  const std::string cubin =
      test::cubin_of({{"first", {waits_for(writes(instruction(kLdtm, 2), 3), 5), instruction(kExit)}, {}},
                      {"second", {instruction(kExit)}, {}}});
  const Cubin read = read_cubin("cubin", cubin).value();
  CHECK(read.compute_capability == 100);
  REQUIRE(read.entries.size() == 2);
  CHECK(read.entries[0].name == "first");
  CHECK(read.entries[1].name == "second");
  const std::vector<Instruction> code = decode("cubin", read.entries[0]).value();
  REQUIRE(code.size() == 2);
  CHECK(code[0].name() == "LDTM");
  CHECK(code[0].stall == 2);
  CHECK(code[0].write_scoreboard == 3);
  CHECK(code[0].waits == 1u << 5);
  CHECK(code[1].write_scoreboard == kNoScoreboard);
  CHECK(code[1].flow == Flow::end);
}

TEST_CASE("opcodes are unique, and an unknown one is counted by its number") {
  std::set<std::pair<unsigned, unsigned>> rows;
  for (const Opcode& row : opcode_table()) {
    CAPTURE(row.name);
    CHECK(rows.emplace(row.number, row.form).second);
    const unsigned bits = row.number | (row.form == kAnyForm ? 1u : row.form) << 9;
    REQUIRE(find_opcode(bits) != nullptr);
    if (row.form != kAnyForm) CHECK(find_opcode(bits) == &row);
  }
  CHECK(find_opcode(kPoll)->name == "SYNCS.PHASECHK");
  CHECK(find_opcode(0x9a7)->name == "SYNCS");

  REQUIRE(find_opcode(0x2fe) == nullptr);
  const std::string cubin = test::cubin_of({{"entry", looped({instruction(0x2fe), instruction(0x2fe)}), {}}});
  const Figures figures = lint("cubin", cubin).value();
  CHECK(figures.entries[0].unknown.at("0x2fe") == 2);
  CHECK(figures.entries[0].loops[0].unknown.at("0x2fe") == 2);
  CHECK(text_of(figures).find("unknown opcodes: 0x2fe (2 times)") != std::string::npos);
  CHECK(json_of(figures).find(R"("unknown":{"0x2fe":2})") != std::string::npos);
}

TEST_CASE(
    "loops nest, those that only wait are part of the one around them, and each instruction counts once") {
  const std::vector<Bits> code{
      instruction(kFfma, 4),                   // 0: the outer loop's
      instruction(kPoll, 2),                   // 1: a wait
      guarded(branch(2, 1), 0),                // 2
      instruction(kFfma2, 2),                  // 3: the inner loop's
      guarded(branch(4, 3), 1),                // 4
      guarded(branch(5, 9), 2),                // 5: out of line and back
      instruction(kIsetp, 5),                  // 6
      guarded(branch(7, 0), 3),                // 7
      instruction(kExit),                      // 8
      instruction(kFsel, 3),    branch(10, 6)  // 9
  };
  const std::string cubin = test::cubin_of({{"entry", code, {}}});
  const EntryFigures entry = lint("cubin", cubin).value().entries[0];
  CHECK(entry.waiting_loops == 1);
  CHECK(entry.not_reached == 0);
  CHECK(entry.irreducible_loops == 0);
  REQUIRE(entry.loops.size() == 2);
  CHECK(entry.loops[0].depth == 1);
  CHECK(!entry.loops[0].innermost);
  CHECK(entry.loops[0].instructions == 8);
  CHECK(entry.loops[0].issue_cycles == 4 + 2 + 1 + 1 + 5 + 1 + 3 + 1);
  CHECK(entry.loops[0].unpacked == 1);
  CHECK(entry.loops[0].packed == 0);
  CHECK(entry.loops[0].selects == 1);
  CHECK(entry.loops[0].branches == 4);
  CHECK(entry.loops[1].depth == 2);
  CHECK(entry.loops[1].innermost);
  CHECK(entry.loops[1].instructions == 2);
  CHECK(entry.loops[1].packed == 1);
}

TEST_CASE("a way into the middle of a loop makes it none, and is told") {
  const std::string cubin =
      test::cubin_of({{"entry",
                       {guarded(branch(0, 2), 0), instruction(kFfma), instruction(kFfma),
                        guarded(branch(3, 1), 1), instruction(kExit)},
                       {}}});
  const EntryFigures entry = lint("cubin", cubin).value().entries[0];
  CHECK(entry.loops.empty());
  CHECK(entry.irreducible_loops == 1);
}

TEST_CASE("an indirect branch goes where the cubin says") {
  const std::vector<Bits> code{instruction(0x949), instruction(kExit), instruction(kStg),
                               guarded(branch(3, 2), 0), instruction(kExit)};
  const std::string cubin = test::cubin_of({{"entry", code, {{0, {16, 32}}}}});
  const EntryFigures entry = lint("cubin", cubin).value().entries[0];
  CHECK(entry.not_reached == 0);
  REQUIRE(entry.loops.size() == 1);
  CHECK(entry.loops[0].role == Role::memory);
  CHECK(error_of(test::cubin_of({{"entry", code, {}}})) ==
        "file.cubin: offset 64: BRX of entry 'entry' has no list of targets");
  CHECK(error_of(test::cubin_of({{"entry", code, {{0, {96}}}}})).find("goes to 0x60, outside") !=
        std::string::npos);
}

TEST_CASE("a load of tensor memory is alone if it is waited for at once and none other is in flight") {
  const Bits load = writes(instruction(kLdtm, 2), 0);
  const Bits wait = waits_for(instruction(kNop), 0);
  CHECK(only_loop(looped({load, wait, load, wait})).lone_tensor_loads == 2);
  CHECK(only_loop(looped({load, load, wait})).lone_tensor_loads == 0);
  CHECK(only_loop(looped({load, instruction(kFfma, 15), wait})).lone_tensor_loads == 0);
  CHECK(only_loop(looped({load, writes(instruction(kLdtm, 2), 1), wait, waits_for(instruction(kNop), 1)}))
            .lone_tensor_loads == 1);  // the second one is, once the first has come
  // Issued at the end of an iteration, waited for at the beginning of the next.
  CHECK(only_loop(looped({wait, load})).lone_tensor_loads == 1);
  CHECK(only_loop(looped({wait, load, instruction(kFfma, 15)})).lone_tensor_loads == 0);
  const LoopFigures loop = only_loop(looped({load, wait}));
  CHECK(loop.role == Role::unload);
  CHECK(
      findings(loop, 100) ==
      std::vector<std::string>{"1 of 1 loads of tensor memory are waited for at once, none other in flight"});
}

TEST_CASE("compares and selects of masked tiles alone are not those of a tile without a mask") {
  std::vector<Bits> code{guarded(branch(0, 3), 0), instruction(kIsetp), instruction(kFsel)};
  code.insert(code.end(), 16, exponential());
  CHECK(only_loop(looped(code)).compares == 1);
  CHECK(only_loop(looped(code)).unmasked_compares == 0);
  CHECK(only_loop(looped(code)).unmasked_selects == 0);
  // A tile whose exponentials or maxima are left out is no whole one.
  code[2] = exponential();
  CHECK(only_loop(looped(code)).unmasked_compares == 1);
  code[2] = instruction(kMaximum);
  CHECK(only_loop(looped(code)).unmasked_compares == 1);

  code.assign(16, exponential());
  code.insert(code.end(), 4, instruction(kFsel));
  const LoopFigures loop = only_loop(looped(code));
  CHECK(loop.role == Role::attend);
  CHECK(loop.pipe_cycles[static_cast<std::size_t>(Pipe::xu)] == 128);
  REQUIRE(findings(loop, 100).size() == 1);
  CHECK(findings(loop, 100)[0].find("0 compares and 4 selects for 16 exponentials") == 0);
  code.resize(19);
  CHECK(findings(only_loop(looped(code)), 100).empty());
}

TEST_CASE("unpacked arithmetic is found where there is packed arithmetic, and R2UR everywhere") {
  std::vector<Bits> code(16, exponential());
  code.insert(code.end(), 9, instruction(kFfma));
  code.push_back(instruction(kFfma2));
  CHECK(findings(only_loop(looped(code)), 100) ==
        std::vector<std::string>{"9 FFMA, FADD and FMUL beside 1 packed ones"});
  CHECK(findings(only_loop(looped(code)), 90).empty());
  code.insert(code.end(), 17, instruction(kR2ur, 13));
  REQUIRE(findings(only_loop(looped(code)), 90).size() == 1);
  CHECK(findings(only_loop(looped(code)), 90)[0].find("17 R2UR") == 0);
}

TEST_CASE("a wait for products is placed between the exponentials around it") {
  Bits product = instruction(0x9f0);
  Bits wait_one = instruction(0x9c5, 2), wait_all = wait_one;
  wait_one.high |= 1 << 16 | 1 << 8;
  wait_all.high |= 1 << 16;
  const auto with_wait_after = [&](std::size_t exponentials) {
    std::vector<Bits> code{product, wait_one};
    code.insert(code.end(), 16, exponential());
    code.insert(code.begin() + 2 + static_cast<std::ptrdiff_t>(exponentials), wait_all);
    return only_loop(looped(code));
  };
  const LoopFigures moved = with_wait_after(3);
  CHECK(moved.product_waits == std::vector<ProductWait>{{1, 1, 0, 0, 16}, {0, 3 + 3 * 8, 1, 3, 13}});
  REQUIRE(findings(moved, 90).size() == 1);
  CHECK(findings(moved, 90)[0].find("3 come before the wait for these and 13 after it") != std::string::npos);
  CHECK(findings(with_wait_after(16), 90).empty());
  // A group's number other than 7 commits it: without one there is nothing to wait for.
  product.high |= 7 << 20;
  CHECK(with_wait_after(3).product_waits.empty());
}

TEST_CASE("what is no cubin is refused by file and offset") {
  const std::string whole = test::cubin_of({{"entry", looped({instruction(kFfma)}), {}}});
  CHECK(error_of("") == "file.cubin: offset 0: not an ELF file of 64 bits");
  CHECK(error_of("//\n// Generated by NVIDIA NVVM Compiler\n") ==
        "file.cubin: offset 0: not an ELF file of 64 bits");
  CHECK(error_of(whole.substr(0, 40)).find("file.cubin: offset 0: the ELF header of 64 bytes") == 0);
  std::string other = whole;
  other[0x12] = 62;
  CHECK(error_of(other) == "file.cubin: offset 18: machine 62, a cubin has 190");
  CHECK(error_of(test::cubin_of({})) == "file.cubin: offset 0: a cubin without code");
  CHECK(error_of(test::cubin_of({{"entry", {branch(0, 7)}, {}}})) ==
        "file.cubin: offset 64: BRA of entry 'entry' goes to 0x70, outside of it");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(whole.substr(0, size)).find("file.cubin: offset ") == 0);
  }
}

TEST_CASE("flipped bits end in figures or in an error, never in a crash") {
  std::vector<Bits> code{instruction(0x949)};
  for (int i = 1; i < 40; ++i)
    code.push_back(i % 5 == 0 ? guarded(branch(i, i * 7 % 40), 1) : writes(exponential(), 0));
  code.push_back(instruction(kExit));
  const std::string whole =
      test::cubin_of({{"entry", code, {{0, {16, 64, 128}}}}, {"other", code, {{0, {32}}}}});
  std::mt19937 random(18);
  int right = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = whole;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
    const Result<Figures> figures = lint("file.cubin", damaged);
    if (figures) {
      CHECK(!text_of(*figures).empty());
      CHECK(json_of(*figures).front() == '{');
      ++right;
    } else {
      CHECK(figures.status().message().find("file.cubin: offset ") == 0);
      ++refused;
    }
  }
  CHECK(right > 100);
  CHECK(refused > 100);
}

}  // namespace
}  // namespace jfa::lint
