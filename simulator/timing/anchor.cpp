#include "simulator/timing/anchor.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace jfa::simulator::timing {
namespace {

struct AnchorRow {
  std::string_view prefix;  // of the statement, behind its guard
  Anchor anchor;
};

// The first that fits counts.
constexpr AnchorRow kAnchorRows[] = {
    {"tcgen05.ld.", Anchor::tensor_load},
    {"tcgen05.st.", Anchor::tensor_store},
    {"tcgen05.mma.", Anchor::product},
    {"tcgen05.commit.", Anchor::commit},
    {"mbarrier.try_wait", Anchor::mbarrier_wait},
    {"mbarrier.test_wait", Anchor::mbarrier_wait},
    {"mbarrier.pending_count", Anchor::none},
    {"mbarrier.inval", Anchor::none},
    {"mbarrier.", Anchor::mbarrier},
    {"barrier.cluster.arrive", Anchor::cluster_arrive},
    {"barrier.cluster.wait", Anchor::cluster_wait},
    {"bar.warp.sync", Anchor::none},
    {"bar.", Anchor::barrier},
    {"barrier.", Anchor::barrier},
    {"cp.async.bulk.commit_group", Anchor::copy_commit},
    {"cp.async.bulk.wait_group", Anchor::copy_wait},
    {"cp.async.bulk.prefetch", Anchor::none},
    {"cp.reduce.async.bulk.", Anchor::copy_out},
    {"setmaxnreg.", Anchor::registers},
    {"atom.", Anchor::atomic},
    {"red.", Anchor::atomic},
};

constexpr std::string_view kUnmodelled[] = {"wgmma.", "mma.", "tcgen05.cp.", "tcgen05.shift."};

// Without `@p` in front.
std::string_view without_guard(std::string_view statement) {
  if (!statement.starts_with('@')) return statement;
  const std::size_t space = statement.find_first_of(" \t");
  return space == statement.npos ? std::string_view{} : statement.substr(space + 1);
}

// The number behind a mark, as in ".x32"; 1 without the mark.
std::uint32_t number_behind(std::string_view text, std::string_view mark) {
  for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + 1)) {
    std::uint32_t value = 0;
    const char* begin = text.data() + at + mark.size();
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
    if (error == std::errc() && end != begin) return value;
  }
  return 1;
}

}  // namespace

Anchor anchor_of(std::string_view statement) {
  const std::string_view text = without_guard(statement);
  if (text.starts_with("cp.async.bulk.") && !text.starts_with("cp.async.bulk.commit") &&
      !text.starts_with("cp.async.bulk.wait") && !text.starts_with("cp.async.bulk.prefetch"))
    return text.substr(0, text.find_first_of(" \t")).find(".bulk_group") != text.npos ? Anchor::copy_out
                                                                                      : Anchor::copy_in;
  for (const AnchorRow& row : kAnchorRows)
    if (text.starts_with(row.prefix)) return row.anchor;
  return Anchor::none;
}

bool realizes(const machine_code::Instruction& instruction, Anchor anchor) {
  const auto is_one_of = [&](auto... names) { return (instruction.is(names) || ...); };
  switch (anchor) {
    case Anchor::none:
      return false;
    case Anchor::tensor_load:
      return instruction.is("LDTM");
    case Anchor::tensor_store:
      return instruction.is("STTM");
    case Anchor::product:
      return instruction.is("UTC*MMA");
    case Anchor::commit:
      return instruction.is("UTCBAR");
    case Anchor::mbarrier:
      return instruction.is("SYNCS");
    case Anchor::mbarrier_wait:
      return instruction.is("SYNCS.PHASECHK");
    case Anchor::barrier:
      return instruction.is("BAR");
    case Anchor::cluster_arrive:
      return instruction.is("UCGABAR_ARV");
    case Anchor::cluster_wait:
      return instruction.is("UCGABAR_WAIT");
    case Anchor::copy_in:
      return is_one_of("UTMALDG", "UBLKCP");
    case Anchor::copy_out:
      return is_one_of("UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED");
    case Anchor::copy_commit:
      return instruction.is("UTMACMDFLUSH");
    case Anchor::copy_wait:
      return instruction.is("DEPBAR");
    case Anchor::registers:
      return instruction.is("USETMAXREG");
    case Anchor::atomic:
      return is_one_of("ATOMG", "REDG", "ATOMS");
  }
  return false;
}

bool is_indispensable(Anchor anchor) {
  switch (anchor) {
    case Anchor::tensor_load:
    case Anchor::tensor_store:
    case Anchor::product:
    case Anchor::commit:
    case Anchor::mbarrier:
    case Anchor::mbarrier_wait:
    case Anchor::barrier:
    case Anchor::cluster_arrive:
    case Anchor::cluster_wait:
    case Anchor::copy_in:
    case Anchor::copy_out:
      return true;
    default:
      return false;
  }
}

bool accesses_shared(std::string_view statement) {
  const std::string_view text = without_guard(statement);
  return (text.starts_with("ld.") || text.starts_with("st.")) &&
         text.substr(0, text.find_first_of(" \t")).find(".shared") != text.npos;
}

bool realizes_access(const machine_code::Instruction& instruction) {
  const auto is_one_of = [&](auto... names) { return (instruction.is(names) || ...); };
  return is_one_of("LDS", "STS", "LD", "ST", "STAS", "LDSM", "STSM");
}

std::string_view unmodelled(std::string_view statement) {
  const std::string_view text = without_guard(statement);
  for (const std::string_view prefix : kUnmodelled)
    if (text.starts_with(prefix)) return text.substr(0, text.find_first_of(" \t"));
  return {};
}

std::uint32_t bytes_of_warp(std::string_view statement) {
  const std::string_view text = without_guard(statement);
  const std::string_view name = text.substr(0, text.find_first_of(" \t"));
  constexpr std::uint32_t kLanes = 32;
  if (name.starts_with("tcgen05.")) {
    // Words a lane and repetition, by shape.
    const std::uint32_t words = name.find("16x256b") != name.npos   ? 4
                                : name.find("16x128b") != name.npos ? 2
                                                                    : 1;
    return number_behind(name, ".x") * words * 4 * kLanes;
  }
  const std::uint32_t elements = number_behind(name, ".v");
  const std::size_t type = name.rfind('.');
  const std::uint32_t bits = type == name.npos || type + 2 > name.size() ? 32 : [&] {
    std::uint32_t value = 32;
    std::from_chars(name.data() + type + 2, name.data() + name.size(), value);
    return value;
  }();
  return elements * bits / 8 * kLanes;
}

}  // namespace jfa::simulator::timing
