#include "simulator/async/bulk_copy_groups.h"

#include <algorithm>
#include <utility>

namespace jfa::simulator {

void BulkGroups::add(int thread, std::shared_ptr<BulkProgress> progress) {
  threads_[static_cast<std::size_t>(thread)].open.push_back(std::move(progress));
}

void BulkGroups::commit(int thread) {
  Thread& state = threads_[static_cast<std::size_t>(thread)];
  state.committed.push_back(std::exchange(state.open, {}));
}

bool BulkGroups::finished(int thread, std::uint32_t keep, bool read_only) const {
  const auto& committed = threads_[static_cast<std::size_t>(thread)].committed;
  for (std::size_t i = 0; i + keep < committed.size(); ++i)
    for (const auto& operation : committed[i])
      if (!(read_only ? operation->source_read : operation->done)) return false;
  return true;
}

void BulkGroups::observe(int thread, std::uint32_t keep, bool read_only, const Epoch& event) {
  auto& committed = threads_[static_cast<std::size_t>(thread)].committed;
  const std::size_t observed = committed.size() - std::min<std::size_t>(keep, committed.size());
  for (std::size_t i = 0; i < observed; ++i)
    for (const auto& operation : committed[i]) {
      operation->flight.end(event);
      if (!read_only) operation->written.end(event);
    }
  // A group that a .read wait has seen stays for a full wait to find, until there is nothing left to wait
  // for.
  const auto over = [&](const auto& operation) {
    return operation->done && (!read_only || operation->written.owner == nullptr);
  };
  for (std::size_t i = 0; i < observed; ++i) {
    const Group& oldest = committed.front();
    if (!std::all_of(oldest.begin(), oldest.end(), over)) break;
    committed.pop_front();
  }
}

std::vector<std::shared_ptr<BulkProgress>> BulkGroups::unobserved(int thread) const {
  const Thread& state = threads_[static_cast<std::size_t>(thread)];
  std::vector<std::shared_ptr<BulkProgress>> all;
  for (const Group& group : state.committed) all.insert(all.end(), group.begin(), group.end());
  all.insert(all.end(), state.open.begin(), state.open.end());
  return all;
}

}  // namespace jfa::simulator
