#include "simulator/machine/recorder.h"

#include <algorithm>
#include <array>
#include <bit>

namespace jfa::simulator::timing {

std::uint32_t linear_index(const Cta& cta) {
  const Dim3& grid = cta.machine().config().grid;
  const Dim3& index = cta.index();
  return (index.z * grid.y + index.y) * grid.x + index.x;
}

RecordedWarp* Recorder::find(const Cta* cta, int warp) {
  if (cta == nullptr || warp < 0) return nullptr;
  const std::uint32_t index = linear_index(*cta);
  if (index >= most_ctas_) return nullptr;
  RecordedCta& recorded = ctas_[index];
  if (recorded.warps.empty()) {
    recorded.index = index;
    recorded.rank = cta->rank();
    recorded.sm = cta->sm().index();
    recorded.warps.resize(static_cast<std::size_t>((cta->threads() + kWarpSize - 1) / kWarpSize));
  }
  return &recorded.warps[static_cast<std::size_t>(warp)];
}

void Recorder::begin(const Warp& warp, std::uint32_t pc, LaneMask active) {
  RecordedWarp* recorded = find(&warp.cta(), warp.index());
  if (recorded == nullptr) return;
  recorded->instructions.push_back(pc);
  recorded->lanes.push_back(static_cast<std::uint8_t>(std::popcount(active)));
}

void Recorder::take_back(const Warp& warp) {
  RecordedWarp* recorded = find(&warp.cta(), warp.index());
  if (recorded == nullptr) return;
  recorded->instructions.pop_back();
  recorded->lanes.pop_back();
  while (!recorded->details.empty() && recorded->details.back().at >= recorded->instructions.size())
    recorded->details.pop_back();
}

void Recorder::add(const ProgramPoint& point, Detail detail) {
  RecordedWarp* recorded = find(point.cta, point.warp);
  if (recorded == nullptr || recorded->instructions.empty()) return;
  detail.at = static_cast<std::uint32_t>(recorded->instructions.size()) - 1;
  if (!recorded->details.empty()) {
    // The lanes of a warp arrive one by one; of a copy that all of them start the machine makes one.
    const Detail& last = recorded->details.back();
    if (last.at == detail.at && last.kind == detail.kind && last.phase == detail.phase &&
        detail.kind != Detail::Kind::product)
      return;
  }
  recorded->details.push_back(detail);
}

namespace {

Detail of_phase(Detail::Kind kind, const Cta& owner, std::uint32_t object, std::uint64_t number) {
  Detail detail;
  detail.kind = kind;
  detail.phase = {linear_index(owner), object, number};
  return detail;
}

}  // namespace

void Recorder::arrived(const ProgramPoint& point, const Cta& owner, std::uint32_t object,
                       std::uint64_t number) {
  add(point, of_phase(Detail::Kind::arrive, owner, object, number));
}

void Recorder::waited(const ProgramPoint& point, const Cta& owner, std::uint32_t object,
                      std::uint64_t number) {
  add(point, of_phase(Detail::Kind::wait, owner, object, number));
}

void Recorder::copies_in(const ProgramPoint& point, const Cta& owner, std::uint32_t object,
                         std::uint64_t number, std::uint32_t bytes) {
  Detail detail = of_phase(Detail::Kind::transaction, owner, object, number);
  detail.bytes = bytes;
  detail.first_touch = first_touch_;
  add(point, detail);
}

void Recorder::copies_out(const ProgramPoint& point, std::uint32_t bytes) {
  Detail detail;
  detail.kind = Detail::Kind::store;
  detail.bytes = bytes;
  add(point, detail);
}

void Recorder::reads_global(const ProgramPoint&, std::uint64_t place) {
  first_touch_ = touched_.insert(place).second;
}

// Shared memory has 32 banks of four bytes: words of one bank take a round each, equal ones share it.
void Recorder::accesses_shared(const ProgramPoint& point, LaneMask active,
                               const std::uint64_t (&addresses)[kWarpSize], std::uint32_t bytes,
                               bool cluster) {
  if (find(point.cta, point.warp) == nullptr) return;
  constexpr std::uint32_t kBanks = 32, kWordBytes = 4;
  std::array<std::vector<std::uint64_t>, kBanks> words;
  Detail detail;
  detail.kind = Detail::Kind::access;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((active >> lane & 1) == 0) continue;
    const std::uint64_t first = addresses[lane] / kWordBytes;
    for (std::uint64_t word = first; word * kWordBytes < addresses[lane] + bytes; ++word) {
      auto& bank = words[word % kBanks];
      if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
    }
    detail.remote |= cluster && (addresses[lane] >> kSharedRankShift & 0xff) != point.cta->rank();
  }
  std::size_t rounds = 1;
  for (const auto& bank : words) rounds = std::max(rounds, bank.size());
  detail.bytes = static_cast<std::uint32_t>(rounds) * kBanks * kWordBytes;
  add(point, detail);
}

void Recorder::multiplies(const ProgramPoint& point, Detail product) {
  product.kind = Detail::Kind::product;
  add(point, product);
}

}  // namespace jfa::simulator::timing
