#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tools/lint/lint.h"
#include "tools/table.h"

namespace jfa::lint {
namespace {

using Json = nlohmann::ordered_json;

// Below these nothing is said: a few instructions of a kind belong to the loop's own bookkeeping.
constexpr int kFewScalars = 8;
constexpr int kFewDescriptorMoves = 16;
constexpr int kFirstPackedCapability = 100;  // FFMA2 and the like

constexpr Pipe kAllPipes[] = {Pipe::fma,           Pipe::alu,    Pipe::xu,   Pipe::lsu,
                              Pipe::tensor_memory, Pipe::tensor, Pipe::bulk, Pipe::sync,
                              Pipe::uniform,       Pipe::branch, Pipe::other};
static_assert(std::size(kAllPipes) == kPipeCount);

int of(const std::array<int, kPipeCount>& by_pipe, Pipe pipe) {
  return by_pipe[static_cast<std::size_t>(pipe)];
}

std::string unknown_text(const std::map<std::string, int>& unknown) {
  std::string text;
  for (const auto& [opcode, count] : unknown)
    text += fmt::format("{}{} ({} times)", text.empty() ? "" : ", ", opcode, count);
  return text;
}

// "12/24": instructions, and cycles where there is a model of them.
std::string pipe_cell(const LoopFigures& loop, Pipe pipe) {
  const int cycles = of(loop.pipe_cycles, pipe);
  const int count = of(loop.by_pipe, pipe);
  if (count == 0) return "-";
  return cycles == 0 ? fmt::format("{}", count) : fmt::format("{}/{}", count, cycles);
}

std::string text_of(const EntryFigures& entry, int compute_capability) {
  std::string text =
      fmt::format("{}: {} instructions, {} of them in cold code; {} loops, and {} that only wait\n",
                  entry.name, entry.instructions, entry.not_reached, entry.loops.size(), entry.waiting_loops);
  if (entry.irreducible_loops > 0)
    text += fmt::format("  {} loops with two ways in are not listed\n", entry.irreducible_loops);
  if (!entry.unknown.empty()) text += fmt::format("  unknown opcodes: {}\n", unknown_text(entry.unknown));
  std::vector<std::string> head{"  loop", "role", "instructions", "issue"};
  for (const Pipe pipe : kAllPipes) head.emplace_back(to_string(pipe));
  for (const char* name : {"EX2", "packed", "unpacked", "compares", "selects", "waits", "branches", "R2UR"})
    head.emplace_back(name);
  tools::Table table(std::move(head));
  for (const LoopFigures& loop : entry.loops) {
    std::vector<std::string> row{
        fmt::format("  {}{:#x}", std::string(2 * static_cast<std::size_t>(loop.depth - 1), ' '),
                    loop.address),
        std::string(to_string(loop.role)), fmt::format("{}", loop.instructions),
        fmt::format("{}", loop.issue_cycles)};
    for (const Pipe pipe : kAllPipes) row.push_back(pipe_cell(loop, pipe));
    for (const int figure : {loop.exponentials, loop.packed, loop.unpacked, loop.compares, loop.selects,
                             loop.scoreboard_waits, loop.branches, loop.to_uniform})
      row.push_back(figure == 0 ? "-" : fmt::format("{}", figure));
    table.add(std::move(row));
  }
  if (!entry.loops.empty()) text += table.text();
  for (const LoopFigures& loop : entry.loops)
    for (const std::string& finding : findings(loop, compute_capability))
      text += fmt::format("  {:#x} {}: {}\n", loop.address, to_string(loop.role), finding);
  return text;
}

void put(Json& json, const char* name, int value) {
  if (value != 0) json[name] = value;
}

Json json_of(const std::array<int, kPipeCount>& by_pipe) {
  Json json = Json::object();
  for (const Pipe pipe : kAllPipes)
    if (of(by_pipe, pipe) != 0) json[std::string(to_string(pipe))] = of(by_pipe, pipe);
  return json;
}

Json json_of(const LoopFigures& loop) {
  Json json{{"role", to_string(loop.role)},
            {"depth", loop.depth},
            {"instructions", loop.instructions},
            {"issue_cycles", loop.issue_cycles},
            {"by_pipe", json_of(loop.by_pipe)}};
  if (const Json cycles = json_of(loop.pipe_cycles); !cycles.empty()) json["pipe_cycles"] = cycles;
  if (!loop.unknown.empty()) json["unknown"] = loop.unknown;
  put(json, "exponentials", loop.exponentials);
  put(json, "packed", loop.packed);
  put(json, "unpacked", loop.unpacked);
  put(json, "compares", loop.compares);
  put(json, "selects", loop.selects);
  put(json, "unmasked_compares", loop.unmasked_compares);
  put(json, "unmasked_selects", loop.unmasked_selects);
  put(json, "scoreboard_waits", loop.scoreboard_waits);
  put(json, "branches", loop.branches);
  put(json, "r2ur", loop.to_uniform);
  put(json, "tensor_loads", loop.tensor_loads);
  put(json, "lone_tensor_loads", loop.lone_tensor_loads);
  put(json, "tensor_stores", loop.tensor_stores);
  for (const ProductWait& wait : loop.product_waits)
    json["product_waits"].push_back({{"groups_left", wait.groups_left},
                                     {"cycles_behind", wait.cycles_behind},
                                     {"earlier_waits", wait.earlier_waits},
                                     {"exponentials_between", wait.exponentials_between},
                                     {"exponentials_behind", wait.exponentials_behind}});
  return json;
}

}  // namespace

std::vector<std::string> findings(const LoopFigures& loop, int compute_capability) {
  std::vector<std::string> found;
  if (!loop.unknown.empty()) found.push_back("unknown opcodes: " + unknown_text(loop.unknown));
  if (loop.lone_tensor_loads > 0)
    found.push_back(
        fmt::format("{} of {} loads of tensor memory are waited for at once, none other in flight",
                    loop.lone_tensor_loads, loop.tensor_loads));
  const bool computes = loop.role == Role::attend || loop.role == Role::unload;
  if (compute_capability >= kFirstPackedCapability && computes && loop.unpacked > kFewScalars)
    found.push_back(fmt::format("{} FFMA, FADD and FMUL beside {} packed ones", loop.unpacked, loop.packed));
  if (loop.role == Role::attend && 4 * loop.unmasked_selects >= loop.exponentials)
    found.push_back(
        fmt::format("{} compares and {} selects for {} exponentials, of a tile without a mask too",
                    loop.unmasked_compares, loop.unmasked_selects, loop.exponentials));
  if (loop.to_uniform > kFewDescriptorMoves)
    found.push_back(
        fmt::format("{} R2UR: descriptors or addresses that are not in uniform registers", loop.to_uniform));
  for (const ProductWait& wait : loop.product_waits) {
    if (wait.earlier_waits > 0 && wait.exponentials_behind > wait.exponentials_between)
      found.push_back(
          fmt::format("of the exponentials behind products that an earlier wait leaves on their way, {} come "
                      "before the wait for these and {} after it: the compiler moved it up",
                      wait.exponentials_between, wait.exponentials_behind));
  }
  return found;
}

std::string text_of(const Figures& figures) {
  std::string text =
      "From the machine code, nothing measured. issue: the sum of stall counts of all instructions of a "
      "loop, masked "
      "ways and\nrare ones too (model); fma, alu, xu: instructions/cycles of the pipe of an SM quarter and "
      "one warp "
      "(model).\n";
  for (const EntryFigures& entry : figures.entries) text += "\n" + text_of(entry, figures.compute_capability);
  return text;
}

std::string json_of(const Figures& figures) {
  std::string text;
  for (const EntryFigures& entry : figures.entries) {
    Json of_entry{{"instructions", entry.instructions}};
    put(of_entry, "waiting_loops", entry.waiting_loops);
    put(of_entry, "irreducible_loops", entry.irreducible_loops);
    if (!entry.unknown.empty()) of_entry["unknown"] = entry.unknown;
    std::string loops;
    for (const LoopFigures& loop : entry.loops)
      if (loop.role != Role::other) loops += (loops.empty() ? "\n  " : ",\n  ") + json_of(loop).dump();
    std::string line = of_entry.dump();
    line.insert(line.size() - 1, fmt::format(",\"loops\":[{}]", loops));
    text += fmt::format("{}\n {}: {}", text.empty() ? "" : ",", Json(entry.name).dump(), line);
  }
  return "{" + text + "\n}";
}

}  // namespace jfa::lint
