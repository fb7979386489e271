// The timing model's parts, by cubins and recordings written by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "machine_code/line_table.h"
#include "simulator/timing/anchor.h"
#include "simulator/timing/constants.h"
#include "simulator/timing/matcher.h"
#include "simulator/timing/sm_model.h"
#include "simulator/timing/tensor_pipe.h"
#include "tests/lint/code.h"

namespace jfa::simulator::timing {
namespace {

using test::Bits, test::branch, test::guarded, test::instruction, test::waits_for, test::writes;

constexpr unsigned kExit = 0x94d, kFfma2 = 0x249, kMufu = 0x308, kIsetp = 0x20c, kArrive = 0x9a7,
                   kPoll = 0x5a7;

// Statements of PTX, and the machine code made of them.
struct Code {
  Entry entry;
  MachineEntry machine;
  std::string cubin;
};

struct Line {
  Bits bits;
  std::string statement;  // "": a statement that has nothing to say
};

std::unique_ptr<Code> code_of(const std::vector<Line>& lines) {
  auto code = std::make_unique<Code>();
  std::vector<Bits> bits;
  for (const Line& line : lines) {
    bits.push_back(line.bits);
    const auto index = static_cast<std::uint32_t>(code->entry.statements.size());
    code->entry.statements.push_back(
        {line.statement.empty() ? "mov.b32 %r1, 0;" : line.statement, 10 + static_cast<int>(index), 1, 0});
    Instruction in;
    in.statement = index;
    code->entry.code.push_back(in);
  }
  code->cubin = test::cubin_of({{"entry", bits, {}}});
  code->entry.name = "entry";
  const auto cubin = machine_code::read_cubin("cubin", code->cubin).value();
  MachineEntry& machine = code->machine;
  machine.name = "entry";
  machine.code = machine_code::decode("cubin", cubin.entries[0]).value();
  machine.graph = machine_code::flow_graph(machine.code, {});
  for (std::uint32_t i = 0; i < machine.code.size(); ++i) {
    machine.ptx_lines.push_back(code->entry.statements[i].ptx_line);
    machine.statements.push_back(i);
    const Anchor anchor = anchor_of(code->entry.statements[i].text);
    machine.anchors.push_back(realizes(machine.code[i], anchor) ? anchor : Anchor::none);
  }
  return code;
}

RecordedWarp recorded(const std::vector<std::uint32_t>& statements) {
  RecordedWarp warp;
  warp.instructions = statements;
  warp.lanes.assign(statements.size(), 32);
  return warp;
}

Way straight(std::size_t count) {
  Way way;
  for (std::uint32_t i = 0; i < count; ++i) way.steps.emplace_back(i, i);
  return way;
}

// Cycles until the last of some warps, which do the same, has left.
double cycles_of(const std::vector<Line>& lines, const std::vector<int>& warps) {
  const auto code = code_of(lines);
  const Way way = straight(lines.size());
  const RecordedWarp what = recorded({});
  std::vector<WarpWork> work;
  for (const int warp : warps) work.push_back({{0, warp}, &way, &what, 0});
  return play(code->entry, code->machine, work, constants(ConstantSet::nominal)).value().cycles;
}

}  // namespace

TEST_CASE("products take what a B200 was measured to take") {
  struct Point {
    int m, n, cta_group;
    bool tensor;
    ProductShape::Kind kind;
    double latency, interval;
  };
  using enum ProductShape::Kind;
  // SemiAnalysisAI/microbench-blackwell 17c0d5d, umma_latency and umma_throughput: BF16, S8, MXF8.
  constexpr Point kPoints[] = {
      {64, 64, 1, false, floating, 152, 32.5125},  {64, 256, 1, false, floating, 248, 128.5197},
      {128, 64, 1, false, floating, 168, 48.5163}, {128, 128, 1, false, floating, 200, 64.5817},
      {64, 64, 1, true, floating, 136, 32.4518},   {128, 256, 1, true, floating, 232, 128.4518},
      {128, 64, 2, false, floating, 168, 25.6144}, {128, 256, 2, false, floating, 224, 64.6744},
      {256, 64, 2, false, floating, 197, 43.6481}, {256, 256, 2, false, floating, 293, 128.6939},
      {128, 128, 2, true, floating, 173, 32.5779}, {256, 128, 2, true, floating, 197, 64.5671},
      {128, 128, 1, false, integer, 199, 64.302},  {256, 128, 2, true, integer, 194, 64.2917},
      {128, 128, 1, true, scaled, 171, 64.247},    {256, 256, 2, false, scaled, 296, 128.3647},
  };
  for (const Point& point : kPoints) {
    CAPTURE(point.m);
    CAPTURE(point.n);
    CAPTURE(point.cta_group);
    const ProductTime time = product_time({point.m, point.n, point.cta_group, point.tensor, point.kind}, 128);
    CHECK(time.latency == doctest::Approx(point.latency).epsilon(0.01));
    CHECK(time.interval == doctest::Approx(point.interval).epsilon(0.02));
  }
}

TEST_CASE("constants lie in their ranges, and the docs name the frozen set") {
  for (const ConstantRow& row : constant_rows()) {
    CAPTURE(row.name);
    CHECK((row.low - row.nominal) * (row.nominal - row.high) >= 0);
    CHECK_FALSE(row.source.empty());
  }
  std::ifstream file("docs/timing.md");
  std::stringstream text;
  text << file.rdbuf();
  INFO("docs/timing.md has the errors that were found with constants ", constants_hash(),
       "; after a change they are to be found anew");
  CHECK(text.str().find(constants_hash()) != std::string::npos);
}

TEST_CASE("anchors are told by how PTX is written") {
  CHECK(anchor_of("@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p2;") == Anchor::product);
  CHECK(anchor_of("mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;") == Anchor::mbarrier_wait);
  CHECK(anchor_of("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r1, %r2}], [%r3];") ==
        Anchor::copy_out);
  CHECK(anchor_of("cp.async.bulk.commit_group;") == Anchor::copy_commit);
  CHECK(anchor_of("bar.warp.sync -1;") == Anchor::none);
  CHECK(bytes_of_warp("tcgen05.ld.sync.aligned.32x32b.x32.b32 {%r1}, [%r2];") == 32 * 32 * 4);
  CHECK(bytes_of_warp("ld.shared.v4.u32 {%r1,%r2,%r3,%r4}, [%r5];") == 512);
  CHECK(unmodelled("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1};") ==
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16");
  CHECK(unmodelled("add.s32 %r1, %r2, %r3;").empty());
}

TEST_CASE("a line program gives every instruction its line") {
  // Of two instructions of line 5 and one of line 3, the last by a special opcode.
  const unsigned char program[] = {2,  0,                                     // version
                                   16, 0,  0,    0,                           // the prologue's rest
                                   1,  1,  0xfb, 14,   10,                    // as ptxas has them
                                   0,  1,  1,    1,    1,  0, 0, 0, 1,        // operands
                                   0,  0,                                     // no directories, no files
                                   0,  9,  2,    0,    0,  0, 0, 0, 0, 0, 0,  // set the address
                                   3,  4,  1,                                 // line 5, a row
                                   2,  32, 3,    0x7e, 1,   // 32 bytes on, two lines back, a row
                                   2,  16, 0,    1,    1};  // the end
  std::string section(4, '\0');
  section.append(reinterpret_cast<const char*>(program), sizeof(program));
  section[0] = static_cast<char>(sizeof(program));
  const auto sequences = machine_code::read_line_program(section);
  REQUIRE(sequences.ok());
  REQUIRE(sequences->size() == 1);
  CHECK(machine_code::lines_of((*sequences)[0], 3) == std::vector<int>{5, 5, 3});
  section[4] = 5;
  CHECK(machine_code::read_line_program(section).status().message().find("DWARF 2") != std::string::npos);
}

TEST_CASE("pipes are shared by the warps of a quarter, and by no others") {
  std::vector<Line> exponentials(10, Line{instruction(kMufu), {}});
  exponentials.push_back({instruction(kExit), {}});
  const double alone = cycles_of(exponentials, {0});
  CHECK(alone == doctest::Approx(9 * 8 + 1));
  CHECK(cycles_of(exponentials, {0, 1, 2, 3}) == doctest::Approx(alone));
  CHECK(cycles_of(exponentials, {0, 4}) == doctest::Approx(19 * 8 + 1));

  // Stall counts, and a packed form that takes the pipe for two cycles.
  CHECK(cycles_of({{instruction(kFfma2, 1), {}}, {instruction(kFfma2, 1), {}}, {instruction(kExit), {}}},
                  {0}) == 3);
  CHECK(cycles_of({{instruction(kFfma2, 7), {}}, {instruction(kExit), {}}}, {0}) == 7);
  // A scoreboard: the result of MUFU.
  CHECK(cycles_of({{writes(instruction(kMufu), 2), {}}, {waits_for(instruction(kExit), 2), {}}}, {0}) ==
        constants(ConstantSet::nominal).mufu_latency);
}

TEST_CASE("a warp that waits for an mbarrier goes on after the arrival") {
  const auto code =
      code_of({{instruction(kMufu, 15), {}},
               {instruction(kArrive), "mbarrier.arrive.shared::cta.b64 _, [%r1];"},
               {writes(instruction(kPoll), 0), "mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], 0;"},
               {waits_for(instruction(kExit), 0), {}}});
  Way arrives, waits;
  arrives.steps = {{0, 0}, {1, 1}, {3, Step::kNoEvent}};
  waits.steps = {{2, 0}, {3, Step::kNoEvent}};
  RecordedWarp arriving = recorded({0, 1}), waiting = recorded({2});
  Detail detail;
  detail.phase = {0, 1024, 0};
  detail.at = 1;
  arriving.details.push_back(detail);
  detail.at = 0;
  detail.kind = Detail::Kind::wait;
  waiting.details.push_back(detail);
  const std::vector<WarpWork> both{{{0, 0}, &arrives, &arriving, 0}, {{0, 1}, &waits, &waiting, 0}};
  for (const ConstantSet set : kConstantSets) {
    const Constants c = constants(set);
    CHECK(play(code->entry, code->machine, both, c).value().cycles ==
          15 + c.mbarrier_arrive_latency + c.mbarrier_wake_latency);
  }
  // Nobody arrives.
  RecordedWarp nobody = recorded({2});
  nobody.details = waiting.details;
  detail.kind = Detail::Kind::arrive;
  detail.at = 1;
  nobody.details.push_back(detail);
  const auto stuck =
      play(code->entry, code->machine, {{{0, 1}, &waits, &nobody, 0}}, constants(ConstantSet::nominal));
  CHECK(stuck.status().message().find("no warp can go on") != std::string::npos);
}

TEST_CASE("the way through the machine code is the one that the warp went in PTX, or an error") {
  const auto code = code_of({{instruction(kIsetp), {}},
                             {guarded(branch(1, 3), 0), "@%p1 bra $L1;"},
                             {instruction(kArrive), "mbarrier.arrive.shared::cta.b64 _, [%r1];"},
                             {instruction(kArrive), "mbarrier.arrive.shared::cta.b64 _, [%r2];"},
                             {instruction(kExit), "ret;"}});
  Matcher matcher(code->entry, code->machine);
  const auto steps = [&](const std::vector<std::uint32_t>& statements) {
    std::vector<std::uint32_t> result;
    const Result<Way> way = matcher.match(recorded(statements), "warp 0");
    REQUIRE(way.ok());
    for (const Step& step : way->steps) result.push_back(step.instruction);
    return result;
  };
  CHECK(steps({0, 1, 3, 4}) == std::vector<std::uint32_t>{0, 1, 3, 4});
  CHECK(steps({0, 1, 2, 3, 4}) == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
  const std::string message = matcher.match(recorded({0, 1, 3, 2, 4}), "warp 0").status().message();
  CHECK(message.find("behind PTX line 13 (mbarrier.arrive") != std::string::npos);
  CHECK(message.find("to PTX line 12 (mbarrier.arrive") != std::string::npos);
}

}  // namespace jfa::simulator::timing
