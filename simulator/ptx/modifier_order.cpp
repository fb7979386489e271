#include "simulator/ptx/modifier_order.h"

#include <algorithm>
#include <array>
#include <utility>

namespace jfa::simulator {
namespace {

struct Name {
  std::string_view opcode;
  std::vector<std::string_view> words;
};

// The words that may continue an opcode to an instruction's name.
const std::vector<std::string_view>& name_words(std::string_view opcode) {
  static const std::vector<Name> names = {
      {"bar", {"cta", "warp", "sync", "arrive", "red"}},
      {"barrier", {"cta", "cluster", "sync", "arrive", "wait", "red"}},
      {"brx", {"idx"}},
      {"clusterlaunchcontrol", {"try_cancel", "query_cancel", "async"}},
      {"cp",
       {"async", "bulk", "tensor", "reduce", "prefetch", "commit_group", "wait_group", "wait_all", "mbarrier",
        "arrive"}},
      {"createpolicy", {"fractional", "range", "cvt"}},
      {"cvta", {"to"}},
      {"div", {"full"}},
      {"dp2a", {"lo", "hi"}},
      {"fence", {"proxy"}},
      {"mad", {"lo", "hi", "wide"}},
      {"mad24", {"lo", "hi"}},
      {"madc", {"lo", "hi"}},
      {"mbarrier",
       {"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait",
        "parity", "pending_count"}},
      {"mul", {"lo", "hi", "wide"}},
      {"mul24", {"lo", "hi"}},
      {"red", {"async"}},
      {"setmaxnreg", {"inc", "dec"}},
      {"shf", {"l", "r"}},
      {"st", {"async", "bulk"}},
      {"tcgen05",
       {"alloc", "dealloc", "relinquish_alloc_permit", "ld", "st", "mma", "ws", "cp", "shift", "commit",
        "wait::ld", "wait::st", "fence::before_thread_sync", "fence::after_thread_sync"}},
      {"tensormap", {"replace", "cp_fenceproxy"}},
      {"wgmma", {"fence", "mma_async", "commit_group", "wait_group"}},
  };
  static const std::vector<std::string_view> none;
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const Name& n) { return n.opcode == opcode; });
  return found == names.end() ? none : found->words;
}

template <class Container>
bool contains(const Container& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool skip_digits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(end);
  return end > 0;
}

bool skip(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// s32, bf16x2, e4m3, ue8m0x2, b6x16_p32, pred …
bool is_type(std::string_view word) {
  constexpr std::array<std::string_view, 4> kOthers{"pred", "b8x16", "b6x16_p32", "b4x16_p64"};
  if (contains(kOthers, word)) return true;
  constexpr std::array<std::string_view, 7> kStems{"ue", "bf", "tf", "b", "s", "u", "f"};
  const bool has_stem =
      skip(word, "e") ||
      std::any_of(kStems.begin(), kStems.end(), [&](std::string_view stem) { return skip(word, stem); });
  if (!has_stem || !skip_digits(word)) return false;
  if (skip(word, "m") && !skip_digits(word)) return false;
  return word.empty() || word == "x2" || word == "x4";
}

}  // namespace

WrittenModifiers::Sequence WrittenModifiers::sequence_of(std::string_view word) {
  constexpr std::array<std::string_view, 8> kSpaces{"global", "shared", "shared::cta",  "shared::cluster",
                                                    "local",  "param",  "param::entry", "const"};
  if (is_type(word)) return Sequence::kType;
  if (contains(kSpaces, word)) return Sequence::kSpace;
  if (word == "row" || word == "col") return Sequence::kLayout;
  return word.starts_with("L2::evict_") ? Sequence::kEviction : Sequence::kNone;
}

WrittenModifiers::WrittenModifiers(std::string_view opcode, std::vector<std::string_view> words)
    : words_(std::move(words)) {
  const std::vector<std::string_view>& name = name_words(opcode);
  bool in_name = true;
  for (const std::string_view word : words_) {
    const bool is_name = contains(name, word);
    sequences_.push_back(is_name ? Sequence::kName : sequence_of(word));
    in_name = in_name && is_name;
    if (is_name && !in_name) begin_with_name_ = false;
  }
}

// Gives each group of a row one of the modifiers, from the left.
struct WrittenModifiers::Search {
  const WrittenModifiers& written;
  const std::vector<std::vector<std::string>>& groups;
  std::vector<std::string_view>& matched;
  std::vector<std::string_view> current;
  std::vector<bool> used;
  std::size_t used_count = 0;
  int ways = 0;

  // Whether the modifier is the next one of its sequence.
  bool is_next(std::size_t index) const {
    if (written.sequences_[index] == Sequence::kNone) return true;
    for (std::size_t i = 0; i < index; ++i)
      if (!used[i] && written.sequences_[i] == written.sequences_[index]) return false;
    return true;
  }

  void fill(std::size_t group) {
    if (ways > 1) return;
    if (group == groups.size()) {
      if (used_count == used.size() && ways++ == 0) matched = current;
      return;
    }
    if (used.size() - used_count > groups.size() - group) return;
    const std::vector<std::string>& choices = groups[group];
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i] || written.words_[i].empty() || !is_next(i)) continue;
      const auto choice = std::find(choices.begin(), choices.end(), written.words_[i]);
      if (choice == choices.end()) continue;
      used[i] = true, ++used_count;
      current[group] = *choice;
      fill(group + 1);
      used[i] = false, --used_count;
    }
    current[group] = {};
    if (contains(choices, std::string_view())) fill(group + 1);
  }
};

int WrittenModifiers::ways(const std::vector<std::vector<std::string>>& groups,
                           std::vector<std::string_view>& matched) const {
  if (words_.size() > groups.size()) return 0;
  Search search{*this, groups, matched, std::vector<std::string_view>(groups.size()),
                std::vector<bool>(words_.size())};
  search.fill(0);
  return search.ways;
}

}  // namespace jfa::simulator
